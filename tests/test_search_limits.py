"""Numbers of chiplets, limits and packages at their ends: bounds, `within`, injected tiles, immigrants, products."""

import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mohamjax as mj
from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.problem.requirements import FixedChiplet, Requirements
from mohamjax.schedule.evaluation_arrays import package_arrays
from mohamjax.schedule.tenants import Tenants, tenant_report
from mohamjax.search.arrangements import arrangements
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

WORK = Layer("stem", "conv", "Conv", WorkloadShape(K=64, C=64, P=14, Q=14, R=3, S=3))
TENANTS = ApplicationModel("toy", tuple(Network(f"net{i}", (WORK,)) for i in range(8)))
PACKAGE = PackageParameters(interface_bandwidth=64, link_bandwidth=64)
SMALL = {"budget": "tiny", "seed": 0, "population": 16, "generations": 4}


def problem_of(requirements, package=PACKAGE):
    problem = mj.DesignProblem(TENANTS, templates=("simba",), package=package, requirements=requirements)
    return problem, mj.sample_mappings(problem, count=4, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "requirements", [Requirements(most=1), Requirements(chiplets=(FixedChiplet("simba", 0),), open=False)]
)
def test_bounds_and_within_are_for_the_chiplets_that_requirements_leave(requirements):
    """Eight equal networks on one chiplet take eight times as long as on eight, and the bound says so."""
    problem, tables = problem_of(requirements)
    assert problem.max_chiplets == 16 and problem.most_chiplets == 1
    found = mj.search(problem, tables, **SMALL, within=4)
    assert found.front.objectives[:, 0].max() <= 4 * found.bounds.latency_s * (1 + 1e-6)
    assert found.front.objectives[:, 0].min() == pytest.approx(found.bounds.latency_s, rel=0.02)
    assert found.certificate.share > 0.9
    with pytest.raises(InputError, match=r"out of reach over the mappings found: limits\.latency_s"):
        late = dataclasses.replace(requirements, limits=(found.bounds.latency_s / 3, math.inf, math.inf, math.inf))
        mj.search(problem.replace(requirements=late), tables, **SMALL)


@pytest.mark.slow
def test_a_limit_just_below_the_bound_waits_for_mapping_again():
    """Its mappings may lower the bound; what lies far below is refused before the generations."""
    problem, tables = problem_of(Requirements())
    least = mj.search(problem, tables, **SMALL).bounds.energy_J
    for share, told in ((0.95, "no design meets the requirements"), (0.5, "out of reach over the mappings found")):
        limited = problem.replace(requirements=Requirements(limits=(math.inf, share * least, math.inf, math.inf)))
        with pytest.raises(InputError, match=told):
            mj.search(limited, tables, **SMALL, every=2)


@pytest.mark.slow
def test_designs_of_a_larger_package_are_injected(tmp_path):
    """Their chiplets stand on tiles that the package lacks; only their order counts, so that they cost the same."""
    problem, tables = problem_of(Requirements(), dataclasses.replace(PACKAGE, max_tiles=32))
    result = mj.search(problem, tables, **SMALL)
    mj.write_results(tmp_path, result)
    document = json.loads((tmp_path / "designs.json").read_text())
    few = [design for design in document["designs"] if len(design["chiplets"]) <= 16]
    assert few and max(chiplet["tile"] for design in few for chiplet in design["chiplets"]) >= 16
    (tmp_path / "own.json").write_text(json.dumps(document | {"designs": few}))
    small, tables = problem_of(Requirements())
    front = mj.search(small, tables, **SMALL, designs=tmp_path / "own.json").front.objectives
    stated = [[design[name] for name in ("latency_s", "energy_J", "area_mm2")] for design in few]
    for row in np.asarray(stated):
        assert (front <= row * (1 + 1e-6)).all(axis=1).any(), "an injected design is lost"
    fixed = small.replace(requirements=Requirements(chiplets=(FixedChiplet("simba", 3),)))
    with pytest.raises(InputError, match="and the package has 16, with some of them fixed; give its chiplets tiles"):
        mj.search(fixed, tables, **SMALL, designs=tmp_path / "own.json")


@pytest.mark.slow
def test_more_immigrants_than_the_population_migrate():
    problem, tables = problem_of(Requirements())
    sizes = {**SMALL, "population": 8, "islands": 2, "migration": 2}
    assert len(mj.search(problem, tables, **sizes, immigrants=1.5).front)


def test_arrangements_of_large_packages_are_made_for_the_chiplets_at_hand():
    package = package_arrays(PackageParameters(max_tiles=256))
    tables = arrangements(package, 20)
    assert [table.place_group.shape[1] for table in tables] == [6, 9, 32]
    whole = arrangements(package_arrays(PackageParameters(max_tiles=16)), 3)
    assert [table.place_group.shape[1] for table in whole] == [6, 9, 16]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_full_archive_keeps_the_least_product(seed, log):
    """However crowded it is; the batches have one shape, so that one program serves all."""
    rng = np.random.default_rng(seed)
    exponents = np.asarray([1, 1, 0.5], np.float32)
    archive, least = emo.archive_init(8, np.int32(0), 3), np.inf
    for _ in range(4):
        batch = rng.dirichlet(np.full(3, 4.0), 30).astype(np.float32) + np.float32(0.01)
        archive = emo.archive_update(archive, np.zeros(30, np.int32), batch, log_crowding=log, exponents=exponents)
        least = min(least, float(np.min(np.log(batch) @ exponents)))
        kept = np.asarray(archive.objectives)[np.asarray(archive.valid)]
        assert np.min(np.log(kept) @ exponents) == pytest.approx(least, rel=1e-5)
    assert archive.thinned > 0


def test_lateness_tells_designs_apart_however_long_deadlines_are():
    ends = jnp.asarray(1e-4 * (1 + np.arange(50) / 1000), jnp.float32)[:, None]
    for deadline in (1e-3, 1.0, 1000.0):
        asked = Tenants(deadline=jnp.asarray([deadline, jnp.inf], jnp.float32), weight=jnp.asarray([0.5, 0.5]))
        told = [tenant_report(end, jnp.asarray([0]), asked) for end in ends]
        assert len({float(one.raised_lateness) for one in told}) == 50
        np.testing.assert_allclose([one.raised_lateness for one in told], ends[:, 0], rtol=1e-6)
    two = Tenants(deadline=jnp.asarray([2.0, 5.0], jnp.float32), weight=jnp.asarray([0.5, 0.5]))
    report = tenant_report(jnp.asarray([1.5, 4.75]), jnp.asarray([0, 1]), two)
    assert report.raised_lateness == 4.75 and report.worst_lateness == -0.25
