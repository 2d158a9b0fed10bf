"""A map space in which no dimension runs along both axes of a level."""

import dataclasses

import jax
import numpy as np
import pytest
from mapping_cases import TECHNOLOGY, toy

from mohamjax.hardware import Dataflow, load_template
from mohamjax.search import map_exhaustively, map_layers, one_axis_templates, over_one_axis
from mohamjax.search.config import MapperConfig
from mohamjax.workload import UniqueLayer, WorkloadShape

BOTH = dict.fromkeys("KC")
_INNER, _MIDDLE, _OUTER = toy().dataflows[0].rules
_RULES = (_INNER, dataclasses.replace(_MIDDLE, spatial_x=BOTH, spatial_y=BOTH), _OUTER)
TOY = dataclasses.replace(toy("toy", capacity=(16, 128), fanout=(4, 4)), dataflows=(Dataflow(("conv", "fc"), _RULES),))
LAYER = UniqueLayer("conv", WorkloadShape(K=4, C=4, P=2))


def along_both(mapping):
    """`[...]` bool, whether some dimension runs along X and Y of one level."""
    return np.any(np.all(np.asarray(mapping.spatial) > 1, axis=-3), axis=(-2, -1))


def test_simba_has_eight_ways_and_shidiannao_one():
    simba = load_template("simba")
    parts = one_axis_templates(simba)
    rules = [part.dataflows[0].rules[simba.level_names.index("GlobalBuffer")] for part in parts]
    ways = {(frozenset(rule.spatial_x), frozenset(rule.spatial_y)) for rule in rules}
    assert len(parts) == len(ways) == 8 and all(x | y == set("CKG") and not x & y for x, y in ways)
    assert len(one_axis_templates(simba, "KC")) == 4
    assert one_axis_templates(load_template("shidiannao")) == (load_template("shidiannao"),)


def test_the_union_is_what_an_enumeration_leaves_of_the_whole_space():
    """Every combination of factors that the whole space has, one by one, beside the sets of the restricted one."""

    def enumerated(templates):
        return map_exhaustively([LAYER], templates, TECHNOLOGY, padding=False)

    whole, some = enumerated([TOY]), over_one_axis(enumerated, [TOY], [LAYER])
    assert some.count.shape == (1, 1)
    count = int(some.count[0, 0])
    own = some.objectives[0, 0, :count]
    mappings = jax.tree.map(lambda leaf: leaf[0, 0, :count], some.mapping)
    assert not along_both(mappings).any()
    assert (np.diff(own[:, 0]) >= 0).all() and np.isinf(some.objectives[0, 0, count:]).all()
    # Whatever of the whole front keeps the rule is there; the rest of it no restricted mapping reaches.
    front = jax.tree.map(lambda leaf: leaf[0, 0, : int(whole.count[0, 0])], whole.mapping)
    values, both = whole.objectives[0, 0, : int(whole.count[0, 0])], along_both(front)
    assert both.any() and (~both).any()
    for row in values[~both]:
        assert (np.abs(own / row - 1) < 1e-5).all(axis=1).any()
    for row in own:  # the whole space holds the restricted one
        assert (values <= row * (1 + 1e-5)).all(axis=1).any()
    # Sixteen children run 16 channels only along both axes; with two dimensions, one each, they all work too.
    assert own[0, 0] == values[0, 0]


def test_a_search_keeps_the_rule_and_its_sets_are_small_enough():
    config = MapperConfig(population=24, generations=3, immigrants=4, descent=2, archive=32, entries=12)
    layers = [LAYER, UniqueLayer("fc", WorkloadShape(N=8, K=64, C=64))]
    templates = [load_template("simba"), load_template("shidiannao")]

    def mapped(templates):
        return map_layers(jax.random.key(0), layers, templates, TECHNOLOGY, config)

    tables = over_one_axis(mapped, templates, layers)
    assert tables.objectives.shape == (2, 2, 12, 3) and (tables.count > 0).all()
    for u, t in np.ndindex(2, 2):
        rows = slice(0, int(tables.count[u, t]))
        assert not along_both(jax.tree.map(lambda leaf, u=u, t=t, rows=rows: leaf[u, t, rows], tables.mapping)).any()
        values = tables.objectives[u, t, rows]
        no_worse = (values[:, None] <= values).all(-1)
        assert not (no_worse & ~no_worse.T).any()
    # ShiDianNao has no such dimension: its sets are those of a search without the rule.
    whole = mapped(templates)
    np.testing.assert_array_equal(whole.count[:, 1], tables.count[:, 1])
    np.testing.assert_array_equal(whole.objectives[:, 1], tables.objectives[:, 1])


@pytest.mark.slow
def test_a_product_of_vit_on_simba():
    """MatMul_95 of ViT-B/16: Timeloop's mapper finds 122,928 cycles in this space."""
    layer = UniqueLayer("bmm", WorkloadShape(G=12, N=197, K=64, C=197))
    tables = over_one_axis(
        lambda templates: map_layers(jax.random.key(0), [layer], templates, TECHNOLOGY),
        [load_template("simba")],
        [layer],
    )
    assert tables.objectives[0, 0, 0, 0] <= 122_928
