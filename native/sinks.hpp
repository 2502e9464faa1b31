// Sinks write the results of one row: a sink receives values first … first + count - 1 from a source
// (counted from 0) and writes the row.
#pragma once

#include <algorithm>
#include <atomic>

#include "sincos.hpp"
#include "sources.hpp"

namespace bochner::BOCHNER_LEVEL {

template <class T>
struct AsTheyAre {
    template <class Source>
    BOCHNER_INLINE void operator()(Source source, std::size_t first, std::size_t count, T* out) const {
        std::size_t i = 0;
        for (; i + lanes<T> <= count; i += lanes<T>) store(out + first + i, source(i));
        for (; i < count; ++i) out[first + i] = source.at(i);
    }
};

// Pairs scale·cos a, scale·sin a, so that a complex view of the row is scale·exp(ia). An odd last column is
// scale·cos(a + tail). Phases and tail are in radians or quarter turns.
template <class T, template <class> class Unit = Radians>
struct Pairs {
    std::size_t n_columns;
    Unit<T> cos_sin;
    T tail;
    bool streams;  // past the caches, into rows on vector boundaries

    template <bool streaming>
    BOCHNER_INLINE static void write(T* target, Vec<T> v) {
        if constexpr (streaming)
            stream(target, v);
        else
            store(target, v);
    }

    template <bool streaming, std::size_t n>
    BOCHNER_INLINE static void put(const Unit<T>& cos_sin, const Vec<T> (&phases)[n], T* out, FarPhases<T>& far) {
        Vec<T> c[n], s[n];
        cos_sin(phases, far, c, s);
        constexpr auto all = std::make_index_sequence<lanes<T>>{};
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < n; ++i) {
            write<streaming>(out + 2 * i * lanes<T>, riffle<T, 1, 0>(c[i], s[i], all));
            write<streaming>(out + (2 * i + 1) * lanes<T>, riffle<T, 1, lanes<T> / 2>(c[i], s[i], all));
        }
    }

    template <class Source>
    BOCHNER_INLINE void operator()(Source source, std::size_t first, std::size_t count, T* out) const {
        const std::size_t n_pairs = std::min(count, n_columns / 2 - first);
        T* columns = out + 2 * first;
        std::size_t i = 0;
        FarPhases<T> far;
        const Unit<T> cos_sin = this->cos_sin;  // in registers: what is written cannot be part of it
        for (const std::size_t stop = streams ? n_pairs : 0; i + 2 * lanes<T> <= stop; i += 2 * lanes<T>)
            put<true, 2>(cos_sin, {source(i), source(i + lanes<T>)}, columns + 2 * i, far);
        for (; i + 2 * lanes<T> <= n_pairs; i += 2 * lanes<T>)
            put<false, 2>(cos_sin, {source(i), source(i + lanes<T>)}, columns + 2 * i, far);
        while (i < count) {
            alignas(vector_bytes) T last[lanes<T>] = {}, last_columns[2 * lanes<T>];
            const std::size_t end = std::min(i + lanes<T>, count);
            for (std::size_t j = i; j < end; ++j) last[j - i] = source.at(j) + (j < n_pairs ? T(0) : tail);
            put<false, 1>(cos_sin, {load(last)}, last_columns, far);
            std::memcpy(columns + 2 * i, last_columns, (std::min(end, n_pairs) + end - 2 * i) * sizeof(T));
            i = end;
        }
        if (__builtin_expect(far.any(), 0)) {
            std::atomic_thread_fence(std::memory_order_seq_cst);  // after streamed stores to the same columns
            rewrite_far(source, count, n_pairs, columns);
        }
    }

    // Phases a little beyond the limit are not: whether they are rewritten must not depend on those they came with.
    bool noted(T phase) const {
        FarPhases<T> far;
        Vec<T> c[1], s[1];
        cos_sin({Vec<T>{} + phase}, far, c, s);
        return far.any();
    }

    template <class Source>
    __attribute__((noinline, cold)) void rewrite_far(Source source, std::size_t count, std::size_t n_pairs,
                                                     T* columns) const {
        for (std::size_t i = 0; i < count; ++i) {
            const T phase = i < n_pairs ? source.at(i) : source.at(i) + tail;
            const double a = Unit<T>::in_radians(phase);
            if (std::fabs(a) <= reduction_limit || !noted(phase)) continue;
            columns[2 * i] = cos_sin.scale * static_cast<T>(std::cos(a));
            if (i < n_pairs) columns[2 * i + 1] = cos_sin.scale * static_cast<T>(std::sin(a));
        }
    }
};

// scale·cos a.
template <class T>
struct Cosines {
    T scale;

    BOCHNER_INLINE Vec<T> cosine(Vec<T> phases, FarPhases<T>& far) const {
        Vec<T> c[1], s[1];
        sincos<T>({phases}, scale, far, c, s);
        return c[0];
    }

    template <class Source>
    BOCHNER_INLINE void operator()(Source source, std::size_t first, std::size_t count, T* out) const {
        T* columns = out + first;
        std::size_t i = 0;
        FarPhases<T> far;
        for (; i + lanes<T> <= count; i += lanes<T>) {
            store(columns + i, cosine(source(i), far));
        }
        if (i < count) {
            alignas(vector_bytes) T last[lanes<T>] = {};
            for (std::size_t j = i; j < count; ++j) last[j - i] = source.at(j);
            store(last, cosine(load(last), far));
            std::memcpy(columns + i, last, (count - i) * sizeof(T));
        }
        if (__builtin_expect(far.any(), 0)) rewrite_far(source, count, columns);
    }

    template <class Source>
    __attribute__((noinline, cold)) void rewrite_far(Source source, std::size_t count, T* columns) const {
        for (std::size_t i = 0; i < count; ++i) {
            const double a = source.at(i);
            if (!(std::fabs(a) <= reduction_limit)) columns[i] = scale * static_cast<T>(std::cos(a));
        }
    }
};

}  // namespace bochner::BOCHNER_LEVEL
