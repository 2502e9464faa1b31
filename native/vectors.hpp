// Short vectors and scratch memory, which every other header uses. Intrinsics are in
// `stream`, `square_root` and `repeated` only.
//
// A `Vec<T>` is one register of the level being compiled: 64 bytes under AVX-512 (v4), 32 under AVX2 (v3), 16
// elsewhere. Everything lies in a namespace named after the level, so that the levels can be linked together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.hpp"

#define BOCHNER_INLINE_LAMBDA __attribute__((always_inline))
#define BOCHNER_INLINE inline BOCHNER_INLINE_LAMBDA

// Before a loop over an array of vectors: unrolled, the array lives in registers.
#if defined(__clang__)
#define BOCHNER_UNROLL _Pragma("unroll")
#else
#define BOCHNER_UNROLL _Pragma("GCC unroll 16")
#endif

namespace bochner::BOCHNER_LEVEL {

constexpr std::size_t vector_bytes = BOCHNER_VECTOR_BYTES;

template <class T>
struct VectorTypes;
template <>
struct VectorTypes<float> {
    using Integer = std::int32_t;
    typedef float Vec __attribute__((vector_size(vector_bytes)));
    typedef std::int32_t IntVec __attribute__((vector_size(vector_bytes)));
};
template <>
struct VectorTypes<double> {
    using Integer = std::int64_t;
    typedef double Vec __attribute__((vector_size(vector_bytes)));
    typedef std::int64_t IntVec __attribute__((vector_size(vector_bytes)));
};
template <class T>
using Vec = typename VectorTypes<T>::Vec;
template <class T>
using IntVec = typename VectorTypes<T>::IntVec;
template <class T>
using Integer = typename VectorTypes<T>::Integer;
template <class T>
constexpr std::size_t lanes = vector_bytes / sizeof(T);

#ifdef __AVX512BW__
constexpr bool has_avx512 = true;
#else
constexpr bool has_avx512 = false;
#endif

// Vector registers: 32 of AVX-512 and of AArch64, 16 of AVX2 and SSE.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr std::size_t n_registers = 32;
#else
constexpr std::size_t n_registers = 16;
#endif

#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__)  // the first is not of clang
constexpr bool has_fma = true;
#else
constexpr bool has_fma = false;
#endif

template <class T>
constexpr Integer<T> sign_bit = Integer<T>(1) << (8 * sizeof(T) - 1);

template <class T>
BOCHNER_INLINE Vec<T> load(const T* source) {
    Vec<T> v;
    std::memcpy(&v, source, vector_bytes);
    return v;
}

template <class T>
BOCHNER_INLINE void store(T* target, Vec<T> v) {
    std::memcpy(target, &v, vector_bytes);
}

// A store to a vector boundary that bypasses the caches, where there is one: otherwise every line is read before it
// is written. Needs a fence before others look.
template <class T>
BOCHNER_INLINE void stream(T* target, Vec<T> v) {
#if defined(__AVX512F__)
    _mm512_stream_ps(reinterpret_cast<float*>(target), (__m512)v);
#elif defined(__AVX__)
    _mm256_stream_ps(reinterpret_cast<float*>(target), (__m256)v);
#elif defined(__x86_64__)
    _mm_stream_ps(reinterpret_cast<float*>(target), (__m128)v);
#else
    store(target, v);
#endif
}

// Square roots, correctly rounded. A loop of std::sqrt would look at every number for errno.
template <class T>
BOCHNER_INLINE Vec<T> square_root(Vec<T> v) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
        return (Vec<T>)_mm512_maskz_sqrt_ps(-1, (__m512)v);
    else
        return (Vec<T>)_mm512_maskz_sqrt_pd(-1, (__m512d)v);
#elif defined(__AVX__)
    if constexpr (sizeof(T) == 4)
        return (Vec<T>)_mm256_sqrt_ps((__m256)v);
    else
        return (Vec<T>)_mm256_sqrt_pd((__m256d)v);
#elif defined(__x86_64__)
    if constexpr (sizeof(T) == 4)
        return (Vec<T>)_mm_sqrt_ps((__m128)v);
    else
        return (Vec<T>)_mm_sqrt_pd((__m128d)v);
#else
    for (std::size_t i = 0; i < lanes<T>; ++i)
        v[i] = sizeof(T) == 4 ? T(__builtin_sqrtf(float(v[i]))) : T(__builtin_sqrt(v[i]));
    return v;
#endif
}

// lanes<T> values of another type, converted. A loop: GCC 12 makes one instruction of it, and sixteen of
// __builtin_convertvector.
template <class T, class Source>
BOCHNER_INLINE Vec<T> load_as(const Source* source) {
    Vec<T> v;
    for (std::size_t i = 0; i < lanes<T>; ++i) v[i] = static_cast<T>(source[i]);
    return v;
}

template <class T>
BOCHNER_INLINE IntVec<T> load_integers(const std::int8_t* source) {
    IntVec<T> v;
    for (std::size_t i = 0; i < lanes<T>; ++i) v[i] = source[i];
    return v;
}

// A product of vectors or numbers as rounded: it stays one, whatever it is added to.
template <class Value>
BOCHNER_INLINE Value rounded(Value v) {
#if defined(__x86_64__)
    asm("" : "+v"(v));
#elif defined(__aarch64__) && defined(__ARM_NEON)
    asm("" : "+w"(v));
#else
    asm("" : "+m"(v));
#endif
    return v;
}

// 1 in every lane, unknown to the compiler: a product with it stays an FMA.
template <class T>
BOCHNER_INLINE Vec<T> opaque_one() {
    return rounded(Vec<T>{} + T(1));
}

// E integers again and again. GCC 12 makes a detour through memory of everything but the intrinsics
// (and warns of the undefined vector in those without a mask).
template <class T, std::size_t E>
BOCHNER_INLINE IntVec<T> repeated(const Integer<T>* run) {
#if defined(__AVX512F__)
    if constexpr (E * sizeof(T) == 16)
        return (IntVec<T>)_mm512_maskz_broadcast_i32x4(-1, _mm_loadu_si128(reinterpret_cast<const __m128i*>(run)));
    if constexpr (E * sizeof(T) == 32)
        return (IntVec<T>)_mm512_maskz_broadcast_i64x4(-1, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(run)));
#elif defined(__AVX2__)
    if constexpr (E * sizeof(T) == 16)
        return (IntVec<T>)_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(run)));
#endif
    IntVec<T> v;
    for (std::size_t i = 0; i < lanes<T>; ++i) v[i] = run[i % E];
    return v;
}

// Lanes of a and then of b, by their numbers.
template <class T, std::size_t... i>
BOCHNER_INLINE Vec<T> shuffle(Vec<T> a, Vec<T> b) {
#if __has_builtin(__builtin_shufflevector)
    return __builtin_shufflevector(a, b, i...);
#else  // GCC 11
    return __builtin_shuffle(a, b, IntVec<T>{static_cast<Integer<T> >(i)...});
#endif
}

// Runs of E lanes of two vectors riffled together: the lower or the upper half of the result.
template <class T, std::size_t E, std::size_t start, std::size_t... i>
BOCHNER_INLINE Vec<T> riffle(Vec<T> a, Vec<T> b, std::index_sequence<i...>) {
    return shuffle<T, (start + i / (2 * E) * E + i % E + (i / E % 2) * lanes<T>)...>(a, b);
}

// The same inside pieces of the vectors: of each, E lanes from `start` on and those that follow.
template <class T, std::size_t piece, std::size_t E, std::size_t start, std::size_t... i>
BOCHNER_INLINE Vec<T> riffle_pieces(Vec<T> a, Vec<T> b, std::index_sequence<i...>) {
    return shuffle<T, (i / piece * piece + start + i % piece / (2 * E) * E + i % E + (i / E % 2) * lanes<T>)...>(a, b);
}

// The inverse of riffling: every other run of E lanes of two vectors, from `start` on.
template <class T, std::size_t E, std::size_t start, std::size_t... i>
BOCHNER_INLINE Vec<T> unriffle(Vec<T> a, Vec<T> b, std::index_sequence<i...>) {
    return shuffle<T, (start + i / E * 2 * E + i % E)...>(a, b);
}

// Uninitialised memory, freed at the end of the scope. On pages: elsewhere, the same loops took up to 8 % longer in
// some runs than in others.
constexpr std::size_t page = 4096;

template <class T>
class Scratch {
  public:
    explicit Scratch(std::size_t size)
        : data_(static_cast<T*>(::operator new(size * sizeof(T), std::align_val_t{page}))) {}
    ~Scratch() { ::operator delete(data_, std::align_val_t{page}); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    T* data() { return data_; }

  private:
    T* data_;
};

}  // namespace bochner::BOCHNER_LEVEL
