import numpy as np
import pytest

from bochner.draws.keys import Key


def test_a_child_does_not_depend_on_what_was_drawn_before():
    key = Key(3)
    first = key.child("a").generator().random(4)
    key.generator().random(100)
    key.child("b").generator().random(100)
    np.testing.assert_array_equal(first, key.child("a").generator().random(4))


def test_addresses_differ():
    key = Key(0)
    keys = [key, key.child("a"), key.child("b"), key.child(0), key.child(1), key.child("a").child("b"), Key(1)]
    draws = [tuple(k.generator().integers(0, 2**62, 3)) for k in keys]
    assert len(set(draws)) == len(draws)


def test_more_draws_extend_the_same_stream():
    key = Key(11)
    for draw in (
        lambda n: key.generator().random((n, 3)),
        lambda n: key.generator().standard_normal((n, 3)),
        lambda n: key.generator().integers(0, 2, (n, 5), dtype=np.int8),
    ):
        np.testing.assert_array_equal(draw(7), draw(20)[:7])


def test_from_random_state():
    assert Key.from_random_state(5) == Key(5)
    assert Key.from_random_state(np.int64(5)) == Key(5)
    assert Key.from_random_state(None) != Key.from_random_state(None)
    assert Key.from_random_state(np.random.RandomState(0)) == Key.from_random_state(np.random.RandomState(0))
    assert Key.from_random_state(np.random.default_rng(0)) == Key.from_random_state(np.random.default_rng(0))
    shared = np.random.RandomState(0)
    assert Key.from_random_state(shared) != Key.from_random_state(shared)


@pytest.mark.parametrize("bad", [-1, "seed", 1.5, True])
def test_bad_random_state(bad):
    with pytest.raises(ValueError, match="random_state must be"):
        Key.from_random_state(bad)
