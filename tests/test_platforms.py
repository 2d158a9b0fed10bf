"""Functions with a different form on accelerators: equal results on a CPU, and programs that lower for CUDA."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import plain_emo
import pytest
from design_cases import TECHNOLOGY, chains, recast, space_of, tables
from jax import export
from mapping_cases import ARRAYS, random_shape, space
from test_gsharp import random_table

from mohamjax import emo
from mohamjax.emo.loop import Course, Sizes, generations, start
from mohamjax.emo.nsga2 import repeated_few
from mohamjax.emo.wide import profiles, repeated
from mohamjax.hardware import PackageParameters
from mohamjax.jobs.genetic import DEFAULT_RATES, gsharp_problem
from mohamjax.jobs.job_problem import job_problem
from mohamjax.jobs.scheduler import searched_islands
from mohamjax.mapper import block_search
from mohamjax.mapper.config import MapperConfig, MapperRates
from mohamjax.mapping import Counting, evaluate_batch
from mohamjax.mapping.space import decode, sample, stack_spaces
from mohamjax.runtime.blocks import in_fitting_blocks
from mohamjax.runtime.platforms import accelerated, by_platform, compiler_options, short_scan, traced
from mohamjax.schedule.fluid import Jobs, Resources, link_at_once, link_by_walk, predecessor_bits, timeline_of
from mohamjax.search.config import MohamConfig, Rates
from mohamjax.search.moham import genetic_problem
from mohamjax.search.plan_operators import PlanRates

FORMS = ("cpu", "wide")


def in_both(function, *arguments):
    """The results of a function in both forms, with NumPy leaves."""
    found = []
    for form in FORMS:
        with traced(form):
            found.append(jax.device_get(function(*arguments)))
    return found


def same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


# ---------------------------------------------------------------- the choice


@pytest.mark.slow
def test_a_program_takes_the_form_of_the_platform_that_it_is_lowered_for():
    def which(x):
        return by_platform(x, cpu=jnp.sin, wide=jnp.cos)

    x = jnp.float32(0)
    assert not accelerated() and float(jax.jit(which)(x)) == 0
    with traced("both"):
        assert accelerated()
        text = {p: export.export(jax.jit(which), platforms=[p])(x).mlir_module() for p in ("cpu", "cuda")}
    assert "sine" in text["cpu"] and "cosine" not in text["cpu"]
    assert "cosine" in text["cuda"] and "stablehlo.sine" not in text["cuda"]
    for form, value in zip(FORMS, (0, 1), strict=True):
        with traced(form):
            assert float(jax.jit(which)(x)) == value
    with pytest.raises(ValueError, match="expected one of cpu, wide, both"), traced("gpu"):
        pass


def test_the_form_is_that_of_the_device_that_jax_takes(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")

    def which(x):
        return by_platform(x, cpu=jnp.sin, wide=jnp.cos)

    assert accelerated() and float(which(jnp.float32(0))) == 1
    assert "fusion-block-level-rewriter" in compiler_options().values()
    with jax.default_device(jax.devices("cpu")[0]):
        assert not accelerated() and float(which(jnp.float32(0))) == 0 and compiler_options() == {}
    with jax.default_device("cpu"):
        assert not accelerated()


@pytest.mark.slow
def test_blocks_and_short_loops_give_the_same_in_either_form():
    rows = jnp.arange(300, dtype=jnp.float32)
    with traced("wide"):
        widths = []
        in_fitting_blocks(lambda x: widths.append(len(x)) or x, rows, 16)
        in_fitting_blocks(lambda x: widths.append(len(x)) or x, rows, 16, 100)
        assert widths == [300, 100]
    same(*in_both(lambda x: in_fitting_blocks(lambda b: b * 3, x, 16), rows))

    def total(x):
        return short_scan(lambda sum, y: (sum * 0.9 + y, sum), jnp.float32(0), x, reverse=True)

    # In unrolled steps the compiler may fuse a product and a sum into one instruction.
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), *in_both(jax.jit(total), rows))


def test_the_mapper_searches_all_problems_at_once_on_an_accelerator():
    config = MapperConfig()
    assert config.problems_at_once(700) == 8
    with traced("wide"):
        assert [config.problems_at_once(n) for n in (1, 33, 700, 5000)] == [32, 64, 704, 1024]
        assert config.blocks_at_once() == 1
    assert dataclasses.replace(config, block=7).problems_at_once(700) == 7


# ---------------------------------------------------------------- the forms


@pytest.mark.slow
@pytest.mark.parametrize("rows", [40, 1500])
def test_ranks_over_several_blocks_are_those_of_the_definition(rows):
    rng = np.random.default_rng(rows)
    for kind in ("uniform", "ties", "chain", "unknown"):
        f = rng.random((rows, 3)).astype(np.float32)
        f = {"ties": np.round(4 * f), "chain": np.repeat(rng.permutation(rows)[:, None], 3, 1)}.get(kind, f)
        f = np.where(rng.random(f.shape) < 0.2, np.nan, f) if kind == "unknown" else f
        got = emo.non_dominated_rank(f.astype(np.float32), method="wide")
        np.testing.assert_array_equal(got, plain_emo.rank(f))


@pytest.mark.slow
def test_ranks_take_their_phases():
    """There are more groups of blocks than phases: rows are only compared with rows of their own and later phases."""
    f = np.random.default_rng(1).random((16_500, 2)).astype(np.float32)
    ranks = [emo.non_dominated_rank(f, method=method) for method in ("blocked", "wide")]
    np.testing.assert_array_equal(*ranks)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_repeated_rows_are_found_by_a_sort(m):
    f = np.random.default_rng(m).integers(0, 3, (60, m)).astype(np.float32)
    f[::7] = np.inf
    np.testing.assert_array_equal(repeated_few(jnp.asarray(f)), repeated(jnp.asarray(f)))


def batches(kind, rows):
    """Rows close to a plane: few dominate one another, so that an archive overflows."""
    rng = np.random.default_rng(rows)
    out = [rng.dirichlet(np.ones(3), rows).astype(np.float32) * (1 + 0.2 * rng.random((rows, 1))) for _ in range(3)]
    out = [np.where(rng.random((rows, 1)) < 0.1, np.inf, b) for b in out]
    return [(np.round(b, 2) + 0.01 if kind == "ties" else b).astype(np.float32) for b in out]


@pytest.mark.slow
@pytest.mark.parametrize("guarded", ["nothing", "box", "product"])
@pytest.mark.parametrize(("kind", "log"), [("distinct", False), ("ties", True)])
def test_the_archive_keeps_the_same_rows(kind, log, guarded):
    box = (np.full(3, 1e-3, np.float32), np.full(3, 1.5, np.float32)) if guarded == "box" else None
    exponents = np.asarray([1, 1, 0.5], np.float32) if guarded == "product" else None
    options = {"log_crowding": log, "box": box, "exponents": exponents}

    def fill(capacity, given):
        archive, first = emo.archive_init(capacity, np.int32(0), 3), 0
        for batch in given:
            ids = np.arange(first, first + len(batch), dtype=np.int32)
            archive, first = emo.archive_update(archive, ids, batch, **options), first + len(batch)
        return archive

    for capacity, rows in ((7 if guarded == "box" else 12, 40), (40, 1100)):
        one, other = in_both(fill, capacity, batches(kind, rows))
        assert one.thinned == other.thinned > 0
        same(one.valid, other.valid)
        same(one.objectives, other.objectives)
        same(one.genes[one.valid], other.genes[one.valid])


@pytest.mark.parametrize("rows", [1, 40])
def test_hypervolume(rows):
    front = np.random.default_rng(rows).random((rows, 3)).astype(np.float32)
    front[::5] = np.inf
    one, other = in_both(emo.hypervolume, front, np.full(3, 0.9, np.float32))
    np.testing.assert_allclose(one, other, rtol=1e-6)
    before, after = profiles(jnp.asarray([1.0, 3.0, 2.0]), jnp.asarray([3, 1, 2]))
    np.testing.assert_array_equal(before, [[0, 0, 0], [1, 1, 1], [3, 1, 1]])
    np.testing.assert_array_equal(after, [[1, 1, 1], [3, 1, 1], [3, 2, 1]])


@pytest.mark.parametrize("places", [1, 70])
def test_places_are_linked(places):
    at = jnp.asarray(np.random.default_rng(places).integers(-1, 6, (places, 9)), jnp.int32)
    same(link_by_walk(at, 5), link_at_once(at, 5))


# ---------------------------------------------------------------- whole programs


@functools.cache
def context(genes):
    """A small problem of the co-optimiser over made-up tables."""
    problem = chains(3)
    made = recast(tables(problem, 3), np.float32)
    config = MohamConfig(population=16, archive=16, genes=genes, seeded=False, chunk=2)
    return space_of(problem, made, package=PackageParameters(max_tiles=4)), config


@functools.cache
def generation(genes):
    own, config = context(genes)
    problem = genetic_problem(config)
    sizes = Sizes(population=16, immigrants=config.immigrant_count, archive=16)
    first = jax.jit(functools.partial(start, problem=problem, islands=2, sizes=sizes))
    state = jax.eval_shape(first, jax.random.key(0), own)
    rates = jax.tree.map(jnp.float32, PlanRates() if genes == "plans" else Rates())
    step = jax.jit(functools.partial(generations, course=Course(problem, chunk=2)))
    return first, step, (state, own, rates, jnp.int32(2), jnp.bool_(True))


def evaluation(genes):
    own, config = context(genes)
    waiting = generation(genes)[2][0].candidates
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), waiting)
    return jax.jit(genetic_problem(config).evaluate), (one, own)


SPACES = 4


@functools.cache
def problems():
    """Map spaces of a few layers on the first templates, and the templates' arrays."""
    rng = np.random.default_rng(0)
    which = np.arange(SPACES) % 3
    spaces = stack_spaces([jax.device_get(space(t, random_shape(rng))) for t in which])
    return jax.tree.map(jnp.asarray, spaces), jax.tree.map(lambda leaf: leaf[which], ARRAYS)


@functools.cache
def batch():
    """`evaluate_batch` on random mappings, more than one block holds on a CPU."""
    spaces, templates = problems()
    which = np.arange(150) % SPACES

    @jax.jit
    def draw(keys, spaces):
        return jax.vmap(lambda key, space: decode(sample(key, space), space))(keys, spaces)

    spaces, machines = jax.tree.map(lambda leaf: leaf[which], (spaces, templates.machine))
    keys = jax.random.split(jax.random.key(0), 150)
    mappings = draw(keys, spaces)
    return functools.partial(evaluate_batch, counting=Counting(max_children=64)), (spaces.layer, mappings, machines)


@functools.cache
def mapping():
    """The programs of one mapper generation, with their arguments."""
    spaces, templates = problems()
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), TECHNOLOGY)
    search = block_search.mapping_search(Sizes(8, 2, 12), True, jnp.dtype(jnp.float32))
    keys = jax.random.split(jax.random.key(0), SPACES)
    rates = jax.tree.map(jnp.float32, MapperRates())
    state, genes = block_search.start.eval_shape(keys, spaces, None, None, search=search)
    values = jax.ShapeDtypeStruct((SPACES, 10, 3), jnp.float32)
    tried, exists = (jax.ShapeDtypeStruct((SPACES, n), bool) for n in (12, 10))
    return {
        "ask": (block_search.ask, (state, spaces, rates), {"search": search}),
        "evaluate": (block_search.evaluate, (genes, spaces, templates, single), {"fixed": False, "max_children": 0}),
        "tell": (block_search.tell, (state, genes, values), {"search": search}),
        "neighbours": (block_search.next_neighbours, (state.archive, tried, spaces), {"count": 10}),
        "enter": (block_search.enter, (state.archive, tried, genes, exists, values), {}),
        "finish": (block_search.finish, (state.archive, spaces), {"entries": 6}),
    }


@functools.cache
def jobs():
    problem = job_problem(random_table(5), jobs=24, accelerators=6)
    stacked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], problem)
    rates = jax.tree.map(jnp.float32, DEFAULT_RATES)
    problem = gsharp_problem(("makespan", "energy"))
    static = {"problem": problem, "sizes": Sizes(population=16, immigrants=0, archive=16), "generations": 2}
    return searched_islands, (jax.random.split(jax.random.key(0), 1), stacked, None, rates), static


MAPPER = ("ask", "evaluate", "tell", "neighbours", "enter", "finish")
PROGRAMS = {
    "generation of layers": lambda: (*generation("layers")[1:], {}),
    "generation of plans": lambda: (*generation("plans")[1:], {}),
    "evaluation of designs": lambda: (*evaluation("plans"), {}),
    "evaluate_batch": lambda: (jax.jit(batch()[0]), batch()[1], {}),
    **{f"mapper, {name}": functools.partial(lambda name: mapping()[name], name) for name in MAPPER},
    "G#": jobs,
}
"""Every program that a search runs in every generation, or that takes as long: function, arguments, static ones."""


@pytest.fixture(scope="module")
def exported():
    """StableHLO of each program, lowered for CUDA."""
    made = {name: make() for name, make in PROGRAMS.items()}
    with traced("wide"):  # the form that CUDA takes; tracing one form is half the work
        texts = {}
        for name, (function, arguments, static) in made.items():
            # Without compiler options, which an export does not accept.
            plain = jax.jit(functools.partial(function.__wrapped__, **static))
            texts[name] = export.export(plain, platforms=["cuda"])(*arguments).mlir_module()
        return texts


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_needs_neither_the_host_nor_double_precision_on_a_gpu(name, exported):
    text = exported[name]
    calls = set(re.findall(r"custom_call @(\w+)", text))
    assert not {call for call in calls if "callback" in call or "python" in call}, calls
    assert not re.search(r"\b(infeed|outfeed|send|recv)\b", text)
    assert not re.search(r"x?f64\b", text)
    # No arrays of signed 64-bit integers. (JAX counts random words in unsigned ones before it halves them.)
    assert not re.search(r"tensor<\d[\dx]*xi64>", re.sub(r"stablehlo\.constant[^\n]*|dense<[^\n]*", "", text))


@pytest.mark.slow
def test_evaluate_batch_says_the_same_in_either_form():
    function, arguments = batch()
    one, other = in_both(jax.jit(function), *arguments)
    same((one.reason, one.level, one.plausible), (other.reason, other.level, other.plausible))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), one, other)


@pytest.mark.slow
def test_a_search_of_jobs_says_the_same_in_either_form():
    function, arguments, static = jobs()
    one, other = in_both(functools.partial(function, **static), *arguments)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), one, other)


@pytest.mark.slow
def test_timelines_are_the_same_in_either_form():
    rng, jobs, cores = np.random.default_rng(2), 40, 4
    before = [[p for p in range(j) if rng.random() < 0.05] for j in range(jobs)]
    shared = Resources(jnp.ones((cores, 1)), jnp.asarray([2.0]), jnp.full(cores, jnp.inf))

    def run(duration, traffic, accelerator):
        bits, mask = predecessor_bits(before), jnp.arange(jobs) < 37
        return timeline_of(Jobs(duration, traffic, bits, accelerator, jnp.arange(jobs), mask), shared)

    drawn = rng.random((2, 5, jobs)).astype(np.float32)
    one, other = in_both(jax.jit(jax.vmap(run)), *drawn, rng.integers(0, cores, (5, jobs), np.int32))
    assert one.ok.all()
    same(one.reason, other.reason)
    np.testing.assert_allclose(one.end, other.end, rtol=1e-6)
