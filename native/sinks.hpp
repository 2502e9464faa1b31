// What becomes of the numbers of one row: a sink receives values first … first + count - 1 and writes the
// row.
#pragma once

#include <algorithm>

#include "sincos.hpp"
#include "vectors.hpp"

namespace bochner {

template <class T>
struct AsTheyAre {
    BOCHNER_INLINE void operator()(const T* values, std::size_t first, std::size_t count, T* out) const {
        std::memcpy(out + first, values, count * sizeof(T));
    }
};

// Lanes 0, lanes, 1, lanes + 1, …: the lower or the upper half of two vectors riffled together.
template <class T, std::size_t start, std::size_t... i>
BOCHNER_INLINE Vec<T> riffle(Vec<T> a, Vec<T> b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, (start + i / 2 + (i % 2) * lanes<T>)...);
}

// Pairs scale·cos a, scale·sin a, so that a complex view of the row is scale·exp(ia). An odd last column is
// scale·cos(a + tail).
template <class T>
struct Pairs {
    std::size_t n_columns;
    T scale, tail;

    BOCHNER_INLINE void store_vector(Vec<T> phases, T* out) const {
        const auto result = sincos<T>(phases);
        const Vec<T> c = result.cosine * scale, s = result.sine * scale;
        constexpr auto all = std::make_index_sequence<lanes<T>>{};
        store(out, riffle<T, 0>(c, s, all));
        store(out + lanes<T>, riffle<T, lanes<T> / 2>(c, s, all));
    }

    BOCHNER_INLINE void operator()(const T* phases, std::size_t first, std::size_t count, T* out) const {
        const std::size_t n_pairs = std::min(count, n_columns / 2 - first);
        std::size_t i = 0;
        for (; i + lanes<T> <= n_pairs; i += lanes<T>) store_vector(load(phases + i), out + 2 * (first + i));
        if (i == count) return;
        alignas(vector_bytes) T last[lanes<T>] = {}, columns[2 * lanes<T>];
        std::memcpy(last, phases + i, (count - i) * sizeof(T));
        if (n_pairs < count) last[n_pairs - i] += tail;
        store_vector(load(last), columns);
        const std::size_t n_left = 2 * (n_pairs - i) + (n_pairs < count);
        std::memcpy(out + 2 * (first + i), columns, n_left * sizeof(T));
    }
};

// scale·cos(a + offset).
template <class T>
struct Cosines {
    const T* offsets;
    T scale;

    BOCHNER_INLINE void operator()(const T* phases, std::size_t first, std::size_t count, T* out) const {
        std::size_t i = 0;
        for (; i + lanes<T> <= count; i += lanes<T>)
            store(out + first + i, sincos<T>(load(phases + i) + load(offsets + first + i)).cosine * scale);
        if (i == count) return;
        alignas(vector_bytes) T last[lanes<T>] = {};
        for (std::size_t j = 0; j < count - i; ++j) last[j] = phases[i + j] + offsets[first + i + j];
        store(last, sincos<T>(load(last)).cosine * scale);
        std::memcpy(out + first + i, last, (count - i) * sizeof(T));
    }
};

}  // namespace bochner
