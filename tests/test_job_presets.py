"""G# and the standard genetic algorithm as published: succession, operators of the release, presets."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from test_job_baselines import TABLE

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.jobs import write_job_table
from mohamjax.jobs import PRESETS, JobGoals, JobRates, JobSearchConfig, Succession, job_bound, run_method
from mohamjax.jobs.analysis import job_layer
from mohamjax.jobs.generational import PRINTED, RELEASED, TEXTBOOK, draw_parents, succeed
from mohamjax.jobs.genetic import (
    PAPER_RATES,
    RELEASED_RATES,
    gsharp_problem,
    random_genes,
    released_problem,
    released_vary,
)
from mohamjax.jobs.job_problem import OBJECTIVES
from mohamjax.jobs.platform import JobBatch
from mohamjax.jobs.scheduler import GENETIC, search_islands
from mohamjax.runtime.struct import take

PROBLEM = JobGoals().problem(TABLE)
SIZE = 20
PUBLISHED = ("gsharp-printed", "gsharp-released", "standard-ga-printed")


@functools.cache
def population():
    """Random schedules `[SIZE, J]` and their makespans, all different."""
    genes = jax.vmap(lambda key: random_genes(key, PROBLEM))(jax.random.split(jax.random.key(0), SIZE))
    values = gsharp_problem(("makespan",)).evaluate(genes, PROBLEM)[:, 0]
    assert len(np.unique(values)) == SIZE
    return genes, values


def rows(genes):
    """Schedules as tuples, which can be compared."""
    flat = np.concatenate([np.asarray(genes.accelerator, float), np.asarray(genes.priority, float)], axis=1)
    return [tuple(row) for row in flat.tolist()]


# ---------------------------------------------------------------- succession


@pytest.mark.slow
@pytest.mark.parametrize("succession", [PRINTED, RELEASED, TEXTBOOK, Succession(0.2, 0.35, "even")])
def test_elites_live_on_and_parents_are_of_the_best(succession):
    """With an operator that returns its parents, a generation is the elites, then members of the pool of parents."""
    genes, values = population()
    same = dataclasses.replace(gsharp_problem(("makespan",)), vary=lambda key, a, b, problem, rates: (a, b))
    following = succeed(jax.random.key(1), genes, values, PROBLEM, PAPER_RATES, problem=same, succession=succession)
    assert following.accelerator.shape == (SIZE, 24)
    order = np.argsort(values)
    ranked = [rows(genes)[i] for i in order]
    elites, pool = round(succession.elites * SIZE), max(2, round(succession.parents * SIZE))
    assert rows(following)[:elites] == ranked[:elites]
    assert set(rows(following)[elites:]) <= set(ranked[:pool])
    # Roulette nearly always draws the better of two parents here, since it is so much shorter.
    assert len(set(rows(following)[elites:])) > 1 or succession.draw == "roulette"


@pytest.mark.slow
@pytest.mark.parametrize(("size", "elites"), [(2, 1), (10, 1), (20, 1), (100, 5)])
def test_the_best_of_a_population_live_on_however_small_it_is(size, elites):
    """With an operator whose children are all marked, what is not marked has survived."""
    genes = jax.tree.map(lambda leaf: leaf[jnp.arange(size) % SIZE], population()[0])
    values = population()[1][jnp.arange(size) % SIZE]

    def vary(key, a, b, problem, rates):
        return (dataclasses.replace(a, priority=a.priority - 2),) * 2

    marked = dataclasses.replace(gsharp_problem(("makespan",)), vary=vary)
    for succession, survivors in ((PRINTED, elites), (TEXTBOOK, 0)):
        found = succeed(jax.random.key(1), genes, values, PROBLEM, PAPER_RATES, problem=marked, succession=succession)
        assert np.flatnonzero(np.all(found.priority >= 0, axis=1)).tolist() == list(range(survivors))
        assert rows(found)[:survivors] == [rows(genes)[i] for i in np.argsort(values, kind="stable")[:survivors]]


def test_how_parents_are_drawn():
    """Frequencies of 40,000 draws against the probabilities of each way."""
    values = jnp.asarray([1.0, 2.0, 4.0, 9.0, 50.0, 60.0])
    number = 40_000

    def shares(succession):
        drawn = np.asarray(draw_parents(jax.random.key(2), values, succession, number))
        return np.bincount(drawn, minlength=6) / number

    np.testing.assert_allclose(shares(Succession(0, 4 / 6, "even")), [1 / 4] * 4 + [0, 0], atol=0.01)
    weights = np.asarray([9, 8, 6, 1])  # the longest of the parents minus its own, plus one
    np.testing.assert_allclose(shares(Succession(0, 4 / 6, "roulette")), [*(weights / 24), 0, 0], atol=0.01)
    twice = [(11 - 2 * k) / 36 for k in range(6)]  # the better of two
    np.testing.assert_allclose(shares(Succession(0, 1, "tournament")), twice, atol=0.01)


def test_roulette_adds_one_cycle():
    assert RELEASED.step == 1 and RELEASED.measured("makespan", "cycles") is RELEASED
    timed = [name for name in OBJECTIVES if RELEASED.measured(name, "s").step == 1e-9]
    assert timed == ["makespan", "edp", "tardiness", "mean-end", "lateness"]
    assert all(RELEASED.measured(name, "s") is RELEASED for name in ("energy", "unsatisfied", "missed"))
    assert PRINTED.measured("makespan", "s") is PRINTED and TEXTBOOK.measured("makespan", "s") is TEXTBOOK


@pytest.mark.parametrize("unit", ["cycles", "s"])
def test_searches_take_the_step_of_their_table(unit, monkeypatch):
    taken = []

    def search(*arguments, **options):
        taken.append(options["succession"].step)
        raise InterruptedError

    monkeypatch.setattr("mohamjax.jobs.scheduler.search_islands", search)
    with pytest.raises(InterruptedError):
        run_method("gsharp-released", dataclasses.replace(TABLE, time_unit=unit), config=JobSearchConfig())
    assert taken == [{"cycles": 1.0, "s": 1e-9}[unit]]


def searched(scale, succession, dtype=jnp.float32, generations=20):
    """Makespans [cycles] after each generation, and the best schedule, of a table whose unit of time is 1 / `scale`."""
    duration, bandwidth = TABLE.duration * scale, tuple(b / scale for b in TABLE.bandwidth)
    with jax.enable_x64(dtype == jnp.float64):
        problem = JobGoals().problem(dataclasses.replace(TABLE, duration=duration, bandwidth=bandwidth), dtype=dtype)
        archive, best = search_islands(
            jax.random.key(5),
            jax.tree.map(lambda leaf: leaf[None], problem),
            JobSearchConfig(population=30, generations=generations),
            rates=RELEASED_RATES,
            problem=released_problem(("makespan",)),
            succession=succession,
        )
        return np.asarray(best)[:, 0, 0] / scale, rows(take(archive.genes, 0))


@pytest.mark.slow
def test_a_released_search_does_not_depend_on_the_unit_of_time():
    """Bit for bit in a unit that loses nothing, a power of two, and up to rounding in seconds."""
    cycles, found = searched(1.0, RELEASED)
    scale = 2.0**-30
    other, same = searched(scale, dataclasses.replace(RELEASED, step=scale))
    np.testing.assert_array_equal(other, cycles)
    assert same == found
    assert not np.array_equal(searched(scale, RELEASED)[0], cycles)
    cycles, found = searched(1.0, RELEASED, jnp.float64)
    seconds, same = searched(1e-9, RELEASED.measured("makespan", "s"), jnp.float64)
    np.testing.assert_allclose(seconds, cycles, rtol=1e-12)
    assert same == found


def test_what_is_no_succession():
    with pytest.raises(ValueError, match="draw is 'best'"):
        Succession(draw="best")
    for elites, parents in ((1.0, 0.1), (-0.1, 0.1), (0.1, 0.0), (0.1, 1.1)):
        with pytest.raises(ValueError, match="no shares"):
            Succession(elites, parents)
    for step in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="step is"):
            Succession(step=step)


@pytest.mark.slow
@pytest.mark.parametrize("method", PUBLISHED)
def test_searches_as_published(method):
    config = JobSearchConfig(population=16, generations=29, seed=1)
    found, again = (run_method(method, TABLE, config).best for _ in range(2))
    assert found.objectives == again.objectives and found.evaluations == 480 == found.history[-1][0]
    best = [value for _, value in found.history]
    assert len(best) == 30 and best == sorted(best, reverse=True)
    assert found.objectives["makespan"] == pytest.approx(best[-1], rel=1e-5)
    assert job_bound(TABLE).best * (1 - 1e-9) <= found.objectives["makespan"] < best[0]
    assert np.isfinite(TABLE.duration[np.arange(24), found.plan.accelerator]).all()
    # A given schedule is in the first population.
    started = run_method(method, TABLE, config, given=[found.plan]).best
    assert started.history[0][1] <= best[-1] * (1 + 1e-6)


@pytest.mark.parametrize("method", PUBLISHED)
def test_they_take_one_objective(method):
    with pytest.raises(InputError, match=f"{method} takes one objective"):
        run_method(method, TABLE, JobSearchConfig(objectives=("makespan", "energy")))


# ---------------------------------------------------------------- the release's operators


def children(key, **rates):
    """Father, mother and their two children under some rates, the others being 0."""
    genes, _ = population()
    father, mother = (jax.tree.map(lambda leaf, i=i: leaf[i], genes) for i in (3, 4))
    none = {f.name: 0.0 for f in dataclasses.fields(JobRates)}
    pair = released_vary(jax.random.key(key), mother, father, PROBLEM, JobRates(**{**none, **rates}))
    return father, mother, *pair


def changed(a, b):
    """Jobs whose accelerators differ between two schedules, and those whose priorities do."""
    pairs = ((np.asarray(getattr(x, name)) for x in (a, b)) for name in ("accelerator", "priority"))
    return tuple(np.flatnonzero(one != two) for one, two in pairs)


@pytest.mark.slow
def test_the_releases_crossover_gen_changes_one_child():
    genomes = set()
    for key in range(12):
        father, mother, one, two = children(key, crossover_gen=1.0)
        assert all(len(part) == 0 for part in changed(two, mother))
        where, when = changed(one, father)
        assert not (len(where) and len(when))
        for name, part in (("accelerator", where), ("priority", when)):
            if len(part):
                genomes.add(name)
                pivot = part[0]
                assert np.array_equal(np.asarray(getattr(one, name))[pivot:], np.asarray(getattr(mother, name))[pivot:])
    assert genomes == {"accelerator", "priority"}


@pytest.mark.slow
def test_the_releases_crossover_rg_makes_equal_children():
    for key in range(6):
        father, mother, one, two = children(key, crossover_rg=1.0)
        assert all(len(part) == 0 for part in changed(one, two))
        behind = np.concatenate(changed(one, father))
        if len(behind):
            cut = behind.min()
            for name in ("accelerator", "priority"):
                assert np.array_equal(np.asarray(getattr(one, name))[cut:], np.asarray(getattr(mother, name))[cut:])


def test_the_releases_crossover_accel_hands_on_one_accelerator():
    father, mother, one, two = children(1, crossover_accel=1.0)
    assert all(len(part) == 0 for part in changed(two, mother))
    theirs, own = (np.asarray(x.accelerator) for x in (mother, one))
    when, now = (np.asarray(x.priority) for x in (mother, one))
    mine = [theirs == core for core in range(4)]
    handed = [core for core in range(4) if (own[mine[core]] == core).all() and (now == when)[mine[core]].all()]
    assert handed and any(len(part) for part in changed(one, father))


def test_nothing_happens_at_rates_of_zero():
    father, mother, one, two = children(0)
    assert all(len(part) == 0 for part in (*changed(one, father), *changed(two, mother)))


def test_rates_as_printed_and_as_released():
    printed, released, standard = (GENETIC[name] for name in PUBLISHED)
    rates = [(r.mutation, r.crossover_gen, r.crossover_rg, r.crossover_accel) for r in (printed.rates, released.rates)]
    assert rates == [(0.05, 0.9, 0.05, 0.05), (0.05, 0.9, 0.1, 0.1)] and released.rates is RELEASED_RATES
    assert (standard.rates.mutation, standard.rates.crossover_gen) == (0.1, 0.1)
    assert not printed.seeded and not released.seeded and not standard.seeded
    assert (PRINTED.elites, PRINTED.parents, RELEASED.draw, TEXTBOOK.elites) == (0.05, 0.1, "roulette", 0.0)


# ---------------------------------------------------------------- presets


def test_steps_of_recurrent_layers_keep_their_number_in_random_shapes():
    shape = {"K": 400, "C": 200, "P": 50}
    layers = tuple(job_layer(kind, shape) for kind in ("rnn", "conv")) * 20
    count = len(layers)
    batch = JobBatch(tuple(map(str, range(count))), layers, ("",) * count, (1.0,) * count, (np.inf,) * count,
                     tuple(range(count)))  # fmt: skip
    drawn = [layer.shape for layer in batch.reshaped(0.5, 3).layers]
    assert {one.P for one in drawn[::2]} == {50} and len({one.P for one in drawn[1::2]}) > 5
    assert len({one.K for one in drawn[::2]}) > 5 and len({one.C for one in drawn[::2]}) > 5


@pytest.mark.slow
def test_presets_on_the_command_line(tmp_path, capsys):
    command = ["schedule", "--sample", "12", "--pool", "mixed", "--platform", "S2", "--bandwidth", "4", "--json"]
    few = ["--population", "6", "--generations", "2", "--no-figures"]
    recorded, bounds = {}, {}
    for name, preset in PRESETS.items():
        assert main([*command, *few, "--preset", name, "--out", str(tmp_path / name)]) == 0
        said = json.loads(capsys.readouterr().out)
        assert {row["method"] for row in said["schedules"]} == set(preset.methods)
        recorded[name], bounds[name] = (
            yaml.safe_load((tmp_path / name / "config.yaml").read_text()),
            said["lower_bound"],
        )
        assert {key: recorded[name][key] for key in ("preset", "demand", "lb", "population", "generations")} == {
            "preset": name, "demand": preset.demand, "lb": preset.lb, "population": 6, "generations": 2,
        }  # fmt: skip
    assert bounds["gsharp"] != bounds["as-released"]
    # Options given beside a preset take effect.
    own = [
        "--demand",
        "compulsory",
        "--lb",
        "LB_rs",
        "--method",
        "HEFT",
        "--random-shapes",
        "0.5",
        "--element-buffer",
        "1024",
    ]
    assert main([*command, "--preset", "as-released", *own, "--no-figures", "--out", str(tmp_path / "own")]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in said["schedules"]] == ["HEFT"]
    assert all(name.endswith("1024 B") for name in said["accelerators"])
    told = yaml.safe_load((tmp_path / "own" / "config.yaml").read_text())
    assert (told["demand"], told["lb"], told["random_shapes"], told["element_buffer"]) == (
        "compulsory",
        "LB_rs",
        0.5,
        1024,
    )
    assert (told["population"], told["generations"]) == (100, 99)


def test_what_of_a_preset_does_not_count_is_said(tmp_path, capsys):
    write_job_table(tmp_path / "table.json", TABLE, [])
    (tmp_path / "own.yaml").write_text(
        yaml.safe_dump({"name": "own", "cores": [{"style": "HB", "rows": 8, "columns": 8}]})
    )
    one = ["--method", "HEFT", "--preset", "as-released"]
    assert main(["schedule", "--jobs", str(tmp_path / "table.json"), *one]) == 0
    told = "preset as-released: the demand as-released and the LB cores LB_os do not apply, the job table states both"
    assert told in capsys.readouterr().err
    drawn = ["schedule", "--sample", "4", "--pool", "mixed", "--bandwidth", "4", *one]
    assert main([*drawn, "--platform", str(tmp_path / "own.yaml")]) == 0
    said = capsys.readouterr().err
    assert "preset as-released: the LB cores LB_os do not apply, the platform states its own cores" in said
    assert main([*drawn, "--platform", "S2"]) == 0
    assert "do not apply" not in capsys.readouterr().err


@pytest.mark.slow
def test_presets_in_python(tmp_path):
    found = mj.schedule_jobs(TABLE, preset="as-released", population=4, generations=1)
    assert found.method == "gsharp-released" and found.best.evaluations == 8
    assert mj.schedule_jobs(TABLE, "HEFT", preset="gsharp").method == "HEFT"
    assert mj.schedule_jobs(TABLE, population=4, generations=1).method == "gsharp"
    write_job_table(tmp_path / "table.json", TABLE, [])
    with pytest.raises(InputError, match="unknown preset 'magma'; name one of gsharp, as-released"):
        mj.schedule_jobs(tmp_path / "table.json", preset="magma")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "magma"], "--preset: unknown preset 'magma'; name one of gsharp, as-released"),
        (["--element-buffer", "5"], "'5' is not a number of bytes from 6 on"),
        (["--random-shapes", "1"], "'1' is not a share between 0 and 1"),
        (["--preset", "gsharp", "--objective", "makespan,energy"], "gsharp-printed takes one objective"),
        (["--preset", "gsharp", "--method", "HEFT", "--population", "9"], "is for methods that search"),
    ],
)
def test_bad_input_is_one_line(words, said, capsys):
    command = ["schedule", "--sample", "8", "--pool", "mixed", "--platform", "S2", "--bandwidth", "4"]
    try:
        code = main([*command, *words])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert said in capsys.readouterr().err
