"""Lower bounds: never above any design, tight where a case can be worked out by hand."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import (
    TECHNOLOGY,
    TEMPLATES,
    application,
    chains,
    evaluation,
    random_designs,
    reports,
    tables,
    wires_of,
)

from mohamjax.hardware import PackageParameters
from mohamjax.runtime.struct import take
from mohamjax.schedule import Design, Setup
from mohamjax.schedule.bounds import ChipletSizes, design_bounds, least_area, scenario_bounds
from mohamjax.schedule.ensemble import model_reports, models_of, own_tables, own_wires
from mohamjax.schedule.front_bounds import front_bounds
from mohamjax.workload.ensemble import joined

SLACK = 1 + 1e-9
SMALL = PackageParameters(max_tiles=4, dram_bandwidth=6.0, router_area=1e4)


def evaluated(problem, made, designs, package):
    with jax.enable_x64(True):
        return reports(designs, evaluation(problem, made, package))


def of_designs(problem, made, designs, found, package, templates=TEMPLATES):
    found_wires = wires_of(problem, made, templates)
    setup = Setup(problem, templates, TECHNOLOGY, package)
    return design_bounds(setup, made, found_wires, designs, found.chiplets, found.objectives[:, 2])


@pytest.mark.parametrize("seed", range(4))
def test_no_design_is_below_a_bound(seed):
    problem = chains(seed)
    made = tables(problem, seed)
    package = (SMALL, PackageParameters(max_tiles=4, contention="interface"))[seed % 2]
    designs = random_designs(problem, made, seed, 64, tiles=4)
    found = evaluated(problem, made, designs, package)
    sizes = ChipletSizes.of_designs(designs, found.chiplets)
    assert not len(sizes.without(ChipletSizes.of_tables(made)).template)  # just large enough for their layers
    every = scenario_bounds(Setup(problem, TEMPLATES, TECHNOLOGY, package), made, wires_of(problem, made))
    assert (every.objectives <= found.objectives * SLACK).all()
    for own, values in zip(of_designs(problem, made, designs, found, package), found.objectives, strict=True):
        assert (own.objectives <= values * SLACK).all()
        assert own.latency_s == max(own.path_s, own.work_s, own.traffic_s, own.balance_s)
        # What holds for every design holds for this one's chiplets.
        assert (every.objectives <= own.objectives * SLACK).all()
        assert min(own.objectives) > 0


def test_bounds_of_a_design_do_not_depend_on_the_others():
    """They may have different numbers of chiplets."""
    problem = chains(5)
    made = tables(problem, 5)
    designs = random_designs(problem, made, 5, 24, tiles=4)
    found = evaluated(problem, made, designs, SMALL)
    assert len(np.unique(np.asarray(found.chiplets.occupied).sum(axis=1))) > 2
    together = of_designs(problem, made, designs, found, SMALL)
    for n, own in enumerate(together):
        one, of_one = jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[n : n + 1], (designs, found))
        (alone,) = of_designs(problem, made, one, of_one, SMALL)
        np.testing.assert_allclose(dataclasses.astuple(alone), dataclasses.astuple(own), rtol=1e-12)


def test_bounds_of_fewer_chiplets_are_higher():
    problem = chains(9)
    made = tables(problem, 9)
    latency = [
        scenario_bounds(
            Setup(problem, TEMPLATES, TECHNOLOGY, PackageParameters()), made, wires_of(problem, made), n
        ).latency_s
        for n in (1, 2, 4, 16)
    ]
    assert latency == sorted(latency, reverse=True) and latency[0] > latency[-1]


def test_costs_that_fall_with_size_do_not_break_the_bound():
    """A memory table in which larger buffers are cheaper: a mapping's own size is then not its cheapest."""
    falling = dataclasses.replace(TECHNOLOGY, sram=np.asarray(TECHNOLOGY.sram)[:, :, ::-1].copy())
    problem = chains(3)
    made = tables(problem, 3)
    designs = random_designs(problem, made, 3, 64, tiles=4)
    with jax.enable_x64(True):
        on = evaluation(problem, made, SMALL)
        on = dataclasses.replace(on, technology=jax.tree.map(np.asarray, falling))
        found = reports(designs, on)
    every = scenario_bounds(Setup(problem, TEMPLATES, falling, SMALL), made, wires_of(problem, made))
    assert (every.objectives <= found.objectives * SLACK).all()


# ---------------------------------------------------------------- by hand


@pytest.mark.slow
def test_a_chiplet_may_be_sized_for_another_model():
    """A memory of 512 rows takes less energy than one of 496: the bounds of the model that needs 496 know of it."""
    template, (one, other) = TEMPLATES[1], (application([[]], kinds=[[kind]]) for kind in range(2))
    everyone = joined([one, other])
    made = tables(everyone, 0, entries=1, blocked=False, templates=(template,))
    level = next(v for v, x in enumerate(template.levels) if x.kind == "sram" and x.block_words * x.word_bits == 64)
    capacity = np.zeros_like(made.capacity)
    capacity[:, 0, 0, level] = np.array([496, 512]) * template.levels[level].block_words
    made.mapping.spatial[:] = 1
    made = dataclasses.replace(made, capacity=capacity, fanout=np.ones_like(made.fanout))
    genes = {"order": np.arange(32), "assignment": np.zeros(32), "mapping": np.zeros(32), "template": np.array([0, -1])}
    chosen = Design(**{name: jnp.asarray(gene, jnp.int32) for name, gene in genes.items()})
    package = PackageParameters(max_tiles=2)
    with jax.enable_x64(True):
        on = evaluation(everyone, made, package, templates=(template,))
        found = take(jax.device_get(model_reports(chosen, on, models_of([one, other]))), slice(1))
    own, hops = own_tables(one, everyone, made), own_wires(one, everyone, wires_of(everyone, made, (template,)))
    designs = jax.tree.map(lambda leaf: np.asarray(leaf)[None], chosen)
    sizes = ChipletSizes.of_designs(designs, found.chiplets).without(ChipletSizes.of_tables(own))
    assert len(sizes.template) == 1 and not len(sizes.without(sizes).template)
    setup = Setup(one, (template,), TECHNOLOGY, package)
    alone, both = (scenario_bounds(setup, own, hops, sizes=given).energy_J for given in (None, sizes))
    assert both <= found.objectives[0, 1] * SLACK < alone
    least = front_bounds(setup, own, hops, sizes=sizes, cells=2).least_energy_J.min()
    assert least <= found.objectives[0, 1] * SLACK


def alike(problem, cycles, traffic):
    """One template, one mapping per layer, all on the same small hardware, with these cycles and bytes per kind."""
    made = tables(problem, 0, entries=1, templates=TEMPLATES[1:2])
    made = dataclasses.replace(
        made,
        cycles=np.asarray(cycles, float)[:, None, None],
        offchip_bytes=np.asarray(traffic, float)[:, None, None],
        capacity=np.broadcast_to(made.capacity[:1], made.capacity.shape).copy(),
        fanout=np.broadcast_to(made.fanout[:1], made.fanout.shape).copy(),
    )
    return made


def design(order, tile, tiles=4):
    layers = len(order)
    rest = list(range(layers, 32))
    template = np.where(np.isin(np.arange(tiles), tile), 0, -1).astype(np.int32)
    genes = {
        "order": np.asarray([*order, *rest], np.int32),
        "assignment": np.asarray([*tile, *[0] * len(rest)], np.int32),
        "mapping": np.zeros(32, np.int32),
        "template": template,
    }
    return Design(**{k: v[None] for k, v in genes.items()})


def both(problem, made, chosen, package, most):
    with jax.enable_x64(True):
        found = reports(chosen, evaluation(problem, made, package, templates=TEMPLATES[1:2]))
    every = scenario_bounds(
        Setup(problem, TEMPLATES[1:2], TECHNOLOGY, package), made, wires_of(problem, made, TEMPLATES[1:2]), most
    )
    (own,) = of_designs(problem, made, chosen, found, package, TEMPLATES[1:2])
    return found.objectives[0], every, own


FREE = PackageParameters(max_tiles=4, link_bandwidth=1e9, interface_bandwidth=1e9)


@pytest.mark.slow
def test_a_chain_takes_its_longest_path():
    problem = application([[], [0], [1], []])
    made = alike(problem, [100, 200, 300, 50], [1, 1, 1, 1])
    values, every, own = both(problem, made, design([0, 1, 2, 3], [0, 0, 0, 1]), FREE, 4)
    assert values[0] == pytest.approx(600e-9)
    for bound in (every, own):
        assert bound.path_s == bound.latency_s == pytest.approx(600e-9)


@pytest.mark.slow
def test_equal_layers_take_their_work():
    problem = application(*[[[]] for _ in range(6)])
    made = alike(problem, [100] * 6, [1] * 6)
    values, every, own = both(problem, made, design(range(6), [0, 1, 2, 0, 1, 2]), FREE, 3)
    assert values[0] == pytest.approx(200e-9)
    for bound in (every, own):
        assert bound.work_s == bound.latency_s == pytest.approx(200e-9)
        assert bound.path_s == pytest.approx(100e-9)


@pytest.mark.slow
def test_much_traffic_takes_the_interfaces():
    package = PackageParameters(max_tiles=4, link_bandwidth=16.0, interface_bandwidth=4.0)
    problem = application(*[[[]] for _ in range(4)])
    made = alike(problem, [10] * 4, [4000] * 4)
    # Two interfaces for up to four chiplets: 16,000 bytes at 8 bytes per cycle.
    values, every, own = both(problem, made, design(range(4), [0, 1, 2, 3]), package, 4)
    assert values[0] == pytest.approx(2000e-9)
    for bound in (every, own):
        assert bound.traffic_s == bound.latency_s == pytest.approx(2000e-9)


def test_unlimited_interfaces_bound_nothing():
    problem = chains(2)
    made = tables(problem, 2)
    package = PackageParameters(max_tiles=4, interface_bandwidth=np.inf, link_bandwidth=np.inf)
    setup = Setup(problem, TEMPLATES, TECHNOLOGY, package)
    with np.errstate(all="raise"):
        found = scenario_bounds(setup, made, wires_of(problem, made))
    assert found.traffic_s == 0 and found.balance_s >= found.work_s > 0


@pytest.mark.slow
def test_energy_and_area_are_tight_for_one_layer():
    problem = application([[]])
    made = alike(problem, [10], [4000])
    values, every, own = both(problem, made, design([0], [0]), SMALL, 1)
    np.testing.assert_allclose(every.objectives, values, rtol=1e-12)
    np.testing.assert_allclose(own.objectives, values, rtol=1e-12)


@pytest.mark.parametrize("extra", [0.0, 2.0])
def test_the_least_area_is_that_of_all_ways_to_share_layers_out(extra):
    rng = np.random.default_rng(0)
    several = 0
    for _ in range(200):
        layers, kinds = rng.integers(1, 7), rng.integers(1, 4)
        need = rng.random((layers, kinds)) * 10 ** rng.integers(0, 2, kinds)
        need[rng.random(need.shape) < 0.3] = np.inf
        need[np.arange(layers), rng.integers(0, kinds, layers)] = rng.random(layers)
        best = np.inf
        for ways in itertools.product(range(kinds), repeat=layers):
            own = need[np.arange(layers), ways]
            chips = [own[np.equal(ways, t)].max() + extra for t in set(ways)]
            best = min(best, sum(chips))
        found = least_area(need, extra)
        assert found == pytest.approx(best, rel=1e-12)
        several += found > need.min(axis=1).max() + extra
    assert several > 20


def test_more_ways_than_can_be_looked_at_leave_what_the_most_demanding_layers_need(monkeypatch):
    need = np.random.default_rng(1).random((80, 6))
    whole = least_area(need, 0.5)
    monkeypatch.setattr("mohamjax.schedule.bounds._WAYS", 2)
    assert need.min(axis=1).max() + 0.5 <= least_area(need, 0.5) < whole


@pytest.mark.slow
def test_prices_see_that_only_some_chiplets_run_a_layer():
    """Only chiplet 0 holds two of the layers: they take their time on it, whatever chiplet 1 does."""
    problem = application([[]], [[]], [[]])
    made = alike(problem, [100, 100, 10], [1, 1, 1])
    fanout = made.fanout.copy()
    level = int(np.argmax([max(f.fanout) for f in TEMPLATES[1].levels]))
    axis = int(np.argmax(TEMPLATES[1].levels[level].fanout))
    fanout[:, 0, 0, level, axis] = [2, 2, 1]
    made = dataclasses.replace(made, fanout=fanout)
    values, _, own = both(problem, made, design([0, 1, 2], [0, 0, 1]), FREE, 2)
    assert values[0] == pytest.approx(200e-9)
    assert own.work_s == pytest.approx(105e-9)
    assert 0.97 * values[0] < own.balance_s <= values[0] * SLACK


@pytest.mark.slow
def test_the_balance_reaches_the_best_of_small_cases():
    """On independent layers the bound is below, and mostly near, the best of all assignments (work and traffic)."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        problem = application(*[[[]] for _ in range(5)])
        made = alike(problem, rng.integers(50, 150, 5), rng.integers(100, 2000, 5))
        package = PackageParameters(max_tiles=4)
        chosen = [design(range(5), tile) for tile in itertools.product(range(2), repeat=5) if len(set(tile)) == 2]
        designs = jax.tree.map(lambda *x: np.concatenate(x), *chosen)
        with jax.enable_x64(True):
            found = reports(designs, evaluation(problem, made, package, templates=TEMPLATES[1:2]))
        best = found.objectives[:, 0].min()
        own = of_designs(problem, made, designs, found, package, TEMPLATES[1:2])
        every = scenario_bounds(
            Setup(problem, TEMPLATES[1:2], TECHNOLOGY, package), made, wires_of(problem, made, TEMPLATES[1:2]), 2
        )
        assert max(b.latency_s for b in own) <= best * SLACK and every.latency_s <= best * SLACK
        ratios.append(max(b.latency_s for b in own) / best)
    assert np.median(ratios) > 0.85
