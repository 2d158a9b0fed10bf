"""Speed of the fluid evaluation: designs per second against the population, and against XLA's own batching.

    python experiments/bench_fluid.py [--jobs 191] [--most 65536] [--seconds 60]

Random schedules of one layer graph on up to 16 chiplets, which share four memory interfaces and the DRAM. Variants:

- `search`: `vmap(simulate)`, of which only the makespan is used;
- `timeline`: `vmap(simulate)`, with all results used;
- `mesh`: as `search`, with the links of the package's mesh that can bind (`contention: mesh`);
- `one block`: the same code without the blocks that keep its state in cache;
- `XLA batching`: the code of one schedule, batched by XLA instead of along our trailing axis.

Runs of the variants alternate. A line gives the median and the fastest run, the processor time (which other processes
disturb less), its ratio to the processor time of `search` in the same round, and the seconds of compilation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import PackageParameters, package_tables
from mohamjax.schedule import fluid

AXES = (0, 0, None, 0, 0, 0, 0, 0, None)


def schedules(seed: int, population: int, jobs: int, tiles: int = 16, interfaces: int = 4) -> list[jax.Array]:
    """Arguments of `simulate`; those that differ by schedule have a leading axis `[population, ...]`."""
    random = np.random.default_rng(seed)
    before: list[list[int]] = [
        [p for p in random.integers(0, j, 2).tolist() if j - p < 12] if j else [] for j in range(jobs)
    ]
    duration = random.integers(100, 20_000, (population, jobs)).astype(np.float32)
    chiplets = random.integers(1, tiles + 1, population)
    uses = np.zeros((population, tiles, interfaces + 1), bool)
    np.put_along_axis(uses, random.integers(0, interfaces, (population, tiles, 1)), True, axis=2)
    uses[:, :, interfaces] = True
    bandwidth = np.full((population, interfaces + 1), 4.0, np.float32)
    bandwidth[:, interfaces] = np.inf
    arguments = (
        duration,
        (duration * random.uniform(0, 4, duration.shape)).astype(np.float32),
        fluid.predecessor_bits(before, jobs),
        (random.integers(0, 2**30, duration.shape) % chiplets[:, None]).astype(np.int32),
        np.tile(np.arange(jobs, dtype=np.int32), (population, 1)),
        uses,
        bandwidth,
        np.full((population, tiles), 16.0, np.float32),
        np.ones(jobs, bool),
    )
    return [jnp.asarray(x) for x in arguments]


def with_mesh(arguments: list[jax.Array]) -> list[jax.Array]:
    """The same schedules with contention for the mesh's links too, on as many tiles, all with chiplets."""
    duration, traffic, bits, accelerator, order, uses, shared, private, mask = arguments
    tiles = private.shape[1]
    trunks = package_tables(PackageParameters(max_tiles=tiles, contention="mesh")).trunks
    assert trunks is not None
    more = jnp.broadcast_to(trunks[tiles], (len(uses), *trunks[tiles].shape))
    links = jnp.full((len(uses), trunks.shape[-1]), 2.0, shared.dtype)
    uses, shared = jnp.concatenate([uses, more], axis=2), jnp.concatenate([shared, links], axis=1)
    return [duration, traffic, bits, accelerator, order, uses, shared, private, mask]


def _records(arguments: Iterable[jax.Array]) -> tuple[fluid.Jobs, fluid.Resources]:
    duration, traffic, bits, accelerator, order, uses, shared, private, mask = arguments
    return fluid.Jobs(duration, traffic, bits, accelerator, order, mask), fluid.Resources(uses, shared, private)


def _one_block(*arguments: jax.Array) -> jax.Array:
    whole = _records(x[None] if axis is None else x for x, axis in zip(arguments, AXES, strict=True))
    return fluid.simulate_block(*whole).makespan


def _one_schedule(*arguments: jax.Array) -> jax.Array:
    return fluid.simulate_block(*_records(x[None] for x in arguments)).makespan[0]


VARIANTS: dict[str, Any] = {
    "search": lambda *a: jax.vmap(fluid.simulate, in_axes=AXES)(*a).makespan,
    "mesh": lambda *a: jax.vmap(fluid.simulate, in_axes=AXES)(*a).makespan,
    "timeline": lambda *a: jax.vmap(fluid.simulate, in_axes=AXES)(*a),
    "one block": _one_block,
    "XLA batching": lambda *a: jax.vmap(_one_schedule, in_axes=AXES)(*a),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=191)
    parser.add_argument("--most", type=int, default=65_536, help="largest population")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS), help="beside `search`")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for the runs of one population, about")
    options = parser.parse_args()
    variants = {name: run for name, run in VARIANTS.items() if name in ("search", *options.variants)}
    device = jax.devices()[0]
    print(
        f"{device.platform} {device.device_kind}, {os.cpu_count()} processors, jax {jax.__version__}, "
        f"{options.jobs} jobs"
    )
    print("population  variant       compile_s  median_ms  fastest_ms  designs/s  processor_us/design  of search")
    for population in (1, 16, 256, 4096, 16_384, 65_536):
        if population > options.most:
            break
        plain = schedules(population, population, options.jobs)
        arguments = {name: with_mesh(plain) if name == "mesh" else plain for name in variants}
        compiled, compile_seconds = {}, {}
        for name, variant in variants.items():
            begin = time.perf_counter()
            compiled[name] = jax.jit(variant).lower(*arguments[name]).compile()
            compile_seconds[name] = time.perf_counter() - begin
        wall: dict[str, list[float]] = {name: [] for name in variants}
        processor: dict[str, list[float]] = {name: [] for name in variants}
        for name, run in compiled.items():
            jax.block_until_ready(run(*arguments[name]))  # the first run allocates
        begin = time.perf_counter()
        while len(wall["search"]) < 3 or (time.perf_counter() - begin < options.seconds and len(wall["search"]) < 21):
            for name, run in compiled.items():
                before, used = time.perf_counter(), time.process_time()
                jax.block_until_ready(run(*arguments[name]))
                processor[name].append(time.process_time() - used)
                wall[name].append(time.perf_counter() - before)
        for name in variants:
            median = statistics.median(wall[name])
            ratio = statistics.median(
                own / base for own, base in zip(processor[name], processor["search"], strict=True)
            )
            print(
                f"{population:10d}  {name:12s}  {compile_seconds[name]:9.2f}  {median * 1e3:9.2f}  "
                f"{min(wall[name]) * 1e3:10.2f}  {population / median:9.0f}  "
                f"{statistics.median(processor[name]) / population * 1e6:19.1f}  {ratio:9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
