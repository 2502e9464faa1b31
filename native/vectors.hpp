// Short vectors, row views and scratch memory: what every other header is written in.
//
// A `Vec<T>` is 64 bytes: 16 floats or 8 doubles. The compiler lowers it to what the processor has: one
// AVX-512 register, two of AVX, four of SSE or NEON. No intrinsics anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

// Helpers must be inlined into the function that carries BOCHNER_CLONES: only then are they compiled for its
// instruction set.
#define BOCHNER_INLINE inline __attribute__((always_inline))

// Before a loop over an array of vectors: unrolled, the array lives in registers.
#define BOCHNER_UNROLL _Pragma("GCC unroll 16")

// One copy of the function per x86 level, chosen when the library is loaded. Elsewhere: the compiler's flags.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(BOCHNER_NO_CLONES)
#define BOCHNER_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BOCHNER_CLONES
#endif

namespace bochner {

constexpr std::size_t vector_bytes = 64;

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

// lanes<T> values of another type, converted. A loop: GCC 12 turns it into one instruction, and
// __builtin_convertvector into sixteen.
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

// Rows of a larger array: any stride between rows, and between columns where a function says so.
template <class T>
struct Rows {
    T* data;
    std::size_t n_rows, n_columns;
    std::ptrdiff_t row_stride;
    std::ptrdiff_t column_stride = 1;

    T* operator[](std::size_t row) const { return data + static_cast<std::ptrdiff_t>(row) * row_stride; }
};

// Uninitialised memory on a vector boundary, freed at the end of the scope.
template <class T>
class Scratch {
  public:
    explicit Scratch(std::size_t size)
        : data_(static_cast<T*>(::operator new(size * sizeof(T), std::align_val_t{vector_bytes}))) {}
    ~Scratch() { ::operator delete(data_, std::align_val_t{vector_bytes}); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    T* data() { return data_; }

  private:
    T* data_;
};

}  // namespace bochner
