// Python bindings of the headers: types, shapes, strides and the GIL, nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels.hpp"
#include "processor.hpp"

namespace nb = nanobind;
using namespace bochner;

namespace {

template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Signs = nb::ndarray<const std::int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Signs3 = nb::ndarray<const std::int8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Permutations = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Gains = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Of `Profile`, in its order.
constexpr const char* profiles[] = {"gaussian",       "matern12",       "matern32",       "matern52",      "laplacian",
                                    "gaussian slope", "matern12 slope", "matern32 slope", "matern52 slope"};

// The levels this processor runs, slowest first.
std::vector<const Level*> runnable() {
    std::vector<const Level*> levels = {&baseline::level};
#ifdef BOCHNER_X86_LEVELS
    const Processor processor;
    if (processor.v3) levels.push_back(&v3::level);
    if (processor.v4) levels.push_back(&v4::level);
#endif
    return levels;
}

const Level* current = runnable().back();

template <class T>
const Kernels<T>& kernels() {
    if constexpr (std::is_same_v<T, float>)
        return current->floats;
    else
        return current->doubles;
}

void expect(bool condition, const char* message) {
    if (!condition) throw std::invalid_argument(message);
}

template <class T>
Rows<T> any_strides(const Matrix<T>& m) {
    return {m.data(), m.shape(0), m.shape(1), m.stride(0), m.stride(1)};
}

template <class T>
Rows<T> rows(const Matrix<T>& m) {
    expect(m.size() == 0 || m.shape(1) == 1 || m.stride(1) == 1, "expected unit stride along the columns");
    return {m.data(), m.shape(0), m.shape(1), m.stride(0)};
}

// Rows whose pairs go past the caches, if `stream` and they lie on boundaries of 64 bytes.
template <class T>
Rows<T> streamed_rows(const Matrix<T>& m, bool stream) {
    Rows<T> result = rows(m);
    const auto aligned = [](auto bytes) { return bytes % 64 == 0; };
    result.streams = stream && aligned(reinterpret_cast<std::uintptr_t>(m.data())) &&
                     aligned(result.row_stride * static_cast<std::ptrdiff_t>(sizeof(T)));
    return result;
}

// Whether begin + count <= size, where the sum may be larger than any number.
bool lies_within(std::size_t begin, std::size_t count, std::size_t size) {
    return begin <= size && count <= size - begin;
}

void expect_blocks(std::size_t n_columns, std::size_t p, std::size_t n_blocks, std::size_t n_frequencies) {
    expect(p > 0 && (p & (p - 1)) == 0 && n_columns <= p, "expected blocks of a power of two >= n_features");
    expect(n_frequencies <= n_blocks * p, "expected lengths for at most every row of the blocks");
}

template <class T>
void expect_pairs(std::size_t n_rows, std::size_t n_frequencies, const Matrix<T>& out) {
    expect(out.shape(0) == n_rows && (out.shape(1) + 1) / 2 == n_frequencies,
           "expected out of 2T or 2T - 1 columns and a row per row");
}

template <class T>
void expect_shape(std::size_t n_rows, std::size_t n_columns, const Matrix<T>& out) {
    expect(out.shape(0) == n_rows && out.shape(1) == n_columns, "expected another shape of out");
}

using Indices = Vector<std::int32_t>;
using SignVector = Vector<std::int8_t>;

// Every row index below n_rows: what the sums write to. Checked once a call, which costs little compared with the sums.
SignedColumns signed_columns(const Indices& indptr, const Indices& indices, const SignVector& signs,
                             std::size_t n_columns, std::size_t n_rows) {
    expect(indptr.shape(0) > 0 && indptr.shape(0) - 1 == n_columns, "expected a column of signs per column of X");
    const std::int32_t* stops = indptr.data();
    expect(stops[0] == 0 && indices.shape(0) == signs.shape(0), "expected an index per sign");
    for (std::size_t j = 0; j < n_columns; ++j) expect(stops[j] <= stops[j + 1], "expected a rising indptr");
    expect(static_cast<std::size_t>(stops[n_columns]) == indices.shape(0), "expected indptr to end at the last sign");
    std::uint32_t top = 0;
    for (std::size_t t = 0; t < indices.shape(0); ++t)
        top = std::max(top, static_cast<std::uint32_t>(indices.data()[t]));
    expect(indices.shape(0) == 0 || top < n_rows, "expected row indices below the number of lengths");
    return {stops, indices.data(), signs.data()};
}

template <class T>
void define(nb::module_& m) {
    using Release = nb::gil_scoped_release;
    // noconvert: a converted `out` would be a copy that is lost.
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };

    m.def(
        "fwht",
        [](Matrix<T> X) {
            const auto x = rows(X);
            expect(x.n_columns > 0 && (x.n_columns & (x.n_columns - 1)) == 0, "expected 2^q columns");
            Release release;
            kernels<T>().fwht(x);
        },
        array("X"));
    m.def(
        "pairs",
        [](Matrix<const T> A, double scale, double tail, Matrix<T> out, bool stream) {
            expect_pairs(A.shape(0), A.shape(1), out);
            const auto a = rows(A);
            const auto o = streamed_rows(out, stream);
            Release release;
            kernels<T>().pairs(a, scale, tail, o);
            std::atomic_thread_fence(std::memory_order_seq_cst);
        },
        array("A"), nb::arg("scale"), nb::arg("tail"), array("out"), nb::arg("stream"));
    m.def(
        "cosines",
        [](Matrix<const T> A, Vector<T> offsets, double scale, Matrix<T> out) {
            expect_shape(A.shape(0), A.shape(1), out);
            expect(offsets.shape(0) == A.shape(1), "expected an offset per column");
            const auto a = rows(A);
            const auto o = rows(out);
            Release release;
            kernels<T>().cosines(a, offsets.data(), scale, o);
        },
        array("A"), array("offsets"), nb::arg("scale"), array("out"));
    m.def(
        "dense_pairs",
        [](Matrix<const T> X, Matrix<const T> W, double scale, double tail, Matrix<T> out, bool stream) {
            expect_pairs(X.shape(0), W.shape(0), out);
            expect(X.shape(1) == W.shape(1), "expected as many columns in W as in X");
            const auto x = rows(X);
            const auto w = any_strides(W);
            const auto o = streamed_rows(out, stream);
            Release release;
            kernels<T>().dense_pairs(x, w, scale, tail, o);
            std::atomic_thread_fence(std::memory_order_seq_cst);
        },
        array("X"), array("W"), nb::arg("scale"), nb::arg("tail"), array("out"), nb::arg("stream"));
    m.def(
        "structured_phases",
        [](Matrix<const T> X, Signs3 signs, Vector<float> lengths, Matrix<T> out) {
            const std::size_t p = signs.shape(2);
            expect(signs.shape(1) == 3, "expected three rows of signs a block");
            expect_blocks(X.shape(1), p, signs.shape(0), lengths.shape(0));
            expect_shape(X.shape(0), lengths.shape(0), out);
            const auto x = rows(X);
            const auto o = rows(out);
            Release release;
            kernels<T>().structured_phases(x, p, signs.data(), lengths.data(), o);
        },
        array("X"), array("signs"), array("lengths"), array("out"));
    m.def(
        "structured_pairs",
        [](Matrix<const T> X, Signs3 signs, Vector<float> lengths, double scale, double tail, Matrix<T> out,
           bool stream) {
            const std::size_t p = signs.shape(2);
            expect(signs.shape(1) == 3, "expected three rows of signs a block");
            expect_blocks(X.shape(1), p, signs.shape(0), lengths.shape(0));
            expect_pairs(X.shape(0), lengths.shape(0), out);
            const auto x = rows(X);
            const auto o = streamed_rows(out, stream);
            Release release;
            kernels<T>().structured_pairs(x, p, signs.data(), lengths.data(), scale, tail, o);
            std::atomic_thread_fence(std::memory_order_seq_cst);
        },
        array("X"), array("signs"), array("lengths"), nb::arg("scale"), nb::arg("tail"), array("out"),
        nb::arg("stream"));
    m.def(
        "fastfood_phases",
        [](Matrix<const T> X, Signs signs, Permutations permutations, Gains gains, Vector<float> lengths,
           Matrix<T> out) {
            const std::size_t p = signs.shape(1), n_blocks = signs.shape(0);
            expect(permutations.shape(0) == n_blocks && permutations.shape(1) == p, "expected permutations like signs");
            expect(gains.shape(0) == n_blocks && gains.shape(1) == p, "expected gains like signs");
            expect_blocks(X.shape(1), p, n_blocks, lengths.shape(0));
            expect_shape(X.shape(0), lengths.shape(0), out);
            const auto x = rows(X);
            const auto o = rows(out);
            Release release;
            kernels<T>().fastfood_phases(x, p, signs.data(), permutations.data(), gains.data(), lengths.data(), o);
        },
        array("X"), array("signs"), array("permutations"), array("gains"), array("lengths"), array("out"));
    m.def(
        "fastfood_pairs",
        [](Matrix<const T> X, Signs signs, Permutations permutations, Gains gains, Vector<float> lengths, double scale,
           double tail, Matrix<T> out, bool stream) {
            const std::size_t p = signs.shape(1), n_blocks = signs.shape(0);
            expect(permutations.shape(0) == n_blocks && permutations.shape(1) == p, "expected permutations like signs");
            expect(gains.shape(0) == n_blocks && gains.shape(1) == p, "expected gains like signs");
            expect_blocks(X.shape(1), p, n_blocks, lengths.shape(0));
            expect_pairs(X.shape(0), lengths.shape(0), out);
            const auto x = rows(X);
            const auto o = streamed_rows(out, stream);
            Release release;
            kernels<T>().fastfood_pairs(x, p, signs.data(), permutations.data(), gains.data(), lengths.data(), scale,
                                        tail, o);
            std::atomic_thread_fence(std::memory_order_seq_cst);
        },
        array("X"), array("signs"), array("permutations"), array("gains"), array("lengths"), nb::arg("scale"),
        nb::arg("tail"), array("out"), nb::arg("stream"));
    m.def(
        "squared_distances",
        [](Matrix<const T> X, Matrix<const T> Y, Matrix<T> out) {
            expect(X.shape(1) == Y.shape(1), "expected as many columns in Y as in X");
            expect_shape(X.shape(0), Y.shape(0), out);
            const auto x = rows(X);
            const auto y = any_strides(Y);
            const auto o = rows(out);
            Release release;
            kernels<T>().squared_distances(x, y, o);
        },
        array("X"), array("Y"), array("out"));
    m.def(
        "absolute_distances",
        [](Matrix<const T> X, Matrix<const T> Y, Matrix<T> out) {
            expect(X.shape(1) == Y.shape(1), "expected as many columns in Y as in X");
            expect_shape(X.shape(0), Y.shape(0), out);
            const auto x = rows(X);
            const auto y = any_strides(Y);
            const auto o = rows(out);
            Release release;
            kernels<T>().absolute_distances(x, y, o);
        },
        array("X"), array("Y"), array("out"));
    m.def(
        "kernel_values",
        [](Matrix<const T> X, Matrix<const T> Y, const std::string& profile, Matrix<T> out) {
            expect(X.shape(1) == Y.shape(1), "expected as many columns in Y as in X");
            expect_shape(X.shape(0), Y.shape(0), out);
            const auto name = std::find(std::begin(profiles), std::end(profiles), profile);
            expect(name != std::end(profiles), "expected a known profile");
            const auto x = rows(X);
            const auto y = any_strides(Y);
            const auto o = rows(out);
            Release release;
            kernels<T>().kernel_values(x, y, static_cast<Profile>(name - std::begin(profiles)), o);
        },
        array("X"), array("Y"), nb::arg("profile"), array("out"));
    m.def(
        "signed_sums",
        [](Matrix<const T> X, Matrix<const T> Y, Matrix<const T> W, Matrix<T> out) {
            expect(X.shape(1) == Y.shape(1), "expected as many columns in Y as in X");
            expect_shape<const T>(X.shape(0), Y.shape(0), W);
            expect_shape(X.shape(0), X.shape(1), out);
            const auto x = rows(X);
            const auto y = any_strides(Y);
            const auto w = rows(W);
            const auto o = rows(out);
            Release release;
            kernels<T>().signed_sums(x, y, w, o);
        },
        array("X"), array("Y"), array("W"), array("out"));
    m.def(
        "mirror",
        [](Matrix<T> A) {
            expect(A.shape(0) == A.shape(1), "expected a square matrix");
            const auto a = any_strides(A);
            Release release;
            kernels<T>().mirror(a);
        },
        array("A"));
    m.def(
        "sparse_rows",
        [](Matrix<const T> X, Indices indptr, Indices indices, SignVector signs, Vector<T> lengths, Matrix<T> out) {
            expect_shape(X.shape(0), lengths.shape(0), out);
            const auto x = rows(X);
            const auto o = rows(out);
            Release release;
            const auto S = signed_columns(indptr, indices, signs, X.shape(1), lengths.shape(0));
            kernels<T>().sparse_rows(x, S, lengths.data(), o);
        },
        array("X"), array("indptr"), array("indices"), array("signs"), array("lengths"), array("out"));
    m.def(
        "sparse_rows_of_sparse",
        [](Indices row_stops, Indices columns, Vector<T> values, Indices indptr, Indices indices, SignVector signs,
           Vector<T> lengths, Matrix<T> out) {
            expect(row_stops.shape(0) > 0 && indptr.shape(0) > 0, "expected one stop more than rows, and than columns");
            expect_shape(row_stops.shape(0) - 1, lengths.shape(0), out);
            const std::size_t n_columns = indptr.shape(0) - 1;
            const auto o = rows(out);
            Release release;
            const auto S = signed_columns(indptr, indices, signs, n_columns, lengths.shape(0));
            const std::int32_t* stops = row_stops.data();
            std::uint32_t top = 0;
            for (std::size_t i = 0; i < out.shape(0); ++i) expect(stops[i] <= stops[i + 1], "expected a rising indptr");
            expect(stops[0] >= 0 && static_cast<std::size_t>(stops[out.shape(0)]) <= columns.shape(0) &&
                       columns.shape(0) == values.shape(0),
                   "expected an index per value");
            for (std::int32_t e = stops[0]; e < stops[out.shape(0)]; ++e)
                top = std::max(top, static_cast<std::uint32_t>(columns.data()[e]));
            expect(stops[0] == stops[out.shape(0)] || top < n_columns, "expected column indices of the sketch");
            kernels<T>().sparse_rows_of_sparse({stops, columns.data(), values.data()}, S, lengths.data(), o);
        },
        array("row_stops"), array("columns"), array("values"), array("indptr"), array("indices"), array("signs"),
        array("lengths"), array("out"));
    m.def(
        "nonzeros",
        [](Matrix<const T> A, nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> columns,
           nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu> values) {
            expect(columns.shape(0) == values.shape(0), "expected a column per value");
            const auto a = rows(A);
            Release release;
            kernels<T>().nonzeros(a, columns.shape(0), columns.data(), values.data());
        },
        array("A"), array("columns"), array("values"));
    m.def(
        "subsampled_hadamard",
        [](Matrix<const T> X, Signs signs, Indices picks, Vector<T> lengths, Matrix<T> out) {
            const std::size_t p = signs.shape(1);
            expect_blocks(X.shape(1), p, signs.shape(0), picks.shape(0));
            expect(lengths.shape(0) == picks.shape(0), "expected a length per pick");
            expect_shape(X.shape(0), picks.shape(0), out);
            for (std::size_t r = 0; r < picks.shape(0); ++r)
                expect(picks.data()[r] >= 0 && static_cast<std::size_t>(picks.data()[r]) < p, "expected picks below p");
            const auto x = rows(X);
            const auto o = rows(out);
            Release release;
            kernels<T>().subsampled_hadamard(x, p, signs.data(), picks.data(), lengths.data(), o);
        },
        array("X"), array("signs"), array("picks"), array("lengths"), array("out"));
}

constexpr std::size_t slab_groups = 256, panel_columns = 16;  // as in grams.hpp
using Packed = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Units = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

bool has_vnni() {
#ifdef BOCHNER_X86_LEVELS
    static const bool processor_has = Processor().vnni;
    return current == &v4::level && processor_has;
#else
    return false;
#endif
}

const Integers& integers(std::size_t bits) { return bits == 8 ? current->fixed.bytes : current->fixed.shorts; }

void expect_slab(std::size_t bits, std::size_t n_rows, std::size_t n_columns, const Packed& packed) {
    expect(bits == 8 || bits == 16, "expected 8 or 16 bits");
    expect(n_rows <= slab_groups * (32 / bits) && packed.shape(1) == slab_groups * panel_columns &&
               packed.shape(0) * panel_columns >= n_columns,
           "expected at most 256 groups of rows and a panel per 16 columns");
}

void define_fixed_point(nb::module_& m) {
    using Release = nb::gil_scoped_release;
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    m.def(
        "extents",
        [](Matrix<const float> Z, Units out) {
            const std::size_t m = Z.shape(1);
            expect(out.shape(0) == 4 && out.shape(1) == m, "expected four numbers a column");
            const auto z = rows(Z);
            Release release;
            float* to = out.data();
            current->fixed.extents(z, to, to + m, to + 2 * m, to + 3 * m);
        },
        array("Z"), array("out"));
    m.def(
        "pack_slab",
        [](std::size_t bits, Matrix<float> Z, Vector<const float> units, Vector<const float> inverses, Packed packed) {
            expect_slab(bits, Z.shape(0), Z.shape(1), packed);
            expect(units.shape(0) == Z.shape(1) && inverses.shape(0) == Z.shape(1), "expected a unit a column");
            const auto z = rows(Z);
            Release release;
            integers(bits).pack_slab(z, units.data(), inverses.data(), packed.data());
        },
        nb::arg("bits"), array("Z"), array("units"), array("inverses"), array("packed"));
    m.def(
        "add_gram",
        [](std::size_t bits, Packed packed, std::size_t n_rows, Vector<const float> units, std::size_t first_row,
           std::size_t first_column, Matrix<double> out) {
            const std::size_t m = units.shape(0);
            expect(first_row % panel_columns == 0 && first_column % panel_columns == 0, "expected whole panels");
            expect(lies_within(first_row, out.shape(0), m) && lies_within(first_column, out.shape(1), m),
                   "expected a unit a column");
            expect_slab(bits, n_rows, std::max(first_row + out.shape(0), first_column + out.shape(1)), packed);
            const auto o = rows(out);
            Release release;
            (has_vnni() ? integers(bits).add_gram_vnni : integers(bits).add_gram)(packed.data(), n_rows, units.data(),
                                                                                  first_row, first_column, o);
        },
        nb::arg("bits"), array("packed"), nb::arg("n_rows"), array("units"), nb::arg("first_row"),
        nb::arg("first_column"), array("out"));
    m.def("has_vnni", has_vnni);
}

}  // namespace

NB_MODULE(_native, m) {
    define<float>(m);
    define<double>(m);
    define_fixed_point(m);
    m.def("levels", [] {
        std::vector<std::string> names;
        for (const Level* level : runnable()) names.emplace_back(level->name);
        return names;
    });
    m.def("level", [] { return current->name; });
    m.def("flush_subnormals", flush_subnormals, nb::arg("on"));
    // For the tests: not to be called while another thread computes.
    m.def("use_level", [](const std::string& name) {
        for (const Level* level : runnable())
            if (name == level->name) {
                current = level;
                return;
            }
        throw std::invalid_argument("expected one of levels()");
    });
}
