// Every row of X against every row of W: out[i, j] = Σ_k term(X[i, k], W[j, k]).
//
// Register blocking: `tile_rows` rows of X against one panel of rows of W, packed so that the k-th values of
// a panel are side by side. Each sum runs over k in order whatever the tile, so a row's result does not
// depend on the rows it came with.
#pragma once

#include <algorithm>

#include "sources.hpp"

namespace bochner::BOCHNER_LEVEL {

// 24 of 32 registers are sums, or 12 of 16: few loads per sum, and latencies are hidden.
constexpr std::size_t tile_rows = 6;
constexpr std::size_t panel_vectors = n_registers / 8;
template <class T>
constexpr std::size_t panel_lanes = panel_vectors * lanes<T>;
// Panels packed at a time: half of a small second cache.
constexpr std::size_t packed_bytes = std::size_t{1} << 18;

// panel[k, j] = W[first + j, k], zero beyond the last row.
template <class T>
BOCHNER_INLINE void pack(Rows<const T> W, std::size_t first, T* panel) {
    constexpr std::size_t wide = panel_lanes<T>;
    const std::size_t count = std::min(wide, W.n_rows - first);
    for (std::size_t k = 0; k < W.n_columns; ++k) {
        const T* column = W[first] + static_cast<std::ptrdiff_t>(k) * W.column_stride;
        T* values = panel + k * wide;
        if (count == wide && W.row_stride == 1)
            std::memcpy(values, column, wide * sizeof(T));
        else
            for (std::size_t j = 0; j < wide; ++j)
                values[j] = j < count ? column[static_cast<std::ptrdiff_t>(j) * W.row_stride] : T(0);
    }
}

// sums[row, vector] over k of term(x[row][k], panel[k, vector]); `stride` is between k and k + 1.
template <class T, class Term, std::size_t rows, std::size_t vectors>
BOCHNER_INLINE void accumulate(const T* const (&x)[rows], const T* panel, std::ptrdiff_t stride, std::size_t d, T* sums,
                               std::size_t sums_stride) {
    Vec<T> sum[rows][vectors] = {};
    for (std::size_t k = 0; k < d; ++k, panel += stride) {
        Vec<T> w[vectors];
        BOCHNER_UNROLL
        for (std::size_t v = 0; v < vectors; ++v) w[v] = load(panel + v * lanes<T>);
        BOCHNER_UNROLL
        for (std::size_t r = 0; r < rows; ++r) {  // rows outside: each x is broadcast once
            BOCHNER_UNROLL
            for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = Term::add(sum[r][v], x[r][k], w[v]);
        }
    }
    BOCHNER_UNROLL
    for (std::size_t r = 0; r < rows; ++r) {
        BOCHNER_UNROLL
        for (std::size_t v = 0; v < vectors; ++v) store(sums + r * sums_stride + v * lanes<T>, sum[r][v]);
    }
}

// The first `count` sums of a tile and a panel: no more vectors than that takes.
template <class T, class Term>
BOCHNER_INLINE void tile(const T* const (&x)[tile_rows], const T* panel, std::size_t count, std::size_t d, T* sums,
                         std::size_t sums_stride) {
    constexpr std::ptrdiff_t wide = panel_lanes<T>;
    if (count <= lanes<T>)
        accumulate<T, Term, tile_rows, 1>(x, panel, wide, d, sums, sums_stride);
    else if (count <= 2 * lanes<T>)
        accumulate<T, Term, tile_rows, 2>(x, panel, wide, d, sums, sums_stride);
    else
        accumulate<T, Term, tile_rows, panel_vectors>(x, panel, wide, d, sums, sums_stride);
}

// One row against columns of Wᵀ that already lie side by side: nothing to pack. Returns how many were done.
template <class T, class Term, class Sink>
BOCHNER_INLINE std::size_t single_row(const T* x, Rows<const T> W, const Sink& sink, T* out) {
    constexpr std::size_t vectors = 8;
    alignas(vector_bytes) T sums[vectors * lanes<T>];
    std::size_t first = 0;
    for (; first + vectors * lanes<T> <= W.n_rows; first += vectors * lanes<T>) {
        const T* const rows[1] = {x};
        accumulate<T, Term, 1, vectors>(rows, W[first], W.column_stride, W.n_columns, sums, 0);
        sink(Plain<T>{sums}, first, vectors * lanes<T>, out);
    }
    return first;
}

// `sink(source, first, count, out_row)` receives out_row's sums first … first + count - 1.
template <class T, class Term, class Sink>
BOCHNER_INLINE void against_panels(Rows<const T> X, Rows<const T> W, const Sink& sink, Rows<T> out) {
    if (X.n_rows == 0 || W.n_rows == 0) return;
    const std::size_t d = X.n_columns;
    const std::size_t width = std::max<std::size_t>(d, 1);  // d = 0: sums of nothing
    constexpr std::size_t wide = panel_lanes<T>;
    const std::size_t panel_size = width * wide;
    const std::size_t n_panels = (W.n_rows + wide - 1) / wide;
    const std::size_t group =
        std::min(n_panels, std::clamp<std::size_t>(packed_bytes / sizeof(T) / panel_size, 1, 512 / wide));
    Scratch<T> packed(group * panel_size), sums(tile_rows * group * wide);
    std::size_t first = 0;
    if (X.n_rows == 1 && W.row_stride == 1) first = single_row<T, Term>(X[0], W, sink, out[0]);
    for (; first < W.n_rows; first += group * wide) {
        const std::size_t count = std::min(group * wide, W.n_rows - first);
        for (std::size_t j = 0; j < count; j += wide) pack(W, first + j, packed.data() + j * width);
        for (std::size_t row = 0; row < X.n_rows; row += tile_rows) {
            const T* rows[tile_rows];  // the last tile repeats its last row
            for (std::size_t r = 0; r < tile_rows; ++r) rows[r] = X[std::min(row + r, X.n_rows - 1)];
            for (std::size_t j = 0; j < count; j += wide)
                tile<T, Term>(rows, packed.data() + j * width, count - j, d, sums.data() + j, group * wide);
            for (std::size_t r = 0; r < std::min(tile_rows, X.n_rows - row); ++r)
                sink(Plain<T>{sums.data() + r * group * wide}, first, count, out[row + r]);
        }
    }
}

}  // namespace bochner::BOCHNER_LEVEL
