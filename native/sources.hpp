// Where a loop reads its numbers: as they are, with signs flipped, multiplied, permuted, or shifted. `source(i)` is the
// vector that starts at i, `source.at(i)` the number at i, rounded alike. The arrays may be those the loop
// writes.
#pragma once

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

template <class T>
struct Plain {
    const T* x;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return load(x + i); }
    BOCHNER_INLINE T at(std::size_t i) const { return x[i]; }
};

template <class T>
BOCHNER_INLINE Vec<T> flipped(Vec<T> v, const std::int8_t* signs) {
    return (Vec<T>)((IntVec<T>)v ^ (load_integers<T>(signs) & sign_bit<T>));
}

template <class T>
struct Flipped {
    const T* x;
    const std::int8_t* signs;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return flipped<T>(load(x + i), signs + i); }
    BOCHNER_INLINE T at(std::size_t i) const { return signs[i] < 0 ? -x[i] : x[i]; }
};

template <class T>
struct Multiplied {
    const T* x;
    const float* factors;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return load(x + i) * load_as<T>(factors + i); }
    BOCHNER_INLINE T at(std::size_t i) const { return x[i] * static_cast<T>(factors[i]); }
};

// Gathered straight into a vector: written out first, 16 short stores would have to leave the pipeline before one
// long load. The mask keeps a damaged permutation inside the array.
template <class T>
struct Permuted {
    const T* x;
    const std::int32_t* order;
    const float* factors;
    std::size_t mask;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const {
        Vec<T> v;
        for (std::size_t j = 0; j < lanes<T>; ++j) v[j] = x[static_cast<std::size_t>(order[i + j]) & mask];
        return v * load_as<T>(factors + i);
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
