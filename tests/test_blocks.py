"""A batch in equal blocks gives what the whole batch gives, and is traced once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.blocks import in_blocks


@settings(max_examples=8, deadline=None)
@given(total=st.integers(1, 40), most=st.integers(1, 17))
def test_blocks_change_nothing(total, most):
    rows = {"key": jax.random.split(jax.random.key(total), total), "row": jnp.arange(3 * total).reshape(total, 3)}
    widths = []

    def function(rows):
        widths.append(rows["row"].shape[0])
        return jax.vmap(jax.random.uniform)(rows["key"]), rows["row"].sum(axis=1)

    for found, wanted in zip(in_blocks(function, rows, most), function(rows), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert len(widths) == 2 and widths[0] <= most and widths[1] == total


def test_no_rows_are_no_rows():
    assert in_blocks(lambda rows: rows + 1, jnp.zeros((0, 3)), 8).shape == (0, 3)


@pytest.mark.parametrize("total", [64, 65, 127])
def test_under_jit_it_is_traced_once(total):
    calls = []
    jax.jit(lambda x: in_blocks(lambda rows: calls.append(1) or rows**2, x, 32))(jnp.arange(float(total)))
    assert len(calls) == 1
