"""Tests of scikit-learn's that do not hold for our classes, each with the reason; all others do.

A name stands for all cases of a test, a name with an expression in brackets for those whose id it matches. What is
listed here is run all the same and must fail: a test that has come to hold must be taken off the list.
"""

# needs array libraries that are rarely installed; tensors are known by their type, and nothing else is dispatched
NOT_RUN = {
    "sklearn.tests.test_kernel_approximation": ["test_nystroem_approximation_array_api"],
    "sklearn.utils.tests.test_extmath": ["test_randomized_svd_array_api_compliance"],
}
_THETA = "kernels have no vector of logarithms, and likelihoods no gradient in it"
_PRIOR = "a process that has seen no rows has no features"
_SUMS = "numbers within a sum of kernels are used as they are"

LEFT_OUT = {
    "sklearn.tests.test_kernel_approximation": {
        "test_polynomial_count_sketch_dense_sparse[(0-[23]|2.5)-.*]": (
            "seven digits of entries that are zero but for rounding, which is another one for sparse rows"
        ),
        "test_additive_chi2_sampler_sample_steps[.-transform]": "transform needs fit",
        "test_additive_chi2_sampler_wrong_sample_steps": "any number of steps has an interval",
        "test_additive_chi2_sampler_exceptions": "the message names the kernel, not scikit-learn's class",
        "test_additivechi2sampler_get_feature_names_out": "columns are numbered, not named after functions of features",
        "test_rbf_sampler_fitted_attributes_dtype[float32]": "offsets are float64, whatever the rows are",
        "test_rbf_sampler_gamma_scale": "length scales come from the median distance, not from the variance",
        "test_nystroem_approximation": "scikit-learn's additive_chi2 is not positive semi-definite: refused",
        "test_nystroem_callable": "counts how often the kernel is called",
    },
    "sklearn.tests.test_kernel_ridge": {},
    "sklearn.decomposition.tests.test_kernel_pca": {
        "test_remove_zero_eig": "there are as many columns as asked for, zero where there are no more directions",
        "test_kernel_pca_precomputed_non_symmetric": "a matrix that is not symmetric is no kernel matrix: refused",
        "test_precomputed_kernel_not_psd": "a matrix with negative eigenvalues has no features: always refused",
    },
    "sklearn.tests.test_random_projection": {
        "test_random_projection_transformer_invalid_input": "a single row has no distances: one column keeps them all",
        "test_too_many_samples_to_find_a_safe_embedding": "the dimension of the lemma is rounded up, not down",
        "test_correct_RandomProjection_dimensions_embedding": "the dimension of the lemma is rounded up, not down",
        "test_warning_n_components_greater_than_n_features": "more columns than the data has are refused",
        "test_inverse_transform[.*Projection-(2|9)-.*]": "more columns than the data has are refused",
        "test_random_projection_dtype_match[float32-.*]": "a projection has no type: it is applied in that of the rows",
    },
    "sklearn.gaussian_process.tests.test_gpr": {
        "test_gpr_interpolation_structured": "rows are numbers: there are no kernels of strings",
        "test_lml_improving[kernel[34]]": _SUMS,
        "test_custom_optimizer[kernel[34]]": _SUMS,
        "test_lml_without_cloning_kernel": _THETA,
        "test_converged_to_local_maximum": _THETA,
        "test_lml_gradient": _THETA,
        "test_gpr_lml_error": _THETA,
        "test_prior": _PRIOR,
        "test_no_fit_default_predict": _PRIOR,
        "test_sample_y_shape_with_prior": _PRIOR,
        "test_predict_shape_with_prior": _PRIOR,
        "test_random_starts": "scales of several features are compared by the evidence of random features",
        "test_y_normalization": "a level with a flat prior is not the same as targets less their mean",
        "test_warning_bounds": "length scales have no bounds to be warned of",
        "test_constant_target": "looks at a private attribute",
        "test_gpr_correct_error_message": "no noise at all is refused whatever the kernel",
        "test_gpr_fit_error": "noise is one number, and there are no bounds: refused, in other words",
        "test_gpr_predict_error": "asking for both is a ValueError",
        "test_n_targets_error": "the number of targets is no parameter",
    },
    "sklearn.utils.tests.test_extmath": {
        "test_randomized_svd_power_iteration_normalizer": "powers are always made orthonormal and never diverge",
        "test_randomized_svd_sparse_warnings": "other sparse formats are converted to CSR without a warning",
    },
}
# the version of scikit-learn that a test came with, where not all that are supported have it
SINCE = {"test_nystroem_approximation_array_api": "1.9", "test_randomized_svd_array_api_compliance": "1.7"}
