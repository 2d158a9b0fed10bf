"""The loop-nest cost model against plain Python, and what must hold for every mapping."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import plain_timeloop
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_nests import CHILDREN, LEVELS, pad, random_layer_and_mapping, random_machine, random_problem, stack

from mohamjax.mapping import (
    REASONS,
    Counting,
    LayerArrays,
    Mapping,
    area,
    count_accesses,
    cycles,
    energy,
    evaluate_batch,
    minimal_hardware,
    offchip_bytes,
    plausible,
    validity,
)

BATCH = 32
SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=8, deadline=None)
RELEVANT = ("GKCRS", "GNCPQRS", "GNKPQ")
DIMS = "GNKCPQRS"


@functools.cache
def compiled(links=False):
    """The jitted model, compiled once per mode for all tests of this file."""

    def evaluate(layers, mappings, machines):
        size = 4 if links else BATCH
        return evaluate_batch(layers, mappings, machines, Counting(links=links, max_children=CHILDREN), block_size=size)

    return jax.jit(evaluate)


def evaluated(problems, *, double=True, links=False):
    """NumPy `Evaluation` of a list of (layer, mapping, machine); shorter lists are padded."""
    filled = [*problems, *[problems[-1]] * (BATCH - len(problems))]
    with jax.enable_x64(double):
        return jax.tree.map(np.asarray, compiled(links)(*(stack(x) for x in zip(*filled, strict=True))))


def problems(seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [random_problem(rng, dtype=dtype) for _ in range(BATCH)]


def levels_of(machine):
    return int(np.sum(machine.level_mask))


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("links", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["nolinks", "links"])
@few
@given(seed=SEEDS)
def test_agrees_with_plain_rules(links, seed):
    batch = problems(seed)
    result = evaluated(batch, links=links)
    for n, (layer, mapping, machine) in enumerate(batch):
        top = levels_of(machine)
        plain = plain_timeloop.count(layer, mapping, machine, links=links)
        counts = result.counts
        for name in ("tile", "partition", "reads", "fills", "updates", "link_transfers", "expansion"):
            np.testing.assert_array_equal(getattr(counts, name)[n, :top], plain[name], err_msg=name)
        # Words times a mean distance, which may be inexact in binary: a compiler may round it once less.
        np.testing.assert_allclose(counts.hops[n, :top], plain["hops"], rtol=1e-15, err_msg="hops")
        for name in ("macs", "compute_cycles"):
            assert getattr(counts, name)[n] == plain[name]
        np.testing.assert_array_equal(counts.fanout_used[n, :top], plain["fanout_used"])
        np.testing.assert_array_equal(result.cycles.per_level[n, :top], plain["cycles_per_level"])
        assert result.cycles.total[n] == plain["cycles"]
        assert result.energy.total[n] == pytest.approx(plain["energy"], rel=1e-12)
        verdict = REASONS[result.reason[n]], result.level[n]
        assert verdict == plain_timeloop.verdict(plain, machine)


@pytest.mark.slow
@few
@given(seed=SEEDS)
def test_single_precision_stays_close(seed):
    exact = evaluated(problems(seed))
    close = evaluated(problems(seed, np.float32), double=False)
    assert close.counts.reads.dtype == np.float32
    for name in ("tile", "reads", "fills", "updates", "hops"):
        # A share that Timeloop's own rounding lowers by one is exact in single precision.
        np.testing.assert_allclose(getattr(close.counts, name), getattr(exact.counts, name), rtol=1e-5, atol=1)
    np.testing.assert_allclose(close.cycles.total, exact.cycles.total, rtol=1e-5, atol=1)
    np.testing.assert_array_equal(close.reason, exact.reason)


@few
@given(seed=SEEDS)
def test_loops_of_bound_one_may_stand_anywhere(seed):
    rng = np.random.default_rng(seed)

    def shuffled(order, bounds):
        """The same order of the loops above 1, with the others in random places."""
        real = [d for d in order if bounds[d] > 1]
        idle = rng.permutation([d for d in order if bounds[d] == 1]).astype(order.dtype)
        places = np.sort(rng.permutation(len(order))[: len(real)])
        new = np.empty_like(order)
        new[places] = real
        new[np.setdiff1d(np.arange(len(order)), places)] = idle
        return new

    batch = problems(seed)
    other = []
    for layer, m, machine in batch:
        order = np.stack([shuffled(m.order[i], m.temporal[i]) for i in range(LEVELS)])
        spatial = [[shuffled(m.spatial_order[a, i], m.spatial[a, i]) for i in range(LEVELS)] for a in range(2)]
        other.append((layer, m.replace(order=order, spatial_order=np.stack(spatial)), machine))
    assert_same(evaluated(batch), evaluated(other))


@few
@given(seed=SEEDS)
def test_padding_changes_nothing_whatever_it_holds(seed):
    rng = np.random.default_rng(seed)
    batch = problems(seed)
    spoiled = []
    for layer, mapping, machine in batch:
        padded = ~machine.level_mask

        def junk(x, padded=padded):
            mask = padded.reshape((-1,) + (1,) * (x.ndim - 1))
            return np.where(mask, rng.integers(1, 9, x.shape), x).astype(x.dtype)

        names = ("keep", "capacity", "block_words", "fanout", "mesh", "instances", "bandwidth", "access_energy")
        machine = machine.replace(**{name: junk(getattr(machine, name)) for name in (*names, "area", "hop_energy")})
        spoiled.append((layer, mapping.replace(keep=junk(mapping.keep)), machine))
    plain, other = evaluated(batch), evaluated(spoiled)
    assert_same(plain, other)
    for n, (_, _, machine) in enumerate(batch):
        top = levels_of(machine)
        for name in ("tile", "reads", "fills", "updates", "ingress", "hops", "instances_used"):
            assert not np.any(getattr(plain.counts, name)[n, top:])


@functools.cache
def validities(own_fanout):
    return jax.jit(jax.vmap(functools.partial(validity, own_fanout=own_fanout)))


def reasons(problems, own_fanout):
    """Reason codes, with or without the check of each level's own fanout."""
    counts = evaluated(problems).counts
    _, mappings, machines = (stack(x) for x in zip(*problems, strict=True))
    with jax.enable_x64(True):
        return np.asarray(validities(own_fanout)(counts, mappings, machines)[0])


@few
@given(seed=SEEDS)
def test_larger_hardware_keeps_a_mapping_valid(seed):
    rng = np.random.default_rng(seed)
    batch = problems(seed)
    larger = []
    for layer, mapping, machine in batch:
        grow = {}
        for name in ("capacity", "mesh", "instances", "fanout", "mac_mesh", "mac_instances"):
            value = getattr(machine, name)
            grow[name] = value * rng.integers(1, 4, value.shape)
        larger.append((layer, mapping, machine.replace(**grow)))
    for own in (False, True):
        before, after = (reasons(x, own) for x in (batch, larger))
        assert np.all(after[before == 0] == 0)
        assert np.any(before == 0)
        assert np.any(before != 0)


@few
@given(seed=SEEDS)
def test_minimal_hardware_holds_its_mapping(seed):
    rng = np.random.default_rng(seed)
    batch = problems(seed)
    result = evaluated(batch)
    tight = []
    with jax.enable_x64(True):
        for n, (layer, mapping, machine) in enumerate(batch):
            counts = jax.tree.map(lambda x, n=n: x[n], result.counts)
            granularity = rng.choice([0.0, 1.0, 16.0], LEVELS)
            limit = np.where(rng.random(LEVELS) < 0.5, np.inf, np.maximum(counts.tile.sum(1), 5.0))
            capacity, fanout = minimal_hardware(counts, mapping, machine.block_words, granularity, limit)
            capacity, fanout = np.asarray(capacity), np.asarray(fanout)
            used = counts.tile.sum(1)
            assert np.all(capacity >= used)
            assert np.all(np.isinf(capacity) == np.isinf(limit))
            assert np.all(capacity <= limit)
            rows = capacity / machine.block_words
            rounded = (granularity > 0) & (capacity < limit)
            assert np.all(rows[rounded] % granularity[rounded] == 0)
            assert np.all(
                capacity[rounded] - np.maximum(used, 1)[rounded] < (machine.block_words * granularity)[rounded]
            )
            inside = np.concatenate([np.cumprod(fanout[::-1], axis=0)[::-1], np.ones((1, 2))])
            sizes = {"capacity": capacity, "fanout": fanout, "mesh": inside[1:], "instances": inside[1:].prod(axis=1)}
            macs = {"mac_mesh": inside[0], "mac_instances": inside[0].prod()}
            tight.append((layer, mapping, machine.replace(**sizes, **macs)))
    assert np.all(reasons(tight, True) == 0)


def touched(out, tap, stride, dilation):
    """Input words that a sliding window ever reads along one axis."""
    return len({p * stride + r * dilation for p in range(out) for r in range(tap)})


@few
@given(seed=SEEDS)
def test_every_tensor_crosses_the_chip_boundary_once(seed):
    """Compulsory traffic. One exception: inputs that a stride skips are stored but need not be read.

    Tiles are boxes (section 1), so a whole tensor counts the words between windows, while single-word tiles do not
    fetch them; words that a window covers are always fetched.
    """
    batch = problems(seed)
    result = evaluated(batch)
    for n, (layer, _, machine) in enumerate(batch):
        top = levels_of(machine) - 1
        b = dict(zip(DIMS, (int(x) for x in layer.bounds), strict=True))
        reads, updates = result.counts.reads[n, top], result.counts.updates[n, top]
        assert reads[0] >= math.prod(b[d] for d in RELEVANT[0])
        assert updates[2] >= math.prod(b[d] for d in RELEVANT[2])
        if b["P"] * b["R"] * b["Q"] * b["S"] < 1e6:
            first = touched(b["P"], b["R"], layer.stride[0], layer.dilation[0])
            second = touched(b["Q"], b["S"], layer.stride[1], layer.dilation[1])
            assert reads[1] >= b["G"] * b["N"] * b["C"] * first * second


@few
@given(seed=SEEDS)
def test_energy_adds_up_and_scales(seed):
    batch = problems(seed)
    e = evaluated(batch).energy
    np.testing.assert_allclose(e.total, e.mac + e.level.sum((1, 2)) + e.network.sum(1), rtol=1e-12)
    names = ("access_energy", "hop_energy", "mac_energy")
    double = [(a, b, m.replace(**{name: 2 * getattr(m, name) for name in names})) for a, b, m in batch]
    np.testing.assert_allclose(evaluated(double).energy.total, 2 * e.total, rtol=1e-12)
    with jax.enable_x64(True):
        for _, _, machine in batch[:4]:
            parts = (machine.area[machine.level_mask] * machine.instances[machine.level_mask]).sum()
            total = parts + machine.mac_area * machine.mac_instances
            assert float(area(machine)) == pytest.approx(total)


@few
@given(seed=SEEDS)
def test_words_are_conserved(seed):
    batch = problems(seed)
    counts = evaluated(batch).counts
    for n, (layer, mapping, machine) in enumerate(batch):
        levels = levels_of(machine)
        keep = mapping.keep
        spread = mapping.spatial.prod(axis=0)
        used, compute = counts.instances_used[n], counts.compute_cycles[n]
        for i in range(levels - 1):
            # Children are filled with exactly what their parent's network delivers.
            if keep[i, 0]:
                members = np.prod([spread[i + 1, DIMS.index(d)] for d in DIMS if d not in RELEVANT[0]])
                assert counts.fills[n, i, 0] * used[i] == used[i + 1] * counts.ingress[n, i + 1, 0] * members
            if keep[i, 2]:
                assert counts.updates[n, i, 2] - counts.reads[n, i, 2] == counts.partition[n, i, 2]
        outputs = math.prod(int(layer.bounds[DIMS.index(d)]) for d in RELEVANT[2])
        assert counts.updates[n, levels - 1, 2] - counts.reads[n, levels - 1, 2] == outputs
        if spread[0].prod() == 1:
            for v, words in ((0, counts.reads), (1, counts.reads), (2, counts.updates)):
                if keep[0, v] or levels == 1:
                    assert words[n, 0, v] == compute
        assert counts.macs[n] == math.prod(int(b) for b in layer.bounds)


@pytest.mark.slow
@few
@given(seed=SEEDS)
def test_links_only_ever_save_reads(seed):
    batch = problems(seed)
    without, with_links = evaluated(batch).counts, evaluated(batch, links=True).counts
    assert np.all(with_links.ingress <= without.ingress)
    for v in (0, 2):
        # Only MACs pass on weights and outputs: above a buffer that keeps them, nothing changes.
        inside = (np.arange(LEVELS) == 0) | ~np.logical_or.accumulate(with_links.tile[..., v] > 0, axis=1)
        served = np.concatenate([inside[:, :1], inside[:, :-1]], axis=1)
        served &= np.any(with_links.link_transfers[:, :1, v] > 0, axis=1)[:, None]
        for after, before in ((with_links.reads, without.reads), (with_links.updates, without.updates)):
            assert np.all(after[..., v] <= before[..., v])
            assert_same(after[..., v][~served], before[..., v][~served])
        assert_same(with_links.fills[..., v], without.fills[..., v])
        assert not np.any(with_links.link_transfers[:, 1:, v])
    unlinked = ~np.any(with_links.link_transfers > 0, axis=(1, 2)) & np.all(
        with_links.ingress == without.ingress, axis=(1, 2)
    )
    assert_same(with_links.fills[unlinked], without.fills[unlinked])


def one(layer, mapping, machine):
    """All functions of the model on one mapping, without a batch."""
    counts = count_accesses(layer, mapping, machine, Counting(wires=False))
    time, spent = cycles(counts, machine), energy(counts, machine)
    return counts, time, spent, *validity(counts, mapping, machine), plausible(layer, counts, time, machine)


jitted = jax.jit(one)


@pytest.mark.slow
def test_one_mapping_agrees_jitted_mapped_and_batched():
    batch = problems(3)[:4]
    layers, mappings, machines = (stack(x) for x in zip(*batch, strict=True))
    with jax.enable_x64(True):
        mapped = jax.jit(jax.vmap(one))(layers, mappings, machines)
        for n in range(len(batch)):
            assert_same(jax.tree.map(lambda x, n=n: x[n], mapped), jitted(*batch[n]))
        batched = jax.jit(functools.partial(evaluate_batch, counting=Counting(wires=False), block_size=3))(
            layers, mappings, machines
        )
    parts = (batched.counts, batched.cycles, batched.energy, batched.reason, batched.level, batched.plausible)
    assert_same(parts, mapped)
    assert jitted._cache_size() == 1


@pytest.mark.slow
def test_shared_layers_and_machines_need_no_copies():
    rng = np.random.default_rng(5)
    layer, mapping = random_layer_and_mapping(rng, LEVELS)
    machine = random_machine(rng, mapping)
    mappings = stack([mapping.replace(keep=rng.random((LEVELS, 3)) < 0.5) for _ in range(7)])
    repeated = [stack([x] * 7) for x in (layer, machine)]
    function = jax.jit(functools.partial(evaluate_batch, counting=Counting(wires=False), block_size=3))
    with jax.enable_x64(True):
        assert_same(function(layer, mappings, machine), function(repeated[0], mappings, repeated[1]))


def padded(layer, mapping, machine):
    return layer, *pad(mapping, machine, LEVELS)


def test_reasons_name_the_first_thing_that_does_not_fit():
    rng = np.random.default_rng(0)
    layer, mapping = random_layer_and_mapping(rng, 3, loops=0)
    spatial = mapping.spatial.copy()
    spatial[0, 2, 2], spatial[1, 1, 3] = 4, 2
    mapping = mapping.replace(spatial=spatial, keep=np.ones((3, 3), bool))
    layer = layer.replace(bounds=np.array([1, 1, 4, 2, 1, 1, 1, 1], np.int32))
    machine = random_machine(rng, mapping)
    free = {"capacity": np.full(3, np.inf), "mesh": np.full((3, 2), 99.0), "instances": np.full(3, 99.0)}
    free |= {"mac_mesh": np.full(2, 99.0), "mac_instances": np.asarray(99.0), "fanout": np.full((3, 2), 9.0)}
    cases = {
        ("valid", -1): {},
        ("mac_instances", -1): {"mac_instances": np.asarray(7.0)},
        ("mac_x", -1): {"mac_mesh": np.array([3.0, 9.0])},
        ("mac_y", -1): {"mac_mesh": np.array([9.0, 1.0])},
        ("capacity", 0): {"capacity": np.array([2.0, np.inf, np.inf])},
        ("instances", 1): {"instances": np.array([99.0, 3.0, 99.0])},
        ("x_expansion", 0): {"mesh": np.array([[3.0, 9.0], [9.0, 9.0], [9.0, 9.0]])},
        ("y_expansion", 0): {"mesh": np.array([[4.0, 1.0], [9.0, 9.0], [9.0, 9.0]])},
        ("capacity+instances", 1): {"capacity": np.array([9.0, 4, 9.0]), "instances": np.array([99.0, 3.0, 99.0])},
        ("own_fanout", 2): {"fanout": np.array([[9.0, 9.0], [9.0, 9.0], [3.0, 9.0]])},
    }
    with jax.enable_x64(True):
        for (reason, level), change in cases.items():
            tight = machine.replace(**{**free, **change})
            counts = jitted(*padded(layer, mapping, tight))[0]
            got = validity(counts, mapping, pad(mapping, tight, LEVELS)[1], own_fanout=True)
            assert (REASONS[int(got[0])], int(got[1])) == (reason, level)


@pytest.mark.slow
def test_too_small_a_table_gives_no_number():
    """Wires outside the closed form are nan, not a guess, with more children than the table holds."""
    spatial = np.ones((2, 2, 8), np.int32)
    spatial[0, 1, 2], spatial[1, 1, 3] = 3, 12
    mapping = Mapping(
        temporal=np.ones((2, 8), np.int32),
        order=np.tile(np.arange(8, dtype=np.int32), (2, 1)),
        spatial=spatial,
        spatial_order=np.tile(np.arange(8, dtype=np.int32), (2, 2, 1)),
        keep=np.ones((2, 3), bool),
    )
    layer = LayerArrays(
        bounds=np.array([1, 1, 3, 12, 1, 1, 1, 1], np.int32), stride=np.ones(2, np.int32), dilation=np.ones(2, np.int32)
    )
    machine = random_machine(np.random.default_rng(0), mapping).replace(fanout=np.array([[1.0, 1.0], [4.0, 12.0]]))
    with jax.enable_x64(True):
        none, small, large = (
            jax.jit(functools.partial(count_accesses, counting=Counting(max_children=size)))(layer, mapping, machine)
            for size in (0, 32, 36)
        )
    assert np.all(np.isnan(none.hops[1]))
    assert np.all(np.isnan(small.hops[1]))
    np.testing.assert_array_equal(large.hops, plain_timeloop.count(layer, mapping, machine)["hops"])


@functools.cache
def without_table():
    return jax.jit(jax.vmap(functools.partial(count_accesses, counting=Counting(max_children=0))))


@pytest.mark.slow
@few
@given(seed=SEEDS, minimal=st.booleans())
def test_wires_of_wide_arrays_need_no_table(seed, minimal):
    """The closed form holds for meshes as wide as the level uses without coinciding windows, for any children."""
    rng = np.random.default_rng(seed)
    batch = []
    for _ in range(BATCH):
        layer, mapping = random_layer_and_mapping(rng, LEVELS, loops=5)
        spatial = mapping.spatial.copy()
        for axis in range(2):
            for d in rng.choice([0, 1, 2, 3, 4, 5], 3):
                spatial[axis, 2, d] = rng.choice([1, 2, 3, 4])
        spatial[:, :, 6:] = 1
        mapping = mapping.replace(spatial=spatial)
        machine = random_machine(rng, mapping)
        fanout = np.prod(spatial, axis=2).T.astype(np.float64)
        fanout[:, 1] += 0 if minimal else rng.integers(0, 9, LEVELS)
        batch.append((layer, mapping, machine.replace(fanout=fanout)))
    with jax.enable_x64(True):
        counts = without_table()(*(stack(x) for x in zip(*batch, strict=True)))
    for n, problem in enumerate(batch):
        np.testing.assert_array_equal(counts.hops[n], plain_timeloop.count(*problem)["hops"])


def test_implausible_results_are_noticed():
    rng = np.random.default_rng(1)
    layer, mapping = random_layer_and_mapping(rng, 3, loops=6)
    machine = random_machine(rng, mapping)
    with jax.enable_x64(True):
        _, _, machine = problem = padded(layer, mapping, machine)
        counts, time, *_ = jitted(*problem)
        assert bool(plausible(layer, counts, time, machine))
        wrong = layer.replace(bounds=layer.bounds * np.array([2, 1, 1, 1, 1, 1, 1, 1], np.int32))
        assert not bool(plausible(wrong, counts, time, machine))
        fast = time.replace(total=counts.macs / machine.mac_instances / 2)
        assert not bool(plausible(layer, counts, fast, machine))


def test_offchip_bytes_follow_the_word_width():
    layer, mapping, machine = problems(11)[0]
    with jax.enable_x64(True):
        counts = jitted(layer, mapping, machine)[0]
        top = levels_of(machine) - 1
        words = float(jnp.sum(counts.reads[top] + counts.updates[top]))
        assert float(offchip_bytes(counts, machine)) == words
        assert float(offchip_bytes(counts, machine.replace(word_bits=np.full(LEVELS, 24.0)))) == 3 * words
