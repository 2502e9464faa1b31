// exp(x) of vectors of numbers x <= 0.
//
// x = k ln 2 + r with |r| <= ln 2 / 2, then the Taylor polynomial of exp r, whose remainder is below a tenth of an ulp,
// then k is added to the exponent. Errors are below 2 ulp; results below the least normal number are zero.
#pragma once

#include <cmath>

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

template <class T>
struct Exponentials;

template <>
struct Exponentials<float> {
    static constexpr float least = -87.0f;                            // exp of it is a normal number
    static constexpr float ln2[2] = {0x1.62e4p-1f, 0x1.7f7d1cp-20f};  // 15 bits, and the rest
    static constexpr float rounding = 0x1.8p+23f;                     // adding it rounds to an integer
    static constexpr int mantissa = 23, degree = 7;
};

template <>
struct Exponentials<double> {
    static constexpr double least = -708.0;
    static constexpr double ln2[2] = {0x1.62e42feep-1, 0x1.a39ef35793c76p-33};  // 32 bits, and the rest
    static constexpr double rounding = 0x1.8p+52;
    static constexpr int mantissa = 52, degree = 13;
};

constexpr double inverse_factorials[] = {
    1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
    1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};

template <class T>
BOCHNER_INLINE Vec<T> exponential(Vec<T> x) {
    using Constants = Exponentials<T>;
    constexpr double per_ln2 = 0x1.71547652b82fep+0;
    const Vec<T> near = x < Constants::least ? Vec<T>{} + Constants::least : x;  // NaN stays
    const Vec<T> shifted = near * static_cast<T>(per_ln2) + Constants::rounding;
    const Vec<T> k = shifted - Constants::rounding;
    const Vec<T> r = (near - k * Constants::ln2[0]) - k * Constants::ln2[1];
    Vec<T> power = Vec<T>{} + static_cast<T>(inverse_factorials[Constants::degree]);
    BOCHNER_UNROLL
    for (int term = Constants::degree - 1; term >= 0; --term)
        power = power * r + static_cast<T>(inverse_factorials[term]);
    const Vec<T> result = (Vec<T>)((IntVec<T>)power + ((IntVec<T>)shifted << Constants::mantissa));
    return x < Constants::least ? Vec<T>{} : x == x ? result : x;
}

}  // namespace bochner::BOCHNER_LEVEL
