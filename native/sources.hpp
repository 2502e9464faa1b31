// Where a loop reads its numbers: as they are, with signs flipped, multiplied, permuted, or shifted. `source(i)` is the
// vector that starts at i, `source.at(i)` the number at i, rounded alike. The arrays may be those the loop
// writes.
#pragma once

#include <type_traits>

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

template <class T>
struct Plain {
    const T* x;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return load(x + i); }
    BOCHNER_INLINE T at(std::size_t i) const { return x[i]; }
};

// Signs of lanes / E rows abreast: one per number. Rows by themselves read the signs as they are, others read bits to
// flip and repeat them for every row.
template <class T, std::size_t E>
struct Flips {
    static constexpr bool single = E == lanes<T>;
    using Sign = std::conditional_t<single, std::int8_t, Integer<T>>;
    const Sign* signs;

    // v lies at i.
    BOCHNER_INLINE Vec<T> operator()(Vec<T> v, std::size_t i) const {
        if constexpr (single)
            return (Vec<T>)((IntVec<T>)v ^ (load_integers<T>(signs + i) & sign_bit<T>));
        else if constexpr (E == 1)
            return (Vec<T>)((IntVec<T>)v ^ signs[i / lanes<T>]);
        else
            return (Vec<T>)((IntVec<T>)v ^ repeated<T, E>(signs + i / lanes<T> * E));
    }
};

template <class T, std::size_t E = lanes<T>>
struct Flipped {
    const T* x;
    Flips<T, E> flips;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return flips(load(x + i), i); }
    BOCHNER_INLINE T at(std::size_t i) const { return flips.signs[i] < 0 ? -x[i] : x[i]; }
};

template <class T>
struct Scaled {
    const T* x;
    T factor;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return load(x + i) * factor; }
    BOCHNER_INLINE T at(std::size_t i) const { return rounded(x[i] * factor); }
};

// Rows by themselves are gathered straight into a vector: written out first, 16 short stores would have to leave the
// pipeline before one long load. Of rows abreast (E = 1) whole vectors move. The mask keeps a damaged permutation
// inside the array.
template <class T, std::size_t E>
struct Permuted {
    const T* x;
    const std::int32_t* order;
    const float* factors;
    std::size_t mask;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const {
        if constexpr (E == 1) {
            const std::size_t from = static_cast<std::size_t>(order[i / lanes<T>]) & mask;
            return rounded(load(x + from * lanes<T>) * static_cast<T>(factors[i / lanes<T>]));
        }
        Vec<T> v;
        for (std::size_t j = 0; j < lanes<T>; ++j) v[j] = x[static_cast<std::size_t>(order[i + j]) & mask];
        return rounded(v * load_as<T>(factors + i));
    }
    BOCHNER_INLINE T at(std::size_t i) const {
        return x[static_cast<std::size_t>(order[i]) & mask] * static_cast<T>(factors[i]);
    }
};

template <class T>
struct Shifted {
    const T* x;
    const T* offsets;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return load(x + i) + load(offsets + i); }
    BOCHNER_INLINE T at(std::size_t i) const { return x[i] + offsets[i]; }
};

}  // namespace bochner::BOCHNER_LEVEL
