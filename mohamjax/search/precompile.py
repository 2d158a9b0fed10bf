"""Compiles the programs of a search while the layer mapper works, by running the search on made-up tables.

Programs depend on shapes alone, and those of a search follow from networks, templates, requirements and settings before
any layer is mapped. A precompilation runs a search with tables of these shapes from beginning to end, in threads of its
own: first the search's programs, then those that evaluate its front in double precision; both at once when the search
already waits for the first. Its results are not used. Where a shape is guessed wrong (templates with axes of more than
16 children, `wires`; a front much smaller than its archive), the program is compiled when it is needed.
It saves 8 % of the first `mohamjax search ar-vr --budget tiny` on a machine with two cores, and 7 % of the second
(`experiments/results/saved_seconds.md`).
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import Technology, Template, fits, template_arrays
from mohamjax.mapping import Mapping, MappingTables
from mohamjax.mapping.tables import column_shapes
from mohamjax.problem.design_problem import DesignProblem
from mohamjax.problem.space import immediate, room_for
from mohamjax.runtime.devices import Devices, gathered
from mohamjax.runtime.programs import at_this_precision, once
from mohamjax.runtime.struct import cast
from mohamjax.schedule import Design, padded_jobs, reevaluate, scenario_bounds
from mohamjax.schedule.measures import of_frames
from mohamjax.schedule.periods import frame_jobs
from mohamjax.search.config import Settings
from mohamjax.search.finish import finished
from mohamjax.search.generations import Generations
from mohamjax.search.moham import genetic_problem
from mohamjax.search.ordering import orderings
from mohamjax.search.places import closing
from mohamjax.workload import DIMS, ApplicationModel, UniqueLayer


def _runs(layers: Sequence[UniqueLayer], templates: Sequence[Template]) -> np.ndarray:
    """`[U, T]` bool, which templates run each layer."""
    return np.array([[fits(template, x.type, x.shape) is None for template in templates] for x in layers])


def made_up_tables(
    layers: Sequence[UniqueLayer], templates: Sequence[Template], technology: Technology, entries: int
) -> MappingTables:
    """Tables with the shapes of the mapper's tables; the chiplet sizes of their mappings differ wherever they can.

    Args:
        layers: U unique layers.
        templates: T templates.
        technology: energy and area tables.
        entries: M, entries of a set; all of them exist where the template runs the layer.

    Returns:
        Tables in single precision, NumPy arrays. Every mapping has all its loops at the outermost level.
    """
    arrays: Any = jax.device_get(template_arrays(templates, technology, dtype=jnp.float32))
    machine = arrays.machine
    levels, spaces = machine.capacity.shape[1], 3
    lead = (len(layers), len(templates), entries)
    columns: dict[str, Any] = {
        name: np.ones((*lead, *shape), np.float32) for name, shape in column_shapes(levels, spaces).items()
    }
    step = np.arange(entries, dtype=np.float32)
    columns["cycles"] += 1e6 + 1e4 * step
    columns["objectives"][...] = np.stack([1e6 + 1e4 * step, 1e9 - 1e6 * step, 1e5 + 1e3 * step], axis=-1)
    capacity = np.where(np.isfinite(machine.capacity) & machine.level_mask, machine.capacity, 0.0)
    columns["capacity"][...] = np.minimum(1 + step[:, None], capacity[:, None])
    columns["fanout"][...] = 1 + step[:, None, None] % np.maximum(machine.fanout, 1)[:, None]
    runs = _runs(layers, templates)
    bounds = np.array([x.shape.bounds for x in layers], np.int32)
    unit = np.arange(len(DIMS), dtype=np.int32)
    temporal = np.ones((*lead, levels, len(DIMS)), np.int32)
    for t, mask in enumerate(np.asarray(machine.level_mask)):
        temporal[:, t, :, np.flatnonzero(mask)[-1]] = bounds[:, None]
    nests = Mapping(
        temporal=temporal,
        order=np.broadcast_to(unit, temporal.shape),
        spatial=np.ones((*lead, 2, levels, len(DIMS)), np.int32),
        spatial_order=np.broadcast_to(unit, (*lead, 2, levels, len(DIMS))),
        keep=np.zeros((*lead, levels, spaces), bool),
    )
    columns["count"] = np.where(runs, entries, 0).astype(np.int32)
    return MappingTables(mapping=nests, **columns)


def made_up_designs(application: ApplicationModel, templates: Sequence[Template], tiles: int, number: int) -> Design:
    """Equal designs on few chiplets, with the shapes of a search's designs.

    Args:
        application: the networks.
        templates: T templates; of those that run a layer, it is placed on the one that runs most layers.
        tiles: S, of the package.
        number: N, number of designs.

    Returns:
        Designs `[N, ...]`, NumPy arrays.
    """
    layers = len(application.layers)
    able = _runs(application.unique_layers, templates)[np.asarray(application.unique_of_layer)]
    favour = np.argsort(-able.sum(axis=0), kind="stable")
    chosen, tile = np.unique(favour[np.argmax(able[:, favour], axis=1)], return_inverse=True)
    order = np.arange(padded_jobs(layers), dtype=np.int32)
    assignment = np.zeros_like(order)
    assignment[:layers] = tile % tiles
    template = np.full(tiles, -1, np.int32)
    template[: len(chosen)] = chosen[:tiles]
    genes: dict[str, Any] = {
        name: np.broadcast_to(leaf, (number, *leaf.shape))
        for name, leaf in (
            ("order", order), ("assignment", assignment), ("mapping", np.zeros_like(order)), ("template", template),
        )
    }  # fmt: skip
    return Design(**genes)


class Precompilation:
    """Compiles a search and the evaluation of its front on made-up tables, in two threads of its own."""

    def __init__(self, problem: DesignProblem, settings: Settings, devices: Devices | None = None) -> None:
        """Starts compiling; searches of the same shapes are compiled once per process.

        Args:
            problem: of the search.
            settings: of the search.
            devices: of the search.
        """
        self._problem, self._settings, self._devices = problem, settings, devices
        self._rates = settings.plan_rates if settings.moham.genes == "plans" else settings.rates
        # The number of frames in flight depends on the frame rates.
        self._frames = ()
        if of_frames(settings.moham.objectives):
            self._frames = frame_jobs(problem.application, settings.moham.periods).layer.shape
        # Until the search waits, the parts run one after the other, which leaves the mapper a processor.
        self._both, self._ended = threading.Event(), threading.Event()
        mark = self._mark()
        self._pool = concurrent.futures.ThreadPoolExecutor(2, "precompilation")
        self._parts = [
            self._pool.submit(at_this_precision(self._first), ("_search", *mark)),
            self._pool.submit(at_this_precision(self._second), ("_report", *mark)),
        ]

    def _mark(self) -> tuple[Any, ...]:
        """All that the shapes depend on."""
        problem, settings, resolved = self._problem, self._settings, self._problem.resolved
        application = problem.application
        layers = application.layers
        before = immediate([layer.predecessors for layer in layers])
        after = np.bincount([p for needs in before for p in needs], minlength=1)
        kinds = room_for(np.array(application.unique_of_layer), resolved.allowed, resolved.pin)
        return (
            "precompilation", len(layers), len(application.unique_layers), len(application.networks),
            max(map(len, before)), int(after.max()), kinds,
            tuple(template.content_hash() for template in resolved.templates),
            settings.moham, settings.mapper.entries, settings.remap, problem.package, problem.max_chiplets,
            resolved.projects, bool(resolved.chiplet_limits),
            self._devices, self._frames, jax.config.read("jax_enable_x64"),
        )  # fmt: skip

    def searched(self) -> None:
        """Waits until the search's programs are compiled; errors of the compilation are raised here."""
        self._both.set()
        self._wait(0)

    def reported(self) -> None:
        """Waits until the programs of the evaluation in double precision are compiled."""
        self._both.set()
        self._wait(1)

    def _wait(self, part: int) -> None:
        # Another search of the same shapes may have started this precompilation, and cancelled it.
        with contextlib.suppress(concurrent.futures.CancelledError):
            self._parts[part].result()

    def end(self) -> None:
        """Starts no further compile; one that is running finishes by itself."""
        self._ended.set()
        self._both.set()
        self._pool.shutdown(wait=False)

    def _go_on(self, _: str = "") -> None:
        """Raises `CancelledError` after `end`."""
        if self._ended.is_set():
            raise concurrent.futures.CancelledError

    def _first(self, key: tuple[Any, ...]) -> None:
        try:
            once(key, self._search)
        except BaseException:
            self._ended.set()  # the report is not compiled then
            raise
        finally:
            self._both.set()

    def _second(self, key: tuple[Any, ...]) -> None:
        self._both.wait()
        self._go_on()
        once(key, self._report)

    def _made_up(self) -> MappingTables:
        problem, settings = self._problem, self._settings
        grows = settings.moham.genes == "plans" and settings.remap.maps_again
        entries = settings.mapper.entries + (settings.remap.entries if grows else 0)
        technology = cast(problem.technology, jnp.float32)
        return made_up_tables(problem.application.unique_layers, problem.resolved.templates, technology, entries)

    def _search(self) -> None:
        problem, settings = self._problem, self._settings
        config = settings.moham
        self._go_on()
        space = problem.cast(jnp.float32).space(
            jax.random.key(0), self._made_up(), settings.goals, orders=config.orders
        )
        generations = Generations(
            jax.random.key(0), space, config, rates=self._rates, projects=problem.resolved.projects,
            announce=self._go_on, devices=self._devices,
        )  # fmt: skip
        state, _ = next(iter(generations))
        state = gathered(state, self._devices)
        if config.genes == "plans":
            self._go_on()
            once_each = dataclasses.replace(config, end_batches=min(config.end_batches, 1), end_rounds=0)
            rates = self._settings.plan_rates
            state = finished(state, space, once_each, rates=rates, devices=self._devices)
            if config.end_rounds:
                self._go_on()
                once_each = dataclasses.replace(config, end_rounds=1)
                collections.deque(closing(state, space, once_each, genetic_problem(config), most=1), maxlen=0)

    def _report(self) -> None:
        problem, goals, tables = self._problem, self._settings.goals, self._made_up()
        setup, config = problem.setup, self._settings.moham
        # The most designs that a result may have, so that batches have the same width; 2048 give the widest.
        number = min(config.islands * config.archive, 2048)
        designs = made_up_designs(setup.application, setup.templates, problem.tiles, number)
        few = np.minimum(np.asarray(tables.count), 1)
        found = reevaluate(setup, tables.mapping, few, designs, measures=goals.objectives, periods=goals.periods)
        self._go_on()
        scenario_bounds(setup, found.tables, found.wires)
        if config.end_orders:
            self._go_on()
            collections.deque(orderings(found.take(np.arange(1)), 1, goals.periods), maxlen=0)
