"""A map space in which no dimension runs along both axes of a level."""

import dataclasses

import jax
import numpy as np
import pytest
from mapping_cases import TECHNOLOGY, toy

from mohamjax.dims import DIMS
from mohamjax.errors import InputError
from mohamjax.hardware import Dataflow, load_template
from mohamjax.mapper import Enumeration, LayerMapper, one_axis_templates, over_one_axis
from mohamjax.mapper.config import MapperConfig
from mohamjax.mapping import Mapping, MappingTables
from mohamjax.mapping.tables import column_shapes, undominated
from mohamjax.workload import UniqueLayer, WorkloadShape

BOTH = dict.fromkeys("KC")
_INNER, _MIDDLE, _OUTER = toy().dataflows[0].rules
_RULES = (_INNER, dataclasses.replace(_MIDDLE, spatial_x=BOTH, spatial_y=BOTH), _OUTER)
TOY = dataclasses.replace(toy("toy", capacity=(16, 128), fanout=(4, 4)), dataflows=(Dataflow(("conv", "fc"), _RULES),))
LAYER = UniqueLayer("conv", WorkloadShape(K=4, C=4, P=2))


def along_both(mapping):
    """`[...]` bool, whether some dimension runs along both X and Y of one level."""
    return np.any(np.all(np.asarray(mapping.spatial) > 1, axis=-3), axis=(-2, -1))


def test_simba_has_eight_ways_and_shidiannao_one():
    simba = load_template("simba")
    parts = one_axis_templates(simba)
    rules = [part.dataflows[0].rules[simba.level_names.index("GlobalBuffer")] for part in parts]
    ways = {(frozenset(rule.spatial_x), frozenset(rule.spatial_y)) for rule in rules}
    assert len(parts) == len(ways) == 8 and all(x | y == set("CKG") and not x & y for x, y in ways)
    assert len(one_axis_templates(simba, "KC")) == 4
    assert one_axis_templates(load_template("shidiannao")) == (load_template("shidiannao"),)


def test_axes_are_chosen_where_both_have_children():
    def parts(fanout, x=BOTH, y=BOTH):
        rules = (_INNER, dataclasses.replace(_MIDDLE, spatial_x=x, spatial_y=y), _OUTER)
        template = toy("toy", capacity=(16, 128), fanout=fanout)
        return one_axis_templates(dataclasses.replace(template, dataflows=(Dataflow(("conv", "fc"), rules),)))

    assert len(parts((4, 4))) == 4
    for one in (parts((4, 1)), parts((1, 4)), parts((4, 4), x={"K": 1, "C": 1})):
        assert len(one) == 1
    assert len(parts((4, 4), y={"K": 1, "C": None})) == 2


def test_too_many_choices_are_refused():
    """Two to the power of 14: seven dimensions along both axes of two levels."""
    every = dict.fromkeys(DIMS[:7])
    rules = [dataclasses.replace(rule, spatial_x=every, spatial_y=every) for rule in (_INNER, _MIDDLE)]
    levels = tuple(dataclasses.replace(level, fanout=(4, 4)) for level in TOY.levels)
    wide = dataclasses.replace(TOY, levels=levels, dataflows=(Dataflow(("conv", "fc"), (*rules, _OUTER)),))
    with pytest.raises(
        InputError, match=r"template toy: .* 14 places, such as \w in \w+, .*16,384 templates, more than the 1,024"
    ):
        one_axis_templates(wide)
    assert len(one_axis_templates(wide, "KC")) == 16


@pytest.mark.slow
def test_the_union_is_what_an_enumeration_leaves_of_the_whole_space():
    """Compared with an enumeration of all combinations of factors in the whole space."""

    def enumerated(templates):
        return Enumeration([LAYER], templates, TECHNOLOGY, padding=False).tables()

    whole, some = enumerated([TOY]), over_one_axis(enumerated, [TOY], [LAYER])
    assert some.count.shape == (1, 1)
    count = int(some.count[0, 0])
    own = some.objectives[0, 0, :count]
    mappings = jax.tree.map(lambda leaf: leaf[0, 0, :count], some.mapping)
    assert not along_both(mappings).any()
    assert (np.diff(own[:, 0]) >= 0).all() and np.isinf(some.objectives[0, 0, count:]).all()
    # Designs of the whole front that obey the rule are found; the others are out of reach of restricted mappings.
    front = jax.tree.map(lambda leaf: leaf[0, 0, : int(whole.count[0, 0])], whole.mapping)
    values, both = whole.objectives[0, 0, : int(whole.count[0, 0])], along_both(front)
    assert both.any() and (~both).any()
    for row in values[~both]:
        assert (np.abs(own / row - 1) < 1e-5).all(axis=1).any()
    for row in own:  # the whole space contains the restricted one
        assert (values <= row * (1 + 1e-5)).all(axis=1).any()
    # Only along both axes can sixteen children run 16 channels; with one dimension per axis all of them work too.
    assert own[0, 0] == values[0, 0]


@pytest.mark.slow
def test_a_search_keeps_the_rule():
    config = MapperConfig(population=24, generations=3, immigrants=4, descent=2, archive=32, entries=12)
    layers = [LAYER, UniqueLayer("fc", WorkloadShape(N=8, K=64, C=64))]
    templates = [load_template("simba"), load_template("shidiannao")]

    def mapped(templates):
        return LayerMapper(layers, templates, TECHNOLOGY, config).search(jax.random.key(0))

    tables = over_one_axis(mapped, templates, layers, config.entries)
    assert tables.objectives.shape == (2, 2, 12, 3) and (tables.count > 0).all()
    for u, t in np.ndindex(2, 2):
        rows = slice(0, int(tables.count[u, t]))
        assert not along_both(jax.tree.map(lambda leaf, u=u, t=t, rows=rows: leaf[u, t, rows], tables.mapping)).any()
        values = tables.objectives[u, t, rows]
        no_worse = (values[:, None] <= values).all(-1)
        assert not (no_worse & ~no_worse.T).any()
    # ShiDianNao has no such dimension, so its sets equal those of a search without the rule.
    whole = mapped(templates)
    for u in range(2):
        own, with_rule = (np.unique(x.objectives[u, 1, : int(x.count[u, 1])], axis=0) for x in (whole, tables))
        np.testing.assert_array_equal(own, with_rule)


def made_up(objectives):
    """Sets of one layer over templates with the given objectives, a list of rows for each template."""
    most = max(map(len, objectives))
    zeros = {name: np.zeros((1, len(objectives), most, *shape)) for name, shape in column_shapes(3, 3).items()}
    zeros["objectives"] += np.inf
    for t, rows in enumerate(objectives):
        zeros["objectives"][0, t, : len(rows)] = rows
        zeros["cycles"][0, t, : len(rows)] = np.arange(len(rows)) + 10 * t
    nests = {"temporal": (3, 8), "order": (3, 8), "spatial": (2, 3, 8), "spatial_order": (2, 3, 8), "keep": (3, 3)}
    mapping = Mapping(**{name: np.zeros((1, len(objectives), most, *shape), int) for name, shape in nests.items()})
    return MappingTables(mapping=mapping, count=np.array([[len(rows) for rows in objectives]]), **zeros)


def test_a_union_larger_than_its_parts_is_whole_unless_a_size_is_given():
    ways = [[(1, 9, 5), (4, 4, 5)], [(2, 7, 5), (9, 9, 9)], [(9, 1, 5)], [(3, 5, 5)]]
    whole = over_one_axis(lambda templates: made_up(ways), [TOY], [LAYER])
    expected = [(1, 9, 5), (2, 7, 5), (3, 5, 5), (4, 4, 5), (9, 1, 5)]
    assert whole.count.tolist() == [[5]] and whole.objectives[0, 0].tolist() == list(map(list, expected))
    assert whole.cycles[0, 0].tolist() == [0, 10, 30, 1, 20]
    some = over_one_axis(lambda templates: made_up(ways), [TOY], [LAYER], most=3)
    assert some.count.tolist() == [[3]] and some.objectives.shape == (1, 1, 3, 3)
    assert [some.objectives[0, 0, i].tolist() for i in (0, 2)] == [[1, 9, 5], [9, 1, 5]]
    one = over_one_axis(lambda templates: made_up(ways), [TOY], [LAYER], most=1)
    assert one.count.tolist() == [[1]]


def test_sets_lose_what_others_dominate_and_keep_what_is_equal():
    table = jax.tree.map(lambda leaf: leaf[0], made_up([[(1, 2, 3), (1, 2, 3), (1, 3, 3), (2, 1, 3)], [(5, 5, 5)]]))
    left = undominated(table)
    assert left.count.tolist() == [3, 1] and left.cycles.tolist() == [[0, 1, 3, 0], [10, 0, 0, 0]]
    assert np.isinf(left.objectives[0, 3]).all() and undominated(left) is left


@pytest.mark.slow
def test_a_product_of_vit_on_simba():
    """MatMul_95 of ViT-B/16: Timeloop's mapper finds 122,928 cycles in this space."""
    layer = UniqueLayer("bmm", WorkloadShape(G=12, N=197, K=64, C=197))
    config = MapperConfig(padding=False)
    tables = over_one_axis(
        lambda templates: LayerMapper([layer], templates, TECHNOLOGY, config).search(jax.random.key(0)),
        [load_template("simba")],
        [layer],
    )
    assert tables.objectives[0, 0, 0, 0] <= 122_928
