// ZᵀZ in fixed point: features are integers of 16 or 8 bits, and one instruction multiplies those of two or four rows
// and adds the products up.
//
// The features of a column are multiples of its unit. Of 16 bits: at most 32766 of them, and so that the squares of 128
// rows sum up to less than 2^31: then so does any sum of products (Cauchy & Schwarz). Of 8 bits: at most 127. Sums are
// exact, whatever the order, and float64 adds them up. Layout of a packed slab: panels of 16 columns; in a panel, for
// every group of rows (2 of 16 bits or 4 of 8), a word for each column with the group's integers, first row lowest.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "vectors.hpp"

namespace bochner::BOCHNER_LEVEL {

constexpr std::size_t slab_groups = 256, panel_columns = 16, panel_words = slab_groups * panel_columns;
constexpr std::size_t extent_rows = 128;                     // whose squares are summed up
typedef std::int32_t Sums __attribute__((vector_size(64)));  // of the columns of a panel
template <class Int>
constexpr std::size_t group_rows = 4 / sizeof(Int);
template <class Int>  // before sums overflow; in a function, GCC 12 keeps them in memory
constexpr std::size_t sum_groups = sizeof(Int) == 1 ? slab_groups : extent_rows / group_rows<Int>;

// Of every column: the largest absolute value, the sum of squares, and the largest such sum of 128 rows; NaN and
// infinity make the sums NaN or infinite. `part` is scratch memory, one number for each column.
inline void extents(Rows<const float> Z, float* largest, float* squares, float* most, float* part) {
    std::fill(largest, largest + Z.n_columns, 0.0f);
    std::fill(squares, squares + Z.n_columns, 0.0f);
    std::fill(most, most + Z.n_columns, 0.0f);
    for (std::size_t first = 0; first < Z.n_rows; first += extent_rows) {
        std::fill(part, part + Z.n_columns, 0.0f);
        for (std::size_t i = first; i < std::min(first + extent_rows, Z.n_rows); ++i) {
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

// 32 pseudo-random bits from a seed and a position.
BOCHNER_INLINE std::uint32_t scramble(std::uint32_t seed, std::size_t place) {
    seed += static_cast<std::uint32_t>(place) * 0x9E3779B9u;
    seed = (seed ^ seed >> 16) * 0x7FEB352Du;
    return (seed ^ seed >> 15) * 0x846CA68Bu;
}

// A row's seed, which depends only on its entries.
inline std::uint32_t seed_of(const float* row, std::size_t n_columns) {
    std::uint32_t seed = 0;
    for (std::size_t j = 0; j < n_columns; ++j) {
        std::uint32_t bits;
        std::memcpy(&bits, row + j, sizeof bits);
        seed += scramble(bits, j);
    }
    return seed;
}

// Round the rows of a slab to multiples of the columns' units, in place, and pack the multiples; zeros where there is
// no row or column. Every |z| must be at most 32766 or 126 units; inverses are those of the units. To 8 bits, z goes up
// or down at random, so that its mean is z, however little a column varies; equal rows are rounded alike.
template <class Int>
void pack_slab(Rows<float> Z, const float* units, const float* inverses, std::int32_t* packed) {
    constexpr std::size_t group = group_rows<Int>, bits = 8 * sizeof(Int);
    constexpr std::uint32_t mask = (1u << bits) - 1;
    // words of a group lie 16 KiB apart: of 16 bits, some panels at a time, so that their lines stay in the cache
    const std::size_t most = bits == 8 ? Z.n_columns : 128;
    const auto round = [&](float& z, std::size_t column, std::uint32_t seed) BOCHNER_INLINE_LAMBDA {
        float count = z * inverses[column];
        if constexpr (bits == 8)  // and a number in [-1/2, 1/2)
            count += static_cast<float>(static_cast<std::int32_t>(scramble(seed, column))) * 0x1p-32f;
        count = (count + 12582912.0f) - 12582912.0f;  // adding and taking away 3 · 2^22 leaves the nearest integer
        z = count * units[column];
        return static_cast<std::uint32_t>(static_cast<std::int32_t>(count)) & mask;
    };
    for (std::size_t left = 0; left < Z.n_columns; left += most)
        for (std::size_t first_row = 0; first_row < Z.n_rows; first_row += group) {
            const std::size_t rows = std::min(group, Z.n_rows - first_row);
            std::uint32_t seeds[group] = {};
            if constexpr (bits == 8)
                for (std::size_t r = 0; r < rows; ++r) seeds[r] = seed_of(Z[first_row + r], Z.n_columns);
            for (std::size_t first = left; first < std::min(left + most, Z.n_columns); first += panel_columns) {
                const std::size_t count = std::min(panel_columns, Z.n_columns - first);
                std::uint32_t words[panel_columns] = {};
                if (count == panel_columns && rows == group) {
                    BOCHNER_UNROLL
                    for (std::size_t r = 0; r < group; ++r) {
                        float* z = Z[first_row + r] + first;
                        for (std::size_t j = 0; j < panel_columns; ++j)
                            words[j] |= round(z[j], first + j, seeds[r]) << r * bits;
                    }
                } else {
                    for (std::size_t r = 0; r < rows; ++r)
                        for (std::size_t j = 0; j < count; ++j)
                            words[j] |= round(Z[first_row + r][first + j], first + j, seeds[r]) << r * bits;
                }
                std::int32_t* out = packed + first / panel_columns * panel_words + first_row / group * panel_columns;
                std::memcpy(out, words, sizeof words);
            }
        }
}

// sums += the products of one group's integers, which every lane of `group` repeats, with each column's. Of 8 bits, the
// columns' have 128 added: the instruction takes them without a sign.
template <class Int, bool vnni>
BOCHNER_INLINE void multiply_groups(Sums& sums, const Sums& group, const Sums& columns) {
    if constexpr (vnni && has_avx512) {
        // asm: GCC 12 copies every register around the intrinsics, and clang refuses
        // the asm of other levels even in a branch that is left out.
#if defined(__AVX512F__)
        if constexpr (sizeof(Int) == 2)
            asm("vpdpwssd %1, %2, %0" : "+v"(sums) : "v"(group), "v"(columns));
        else
            asm("vpdpbusd %1, %2, %0" : "+v"(sums) : "v"(group), "v"(columns));
#endif
    } else {
        typedef Int Lefts __attribute__((vector_size(64)));
        typedef std::conditional_t<sizeof(Int) == 1, std::uint8_t, Int> Rights __attribute__((vector_size(64)));
        const Lefts a = (Lefts)group;
        const Rights b = (Rights)columns;
        for (std::size_t j = 0; j < panel_columns; ++j)
            for (std::size_t r = 0; r < group_rows<Int>; ++r)
                sums[j] += std::int32_t{a[group_rows<Int> * j + r]} * b[group_rows<Int> * j + r];
    }
}

// Integers of a panel's columns as `multiply_groups` takes them.
template <class Int>
BOCHNER_INLINE void load_columns(Sums& columns, const std::int32_t* words) {
    std::memcpy(&columns, words, sizeof columns);
    if constexpr (sizeof(Int) == 1) columns ^= Sums{} + std::int32_t(0x80808080);
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

// Adds the sums of 8 columns (half a panel, from `left` on) with those of `panels` panels, over n_groups groups of
// rows; `shifts` is what the 128 add to the sums of each of the 8.
template <class Int, bool vnni, std::size_t panels>
BOCHNER_INLINE void multiply(const std::int32_t* left, const std::int32_t* right, std::size_t n_groups,
                             const std::int32_t* shifts, double (*out)[8][panel_columns]) {
    Sums sums[8][panels] = {};
    for (std::size_t k = 0; k < n_groups; ++k) {
        Sums columns[panels];
        BOCHNER_UNROLL
        for (std::size_t p = 0; p < panels; ++p)
            load_columns<Int>(columns[p], right + p * panel_words + k * panel_columns);
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < 8; ++i) {
            const Sums group = Sums{} + left[k * panel_columns + i];
            BOCHNER_UNROLL
            for (std::size_t p = 0; p < panels; ++p) multiply_groups<Int, vnni>(sums[i][p], group, columns[p]);
        }
    }
    BOCHNER_UNROLL
    for (std::size_t p = 0; p < panels; ++p) {
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < 8; ++i) add_to(out[p][i], sums[i][p] - shifts[i]);
    }
}

// out[i, j] += u[rows + i] u[columns + j] Σ_k q[k, rows + i] q[k, columns + j], q the integers of a slab and u its
// units; rows and columns begin with a panel. With rows == columns, only what lies on and above the diagonal (and some
// below) is added.
template <class Int, bool vnni>
void add_gram(const std::int32_t* packed, std::size_t n_rows, const float* units, std::size_t rows, std::size_t columns,
              Rows<double> out) {
    constexpr std::size_t most = 3;  // panels: 24 registers of sums
    const std::size_t n_groups = (n_rows + group_rows<Int> - 1) / group_rows<Int>;
    const auto panel = [&](std::size_t column) { return packed + column / panel_columns * panel_words; };
    Scratch<std::int32_t> shifts(out.n_rows + panel_columns);
    for (std::size_t i = 0; i < out.n_rows; i += panel_columns) {
        Sums shift = {};
        if constexpr (sizeof(Int) == 1)
            for (std::size_t k = 0; k < n_groups; ++k) {
                Sums group;
                std::memcpy(&group, panel(rows + i) + k * panel_columns, sizeof group);
                multiply_groups<Int, vnni>(shift, group, Sums{} + std::int32_t(0x80808080));
            }
        std::memcpy(shifts.data() + i, &shift, sizeof shift);
    }
    for (std::size_t j = 0; j < out.n_columns; j += most * panel_columns) {
        const std::size_t wide = std::min(most * panel_columns, out.n_columns - j);
        const std::size_t panels = (wide + panel_columns - 1) / panel_columns;
        const std::size_t height = rows == columns ? std::min(out.n_rows, j + wide) : out.n_rows;
        const std::int32_t* right = panel(columns + j);
        for (std::size_t i = 0; i < height; i += 8) {
            const std::int32_t* left = panel(rows + i) + i % panel_columns;
            double sums[most][8][panel_columns] = {};
            for (std::size_t k = 0; k < n_groups; k += sum_groups<Int>) {
                const std::int32_t *a = left + k * panel_columns, *b = right + k * panel_columns;
                const std::size_t count = std::min(sum_groups<Int>, n_groups - k);
                if (panels == 3)
                    multiply<Int, vnni, 3>(a, b, count, shifts.data() + i, sums);
                else if (panels == 2)
                    multiply<Int, vnni, 2>(a, b, count, shifts.data() + i, sums);
                else
                    multiply<Int, vnni, 1>(a, b, count, shifts.data() + i, sums);
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
