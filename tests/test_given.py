"""Python takes what the command line takes: paths in place of files, and only numbers that a file may have."""

import dataclasses
import math

import jax
import numpy as np
import pytest
import yaml
from test_extending import problem as small_problem
from workload_models import info, model, node, save, weight

import mohamjax as mj
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, load_technology, load_templates, template_to_dict
from mohamjax.hardware.template import Component, Level, Mac
from mohamjax.jobs.config import JobGoals, JobSearchConfig
from mohamjax.mapper.config import MapperConfig
from mohamjax.problem.requirements import Requirements
from mohamjax.search.config import MohamConfig, RemapConfig, Settings
from mohamjax.search.search import Search
from mohamjax.unico.config import CodesignConfig
from mohamjax.workload import Layer, Network, WorkloadShape

MADE = [
    PackageParameters(),
    MapperConfig(),
    MohamConfig(),
    RemapConfig(),
    Settings(),
    CodesignConfig(),
    JobSearchConfig(),
    Network("n", (Layer("a", "fc", "Gemm", WorkloadShape(K=3)),)),
    WorkloadShape(K=3),
    Mac(energy_pJ=1.0, area_um2=1.0),
    Component("sram"),
    Level("buffer", "sram", Component("sram"), (True,) * 3, 64, bandwidth=(1.0, 1.0), shared_bandwidth=2.0),
]
NUMBERS = [
    (made, field.name)
    for made in MADE
    for field in dataclasses.fields(made)
    if isinstance(getattr(made, field.name), int | float) and not isinstance(getattr(made, field.name), bool)
]


@pytest.mark.parametrize(
    ("made", "name"), NUMBERS, ids=lambda value: value if isinstance(value, str) else type(value).__name__
)
@pytest.mark.parametrize("bad", [math.nan, -1, -0.5])
def test_no_number_is_negative_or_none(made, name, bad):
    """For every numeric field of what users make in Python; the complaint names the field."""
    with pytest.raises(InputError) as error:
        found = dataclasses.replace(made, **{name: bad})
        if isinstance(found, WorkloadShape):  # its layer checks a shape, since a graph has its own complaint
            Layer("a", "fc", "Gemm", found)
    assert name in str(error.value) or (name in "GNKCPQRS" and f"shape.{name}" in str(error.value))


OTHERS = {
    "fanout": lambda: Level("b", "sram", Component("sram"), (True,) * 3, 16, fanout=(0, 2)),
    "bandwidth": lambda: Level("b", "sram", Component("sram"), (True,) * 3, 16, bandwidth=(math.nan, None)),
    "kind": lambda: Level("b", "cache", Component("sram"), (True,) * 3, 16),
    "keep": lambda: Level("b", "sram", Component("sram"), (True, False), 16),
    "cls": lambda: Component("fast"),
    "fixed": lambda: Component("fixed", fixed=(1.0, math.nan, 1.0)),
    "dram_type": lambda: Component("dram", dram_type="DDR9"),
    "stride": lambda: Layer("a", "fc", "Gemm", WorkloadShape(stride=(1, 0))),
    "dilation": lambda: Layer("a", "fc", "Gemm", WorkloadShape(dilation=(1.5, 1))),
    "weight": lambda: JobGoals(weight=(1.0, -1.0)),
    "deadline": lambda: JobGoals(deadline=(0.0,)),
    "target": lambda: JobGoals(target=(0, 1.5)),
    "target inf": lambda: JobGoals(target=(math.inf,)),
    "weight ArrayImpl NumPy": lambda: JobGoals(weight=jax.numpy.ones(3)),  # pyright: ignore[reportArgumentType]
    "within": lambda: Settings(within=math.nan),
    "seed": lambda: Settings(seed=2**32),
    "mapping_seed": lambda: CodesignConfig(mapping_seed=-1),
    "power_cap_W": lambda: CodesignConfig(power_cap_W=math.nan),
    "limits": lambda: Requirements(limits=(math.nan, 1, 1, 1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_fields_are_checked_too(name):
    with pytest.raises(InputError) as error:
        OTHERS[name]()
    assert all(word in str(error.value) for word in name.split())


def test_numbers_of_numpy_are_numbers():
    level = Level("b", "sram", Component("sram"), (True,) * 3, np.int64(16), fanout=(np.int32(2), 1))
    assert type(level.capacity_words) is int and level.fanout == (2, 1) and type(level.fanout[0]) is int
    assert WorkloadShape(K=np.int64(3)).macs == 3


@pytest.fixture
def files(tmp_path):
    """A network, a scenario of it, and a template, a package, a technology and requirements as files."""
    linear = model([node("Gemm", "x w", "y", "fc")], [info("x", (1, 8))], [info("y", (1, 16))], [weight("w", (8, 16))])
    onnx = save(tmp_path, linear, "net.onnx")
    template = template_to_dict(load_templates(["shidiannao"])[0])
    contents = {
        "scenario": {"name": "mine", "networks": [{"file": "net.onnx"}]},
        "template": {**template, "name": "own"},
        "package": {"max_tiles": 2},
        "technology": {"scale": {"energy": 0.5}},
        "requirements": {"limits": {"area_mm2": 100}},
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return {"onnx": onnx, **{name: tmp_path / f"{name}.yaml" for name in contents}}


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "path"])
def test_a_problem_is_made_of_paths(files, kind):
    given = {name: kind(path) for name, path in files.items()}
    own = mj.DesignProblem(
        given["scenario"], given["template"], given["package"], given["technology"], given["requirements"]
    )
    loaded = mj.load_scenario(files["scenario"])
    assert own.application == loaded and own.application.name == "mine"
    assert [t.name for t in own.templates] == ["own"] and own.package.max_tiles == 2
    assert own.requirements.limits[2] == 100
    assert own.technology is not load_technology()
    for application in (given["onnx"], [given["onnx"]]):
        assert [layer.type for layer in mj.DesignProblem(application).application.layers] == ["fc"]


def test_searches_take_paths_where_they_take_networks(files, monkeypatch):
    """Compares the problems that the searches would begin with; no search runs."""
    begun = []
    monkeypatch.setattr(Search, "run", lambda self: begun.append(self))
    mj.search(str(files["onnx"]), cache=False)
    mj.search(mj.load_onnx(files["onnx"]), cache=False)
    assert begun[0].problem.application == begun[1].problem.application
    for function in (mj.search, mj.map_layers, mj.codesign, mj.DesignProblem):
        with pytest.raises(InputError, match="no_such"):
            function("no_such.yaml")
        with pytest.raises(TypeError, match="application: expected what load_scenario"):
            function(3)
    with pytest.raises(InputError, match="no_such"):
        mj.search(small_problem(), designs="no_such.json")
    with pytest.raises(TypeError, match="designs: expected"):
        mj.search(small_problem(), designs=3)
    for name in ("templates", "package", "technology", "requirements"):
        with pytest.raises((InputError, TypeError), match="no_such"):
            mj.DesignProblem(str(files["onnx"]), **{name: "no_such.yaml"})
