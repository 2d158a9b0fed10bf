"""Is a design of a front dominated by one with its chiplets in other places, or with one chiplet fewer?

Every scenario is searched once; its front is taken before and after closing over places (`mohamjax.search.places`),
which is the search's last step. Variants of every design of both fronts are then tried by brute force, in double
precision from the loop nests on, and without any of the closing's own code:

- by places: all orders of its chiplets, or 1,000 random ones if there are more than six chiplets;
- by dropping: the layers of each chiplet go to each other one that can run them all, on the best mappings that fit it
  as it stands (time^w x energy^(1 - w), w = 0, 1/4, 1/2, 3/4, 1; the smallest where none fits), in the same order;
- by both: the same for chiplets below 1 % of the area where six or fewer are left, with all orders of these.

A design counts as dominated where one of these variants is worse in no objective and better by more than a
ten-thousandth in at least one. In brackets the margin is a ten-millionth, too little for the single precision in which
a search computes.

    python experiments/places.py --out experiments/results/places.md
"""

import argparse
import dataclasses
import itertools
import math
import pathlib
import tempfile
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from report import Report, header
from search_problem import paragraphs

import mohamjax as mj
from mohamjax.hardware import template_arrays
from mohamjax.io import CheckpointFile, mapping_cache
from mohamjax.mapping import stacked_layers, tabulate
from mohamjax.problem.design_problem import DesignProblem
from mohamjax.runtime.blocks import in_blocks
from mohamjax.runtime.struct import cast, take
from mohamjax.schedule import Design
from mohamjax.search import Search, SearchResult, Settings
from mohamjax.workload import SCENARIOS, load_scenario

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
FEW, RANDOM, BLOCK = 6, 1000, 8192
MARGINS = (1e-4, 1e-7)


@jax.jit
def _evaluated(designs, space):
    return in_blocks(jax.vmap(lambda design: mj.evaluate(design, space)), designs, 128)


class Judge:
    """Tries variants of the designs of a front in double precision."""

    def __init__(self, result: SearchResult) -> None:
        front = result.front
        self.application, self.templates = front.application, front.templates
        problem = DesignProblem(front.application, front.templates, front.package, front.technology)
        levels = result.tables.mapping.temporal.shape[-2]
        arrays = template_arrays(front.templates, front.technology, levels=levels, dtype=jnp.float64)
        layers = stacked_layers(unique.shape for unique in front.application.unique_layers)
        nests, count = result.tables.mapping, np.asarray(result.tables.count)
        tables = tabulate(layers, arrays, cast(front.technology, jnp.float64), nests, count)
        self.space = problem.arrays(tables, dtype=jnp.float64)
        self.count, self.unique = count, np.asarray(front.application.unique_of_layer)
        host = jax.device_get(tables)
        self.time = np.maximum(host.cycles, host.offchip_bytes / front.package.interface_bandwidth)
        self.energy, self.area = host.objectives[..., 1], host.objectives[..., 2]
        self.need = np.concatenate([host.capacity, host.fanout.reshape(*host.capacity.shape[:3], -1)], axis=-1)
        self.designs: Design = jax.tree.map(np.asarray, front.designs)
        self.own = self.objectives(self.designs)

    def objectives(self, designs: Design) -> np.ndarray:
        """Objectives `[N, 3]`, evaluated in blocks of one size."""
        number = len(designs.template)
        parts = []
        for first in range(0, number, BLOCK):
            rows = np.minimum(np.arange(first, first + BLOCK), number - 1)
            parts.append(np.asarray(_evaluated(take(designs, rows), self.space)))
        return np.concatenate(parts)[:number] if parts else np.zeros((0, 3))

    def orders(self, design: Design, rng: np.random.Generator) -> Design:
        """One design with its chiplets in other orders."""
        tiles = np.flatnonzero(design.template >= 0)
        n = len(tiles)
        few = n <= FEW
        orders = np.array(
            list(itertools.permutations(range(n))) if few else [rng.permutation(n) for _ in range(RANDOM)]
        )
        goes = np.tile(np.arange(len(design.template)), (len(orders), 1))
        goes[:, tiles] = tiles[orders]
        template = np.full_like(goes, -1)
        np.put_along_axis(template, goes, np.broadcast_to(design.template, goes.shape), axis=1)
        genes: dict[str, Any] = {
            "order": np.broadcast_to(design.order, (len(goes), len(design.order))),
            "assignment": goes[:, design.assignment].astype(np.int32),
            "mapping": np.broadcast_to(design.mapping, (len(goes), len(design.order))),
            "template": template.astype(np.int32),
        }
        return Design(**genes)

    def dropped(self, design: Design, sources: np.ndarray) -> list[Design]:
        """Variants of a design without one of the `sources`, its layers on one of the other chiplets."""
        layers = len(self.unique)
        own, mapping = design.assignment[:layers], design.mapping[:layers]
        found: dict[bytes, Design] = {}
        for target in np.flatnonzero(design.template >= 0):
            t = design.template[target]
            here = own == target
            size = self.need[self.unique[here], t, mapping[here]].max(axis=0)
            for source in sources:
                moves = np.flatnonzero(own == source)
                u = self.unique[moves]
                if source == target or not (self.count[u, t] > 0).all():
                    continue
                exists = np.arange(self.time.shape[2]) < self.count[u, t][:, None]
                fits = exists & (self.need[u, t] <= size).all(axis=-1)
                smallest = np.where(exists, self.area[u, t], np.inf).argmin(axis=1)
                with np.errstate(divide="ignore", invalid="ignore"):
                    log_time, log_energy = np.log(self.time[u, t]), np.log(self.energy[u, t])
                for w in WEIGHTS:
                    score = np.where(fits, w * log_time + (1 - w) * log_energy, np.inf)
                    best = np.where(fits.any(axis=1), score.argmin(axis=1), smallest)
                    new = jax.tree.map(np.copy, design)
                    new.assignment[moves], new.mapping[moves], new.template[source] = target, best, -1
                    found.setdefault(new.assignment.tobytes() + new.mapping.tobytes(), new)
        return list(found.values())

    def dominated(self, variants: list[tuple[int, Design]]) -> list[int]:
        """Number of designs of the front that some variant dominates, for each of `MARGINS`.

        Args:
            variants: row of a design, and a batch of its variants.
        """
        if not variants:
            return [0] * len(MARGINS)
        rows = np.concatenate([np.full(len(designs.template), row) for row, designs in variants])
        reached = self.objectives(jax.tree.map(lambda *x: np.concatenate(x), *[designs for _, designs in variants]))
        own = self.own[rows]
        no_worse = (reached <= own * (1 + 1e-9)).all(axis=1)
        return [len(set(rows[no_worse & (reached < own * (1 - margin)).any(axis=1)])) for margin in MARGINS]


def judged(result: SearchResult, seed: int) -> list[str]:
    """Cells of a row: designs, those with a tiny chiplet, and those dominated by places, by dropping and by both."""
    judge, rng = Judge(result), np.random.default_rng(seed)
    places, drops, both = [], [], []
    areas = np.asarray(result.front.reports.chiplets.area)
    specks = 0
    for i, area in enumerate(areas):
        design = take(judge.designs, i)
        standing = np.flatnonzero(design.template >= 0)
        tiny = standing[area[standing] < 0.01 * area.sum()]
        specks += len(tiny) > 0
        places.append((i, judge.orders(design, rng)))
        stack = judge.dropped(design, standing)
        if stack:
            drops.append((i, jax.tree.map(lambda *x: np.stack(x), *stack)))
        if len(standing) <= FEW + 1:
            both += [(i, judge.orders(new, rng)) for new in judge.dropped(design, tiny)]
    cells = [str(len(areas)), str(specks)]
    for variants in (places, drops, both):
        many, all_of_them = judge.dominated(variants)
        cells.append(f"{many} ({all_of_them}) of {sum(len(d.template) for _, d in variants):,}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="small")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", nargs="+", default=["mobile", "edge", "ar-vr", "data-center"], choices=SCENARIOS)
    parser.add_argument("--keep", type=pathlib.Path, help="folder of the searches' checkpoints, to judge them again")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    report = Report()
    report.say("# Fronts closed over places", "", *[line for text in paragraphs(__doc__)[1:4] for line in (text, "")])
    report.say(f"{header()}.", "")
    report.head(
        "scenario", "closed", "designs", "with a chiplet below 1 %", "dominated by places", "by dropping", "by both",
        "closing: rounds", "evaluations", "replaced", "seconds", "search [s]", "hypervolume",
    )  # fmt: skip
    for scenario in arguments.scenarios:
        application = load_scenario(scenario)
        settings = Settings.preset(arguments.budget, seed=arguments.seed)
        with tempfile.TemporaryDirectory() as folder:
            kept = (arguments.keep or pathlib.Path(folder)) / f"{scenario}-{arguments.budget}-{arguments.seed}.npz"
            kept.parent.mkdir(parents=True, exist_ok=True)
            problem, rounds = DesignProblem(application), dataclasses.replace
            plain, closed = (
                Search(
                    problem, rounds(settings, moham=rounds(settings.moham, end_rounds=n)), cache=mapping_cache(),
                    checkpoint=CheckpointFile(kept), resume=True,
                ).run()
                for n in (0, 100)
            )  # fmt: skip
        seconds = f"{plain.history[-1]['seconds']:.0f}"
        for name, result in (("no", plain), ("yes", closed)):
            done = result.config.get("closing", {})
            tick = time.perf_counter()
            with jax.enable_x64(True):
                cells = judged(result, arguments.seed)
            took = result.timings["closing_s"] if done else math.nan
            report.row(
                scenario, name, *cells,
                *(f"{done[key]:,}" if done else "" for key in ("rounds", "evaluations", "replaced")),
                f"{took:.0f}" if done else "", seconds, f"{result.hypervolume:.5f}",
            )  # fmt: skip
            print(f"(judged in {time.perf_counter() - tick:.0f} s)", flush=True)
        report.write(arguments.out)


if __name__ == "__main__":
    main()
