"""Layers, templates and a plain check of mappings, shared by the tests of the map space and of the mapper."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import (
    Component,
    Dataflow,
    Level,
    LevelRule,
    Mac,
    Template,
    load_technology,
    load_templates,
    template_arrays,
)
from mohamjax.mapping.space import constraints, map_space
from mohamjax.workload import DIMS, WorkloadShape

PRIMES = 24

quick_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
"""Tests run each program only a few times, so that the time to compile it counts."""
LEVELS = 6

ANY = dict.fromkeys(DIMS)


def toy(name="toy", capacity=(None, None), fanout=(4, 6)):
    """A template of two on-chip levels and DRAM that allows every loop everywhere."""
    sizes = [1 << 30 if words is None else words for words in capacity]
    levels = (
        Level("RF", "rf", Component("regfile"), (True, True, True), sizes[0], granularity_rows=16),
        Level("GLB", "sram", Component("sram"), (True, True, True), sizes[1], block_words=8, fanout=fanout),
        Level("DRAM", "dram", Component("dram"), (True, True, True), None, block_words=8),
    )
    rules = (LevelRule(temporal=ANY), LevelRule(temporal=ANY, spatial_x=ANY, spatial_y=ANY), LevelRule(temporal=ANY))
    return Template(name, levels, Mac(), (Dataflow(("conv", "fc"), rules),))


TECHNOLOGY = load_technology()
TEMPLATES = (*load_templates(["eyeriss", "simba", "shidiannao"]), toy(), toy("small", capacity=(8, 64)))
ARRAYS = template_arrays(TEMPLATES, TECHNOLOGY, levels=LEVELS)


def space(template, shape, layer_type="conv"):
    """The map space of a layer on TEMPLATES[template]; all spaces have the same padding."""
    limits = constraints(TEMPLATES[template], layer_type, shape, LEVELS)
    machine = jax.tree.map(lambda leaf: np.asarray(leaf[template]), ARRAYS.machine)
    return jax.tree.map(jnp.asarray, map_space(shape, limits, machine, PRIMES))


def random_shape(rng):
    """A small convolution with composite bounds, strides and dilations."""

    def pick(*values):
        return int(rng.choice(values))

    return WorkloadShape(
        G=pick(1, 1, 1, 6), N=pick(1, 1, 2, 6), K=pick(1, 12, 16, 30), C=pick(1, 3, 8, 42), P=pick(1, 4, 14, 27),
        Q=pick(1, 4, 14, 25), R=pick(1, 1, 3, 5), S=pick(1, 1, 3, 4), stride=(pick(1, 2), pick(1, 2)),
        dilation=(pick(1, 2), pick(1, 1, 3)),
    )  # fmt: skip


def violations(mapping, template, shape, layer_type="conv"):
    """Every rule that one mapping breaks, worked out from the template itself and without the code under test."""
    owner = TEMPLATES[template]
    rules, out = owner.rule(layer_type), []
    temporal, spatial = np.asarray(mapping.temporal, object), np.asarray(mapping.spatial, object)
    order, keep = np.asarray(mapping.order), np.asarray(mapping.keep)
    depth = len(rules)
    for d, (letter, bound) in enumerate(zip(DIMS, shape.bounds, strict=True)):
        product = math.prod(temporal[:, d]) * math.prod(spatial[0, :, d]) * math.prod(spatial[1, :, d])
        if product != bound:
            out.append(f"{letter}: product {product}, bound {bound}")
    if (temporal[depth:] != 1).any() or (spatial[:, depth:] != 1).any():
        out.append("factors on padded levels")
    for i, (rule, level) in enumerate(zip(rules, owner.levels, strict=True)):
        limits = (rule.temporal, rule.spatial_x, rule.spatial_y)
        for name, limit, row in zip(("T", "X", "Y"), limits, (temporal[i], *spatial[:, i]), strict=True):
            for letter, factor in zip(DIMS, row, strict=True):
                most = limit.get(letter, 1)
                if most is not None and factor > most:
                    out.append(f"{level.name}: {name} {letter}={factor} above {most}")
        for axis in range(2):
            if math.prod(spatial[axis, i]) > level.fanout[axis]:
                out.append(f"{level.name}: fanout {axis}")
        if sorted(order[i]) != list(range(len(DIMS))):
            out.append(f"{level.name}: order")
        if rule.order and [DIMS[d] for d in order[i]][: len(rule.order)] != list(rule.order):
            out.append(f"{level.name}: prescribed order")
        if tuple(keep[i]) != tuple(level.keep):
            out.append(f"{level.name}: keep")
        extent = dict.fromkeys(DIMS, 1)
        for d, letter in enumerate(DIMS):
            extent[letter] = math.prod(temporal[: i + 1, d]) * math.prod(spatial[:, : i + 1, d].ravel())
        tile = WorkloadShape(**extent, stride=shape.stride, dilation=shape.dilation)
        used = sum(words for words, kept in zip(tile.tensor_words, level.keep, strict=True) if kept)
        if level.capacity_words is not None and used > level.capacity_words:
            out.append(f"{level.name}: {used} words of {level.capacity_words}")
    return out
