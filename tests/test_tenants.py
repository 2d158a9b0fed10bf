"""Deadlines, frame rates and weights of networks: read, kept in every format, measured, limited; also for G#."""

import dataclasses
import json
import math

import fuzz_documents
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from design_cases import TECHNOLOGY, TEMPLATES, application, evaluation, random_designs, reports, tables, wires_of

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, load_technology
from mohamjax.io import front_csv, read_designs
from mohamjax.io.designs import designs_document
from mohamjax.io.job_tables import read_job_table
from mohamjax.io.jobs import job_table_document
from mohamjax.jobs import JobGoals, JobSearchConfig, check_goals, evaluate_plans
from mohamjax.jobs.heuristics import Plan
from mohamjax.jobs.platform import batch_of_layers
from mohamjax.jobs.table import JobTable
from mohamjax.problem import Requirements
from mohamjax.problem.requirements import requirements_from_dict
from mohamjax.problem.resolved import Demand, Reached, demands, keeps, resolve
from mohamjax.schedule import Evaluated, network_latencies
from mohamjax.schedule.tenants import Tenants, tenant_excess, tenant_report, tenants_of
from mohamjax.workload import Network, load_scenario


def asking(problem, *wishes):
    """The application model with these requirements of its networks."""
    networks = [dataclasses.replace(n, **w) for n, w in zip(problem.networks, wishes, strict=True)]
    return dataclasses.replace(problem, networks=tuple(networks))


# ---------------------------------------------------------------- files


def scenario(tmp_path, **keys):
    for name, model in fuzz_documents.BEHIND.items():
        (tmp_path / name).write_bytes(model.SerializeToString())
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({"networks": [{"file": next(iter(fuzz_documents.BEHIND)), **keys}]}))
    return path


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, (math.inf, 0.0, 1.0)),
        ({"deadline_s": 0.02, "weight": 3}, (0.02, 0.0, 3.0)),
        ({"frames_per_second": 50}, (0.02, 50.0, 1.0)),
        ({"frames_per_second": 50, "deadline_s": 0.05}, (0.05, 50.0, 1.0)),
    ],
)
def test_scenarios_say_what_users_ask_for(tmp_path, keys, wanted):
    (network,) = load_scenario(scenario(tmp_path, **keys)).networks
    assert (network.deadline_s, network.frames_per_second, network.weight) == wanted


@pytest.mark.parametrize("keys", [{"deadline_s": 0}, {"frames_per_second": -1}, {"weight": 0}, {"deadline_s": "soon"}])
def test_what_nobody_can_ask_for_is_refused(tmp_path, keys):
    with pytest.raises(InputError, match=rf"networks\[0\].{next(iter(keys))}"):
        load_scenario(scenario(tmp_path, **keys))
    if "soon" not in keys.values():
        with pytest.raises(ValueError, match="network n"):
            Network("n", (), **keys)


def found_for(problem, made, designs):
    package = PackageParameters(max_tiles=4)
    with jax.enable_x64(True):
        found = reports(designs, evaluation(problem, made, package))
    return Evaluated(problem, TEMPLATES, TECHNOLOGY, package, made, wires_of(problem, made), designs, found)


@pytest.fixture(scope="module")
def evaluated():
    """Designs of three networks; the first two have deadlines that some designs keep."""
    problem = application([[], [0]], [[], []], [[]])
    made = tables(problem, 0)
    designs = random_designs(problem, made, 0, 24, tiles=4)
    free = found_for(asking(problem, {"weight": 3.0}, {}, {}), made, designs)
    first, second, _ = np.median(network_latencies(free), axis=0).tolist()
    asked = {"deadline_s": first, "weight": 3.0}, {"deadline_s": second, "frames_per_second": 7.0}, {}
    found = found_for(asking(problem, *asked), made, designs)
    np.testing.assert_array_equal(found.objectives, free.objectives)
    return found


def test_designs_say_what_users_get(evaluated):
    """Compared with a plain computation from the ends of the networks."""
    latency = network_latencies(evaluated)
    users = evaluated.reports.tenants
    deadline = np.asarray([n.deadline_s for n in evaluated.application.networks])
    np.testing.assert_array_equal(users.latency, latency)
    np.testing.assert_allclose(users.worst_lateness, (latency - deadline)[:, :2].max(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(users.missed, (latency > deadline).sum(axis=1))
    assert set(users.missed.tolist()) == {0, 1, 2}
    np.testing.assert_allclose(users.weighted_latency, latency @ np.asarray([3, 1, 1]) / 5, rtol=1e-12)


def test_files_of_designs_keep_it(evaluated, tmp_path):
    head, *rows = front_csv(evaluated).splitlines()
    assert head.endswith("worst_lateness_s,missed_deadlines,weighted_latency_s") and len(rows) == 24
    document = json.loads(json.dumps(designs_document(evaluated, "s"), allow_nan=False))
    assert document["networks"][1]["frames_per_second"] == 7.0
    assert set(document["networks"][2]) == {"name", "source"}
    sound = fuzz_documents.designs()
    asked = ({"deadline_s": 0.5, "weight": 2.0}, {"frames_per_second": 30.0})
    sound["networks"] = [{"name": name, **keys} for name, keys in zip("ab", asked, strict=True)]
    path = tmp_path / "designs.json"
    path.write_text(json.dumps(sound))
    file = read_designs(path, technology=load_technology())
    assert tuple(network.asked for network in file.application.networks) == asked
    sound["networks"][0]["deadline_s"] = -1
    path.write_text(json.dumps(sound))
    with pytest.raises(InputError, match=r"networks\[0\].deadline_s"):
        read_designs(path, technology=load_technology())


def test_silent_users_change_nothing():
    problem = application([[], [0]], [[]])
    assert tenants_of(problem) is None
    assert tenants_of(asking(problem, {"weight": 2.0}, {})) is not None


# ---------------------------------------------------------------- limits


LIMITED = {"worst_lateness_s": 0, "missed_deadlines": 1, "weighted_latency_s": 0.25}


def test_requirements_hold_limits_on_what_users_get():
    read = requirements_from_dict({"limits": {"area_mm2": 9, **LIMITED}})
    assert read.tenant_limits == (0, 1, 0.25) and read.limits[2] == 9
    assert requirements_from_dict(read.to_dict()) == read
    assert Requirements().to_dict() == {"format": "requirements/1"}
    for key, value in (("missed_deadlines", 0.5), ("worst_lateness_s", -1), ("weighted_latency_s", 0)):
        with pytest.raises(InputError, match=f"limits.{key}"):
            requirements_from_dict({"limits": {key: value}})


@pytest.mark.parametrize("key", LIMITED)
def test_limits_on_what_nobody_asks_for_are_refused(key):
    read = requirements_from_dict({"limits": {key: LIMITED[key]}})
    with pytest.raises(InputError, match=f"limits.{key}"):
        resolve(read, application([[]]), TEMPLATES, 4, 4)


def test_designs_that_break_limits_are_told_apart(evaluated):
    users, count = evaluated.reports.tenants, len(evaluated)
    template = np.asarray(evaluated.designs.template)
    weighted = float(np.median(users.weighted_latency))
    for limits in ({"missed_deadlines": 1}, {"worst_lateness_s": 0}, {"weighted_latency_s": weighted}):
        resolved = resolve(requirements_from_dict({"limits": limits}), evaluated.application, TEMPLATES, 4, 4)
        kept = keeps(resolved, Reached(evaluated.objectives, template, users))
        got = {"missed_deadlines": users.missed, "worst_lateness_s": users.worst_lateness}
        ((name, limit),) = limits.items()
        np.testing.assert_array_equal(kept, got.get(name, users.weighted_latency) <= limit)
        assert 0 < kept.sum() < count
        assert demands(resolved, Reached(evaluated.objectives, template, users))[0].key == f"limits.{name}"


def test_the_excess_is_nothing_exactly_where_a_limit_is_kept():
    rng = np.random.default_rng(0)
    network = np.asarray([0, 0, 1, 2, 2, 3, -1, -1], np.int32)
    with jax.enable_x64(True):
        for _ in range(50):
            deadline = np.where(rng.random(4) < 0.25, np.inf, rng.uniform(0.5, 2, 4))
            weight = rng.uniform(0.1, 3, 4)
            users = Tenants(deadline=jax.numpy.asarray(deadline), weight=jax.numpy.asarray(weight / weight.sum()))
            end = np.append(rng.uniform(0.2, 2.2, 6), [9.0, 9.0])
            found = tenant_report(jax.numpy.asarray(end), jax.numpy.asarray(network), users)
            limits = np.asarray([rng.uniform(0, 1), rng.integers(0, 4), rng.uniform(0.5, 2)])
            excess = np.asarray(tenant_excess(found, users, jax.numpy.asarray(limits), 0.0))
            latency = np.asarray([end[network == n].max() for n in range(4)])
            assert (excess[0] == 0) == ((latency - deadline).max() <= limits[0])
            assert (excess[1] == 0) == ((latency > deadline).sum() <= limits[1])
            assert (excess[2] == 0) == (latency @ weight / weight.sum() <= limits[2])
            assert (excess >= 0).all()


def test_a_schedule_that_never_ends_exceeds_limits_without_bound_and_is_never_nan():
    users = Tenants(deadline=jnp.asarray([jnp.inf, 1.0]), weight=jnp.asarray([0.5, 0.5]))
    for end, want in (([jnp.inf, jnp.inf], [jnp.inf] * 3), ([jnp.inf, 0.5], [0, 0, jnp.inf])):
        found = tenant_report(jnp.asarray(end), jnp.asarray([0, 1]), users)
        np.testing.assert_array_equal(tenant_excess(found, users, jnp.asarray([0.0, 0.0, 1.0]), 0.0), want)
        np.testing.assert_array_equal(tenant_excess(found, users, jnp.full(3, jnp.inf), 0.0), [0, 0, 0])


def test_a_design_that_never_ends_is_not_the_nearest_to_a_limit():
    for name in ("worst_lateness_s", "missed_deadlines", "weighted_latency_s"):
        demand = Demand(f"limits.{name}", np.asarray([np.inf, 3.0, 1.0]), 2.0, upper=True)
        assert demand.excess[0] == np.inf and demand.excess[1:].tolist() == pytest.approx([1.0, 0.0])


# ---------------------------------------------------------------- G#


def job_table(**wishes):
    return JobTable(
        jobs=("a", "b", "c"),
        accelerators=("x", "y"),
        duration=np.asarray([[2.0, 2], [5, 5], [4, 4]]),
        bytes=np.zeros((3, 2)),
        energy=None,
        predecessors=((), (), ()),
        resources=("memory",),
        bandwidth=(1.0,),
        resources_of_accelerator=((0,), (0,)),
        **wishes,
    )


WISHES = {
    "tenants": ("camera", "", "camera"),
    "weight": (1.0, 2.0, 1.0),
    "deadline": (1.0, 3.0, math.inf),
    "target": (2, 1, 0),
}


def test_job_tables_keep_what_tenants_want():
    for wishes in ({}, WISHES, {"deadline": WISHES["deadline"]}):
        document = json.loads(json.dumps(job_table_document(job_table(**wishes), []), allow_nan=False))
        read = read_job_table(document, "file")
        assert {k: getattr(read, k) for k in WISHES if getattr(read, k) is not None} == wishes
    document = job_table_document(job_table(**WISHES), [])
    for key, value in (("target", 1), ("deadline", -1), ("weight", "much")):
        broken = json.loads(json.dumps(document))
        broken["jobs"][0][key] = value
        with pytest.raises(InputError, match=key):
            read_job_table(broken, "file")


def test_goals_are_those_of_the_table():
    plan = Plan(np.asarray([0, 1, 0]), np.asarray([0, 1, 2]))  # ends 2, 5, 6
    (found,) = evaluate_plans(job_table(**WISHES), [plan])
    assert (found["tardiness"], found["lateness"], found["missed"]) == (1 + 2 * 2, 2, 2)
    (other,) = evaluate_plans(job_table(**WISHES), [plan], JobGoals(deadline=(4.0, 9.0, 9.0)))
    assert (other["lateness"], other["missed"], other["mean-end"]) == (-2, 0, found["mean-end"])
    (silent,) = evaluate_plans(job_table(), [plan])
    assert (silent["lateness"], silent["missed"]) == (0, 0)
    for name in ("tardiness", "lateness", "missed"):
        config = JobSearchConfig(objectives=(name,))
        check_goals(config, JobGoals().of(job_table(**WISHES)))
        with pytest.raises(InputError, match="deadline"):
            check_goals(config, JobGoals().of(job_table()))


def test_jobs_of_networks_want_what_the_networks_want():
    problem = asking(application([[], [0]], [[]]), {"deadline_s": 2e-6, "weight": 2.0}, {})
    batch = batch_of_layers(problem)
    assert batch.weight == (2.0, 2.0, 1.0) and batch.deadline == pytest.approx((2000.0, 2000.0, math.inf))
