"""As docs/extending.md says, an objective and a measure of a chiplet are one entry each."""

import json
import pathlib
import re

import numpy as np
import pytest

import mohamjax as mj
from mohamjax.io import write_front_files
from mohamjax.problem.requirements import requirements_from_dict
from mohamjax.schedule.chiplet_measures import CHIPLET_MEASURES, ChipletMeasure
from mohamjax.schedule.measures import MEASURES, Measure
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "extending.md"
SIZES = {"population": 32, "generations": 4, "chunk": 4}


@pytest.fixture
def entries(monkeypatch):
    """The two entries of the page, added to their tables."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    made = [eval(block, {"Measure": Measure, "ChipletMeasure": ChipletMeasure}) for block in blocks[1:]]
    objective, chiplet = made
    monkeypatch.setitem(MEASURES, objective.name, objective)
    monkeypatch.setitem(CHIPLET_MEASURES, chiplet.key, chiplet)
    return objective, chiplet


def problem(requirements=None):
    body = Layer("body", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0,))
    application = ApplicationModel("toy", (Network("net", (body, head)),))
    return mj.DesignProblem(application, ("simba", "shidiannao"), mj.Package(max_tiles=2), requirements=requirements)


@pytest.mark.slow
def test_an_objective_is_one_entry(entries):
    own = problem()
    front = mj.search(own, mj.sample_mappings(own, 8), "tiny", objectives=("edp", "area"), **SIZES).front
    plain = np.asarray(front.reports.objectives)
    np.testing.assert_allclose(front.objectives, np.stack([plain[:, 0] * plain[:, 1], plain[:, 2]], axis=1))
    assert len(front) > 1


@pytest.mark.slow
def test_a_measure_of_a_chiplet_is_one_entry(entries, tmp_path):
    free = problem()
    tables = mj.sample_mappings(free, 8)

    def largest(front):
        return np.max(np.asarray(entries[1].value(front.reports.chiplets)), axis=1)

    found = mj.search(free, tables, "tiny", **SIZES)
    before = largest(found.front)
    write_front_files(tmp_path, found.front, found.history, {**found.config, "inputs": {}})
    designs = json.loads((tmp_path / "designs.json").read_text())["designs"]
    stated = [max(chiplet["perimeter_mm"] for chiplet in design["chiplets"]) for design in designs]
    np.testing.assert_allclose(stated, before, rtol=1e-4)
    bound = float(np.median(before))
    limited = problem(requirements_from_dict({"limits": {"chiplet": {"perimeter_mm": bound}}}))
    after = largest(mj.search(limited, tables, "tiny", **SIZES).front)
    assert after.max() <= bound * (1 + 1e-9) < before.max()
