"""Enumeration lists every mapping, the orders that it leaves out cost the same, and its front is the true one."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mapping_cases import LEVELS, TECHNOLOGY, TEMPLATES, quick_jit, toy, violations

from mohamjax.errors import InputError
from mohamjax.hardware import load_technology, load_template
from mohamjax.mapper.exhaustive import Enumeration, order_classes, space_size
from mohamjax.mapper.problems import children_room, context
from mohamjax.mapping import Mapping, on_own_hardware
from mohamjax.workload import DIMS, UniqueLayer, WorkloadShape

SMALL = 4  # TEMPLATES[SMALL]: buffers of 8 and 64 words, 4 x 6 children, every loop everywhere
LAYER = UniqueLayer("conv", WorkloadShape(K=4, C=2, P=2, R=2))
GROUPED = UniqueLayer("conv", WorkloadShape(G=4, K=2, P=2, R=2))  # groups may run side by side
BATCH = 4096


@quick_jit
def costs(mapping, problem):
    own = on_own_hardware(problem.space.layer, mapping, problem.template, problem.technology, max_children=32)
    values = jnp.stack([own.cycles.onchip, own.energy.total, own.area], axis=-1)
    return jnp.where((own.reason == 0)[:, None], values, jnp.inf)


def evaluate(mappings, problem):
    """Objectives `[N, 3]` of a list of mappings, in batches of one size."""
    out = []
    for begin in range(0, len(mappings), BATCH):
        part = mappings[begin : begin + BATCH]
        part = part + [part[-1]] * (BATCH - len(part))
        batch = jax.tree.map(lambda *leaves: np.stack(leaves, axis=-1), *part)
        out.append(np.asarray(costs(batch, problem)))
    return np.concatenate(out)[: len(mappings)]


def splits(bound, slots):
    """Every way to write a bound as an ordered product."""
    if slots == 1:
        return [(bound,)]
    return [(f, *rest) for f in range(1, bound + 1) if bound % f == 0 for rest in splits(bound // f, slots - 1)]


def permutations(factors):
    """Orders of the loops that have a bound above 1, the others outermost."""
    loops = [d for d in range(len(DIMS)) if factors[d] > 1]
    idle = [d for d in range(len(DIMS)) if factors[d] == 1]
    return [(*order, *idle) for order in itertools.permutations(loops)]


def every_mapping(template, layer):
    """All legal mappings of a layer on a three-level template, by plain loops and the plain check of the tests."""
    keep = np.asarray([level.keep for level in TEMPLATES[template].levels])
    slots = [0, 1, 2, 4, 7]  # temporal loops of three levels, X and Y below the middle one
    out, legal = [], 0
    for rows in itertools.product(*(splits(bound, len(slots)) for bound in layer.shape.bounds)):
        factors = np.ones((9, len(DIMS)), np.int32)
        factors[slots] = np.asarray(rows).T
        nest = factors.reshape(3, 3, len(DIMS))
        unit = np.tile(np.arange(len(DIMS), dtype=np.int32), (3, 1))
        plain = Mapping(temporal=nest[0], order=unit, spatial=nest[1:], spatial_order=np.stack([unit, unit]), keep=keep)
        if violations(plain, template, layer.shape):
            continue
        legal += 1
        for orders in itertools.product(*(permutations(row) for row in factors)):
            order = np.asarray(orders, np.int32).reshape(3, 3, len(DIMS))
            out.append(Mapping(temporal=nest[0], order=order[0], spatial=nest[1:], spatial_order=order[1:], keep=keep))
    return legal, out


def front(objectives):
    """Distinct non-dominated rows, ordered."""
    rows = np.unique(objectives[np.isfinite(objectives).all(axis=1)], axis=0)
    return rows[[not any((o <= r).all() and (o < r).any() for o in rows) for r in rows]]


@pytest.fixture(scope="module", params=[LAYER, GROUPED], ids=["channels", "groups"])
def everything(request):
    return request.param, *every_mapping(SMALL, request.param)


def test_it_counts_every_mapping(everything):
    layer, legal, mappings = everything
    size = space_size(layer, TEMPLATES[SMALL], TECHNOLOGY, padding=False)
    assert (size.splits, size.mappings) == (legal, len(mappings))
    assert size.splits < size.classes < size.mappings


@pytest.mark.slow
def test_its_front_is_that_of_all_mappings(everything):
    layer, _, mappings = everything
    problem = context(layer, TEMPLATES[SMALL], TECHNOLOGY, padding=False)
    assert children_room([problem.space]) > 0  # P and R may run side by side
    values = evaluate(mappings, problem)
    values = values[np.isfinite(values).all(axis=1)]
    tables = Enumeration([layer], [TEMPLATES[SMALL]], TECHNOLOGY, padding=False).tables()
    count = int(tables.count[0, 0])
    found = tables.objectives[0, 0, :count]
    true = front(values)
    # Orders of equal cost may differ in the last bit: each true row is met, and no row found is beaten by 1e-5.
    assert len(true) >= 3
    for row in true:
        assert (np.abs(found / row - 1) < 1e-5).all(axis=1).any()
    for m, row in enumerate(found):
        assert not ((values < row * (1 - 1e-5)).all(axis=1)).any()
        nest = jax.tree.map(lambda leaf, m=m: leaf[0, 0, m], tables.mapping)
        assert violations(nest, SMALL, layer.shape) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_orders_of_one_class_cost_the_same(seed):
    """All orders of one level, of a random mapping with six loops there and other loops inside and outside."""
    rng = np.random.default_rng(seed)
    shape = WorkloadShape(
        N=2, K=12, C=6, P=12, Q=6, R=3, S=6, stride=(int(rng.integers(1, 4)), 1), dilation=(1, int(rng.integers(1, 3)))
    )
    template = toy()
    problem = context(UniqueLayer("conv", shape), template, TECHNOLOGY)
    inside = np.asarray([1, 1, rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([1, 2]), rng.choice([1, 3]), 1, 2])
    outside = np.asarray([1, 1, 2, 1, rng.choice([1, 2]), 1, 1, 1])
    middle = np.asarray(shape.bounds) // inside // outside
    loops = [d for d in range(len(DIMS)) if middle[d] > 1]
    assert len(loops) >= 6
    mask = sum(1 << d for d in loops)
    classes, number = order_classes(mask, (), "temporal")
    assert number == math.factorial(len(loops)) > 4 * len(classes)
    unit = np.arange(len(DIMS), dtype=np.int32)
    orders = [np.asarray((*o, *(d for d in unit if d not in loops)), np.int32) for o in itertools.permutations(loops)]
    orders += [np.asarray(o, np.int32) for o in classes]
    spatial = np.ones((2, 3, len(DIMS)), np.int32)
    mappings = [
        Mapping(
            temporal=np.stack([inside, middle, outside]).astype(np.int32), order=np.stack([unit, order, unit[::-1]]),
            spatial=spatial, spatial_order=np.tile(unit, (2, 3, 1)), keep=np.ones((3, 3), bool),
        )
        for order in orders
    ]  # fmt: skip
    values = evaluate(mappings, problem)
    represented = np.unique(np.round(np.log(values[-len(classes) :]), 5), axis=0)
    assert len(represented) > 5  # orders matter here
    for row in np.unique(np.round(np.log(values), 5), axis=0):
        assert (np.abs(represented - row) < 3e-5).all(axis=1).any()


def test_prescribed_loops_stay_innermost():
    q, r, k, p = (DIMS.index(d) for d in "QRKP")
    classes, number = order_classes(1 << r | 1 << k | 1 << p, (q, r), "temporal")
    assert number == 2 and {c[:2] for c in classes} == {(q, r)}
    assert all(sorted(c) == list(range(len(DIMS))) for c in classes)


def test_a_space_above_the_limit_is_refused():
    with pytest.raises(InputError, match="more than 1,000 mappings of different cost on template small") as error:
        Enumeration([LAYER], [TEMPLATES[SMALL]], TECHNOLOGY, limit=1000, padding=False).tables()
    assert "argument `limit`" in str(error.value) and "\n" not in str(error.value)


def test_a_loop_with_one_place_has_its_orders():
    """17 columns run in the outermost loop alone: with K there too, either may be inside."""
    technology, template = load_technology(), load_template("eyeriss")
    one, two = (UniqueLayer("conv", WorkloadShape(K=2, Q=columns)) for columns in (1, 17))
    sizes = [space_size(layer, template, technology, padding=False) for layer in (one, two)]
    assert sizes[0].splits == sizes[1].splits
    assert sizes[1].mappings == sizes[0].mappings + 1


@pytest.mark.slow
def test_progress_and_sets_of_several_problems():
    """Templates of different depth side by side; a template that does not run a layer has no set."""
    layers = [UniqueLayer("dwconv", WorkloadShape(G=4, P=2)), UniqueLayer("fc", WorkloadShape(N=2, K=2))]
    seen, sizes = [], []
    templates = (load_template("eyeriss-released"), TEMPLATES[2])
    tables = Enumeration(
        layers, templates, load_technology(), progress=seen.append, announce=lambda *a: sizes.append(a[2])
    ).tables()
    np.testing.assert_array_equal(tables.count > 0, [[0, 1], [1, 1]])
    assert tables.mapping.temporal.shape[-2:] == (LEVELS, len(DIMS))
    assert seen[-1].done == seen[-1].problems == 3
    assert seen[-1].evaluations == seen[-1].total == sum(size.classes for size in sizes)
    objectives = functools.reduce(lambda a, b: a + b, [int(c) for c in tables.count.ravel()])
    assert np.isfinite(tables.objectives).all(axis=-1).sum() == objectives
