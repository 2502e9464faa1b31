// Sine and cosine of a vector of phases.
//
// Cody-Waite reduction a = k π/2 + r with |r| <= π/4, then minimax polynomials of sin r and cos r, then the
// quadrant k mod 4 swaps and negates. Largest error, with or without FMA: 2 ulp of the result for |a| <=
// 12800, zeros of sine and cosine included (1.4 ulp measured). Beyond, the sinks rewrite the columns of the
// phase by libm in double precision (about 30 ns), so every finite phase is right; NaN and infinities give
// NaN. sin(-0) is +0.
#pragma once

#include <bit>
#include <cmath>
#include <iterator>

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

// k = round(12800 · 2/π) has 13 bits: its product with each part of π/2 but the last is exact.
constexpr double reduction_limit = 12800;

template <class T>
struct Trigonometry;

template <>
struct Trigonometry<float> {
    // π/2 in parts of 11, 11, 11 and 24 bits.
    static constexpr float half_pi[4] = {0x1.92p+0f, 0x1.fb4p-12f, 0x1.444p-24f, 0x1.68c234p-39f};
    // sin r = r + r z S(z) and cos r = 1 - z/2 + z² C(z), z = r²; errors 2^-28 (relative) and 2^-33.
    static constexpr float sine[3] = {-0.16666655242443085f, 0.008332177996635437f, -0.0001951729936990887f};
    static constexpr float cosine[3] = {0.04166664555668831f, -0.001388736767694354f, 2.4438451873720624e-05f};
    static constexpr float rounding = 0x1.8p+23f;  // adding it rounds to an integer, kept in the low bits
};

template <>
struct Trigonometry<double> {
    // π/2 in parts of 33, 33 and 53 bits; errors of the polynomials 2^-58 and 2^-64.
    static constexpr double half_pi[3] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
    static constexpr double sine[6] = {-0x1.5555555555549p-3, 0x1.111111110f881p-7,   -0x1.a01a019c126b4p-13,
                                       0x1.71de357874839p-19, -0x1.ae5e66d4f62cap-26, 0x1.5d932f4b87a56p-33};
    static constexpr double cosine[6] = {0x1.555555555554cp-5,   -0x1.6c16c16c15184p-10, 0x1.a01a019cb26efp-16,
                                         -0x1.27e4f80a7660fp-22, 0x1.1ee9ec47bcd99p-29,  -0x1.8faecf36828dbp-37};
    static constexpr double rounding = 0x1.8p+52;
};

template <class T>
struct SinCos {
    Vec<T> sine, cosine;
};

template <class T, std::size_t n>
BOCHNER_INLINE Vec<T> polynomial(const T (&coefficients)[n], Vec<T> z) {
    Vec<T> sum = z * coefficients[n - 1] + coefficients[n - 2];
    for (std::size_t i = n - 2; i-- > 0;) sum = sum * z + coefficients[i];
    return sum;
}

// Remembers whether any phase was beyond the reduction, NaN and infinities included: integers order like the
// floats they are the bits of, so one subtraction tells.
template <class T>
struct FarPhases {
    IntVec<T> seen = {};

    BOCHNER_INLINE void note(Vec<T> phases) {
        constexpr Integer<T> limit = std::bit_cast<Integer<T>>(static_cast<T>(reduction_limit));
        seen |= limit - ((IntVec<T>)phases & ~sign_bit<T>);
    }
    BOCHNER_INLINE bool any() const {
        Integer<T> all = 0;
        for (std::size_t i = 0; i < lanes<T>; ++i) all |= seen[i];
        return all < 0;
    }
};

// Right for |a| <= reduction_limit only: the caller rewrites the others.
template <class T>
BOCHNER_INLINE SinCos<T> sincos(Vec<T> a) {
    using Constants = Trigonometry<T>;
    constexpr std::size_t n_parts = std::size(Constants::half_pi);
    constexpr int to_sign = 8 * sizeof(T) - 2;  // moves bit 1 of the quadrant to the sign
    const Vec<T> shifted = a * static_cast<T>(0x1.45f306dc9c883p-1) + Constants::rounding;  // a · 2/π
    const IntVec<T> quadrant = (IntVec<T>)shifted;
    const Vec<T> k = shifted - Constants::rounding;
    Vec<T> exact = a;
    for (std::size_t i = 0; i + 2 < n_parts; ++i) exact = exact - k * Constants::half_pi[i];
    const Vec<T> r = exact - k * Constants::half_pi[n_parts - 2];
    // What rounding r lost, and the last part of π/2: without them sine would be off by 2.3 ulp where r >
    // 1/2.
    const Vec<T> rest = ((exact - r) - k * Constants::half_pi[n_parts - 2]) - k * Constants::half_pi[n_parts - 1];

    const Vec<T> z = r * r;
    const Vec<T> s = r + ((r * z) * polynomial<T>(Constants::sine, z) + rest);
    const Vec<T> c = T(1) + z * (T(-0.5) + z * polynomial<T>(Constants::cosine, z));

    const IntVec<T> odd = (quadrant & 1) != 0;
    const IntVec<T> sine_sign = (quadrant << to_sign) & sign_bit<T>;
    const IntVec<T> cosine_sign = ((quadrant + 1) << to_sign) & sign_bit<T>;
    return {(Vec<T>)((IntVec<T>)(odd ? c : s) ^ sine_sign), (Vec<T>)((IntVec<T>)(odd ? s : c) ^ cosine_sign)};
}

}  // namespace bochner::BOCHNER_LEVEL
