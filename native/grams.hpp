// ZᵀZ in fixed point: features as 16-bit integers, two products and a sum in one instruction.
//
// A `slab` is 512 rows. The features of a column are multiples of its unit, at most 32766 of them, and so that the
// squares of 128 rows sum up to less than 2^31: then so does any sum of products (Cauchy & Schwarz), the integers are
// exact, whatever the order, and float64 adds them up. Layout of a packed slab: panels of 16 columns; in a panel, for
// every two rows, the two integers of each column side by side.
#pragma once

#include <algorithm>
#include <cmath>

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

constexpr std::size_t slab_rows = 512, panel_columns = 16, sum_pairs = 64;
constexpr std::size_t panel_size = slab_rows * panel_columns;
typedef std::int32_t Sums __attribute__((vector_size(64)));  // of the columns of a panel

// Of every column: the largest absolute value, the sum of squares, and the largest such sum of 128 rows; NaN and
// infinity make the sums NaN or infinite. `part` is room for a number a column.
inline void extents(Rows<const float> Z, float* largest, float* squares, float* most, float* part) {
    std::fill(largest, largest + Z.n_columns, 0.0f);
    std::fill(squares, squares + Z.n_columns, 0.0f);
    std::fill(most, most + Z.n_columns, 0.0f);
    for (std::size_t first = 0; first < Z.n_rows; first += 2 * sum_pairs) {
        std::fill(part, part + Z.n_columns, 0.0f);
        for (std::size_t i = first; i < std::min(first + 2 * sum_pairs, Z.n_rows); ++i) {
            const float* row = Z[i];
            std::size_t j = 0;
            for (; j + lanes<float> <= Z.n_columns; j += lanes<float>) {
                const Vec<float> z = load(row + j), size = z < 0.0f ? -z : z, top = load(largest + j);
                store(largest + j, size > top ? size : top);
                store(part + j, load(part + j) + z * z);
            }
            for (; j < Z.n_columns; ++j) {
                largest[j] = std::max(largest[j], std::abs(row[j]));
                part[j] += row[j] * row[j];
            }
        }
        for (std::size_t j = 0; j < Z.n_columns; ++j) {
            squares[j] += part[j];
            most[j] = part[j] > most[j] ? part[j] : most[j];
        }
    }
}

// Round the rows of a slab to multiples of the columns' units, in place, and pack the multiples; zeros where there is
// no row or column. Every |z| must be at most 32766 units; inverses are those of the units.
inline void pack_slab(Rows<float> Z, const float* units, const float* inverses, std::int16_t* packed) {
    const std::size_t n_pairs = (Z.n_rows + 1) / 2;
    const auto round = [&](float& z, std::size_t column) BOCHNER_INLINE_LAMBDA {
        // adding and taking away 3 · 2^22 leaves the nearest integer
        const float count = (z * inverses[column] + 12582912.0f) - 12582912.0f;
        z = count * units[column];
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
                    const std::int16_t low = round(even[first + j], first + j), high = round(odd[first + j], first + j);
                    out[2 * j] = low, out[2 * j + 1] = high;
                }
                continue;
            }
            std::fill(out, out + 2 * panel_columns, std::int16_t{0});
            for (std::size_t j = 0; j < count; ++j) {
                out[2 * j] = round(even[first + j], first + j);
                if (two) out[2 * j + 1] = round(odd[first + j], first + j);
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

// GCC 12 converts integers one by one where it has no intrinsic.
BOCHNER_INLINE void add_to(double* out, const Sums& sums) {
#if defined(__AVX512BW__)
    const __m512d low = _mm512_maskz_cvtepi32_pd(-1, _mm512_castsi512_si256((__m512i)sums));
    const __m512d high = _mm512_maskz_cvtepi32_pd(-1, _mm512_maskz_extracti64x4_epi64(-1, (__m512i)sums, 1));
    store(out, load(out) + (Vec<double>)low);
    store(out + 8, load(out + 8) + (Vec<double>)high);
#else
    for (std::size_t c = 0; c < panel_columns; ++c) out[c] += sums[c];
#endif
}

// Adds the sums of 8 columns (half a panel, from `left` on) with those of `panels` panels, over at most 64 pairs of
// rows.
template <bool vnni, std::size_t panels>
BOCHNER_INLINE void multiply(const std::int16_t* left, const std::int16_t* right, std::size_t n_pairs,
                             double (*out)[8][panel_columns]) {
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
        for (std::size_t i = 0; i < 8; ++i) add_to(out[p][i], sums[i][p]);
    }
}

// out[i, j] += u[rows + i] u[columns + j] Σ_k q[k, rows + i] q[k, columns + j], q the integers of a slab and u its
// units; rows and columns begin with a panel. With rows == columns, only what lies on and above the diagonal (and some
// below) is added.
template <bool vnni>
void add_gram(const std::int16_t* packed, std::size_t n_rows, const float* units, std::size_t rows, std::size_t columns,
              Rows<double> out) {
    constexpr std::size_t most = 3;  // panels: 24 registers of sums
    const std::size_t n_pairs = (n_rows + 1) / 2;
    const auto panel = [&](std::size_t column) { return packed + column / panel_columns * panel_size; };
    for (std::size_t j = 0; j < out.n_columns; j += most * panel_columns) {
        const std::size_t wide = std::min(most * panel_columns, out.n_columns - j);
        const std::size_t panels = (wide + panel_columns - 1) / panel_columns;
        const std::size_t height = rows == columns ? std::min(out.n_rows, j + wide) : out.n_rows;
        for (std::size_t i = 0; i < height; i += 8) {
            const std::int16_t *left = panel(rows + i) + 2 * (i % panel_columns), *right = panel(columns + j);
            double sums[most][8][panel_columns] = {};
            for (std::size_t k = 0; k < n_pairs; k += sum_pairs) {
                const std::int16_t *a = left + k * 2 * panel_columns, *b = right + k * 2 * panel_columns;
                const std::size_t count = std::min(sum_pairs, n_pairs - k);
                if (panels == 3)
                    multiply<vnni, 3>(a, b, count, sums);
                else if (panels == 2)
                    multiply<vnni, 2>(a, b, count, sums);
                else
                    multiply<vnni, 1>(a, b, count, sums);
            }
            const std::size_t high = std::min(std::size_t{8}, out.n_rows - i);
            for (std::size_t r = 0; r < high; ++r)
                for (std::size_t p = 0; p < panels; ++p) {
                    const double unit = units[rows + i + r];
                    const float* others = units + columns + j + p * panel_columns;
                    double* to = out[i + r] + j + p * panel_columns;
                    const std::size_t count = std::min(panel_columns, wide - p * panel_columns);
                    for (std::size_t c = 0; c < count; ++c) to[c] += unit * others[c] * sums[p][r][c];
                }
        }
    }
}

}  // namespace bochner::BOCHNER_LEVEL
