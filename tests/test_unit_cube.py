"""Every point of the unit cube decodes to a valid design, and every valid design has a point."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import broken, case, each

from mohamjax.search.unit_cube import decode_unit, genome_widths

GENES = ("plans", "layers")
BATCH = 16


@functools.partial(jax.jit, static_argnames="genes")
def decoded(x, genetics, tables, genes):
    return jax.vmap(lambda x: decode_unit(x, genetics, tables, genes))(x)


def points(seed, size):
    """Random points, corners of the cube, and points outside."""
    x = np.random.default_rng(seed).random((BATCH, size))
    x[:4] = np.round(x[:4])
    x[4], x[5], x[6] = 0, 1, 1 - 1e-7
    x[7] = 5 * x[7] - 2
    x[8, ::3] = np.nan
    return jnp.asarray(x, jnp.float32)


@pytest.mark.parametrize("genes", GENES)
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    layers=st.sampled_from([1, 5, 13]),
    chips=st.sampled_from([2, 3, 6]),
    demands=st.sampled_from(["", "f", "fcp", "h"]),
)
def test_every_point_is_a_valid_design(genes, seed, layers, chips, demands):
    c = case(seed, layers, chips, demands=demands)
    x = points(seed, sum(genome_widths(c.genetics, c.plans, genes)))
    for design in each(decoded(x, c.genetics, c.plans, genes)):
        assert broken(design, c.genetics) == []


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_layers_reach_every_design(seed):
    """The point that is computed from a valid design decodes to this design."""
    c = case(seed)
    g = c.genetics
    widths = genome_widths(g, c.plans, "layers")
    wanted = each(decoded(points(seed, sum(widths)), g, c.plans, "layers"))
    rows = []
    for design in wanted:
        # Chiplets that no layer chose are dropped; a point encodes only the remaining ones.
        runs = np.where(design.template >= 0, np.asarray(g.able)[:, np.maximum(design.template, 0)], False)
        layer = np.arange(runs.shape[0])
        nth = np.cumsum(runs, axis=1)[layer, design.assignment] - 1
        count = np.asarray(g.count)[np.asarray(g.unique), np.maximum(design.template, 0)[design.assignment]]
        place = np.argsort(design.order) / len(layer)
        parts = (
            (design.template + 1.5) / (c.plans.library.shape[0] + 1),
            (nth + 0.5) / np.maximum(runs.sum(axis=1), 1),
            (design.mapping + 0.5) / np.maximum(count, 1),
            place,
        )
        assert tuple(map(len, parts)) == widths
        rows.append(np.concatenate(parts))
    again = each(decoded(jnp.asarray(np.stack(rows), jnp.float32), g, c.plans, "layers"))
    for one, two in zip(wanted, again, strict=True):
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
            np.testing.assert_array_equal(a, b)


def test_layers_are_dealt_by_equal_shares():
    """A random point gives a random mapping: all mappings of a set are equally likely."""
    c = case(3)
    widths = genome_widths(c.genetics, c.plans, "layers")
    x = jax.random.uniform(jax.random.key(0), (64 * BATCH, sum(widths)))
    designs = jax.device_get(decoded(x, c.genetics, c.plans, "layers"))
    rows = np.arange(len(x))
    template = designs.template[rows, designs.assignment[:, 0]]
    count = np.asarray(c.genetics.count)[int(c.genetics.unique[0]), template]
    assert np.isclose(np.mean((designs.mapping[:, 0] + 0.5) / count), 0.5, atol=0.04)
