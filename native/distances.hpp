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
        }
    }
};

template <class T>
void kernel_values(Rows<const T> X, Rows<const T> Y, Profile profile, Rows<T> out) {
    if (profile == Profile::laplacian)
        against_panels<T, AbsoluteDifference<T>>(X, Y, KernelOf<T>{profile}, out);
    else
        against_panels<T, SquaredDifference<T>>(X, Y, KernelOf<T>{profile}, out);
}

}  // namespace bochner::BOCHNER_LEVEL
