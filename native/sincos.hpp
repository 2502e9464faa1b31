// Sine and cosine of a vector of phases.
//
// Cody-Waite reduction a = k π/2 + r with |r| <= π/4, then minimax polynomials of sin r and cos r, then the
// quadrant k mod 4 swaps and negates. Largest error, with or without FMA: 2 ulp of the result for |a| <=
// 12800, zeros of sine and cosine included (1.7 ulp measured). Beyond, the sinks rewrite the columns of the
// phase by libm in double precision (about 30 ns), so every finite phase is right; NaN and infinities give
// NaN. sin(-0) is +0.
#pragma once

#include <bit>
#include <cmath>
#include <iterator>

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

// |k| = |round(a · 2/π)| < far has 13 bits: its product with each part of π/2 but the last is exact.
constexpr double reduction_limit = 12800;
constexpr int far = 1 << 13;

template <class T>
struct Trigonometry;

template <>
struct Trigonometry<float> {
    // π/2 in parts of 11, 11, 11 and 24 bits.
    static constexpr float half_pi[4] = {0x1.92p+0f, 0x1.fb4p-12f, 0x1.444p-24f, 0x1.68c234p-39f};
    // sin r = r + r z S(z) and cos r = 1 - z/2 + z² C(z), z = r²; errors 2^-28 (relative) and 2^-33.
    static constexpr float sine[3] = {-0.16666655242443085f, 0.008332177996635437f, -0.0001951729936990887f};
    static constexpr float cosine[3] = {0.04166664555668831f, -0.001388736767694354f, 2.4438451873720624e-05f};
    // sin(π/2 r) = r S(z) and cos(π/2 r) = 1 + z C(z) for |r| <= 1/2; errors 2^-28 (relative) and 2^-25.
    static constexpr double turn_sine[4] = {1.5707963217083446823, -0.64596346023342800708, 0.079680032770421878155,
                                            -0.0046016578911808581716};
    static constexpr double turn_cosine[3] = {-1.2336979539710584827, 0.25360636192267607046, -0.020426250304301189887};
    // Adding it rounds to an integer, kept in the low bits; `far` more, so that no near one is negative.
    static constexpr float rounding = 0x1.8p+23f + far;
};

template <>
struct Trigonometry<double> {
    // π/2 in parts of 33, 33 and 53 bits; errors of the polynomials 2^-58 and 2^-64.
    static constexpr double half_pi[3] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
    static constexpr double sine[6] = {-0x1.5555555555549p-3, 0x1.111111110f881p-7,   -0x1.a01a019c126b4p-13,
                                       0x1.71de357874839p-19, -0x1.ae5e66d4f62cap-26, 0x1.5d932f4b87a56p-33};
    static constexpr double cosine[6] = {0x1.555555555554cp-5,   -0x1.6c16c16c15184p-10, 0x1.a01a019cb26efp-16,
                                         -0x1.27e4f80a7660fp-22, 0x1.1ee9ec47bcd99p-29,  -0x1.8faecf36828dbp-37};
    // Errors 2^-58 and 2^-64.
    static constexpr double turn_sine[7] = {0x1.921fb54442d18p+0,  -0x1.4abbce625be41p-1, 0x1.466bc67758700p-4,
                                            -0x1.32d2cce2d535dp-8, 0x1.50782fca388fcp-13, -0x1.e30063a00c5e9p-19,
                                            0x1.e3eed5c67a376p-25};
    static constexpr double turn_cosine[7] = {-0x1.3bd3cc9be45dep+0, 0x1.03c1f081b5ab0p-2,   -0x1.55d3c7e3c95bcp-6,
                                              0x1.e1f50683b42adp-11, -0x1.a6d1ecb73ed3fp-16, 0x1.f9cc6acee7764p-22,
                                              -0x1.b26fe81e8021cp-28};
    static constexpr double rounding = 0x1.8p+52 + far;
};

// Remembers whether any phase was beyond the reduction, NaN and infinities included: then a bit above those of
// a near quadrant differs.
template <class T>
struct FarPhases {
    IntVec<T> seen = {};

    BOCHNER_INLINE void note(IntVec<T> quadrant) {
        seen |= quadrant ^ std::bit_cast<Integer<T>>(Trigonometry<T>::rounding - far);
    }
    BOCHNER_INLINE bool any() const {
        Integer<T> all = 0;
        for (std::size_t i = 0; i < lanes<T>; ++i) all |= seen[i];
        return (all & ~Integer<T>(2 * far - 1)) != 0;
    }
};

constexpr double quarter_turns = 0x1.45f306dc9c883p-1;  // in a radian

// Cosines and sines of n vectors, times `scale`. Right for |a| <= reduction_limit only: the caller rewrites the
// others, which `far_phases` notes. Step by step for all vectors, so that they hide each other's latencies.
template <class T, std::size_t n>
BOCHNER_INLINE void sincos(const Vec<T> (&a)[n], T scale, FarPhases<T>& far_phases, Vec<T> (&cosine)[n],
                           Vec<T> (&sine)[n]) {
    using Constants = Trigonometry<T>;
    constexpr std::size_t n_parts = std::size(Constants::half_pi);
    constexpr std::size_t n_terms = std::size(Constants::sine);
    constexpr int to_sign = 8 * sizeof(T) - 2;  // moves bit 1 of the quadrant to the sign
    Vec<T> shifted[n], k[n], r[n], z[n], s[n], c[n];
#define BOCHNER_EACH BOCHNER_UNROLL for (std::size_t i = 0; i < n; ++i)
    BOCHNER_EACH shifted[i] = a[i] * static_cast<T>(quarter_turns) + Constants::rounding;
    BOCHNER_EACH far_phases.note((IntVec<T>)shifted[i]);
    BOCHNER_EACH k[i] = shifted[i] - Constants::rounding;
    BOCHNER_EACH r[i] = a[i];
    BOCHNER_UNROLL
    for (std::size_t part = 0; part + 1 < n_parts; ++part)  // only the last one rounds
        BOCHNER_EACH r[i] = r[i] - k[i] * Constants::half_pi[part];
    BOCHNER_EACH z[i] = r[i] * r[i];

    BOCHNER_EACH s[i] = z[i] * Constants::sine[n_terms - 1] + Constants::sine[n_terms - 2];
    BOCHNER_EACH c[i] = z[i] * Constants::cosine[n_terms - 1] + Constants::cosine[n_terms - 2];
    BOCHNER_UNROLL
    for (std::size_t term = 3; term <= n_terms; ++term) {
        BOCHNER_EACH s[i] = s[i] * z[i] + Constants::sine[n_terms - term];
        BOCHNER_EACH c[i] = c[i] * z[i] + Constants::cosine[n_terms - term];
    }
    BOCHNER_EACH c[i] = c[i] * z[i] + T(-0.5);
    BOCHNER_EACH s[i] = (r[i] * z[i]) * s[i] - k[i] * Constants::half_pi[n_parts - 1];
    BOCHNER_EACH s[i] = r[i] + s[i];
    BOCHNER_EACH c[i] = c[i] * z[i] + T(1);

    BOCHNER_EACH {
        const IntVec<T> quadrant = (IntVec<T>)shifted[i];
        const IntVec<T> odd = (quadrant & 1) != 0;
        const IntVec<T> sine_scale = (IntVec<T>)(Vec<T>{} + scale) ^ ((quadrant << to_sign) & sign_bit<T>);
        const IntVec<T> cosine_scale = odd ? sine_scale ^ sign_bit<T> : sine_scale;
        sine[i] = (odd ? c[i] : s[i]) * (Vec<T>)sine_scale;
        cosine[i] = (odd ? s[i] : c[i]) * (Vec<T>)cosine_scale;
    }
}

// Units of phases: what a sink makes of them.
template <class T>
struct Radians {
    T scale;

    explicit Radians(T scale) : scale(scale) {}
    static double in_radians(double a) { return a; }

    template <std::size_t n>
    BOCHNER_INLINE void operator()(const Vec<T> (&a)[n], FarPhases<T>& far_phases, Vec<T> (&cosine)[n],
                                   Vec<T> (&sine)[n]) const {
        sincos(a, scale, far_phases, cosine, sine);
    }
};

// For phases that carry a rounding error of their own: the reduction is a subtraction, and exact. Given the phase,
// errors are as above. The scale is in the coefficients.
template <class T>
struct QuarterTurns {
    using Constants = Trigonometry<T>;
    static constexpr std::size_t n_sine = std::size(Constants::turn_sine), n_cosine = std::size(Constants::turn_cosine);
    T scale, s_[n_sine], c_[n_cosine];

    BOCHNER_INLINE explicit QuarterTurns(T scale) : scale(scale) {
        for (std::size_t i = 0; i < n_sine; ++i) s_[i] = static_cast<T>(Constants::turn_sine[i] * scale);
        for (std::size_t i = 0; i < n_cosine; ++i) c_[i] = static_cast<T>(Constants::turn_cosine[i] * scale);
    }
    static double in_radians(double a) { return a * 0x1.921fb54442d18p+0; }

    template <std::size_t n>
    BOCHNER_INLINE void operator()(const Vec<T> (&a)[n], FarPhases<T>& far_phases, Vec<T> (&cosine)[n],
                                   Vec<T> (&sine)[n]) const {
        constexpr int to_sign = 8 * sizeof(T) - 2;
        Vec<T> phase[n], shifted[n], r[n], z[n], s[n], c[n];
        BOCHNER_EACH phase[i] = rounded(a[i]);  // sums below, which leave the multipliers free
        BOCHNER_EACH shifted[i] = phase[i] + Constants::rounding;
        BOCHNER_EACH far_phases.note((IntVec<T>)shifted[i]);
        BOCHNER_EACH r[i] = phase[i] - (shifted[i] - Constants::rounding);
        BOCHNER_EACH z[i] = r[i] * r[i];
        BOCHNER_EACH s[i] = z[i] * s_[n_sine - 1] + s_[n_sine - 2];
        BOCHNER_EACH c[i] = z[i] * c_[n_cosine - 1] + c_[n_cosine - 2];
        BOCHNER_UNROLL
        for (std::size_t term = 3; term <= n_sine; ++term) BOCHNER_EACH s[i] = s[i] * z[i] + s_[n_sine - term];
        BOCHNER_UNROLL
        for (std::size_t term = 3; term <= n_cosine; ++term) BOCHNER_EACH c[i] = c[i] * z[i] + c_[n_cosine - term];
        BOCHNER_EACH s[i] = s[i] * r[i];
        BOCHNER_EACH c[i] = c[i] * z[i] + scale;
        BOCHNER_EACH {
            const IntVec<T> quadrant = (IntVec<T>)shifted[i], sign = quadrant << to_sign;
            const IntVec<T> odd = (quadrant & 1) != 0;
            const IntVec<T> cosine_sign = sign ^ (sign << 1);
            sine[i] = (Vec<T>)((IntVec<T>)(odd ? c[i] : s[i]) ^ (sign & sign_bit<T>));
            cosine[i] = (Vec<T>)((IntVec<T>)(odd ? s[i] : c[i]) ^ (cosine_sign & sign_bit<T>));
        }
    }
};
#undef BOCHNER_EACH

}  // namespace bochner::BOCHNER_LEVEL
