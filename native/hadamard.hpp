// The Walsh-Hadamard transform, unnormalised, in Sylvester order: x ↦ H x with H = [[1, 1], [1, -1]]^⊗q.
//
// H is a tensor product, so its q levels may be done in any order; they are grouped into passes. The near pass does
// the levels inside vectors, by shuffles, and a few more across vectors side by side; each far pass does up to four
// levels across vectors that lie apart. Transforms run through the levels strictly up or down: a result is then rounded
// alike whatever the passes, the vectors, and the number of rows abreast.
//
// Rows may be transformed `lanes / E` abreast: vector i holds numbers iE … iE + E - 1 of each, row after row. With E =
// 1 there is nothing to do inside vectors.
#pragma once

#include <algorithm>

#include "sources.hpp"

namespace bochner::BOCHNER_LEVEL {

// One level inside a vector: lane i meets lane i ^ half.
template <class T, std::size_t half, std::size_t... i>
BOCHNER_INLINE Vec<T> butterfly_lanes(Vec<T> v, std::index_sequence<i...>) {
    constexpr Vec<T> sign = {((i & half) ? T(-1) : T(1))...};
    return v * sign + shuffle<T, (i ^ half)...>(v, v);
}

enum class Order { up, down };  // from neighbours to halves, or from halves to neighbours

// All levels inside runs of E lanes; level by level, so that the vectors hide each other's latencies.
template <class T, std::size_t E, Order order, std::size_t radix, std::size_t level = 1>
BOCHNER_INLINE void transform_lanes(Vec<T> (&v)[radix]) {
    if constexpr (level < E) {
        constexpr std::size_t half = order == Order::up ? level : E / 2 / level;
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < radix; ++i)
            v[i] = butterfly_lanes<T, half>(v[i], std::make_index_sequence<lanes<T>>{});
        transform_lanes<T, E, order, radix, 2 * level>(v);
    }
}

// All levels across `radix` vectors. A difference is an FMA where there is one: sums and products have units of
// their own on some processors, and the two share the work.
template <class T, Order order, std::size_t radix>
BOCHNER_INLINE void transform_vectors(Vec<T> (&v)[radix]) {
    const Vec<T> one = opaque_one<T>();
    BOCHNER_UNROLL
    for (std::size_t level = 1; level < radix; level *= 2) {
        const std::size_t half = order == Order::up ? level : radix / 2 / level;
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
template <class T, std::size_t E, Order order>
struct Near {
    template <std::size_t radix>
    BOCHNER_INLINE void operator()(Vec<T> (&v)[radix], std::size_t, std::size_t) const {
        if constexpr (order == Order::up) transform_lanes<T, E, order>(v);
        transform_vectors<T, order>(v);
        if constexpr (order == Order::down) transform_lanes<T, E, order>(v);
    }
};

template <class T, Order order>
struct Far {
    template <std::size_t radix>
    BOCHNER_INLINE void operator()(Vec<T> (&v)[radix], std::size_t, std::size_t) const {
        transform_vectors<T, order>(v);
    }
};

template <class T, std::size_t radix, class Source, class Work>
BOCHNER_INLINE void pass(Source source, T* x, std::size_t size, std::size_t width, const Work& work) {
    for (std::size_t start = 0; start < size; start += radix * width)
        for (std::size_t first = start; first < start + width; first += lanes<T>) {
            Vec<T> v[radix];
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < radix; ++i) v[i] = source(first + i * width);
            work(v, first, width);
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < radix; ++i) store(x + first + i * width, v[i]);
        }
}

// The passes over lanes / E rows of p >= E numbers: pass 0 is the near one, its vectors lie
// side by side. x = work(source), where source may read x.
template <class T, std::size_t E>
struct Passes {
    static constexpr std::size_t largest_radix = n_registers / 2;
    static constexpr std::size_t abreast = lanes<T> / E;

    std::size_t p, n = 0;
    std::size_t radix[16], width[16];

    explicit Passes(std::size_t p) : p(p) {
        for (std::size_t span = E; span < p || n == 0; span *= radix[n++]) {
            // Sixteen vectors side by side, all shuffled, are too many where eight make as few passes.
            const bool eight = E == lanes<T> && n == 0 && p > largest_radix * span && p <= 8 * largest_radix * span;
            radix[n] = std::min<std::size_t>(eight ? 8 : largest_radix, std::max<std::size_t>(p / span, 1));
            width[n] = span;
        }
    }

    template <class Source, class Work>
    BOCHNER_INLINE void run(std::size_t radix, std::size_t step, Source source, T* x, const Work& work) const {
        const std::size_t size = p * abreast;
        if (radix == 1) return pass<T, 1>(source, x, size, step, work);
        if (radix == 2) return pass<T, 2>(source, x, size, step, work);
        if (radix == 4) return pass<T, 4>(source, x, size, step, work);
        if (radix == 8) return pass<T, 8>(source, x, size, step, work);
        if constexpr (largest_radix == 16) return pass<T, 16>(source, x, size, step, work);
    }
    template <class Source, class Work>
    BOCHNER_INLINE void near(Source source, T* x, const Work& work) const {
        run(radix[0], lanes<T>, source, x, work);
    }
    template <class Source, class Work>
    BOCHNER_INLINE void far(std::size_t i, Source source, T* x, const Work& work) const {
        // Steps known to the compiler: it would keep sixteen addresses on the stack.
        const std::size_t step = width[i] * abreast;
        if (step == 8 * lanes<T>) return run(radix[i], 8 * lanes<T>, source, x, work);
        if (step == 16 * lanes<T>) return run(radix[i], 16 * lanes<T>, source, x, work);
        run(radix[i], step, source, x, work);
    }
};

// Rows shorter than a vector.
template <Order order, class T, class Source>
BOCHNER_INLINE void transform_short(Source source, T* x, std::size_t p) {
    for (std::size_t i = 0; i < p; ++i) x[i] = source.at(i);
    for (std::size_t level = 1; level < p; level *= 2) {
        const std::size_t half = order == Order::up ? level : p / 2 / level;
        for (std::size_t i = 0; i < p; ++i) {
            if (i & half) continue;
            const T a = x[i], b = x[i + half];
            x[i] = a + b;
            x[i + half] = a - b;
        }
    }
}

// x = H source, for passes.p that fits in the cache.
template <class T, std::size_t E, class Source>
BOCHNER_INLINE void transform(Source source, T* x, const Passes<T, E>& passes) {
    if constexpr (E == lanes<T>)
        if (passes.p < E) return transform_short<Order::up>(source, x, passes.p);
    passes.near(source, x, Near<T, E, Order::up>{});
    for (std::size_t i = 1; i < passes.n; ++i) passes.far(i, Plain<T>{x}, x, Far<T, Order::up>{});
}

// One row in place, any p = 2^q. Depth first: eighths that fit in the cache are finished, then joined.
template <class T>
void fwht_row(T* x, std::size_t p) {
    constexpr std::size_t in_cache = (1 << 17) / sizeof(T);
    if (p <= in_cache) return transform(Plain<T>{x}, x, Passes<T, lanes<T>>(p));
    for (std::size_t i = 0; i < 8; ++i) fwht_row(x + i * (p / 8), p / 8);
    pass<T, 8>(Plain<T>{x}, x, p, p / 8, Far<T, Order::up>{});
}

template <class T>
void fwht(Rows<T> x) {
    for (std::size_t row = 0; row < x.n_rows; ++row) fwht_row(x[row], x.n_columns);
}

}  // namespace bochner::BOCHNER_LEVEL
