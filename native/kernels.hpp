// What bindings.cpp sees of the compiled code: a table of functions per level of the processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bochner {

// Rows of a larger array: any stride between rows, and between columns where a function says so.
template <class T>
struct Rows {
    T* data;
    std::size_t n_rows, n_columns;
    std::ptrdiff_t row_stride;
    std::ptrdiff_t column_stride = 1;
    bool streams = false;  // pairs are written past the caches: rows must lie on vector boundaries

    T* operator[](std::size_t row) const { return data + static_cast<std::ptrdiff_t>(row) * row_stride; }
};

// Rows of a CSR matrix.
template <class T>
struct SparseRows {
    const std::int32_t *indptr, *indices;
    const T* values;
};

// A matrix with few entries, all ±1, by columns.
struct SignedColumns {
    const std::int32_t *indptr, *indices;
    const std::int8_t* signs;
};

// Kernels k as functions of the distance r of two rows, and k'(r) / r, which is taken to be zero for r = 0.
enum class Profile {
    gaussian,
    matern12,
    matern32,
    matern52,
    laplacian,
    gaussian_slope,
    matern12_slope,
    matern32_slope,
    matern52_slope
};

// Single-threaded functions on a block of rows. Scale and tail are as in `Backend`; p is the width of a
// block.
template <class T>
struct Kernels {
    void (*fwht)(Rows<T> X);
    void (*pairs)(Rows<const T> A, double scale, double tail, Rows<T> out);
    void (*cosines)(Rows<const T> A, const T* offsets, double scale, Rows<T> out);
    void (*dense_pairs)(Rows<const T> X, Rows<const T> W, double scale, double tail, Rows<T> out);
    void (*structured_phases)(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths,
                              Rows<T> out);
    void (*structured_pairs)(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths,
                             double scale, double tail, Rows<T> out);
    void (*fastfood_phases)(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* permutations,
                            const float* gains, const float* lengths, Rows<T> out);
    void (*fastfood_pairs)(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* permutations,
                           const float* gains, const float* lengths, double scale, double tail, Rows<T> out);
    void (*squared_distances)(Rows<const T> X, Rows<const T> Y, Rows<T> out);
    void (*absolute_distances)(Rows<const T> X, Rows<const T> Y, Rows<T> out);
    void (*kernel_values)(Rows<const T> X, Rows<const T> Y, Profile profile, Rows<T> out);
    void (*signed_sums)(Rows<const T> X, Rows<const T> Y, Rows<const T> W, Rows<T> out);
    void (*mirror)(Rows<T> A);
    void (*sparse_rows)(Rows<const T> X, SignedColumns S, const T* lengths, Rows<T> out);
    void (*sparse_rows_of_sparse)(SparseRows<T> X, SignedColumns S, const T* lengths, Rows<T> out);
    void (*nonzeros)(Rows<const T> A, std::size_t count, std::int32_t* columns, T* values);
    void (*subsampled_hadamard)(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* picks,
                                const T* lengths, Rows<T> out);
};

// Products in fixed point (grams.hpp), of float features, in integers of a type. `vnni` is for processors with those
// instructions.
struct Integers {
    void (*pack_slab)(Rows<float> Z, const float* units, const float* inverses, std::int32_t* packed);
    void (*add_gram)(const std::int32_t* packed, std::size_t n_rows, const float* units, std::size_t rows,
                     std::size_t columns, Rows<double> out);
    void (*add_gram_vnni)(const std::int32_t* packed, std::size_t n_rows, const float* units, std::size_t rows,
                          std::size_t columns, Rows<double> out);
};

struct FixedPoint {
    void (*extents)(Rows<const float> Z, float* largest, float* squares, float* most, float* part);
    Integers shorts, bytes;
};

struct Level {
    const char* name;
    Kernels<float> floats;
    Kernels<double> doubles;
    FixedPoint fixed;
};

// kernels.cpp, compiled with the vectors and instructions of each level.
namespace baseline {
extern const Level level;
}
#ifdef BOCHNER_X86_LEVELS
namespace v3 {
extern const Level level;
}
namespace v4 {
extern const Level level;
}
#endif

}  // namespace bochner
