// Random Fourier features of a block of rows: phases of a row are made in scratch memory that stays in the
// first caches, and a sink turns them into columns at once; the phases of the block never exist as a matrix.
#pragma once

#include "hadamard.hpp"
#include "panels.hpp"
#include "sinks.hpp"

namespace bochner::BOCHNER_LEVEL {

// Phases of one row that go to the sink together: short blocks would leave most of a vector idle.
template <class T, std::size_t E>
constexpr std::size_t panel_phases = E == 1 ? 128 : 512;
// Rows that are transformed together ("abreast") take at most half of the first cache.
constexpr std::size_t bytes_abreast = 1 << 14;

// Vectors of rows abreast become one vector of each row. First inside pieces of 16 bytes, then by whole pieces: such
// shuffles leave room for sums and products beside them, where those of any lanes do not.
template <class T, std::size_t E>
BOCHNER_INLINE void turn(Vec<T> (&v)[lanes<T> / E]) {
    constexpr auto all = std::make_index_sequence<lanes<T>>{};
    constexpr std::size_t piece = std::max<std::size_t>(E, 16 / sizeof(T)), inside = piece / E;
    constexpr std::size_t n_pieces = lanes<T> / piece;
    Vec<T> t[lanes<T> / E];
    BOCHNER_UNROLL
    for (std::size_t start = 0; start < inside * n_pieces; start += inside) {
        if constexpr (inside == 1) {
            t[start] = v[start];
        } else if constexpr (inside == 2) {
            t[start] = riffle_pieces<T, piece, 1, 0>(v[start], v[start + 1], all);
            t[start + 1] = riffle_pieces<T, piece, 1, 1>(v[start], v[start + 1], all);
        } else {
            static_assert(inside == 4);
            Vec<T> u[4];
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < 4; i += 2) {
                u[i] = riffle_pieces<T, piece, 1, 0>(v[start + i], v[start + i + 1], all);
                u[i + 1] = riffle_pieces<T, piece, 1, 2>(v[start + i], v[start + i + 1], all);
            }
            BOCHNER_UNROLL
            for (std::size_t i = 0; i < 2; ++i) {
                t[start + 2 * i] = riffle_pieces<T, piece, 2, 0>(u[i], u[i + 2], all);
                t[start + 2 * i + 1] = riffle_pieces<T, piece, 2, 2>(u[i], u[i + 2], all);
            }
        }
    }
    BOCHNER_UNROLL
    for (std::size_t half = 1; half < n_pieces; half *= 2) {
        BOCHNER_UNROLL
        for (std::size_t i = 0; i < inside * n_pieces; ++i) {
            if (i / inside & half) continue;
            const Vec<T> a = t[i], b = t[i + half * inside];
            t[i] = unriffle<T, piece, 0>(a, b, all);
            t[i + half * inside] = unriffle<T, piece, piece>(a, b, all);
        }
    }
    BOCHNER_UNROLL
    for (std::size_t i = 0; i < inside * n_pieces; ++i) v[i] = t[i];
}

// The near pass that ends a block: its vectors are turned while they are in registers.
template <class T, std::size_t E>
struct Last {
    template <std::size_t radix>
    BOCHNER_INLINE void operator()(Vec<T> (&v)[radix], std::size_t first, std::size_t width) const {
        Near<T, E, Order::down>{}(v, first, width);
        constexpr std::size_t abreast = lanes<T> / E;
        if constexpr (radix % abreast == 0) {  // always: p >= lanes
            BOCHNER_UNROLL
            for (std::size_t start = 0; start < radix; start += abreast) {
                Vec<T> rows[abreast];
                BOCHNER_UNROLL
                for (std::size_t i = 0; i < abreast; ++i) rows[i] = v[start + i];
                turn<T, E>(rows);
                BOCHNER_UNROLL
                for (std::size_t i = 0; i < abreast; ++i) v[start + i] = rows[i];
            }
        }
    }
};

// One of the rows that `Last` turned, times lengths.
template <class T, std::size_t abreast>
struct Turned {
    const T* x;
    const float* lengths;
    BOCHNER_INLINE Vec<T> operator()(std::size_t i) const { return load(x + i * abreast) * load_as<T>(lengths + i); }
    BOCHNER_INLINE T at(std::size_t i) const {
        return rounded(x[i / lanes<T> * lanes<T> * abreast + i % lanes<T>] * static_cast<T>(lengths[i]));
    }
};

// Rows in groups of lanes / E abreast, as many groups as are complete; returns the number of rows. `block.prepare(b,
// n)` makes n blocks ready, `block(x, j, phases)` writes the phases of the j-th of them for a group x of rows, padded
// to p and times `factor`; `lengths` multiply them.
template <class T, std::size_t E, class Block, class Sink>
BOCHNER_INLINE std::size_t blockwise(Rows<const T> X, std::size_t p, const float* lengths, T factor,
                                     std::size_t n_frequencies, const Block& block, const Sink& sink, Rows<T> out) {
    constexpr std::size_t abreast = lanes<T> / E;
    constexpr std::size_t panel = panel_phases<T, E>;
    constexpr std::size_t together = E == 1 ? 1 : 4;  // groups that share a panel's signs and lengths
    const std::size_t width = std::max(p, panel), n_groups = X.n_rows / abreast, size = abreast * p;
    // The numbers of the rows are interleaved: beyond the first cache, all rows finish what is near before they go on.
    const std::size_t step = abreast > 1 && abreast * width * sizeof(T) > 2 * bytes_abreast ? panel : width;
    if (n_groups == 0) return 0;
    Scratch<T> padded(std::min(together, n_groups) * size), phases(abreast * width);
    for (std::size_t group = 0; group < n_groups; group += together) {
        const std::size_t stop = std::min(group + together, n_groups);
        for (std::size_t g = group; g < stop; ++g)
            for (std::size_t r = 0; r < abreast; ++r) {
                T* x = padded.data() + (g - group) * size + r * E;
                const T* from = X[g * abreast + r];
                for (std::size_t i = 0; i < p; ++i)
                    x[i / E * lanes<T> + i % E] = i < X.n_columns ? factor * from[i] : T(0);
            }
        for (std::size_t first = 0; first < n_frequencies; first += width) {
            const std::size_t count = std::min(width, n_frequencies - first), n_blocks = (count + p - 1) / p;
            block.prepare(first / p, n_blocks);
            for (std::size_t g = group; g < stop; ++g) {
                for (std::size_t j = 0; j < n_blocks; ++j)
                    block(padded.data() + (g - group) * size, j, phases.data() + j * size);
                for (std::size_t done = 0; done < count; done += step) {
                    const std::size_t n = std::min(step, count - done), start = first + done;
                    const T* turned = phases.data() + done * abreast;
                    for (std::size_t r = 0; r < abreast; ++r)
                        sink(Turned<T, abreast>{turned + r * lanes<T>, lengths + start}, start, n,
                             out[g * abreast + r]);
                }
            }
        }
    }
    return n_groups * abreast;
}

// The signs of a panel of blocks, n to a block, for rows abreast.
template <class T, std::size_t E>
class PanelFlips {
  public:
    PanelFlips(const std::int8_t* signs, std::size_t p, std::size_t n)
        : signs_(signs), n_(n), flips_(E == lanes<T> ? 1 : n * (panel_phases<T, E> / p + 1) + lanes<T>) {}

    void prepare(std::size_t b, std::size_t n_blocks) {
        first_ = b;
        if constexpr (E != lanes<T>)
            for (std::size_t i = 0; i < n_ * n_blocks; ++i) flips_.data()[i] = signs_[n_ * b + i] & sign_bit<T>;
    }
    std::size_t first() const { return first_; }
    Flips<T, E> operator[](std::size_t j) {
        if constexpr (E == lanes<T>)
            return {signs_ + (first_ + j) * n_};
        else
            return {flips_.data() + j * n_};
    }

  private:
    const std::int8_t* signs_;
    std::size_t n_, first_ = 0;
    Scratch<Integer<T>> flips_;
};

template <class T, std::size_t E, std::size_t radix>
BOCHNER_INLINE void flip(Vec<T> (&v)[radix], Flips<T, E> flips, std::size_t first, std::size_t width) {
    BOCHNER_UNROLL
    for (std::size_t i = 0; i < radix; ++i) v[i] = flips(v[i], first + i * width);
}

// H D0 H D1 H D2 x (SORF; Yu et al. 2016) with the signs D of the block, shape (3, p). The middle transform goes
// through the levels up and the others down, so that the passes of two transforms meet in registers.
template <class T, std::size_t E>
struct StructuredBlock {
    static constexpr Order up = Order::up, down = Order::down;
    Passes<T, E> passes;
    PanelFlips<T, E>& signs;

    void prepare(std::size_t b, std::size_t n_blocks) const { signs.prepare(b, n_blocks); }

    __attribute__((noinline)) void operator()(const T* x, std::size_t j, T* phases) const {
        const std::size_t p = passes.p, last = passes.n - 1;
        const Flips<T, E> flips0 = signs[j], flips1{flips0.signs + p}, flips2{flips1.signs + p};
        const Flipped<T, E> source{x, flips2};
        const Plain<T> again{phases};
        const auto near = [flips1](auto& v, std::size_t first, std::size_t width) BOCHNER_INLINE_LAMBDA {
            Near<T, E, down>{}(v, first, width);
            flip<T>(v, flips1, first, width);
            Near<T, E, up>{}(v, first, width);
        };
        const auto far = [flips0](auto& v, std::size_t first, std::size_t width) BOCHNER_INLINE_LAMBDA {
            transform_vectors<T, up>(v);
            flip<T>(v, flips0, first, width);
            transform_vectors<T, down>(v);
        };
        const auto all = [=](auto& v, std::size_t first, std::size_t width) BOCHNER_INLINE_LAMBDA {
            near(v, first, width);
            flip<T>(v, flips0, first, width);
            Last<T, E>{}(v, first, width);
        };
        if constexpr (E == lanes<T>)
            if (p < E) {
                transform_short<down>(source, phases, p);
                transform_short<up>(Flipped<T>{phases, flips1}, phases, p);
                return transform_short<down>(Flipped<T>{phases, flips0}, phases, p);
            }
        if (last == 0) return passes.near(source, phases, all);
        passes.far(last, source, phases, Far<T, down>{});
        for (std::size_t i = last; --i > 0;) passes.far(i, again, phases, Far<T, down>{});
        passes.near(again, phases, near);
        for (std::size_t i = 1; i < last; ++i) passes.far(i, again, phases, Far<T, up>{});
        passes.far(last, again, phases, far);
        for (std::size_t i = last; --i > 0;) passes.far(i, again, phases, Far<T, down>{});
        passes.near(again, phases, Last<T, E>{});
    }
};

// H G Π H B x (Fastfood; Le, Sarlós & Smola 2013).
template <class T, std::size_t E>
struct FastfoodBlock {
    Passes<T, E> passes;
    PanelFlips<T, E>& signs;
    const std::int32_t* permutations;
    const float* gains;
    T* mixed;  // scratch for a block of rows abreast

    void prepare(std::size_t b, std::size_t n_blocks) const { signs.prepare(b, n_blocks); }

    __attribute__((noinline)) void operator()(const T* x, std::size_t j, T* phases) const {
        const std::size_t p = passes.p, start = (signs.first() + j) * p;
        transform(Flipped<T, E>{x, signs[j]}, mixed, passes);
        const Permuted<T, E> source{mixed, permutations + start, gains + start, p - 1};
        const std::size_t last = passes.n - 1;
        if constexpr (E == lanes<T>)
            if (p < E) return transform_short<Order::down>(source, phases, p);
        if (last == 0) return passes.near(source, phases, Last<T, E>{});
        passes.far(last, source, phases, Far<T, Order::down>{});
        for (std::size_t i = last; --i > 0;) passes.far(i, Plain<T>{phases}, phases, Far<T, Order::down>{});
        passes.near(Plain<T>{phases}, phases, Last<T, E>{});
    }
};

// The rows from `row` on.
template <class T>
BOCHNER_INLINE Rows<T> from(Rows<T> rows, std::size_t row) {
    rows.data = rows[row];
    rows.n_rows -= row;
    return rows;
}

// Whether lanes / E rows of p numbers abreast stay in the first cache.
template <class T, std::size_t E>
constexpr bool fits_abreast(std::size_t p, std::size_t limit = bytes_abreast) {
    return p >= lanes<T> && p * lanes<T> / E * sizeof(T) <= limit;
}

template <class T>
struct Product {
    BOCHNER_INLINE static Vec<T> add(Vec<T> sum, T x, Vec<T> w) { return sum + x * w; }
};

template <class T>
void pairs(Rows<const T> A, double scale, double tail, Rows<T> out) {
    const Pairs<T> sink{out.n_columns, Radians<T>(static_cast<T>(scale)), static_cast<T>(tail), out.streams};
    for (std::size_t row = 0; row < A.n_rows; ++row) sink(Plain<T>{A[row]}, 0, A.n_columns, out[row]);
}

template <class T>
void cosines(Rows<const T> A, const T* offsets, double scale, Rows<T> out) {
    const Cosines<T> sink{static_cast<T>(scale)};
    for (std::size_t row = 0; row < A.n_rows; ++row) sink(Shifted<T>{A[row], offsets}, 0, A.n_columns, out[row]);
}

// Blocks are linear in x: they give quarter turns at no cost.
template <class T>
BOCHNER_INLINE Pairs<T, QuarterTurns> pairs_of_turns(Rows<T> out, double scale, double tail) {
    return {out.n_columns, QuarterTurns<T>(static_cast<T>(scale)), static_cast<T>(tail * quarter_turns), out.streams};
}

// Sums carry rounding errors of their own, as large as what a factor adds.
template <class T, class Sink>
struct InQuarterTurns {
    const Sink& sink;
    BOCHNER_INLINE void operator()(Plain<T> source, std::size_t first, std::size_t count, T* out) const {
        sink(Scaled<T>{source.x, static_cast<T>(quarter_turns)}, first, count, out);
    }
};

template <class T>
void dense_pairs(Rows<const T> X, Rows<const T> W, double scale, double tail, Rows<T> out) {
    const auto sink = pairs_of_turns<T>(out, scale, tail);
    against_panels<T, Product<T>>(X, W, InQuarterTurns<T, decltype(sink)>{sink}, out);
}

template <class T, std::size_t E, class Sink>
BOCHNER_INLINE std::size_t structured(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths,
                                      double factor, std::size_t n_frequencies, const Sink& sink, Rows<T> out) {
    const double size = static_cast<double>(p);
    factor /= size * std::sqrt(size);
    PanelFlips<T, E> flips(signs, p, 3 * p);
    const StructuredBlock<T, E> block{Passes<T, E>(p), flips};
    return blockwise<T, E>(X, p, lengths, static_cast<T>(factor), n_frequencies, block, sink, out);
}

template <class T, class Sink>
BOCHNER_INLINE void structured(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths,
                               double factor, std::size_t n_frequencies, const Sink& sink, Rows<T> out) {
    std::size_t done = 0;
    if (fits_abreast<T, 1>(p)) {
        done = structured<T, 1>(X, p, signs, lengths, factor, n_frequencies, sink, out);
    } else if constexpr (lanes<T> > 4) {
        if (fits_abreast<T, 4>(p)) done = structured<T, 4>(X, p, signs, lengths, factor, n_frequencies, sink, out);
    }
    structured<T, lanes<T>>(from(X, done), p, signs, lengths, factor, n_frequencies, sink, from(out, done));
}

template <class T>
void structured_phases(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths, Rows<T> out) {
    structured(X, p, signs, lengths, 1, out.n_columns, AsTheyAre<T>{}, out);
}

template <class T>
void structured_pairs(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths, double scale,
                      double tail, Rows<T> out) {
    const auto sink = pairs_of_turns<T>(out, scale, tail);
    structured(X, p, signs, lengths, quarter_turns, (out.n_columns + 1) / 2, sink, out);
}

template <class T, std::size_t E, class Sink>
BOCHNER_INLINE std::size_t fastfood(Rows<const T> X, std::size_t p, const std::int8_t* signs,
                                    const std::int32_t* permutations, const float* gains, const float* lengths,
                                    double factor, std::size_t n_frequencies, const Sink& sink, Rows<T> out) {
    Scratch<T> mixed(p * lanes<T> / E);
    PanelFlips<T, E> flips(signs, p, p);
    const FastfoodBlock<T, E> block{Passes<T, E>(p), flips, permutations, gains, mixed.data()};
    return blockwise<T, E>(X, p, lengths, static_cast<T>(factor), n_frequencies, block, sink, out);
}

template <class T, class Sink>
BOCHNER_INLINE void fastfood(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* permutations,
                             const float* gains, const float* lengths, double factor, std::size_t n_frequencies,
                             const Sink& sink, Rows<T> out) {
    std::size_t done = 0;
    if (fits_abreast<T, 1>(p, 4 * bytes_abreast))  // the second cache is soon read, gathering is slow
        done = fastfood<T, 1>(X, p, signs, permutations, gains, lengths, factor, n_frequencies, sink, out);
    fastfood<T, lanes<T>>(from(X, done), p, signs, permutations, gains, lengths, factor, n_frequencies, sink,
                          from(out, done));
}

template <class T>
void fastfood_phases(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* permutations,
                     const float* gains, const float* lengths, Rows<T> out) {
    fastfood(X, p, signs, permutations, gains, lengths, 1, out.n_columns, AsTheyAre<T>{}, out);
}

template <class T>
void fastfood_pairs(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* permutations,
                    const float* gains, const float* lengths, double scale, double tail, Rows<T> out) {
    const auto sink = pairs_of_turns<T>(out, scale, tail);
    fastfood(X, p, signs, permutations, gains, lengths, quarter_turns, (out.n_columns + 1) / 2, sink, out);
}

}  // namespace bochner::BOCHNER_LEVEL
