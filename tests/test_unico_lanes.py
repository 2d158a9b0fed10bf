"""Resumable mapping searches for many hardware points: prefixes, independence, sums, robustness, and brackets."""

import functools

import jax
import numpy as np
import pytest
from conftest import workloads
from small_codesign import GENERATIONS, SPACE, TECHNOLOGY, application, lanes, problem

from mohamjax.hardware import PackageParameters, template_arrays
from mohamjax.mapping import Counting, evaluate_batch, layer_arrays, offchip_bytes
from mohamjax.mapping.space import respects
from mohamjax.runtime.struct import take
from mohamjax.unico import bracket as bracket_module
from mohamjax.unico import lanes as lanes_module
from mohamjax.unico.bracket import measured, run_bracket
from mohamjax.unico.halving import Bracket
from mohamjax.unico.lanes import lane_problem
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.robustness import robustness_between, tail_rank
from mohamjax.workload import load_scenario

INDEX = np.asarray([1500, 3, 700, 81, 1111, 333, 1727, 42])
BRACKET = Bracket(lanes=8, first=2, rounds=4)


def equal(a, b):
    return all(
        np.array_equal(x, y, equal_nan=True) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def latency_score(searched):
    latency, power = searched.curves()
    return latency * power


@pytest.fixture(scope="module")
def search():
    return lanes()


@pytest.fixture(scope="module")
def full(search):
    """All points with their full budget."""
    return search.advance(search.begin(INDEX), GENERATIONS)


@pytest.fixture(scope="module")
def bracket(search):
    return run_bracket(search, INDEX, BRACKET, latency_score)


@pytest.mark.slow
def test_what_is_stopped_and_resumed_is_the_same(search, full):
    part = search.begin(INDEX[:3])
    for generations in (1, 4, 0, 11):
        part = search.advance(part, generations)
    assert equal(part.state, take(full.state, np.arange(3)))


@pytest.mark.slow
def test_a_lane_does_not_depend_on_its_company(search, full):
    alone = search.advance(search.begin(INDEX[5:6]), GENERATIONS)
    assert equal(alone.state, take(full.state, np.asarray([5])))
    other = search.advance(search.begin(INDEX[[6, 2]]), GENERATIONS)
    assert equal(other.state, take(full.state, np.asarray([6, 2])))


@pytest.mark.slow
def test_curves_of_a_bracket_are_prefixes(bracket, full):
    whole, trace = bracket
    assert [len(alive) for alive in trace.alive] == [step.alive for step in BRACKET.plan]
    assert trace.budget == (2, 4, 8, 16)
    stops = np.asarray(whole.state.generation)
    assert sorted(stops) == [2, 2, 2, 2, 4, 4, 8, 16]
    for i, stop in enumerate(stops):
        for name in ("latency", "energy"):
            ours, whole_curve = (np.asarray(getattr(x.state, name))[i] for x in (whole, full))
            assert np.array_equal(ours[:stop], whole_curve[:stop])
            assert np.isinf(ours[stop:]).all()
    champion = int(np.argmax(stops))
    assert equal(take(whole.state, np.asarray([champion])), take(full.state, np.asarray([champion])))


@pytest.mark.slow
def test_a_bracket_keeps_the_best(bracket):
    whole, trace = bracket
    first = np.asarray(latency_score(whole))[:, BRACKET.plan[0].budget - 1]
    k, p = BRACKET.plan[0].survivors, BRACKET.plan[0].by_area
    best = set(np.argsort(first)[: k - p].tolist())
    assert best <= set(trace.alive[1])


@pytest.mark.slow
def test_evaluations_are_counted(search):
    before = search.evaluations
    run_bracket(search, INDEX, BRACKET, latency_score)
    assert search.evaluations - before == BRACKET.cost * 16 * len(application().unique_layers)


@pytest.mark.slow
def test_what_is_minimised_never_rises(full):
    latency, spent = np.asarray(full.state.latency, float), np.asarray(full.state.energy, float)
    assert (np.diff(latency * spent, axis=1) <= 1e-6 * (latency * spent)[:, :-1]).all()
    assert (latency[:, -1] * spent[:, -1] < latency[:, 0] * spent[:, 0]).all()


@pytest.mark.slow
def test_other_keys_give_other_mappings(full):
    other = lanes(seed=1)
    again = other.advance(other.begin(INDEX[:2]), 2)
    assert not np.array_equal(np.asarray(again.state.latency)[:, :2], np.asarray(full.state.latency)[:2, :2])


@pytest.mark.slow
def test_mappings_keep_the_constraints(full):
    genes, spaces = full.state.network.genes, full.points.spaces
    assert np.asarray(jax.jit(jax.vmap(jax.vmap(respects)))(genes, spaces)).all()


@pytest.mark.slow
def test_results_are_those_of_the_cost_model(search, full):
    """Latency, energy and power are recomputed from the loop nests on templates of these sizes; layers repeat."""
    found = measured(full, search.config)
    nests = search.mappings(INDEX[:2], jax.tree.map(lambda leaf: leaf[:2], found.genes))
    app, package = application(), PackageParameters()
    costs = jax.jit(functools.partial(evaluate_batch, own_fanout=True, counting=Counting(wires=False, max_children=0)))
    for h in range(2):
        machine = template_arrays([SPACE.instance(SPACE.digits(INDEX[h : h + 1])[0])], TECHNOLOGY)
        machine = jax.tree.map(lambda leaf: leaf[0], machine).machine
        latency = energy = 0.0
        for u, layer in enumerate(app.unique_layers):
            times = app.unique_of_layer.count(u)
            own = jax.tree.map(lambda leaf, h=h, u=u: leaf[h, u : u + 1], nests)
            one = costs(layer_arrays(layer.shape), own, machine)
            assert int(one.reason[0]) == 0
            moved = jax.tree.map(lambda x: np.asarray(x)[0], one.counts)
            traffic = float(offchip_bytes(moved, machine))
            latency += times * max(float(one.cycles.onchip[0]), traffic / package.interface_bandwidth)
            energy += times * (float(one.energy.total[0]) + traffic * 8 * package.hop_energy)
        assert found.latency_s[h] == pytest.approx(latency * 1e-9, rel=1e-5)
        assert found.energy_J[h] == pytest.approx(energy * 1e-12, rel=1e-5)
        leakage = 0.01 * found.area_mm2[h]
        assert found.power_W[h] == pytest.approx(energy / latency * 1e-3 + leakage, rel=1e-5)


@pytest.mark.slow
def test_robustness_is_that_of_the_samples(search, full):
    found = measured(full, search.config)
    tail = full.state.tail
    assert (found.samples == 16 * GENERATIONS).all()
    rank = tail_rank(16 * GENERATIONS)
    assert tail.latency.shape == (len(INDEX), rank + 1)
    best, edge = ((tail.latency[:, r].astype(float), tail.power[:, r].astype(float)) for r in (0, rank))
    np.testing.assert_allclose(found.robustness, robustness_between(best, edge).value, rtol=2e-4, atol=1e-6)
    # The fastest sample takes at most twice the latency of the incumbent.
    assert (tail.latency[:, 0] * 1e-9 <= 2 * found.latency_s).all()


def test_one_program_per_size(search):
    from mohamjax.unico.lanes import advance

    run_bracket(search, INDEX, BRACKET, latency_score)
    before = advance._cache_size()
    run_bracket(search, INDEX[::-1], BRACKET, latency_score)
    search.advance(search.begin(INDEX[:5]), 3)
    assert advance._cache_size() == before


def test_a_large_bracket_runs_what_its_plan_says(search, monkeypatch):
    """32 points in 5 rounds: generations that were really run are counted, and are under a third of a full run."""
    plan, ran = Bracket(lanes=32, first=1, rounds=5), []

    def counted(points, state, networks, count, **static):
        ran.append(len(state.generation) * int(count))
        return lanes_module.advance(points, state, networks, count, **static)

    monkeypatch.setattr(bracket_module, "advance", counted)
    programs = lanes_module.advance._cache_size()
    whole, _ = run_bracket(search, np.arange(32) * 53, plan, latency_score)
    assert sum(ran) == plan.cost == 96
    assert plan.full_cost == 512 and 3 * plan.cost < plan.full_cost
    assert lanes_module.advance._cache_size() <= programs + 1  # none but the first round compiles
    assert sorted(whole.state.generation.tolist()) == [1] * 16 + [2] * 8 + [4] * 4 + [8] * 2 + [16] * 2


def test_the_bracket_of_resnet50():
    """The bracket that the experiment times: all 24 unique layers are lanes of every point."""
    app = load_scenario(workloads("resnet50.onnx"))
    plan = Bracket(lanes=32, first=4, rounds=5)
    made = lane_problem(CodesignProblem(app, SPACE, TECHNOLOGY))
    assert len(app.unique_layers) == 24
    assert made.networks.repeat.shape == (8 * -(-len(app.unique_layers) // 8),)
    assert float(made.networks.repeat.sum()) == len(app.layers) == 54
    assert plan.cost / plan.full_cost == pytest.approx(384 / 2048)


def test_padding_is_not_read():
    layers = problem().networks.repeat
    assert layers.shape == (8,)
    assert np.asarray(layers).tolist() == [2, 1, 1, 1, 0, 0, 0, 0]


def test_a_bracket_of_another_size_is_refused(search):
    with pytest.raises(ValueError, match="the bracket is of 8 points, got 3"):
        run_bracket(search, INDEX[:3], BRACKET, latency_score)
