"""scikit-learn's tests of the same name with our classes: see `loading`."""

from peers.loading import peer_tests

globals().update(peer_tests("sklearn.utils.tests.test_extmath", prefix="test_randomized_svd"))
