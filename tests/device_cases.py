"""Programs that tests of several devices run as processes: XLA fixes the number of devices when it starts.

`eight FOLDER` has eight devices; `pair FOLDER PORT I die|resume` is one of two processes with
two devices each, which are killed after a checkpoint or resume from it.
"""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import time

KIND, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
COUNT = 8 if KIND == "eight" else 2
# Programs run a few times on tiny inputs: the compiler need not optimise.
FLAGS = f" --xla_force_host_platform_device_count={COUNT} --xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + FLAGS

from mohamjax.runtime import programs  # noqa: E402

for own in (programs.jit_o1, programs.jit_o1_plain_loops):
    own.keywords["compiler_options"]["xla_backend_optimization_level"] = 0

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import mohamjax as mj  # noqa: E402
from mohamjax.cli import main  # noqa: E402
from mohamjax.emo.loop import Course  # noqa: E402
from mohamjax.hardware import load_technology  # noqa: E402
from mohamjax.io import CheckpointFile  # noqa: E402
from mohamjax.mapper import MapperConfig  # noqa: E402
from mohamjax.mapper.layer_mapper import LayerMapper  # noqa: E402
from mohamjax.runtime.devices import chosen_devices, join  # noqa: E402
from mohamjax.runtime.struct import take  # noqa: E402
from mohamjax.search import Search, generations, genetic_problem  # noqa: E402
from mohamjax.search.config import Settings, changed  # noqa: E402
from mohamjax.search.generations import Silent  # noqa: E402
from mohamjax.search.plan_operators import PlanRates  # noqa: E402
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape  # noqa: E402

COLLECTIVE = re.compile(
    r"\b(?:stablehlo\.)?(all.gather|all.reduce|all.to.all|collective.permute|reduce.scatter)(?:-start)?\"?\("
)
GENERATIONS, CHUNK, DIES_AT = 6, 2, 4


def problem():
    body = Layer("body", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0,))
    return mj.DesignProblem(
        ApplicationModel("toy", (Network("net", (body, head)),)), ("simba",), mj.Package(max_tiles=2)
    )


def settings(islands=8):
    sizes = {"population": 8, "generations": GENERATIONS, "chunk": CHUNK, "archive": 16}
    settings = changed(Settings.preset("tiny"), {**sizes, "islands": islands, "migration": 2 if islands > 1 else 0})
    return dataclasses.replace(settings, remap=dataclasses.replace(settings.remap, every=0))


class Dies(Silent):
    """Kills the process at a generation, after the checkpoint of an earlier one."""

    def progress(self, progress, generations):
        if progress.generation == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)


def searched(devices, islands=8, *, checkpoint=None, **options):
    own = problem()
    store = None if checkpoint is None else CheckpointFile(checkpoint)
    return Search(
        own, settings(islands), tables=mj.sample_mappings(own, count=8),
        checkpoint=store, checkpoint_every_s=0, devices=devices, **options,
    ).run()  # fmt: skip


def collectives(text):
    """Names of the collectives in the text of a program, with the number of each."""
    found = [name.replace("_", "-") for name in COLLECTIVE.findall(text)]
    return {name: found.count(name) for name in sorted(set(found))}


def lowered_generations(islands):
    """The text of the program that `searched` runs on eight devices, before compilation.

    Under `jax.shard_map` the compiler adds no collectives.
    """
    own = problem()
    space, config = own.arrays(mj.sample_mappings(own, count=8)), settings(islands).moham
    devices = chosen_devices(8)
    program = generations.generations_of(config, devices)._program
    state = generations.state_like(space, config)
    rates = jax.tree.map(jnp.float32, PlanRates())
    course = Course(genetic_problem(config), chunk=config.chunk, migration=config.migration)
    return program.lower(state, space, rates, jnp.int32(0), jnp.bool_(True), course=course).as_text()


def evaluations():
    """Evaluation over devices: the collectives of its program, and whether it gives what one device does."""
    own = problem()
    tables = mj.sample_mappings(own, count=8)
    space = own.arrays(tables)
    designs = mj.sample_designs(jax.random.key(0), space, 37)
    many = jax.vmap(mj.evaluate, (0, None))
    one = jax.jit(many)(designs, space)
    eight = mj.over_devices(many, devices=8)(designs, space)
    whole = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf[:3]]), designs)
    text = chosen_devices(8).over(many).lower(whole, space).compile().as_text()
    return {
        "collectives": collectives(text),
        "close": bool(np.allclose(one, eight, rtol=1e-6)),
        "devices": len(eight.sharding.device_set),
    }


def tables_of_files():
    """Whether a table of many entries is the same for one and for eight devices."""
    own = problem()
    tables = mj.sample_mappings(own, count=8)
    designs = jax.device_get(mj.sample_designs(jax.random.key(1), own.arrays(tables), 30))
    layers = len(own.application.layers)
    cut = {name: getattr(designs, name)[:, :layers] for name in ("order", "assignment", "mapping")}
    mj.write_designs(FOLDER / "designs.npz", own, tables, dataclasses.replace(designs, **cut))
    jobs = {
        "format": "job-table/1",
        "resources": [{"name": "memory", "bandwidth": 4}],
        "accelerators": [{"name": "a", "resources": [0]}, {"name": "b", "resources": [0]}],
        "jobs": [{"name": "one", "duration": [4, 6], "bytes": 4}, {"name": "two", "duration": [4, 3], "bytes": 4}],
        "schedules": [{"name": str(i), "order": [0, 1], "accelerator": [i, 1 - i]} for i in range(2)],
    }
    (FOLDER / "jobs.json").write_text(json.dumps(jobs))
    written = []
    for devices in (None, 8):
        out = FOLDER / f"rows-{devices}.csv"
        summary = mj.evaluate_files([FOLDER / "designs.npz", FOLDER / "jobs.json"], out, devices=devices)
        assert summary.valid == summary.rows == 32, summary
        written.append(out.read_text())
    return written[0] == written[1]


def mapped(devices, descends=True):
    """Objectives of the mappings of four problems, and of those that a descent (if wanted) finds from two copies."""
    own = mj.DesignProblem(problem().application, ("simba", "eyeriss"), mj.Package(max_tiles=2))
    sizes = MapperConfig(population=8, generations=2, immigrants=2, descent=2, archive=8, entries=6, block=1)
    first = mj.map_layers(own, config=sizes, devices=devices)
    if not descends:
        return first.objectives
    given = {
        (int(u), int(t)): [take(take(first.mapping, (u, t)), m) for m in range(first.count[u, t])] * 2
        for u, t in np.argwhere(first.count > 0)
    }
    assert max(map(len, given.values())) > sizes.population + sizes.immigrants
    technology = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), load_technology())
    mapper = LayerMapper(
        own.application.unique_layers, own.templates, technology, sizes, devices=chosen_devices(devices)
    )
    second = mapper.descend(jax.random.key(0), given)
    return np.stack([first.objectives, second.objectives])


def refused(*words):
    """Exit code and error output of a search command."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            code = main(["search", "ar-vr", "--dry-run", *words])
        except SystemExit as end:
            code = end.code
    return code, said.getvalue()


def told(what):
    """Reports a finished step and the processor time so far [s]."""
    print(f"{what}: {time.process_time():.1f} s", file=sys.stderr, flush=True)


def eight():
    shutil.copytree(FOLDER / "killed", FOLDER / "resumed")
    plain = searched(None)
    told("one device")
    eight = searched(8)
    told("eight devices")
    resumed = searched(8, checkpoint=FOLDER / "resumed" / "checkpoint.npz", resume=True)
    told("resumed")
    alone, together = searched(None, 1), searched(8, 1)
    told("one island")
    islands, single = lowered_generations(8), lowered_generations(1)
    told("lowered generations")
    np.save(FOLDER / "plain.npy", plain.front.objectives)
    evaluation = evaluations()
    told("evaluation")
    tables = tables_of_files()
    told("tables")
    np.save(FOLDER / "mapped.npy", mapped(None))
    mappings = np.array_equal(mapped(jax.devices()[3:]), np.load(FOLDER / "mapped.npy"))
    told("mappings")
    return {
        "front": len(plain.front),
        "same": [np.array_equal(plain.front.objectives, run.front.objectives) for run in (eight, resumed)],
        "history": np.allclose(*([row["hypervolume"] for row in run.history] for run in (plain, eight))),
        "resumed": resumed.history[-1]["generation"],
        "one island": np.array_equal(alone.front.objectives, together.front.objectives),
        "moved": not np.array_equal(plain.front.objectives, alone.front.objectives),
        "collectives": [collectives(islands), collectives(single)],
        "evaluations": evaluation,
        "tables": tables,
        "mappings": mappings,
        "refused": [refused("--devices", "8", "--islands", "7"), refused("--devices", "9"), refused("--devices", "0")],
    }


def pair():
    join(f"127.0.0.1:{sys.argv[3]}", 2, int(sys.argv[4]), wait_s=120)
    path = FOLDER / "killed" / "checkpoint.npz"
    if sys.argv[5] == "die":
        searched("all", checkpoint=path, listener=Dies())
        raise AssertionError("it should be dead")
    found = searched("all", checkpoint=path, resume=True)
    np.save(FOLDER / f"mapped-{jax.process_index()}.npy", mapped("all", descends=False))
    if jax.process_index() == 0:
        np.save(FOLDER / "pair.npy", found.front.objectives)
    jax.distributed.shutdown()
    return {"generation": found.history[-1]["generation"], "front": len(found.front)}


if __name__ == "__main__":
    print(json.dumps(eight() if KIND == "eight" else pair()))
