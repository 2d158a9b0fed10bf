"""Methods beside G#: reinforcement learning, and the optimisers of a library."""

import dataclasses
import importlib.util
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.jobs import JobGoals, JobSearchConfig, decode, evaluate, job_bound, run_method
from mohamjax.jobs.baselines import LIBRARY_METHODS
from mohamjax.jobs.reinforcement import LEARNING_METHODS, Steps, advantages, loss_of
from mohamjax.jobs.table import JobTable


def uneven(jobs=24, cores=4, seed=0):
    """Jobs that are fast on two of the accelerators and slow or impossible on the others."""
    rng = np.random.default_rng(seed)
    duration = rng.integers(50, 100, (jobs, cores)).astype(float)
    duration[:, 2] *= 30.0
    duration[::3, 3] = np.inf
    return JobTable(
        jobs=tuple(f"j{i}" for i in range(jobs)),
        accelerators=tuple(f"a{i}" for i in range(cores)),
        duration=duration,
        bytes=np.where(np.isfinite(duration), rng.exponential(30.0, (jobs, cores)), 0.0),
        energy=np.where(np.isfinite(duration), 1.0 + np.arange(cores), 0.0),
        predecessors=((),) * jobs,
        resources=("link",),
        bandwidth=(2.0,),
        resources_of_accelerator=((0,),) * cores,
    )


TABLE = uneven()
CONFIG = JobSearchConfig(population=16, generations=29, seed=1)


# ---------------------------------------------------------------- reinforcement learning


def test_advantages_against_sums_written_out():
    rng = np.random.default_rng(0)
    jobs, real, episodes = 8, 6, 3
    reward, value = rng.normal(size=episodes), rng.normal(size=(jobs, episodes))
    for settings in LEARNING_METHODS.values():
        found, target = advantages(jnp.asarray(reward), jnp.asarray(value), jnp.arange(jobs) < real, settings)
        gamma, trace = settings.discount, settings.trace
        for e in range(episodes):
            for t in range(real):
                errors = [
                    (reward[e] if s == real - 1 else gamma * value[s + 1, e]) - value[s, e] for s in range(t, real)
                ]
                wanted = sum((gamma * trace) ** k * error for k, error in enumerate(errors))
                assert float(found[t, e]) == pytest.approx(wanted, rel=1e-4, abs=1e-6)
                assert float(target[t, e]) == pytest.approx(wanted + value[t, e], rel=1e-4, abs=1e-6)
        assert np.all(np.asarray(found[real:]) == 0)
    # With trace 1 the target is the discounted return, whatever the critic says.
    plain = dataclasses.replace(LEARNING_METHODS["A2C"], trace=1.0)
    _, target = advantages(jnp.asarray(reward), jnp.asarray(value), jnp.arange(jobs) < real, plain)
    np.testing.assert_allclose(target[0], 0.99 ** (real - 1) * reward, rtol=1e-4)


def test_the_loss_raises_what_did_well_and_clipping_stops_it():
    """The only weight is the bias of the policy's last layer; one of two accelerators did well."""
    steps = Steps(
        seen=jnp.zeros((2, 1)),
        accelerator=jnp.asarray([0, 1]),
        priority=jnp.zeros(2, jnp.int32),
        log_probability=jnp.full(2, jnp.log(0.5 / 16)),
        value=jnp.zeros(2),
        able=jnp.ones((2, 2), bool),
    )

    def agent(bias):
        last = jnp.zeros(18).at[0].set(bias)
        return {"policy": [(jnp.zeros((1, 18)), last)], "critic": [(jnp.zeros((1, 1)), jnp.zeros(1))]}

    def slope(settings, bias):
        settings = dataclasses.replace(settings, entropy_weight=0.0)
        advantage, weight = jnp.asarray([1.0, -1.0]), jnp.ones(2, bool)
        loss = jax.jit(jax.grad(lambda b: loss_of(agent(b), steps, advantage, jnp.zeros(2), weight, settings)))
        return float(loss(bias))

    for settings in LEARNING_METHODS.values():
        assert slope(settings, 0.0) == pytest.approx(-0.5, rel=1e-5)  # d log p: 1/2 of the good, -1/2 of the bad one
    assert slope(LEARNING_METHODS["PPO"], 1.0) == 0.0  # both ratios are beyond 0.2 on the profitable side
    assert slope(LEARNING_METHODS["A2C"], 1.0) < 0


@pytest.mark.slow
@pytest.mark.parametrize(("method", "objective"), [("A2C", "energy"), ("PPO", "makespan")])
def test_learning_finds_better_schedules_than_as_many_random_ones(method, objective):
    config = dataclasses.replace(CONFIG, objectives=(objective,))
    found, again = (run_method(method, TABLE, config).best for _ in range(2))
    assert found.objectives == again.objectives
    assert found.evaluations == config.evaluations == found.history[-1][0]
    best = [value for _, value in found.history]
    assert len(best) == config.generations + 1 and best == sorted(best, reverse=True)
    assert found.objectives[objective] == pytest.approx(best[-1], rel=1e-5)
    assert job_bound(TABLE).best * (1 - 1e-9) <= found.objectives["makespan"]
    assert np.isfinite(TABLE.duration[np.arange(24), found.plan.accelerator]).all()
    problem = JobGoals().problem(TABLE)
    points = jax.random.uniform(jax.random.key(0), (config.evaluations, 48))
    random = jax.jit(lambda x: evaluate(decode(x, problem), problem, config.objectives))(points)
    assert found.objectives[objective] < float(random.min())


@pytest.mark.slow
def test_lateness_below_zero_is_learnt_like_the_makespan():
    """With one deadline for all jobs, late enough that all are early, lateness is the makespan less a constant."""
    deadline = 2.0**14
    goals = JobGoals(deadline=(deadline,) * len(TABLE.jobs))
    config = JobSearchConfig(population=16, generations=5, seed=4)
    makespan, lateness = (
        [value for _, value in run_method("A2C", TABLE, one, goals).best.history]
        for one in (config, dataclasses.replace(config, objectives=("lateness",)))
    )
    assert makespan[0] < deadline and makespan[-1] < makespan[1]
    np.testing.assert_allclose(np.add(lateness, deadline), makespan, rtol=1e-5)


# ---------------------------------------------------------------- nevergrad


@pytest.mark.slow
@pytest.mark.parametrize("method", LIBRARY_METHODS)
def test_optimisers_of_the_library(method):
    pytest.importorskip("nevergrad", reason="nevergrad (extra `baselines`) is not installed")
    config = JobSearchConfig(population=8, generations=5, seed=2)
    found = run_method(method, TABLE, config, JobGoals()).best
    assert found.evaluations == 48
    assert [n for n, _ in found.history] == [8, 16, 24, 32, 40, 48]
    best = [value for _, value in found.history]
    assert best == sorted(best, reverse=True)
    assert found.objectives["makespan"] == pytest.approx(best[-1], rel=1e-5)
    assert job_bound(TABLE).best * (1 - 1e-9) <= found.objectives["makespan"]
    assert found.objectives == run_method(method, TABLE, config, JobGoals()).best.objectives


@pytest.mark.slow
def test_the_first_points_of_cma_es_put_jobs_on_all_cores():
    """The library's own spread leaves the cores at the ends of the range idle (nevergrad 1.0.12)."""
    pytest.importorskip("nevergrad", reason="nevergrad (extra `baselines`) is not installed")
    duration = np.repeat(np.arange(1.0, 41.0)[:, None], 4, axis=1)
    table = dataclasses.replace(uneven(40), duration=duration, bytes=np.ones_like(duration), energy=None)
    even = duration[:, 0].sum() / 4
    found = run_method("CMA-ES-printed", table, JobSearchConfig(population=20, generations=9), JobGoals()).best
    assert found.objectives["makespan"] < 1.5 * even, "with two cores of four it is twice as long"


@pytest.mark.parametrize("method", LIBRARY_METHODS)
def test_without_the_library_one_line_says_what_to_do(method, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "nevergrad", None)
    assert importlib.util.find_spec("nevergrad") is None
    with pytest.raises(InputError, match=r"needs nevergrad.*pip install 'mohamjax\[baselines\]'"):
        run_method(method, TABLE, JobSearchConfig(population=8, generations=1))
    (tmp_path / "jobs.csv").write_text("type,K,C,P,Q,R,S\nFC,8,8,1,1,1,1\n")
    command = ["schedule", "--jobs", str(tmp_path / "jobs.csv"), "--platform", "S2", "--bandwidth", "1"]
    assert main([*command, "--method", f"HEFT,{method}"]) == 2
    error = capsys.readouterr().err
    assert "pip install" in error and error.count("\n") == 1


@pytest.mark.parametrize("method", [*LEARNING_METHODS, "DE"])
def test_one_objective_only(method, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(InputError, match="takes one objective"):
        run_method(method, TABLE, JobSearchConfig(objectives=("makespan", "energy")))
