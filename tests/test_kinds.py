"""Kinds of layers, and immediate predecessors."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.problem.space import immediate, kinds_of


@st.composite
def graphs(draw):
    """Predecessors of up to 14 layers, numbered in a topological order; some are stated twice."""
    layers = draw(st.integers(1, 14))
    return [draw(st.lists(st.integers(0, i - 1), max_size=6)) if i else [] for i in range(layers)]


def waits_for(predecessors):
    """`[layers, layers]` bool, whether the one layer waits for the other, by going through all paths."""
    above = np.zeros((len(predecessors), len(predecessors)), bool)
    for i, needs in enumerate(predecessors):
        for p in needs:
            above[i] |= above[p]
            above[i, p] = True
    return above


@settings(max_examples=200, deadline=None)
@given(predecessors=graphs())
def test_immediate_predecessors_say_the_same_and_none_is_implied(predecessors):
    kept = immediate(predecessors)
    above = waits_for(predecessors)
    np.testing.assert_array_equal(waits_for(kept), above)
    for needs, own in zip(kept, predecessors, strict=True):
        assert set(needs) <= set(own)
        assert len(set(needs)) == len(needs)
        assert not any(above[a, b] for a in needs for b in needs)


def test_joined_outputs_have_few_immediate_predecessors():
    """Where every layer reads all before it, as in a dense block, only the last of them is immediate."""
    assert immediate([list(range(i)) for i in range(50)]) == [[], *([i] for i in range(49))]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), layers=st.integers(1, 20), more=st.integers(0, 5))
def test_layers_of_a_kind_are_alike_and_others_are_not(seed, layers, more):
    rng = np.random.default_rng(seed)
    unique, pin = rng.integers(0, 4, layers), rng.integers(-1, 2, layers)
    allowed, runs = rng.random((layers, 2)) < 0.7, rng.random((4, 2)) < 0.7
    able = allowed & runs[unique]
    kinds = kinds_of(unique, allowed, pin, able, layers + more)
    of_layer = np.asarray(kinds.of_layer)
    for a in range(layers):
        k = of_layer[a]
        assert (kinds.unique[k], kinds.pin[k]) == (unique[a], pin[a])
        np.testing.assert_array_equal(kinds.able[k], able[a])
        for b in range(layers):
            alike = unique[a] == unique[b] and pin[a] == pin[b] and (allowed[a] == allowed[b]).all()
            assert (k == of_layer[b]) == alike
    counts = np.bincount(of_layer[:layers], minlength=len(kinds.number))
    np.testing.assert_array_equal(kinds.number, counts)
    assert (of_layer[layers:] == len(kinds.number) - 1).all()
    assert not np.asarray(kinds.able)[np.asarray(kinds.number) == 0].any()
    assert kinds.number[-1] == 0 and len(kinds.number) % 16 == 0
