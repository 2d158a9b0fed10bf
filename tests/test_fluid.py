"""The fluid evaluation against exact references, a plain event simulation and its own invariants."""

import csv
import functools
import itertools
import json
from fractions import Fraction

import chex
import jax
import jax.numpy as jnp
import numpy as np
import plain_fluid
import pytest
from conftest import reference
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mohamjax.schedule import fluid
from mohamjax.schedule.segments import flow, segments


@functools.cache
def _compiled(fn):
    return jax.jit(jax.vmap(fn))


def _arguments(case, jobs, accelerators, resources, dtype):
    """One case as padded arguments of `simulate`."""
    count = len(case["duration"])
    uses, shared, private = fluid.split_resources(
        case["resources_of_accelerator"], case["resource_bandwidth"], accelerators, resources
    )
    more = (0, jobs - count)
    return (
        np.pad(np.asarray(case["duration"], dtype), more),
        np.pad(np.asarray(case["bytes"], dtype), more),
        fluid.predecessor_bits(case["predecessors"], jobs),
        np.pad(np.asarray(case["accelerator"], np.int32), more, constant_values=-1),
        np.concatenate([np.asarray(case["order"], np.int32), np.arange(count, jobs, dtype=np.int32)]),
        uses,
        shared.astype(dtype),
        private.astype(dtype),
        np.arange(jobs) < count,
    )


def _records(arguments):
    """The arguments of `simulate` as the records of the module."""
    *jobs, uses, shared, private, mask = arguments
    return fluid.Jobs(*jobs, mask), fluid.Resources(uses, shared, private)


def _simulate(cases, jobs, accelerators, resources, dtype=np.float64, fn=fluid.simulate):
    with jax.enable_x64(dtype == np.float64):
        rows = [_arguments(case, jobs, accelerators, resources, dtype) for case in cases]
        columns = [jnp.asarray(np.stack(column)) for column in zip(*rows, strict=True)]
        return jax.tree.map(np.asarray, _compiled(fn)(*columns))


def _plain(case, number=Fraction):
    return plain_fluid.simulate(
        case["duration"],
        case["bytes"],
        case["predecessors"],
        case["accelerator"],
        case["order"],
        case["resources_of_accelerator"],
        case["resource_bandwidth"],
        number=number,
    )


def _cases():
    return json.loads(reference("schedule/cases.json").read_text())["cases"]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_reference_cases(dtype, tolerance):
    cases = _cases()
    found = _simulate(cases, 100, 16, 16, dtype)
    assert found.end.dtype == dtype
    assert found.ok.all()
    for i, case in enumerate(cases):
        count = len(case["duration"])
        np.testing.assert_allclose(found.start[i, :count], case["start"], rtol=tolerance)
        np.testing.assert_allclose(found.end[i, :count], case["end"], rtol=tolerance)
        np.testing.assert_allclose(found.makespan[i], case["makespan"], rtol=tolerance)
        lost = found.end[i, :count] - found.start[i, :count] - np.asarray(case["duration"], dtype)
        np.testing.assert_allclose(found.stall[i, :count], np.maximum(lost, 0.0), atol=tolerance * case["makespan"])
        assert not found.end[i, count:].any() and not found.start[i, count:].any()


def test_plain_simulation_is_exact_on_the_reference():
    for case in _cases():
        exact = Fraction if len(case["duration"]) <= 30 else float
        plain = _plain(case, exact)
        np.testing.assert_allclose([float(x) for x in plain.start], case["start"], rtol=1e-12)
        np.testing.assert_allclose([float(x) for x in plain.end], case["end"], rtol=1e-12)


def _makespan_case(row, table, batches):
    layers = batches[row["batch"]]
    jobs = [table[layer, *row["sub_accels"][a]] for layer, a in zip(layers, row["accel"], strict=True)]
    return {
        "duration": [latency for latency, _ in jobs],
        "bytes": [latency * bandwidth for latency, bandwidth in jobs],
        "predecessors": [[]] * len(jobs),
        "accelerator": row["accel"],
        "order": [int(j) for j in np.argsort(row["priority"], kind="stable")],
        "resources_of_accelerator": [[0]] * len(row["sub_accels"]),
        "resource_bandwidth": [row["bw_bytes_per_cycle"]],
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-5)])
def test_bandwidth_allocator_of_magma(dtype, tolerance):
    """43 schedules that the public MAGMA evaluator timed: one resource, no dependencies."""
    with reference("maestro/job_analysis.csv").open() as stream:
        table = {
            (row["layer_id"], row["style"], int(row["pe_rows"])): (
                float(row["latency_cycles"]),
                float(row["req_bw_bytes_per_cycle"]),
            )
            for row in csv.DictReader(stream)
            if row["status"] == "ok"
        }
    batches = {}
    with reference("maestro/batches.csv").open() as stream:
        for row in csv.DictReader(stream):
            batches.setdefault(row["batch"], []).append(row["layer_id"])
    rows = json.loads(reference("maestro/makespan_cases.json").read_text())
    assert len(rows) == 43
    found = _simulate([_makespan_case(row, table, batches) for row in rows], 100, 16, 1, dtype)
    for i, row in enumerate(rows):
        np.testing.assert_allclose(found.makespan[i], row["makespan_cycles"], rtol=tolerance)
        for a, end in enumerate(row["core_end"]):
            mine = found.end[i][np.asarray(row["accel"]) == a]
            np.testing.assert_allclose(mine.max(initial=0.0), end, rtol=tolerance)


# ---------------------------------------------------------------- random schedules

_JOBS, _ACCELERATORS, _RESOURCES = 12, 4, 4


@st.composite
def schedules(draw):
    """A random schedule with few distinct numbers, so that ties, zeros and saturated resources are frequent."""
    jobs = draw(st.integers(1, _JOBS))
    accelerators = draw(st.integers(1, _ACCELERATORS))
    resources = draw(st.integers(1, _RESOURCES))
    order = draw(st.permutations(range(jobs)))
    place = {job: i for i, job in enumerate(order)}
    predecessors = [
        [p for p in draw(st.lists(st.integers(0, jobs - 1), max_size=3, unique=True)) if place[p] < place[job]]
        for job in range(jobs)
    ]
    duration = draw(st.lists(st.sampled_from([1, 2, 3, 7, 100, 10_000]), min_size=jobs, max_size=jobs))
    rate = draw(st.lists(st.sampled_from([0, 1, 1, 3, 10]), min_size=jobs, max_size=jobs))
    return {
        "duration": duration,
        "bytes": [d * r for d, r in zip(duration, rate, strict=True)],
        "predecessors": predecessors,
        "accelerator": draw(st.lists(st.integers(0, accelerators - 1), min_size=jobs, max_size=jobs)),
        "order": list(order),
        "resource_bandwidth": draw(
            st.lists(st.sampled_from([1, 2, 5, float("inf")]), min_size=resources, max_size=resources)
        ),
        "resources_of_accelerator": [
            draw(st.lists(st.integers(0, resources - 1), unique=True)) for _ in range(accelerators)
        ],
    }


@settings(max_examples=80, deadline=None)
@given(schedules())
def test_equals_the_plain_simulation(case):
    plain = _plain(case)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        found = jax.tree.map(lambda x: x[0], _simulate([case], _JOBS, _ACCELERATORS, _RESOURCES, dtype))
        assert found.reason == fluid.DONE
        count = len(case["duration"])
        np.testing.assert_allclose(found.start[:count], [float(x) for x in plain.start], rtol=tolerance)
        np.testing.assert_allclose(found.end[:count], [float(x) for x in plain.end], rtol=tolerance)
        np.testing.assert_allclose(found.makespan, float(plain.makespan), rtol=tolerance)


def _scaled_by(logs, *arguments):
    """Starts and ends with durations, bytes and bandwidths scaled by `exp` of numbers of their own."""
    duration, traffic, *rest, shared, private, mask = arguments

    def scaled(x, log):  # infinite values stay so, and have no derivative
        finite = jnp.isfinite(x)
        return jnp.where(finite, jnp.where(finite, x, 1.0) * jnp.exp(log), x)

    duration, traffic, shared, private = map(scaled, (duration, traffic, shared, private), logs)
    found = fluid.simulate(duration, traffic, *rest, shared, private, mask)
    return jnp.stack([found.start, found.end])


@jax.jit
def _derivatives(logs, direction, arguments):
    """Derivatives along a direction: forward, reverse, and differences to the right and to the left."""

    def along(step):
        return _scaled_by(jax.tree.map(lambda x, d: x + step * d, logs, direction), *arguments)

    forward = jax.jvp(along, (0.0,), (1.0,))[1]
    reverse = jax.jacrev(along)(0.0)
    here = along(0.0)
    step = 1e-7  # so short that curvature does not look like a kink
    return forward, reverse, (along(step) - here) / step, (here - along(-step)) / step


_CURVED = {
    "duration": [100, 1, 100], "bytes": [100, 0, 100], "predecessors": [[], [], []], "accelerator": [0, 0, 1],
    "order": [0, 1, 2], "resource_bandwidth": [1], "resources_of_accelerator": [[0], [0]],
}  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(schedules(), st.integers(0, 2**32 - 1))
@example(_CURVED, 2**31 + 1)  # the end of the first job has a small slope and a strong curvature
def test_derivatives_are_those_of_differences(case, seed):
    """In durations, bytes and bandwidths and in both modes, except at kinks, where the two differences disagree."""
    with jax.enable_x64(True):
        arguments = _arguments(case, _JOBS, _ACCELERATORS, _RESOURCES, np.float64)
        random = np.random.default_rng(seed)
        values = arguments[0], arguments[1], arguments[6], arguments[7]
        logs = tuple(0.2 * random.standard_normal(x.shape) for x in values)
        direction = tuple(random.standard_normal(x.shape) for x in values)
        forward, reverse, right, left = jax.tree.map(np.asarray, _derivatives(logs, direction, arguments))
        scale = 1.0 + np.abs(right)
        smooth = np.abs(right - left) < 1e-4 * scale
        np.testing.assert_allclose(forward[smooth] / scale[smooth], right[smooth] / scale[smooth], atol=1e-3)
        np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)
        assert smooth[1, np.asarray(case["order"])[0]], "the first job ends smoothly, or nothing was compared"


@settings(max_examples=60, deadline=None)
@given(schedules())
def test_starts_and_ends_obey_the_rules(case):
    found = jax.tree.map(lambda x: x[0], _simulate([case], _JOBS, _ACCELERATORS, _RESOURCES, np.float32))
    last = {}
    for job in case["order"]:
        ready = [found.end[p] for p in case["predecessors"][job]]
        ready += [found.end[last[case["accelerator"][job]]]] if case["accelerator"][job] in last else []
        assert found.start[job] == max(ready, default=0.0)  # exactly, in any precision
        assert found.end[job] >= found.start[job]
        last[case["accelerator"][job]] = job
    assert found.makespan == found.end.max()


@settings(max_examples=60, deadline=None)
@given(schedules())
def test_flow_stays_within_bandwidth_and_carries_everything(case):
    found = jax.tree.map(lambda x: x[0], _simulate([case], _JOBS, _ACCELERATORS, _RESOURCES))
    count = len(case["duration"])
    arguments = (
        found.start[:count],
        found.end[:count],
        case["duration"],
        case["bytes"],
        case["accelerator"],
        case["resources_of_accelerator"],
        case["resource_bandwidth"],
    )
    seen = flow(*arguments)
    assert (seen.through <= np.asarray(case["resource_bandwidth"], float) * (1 + 1e-9)).all()
    np.testing.assert_allclose((seen.rate * np.diff(seen.time)[:, None]).sum(axis=0), case["duration"], rtol=1e-9)
    assert (seen.rate[seen.limit >= 0] < 1).all()
    # A resource that slows a job is saturated.
    for span, job in np.argwhere(seen.limit >= 0):
        r = seen.limit[span, job]
        assert r in case["resources_of_accelerator"][case["accelerator"][job]]
        np.testing.assert_allclose(seen.rate[span, job], _grant(case, seen, span, r), rtol=1e-9)

    plain = _plain(case)
    for job, mine in enumerate(segments(*arguments)):
        lost = sum((s.end - s.start) * (1 - s.rate) for s in mine)
        np.testing.assert_allclose(lost, found.stall[job], rtol=1e-9, atol=1e-9)
        slowed = sum((b - a for a, b, rate in plain.pieces[job] if rate < 1), Fraction(0))
        np.testing.assert_allclose(sum(s.end - s.start for s in mine), float(slowed), rtol=1e-9, atol=1e-9)
        assert all(s.end <= t.start for s, t in itertools.pairwise(mine))


def _grant(case, seen, span, resource):
    running = np.flatnonzero(seen.rate[span] > 0)
    asked = sum(
        case["bytes"][j] / case["duration"][j]
        for j in running
        if resource in case["resources_of_accelerator"][case["accelerator"][j]]
    )
    return min(1.0, case["resource_bandwidth"][resource] / asked)


@settings(max_examples=25, deadline=None)
@given(schedules())
def test_padding_changes_nothing(case):
    small = _simulate([case], _JOBS, _ACCELERATORS, _RESOURCES)
    large = _simulate([case], _JOBS + 37, _ACCELERATORS + 5, _RESOURCES + 3)
    np.testing.assert_array_equal(small.start[0], large.start[0, :_JOBS])
    np.testing.assert_array_equal(small.end[0], large.end[0, :_JOBS])
    np.testing.assert_array_equal(small.makespan, large.makespan)
    assert not large.end[0, _JOBS:].any()


def _random_population(seed, population, jobs=30, accelerators=16, resources=5):
    """Schedules of one graph; arguments of `simulate`, and which of them differ between the schedules."""
    random = np.random.default_rng(seed)
    graph = [[p for p in random.integers(0, j, 2).tolist() if j - p < 9] if j else [] for j in range(jobs)]
    duration = random.integers(10, 1000, (population, jobs)).astype(np.float32)
    uses = random.random((population, accelerators, resources)) < 0.4
    arguments = (
        duration,
        duration * random.choice([0, 0.5, 4], (population, jobs)).astype(np.float32),
        fluid.predecessor_bits(graph, jobs),
        random.integers(0, accelerators, (population, jobs)).astype(np.int32),
        np.tile(np.arange(jobs, dtype=np.int32), (population, 1)),
        uses,
        np.full((population, resources), 4.0, np.float32),
        np.full((population, accelerators), 8.0, np.float32),
        np.ones(jobs, bool),
    )
    return arguments, (0, 0, None, 0, 0, 0, 0, 0, None)


@pytest.mark.slow
def test_the_rest_of_the_population_changes_nothing():
    """A schedule gives the same bits alone, in a small and in a large population, nested or not."""
    arguments, axes = _random_population(0, 300)
    whole = jax.jit(jax.vmap(fluid.simulate, in_axes=axes))(*arguments)
    assert whole.ok.all()
    for i in (0, 1, 299):
        alone = jax.jit(fluid.simulate)(*(x if axis is None else x[i] for x, axis in zip(arguments, axes, strict=True)))
        chex.assert_trees_all_equal(alone, jax.tree.map(lambda x, i=i: x[i], whole))
    few = jax.jit(jax.vmap(fluid.simulate, in_axes=axes))(
        *(x if axis is None else x[40:47] for x, axis in zip(arguments, axes, strict=True))
    )
    chex.assert_trees_all_equal(few, jax.tree.map(lambda x: x[40:47], whole))
    folded = [x if axis is None else x.reshape(20, 15, *x.shape[1:]) for x, axis in zip(arguments, axes, strict=True)]
    nested = jax.jit(jax.vmap(jax.vmap(fluid.simulate, in_axes=axes), in_axes=axes))(*folded)
    chex.assert_trees_all_equal(jax.tree.map(lambda x: x.reshape(300, *x.shape[2:]), nested), whole)
    # axes that only an outer or only an inner vmap knows
    inner_axes = (0, 0, None, None, None, None, None, None, None)
    outer_axes = (None, None, None, 0, 0, 0, 0, 0, None)
    mixed = jax.jit(jax.vmap(jax.vmap(fluid.simulate, in_axes=inner_axes), in_axes=outer_axes))(
        *(x if axis is None else x[:6] for x, axis in zip(arguments, axes, strict=True))
    )
    for outer in (0, 5):
        for inner in (0, 3):
            picked = [
                x if axis is None else x[inner if k < 2 else outer]
                for k, (x, axis) in enumerate(zip(arguments, axes, strict=True))
            ]
            chex.assert_trees_all_equal(
                jax.jit(fluid.simulate)(*picked), jax.tree.map(lambda x, o=outer, i=inner: x[o, i], mixed)
            )


def test_strict_types_and_ranks():
    arguments, axes = _random_population(4, 3, jobs=5)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        done = jax.vmap(fluid.simulate, in_axes=axes)(*map(jnp.asarray, arguments))
        assert done.ok.all()
        with pytest.raises(ValueError, match="duration is float16"):
            half = [jnp.asarray(x, jnp.float16) if k < 2 else x for k, x in enumerate(arguments)]
            jax.vmap(fluid.simulate, in_axes=axes)(*half)


def test_values_do_not_recompile():
    fn = jax.jit(jax.vmap(chex.assert_max_traces(fluid.simulate, n=1), in_axes=_random_population(0, 1)[1]))
    ends = [np.asarray(fn(*_random_population(seed, 8)[0]).makespan) for seed in (2, 3)]
    assert not np.array_equal(*ends)


# ---------------------------------------------------------------- what cannot end

_THREE = {
    "duration": [5, 6, 7],
    "bytes": [0, 12, 7],
    "predecessors": [[], [0], []],
    "accelerator": [0, 0, 1],
    "order": [0, 1, 2],
    "resources_of_accelerator": [[0], [0]],
    "resource_bandwidth": [100],
}


@pytest.mark.parametrize(
    ("change", "reason", "ends"),
    [
        ({}, fluid.DONE, [5, 11, 7]),
        ({"order": [1, 0, 2]}, fluid.DEADLOCK, [np.inf, np.inf, 7]),
        ({"accelerator": [0, 5, 1]}, fluid.UNPLACED, [5, np.inf, 7]),
        ({"accelerator": [-1, 0, 1]}, fluid.UNPLACED, [np.inf, np.inf, 7]),
        ({"order": [0, 0, 2]}, fluid.UNPLACED, None),
        ({"order": [0, 7, 2]}, fluid.UNPLACED, [5, np.inf, 7]),
        ({"order": [0, -1, 2]}, fluid.UNPLACED, [5, np.inf, 7]),
        ({"order": [4, 0, 2]}, fluid.UNPLACED, [5, np.inf, 7]),
        ({"resource_bandwidth": [0]}, fluid.ENDLESS, [5, np.inf, np.inf]),
        ({"resources_of_accelerator": [[0], []], "resource_bandwidth": [0]}, fluid.ENDLESS, [5, np.inf, 7]),
        ({"duration": [5, np.inf, 7]}, fluid.ENDLESS, [5, np.inf, 7]),
        ({"duration": [np.nan, 6, 7]}, fluid.ENDLESS, None),
    ],
)
def test_what_cannot_end_is_said(change, reason, ends):
    found = _simulate([_THREE | change, _THREE], 4, 2, 1)
    assert found.reason.tolist() == [reason, fluid.DONE]
    assert found.ok.tolist() == [reason == fluid.DONE, True]
    assert found.makespan[1] == 11
    if ends is not None:
        assert found.end[0].tolist() == [*ends, 0.0]
    if reason != fluid.DONE:
        assert np.isinf(found.makespan[0])


def test_integers_of_the_host_do_not_wrap_around():
    """JAX keeps 32 bits of them."""
    case = {
        "duration": np.array([4e9, 4e9], np.float32),
        "bytes": np.array([8e9, 8e9]),
        "predecessor_bits": np.zeros((2, 1), np.uint32),
        "accelerator": np.arange(2),
        "order": np.arange(2),
        "shared_uses": np.ones((2, 1)),
        "shared_bandwidth": np.array([3.0]),
        "private_bandwidth": np.full(2, np.inf),
        "job_mask": np.ones(2, bool),
    }
    whole = {"bytes": np.array([8_000_000_000] * 2), "private_bandwidth": np.array([3_000_000_000] * 2)}
    for name, value in whole.items():
        assert value.dtype == np.int64
        assert float(fluid.simulate(**case | {name: value}).makespan) == np.float32(16e9 / 3)
    quick = case | {"duration": np.array([4.0, 4.0], np.float32)}
    fast = fluid.simulate(**quick | {"shared_bandwidth": np.array([3_000_000_000])})
    np.testing.assert_allclose(fast.makespan, 16 / 3, rtol=1e-6)
    for name in ("order", "accelerator"):
        far = fluid.simulate(**case | {name: np.array([0, 2**32 + 1])})
        assert int(far.reason) == fluid.UNPLACED and np.isinf(far.makespan)


@pytest.mark.parametrize("outer", [0, 3])
def test_no_schedules_have_no_timelines(outer):
    arguments, axes = _random_population(4, 3, jobs=5)
    none = [x if axis is None else x[:0] for x, axis in zip(arguments, axes, strict=True)]
    found = jax.jit(jax.vmap(fluid.simulate, in_axes=axes))(*none)
    assert found.end.shape == (0, *arguments[0].shape[1:]) and found.makespan.shape == found.reason.shape == (0,)
    many = [x if axis is None else jnp.zeros((outer, *x.shape), x.dtype) for x, axis in zip(none, axes, strict=True)]
    twice = jax.vmap(jax.vmap(fluid.simulate, in_axes=axes), in_axes=axes)(*many)
    assert twice.start.shape == (outer, 0, *arguments[0].shape[1:])


@pytest.mark.parametrize(
    ("case", "ends"),
    [
        ({"accelerator": [0, 1, 1], "order": [1, 1, 0], "predecessors": [[1], [], []]}, [2, 2, np.inf]),
        ({"accelerator": [1, 1, 1], "order": [0, 0, 1], "predecessors": [[], [0], []]}, [2, 3, np.inf]),
    ],
)
def test_an_order_that_leaves_a_job_out_is_no_deadlock(case, ends):
    """Without padding too, where the last place of the order holds a job that has waited for others."""
    case = _THREE | {"duration": [1, 1, 1], "bytes": [0, 0, 0]} | case
    for jobs in (3, 4):
        found = _simulate([case], jobs, 2, 1)
        assert found.reason.tolist() == [fluid.UNPLACED]
        assert found.end[0, :3].tolist() == ends


def test_the_plain_simulation_stops_in_a_deadlock():
    plain = _plain(_THREE | {"order": [1, 0, 2]})
    assert plain.end == [None, None, 7] and plain.makespan is None


def test_an_order_against_a_dependency_runs_where_it_can():
    """The order is per accelerator; across accelerators a job just waits."""
    case = _THREE | {"order": [2, 1, 0], "accelerator": [1, 0, 0], "predecessors": [[], [0], []]}
    found = _simulate([case], 4, 2, 1)
    assert found.ok.all()
    assert found.start[0].tolist() == [0, 7, 0, 0]


def test_rounding_beside_many_short_jobs_is_no_stall():
    """The end of the long job is off in single precision, but nothing slows it; a stall beyond rounding is told."""
    short = 2000
    case = {
        "duration": [1e9] + [20.0] * short, "bytes": [1e9] + [0] * short, "predecessors": [[]] * (short + 1),
        "accelerator": [0] + [1] * short, "order": list(range(short + 1)), "resource_bandwidth": [1.0],
        "resources_of_accelerator": [[0], []],
    }  # fmt: skip
    for dtype in (np.float32, np.float64):
        found = _simulate([case, case | {"resource_bandwidth": [0.999]}], short + 1, 2, 1, dtype)
        assert found.ok.all() and not found.stall[0].any()
        np.testing.assert_allclose(found.end[:, 0], [1e9, 1e9 / 0.999], rtol=short * np.finfo(dtype).eps / 2 + 1e-15)
        np.testing.assert_allclose(found.stall[1, 0], 1e9 / 0.999 - 1e9, rtol=0.2)
        assert not found.stall[1, 1:].any()


def test_jobs_of_no_length():
    case = _THREE | {"duration": [0, 0, 7], "bytes": [0, 0, 7], "predecessors": [[], [0], [1]]}
    found = _simulate([case], 4, 2, 1)
    assert found.end[0].tolist() == [0, 0, 7, 0]
    empty = {"duration": [], "bytes": [], "predecessors": [], "accelerator": [], "order": []}
    found = _simulate([_THREE | empty], 4, 2, 1)
    assert found.ok.all() and found.makespan[0] == 0


def test_predecessor_bits():
    bits = fluid.predecessor_bits([[], [0], [0, 1]] + [[]] * 31 + [[33, 2]], 64)
    assert bits.shape == (64, 2) and bits.dtype == np.uint32
    assert bits[2].tolist() == [3, 0]
    assert bits[34].tolist() == [4, 2]
    assert not bits[35:].any()
    with pytest.raises(ValueError, match="padded_jobs is 1"):
        fluid.predecessor_bits([[], []], 1)
    with pytest.raises(ValueError, match="predecessor 2 of job 1"):
        fluid.predecessor_bits([[], [2]], 8)


def test_split_resources():
    uses, shared, private = fluid.split_resources([[0, 1], [1, 2, 3], []], [4, 8, 16, 2], 4, 2)
    assert uses.tolist() == [[True, False], [True, False], [False, False], [False, False]]
    assert shared.tolist() == [8, np.inf]
    assert private.tolist() == [4, 2, np.inf, np.inf]
    with pytest.raises(ValueError, match="do not fit"):
        fluid.split_resources([[0], [0]], [1], 1, 1)


def test_segments_of_a_hand_made_schedule():
    """Two jobs of 10 and 4 time units each ask 3 of a bandwidth of 4: both at 2/3 until the second ends at 6."""
    case = {
        "duration": [10, 4],
        "bytes": [30, 12],
        "predecessors": [[], []],
        "accelerator": [0, 1],
        "order": [0, 1],
        "resources_of_accelerator": [[0, 1], [1]],
        "resource_bandwidth": [100, 4],
    }
    found = _simulate([case], 2, 2, 1)
    assert found.end[0].tolist() == [12, 6]
    mine, other = segments(
        found.start[0], found.end[0], [10, 4], [30, 12], [0, 1], case["resources_of_accelerator"], [100, 4]
    )
    assert mine == other == [(0, 6, pytest.approx(2 / 3), 1)]
    with pytest.raises(ValueError, match="never end"):
        flow([0, 0], [1, np.inf], [1, 1], [0, 0], [0, 0], [[]], [])
