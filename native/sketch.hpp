// Sketches: sums of signed columns, from dense and from sparse rows, and some coordinates of a Hadamard
// transform.
#pragma once

#include <algorithm>

#include "hadamard.hpp"

namespace bochner::BOCHNER_LEVEL {

constexpr std::size_t tile_columns = 64;  // of X, turned at a time

// out[i, r] = lengths[r] Σ_j S[r, j] X[i, j]. One vector holds one column of a panel of lanes<T> rows, so that a
// sign of S costs one addition for all of them. Each sum runs over j in order, whatever the panel.
template <class T>
void sparse_rows(Rows<const T> X, SignedColumns S, const T* lengths, Rows<T> out) {
    constexpr std::size_t width = lanes<T>;
    const std::size_t k = out.n_columns;
    Scratch<T> sums_memory(k * width), tile_memory(tile_columns * width);
    T* const sums = sums_memory.data();
    T* const tile = tile_memory.data();
    std::fill_n(tile, tile_columns * width, T(0));
    for (std::size_t first = 0; first < X.n_rows; first += width) {
        const std::size_t count = std::min(width, X.n_rows - first);
        std::fill_n(sums, k * width, T(0));
        for (std::size_t start = 0; start < X.n_columns; start += tile_columns) {
            const std::size_t stop = std::min(start + tile_columns, X.n_columns);
            for (std::size_t i = 0; i < count; ++i) {
                const T* x = X[first + i];
                for (std::size_t j = start; j < stop; ++j) tile[(j - start) * width + i] = x[j];
            }
            for (std::size_t j = start; j < stop; ++j) {
                const Vec<T> x = load(tile + (j - start) * width);
                const Vec<T> either[2] = {-x, x};  // chosen by the sign: a branch would be wrong half the time
                for (std::int32_t t = S.indptr[j]; t < S.indptr[j + 1]; ++t) {
                    T* sum = sums + static_cast<std::size_t>(S.indices[t]) * width;
                    store(sum, load(sum) + either[S.signs[t] > 0]);
                }
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            T* target = out[first + i];
            for (std::size_t r = 0; r < k; ++r) target[r] = sums[r * width + i] * lengths[r];
        }
    }
}

// The same for rows of a CSR matrix.
template <class T>
void sparse_rows_of_sparse(SparseRows<T> X, SignedColumns S, const T* lengths, Rows<T> out) {
    const std::size_t k = out.n_columns;
    Scratch<T> memory(k);
    T* const sums = memory.data();  // hot, where a row of out is not
    for (std::size_t i = 0; i < out.n_rows; ++i) {
        std::fill_n(sums, k, T(0));
        for (std::int32_t e = X.indptr[i]; e < X.indptr[i + 1]; ++e) {
            const T x = X.values[e];
            const std::int32_t j = X.indices[e];
            for (std::int32_t t = S.indptr[j]; t < S.indptr[j + 1]; ++t)
                sums[S.indices[t]] += x * static_cast<T>(S.signs[t]);
        }
        T* target = out[i];
        for (std::size_t r = 0; r < k; ++r) target[r] = sums[r] * lengths[r];
    }
}

// Columns and values of the entries that are not zero, row after row, until there are `count`.
template <class T>
void nonzeros(Rows<const T> A, std::size_t count, std::int32_t* columns, T* values) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < A.n_rows; ++i)
        for (std::size_t r = 0; r < A.n_columns && found < count; ++r) {
            columns[found] = static_cast<std::int32_t>(r);
            values[found] = A[i][r];
            found += A[i][r] != T(0);  // no branch: zeros and others come in no order
        }
}

// out[i, r] = lengths[r] (H D x)[picks[r]], rows r of a block of p having one D = diag(signs), whose entries may
// be zero.
template <class T>
void subsampled_hadamard(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* picks,
                         const T* lengths, Rows<T> out) {
    Scratch<T> memory(std::max(p, lanes<T>));
    T* const x = memory.data();
    for (std::size_t row = 0; row < X.n_rows; ++row)
        for (std::size_t start = 0; start < out.n_columns; start += p) {
            const std::int8_t* flip = signs + start;
            for (std::size_t j = 0; j < X.n_columns; ++j) x[j] = X[row][j] * static_cast<T>(flip[j]);
            std::fill(x + X.n_columns, x + p, T(0));
            fwht_row(x, p);
            const std::size_t stop = std::min(start + p, out.n_columns);
            for (std::size_t r = start; r < stop; ++r) out[row][r] = x[picks[r]] * lengths[r];
        }
}

}  // namespace bochner::BOCHNER_LEVEL
