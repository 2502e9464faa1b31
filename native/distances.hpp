// Distances between the rows of X and of Y from their differences: ‖x‖² + ‖y‖² - 2xy would cancel.
#pragma once

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

}  // namespace bochner::BOCHNER_LEVEL
