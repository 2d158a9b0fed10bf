"""What a design evaluates to does not depend on padding, on what stands in it, or on how many are evaluated at once."""

import dataclasses

import jax
import numpy as np
import pytest
from design_cases import application, evaluation, random_designs, recast, reports, tables

from mohamjax.hardware import PackageParameters
from mohamjax.schedule import Design
from mohamjax.schedule.batch import run_blocks
from mohamjax.schedule.evaluated import block_width

KINDS = ([0, 1, 2, 3, 4, 1], [5, 6, 7, 2, 8])
PACKAGE = PackageParameters(max_tiles=12, dram_bandwidth=11.0, router_area=1e4)
TILES, MORE = 12, 16


def problem(seed):
    """Networks of one size, so that programs are shared, with random dependencies."""
    rng = np.random.default_rng(seed)
    rows = [[[p for p in range(i) if rng.random() < 0.4] for i in range(len(kinds))] for kinds in KINDS]
    return application(*rows, kinds=KINDS)


def wider(leaf, axis, extra, rng):
    """The leaf with `extra` entries of garbage at the end of an axis."""
    shape = list(leaf.shape)
    shape[axis] = extra
    if leaf.dtype == bool:
        rest = rng.random(shape) < 0.5
    elif np.issubdtype(leaf.dtype, np.integer):
        rest = rng.integers(0, 3, shape).astype(leaf.dtype)
    else:
        rest = np.exp(rng.uniform(-3, 12, shape)).astype(leaf.dtype)
    return np.concatenate([leaf, rest], axis=axis)


def padded(made, designs, layers, rng):
    """Tables and designs with more mappings per set, layers and tiles, filled with garbage that must not be read."""
    fields = {
        f.name: wider(getattr(made, f.name), 2, 3, rng)
        for f in dataclasses.fields(made)
        if f.name not in ("mapping", "count")
    }
    nests = jax.tree.map(lambda leaf: wider(leaf, 2, 3, rng), made.mapping)
    made = dataclasses.replace(made, mapping=nests, **fields)
    count, short = designs.order.shape
    rest = np.stack([rng.permutation(np.arange(short, layers)) for _ in range(count)]).astype(np.int32)
    garbage = rng.integers(0, TILES, (2, count, layers)).astype(np.int32)
    real = sum(map(len, KINDS))
    garbage[0, :, :real], garbage[1, :, :real] = designs.assignment[:, :real], designs.mapping[:, :real]
    garbage[1, :, real:] %= made.cycles.shape[2]
    empty = np.full((count, MORE - TILES), -1, np.int32)
    designs = dataclasses.replace(
        designs,
        order=np.concatenate([designs.order, rest], axis=1),
        assignment=garbage[0],
        mapping=garbage[1],
        template=np.concatenate([designs.template, empty], axis=1),
    )
    return made, designs


def numbers(found, real):
    """What must agree: objectives, and the start, end and energy of every layer."""
    return [
        found.objectives,
        found.timeline.start[:, :real],
        found.timeline.end[:, :real],
        found.layer_energy[:, :real],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_padding_and_batches_change_nothing(dtype, tolerance):
    real = sum(map(len, KINDS))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        networks = problem(seed)
        made = recast(tables(networks, seed), dtype)
        designs = random_designs(networks, made, seed, 40, tiles=TILES)
        with jax.enable_x64(dtype == np.float64):
            on = evaluation(networks, made, PACKAGE)
            whole = numbers(reports(designs, on), real)
            larger, longer = padded(made, designs, 96, rng)
            room = dataclasses.replace(PACKAGE, max_tiles=MORE)
            there = numbers(reports(longer, evaluation(networks, larger, room, padded_layers=96)), real)
            parts = [
                numbers(reports(jax.tree.map(lambda x, i=i, n=n: x[i : i + n], designs), on), real)
                for i, n in ((0, 1), (17, 1), (5, 7))
            ]
        assert np.isfinite(whole[0]).all()
        for one, other in zip(whole, there, strict=True):
            np.testing.assert_allclose(other, one, rtol=tolerance)
        for (i, n), found in zip(((0, 1), (17, 1), (5, 7)), parts, strict=True):
            for one, other in zip(whole, found, strict=True):
                np.testing.assert_allclose(other, one[i : i + n], rtol=tolerance)


@pytest.mark.parametrize("number", [1, 63, 64, 65, 256, 257, 2049])
def test_blocks_cover_every_design_once_and_have_one_size(number):
    widths = []

    def program(designs, _):
        widths.append(len(designs))
        return {"number": designs.order[:, 0], "twice": 2 * designs.order}

    rows = np.arange(number)[:, None]
    designs = Design(order=rows, assignment=rows, mapping=rows, template=rows)
    found = run_blocks(program, designs, None, block_width(number))
    assert set(widths) == {64 if number <= 256 else 256} and len(widths) == -(-number // widths[0])
    np.testing.assert_array_equal(found["number"], np.arange(number))
    np.testing.assert_array_equal(found["twice"], 2 * rows)
