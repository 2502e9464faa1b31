"""Every public estimator obeys scikit-learn's own laws; each exception carries its mathematical reason."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from laws import ESTIMATORS, EXPECTED_FAILURES, MIXTURES, TABLES


def expected_failures(estimator):
    failures = EXPECTED_FAILURES.get(repr(estimator), EXPECTED_FAILURES.get(type(estimator).__name__, {}))
    if estimator.__sklearn_tags__().input_tags.sparse:
        return failures
    # scikit-learn 1.6 does not read the tag here
    return {**failures, "check_sample_weight_equivalence_on_sparse_data": "its tag says that it takes no sparse rows"}


@parametrize_with_checks([*ESTIMATORS, *MIXTURES, *TABLES], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
