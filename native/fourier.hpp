// Random Fourier features of a block of rows: phases of a row are made in scratch memory that stays in the
// first caches, and a sink turns them into columns at once; the phases of the block never exist as a matrix.
#pragma once

#include "hadamard.hpp"
#include "panels.hpp"
#include "sinks.hpp"

namespace bochner::BOCHNER_LEVEL {

// Blocks of one row whose phases go to the sink together: short blocks would leave most of a vector idle.
constexpr std::size_t panel_phases = 512;
// Rows that share the signs and lengths of a panel while these are in the first cache.
constexpr std::size_t rows_together = 4;

// `block(x, b, phases)` writes the p phases of block b of one row times `factor`, padded to p; `lengths`
// multiply them.
template <class T, class Block, class Sink>
BOCHNER_INLINE void blockwise(Rows<const T> X, std::size_t p, const float* lengths, T factor, std::size_t n_frequencies,
                              const Block& block, const Sink& sink, Rows<T> out) {
    const std::size_t blocks_together = p < panel_phases ? panel_phases / p : 1;
    const std::size_t width = blocks_together * p;
    Scratch<T> padded(rows_together * p), phases(width);
    for (std::size_t row = 0; row < X.n_rows; row += rows_together) {
        const std::size_t n_rows = std::min(rows_together, X.n_rows - row);
        for (std::size_t r = 0; r < n_rows; ++r) {
            T* x = padded.data() + r * p;
            for (std::size_t i = 0; i < X.n_columns; ++i) x[i] = factor * X[row + r][i];
            std::fill(x + X.n_columns, x + p, T(0));
        }
        for (std::size_t first = 0; first < n_frequencies; first += width) {
            const std::size_t count = std::min(width, n_frequencies - first);
            for (std::size_t r = 0; r < n_rows; ++r) {
                for (std::size_t done = 0; done < count; done += p)
                    block(padded.data() + r * p, (first + done) / p, phases.data() + done);
                sink(Multiplied<T>{phases.data(), lengths + first}, first, count, out[row + r]);
            }
        }
    }
}

template <class T, std::size_t radix>
BOCHNER_INLINE void flip(Vec<T> (&v)[radix], const std::int8_t* signs, std::size_t width) {
    BOCHNER_UNROLL
    for (std::size_t i = 0; i < radix; ++i) v[i] = flipped<T>(v[i], signs + i * width);
}

// H D0 H D1 H D2 x (SORF; Yu et al. 2016) with the signs D of the block, shape (3, p). The middle transform does
// its far passes first, so that the passes of two transforms meet in registers.
template <class T>
struct StructuredBlock {
    const std::int8_t* signs;
    Passes<T> passes;

    BOCHNER_INLINE void operator()(const T* x, std::size_t b, T* phases) const {
        const std::size_t p = passes.p, last = passes.n - 1;
        const std::int8_t *flips0 = signs + 3 * p * b, *flips1 = flips0 + p, *flips2 = flips1 + p;
        const Flipped<T> source{x, flips2};
        const Plain<T> again{phases};
        const auto far = [flips1](auto& v, std::size_t first, std::size_t width) BOCHNER_INLINE_LAMBDA {
            transform_vectors<T>(v);
            flip<T>(v, flips1 + first, width);
            transform_vectors<T>(v);
        };
        const auto near = [flips0](auto& v, std::size_t first, std::size_t width) BOCHNER_INLINE_LAMBDA {
            Near<T>{}(v, first, width);
            flip<T>(v, flips0 + first, width);
            Near<T>{}(v, first, width);
        };
        const auto all = [=](auto& v, std::size_t first, std::size_t width) BOCHNER_INLINE_LAMBDA {
            Near<T>{}(v, first, width);
            flip<T>(v, flips1 + first, width);
            near(v, first, width);
        };
        if (p < lanes<T>) {
            transform_short(source, phases, p);
            transform_short(Flipped<T>{phases, flips1}, phases, p);
            return transform_short(Flipped<T>{phases, flips0}, phases, p);
        }
        if (passes.n == 1) return passes(0, source, phases, all);
        passes(0, source, phases, Near<T>{});
        for (std::size_t i = 1; i < last; ++i) passes(i, again, phases, Far<T>{});
        passes(last, again, phases, far);
        for (std::size_t i = last; --i > 0;) passes(i, again, phases, Far<T>{});
        passes(0, again, phases, near);
        for (std::size_t i = 1; i <= last; ++i) passes(i, again, phases, Far<T>{});
    }
};

// H G Π H B x (Fastfood; Le, Sarlós & Smola 2013).
template <class T>
struct FastfoodBlock {
    const std::int8_t* signs;
    const std::int32_t* permutations;
    const float* gains;
    Passes<T> passes;
    T* mixed;  // scratch, p values

    BOCHNER_INLINE void operator()(const T* x, std::size_t b, T* phases) const {
        const std::size_t p = passes.p;
        transform(Flipped<T>{x, signs + p * b}, mixed, passes);
        transform(Permuted<T>{mixed, permutations + p * b, gains + p * b, p - 1}, phases, passes);
    }
};

template <class T>
struct Product {
    BOCHNER_INLINE static Vec<T> add(Vec<T> sum, T x, Vec<T> w) { return sum + x * w; }
};

template <class T>
void pairs(Rows<const T> A, double scale, double tail, Rows<T> out) {
    const Pairs<T> sink{out.n_columns, static_cast<T>(scale), static_cast<T>(tail), out.streams};
    for (std::size_t row = 0; row < A.n_rows; ++row) sink(Plain<T>{A[row]}, 0, A.n_columns, out[row]);
}

template <class T>
void cosines(Rows<const T> A, const T* offsets, double scale, Rows<T> out) {
    const Cosines<T> sink{static_cast<T>(scale)};
    for (std::size_t row = 0; row < A.n_rows; ++row) sink(Shifted<T>{A[row], offsets}, 0, A.n_columns, out[row]);
}

template <class T>
void dense_pairs(Rows<const T> X, Rows<const T> W, double scale, double tail, Rows<T> out) {
    against_panels<T, Product<T>>(
        X, W, Pairs<T>{out.n_columns, static_cast<T>(scale), static_cast<T>(tail), out.streams}, out);
}

// Blocks are linear in x: they give quarter turns at no cost.
template <class T>
BOCHNER_INLINE Pairs<T, QuarterTurns> pairs_of_turns(Rows<T> out, double scale, double tail) {
    return {out.n_columns, static_cast<T>(scale), static_cast<T>(tail * QuarterTurns::in_a_radian), out.streams};
}

template <class T, class Sink>
BOCHNER_INLINE void structured(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths,
                               double factor, std::size_t n_frequencies, const Sink& sink, Rows<T> out) {
    const double size = static_cast<double>(p);
    factor /= size * std::sqrt(size);
    blockwise(X, p, lengths, static_cast<T>(factor), n_frequencies, StructuredBlock<T>{signs, Passes<T>(p)}, sink, out);
}

template <class T>
void structured_phases(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths, Rows<T> out) {
    structured(X, p, signs, lengths, 1, out.n_columns, AsTheyAre<T>{}, out);
}

template <class T>
void structured_pairs(Rows<const T> X, std::size_t p, const std::int8_t* signs, const float* lengths, double scale,
                      double tail, Rows<T> out) {
    const auto sink = pairs_of_turns<T>(out, scale, tail);
    structured(X, p, signs, lengths, QuarterTurns::in_a_radian, (out.n_columns + 1) / 2, sink, out);
}

template <class T, class Sink>
BOCHNER_INLINE void fastfood(Rows<const T> X, std::size_t p, const std::int8_t* signs, const std::int32_t* permutations,
                             const float* gains, const float* lengths, double factor, std::size_t n_frequencies,
                             const Sink& sink, Rows<T> out) {
    Scratch<T> mixed(p);
    const FastfoodBlock<T> block{signs, permutations, gains, Passes<T>(p), mixed.data()};
    blockwise(X, p, lengths, static_cast<T>(factor), n_frequencies, block, sink, out);
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
    fastfood(X, p, signs, permutations, gains, lengths, QuarterTurns::in_a_radian, (out.n_columns + 1) / 2, sink, out);
}

}  // namespace bochner::BOCHNER_LEVEL
