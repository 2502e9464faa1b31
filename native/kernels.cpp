// The kernels at one level: CMake compiles this file once per BOCHNER_LEVEL.
#include "kernels.hpp"

#include "distances.hpp"
#include "fourier.hpp"
#include "grams.hpp"
#include "hadamard.hpp"
#include "sketch.hpp"

namespace bochner::BOCHNER_LEVEL {

#define BOCHNER_STRING(name) #name
#define BOCHNER_NAME(name) BOCHNER_STRING(name)

template <class T>
constexpr Kernels<T> kernels = {fwht<T>,
                                pairs<T>,
                                cosines<T>,
                                dense_pairs<T>,
                                structured_phases<T>,
                                structured_pairs<T>,
                                fastfood_phases<T>,
                                fastfood_pairs<T>,
                                squared_distances<T>,
                                absolute_distances<T>,
                                kernel_values<T>,
                                signed_sums<T>,
                                mirror<T>,
                                sparse_rows<T>,
                                sparse_rows_of_sparse<T>,
                                nonzeros<T>,
                                subsampled_hadamard<T>};

template <class Int>
constexpr Integers integers = {pack_slab<Int>, add_gram<Int, false>, add_gram<Int, has_avx512>};

extern const Level level;  // visible to bindings.cpp
const Level level = {BOCHNER_NAME(BOCHNER_LEVEL),
                     kernels<float>,
                     kernels<double>,
                     {extents, integers<std::int16_t>, integers<std::int8_t>}};

}  // namespace bochner::BOCHNER_LEVEL
