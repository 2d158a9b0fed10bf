"""User-chosen measures as objectives of the co-optimiser: computed, bounded, searched, written, drawn, refused."""

import csv
import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import plain_fluid
import pytest
import yaml
from design_cases import (
    TECHNOLOGY,
    TEMPLATES,
    application,
    evaluation,
    random_designs,
    recast,
    space_of,
    tables,
    wires_of,
)
from every_design import every_design, in_batches, plain_front, search_for
from test_periods import PACKAGE, RATES, networks
from test_search_exact import CONFIG, ENTRIES, INSTANCES, TWO

from mohamjax import plot
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.io import front_csv, front_rows, write_front_files
from mohamjax.io.designs import designs_document
from mohamjax.io.results_reader import read_results
from mohamjax.mapper.config import MapperConfig
from mohamjax.page.charts import charts
from mohamjax.page.data import Result, contents
from mohamjax.problem import DesignProblem, Goals
from mohamjax.schedule import Evaluated, landmarks, network_latencies, non_dominated, report
from mohamjax.schedule.explain import shared_resources
from mohamjax.schedule.measures import DEFAULT, box_share, check_measures, kinds_of, measured, offsets
from mohamjax.schedule.periods import frame_jobs
from mohamjax.search import Settings
from mohamjax.search.config import MohamConfig, RemapConfig
from mohamjax.search.remap import Remapper
from mohamjax.search.resumed import search_marks

# ---------------------------------------------------------------- values


@pytest.fixture(scope="module")
def flying():
    """Designs of three networks, two of them with rates, evaluated with four periods in flight, in double precision."""
    problem = networks(RATES, deadline_s=3e-4)
    made = tables(problem, 0)
    designs = random_designs(problem, made, 0, 12, tiles=4)
    with jax.enable_x64(True):
        on = dataclasses.replace(
            evaluation(problem, made, PACKAGE), frames=jax.tree.map(jnp.asarray, frame_jobs(problem, 4))
        )
        found = jax.device_get(jax.jit(jax.vmap(lambda one: report(one, on)))(designs))
    return Evaluated(problem, TEMPLATES, TECHNOLOGY, PACKAGE, made, wires_of(problem, made), designs, found)


def test_frames_in_flight_are_copies_without_a_pause(flying):
    """Compared with the plain event simulation of all frames of eight periods, of which at most four are in flight."""
    problem = flying.application
    owner = np.asarray(problem.network_of_layer)
    link = PACKAGE.link_bandwidth
    # Rates are 4,000 and 10,000 per second: frame k of a network belongs to period floor(k * 4000 / rate).
    count = [8, 1, 20]
    copies = [(k / rate if k else 0.0, n, k) for n, rate in enumerate(RATES) for k in range(count[n])]
    for i in range(len(flying)):
        design, found = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], (flying.designs, flying.reports))
        place = {int(layer): p for p, layer in enumerate(design.order)}
        jobs = sorted(
            (r, place[layer], n, k, layer) for r, n, k in copies for layer in np.flatnonzero(owner == n).tolist()
        )
        number = {(n, k, layer): j for j, (_, _, n, k, layer) in enumerate(jobs)}
        period = [int(k * 4e3 / RATES[n] + 1e-9) if RATES[n] else -1 for _, _, n, k, _ in jobs]
        needs = [[number[n, k, p] for p in problem.layers[layer].predecessors] for _, _, n, k, layer in jobs]
        for own, q in zip(needs, period, strict=True):
            if not own and q >= 4:
                own += [j for j, other in enumerate(period) if other == q - 4]
        _, uses, bandwidth = shared_resources(PACKAGE, found.chiplets)
        plain = plain_fluid.simulate(
            [float(found.duration[layer]) for *_, layer in jobs],
            [float(found.offchip_bytes[layer]) for *_, layer in jobs],
            needs,
            [int(design.assignment[layer]) for *_, layer in jobs],
            list(range(len(jobs))),
            uses,
            bandwidth,
            number=float,
        )
        ends = [max(e for e, q in zip(plain.end, period, strict=True) if 0 <= q <= p) * 1e-9 for p in range(4)]
        # A mean period has one frame of the slow network and 2.5 of the fast one.
        part = [1 / 8, 0.0, 2.5 / 20]
        alone = [max(float(found.duration[x]), float(found.offchip_bytes[x]) / link) for *_, x in jobs]
        whole = sum(part[n] * alone[j] for j, (_, _, n, *_) in enumerate(jobs))
        seen = [j for j, q in enumerate(period) if 1 < q < 4]
        mean = whole / sum(alone[j] for j in seen)
        work, through = np.zeros(len(design.template)), np.zeros(len(bandwidth))
        for j, (_, _, n, _, layer) in enumerate(jobs):
            tile = int(design.assignment[layer])
            work[tile] += part[n] * alone[j] * 1e-9
            through[uses[tile]] += part[n] * float(found.offchip_bytes[layer]) * 1e-9
        wanted = max((ends[3] - ends[1]) * mean, work.max(), (through / np.asarray(bandwidth)).max())
        busy = sum(plain.end[j] - plain.start[j] for j in seen) * 1e-9 * mean
        chiplets = int((design.template >= 0).sum())
        assert found.in_flight.period == pytest.approx(wanted, rel=1e-9)
        assert found.in_flight.idle == pytest.approx(max(1 - busy / (wanted * chiplets), 0), abs=1e-9)
    assert len(set(flying.reports.in_flight.period.tolist())) > 6


@pytest.mark.slow
def test_a_network_alone_on_a_chiplet_has_the_period_of_its_work():
    """Frames do not overlap: the period is the latency, and nothing idles."""
    problem = application([[], [0]])
    made = tables(problem, 0, blocked=False)
    designs = random_designs(problem, made, 0, 3, tiles=1)
    with jax.enable_x64(True):
        on = evaluation(problem, made, PackageParameters(max_tiles=1))
        on = dataclasses.replace(on, frames=jax.tree.map(jnp.asarray, frame_jobs(problem, 4)))
        found = jax.device_get(jax.jit(jax.vmap(lambda one: report(one, on)))(designs))
    np.testing.assert_allclose(found.in_flight.period, found.objectives[:, 0], rtol=1e-9)
    np.testing.assert_allclose(found.in_flight.idle, 0, atol=1e-9)


EVERY = ("area", "latency:net1", "lateness", "missed", "weighted-latency", "period", "idle", "energy", "latency")


def test_measures_are_what_reports_say(flying):
    searched = dataclasses.replace(flying, measures=EVERY)
    reports, users = flying.reports, flying.reports.tenants
    wanted = {
        "latency:net1": network_latencies(flying)[:, 1], "lateness": users.worst_lateness, "missed": users.missed,
        "weighted-latency": users.weighted_latency, "period": reports.in_flight.period, "idle": reports.in_flight.idle,
        **dict(zip(DEFAULT, reports.objectives.T, strict=True)),
    }  # fmt: skip
    for name, column in zip(EVERY, searched.objectives.T, strict=True):
        np.testing.assert_array_equal(column, wanted[name], err_msg=name)
    np.testing.assert_array_equal(flying.objectives, reports.objectives)
    assert (searched.objectives + offsets(EVERY, flying.application) > 0).all()


@pytest.mark.slow
def test_what_cannot_run_has_no_measure():
    problem = networks(RATES, deadline_s=3e-4)
    made = tables(problem, 0)
    design = jax.tree.map(lambda leaf: leaf[0], random_designs(problem, made, 0, 1, tiles=4))
    design = dataclasses.replace(design, order=design.order[::-1].copy())
    on = dataclasses.replace(evaluation(problem, recast(made, np.float32), PACKAGE), frames=frame_jobs(problem, 4))
    network = np.asarray([-1, 1, -1, -1, -1, -1, -1, -1, -1])
    found = jax.jit(lambda one: measured(report(one, on), kinds_of(EVERY), network, on.network))(design)
    assert np.isinf(np.asarray(found)[[1, 2, 3, 4, 5, 6, 8]]).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("lateness", "energy"), "lateness, and no network has a deadline; give `deadline_s`"),
        (("missed", "energy"), "missed, and no network has a deadline"),
        (("weighted-latency", "energy"), "no network has a weight"),
        (("latency:net7", "energy"), "unknown network 'net7'"),
        (("latency:", "energy"), "unknown objective 'latency:'"),
        (("speed", "energy"), "unknown objective 'speed'"),
        (("energy",), "names 1, and a hypervolume takes two or three"),
        (("energy", "area", "latency", "period"), "names 4"),
        (("energy", "energy"), "twice"),
    ],
)
def test_objectives_that_networks_have_not_are_refused(names, wanted):
    problem = application([[], [0]], [[]])
    with pytest.raises(InputError, match="argument `objectives`.*" + wanted):
        Goals(names).check(problem)


def test_exponents_fit_the_objectives():
    problem = networks(RATES, deadline_s=3e-4)
    goals = Goals(("lateness", "energy"), objective="product")
    for weights, wanted in (((1, 1, 1), "are 3, there are 2"), ((1, 1), "lateness an exponent")):
        with pytest.raises(InputError, match=wanted):
            dataclasses.replace(goals, weights=weights).check(problem)
    for weight in (np.nan, np.inf, -1, "a", True, None):
        with pytest.raises(InputError, match=r"argument `weights`: hold .*; give finite exponents of 0 or more"):
            dataclasses.replace(goals, weights=(0, weight)).check(problem)
    with pytest.raises(InputError, match="argument `weights`: are all 0"):
        dataclasses.replace(goals, weights=(0, 0.0)).check(problem)
    dataclasses.replace(goals, weights=(0, 1)).check(problem)
    with pytest.raises(InputError, match="argument `weights`: is of the type str; give a tuple with an exponent"):
        dataclasses.replace(goals, weights="11").check(problem)
    with pytest.raises(InputError, match="objective is 'latency'; use front, product, lateness, energy"):
        MohamConfig(objectives=("lateness", "energy"), objective="latency")
    with pytest.raises(InputError, match="periods is 1"):
        MohamConfig(periods=1)


@pytest.mark.parametrize("objective", ["front", "latency"])
def test_settings_that_would_not_be_used_are_refused(objective):
    problem = networks(RATES)
    Goals(objective=objective, weights=(1.0, 1.0, 1.0)).check(problem)
    for weights, wanted in (
        ((1, 1, 0), "are for a product of the objectives; add the argument `objective=product`, or leave"),
        ("abc", "is of the type str"),
    ):
        with pytest.raises(InputError, match="argument `weights`: " + wanted):
            Goals(objective=objective, weights=weights).check(problem)
    with pytest.raises(InputError, match="argument `periods`: is for the objectives period and idle; leave it out"):
        Goals(objective=objective, periods=9).check(problem)
    Goals(("period", "energy"), periods=9).check(problem)


def mark(application, settings):
    return search_marks(DesignProblem(application, TEMPLATES, PACKAGE, TECHNOLOGY), settings)["fingerprint"]


def test_checkpoints_of_the_usual_objectives_do_not_depend_on_periods():
    problem = networks(RATES, deadline_s=3e-4)
    marks = [
        mark(problem, Settings(moham=MohamConfig(**changes)))
        for changes in ({}, {"periods": 6}, {"objectives": ("period", "energy")}, {"objectives": ("energy", "period")})
    ]
    assert marks[0] == marks[1] and len(set(marks)) == 3


def test_checkpoints_of_other_demands_are_of_another_search():
    """The layers are the same, but deadlines and rates decide objectives and limits."""
    asked = ((RATES, 3e-4), (RATES, 2e-4), (RATES[::-1], 3e-4), ((0.0,) * len(RATES), math.inf))
    marks = [mark(networks(rates, deadline_s=deadline), Settings()) for rates, deadline in asked]
    assert len(set(marks)) == len(asked)


def test_mapping_again_keeps_the_frames_in_flight(dated):
    """The problem after a remapping round has the same arrays of frames, so that the search uses the same program."""
    problem, package, made, _ = dated
    config = dataclasses.replace(CONFIG, generations=4)
    settings = Settings(mapper=MapperConfig(entries=6), remap=RemapConfig(every=2), moham=config)
    whole = DesignProblem(problem, TWO, package, TECHNOLOGY)
    remapper = Remapper(jax.random.key(0), whole.setup, settings, made)
    before = whole.space(jax.random.key(1), remapper.tables, Goals(("period", "energy")))
    assert before.evaluation.frames is not None
    remapper.rounds = 1
    after = remapper.space(before)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    np.testing.assert_array_equal(after.evaluation.frames.layer, before.evaluation.frames.layer)


# ---------------------------------------------------------------- the whole front, from ten seeds

LATE = ("lateness", "energy", "area")


@pytest.fixture(scope="module")
def dated():
    """A small instance with deadlines that some designs keep, its tables, and every design of it."""
    problem, package = next(iter(INSTANCES.values()))
    rates = {"frames_per_second": 1e4}, {"frames_per_second": 2e4, "deadline_s": 2e-5}
    problem = dataclasses.replace(
        problem,
        networks=tuple(
            dataclasses.replace(network, **{"deadline_s": 3e-5, **asked})
            for network, asked in zip(problem.networks, rates, strict=True)
        ),
    )
    made = recast(tables(problem, 1, entries=ENTRIES, templates=TWO, blocked=False, least=ENTRIES), np.float32)
    return problem, package, made, every_design(problem, np.asarray(made.count))


@pytest.mark.slow
@pytest.mark.parametrize(("names", "generations"), [(LATE, 275), (("period", "energy"), 100)])
def test_the_search_finds_the_front_over_any_objectives_from_ten_seeds(dated, names, generations):
    """Compared with an enumeration of all designs, with the default rates; the seeds are run as islands.

    Every seed must find the minimum of each objective, above all of lateness, and the whole front: thirty other seeds
    had found it after 150 generations of plans.
    """
    problem, package, made, designs = dated
    config = dataclasses.replace(CONFIG, objectives=names, generations=generations)
    assert (config.generations + 1) * (config.population + config.immigrant_count) < len(designs.template)
    space = space_of(problem, made, templates=TWO, package=package, goals=Goals(names))
    network, offset = space.measures.network, np.asarray(space.measures.offset, np.float64)

    def one(design):
        return measured(report(design, space.evaluation), kinds_of(names), network, space.evaluation.network)

    values = in_batches(one, designs).astype(np.float64)
    assert (values + offset <= np.asarray(space.reference)).all()
    assert (values + offset >= np.asarray(space.ideal) * (1 - 1e-6)).all()
    if names[0] == "lateness":
        assert 0.001 < (values[:, 0] <= 0).mean() < 0.9 and len(np.unique(values[:, 0])) > 100
    front = plain_front(values) + offset
    assert len(front) > 8
    _, progress = search_for(front, space, config)
    np.testing.assert_allclose(np.add(progress.best, offset), front.min(axis=0), rtol=1e-6)
    share = box_share(front, space.ideal, space.reference)
    assert progress.hypervolume[-1] == pytest.approx(share, rel=1e-4) and 0 < share < 1


# ---------------------------------------------------------------- fronts, files, figures, report


@pytest.mark.parametrize("names", [("lateness", "energy", "area"), ("period", "idle")])
def test_a_front_over_other_objectives_goes_through_files(flying, tmp_path, names):
    found = non_dominated(dataclasses.replace(flying, measures=names))
    values = dataclasses.replace(flying, measures=names).objectives
    np.testing.assert_array_equal(found.objectives, plain_front(values))
    columns = [next(c.column for c in [check_measures(names, flying.application)[m]]) for m in range(len(names))]
    config = {"scenario": "s", "budget": "tiny", "seed": 0, "search": {"objectives": list(names)}}
    config["offsets"] = found.offsets.tolist()
    history = [
        {"generation": 0, "evaluations": 9, "seconds": 0.1, "hypervolume": 0.5, "front_size": 1, "stability": 1.0}
    ]
    write_front_files(tmp_path, found, history, config)
    with (tmp_path / "front.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [[float(row[c]) for c in columns] for row in rows] == found.objectives.tolist()
    assert len(set(rows[0])) == len(rows[0]) and not (tmp_path / "bounds.json").exists()
    document = json.loads((tmp_path / "designs.json").read_text())
    assert document["objectives"] == columns and document["designs"][0][columns[0]] == found.objectives[0, 0]
    read = read_results(tmp_path)
    assert (read.measures, read.offsets) == (names, tuple(found.offsets.tolist())) and read.certificate is None
    np.testing.assert_array_equal(read.objectives, found.objectives)
    counts = [{k: v for k, v in row.items() if k.startswith("n_")} for row in front_rows(found)]
    assert repr([{k: row[k] for k in counts[0]} for row in read.front]) == repr(counts)  # integers, as evaluated
    for wrong in (["speed", "energy"], "lateness", [1, 2]):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({**config, "search": {"objectives": wrong}}))
        with pytest.raises(InputError, match=r"config.yaml: search.objectives"):
            read_results(tmp_path)
    for wrong in ([1.0], [-1.0] * len(names), "none"):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump({**config, "offsets": wrong}))
        with pytest.raises(InputError, match=r"config.yaml: offsets"):
            read_results(tmp_path)
    front = plot.front_of(found)
    figure = plot.front_projections(front, title="s")
    texts = [axes.get_xlabel() for axes in figure.axes]
    assert texts[0].startswith({"lateness": "worst lateness [", "period": "period ["}[names[0]])
    assert front.objectives.shape == (len(found), len(names))


def test_the_usual_files_say_what_was_searched(flying):
    assert designs_document(flying.take(np.arange(2)), "s")["objectives"] == ["latency_s", "energy_J", "area_mm2"]
    assert "period_s" not in front_csv(flying).splitlines()[0]


def test_landmarks_have_the_names_of_the_objectives():
    values = np.asarray([[-3e-3, 9.0, 4.0], [-2e-3, 5.0, 2.0], [4e-3, 1.0, 1.0], [-2.1e-3, 2.0, 1.1]])
    found = landmarks(values, ("lateness", "energy", "area"), (4e-3, 0.0, 0.0))
    assert found == {"most punctual": 0, "most frugal": 2, "smallest": 2, "knee": 3}


def test_reports_show_the_objectives_of_their_results(flying):
    def result(name, names):
        found = dataclasses.replace(flying, measures=names)
        columns = [kind.column for kind in check_measures(names, flying.application)]
        plain = zip(("latency_s", "energy_J", "area_mm2"), flying.reports.objectives.T, strict=True)
        every = {**dict(plain), **dict(zip(columns, found.objectives.T, strict=True))}
        rows = [{"design_id": str(i), **{k: float(v[i]) for k, v in every.items()}} for i in range(len(flying))]
        return Result(name, "s", "search", rows, measures=names, offsets=tuple(found.offsets))

    names = ("lateness", "period", "latency:net1")
    alone = contents([result("a", names)], most=3)["objectives"]
    assert [(o["column"], o["log"]) for o in alone] == [
        ("worst_lateness_s", False), ("period_s", True), ("latency_s_net1", True),
    ]  # fmt: skip
    mixed = contents([result("a", names), result("b", DEFAULT)], most=3)
    assert [o["column"] for o in mixed["objectives"]] == ["latency_s", "energy_J", "area_mm2"]
    spec = charts([{**alone[0], "column": "latency_s_a.b[1]"}, alone[1]])["front"]
    assert len(spec["concat"]) == 1 and {"objective_0_low", "objective_1_high"} <= {p["name"] for p in spec["params"]}
    x = spec["concat"][0]["layer"][1]["encoding"]["x"]
    assert x["field"] == "objective_0" and x["scale"]["type"] == "linear"
