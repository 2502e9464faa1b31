// Distances between the rows of X and of Y from their differences (‖x‖² + ‖y‖² - 2xy would cancel), and kernels of
// them.
#pragma once

#include "exponentials.hpp"
#include "panels.hpp"
#include "sinks.hpp"

namespace bochner::BOCHNER_LEVEL {

template <class T>
struct SquaredDifference {
    BOCHNER_INLINE static Vec<T> add(Vec<T> sum, T x, Vec<T> y) {
        const Vec<T> difference = x - y;
        return sum + difference * difference;
    }
};

template <class T>
struct AbsoluteDifference {
    BOCHNER_INLINE static Vec<T> add(Vec<T> sum, T x, Vec<T> y) {
        const Vec<T> difference = x - y;
        return sum + (difference < T(0) ? -difference : difference);
    }
};

template <class T>
void squared_distances(Rows<const T> X, Rows<const T> Y, Rows<T> out) {
    against_panels<T, SquaredDifference<T>>(X, Y, AsTheyAre<T>{}, out);
}

template <class T>
void absolute_distances(Rows<const T> X, Rows<const T> Y, Rows<T> out) {
    against_panels<T, AbsoluteDifference<T>>(X, Y, AsTheyAre<T>{}, out);
}

// Kernels of unit length scale of the sums of squares s, or of the sums of absolute differences (Laplacian).
template <class T>
struct KernelOf {
    Profile profile;

    template <class Source, class Value>
    BOCHNER_INLINE static void write(Source source, std::size_t count, T* out, const Value& value) {
        std::size_t i = 0;
        for (; i + lanes<T> <= count; i += lanes<T>) store(out + i, value(source(i)));
        if (i == count) return;
        alignas(vector_bytes) T last[lanes<T>] = {};
        for (std::size_t j = i; j < count; ++j) last[j - i] = source.at(j);
        store(last, value(load(last)));
        std::memcpy(out + i, last, (count - i) * sizeof(T));
    }

    // The square root of c s; where it is so large that the exponential is zero, a number, whose product with it is.
    BOCHNER_INLINE static Vec<T> distance(Vec<T> s, double c) {
        const Vec<T> a = square_root<T>(s) * static_cast<T>(std::sqrt(c));
        return a > T(1000) ? Vec<T>{} + T(1000) : a;
    }

    template <class Source>
    BOCHNER_INLINE void operator()(Source source, std::size_t first, std::size_t count, T* out) const {
        const auto with = [&](const auto& value) BOCHNER_INLINE_LAMBDA { write(source, count, out + first, value); };
        switch (profile) {
            case Profile::gaussian:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA { return exponential<T>(s * T(-0.5)); });
                break;
            case Profile::matern12:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA { return exponential<T>(-square_root<T>(s)); });
                break;
            case Profile::matern32:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA {
                    const Vec<T> a = distance(s, 3.0);
                    return (T(1) + a) * exponential<T>(-a);
                });
                break;
            case Profile::matern52:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA {
                    const Vec<T> a = distance(s, 5.0);
                    return (T(1) + a + a * a * T(1.0 / 3.0)) * exponential<T>(-a);
                });
                break;
            case Profile::laplacian:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA { return exponential<T>(-s); });
                break;
            case Profile::gaussian_slope:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA { return apart(s, -exponential<T>(s * T(-0.5))); });
                break;
            case Profile::matern12_slope:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA {
                    const Vec<T> r = square_root<T>(s);
                    return apart(s, -exponential<T>(-r) / r);
                });
                break;
            case Profile::matern32_slope:
                with([](Vec<T> s)
                         BOCHNER_INLINE_LAMBDA { return apart(s, T(-3) * exponential<T>(-distance(s, 3.0))); });
                break;
            case Profile::matern52_slope:
                with([](Vec<T> s) BOCHNER_INLINE_LAMBDA {
                    const Vec<T> a = distance(s, 5.0);
                    return apart(s, T(-5.0 / 3.0) * (T(1) + a) * exponential<T>(-a));
                });
                break;
        }
    }

    // Zero for equal rows.
    BOCHNER_INLINE static Vec<T> apart(Vec<T> s, Vec<T> value) { return s > T(0) ? value : Vec<T>{}; }
};

template <class T>
void kernel_values(Rows<const T> X, Rows<const T> Y, Profile profile, Rows<T> out) {
    if (profile == Profile::laplacian)
        against_panels<T, AbsoluteDifference<T>>(X, Y, KernelOf<T>{profile}, out);
    else
        against_panels<T, SquaredDifference<T>>(X, Y, KernelOf<T>{profile}, out);
}

// out[i, l] = Σ_j W[i, j] sign(X[i, l] - Y[j, l]). Some rows of Y are taken at a time, by columns, so that they stay in
// the first cache. Sums run in one order, that of vectors of 64 bytes, at every level and for every row of X.
template <class T>
void signed_sums(Rows<const T> X, Rows<const T> Y, Rows<const T> W, Rows<T> out) {
    constexpr std::size_t most = 4096 / sizeof(T), group = 4;
    constexpr std::size_t wide = 64 / sizeof(T), parts = wide / lanes<T>;
    const std::size_t d = X.n_columns;
    for (std::size_t i = 0; i < X.n_rows; ++i) std::fill_n(out[i], d, T(0));
    Scratch<T> packed(group * most);
    for (std::size_t first = 0; first < Y.n_rows; first += most) {
        const std::size_t count = std::min(most, Y.n_rows - first);
        const std::size_t whole = count / wide * wide;
        for (std::size_t column = 0; column < d; column += group) {
            const std::size_t n_columns = std::min(group, d - column);
            std::fill_n(packed.data(), group * most, T(0));
            for (std::size_t j = 0; j < count; ++j)
                for (std::size_t l = 0; l < n_columns; ++l)
                    packed.data()[l * most + j] =
                        Y[first + j][static_cast<std::ptrdiff_t>(column + l) * Y.column_stride];
            for (std::size_t i = 0; i < X.n_rows; ++i) {
                T x[group] = {};
                std::copy_n(X[i] + column, n_columns, x);
                Vec<T> sum[group][parts] = {};
                const auto add = [&](const T* w, std::size_t j) BOCHNER_INLINE_LAMBDA {
                    BOCHNER_UNROLL
                    for (std::size_t part = 0; part < parts; ++part) {
                        const Vec<T> weight = load(w + part * lanes<T>);
                        BOCHNER_UNROLL
                        for (std::size_t l = 0; l < group; ++l) {
                            const Vec<T> y = load(packed.data() + l * most + j + part * lanes<T>);
                            sum[l][part] += x[l] > y ? weight : Vec<T>{};
                            sum[l][part] -= x[l] < y ? weight : Vec<T>{};
                        }
                    }
                };
                const T* w = W[i] + first;
                for (std::size_t j = 0; j < whole; j += wide) add(w + j, j);
                if (whole < count) {
                    T last[wide] = {};
                    std::copy_n(w + whole, count - whole, last);
                    add(last, whole);
                }
                for (std::size_t l = 0; l < n_columns; ++l)
                    for (std::size_t part = 0; part < parts; ++part)
                        for (std::size_t lane = 0; lane < lanes<T>; ++lane) out[i][column + l] += sum[l][part][lane];
            }
        }
    }
}

// Copies the entries above the diagonal to those below, in tiles that stay in the first cache.
template <class T>
void mirror(Rows<T> A) {
    constexpr std::size_t side = 32;
    const auto at = [&](std::size_t i, std::size_t j)
                        BOCHNER_INLINE_LAMBDA -> T& { return A[i][static_cast<std::ptrdiff_t>(j) * A.column_stride]; };
    for (std::size_t top = 0; top < A.n_rows; top += side)
        for (std::size_t left = top; left < A.n_rows; left += side)
            for (std::size_t i = top; i < std::min(top + side, A.n_rows); ++i)
                for (std::size_t j = std::max(left, i + 1); j < std::min(left + side, A.n_rows); ++j)
                    at(j, i) = at(i, j);
}

}  // namespace bochner::BOCHNER_LEVEL
