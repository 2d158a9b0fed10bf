"""Remapping on chiplets that a search has come to use: how tables grow, and that searches with rounds resume."""

import dataclasses
import functools
import time
import warnings
from types import SimpleNamespace

import design_cases as dc
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_search import compiled_generations

from mohamjax.hardware import PackageParameters, load_technology, load_templates, template_arrays
from mohamjax.io import CheckpointFile, mapping_cache
from mohamjax.mapper.block_search import BlockSearch
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.mapping import MappingTables, stacked_layers, tabulate
from mohamjax.problem import DesignProblem
from mohamjax.problem.plan_tables import WEIGHTS, mapping_scores
from mohamjax.runtime.programs import PROGRAMS
from mohamjax.schedule import Setup, evaluation_arrays, isolated_cycles
from mohamjax.search import BUDGETS, Search, Settings, generations, remap
from mohamjax.search.config import RemapConfig
from mohamjax.search.generations import Silent
from mohamjax.search.remap import ChipletSample, Remapper, chiplets_of, map_again, with_room
from mohamjax.workload import ApplicationModel, read_network

PACKAGE = PackageParameters()
TEMPLATES = tuple(load_templates(["eyeriss", "simba", "shidiannao"]))
TECHNOLOGY = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), load_technology())
MAPPER = BUDGETS["tiny"].mapper  # the sizes of other files, so that programs are compiled once
KEPT, ROOM = 96, 32  # together as many entries as sets have in other files, for the same reason
REMAP = RemapConfig(every=3, polish=1, settle=2, chiplets=4, entries=ROOM, generations=0, descent=1)


def same(a, b) -> bool:
    """Equal to the bit, padding included."""
    return all(
        np.array_equal(x, y, equal_nan=np.issubdtype(np.asarray(x).dtype, np.floating))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def columns(tables: MappingTables) -> dict:
    return {f.name: getattr(tables, f.name) for f in dataclasses.fields(tables) if f.name != "count"}


def cut(tables: MappingTables, entries: int) -> MappingTables:
    """The first `entries` mappings of every set."""
    some = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, :entries], columns(tables))
    return MappingTables(count=np.minimum(tables.count, entries), **some)


# ---------------------------------------------------------------- room


@pytest.mark.slow
@pytest.mark.parametrize("entries", [3, 4, 7])
def test_room_changes_no_evaluation(entries):
    problem = dc.chains(2)
    made = dc.recast(dc.tables(problem, 2), np.float32)
    designs = dc.random_designs(problem, made, 2, 16)
    roomy = with_room(made, entries)
    assert roomy.cycles.shape[2] == max(entries, 4)
    assert same(cut(roomy, 4), made) and np.isinf(roomy.objectives[:, :, 4:]).all()
    for before, after in zip(
        jax.tree.leaves(dc.reports(designs, dc.evaluation(problem, made))),
        jax.tree.leaves(dc.reports(designs, dc.evaluation(problem, roomy))),
        strict=True,
    ):
        np.testing.assert_array_equal(before, after)


# ---------------------------------------------------------------- chiplets


@functools.cache
def drawn(seed: int):
    """A made-up problem's evaluation, and designs on it."""
    problem = dc.chains(seed % 2)
    made = dc.recast(dc.tables(problem, seed % 2), np.float32)
    return dc.evaluation(problem, made), dc.random_designs(problem, made, seed, 16)


def standing(evaluation, designs, which):
    """In plain Python: template and sizes of every chiplet, and the unique layers that run on it."""
    unique, mask = np.asarray(evaluation.unique), np.asarray(evaluation.layer_mask)
    made = dc.reports(designs, evaluation).chiplets
    found = []
    for d, s in np.argwhere(designs.template >= 0):
        if d in which:
            here = set(unique[mask & (designs.assignment[d] == s)])
            found.append((designs.template[d, s], made.capacity[d, s], made.fanout[d, s], here))
    return found


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 30), count=st.sampled_from([1, 2, 3, 6, 12, 1000]), data=st.data())
def test_few_chiplets_stand_for_all(seed, count, data):
    evaluation, designs = drawn(seed)
    which = np.asarray(data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=16, unique=True)))
    sample = chiplets_of(designs, which, evaluation, count)
    chips = standing(evaluation, designs, which)
    size = len(sample.template)
    assert 1 <= size <= count and sample.runs.shape == (evaluation.tables.count.shape[0], size)
    kinds = {t for t, *_ in chips}
    if count >= len(kinds):
        assert set(sample.template) == kinds
    for t, _, _, unique in chips:
        on = sample.template == t if count >= len(kinds) else np.ones(size, bool)
        assert all(sample.runs[u, on].any() for u in unique)
    # Each sampled chiplet occurs in the designs with its sizes, and none is sampled twice.
    rows = {(t, *capacity.ravel(), *fanout.ravel()) for t, capacity, fanout, _ in chips}
    own = [
        (t, *capacity.ravel(), *fanout.ravel())
        for t, capacity, fanout in zip(sample.template, sample.capacity, sample.fanout, strict=True)
    ]
    assert set(own) <= rows and len(set(own)) == size
    if count >= len(rows):  # each chiplet is sampled: its layers are those of all equal chiplets
        assert size == len(rows)
        for k, chip in enumerate(own):
            runs = set().union(*(u for t, c, f, u in chips if (t, *c.ravel(), *f.ravel()) == chip))
            assert set(np.flatnonzero(sample.runs[:, k])) == runs


# ---------------------------------------------------------------- mapping again


@pytest.fixture(scope="module")
def application(networks):
    return ApplicationModel("small", tuple(read_network(path) for path in networks))


@pytest.fixture(scope="module")
def mapped(application):
    """The mapper's tables for the networks of `small_search`, with room for more mappings."""
    key = jax.random.split(jax.random.key(0), 3)[0]
    tables = LayerMapper(application.unique_layers, TEMPLATES, TECHNOLOGY, MAPPER, cache=mapping_cache()).search(key)
    return with_room(cut(tables, KEPT), KEPT + ROOM)


def sampled(application, tables, seed, count) -> ChipletSample:
    """A sample of the chiplets of random designs."""
    evaluation = evaluation_arrays(Setup(application, TEMPLATES, TECHNOLOGY, PACKAGE), tables)
    designs = dc.random_designs(application, tables, seed, 16, padded_layers=evaluation.unique.shape[0])
    return chiplets_of(designs, np.arange(16), evaluation, count)


def again(application, tables, sample, room, *, generations=1, descent=REMAP.descent, key=5, progress=None):
    config = dataclasses.replace(MAPPER, generations=generations, descent=descent)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # users would see warnings about invalid values
        return map_again(
            jax.random.key(key),
            sample,
            Setup(application, TEMPLATES, TECHNOLOGY, PACKAGE),
            tables,
            config,
            room=room,
            progress=progress,
        )


@pytest.mark.slow
@pytest.mark.parametrize("generations", [0, 1])
def test_what_joins_is_better_than_all_before_on_some_chiplet(application, mapped, generations):
    sample = sampled(application, mapped, 3, 6)
    before = jax.tree.map(np.copy, mapped)
    tables, joined = again(application, mapped, sample, ROOM, generations=generations)
    assert same(mapped, before), "the tables that were given have changed"
    grown = tables.count - mapped.count
    assert joined == grown.sum() > 5 and (grown >= 0).all() and (grown <= ROOM).all()
    places = np.arange(KEPT + ROOM)
    new = (places >= mapped.count[..., None]) & (places < tables.count[..., None])
    for a, b in zip(jax.tree.leaves(columns(mapped)), jax.tree.leaves(columns(tables)), strict=True):
        np.testing.assert_array_equal(a[~new], b[~new])
    score = np.stack(mapping_scores(isolated_cycles(tables, PACKAGE), tables.objectives[..., 1].astype(float)), axis=-1)
    for u, t, m in np.argwhere(new):
        chips = np.flatnonzero(sample.template == t)
        fits = (tables.capacity[u, t, : m + 1, None] <= sample.capacity[chips]).all(axis=-1)
        fits &= (tables.fanout[u, t, : m + 1, None] <= sample.fanout[chips]).all(axis=(-2, -1))
        own = np.where(fits[..., None], score[u, t, : m + 1, None], np.inf)  # [m + 1, K, W]
        better = own[m] < own[:m].min(axis=0) - 1e-4
        assert better.any(), (u, t, m)
    # Layers are only mapped on templates on which they run.
    for u, t in np.argwhere(grown > 0):
        assert sample.runs[u, sample.template == t].any()
    # The figures are those of each mapping on hardware of its own size.
    arrays = template_arrays(TEMPLATES, TECHNOLOGY, levels=tables.capacity.shape[3], dtype=np.float32)
    layers = stacked_layers(layer.shape for layer in application.unique_layers)
    once = tabulate(layers, arrays, TECHNOLOGY, tables.mapping, tables.count)
    for a, b in zip(jax.tree.leaves(columns(once)), jax.tree.leaves(columns(tables)), strict=True):
        np.testing.assert_array_equal(a[new], b[new])
    assert np.isfinite(tables.objectives[new]).all()


@pytest.mark.slow
def test_without_generations_rounds_go_on_from_what_the_sets_hold(application, mapped):
    """A round starts from the best mappings on the chiplet, draws no random number and uses the mapper's programs."""
    sample = sampled(application, mapped, 3, 6)
    round_ = functools.partial(again, application, mapped, sample, ROOM, generations=0, descent=2)
    again(application, mapped, sample, ROOM)
    compiled, told = set(PROGRAMS), []
    tables, joined = round_(key=1, progress=told.append)
    assert set(PROGRAMS) == compiled
    others, number = round_(key=2)
    assert same(tables, others) and joined == number > 5
    assert (
        0
        < told[-1].evaluations
        == told[-1].total
        < told[-1].problems * dataclasses.replace(MAPPER, generations=0, descent=2).evaluations
    )
    given = remap.best_known(mapped, sample, PACKAGE)
    assert set(given) == {(int(u), int(k)) for u, k in np.argwhere(sample.runs)}
    score = np.stack(mapping_scores(isolated_cycles(mapped, PACKAGE), mapped.objectives[..., 1].astype(float)), axis=-1)
    for (u, k), mappings in given.items():
        t, n = sample.template[k], mapped.count[u, sample.template[k]]
        fits = (mapped.capacity[u, t, :n] <= sample.capacity[k]).all(axis=-1)
        fits &= (mapped.fanout[u, t, :n] <= sample.fanout[k]).all(axis=(-2, -1))
        best = sorted(
            {min(np.flatnonzero(fits), key=lambda m, own=own: own[m]) for own in score[u, t, :n].T}
            if fits.any()
            else ()
        )
        starts = [jax.tree.map(lambda leaf, at=(u, t, m): leaf[at], mapped.mapping) for m in best]
        assert same(mappings, starts)


@pytest.mark.slow
def test_a_chiplet_that_stands_for_another_template_has_no_start_there(application, mapped):
    """A layer that a chiplet's template does not run is not mapped on it; the other layers are."""
    sample = sampled(application, mapped, 3, 6)
    lost = int(np.flatnonzero(sample.runs[:, 0])[0])
    count = mapped.count.copy()
    count[lost, sample.template[0]] = 0
    poorer = dataclasses.replace(mapped, count=count)
    known = remap.best_known(poorer, sample, PACKAGE)
    assert (lost, 0) not in known and 0 < len(known) < sample.runs.sum()
    tables, joined = again(application, poorer, sample, ROOM, generations=0, descent=2)
    assert joined > 0 and tables.count[lost, sample.template[0]] == 0


@pytest.mark.slow
def test_blocks_share_programs_and_no_archive(application, mapped, monkeypatch):
    """Separate blocks of problems, two at a time, give the same as one block, and programs are requested once."""
    asked = []
    compiled = BlockSearch._compile

    def counted(self, *arguments):
        asked.append(self)
        return compiled(self, *arguments)

    monkeypatch.setattr(BlockSearch, "_compile", counted)
    given = {
        (u, 0): [jax.tree.map(lambda leaf, m=m, u=u: leaf[u, 0, m], mapped.mapping) for m in range(2)] for u in range(2)
    }
    found = []
    for block, threads in ((2, 1), (1, 2)):
        config = dataclasses.replace(MAPPER, descent=2, block=block, threads=threads)
        mapper = LayerMapper(
            application.unique_layers[:2], TEMPLATES[:1], TECHNOLOGY, config, levels=mapped.capacity.shape[-1]
        )
        found.append(mapper.descend(jax.random.key(0), given))
    assert len(asked) == 2, "once per call, not per block"
    assert (found[0].count > 0).all()
    jax.tree.map(np.testing.assert_array_equal, found[0], found[1])


def test_mappings_that_the_mapper_would_not_make_are_no_start(application, mapped):
    """A set may hold a user's mapping that keeps other data: a descent ignores it, and with no other gives no set."""
    strange, known = (jax.tree.map(lambda leaf, m=m: leaf[0, 0, m], mapped.mapping) for m in (0, 1))
    strange = dataclasses.replace(strange, keep=~np.asarray(strange.keep))
    config = dataclasses.replace(MAPPER, descent=1)
    found = [
        LayerMapper(
            application.unique_layers[:2], TEMPLATES[:1], TECHNOLOGY, config, levels=mapped.capacity.shape[-1]
        ).descend(jax.random.key(0), {(0, 0): own, (1, 0): []})
        for own in ([known], [strange, known], [strange])
    ]  # fmt: skip
    assert [table.count[0, 0] > 0 for table in found] == [True, True, False]
    assert same(found[0], found[1]) and not any(table.count[1, 0] for table in found)
    assert found[0].objectives[0, 0, : found[0].count[0, 0]].min(axis=0)[0] <= mapped.objectives[0, 0, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("fixed", [False, True])
def test_given_mappings_alone_are_kept_where_nothing_descends(application, mapped, fixed):
    """Without descent a set is the front of its own starts; mappings of other pairs and a cache change nothing."""
    config = dataclasses.replace(MAPPER, descent=0, fixed=fixed)
    starts = [jax.tree.map(lambda leaf, m=m: leaf[0, 0, m], mapped.mapping) for m in (3, 0, 1, 3)]
    kept: dict = {}

    class Store:
        def read(self, digest):
            return kept.get(digest)

        def write(self, digest, table):
            kept[digest] = table

    def found(given, cache=None):
        mapper = LayerMapper(
            application.unique_layers[:2], TEMPLATES[:1], TECHNOLOGY, config,
            cache=cache, levels=mapped.capacity.shape[-1],
        )  # fmt: skip
        return mapper.descend(jax.random.key(0), given)

    alone_, store = found({(0, 0): starts}), Store()
    count = alone_.count[0, 0]
    own = [jax.tree.map(lambda leaf, m=m: leaf[0, 0, m], alone_.mapping) for m in range(count)]
    assert 1 <= count <= 3 and not alone_.count[1, 0]
    assert all(any(same(nest, start) for start in starts) for nest in own)
    if not fixed:  # all three are in a Pareto set, sorted by latency
        assert count == 3 and same(own, [starts[i] for i in (1, 2, 0)])
        for name, column in columns(mapped).items():
            if name != "mapping":
                np.testing.assert_allclose(getattr(alone_, name)[0, 0, :3], column[0, 0, [0, 1, 3]], rtol=1e-6)
    assert same(found({(0, 0): starts}, store), alone_) and len(kept) == 1
    assert same(found({(0, 0): starts}, store), alone_) and len(kept) == 1
    # Other starts give another set: the cached one is not used.
    assert not same(found({(0, 0): starts[:1]}, store), alone_) and len(kept) == 2
    # A pair that is not searched may have any number of starts.
    many = {(0, 0): starts, (1, 0): [starts[0]] * 500}
    wanted = np.asarray([[True], [False]])
    less = LayerMapper(
        application.unique_layers[:2], TEMPLATES[:1], TECHNOLOGY, config, levels=mapped.capacity.shape[-1]
    ).descend(jax.random.key(0), many, wanted=wanted)
    assert same(less, alone_)


@pytest.mark.parametrize("room", [0, 1])
def test_no_more_join_than_there_is_room_for(application, mapped, room):
    tables, joined = again(application, mapped, sampled(application, mapped, 3, 6), room)
    grown = tables.count - mapped.count
    assert joined == grown.sum() and grown.max() == room
    full = dataclasses.replace(mapped, count=np.where(mapped.count > 0, KEPT + ROOM, 0).astype(np.int32))
    if room == 0:
        assert same(tables, mapped)
    else:
        assert again(application, cut(full, KEPT + ROOM), sampled(application, mapped, 3, 6), 5)[1] == 0


def test_the_first_that_join_help_most():
    """Candidates of which one makes others worthless."""

    def entries(cycles, energy, words):
        n = len(cycles)
        return {
            "cycles": np.asarray(cycles, float),
            "offchip_bytes": np.zeros(n),
            "objectives": np.stack([cycles, energy, np.ones(n)], axis=1).astype(float),
            "capacity": np.asarray(words, float)[:, None],
            "fanout": np.ones((n, 1, 2)),
        }

    known = entries([100], [100], [4])
    new = entries([90, 60, 50, 10], [90, 60, 50, 10], [4, 4, 4, 64])
    chips = np.asarray([[8.0], [16.0]]), np.ones((2, 1, 2))
    assert remap.that_help(new, known, *chips, PACKAGE).tolist() == [2]
    # The largest mapping fits the second chiplet alone, so the first one takes another; an empty set takes the best.
    chips = np.asarray([[8.0], [64.0]]), np.ones((2, 1, 2))
    assert remap.that_help(new, known, *chips, PACKAGE).tolist() == [3, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        nothing = entries([], [], [])
        assert remap.that_help(new, nothing, np.asarray([[2.0], [8.0]]), np.ones((2, 1, 2)), PACKAGE)[-1] == 2
    traded = entries([50, 200], [200, 50], [4, 4])
    assert sorted(remap.that_help(traded, known, *chips, PACKAGE)) == [0, 1]
    assert len(WEIGHTS) == 5


# ---------------------------------------------------------------- whole searches


@pytest.fixture
def small_tables(monkeypatch):
    """Searches begin with smaller sets, so that with room their shapes are those of searches in other files."""
    whole = LayerMapper.search
    monkeypatch.setattr(LayerMapper, "search", lambda *a, **k: cut(whole(*a, **k), KEPT))


def searched(application, folder, *, resume=False, listener=None, generations=7):
    tiny = BUDGETS["tiny"]
    moham = dataclasses.replace(tiny.moham, population=32, generations=generations)
    result = Search(
        DesignProblem(application, TEMPLATES), Settings.preset("tiny", moham=moham, remap=REMAP), cache=mapping_cache(),
        checkpoint=CheckpointFile(folder / "checkpoint.npz"), resume=resume, checkpoint_every_s=0.0, listener=listener,
    ).run()  # fmt: skip
    with np.load(folder / "checkpoint.npz") as data:
        arrays = {name: data[name] for name in data.files if name not in ("meta", "digest")}
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in result.history]
    return result, arrays, rows


@pytest.mark.slow
def test_a_search_with_rounds_can_be_interrupted_anywhere(application, small_tables, tmp_path, monkeypatch):
    for name in ("whole", "after", "within"):
        (tmp_path / name).mkdir()
    said = []

    class Told(Silent):
        def announce(self, text):
            said.append(text)

    result, arrays, rows = searched(application, tmp_path / "whole", listener=Told())
    compiled = compiled_generations()
    assert sum("mapping again" in text for text in said) == 3 and len(rows) == 7 + 2 + 1
    assert len(result.front.reports.objectives) > 3

    def equal(other):
        again, others, same_rows = other
        assert arrays.keys() == others.keys()
        assert [
            k for k in arrays if not np.array_equal(arrays[k], others[k], equal_nan=arrays[k].dtype.kind == "f")
        ] == []
        assert same(result.tables, again.tables) and rows == same_rows
        assert same(result.front.designs, again.front.designs)

    class Hasty(Silent):
        def progress(self, progress, generations):
            if progress.generation == 5:
                raise KeyboardInterrupt

    stopped, _, _ = searched(application, tmp_path / "after", listener=Hasty())
    assert stopped.interrupted and len(stopped.history) == 6
    equal(searched(application, tmp_path / "after", resume=True))

    # In the second round, when tables have grown but designs of the front have not been evaluated again.
    calls = []

    def impatient(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return decoded_again(*arguments)

    decoded_again = generations.archived
    monkeypatch.setattr(generations, "archived", impatient)
    stopped, _, _ = searched(application, tmp_path / "within")
    assert stopped.interrupted and len(stopped.history) == 7
    equal(searched(application, tmp_path / "within", resume=True))
    assert len(calls) == 4
    assert compiled_generations() == compiled, "a round or a resumed search compiled the generation again"
    # A search that asks for fewer generations, and so for fewer rounds, ends with what it has.
    shorter, _, kept = searched(application, tmp_path / "within", resume=True, generations=2)
    assert kept == rows and same(result.tables, shorter.tables)


def test_mapping_again_does_not_count_as_generations(monkeypatch):
    """In a search whose generations take no time and whose rounds take a fifth of a second each."""

    class Rounds:
        rounds, schedule, end = 0, [2, 4, 6], 8

        def due(self, generation):
            return self.rounds < 3 and generation >= self.schedule[self.rounds]

        def settled(self, volumes):
            return False

        def until_next(self, generation):
            return next((at - generation for at in self.schedule[self.rounds :]), self.end - generation)

        def grown(self, state, space):
            time.sleep(0.2)
            self.rounds += 1
            return space

    one = np.zeros((8, 1), np.float32)
    metrics = generations.Metrics(stability=one, front_size=one, best=one[..., None], merit=one)
    monkeypatch.setattr(generations, "program_of", lambda *_: lambda state, *_: (state, metrics))
    monkeypatch.setattr(generations, "random_candidates", lambda *_: None)
    monkeypatch.setattr(generations, "archived", lambda _: [])
    population = SimpleNamespace(generation=np.zeros(1, int), key=np.zeros(1))
    config = dataclasses.replace(BUDGETS["tiny"].moham, generations=8, chunk=2)
    steps = generations.Generations(
        jax.random.key(0), SimpleNamespace(measures=None), config, resume=SimpleNamespace(population=population),
        problem=SimpleNamespace(), remapper=Rounds(),
    )  # fmt: skip
    told = {progress.generation: progress for _, progress in steps}
    assert max(told) == 8 and all(progress.step_s < 0.1 for progress in told.values())
    assert [round(told[done].rounds_s, 1) for done in (2, 4, 6, 8)] == [0.0, 0.4, 0.2, 0.0]


def remapper(application, mapped, config=REMAP, generations=12):
    tables = cut(mapped, KEPT)
    moham = dataclasses.replace(BUDGETS["tiny"].moham, generations=generations)
    settings = Settings(mapper=MAPPER, moham=moham, remap=config)
    return Remapper(jax.random.key(1), Setup(application, TEMPLATES, TECHNOLOGY, PACKAGE), settings, tables)


def test_polishing_goes_on_until_a_round_gains_next_to_nothing(application, mapped):
    one = remapper(application, mapped, dataclasses.replace(REMAP, polish=3, settle=5), 7)
    assert one.schedule == [3, 6, 7, 12, 17] and one.end == 22
    volumes = {0: 0.1, 3: 0.1, 6: 0.1, 7: 0.1, 12: 0.2, 17: 0.2 * 1.00005, 22: 0.2}
    settled = []
    for one.rounds in range(6):
        settled.append(one.settled(volumes))
    # Rounds within the search end nothing; the second one after it gained too little; after the last one all ends.
    assert settled == [False, False, False, False, True, False]
    one.rounds = 4
    assert not one.settled({**volumes, 17: 0.21}) and not one.settled({12: 0.2})


def test_what_joined_is_restored_to_the_bit(application, mapped):
    one = remapper(application, mapped)
    assert not one.due(2) and one.due(3)
    shapes = jax.tree.map(np.shape, one.saved())
    for seed in (3, 4):
        one.tables, joined = again(application, one.tables, sampled(application, mapped, seed, 6), ROOM // 3)
        one.rounds += 1
        assert joined > 0
    assert not one.due(8) and one.due(9)
    assert jax.tree.map(np.shape, one.saved()) == shapes
    two = remapper(application, mapped)
    two.restore(one.saved())
    assert two.rounds == 2 and same(one.tables, two.tables)
    before = two.saved()
    two.restore(before)
    assert same(before, one.saved()) and same(one.tables, two.tables)
