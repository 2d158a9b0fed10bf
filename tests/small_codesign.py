"""A small hardware search, shared by several files so that programs are compiled once."""

import functools

import jax

from mohamjax.hardware import load_technology
from mohamjax.unico.bracket import MappingSearch
from mohamjax.unico.lanes import LaneConfig, lane_problem
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.space import named_space
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

TECHNOLOGY = load_technology()
SPACE = named_space("unico-ci")
SIZES = {"lanes": 8, "first": 2, "rounds": 4, "iterations": 2, "pool": 256, "neighbours": 64}
GENERATIONS = 16


def application():
    """Four layers, one of them twice."""
    conv = WorkloadShape(K=16, C=8, P=8, Q=8, R=3, S=3)
    layers = (
        Layer("stem", "conv", "Conv", conv),
        Layer("again", "conv", "Conv", conv, predecessors=(0,)),
        Layer("depth", "dwconv", "Conv", WorkloadShape(G=16, P=6, Q=6, R=3, S=3), predecessors=(1,)),
        Layer("wide", "conv", "Conv", WorkloadShape(K=32, C=16, P=6, Q=6), predecessors=(2,)),
        Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=32), predecessors=(3,)),
    )
    return ApplicationModel("toy", (Network("net", layers),))


@functools.cache
def problem(space=SPACE):
    return lane_problem(CodesignProblem(application(), space, TECHNOLOGY))


def lanes(seed=0, **sizes):
    """Mapping searches of the small problem."""
    layers = len(application().unique_layers)
    return MappingSearch(jax.random.key(seed), problem(), SPACE, layers, LaneConfig(generations=GENERATIONS), **sizes)
