// The Walsh-Hadamard transform, unnormalised, in Sylvester order: x ↦ H x with H = [[1, 1], [1, -1]]^⊗q.
//
// H is a tensor product, so its q levels may be done in any grouping and order. The near pass does the levels
// inside vectors, by shuffles, and a few more across vectors side by side; each far pass does up to four levels
// across vectors that lie apart: 1024 floats take two passes over 4 kB under AVX-512, 256 stay in registers.
#pragma once

#include <algorithm>

#include "sources.hpp"

namespace bochner::BOCHNER_LEVEL {

// One level inside a vector: lane i meets lane i ^ half.
template <class T, std::size_t half, std::size_t... i>
BOCHNER_INLINE Vec<T> butterfly_lanes(Vec<T> v, std::index_sequence<i...>) {
    constexpr Vec<T> sign = {((i & half) ? T(-1) : T(1))...};
    return v * sign + __builtin_shufflevector(v, v, (i ^ half)...);
}

// All levels inside vectors; level by level, so that the vectors hide each other's latencies.
template <class T, std::size_t radix, std::size_t half = 1>
BOCHNER_INLINE void transform_lanes(Vec<T> (&v)[radix]) {
    BOCHNER_UNROLL
    for (std::size_t i = 0; i < radix; ++i) v[i] = butterfly_lanes<T, half>(v[i], std::make_index_sequence<lanes<T>>{});
    if constexpr (2 * half < lanes<T>) transform_lanes<T, radix, 2 * half>(v);
}

// All levels across `radix` vectors. A difference is an FMA where there is one: sums and products have units of
// their own on some processors, and the two share the work.
template <class T, std::size_t radix>
BOCHNER_INLINE void transform_vectors(Vec<T> (&v)[radix]) {
    const Vec<T> one = opaque_one<T>();
    BOCHNER_UNROLL
    for (std::size_t half = 1; half < radix; half *= 2) {
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < radix; ++i) {
            if (i & half) continue;
            const Vec<T> a = v[i], b = v[i + half];
            v[i] = a + b;
            v[i + half] = has_fma ? a - b * one : a - b;
        }
    }
}

// What a pass does to vectors that begin at first, first + width, …
template <class T>
struct Near {
    template <std::size_t radix>
    BOCHNER_INLINE void operator()(Vec<T> (&v)[radix], std::size_t, std::size_t) const {
        transform_lanes<T>(v);
        transform_vectors<T>(v);
    }
};

template <class T>
struct Far {
    template <std::size_t radix>
    BOCHNER_INLINE void operator()(Vec<T> (&v)[radix], std::size_t, std::size_t) const {
        transform_vectors<T>(v);
    }
};

template <class T, std::size_t radix, class Source, class Work>
BOCHNER_INLINE void pass(Source source, T* x, std::size_t p, std::size_t width, const Work& work) {
    for (std::size_t start = 0; start < p; start += radix * width)
        for (std::size_t first = start; first < start + width; first += lanes<T>) {
            Vec<T> v[radix];
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < radix; ++i) v[i] = source(first + i * width);
            work(v, first, width);
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < radix; ++i) store(x + first + i * width, v[i]);
        }
}

// The passes over p >= lanes numbers: pass 0 is the near one. x = work(source), where source may read x.
template <class T>
struct Passes {
    static constexpr std::size_t largest_radix = vector_bytes == 64 ? 16 : 8;  // half of the registers

    std::size_t p, n = 0;
    std::size_t radix[16], width[16];

    explicit Passes(std::size_t p) : p(p) {
        for (std::size_t span = lanes<T>; span < p || n == 0; span *= radix[n++]) {
            // Sixteen vectors side by side are too many where eight make as few passes.
            const bool eight = n == 0 && p > largest_radix * span && p <= 8 * largest_radix * span;
            radix[n] = std::min<std::size_t>(eight ? 8 : largest_radix, std::max<std::size_t>(p / span, 1));
            width[n] = span;
        }
    }

    template <class Source, class Work>
    BOCHNER_INLINE void operator()(std::size_t i, Source source, T* x, const Work& work) const {
        if (radix[i] == 1) return pass<T, 1>(source, x, p, width[i], work);
        if (radix[i] == 2) return pass<T, 2>(source, x, p, width[i], work);
        if (radix[i] == 4) return pass<T, 4>(source, x, p, width[i], work);
        if (radix[i] == 8) return pass<T, 8>(source, x, p, width[i], work);
        if constexpr (largest_radix == 16) return pass<T, 16>(source, x, p, width[i], work);
    }
};

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

// x = H source, for passes.p that fits in the cache.
template <class T, class Source>
BOCHNER_INLINE void transform(Source source, T* x, const Passes<T>& passes) {
    if (passes.p < lanes<T>) return transform_short(source, x, passes.p);
    passes(0, source, x, Near<T>{});
    for (std::size_t i = 1; i < passes.n; ++i) passes(i, Plain<T>{x}, x, Far<T>{});
}

// One row in place, any p = 2^q. Depth first: eighths that fit in the cache are finished, then joined.
template <class T>
void fwht_row(T* x, std::size_t p) {
    constexpr std::size_t in_cache = (1 << 17) / sizeof(T);
    if (p <= in_cache) return transform(Plain<T>{x}, x, Passes<T>(p));
    for (std::size_t i = 0; i < 8; ++i) fwht_row(x + i * (p / 8), p / 8);
    pass<T, 8>(Plain<T>{x}, x, p, p / 8, Far<T>{});
}

template <class T>
void fwht(Rows<T> x) {
    for (std::size_t row = 0; row < x.n_rows; ++row) fwht_row(x[row], x.n_columns);
}

}  // namespace bochner::BOCHNER_LEVEL
