// ZᵀZ in fixed point: features as 12-bit integers, two products and a sum in one instruction.
//
// A `slab` is 512 rows. Its features are multiples of one unit, at most 2047 of them, so that a sum of 512 products
// stays below 2^31: the integers are exact, whatever the order, and float64 adds up the slabs. Layout of a packed
// slab: panels of 16 columns; in a panel, for every two rows, the two integers of each column side by side.
#pragma once

#include <algorithm>
#include <cmath>

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

constexpr std::size_t slab_rows = 512, panel_columns = 16, most_units = 2047;
constexpr std::size_t panel_size = slab_rows * panel_columns;
typedef std::int32_t Sums __attribute__((vector_size(64)));  // of the columns of a panel

// Largest absolute value and sum of squares; NaN and infinity make the sum NaN or infinite.
inline void extent(Rows<const float> Z, float* largest, double* squares) {
    *largest = 0.0f, *squares = 0.0;
    for (std::size_t i = 0; i < Z.n_rows; ++i) {
        const float* row = Z[i];
        Vec<float> top{}, sum{};
        std::size_t j = 0;
        for (; j + lanes<float> <= Z.n_columns; j += lanes<float>) {
            const Vec<float> z = load(row + j), size = z < 0.0f ? -z : z;
            top = size > top ? size : top;
            sum += z * z;
        }
        for (std::size_t lane = 0; lane < lanes<float>; ++lane) {
            *largest = std::max(*largest, top[lane]);
            *squares += sum[lane];
        }
        for (; j < Z.n_columns; ++j) {
            *largest = std::max(*largest, std::abs(row[j]));
            *squares += row[j] * row[j];
        }
    }
}

// Round the rows of a slab to multiples of the unit, in place, and pack the multiples; zeros where there is no row or
// column. Every |z| must be at most 2047 units.
inline void pack_slab(Rows<float> Z, float unit, std::int16_t* packed) {
    const float inverse = 1.0f / unit;
    const std::size_t n_pairs = (Z.n_rows + 1) / 2;
    const auto round = [&](float& z) BOCHNER_INLINE_LAMBDA {
        // adding and taking away 3 · 2^22 leaves the nearest integer
        const float count = (z * inverse + 12582912.0f) - 12582912.0f;
        z = count * unit;
        return static_cast<std::int16_t>(static_cast<std::int32_t>(count));
    };
    for (std::size_t pair = 0; pair < n_pairs; ++pair) {
        const bool two = 2 * pair + 1 < Z.n_rows;
        float *even = Z[2 * pair], *odd = two ? Z[2 * pair + 1] : nullptr;
        for (std::size_t first = 0; first < Z.n_columns; first += panel_columns) {
            std::int16_t* out = packed + first / panel_columns * panel_size + pair * 2 * panel_columns;
            const std::size_t count = std::min(panel_columns, Z.n_columns - first);
            if (count == panel_columns && two) {
                for (std::size_t j = 0; j < panel_columns; ++j) {
                    const std::int16_t low = round(even[first + j]), high = round(odd[first + j]);
                    out[2 * j] = low, out[2 * j + 1] = high;
                }
                continue;
            }
            std::fill(out, out + 2 * panel_columns, std::int16_t{0});
            for (std::size_t j = 0; j < count; ++j) {
                out[2 * j] = round(even[first + j]);
                if (two) out[2 * j + 1] = round(odd[first + j]);
            }
        }
    }
}

// sums += the two products of each column's pair of integers with one pair, which every lane of `pair` repeats.
template <bool vnni>
BOCHNER_INLINE void multiply_pairs(Sums& sums, const Sums& pair, const Sums& columns) {
#if defined(__AVX512BW__)
    if constexpr (vnni) {  // GCC 12 copies every register around the intrinsic
        asm("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(pair), "v"(columns));
        return;
    }
#endif
    typedef std::int16_t Halves __attribute__((vector_size(64)));
    const Halves a = (Halves)pair, b = (Halves)columns;
    for (std::size_t j = 0; j < panel_columns; ++j)
        sums[j] += std::int32_t{a[2 * j]} * b[2 * j] + std::int32_t{a[2 * j + 1]} * b[2 * j + 1];
}

// Sums of 8 columns (half a panel, from `left` on) with those of `panels` panels, over the pairs of rows.
template <bool vnni, std::size_t panels>
BOCHNER_INLINE void multiply(const std::int16_t* left, const std::int16_t* right, std::size_t n_pairs,
                             std::int32_t (*out)[8][panel_columns]) {
    Sums sums[8][panels] = {};
    for (std::size_t k = 0; k < n_pairs; ++k) {
        Sums columns[panels];
        BOCHNER_UNROLL
        for (std::size_t p = 0; p < panels; ++p)
            std::memcpy(&columns[p], right + p * panel_size + k * 2 * panel_columns, sizeof(Sums));
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < 8; ++i) {
            std::int32_t both;
            std::memcpy(&both, left + k * 2 * panel_columns + 2 * i, sizeof both);
            const Sums pair = Sums{} + both;
            BOCHNER_UNROLL
            for (std::size_t p = 0; p < panels; ++p) multiply_pairs<vnni>(sums[i][p], pair, columns[p]);
        }
    }
    BOCHNER_UNROLL
    for (std::size_t p = 0; p < panels; ++p) {
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < 8; ++i) std::memcpy(out[p][i], &sums[i][p], sizeof(Sums));
    }
}

// out[i, j] += unit² Σ_k q[k, rows + i] q[k, columns + j], q the integers of a slab; rows and columns begin with a
// panel. With rows == columns, only what lies on and above the diagonal (and some below) is added.
template <bool vnni>
void add_gram(const std::int16_t* packed, std::size_t n_rows, double unit, std::size_t rows, std::size_t columns,
              Rows<double> out) {
    constexpr std::size_t most = 3;  // panels: 24 registers of sums
    const std::size_t n_pairs = (n_rows + 1) / 2;
    std::int32_t sums[most][8][panel_columns];
    const auto panel = [&](std::size_t column) { return packed + column / panel_columns * panel_size; };
    for (std::size_t j = 0; j < out.n_columns; j += most * panel_columns) {
        const std::size_t wide = std::min(most * panel_columns, out.n_columns - j);
        const std::size_t panels = (wide + panel_columns - 1) / panel_columns;
        const std::size_t height = rows == columns ? std::min(out.n_rows, j + wide) : out.n_rows;
        for (std::size_t i = 0; i < height; i += 8) {
            const std::int16_t *left = panel(rows + i) + 2 * (i % panel_columns), *right = panel(columns + j);
            if (panels == 3)
                multiply<vnni, 3>(left, right, n_pairs, sums);
            else if (panels == 2)
                multiply<vnni, 2>(left, right, n_pairs, sums);
            else
                multiply<vnni, 1>(left, right, n_pairs, sums);
            const std::size_t high = std::min(std::size_t{8}, out.n_rows - i);
            for (std::size_t r = 0; r < high; ++r)
                for (std::size_t p = 0; p < panels; ++p) {
                    double* to = out[i + r] + j + p * panel_columns;
                    const std::size_t count = std::min(panel_columns, wide - p * panel_columns);
                    for (std::size_t c = 0; c < count; ++c) to[c] += unit * unit * sums[p][r][c];
                }
        }
    }
}

}  // namespace bochner::BOCHNER_LEVEL
