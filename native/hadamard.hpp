// The Walsh-Hadamard transform, unnormalised, in Sylvester order: x ↦ H x with H = [[1, 1], [1, -1]]^⊗q.
//
// H is a tensor product, so its q levels may be done in any grouping. The first pass does the levels inside a
// vector by shuffles and up to three more across eight vectors (128 floats under AVX-512); each later pass is
// of radix 8, 4 or 2 over vectors: 1024 floats take two passes over 4 kB.
#pragma once

#include "sources.hpp"

namespace bochner::BOCHNER_LEVEL {

// One level inside a vector: lane i meets lane i ^ half.
template <class T, std::size_t half, std::size_t... i>
BOCHNER_INLINE Vec<T> butterfly_lanes(Vec<T> v, std::index_sequence<i...>) {
    constexpr Vec<T> sign = {((i & half) ? T(-1) : T(1))...};
    return v * sign + __builtin_shufflevector(v, v, (i ^ half)...);
}

template <class T, std::size_t half = 1>
BOCHNER_INLINE Vec<T> transform_lanes(Vec<T> v) {
    v = butterfly_lanes<T, half>(v, std::make_index_sequence<lanes<T>>{});
    if constexpr (2 * half < lanes<T>) v = transform_lanes<T, 2 * half>(v);
    return v;
}

// All levels across `radix` vectors.
template <class T, std::size_t radix>
BOCHNER_INLINE void butterfly_vectors(Vec<T> (&v)[radix]) {
    BOCHNER_UNROLL
    for (std::size_t half = 1; half < radix; half *= 2) {
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < radix; ++i) {
            if (i & half) continue;
            const Vec<T> a = v[i], b = v[i + half];
            v[i] = a + b;
            v[i + half] = a - b;
        }
    }
}

// From `source` to x: transforms of every `radix` vectors in turn.
template <class T, std::size_t radix, class Source>
BOCHNER_INLINE void first_pass(Source source, T* x, std::size_t p) {
    for (std::size_t start = 0; start < p; start += radix * lanes<T>) {
        Vec<T> v[radix];
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < radix; ++i) v[i] = transform_lanes<T>(source(start + i * lanes<T>));
        butterfly_vectors<T, radix>(v);
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < radix; ++i) store(x + start + i * lanes<T>, v[i]);
    }
}

// In place: from transforms of length `width` to transforms of length radix * width.
template <class T, std::size_t radix>
BOCHNER_INLINE void pass(T* x, std::size_t p, std::size_t width) {
    for (std::size_t start = 0; start < p; start += radix * width)
        for (std::size_t j = start; j < start + width; j += lanes<T>) {
            Vec<T> v[radix];
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < radix; ++i) v[i] = load(x + j + i * width);
            butterfly_vectors<T, radix>(v);
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < radix; ++i) store(x + j + i * width, v[i]);
        }
}

// Rows shorter than a vector.
template <class T, class Source>
BOCHNER_INLINE void transform_short(Source source, T* x, std::size_t p) {
    for (std::size_t i = 0; i < p; ++i) x[i] = source.at(i);
    for (std::size_t half = 1; half < p; half *= 2)
        for (std::size_t i = 0; i < p; ++i) {
            if (i & half) continue;
            const T a = x[i], b = x[i + half];
            x[i] = a + b;
            x[i + half] = a - b;
        }
}

// x = H source, for p that fits in the cache.
template <class T, class Source>
BOCHNER_INLINE void transform(Source source, T* x, std::size_t p) {
    const std::size_t n_vectors = p / lanes<T>;
    if (n_vectors == 0) return transform_short(source, x, p);
    if (n_vectors == 1) return first_pass<T, 1>(source, x, p);
    if (n_vectors == 2) return first_pass<T, 2>(source, x, p);
    if (n_vectors == 4) return first_pass<T, 4>(source, x, p);
    first_pass<T, 8>(source, x, p);
    std::size_t width = 8 * lanes<T>;
    for (; 8 * width <= p; width *= 8) pass<T, 8>(x, p, width);
    if (4 * width == p) pass<T, 4>(x, p, width);
    if (2 * width == p) pass<T, 2>(x, p, width);
}

// One row in place, any p = 2^q. Depth first: eighths that fit in the cache are finished, then joined.
template <class T>
void fwht_row(T* x, std::size_t p) {
    constexpr std::size_t in_cache = (1 << 17) / sizeof(T);
    if (p <= in_cache) return transform(Plain<T>{x}, x, p);
    for (std::size_t i = 0; i < 8; ++i) fwht_row(x + i * (p / 8), p / 8);
    pass<T, 8>(x, p, p / 8);
}

template <class T>
void fwht(Rows<T> x) {
    for (std::size_t row = 0; row < x.n_rows; ++row) fwht_row(x[row], x.n_columns);
}

}  // namespace bochner::BOCHNER_LEVEL
