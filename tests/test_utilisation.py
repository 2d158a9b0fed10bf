"""Layers that leave their array idle are named, whatever size a search chooses for it."""

from types import SimpleNamespace

import numpy as np
import pytest

from mohamjax.hardware import PackageParameters, load_technology, load_templates
from mohamjax.schedule import (
    LayerUse,
    Setup,
    best_utilisation,
    layers_of_little_use,
    layers_that_fill_no_template,
    told_of_unfilled,
)
from mohamjax.schedule.utilisation import told_of_idle
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

LINE = "no mapping found keeps 5% of the MACs of any template at its largest size busy for 1 layer: net/depth"
DEPTH = Layer("depth", "dwconv", "Conv", WorkloadShape(G=256, P=14, Q=14, R=3, S=3))
HEAD = Layer("head", "fc", "Gemm", WorkloadShape(K=1000, C=1280), predecessors=(0,))


@pytest.fixture(scope="module")
def setup():
    application = ApplicationModel("toy", (Network("net", (DEPTH, HEAD)),))
    return Setup(application, tuple(load_templates(["simba", "eyeriss"])), load_technology(), PackageParameters())


def tables(cycles):
    """Stands for Pareto tables of two layers on two templates; inf where there is no mapping."""
    cycles = np.asarray(cycles, float)
    return SimpleNamespace(exists=np.isfinite(cycles), cycles=cycles, mapping=SimpleNamespace(keep=np.ones((6, 3))))


def test_a_layer_that_can_use_one_mac_is_named(setup):
    """Depthwise layers once ran so: on a chiplet of one MAC nothing was idle, and no line told of it."""
    macs = DEPTH.shape.macs
    found = tables([[[macs, 2 * macs], [np.inf, np.inf]], [[320, 500], [10_000, np.inf]]])
    best = best_utilisation(setup, found)
    assert best == pytest.approx([1 / 4096, HEAD.shape.macs / 320 / 4096])
    assert layers_that_fill_no_template(setup, found) == ["net/depth"]
    assert told_of_unfilled(["net/depth"]) == LINE


def test_the_best_template_counts(setup):
    """168 MACs of Eyeriss are filled by what leaves Simba's 4,096 idle."""
    macs = DEPTH.shape.macs
    found = tables([[[macs], [macs / 16]], [[320], [10_000]]])
    assert best_utilisation(setup, found)[0] == pytest.approx(16 / 168)
    assert layers_that_fill_no_template(setup, found) == [] and told_of_unfilled([]) == ""


def test_layers_idle_on_the_chiplets_of_a_front_are_named_once(setup):
    own = np.array([layer.shape.macs for layer in (DEPTH, HEAD)], float)
    use = LayerUse(*(np.tile(x, (3, 1)) for x in (own, own, own / [1, 100], own, np.full(2, 1024.0))))
    assert layers_of_little_use(setup.application, use) == ["net/depth"]
    told = "less than 5% of the chiplet's MACs are busy in every design for 1 layer: net/depth"
    assert told_of_idle(setup.application, use) == told
    assert told_of_idle(setup.application, use, ["net/depth"]) == ""
    none = LayerUse(*(field[:0] for field in use))
    assert layers_of_little_use(setup.application, none) == []
