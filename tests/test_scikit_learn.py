"""Every public estimator obeys scikit-learn's own laws; each exception carries its mathematical reason."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from laws import ESTIMATORS, EXPECTED_FAILURES, TABLES


def expected_failures(estimator):
    return EXPECTED_FAILURES.get(repr(estimator), EXPECTED_FAILURES.get(type(estimator).__name__, {}))


@parametrize_with_checks([*ESTIMATORS, *TABLES], expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
