"""scikit-learn's tests of the same name with our classes: see `loading`."""

from peers.loading import peer_tests

globals().update(peer_tests("sklearn.tests.test_kernel_approximation"))
