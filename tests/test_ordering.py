"""Orders in which networks end earlier and none later, compared with our evaluation and with a plain one."""

import dataclasses
import itertools

import jax
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
from plain_fluid import simulate

import mohamjax as mj
from mohamjax.hardware import PackageParameters
from mohamjax.schedule import network_latencies
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.front import front_index
from mohamjax.search.config import PRESETS, Settings
from mohamjax.search.ordering import delays_nobody, orderings, reordered

NARROW = PackageParameters(max_tiles=6, interface_bandwidth=0.5)
ONE_CHIP = PackageParameters(max_tiles=2, interface_bandwidth=0.5)


def evaluated(app, seed, count=24, package=NARROW):
    """Random designs in double precision."""
    made = tables(app, seed)
    designs = random_designs(app, made, seed, count, tiles=package.max_tiles)
    with jax.enable_x64(True):
        on = evaluation(app, made, package)
    found = reports(designs, on)
    parts = {"application": app, "templates": TEMPLATES, "technology": TECHNOLOGY, "package": package}
    return Evaluated(**parts, tables=made, wires=wires_of(app, made), designs=designs, reports=found)


def improved(before, rounds):
    *_, last = orderings(before, rounds)
    return reordered(before, last), last


def ready_plainly(of, row, order):
    """End of each network [s] under an order of the layers, by the plain event simulation."""
    app, report = of.application, of.reports
    layers = len(app.layers)
    uses = np.asarray(report.chiplets.interface[row])
    occupied = np.asarray(report.chiplets.occupied[row])
    tiles, interfaces = len(uses), of.package.max_interfaces
    bandwidth = [of.package.interface_bandwidth] * interfaces + [of.package.link_bandwidth] * tiles
    done = simulate(
        np.asarray(report.duration[row])[:layers].tolist(),
        np.asarray(report.offchip_bytes[row])[:layers].tolist(),
        [layer.predecessors for layer in app.layers],
        np.asarray(of.designs.assignment[row])[:layers].tolist(),
        list(order),
        [[int(uses[t]), interfaces + t] if occupied[t] else [] for t in range(tiles)],
        bandwidth,
        number=float,
    )
    owner = np.asarray(app.network_of_layer)
    return np.asarray([max(np.asarray(done.end)[owner == n]) for n in range(len(app.networks))]) * 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "sizes"),
    [(0, (5, 4)), *(pytest.param(*more, marks=pytest.mark.slow) for more in ((1, (7, 3, 6)), (2, (2, 12))))],
)
def test_no_network_is_later_and_nothing_else_changes(seed, sizes):
    app = chains(seed, sizes)
    before = evaluated(app, seed)
    after, told = improved(before, 6)
    old, new = network_latencies(before), network_latencies(after)
    assert (new <= old).all() and (after.objectives[:, 0] <= before.objectives[:, 0]).all()
    for column in (1, 2):
        assert np.array_equal(after.objectives[:, column], before.objectives[:, column])
    for gene in ("assignment", "mapping", "template"):
        assert np.array_equal(getattr(after.designs, gene), getattr(before.designs, gene))
    changed = (after.designs.order != before.designs.order).any(axis=1)
    assert np.array_equal(changed, (new.sum(axis=1) < old.sum(axis=1)))
    assert 0 < changed.sum() <= told.changed
    total = len(app.layers)
    for order in np.asarray(after.designs.order):
        place = np.argsort(order)
        assert sorted(order) == list(range(len(order))) and (order[total:] >= total).all()
        assert all(place[p] < place[i] for i, layer in enumerate(app.layers) for p in layer.predecessors)
    for row in np.flatnonzero(changed)[:6]:
        plain = [ready_plainly(of, row, of.designs.order[row][:total]) for of in (before, after)]
        np.testing.assert_allclose(plain, [old[row], new[row]], rtol=1e-12)


@pytest.mark.slow
def test_rounds_only_gain_and_the_end_is_the_end():
    """Networks get earlier in each round, and a run that starts from the last result finds no further round."""
    before = evaluated(chains(4, (6, 5, 3)), 4)
    steps = list(orderings(before, 100))
    assert 1 < len(steps) < 100 and steps[-1].rounds == len(steps)
    sums = [network_latencies(reordered(before, step)).sum(axis=1) for step in steps]
    assert all((b <= a).all() for a, b in itertools.pairwise(sums))
    last = reordered(before, steps[-1])
    (again,) = orderings(last, 100)
    assert again.changed == 0 and again.evaluations == len(before) * (1 + 3 * 14)
    assert reordered(last, again) is last
    twice, told = improved(before, 100)
    assert told.counts == steps[-1].counts and np.array_equal(twice.designs.order, last.designs.order)


def interleaved(first, second):
    """All merged orders that keep the order of both lists."""
    places = range(len(first) + len(second))
    for own in itertools.combinations(places, len(first)):
        one, two = iter(first), iter(second)
        yield [next(one) if i in own else next(two) for i in places]


@pytest.mark.slow
def test_it_claims_nothing_that_brute_force_denies():
    """Two chains on one or two chiplets: all orders are tried in the plain simulation."""
    app = application([[], [0], [1]], [[], [0], [1]])
    before = evaluated(app, 5, 40, ONE_CHIP)
    after, _ = improved(before, 20)
    old, new = network_latencies(before), network_latencies(after)
    best, possible = 0, 0
    for row in range(len(before)):
        ways = np.asarray([ready_plainly(before, row, order) for order in interleaved([0, 1, 2], [3, 4, 5])])
        kept = ways[(ways <= old[row] * (1 + 1e-12)).all(axis=1)]
        assert np.isclose(kept, new[row], rtol=1e-12, atol=0).all(axis=1).any()
        least = kept.sum(axis=1).min()
        assert new[row].sum() >= least * (1 - 1e-12)
        if least < old[row].sum() * (1 - 1e-3):
            possible += 1
            best += new[row].sum() <= least * (1 + 1e-3)
    assert possible > 10 and best >= 0.9 * possible


@pytest.mark.slow
def test_what_delays_somebody_is_told_from_what_does_not():
    before = evaluated(chains(6, (5, 4)), 6, 8)
    after, told = improved(before, 6)
    changed = (after.designs.order != before.designs.order).any(axis=1)
    assert np.array_equal(delays_nobody(before, after), changed) and changed.any()
    assert not delays_nobody(after, before).any()
    # A worse order is not taken even if it is asked for.
    assert np.array_equal(
        reordered(after, dataclasses.replace(told, order=before.designs.order)).designs.order, after.designs.order
    )


@pytest.mark.slow
def test_one_network_has_nothing_to_wait_for():
    before = evaluated(chains(7, (6,)), 7, 4)
    assert list(orderings(before, 5)) == [] and list(orderings(evaluated(chains(0, (5, 4)), 0, 4), 0)) == []


def test_presets_of_papers_leave_orders_alone():
    assert {name: Settings.preset("small", preset=name).moham.end_orders > 0 for name in PRESETS} == {
        "default": True, "layers": False, "paper": False, "moham": False,
    }  # fmt: skip
    assert Settings.preset("tiny").moham.end_orders == 0  # it would simulate more schedules than the search has designs


@pytest.mark.slow
def test_a_search_ends_with_it():
    """The same search with and without reordering: nothing is worse, networks end earlier, and the record states it."""
    app = chains(3, (6, 5, 4))
    problem = mj.DesignProblem(app, templates=TEMPLATES, technology=TECHNOLOGY, package=NARROW)
    made = tables(app, 3, blocked=False)

    def searched(rounds):
        sizes = {"population": 32, "generations": 3, "seed_batches": 1, "front": 24}
        return mj.search(problem, made, budget="tiny", seed=1, end_orders=rounds, **sizes)

    without, with_it, again = searched(0), searched(4), searched(4)
    assert "ordering" not in without.config
    assert with_it.config["ordering"]["changed"] > 0 and with_it.timings["ordering_s"] > 0
    assert with_it.evaluations["ordering"] == with_it.config["ordering"]["evaluations"] > 0
    assert with_it.config["ordering"] == again.config["ordering"]
    assert np.array_equal(with_it.front.objectives, again.front.objectives)
    assert np.array_equal(with_it.front.designs.order, again.front.designs.order)
    assert len(front_index(with_it.front.objectives)) == len(with_it.front) == len(with_it.plans.template)
    better = (with_it.front.objectives[None] <= without.front.objectives[:, None]).all(axis=-1)
    assert better.any(axis=1).all()
    assert network_latencies(with_it.front).sum(axis=1).mean() < network_latencies(without.front).sum(axis=1).mean()
