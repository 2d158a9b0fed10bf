"""Speed of the loop-nest cost model: mappings per second against the batch size.

    python experiments/bench_cost_model.py [--scenario ar-vr] [--layers 8] [--most 1048576] [--seconds 20] [--double]
        [--out experiments/results/cost_model.md]

Random mappings of layers of every type of a scenario are evaluated on every packaged template at its full size. Each
batch mixes them, and one compilation serves all, which the script asserts. The model gives each mapping's counts,
validity, cycles and energy. Variants:

- `counts`: without wire energy;
- `own wires`: wires on the array that the mapping uses, as the mapper counts them;
- `full wires`: wires on the template's full array, as Timeloop counts them.

Runs of the variants alternate. A row gives the median and the fastest rate, the processor time per mapping (which other
processes disturb less), the memory per mapping (arguments and working space) and, separately, the seconds of
compilation.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from report import header

from mohamjax.hardware import load_technology, load_templates, template_arrays
from mohamjax.mapping import Counting, constraints, evaluate_batch, map_space
from mohamjax.mapping.space import decode, prime_factors, sample, stack_spaces
from mohamjax.workload import load_scenario

DRAWN = 65_536


def problems(scenario: str, layers: int, dtype: Any) -> tuple[Any, Any, Any]:
    """(layers, spaces, machines) of every chosen layer on every template that runs it, stacked."""
    templates, technology = load_templates(), load_technology()
    arrays = jax.device_get(template_arrays(templates, technology, dtype=dtype))
    unique = load_scenario(scenario, warn=lambda text: None).unique_layers
    # Takes layers of every type in turn, spread over the network.
    by_type: dict[str, list[Any]] = {}
    for layer in unique:
        by_type.setdefault(layer.type, []).append(layer)
    chosen = [group[len(group) * i // layers] for i in range(layers) for group in by_type.values()][:layers]
    primes = max(sum(len(prime_factors(bound)) for bound in layer.shape.bounds) for layer in chosen)
    spaces, machines = [], []
    for t, template in enumerate(templates):
        machine = jax.tree.map(lambda leaf, t=t: leaf[t], arrays.machine)
        levels = machine.level_mask.shape[0]
        for layer in chosen:
            if template.runs(layer.type):
                limits = constraints(template, layer.type, layer.shape, levels)
                spaces.append(map_space(layer.shape, limits, machine, primes))
                machines.append(machine)
    machines = jax.tree.map(lambda *leaves: np.stack(leaves), *machines)
    spaces = stack_spaces(spaces)
    return spaces.layer, spaces, machines


def drawn(key: jax.Array, spaces: Any, which: np.ndarray) -> Any:
    """A random mapping for each entry of `which`, an index of a problem."""

    def one(key: jax.Array, index: jax.Array) -> Any:
        space = jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], spaces)
        return decode(sample(key, space), space)

    keys = jax.random.split(key, len(which))
    return jax.jit(lambda *x: jax.lax.map(lambda pair: one(*pair), x, batch_size=1024))(keys, which)


def variant(name: str, block_size: int) -> Any:
    def run(layers: Any, mappings: Any, machines: Any) -> Any:
        if name == "own wires":
            used = jnp.prod(mappings.spatial.astype(machines.fanout.dtype), axis=3)
            machines = dataclasses.replace(machines, fanout=jnp.moveaxis(used, 1, 2))
        result = evaluate_batch(layers, mappings, machines, Counting(wires=name != "counts"), block_size=block_size)
        return result.cycles.total, result.cycles.onchip, result.energy.total, result.reason, result.level

    return jax.jit(run)


def one_compilation(layers: Any, mappings: Any, machines: Any, which: np.ndarray, block_size: int) -> int:
    """Evaluates a batch of every (layer, template) pair by itself; returns the number of pairs.

    Raises:
        AssertionError: some pair needed a compilation of its own.
    """
    function = variant("own wires", block_size)
    pairs = np.unique(which)
    for pair in pairs:
        own = np.resize(np.flatnonzero(which == pair), 64)
        same = np.full(64, pair)
        pick = [jax.tree.map(lambda x, i=i: jnp.asarray(x)[i], t) for t, i in ((layers, same), (machines, same))]
        jax.block_until_ready(function(pick[0], jax.tree.map(lambda x, i=own: x[i], mappings), pick[1]))
    assert function._cache_size() == 1, f"{function._cache_size()} compilations for {len(pairs)} pairs"
    return len(pairs)


COLUMNS = ("batch", "variant", "mappings/s", "fastest/s", "us of processor", "bytes", "compile s")


def report(options: argparse.Namespace, rows: list[tuple[str, ...]], pairs: int) -> str:
    """The table in Markdown."""
    precision = "double" if options.double else "single"
    lines = [
        "# Speed of the loop-nest cost model",
        "",
        f"{header()}, {precision} precision, blocks of "
        f"{options.block} mappings. "
        f"Scenario {options.scenario}, {options.layers} layers on every packaged template that runs them: {pairs} "
        "pairs, mixed in each batch; one compilation per batch size serves them all.",
        "",
        "`counts` has no wire energy; `own wires` has wires on the array that the mapping uses, as the mapper "
        "counts them; `full wires` has them on the template's full array, as Timeloop counts them. Values are "
        "medians of alternating runs; processor time and bytes (arguments and working space) are per mapping; "
        "compile time is listed separately.",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: |",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the loop-nest cost model.")
    parser.add_argument("--scenario", default="ar-vr")
    parser.add_argument("--layers", type=int, default=8, help="layers of the scenario")
    parser.add_argument("--most", type=int, default=1_048_576, help="largest batch")
    parser.add_argument("--most-full", type=int, default=65_536, help="largest batch for wires on the full array")
    parser.add_argument("--seconds", type=float, default=20.0, help="time for the runs of one batch size, about")
    parser.add_argument("--block", type=int, default=128, help="mappings evaluated together")
    parser.add_argument("--double", action="store_true", help="double precision")
    parser.add_argument("--out", type=pathlib.Path, help="also write the table to this file")
    options = parser.parse_args()
    with jax.enable_x64(options.double):
        text = measure(options)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


def measure(options: argparse.Namespace) -> str:
    layers, spaces, machines = problems(options.scenario, options.layers, np.float64 if options.double else np.float32)
    pool = min(DRAWN, options.most)
    which = np.random.default_rng(0).integers(0, layers.bounds.shape[0], pool).astype(np.int32)
    mappings = drawn(jax.random.key(0), spaces, which)
    pairs = one_compilation(layers, mappings, machines, which, options.block)
    rows = []
    print(("{:>16s}" * len(COLUMNS)).format(*COLUMNS), flush=True)
    for batch in (1, 64, 1024, 8192, 65_536, 262_144, 1_048_576):
        if batch > options.most:
            break
        index = np.arange(batch) % pool
        pair = which[index]
        arguments = (
            jax.tree.map(lambda x, p=pair: jnp.asarray(x[p]), layers),
            jax.tree.map(lambda x, i=index: x[i], mappings),
            jax.tree.map(lambda x, p=pair: jnp.asarray(x[p]), machines),
        )
        given = sum(leaf.nbytes for leaf in jax.tree.leaves(arguments))
        names = [n for n in ("counts", "own wires", "full wires") if n != "full wires" or batch <= options.most_full]
        runs, seconds, memory = {}, {}, {}
        for name in names:
            begin = time.perf_counter()
            runs[name] = variant(name, options.block).lower(*arguments).compile()
            seconds[name] = time.perf_counter() - begin
            analysis = runs[name].memory_analysis()
            memory[name] = (given + getattr(analysis, "temp_size_in_bytes", 0)) / batch
            jax.block_until_ready(runs[name](*arguments))  # the first run allocates
        wall: dict[str, list[float]] = {name: [] for name in names}
        processor: dict[str, list[float]] = {name: [] for name in names}
        begin = time.perf_counter()
        while len(wall["counts"]) < 3 or (time.perf_counter() - begin < options.seconds and len(wall["counts"]) < 41):
            for name in names:
                before, used = time.perf_counter(), time.process_time()
                jax.block_until_ready(runs[name](*arguments))
                processor[name].append(time.process_time() - used)
                wall[name].append(time.perf_counter() - before)
        for name in names:
            rows.append(
                (
                    f"{batch:,}",
                    name,
                    f"{batch / statistics.median(wall[name]):,.0f}",
                    f"{batch / min(wall[name]):,.0f}",
                    f"{statistics.median(processor[name]) / batch * 1e6:.2f}",
                    f"{memory[name]:,.0f}",
                    f"{seconds[name]:.1f}",
                )
            )
            print(("{:>16s}" * len(COLUMNS)).format(*rows[-1]), flush=True)
    return report(options, rows, pairs)


if __name__ == "__main__":
    main()
