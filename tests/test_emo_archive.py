"""The archive against a plain list, thinned one row at a time."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import plain_emo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mohamjax import emo

EXAMPLE = {"id": np.int32(0), "tiles": np.zeros(3, np.int32)}


def genes(start, count):
    ids = np.arange(start, start + count, dtype=np.int32)
    return {"id": ids, "tiles": np.repeat(ids[:, None], 3, axis=1)}


def fill(batches, capacity, dtype=jnp.float32):
    archive = emo.archive_init(capacity, EXAMPLE, batches[0].shape[1], dtype)
    start = 0
    for batch in batches:
        archive = emo.archive_update(archive, genes(start, len(batch)), batch)
        start += len(batch)
    return archive


def check_shape_of(archive, rows):
    """Asserts what holds for every archive of some of the rows."""
    valid = np.asarray(archive.valid)
    size = int(emo.archive_size(archive))
    assert valid[:size].all() and not valid[size:].any()
    held = np.asarray(archive.objectives)
    assert np.isinf(held[size:]).all()
    ids = np.asarray(archive.genes["id"])[:size]
    np.testing.assert_array_equal(np.asarray(archive.genes["tiles"])[:size], np.repeat(ids[:, None], 3, 1))
    np.testing.assert_array_equal(held[:size], rows[ids])
    assert not plain_emo.dominance(held[:size]).any()
    assert len(np.unique(held[:size], axis=0)) == size
    return ids


@pytest.mark.parametrize("m", [1, 2, 3])
def test_keeps_every_non_dominated_row(m):
    elements = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, np.inf, np.nan])

    @settings(max_examples=50, deadline=None)
    @given(hnp.arrays(np.float32, (4, 8, m), elements=elements))
    def check(batches):
        rows = np.concatenate(list(batches))
        ids = check_shape_of(fill(list(batches), 64), rows)
        finite = rows[np.isfinite(rows).all(1)]
        want = np.unique(finite[plain_emo.rank(finite) == 0], axis=0) if len(finite) else finite
        assert len(ids) == len(want)
        np.testing.assert_array_equal(np.unique(rows[ids], axis=0), want)

    check()


def slope(seed, n, m=3):
    """Rows on a plane: hardly one dominates another, so that a small archive overflows."""
    rows = np.random.default_rng(seed).dirichlet(np.ones(m), n)
    return rows.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("m", [2, 3])
def test_thins_one_by_one(m):
    for seed in range(8):
        batches = [slope(seed * 10 + k, 16, m) for k in range(4)]
        with jax.enable_x64(True):
            archive = fill(batches, 20, jnp.float64)
        ids = check_shape_of(archive, np.concatenate(batches))
        held, thinned = plain_emo.archive(batches, 20)
        assert sorted(ids.tolist()) == sorted(held)
        assert int(archive.thinned) == thinned > 0


def test_extremes_stay_on_overflow():
    batches = [slope(k, 40) for k in range(5)]
    rows = np.concatenate(batches)
    archive = fill(batches, 6)
    ids = check_shape_of(archive, rows.astype(np.float32))
    assert len(ids) == 6
    np.testing.assert_array_equal(rows[ids].min(0), rows.min(0))


def test_large_batch_enters_in_chunks():
    rows = np.random.default_rng(0).random((1300, 3)).astype(np.float32)
    ids = check_shape_of(fill([rows], 400), rows)
    np.testing.assert_array_equal(np.sort(ids), np.flatnonzero(plain_emo.rank(rows) == 0))


def test_nothing_enters_from_infeasible_or_empty_batches():
    first = fill([slope(0, 5)], 8)
    for batch in (np.full((4, 3), np.inf), np.full((4, 3), np.nan), np.zeros((0, 3))):
        after = emo.archive_update(first, genes(5, len(batch)), batch)
        chex.assert_trees_all_equal(after.objectives, first.objectives)
        np.testing.assert_array_equal(after.genes["id"][:5], first.genes["id"][:5])
    # A row that is infinite in one objective only is not feasible either, though nothing dominates it.
    partial = emo.archive_update(first, genes(5, 1), np.array([[-1.0, -1.0, np.inf]]))
    assert int(emo.archive_size(partial)) == int(emo.archive_size(first))


@pytest.mark.slow
def test_vmap_and_no_jit_and_one_compile():
    batches = np.stack([slope(k, 12) for k in range(3)]).astype(np.float32)
    empty = emo.archive_init(8, EXAMPLE, 3)
    alone = [emo.archive_update(empty, genes(0, 12), batch) for batch in batches]
    vmapped = jax.vmap(emo.archive_update, in_axes=(None, None, 0))
    update = jax.jit(chex.assert_max_traces(lambda *arguments: vmapped(*arguments), n=1))
    together = update(empty, genes(0, 12), jnp.asarray(batches))
    update(empty, genes(0, 12), jnp.asarray(batches[::-1]))
    for k, archive in enumerate(alone):
        chex.assert_trees_all_equal(jax.tree.map(lambda leaf, k=k: leaf[k], together), archive)
    with jax.disable_jit():
        plain = emo.archive_update(empty, genes(0, 12), batches[0])
    chex.assert_trees_all_equal(plain, alone[0])


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="capacity"):
        emo.archive_init(5, EXAMPLE, 3)
    with pytest.raises(ValueError, match="the archive has 3, got 2"):
        emo.archive_update(emo.archive_init(8, EXAMPLE, 3), genes(0, 4), np.zeros((4, 2)))
