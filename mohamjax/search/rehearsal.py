"""A search rehearsed on made-up tables while the layer mapper works: its programs are there when it begins.

Programs depend on shapes alone, and those of a search follow from networks, templates, requirements and settings before
any layer is mapped. A rehearsal goes the whole way with tables of these shapes, in a thread of its own: the search's
programs first, then those that evaluate its front in double precision. Nothing of what it finds is used. Where it
guessed a shape wrong (templates with axes of more than 16 children, `wires`; a front much smaller than its archive),
the program is compiled when it is needed, as without.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.devices import Devices, gathered
from mohamjax.hardware import Technology, Template, fits, template_arrays
from mohamjax.mapping import Mapping, MappingTables
from mohamjax.mapping.tables import column_shapes
from mohamjax.programs import once
from mohamjax.schedule import reevaluate, scenario_bounds
from mohamjax.schedule.measures import of_frames
from mohamjax.schedule.periods import frame_jobs
from mohamjax.search.context import build_context
from mohamjax.search.kinds import immediate, room_for
from mohamjax.search.moham import designs_of, refitted, run
from mohamjax.search.requirements import Site
from mohamjax.search.settings import Settings
from mohamjax.struct import cast, take
from mohamjax.workload import DIMS, ApplicationModel, UniqueLayer

__all__ = ["Rehearsal", "made_up_tables"]


def made_up_tables(
    layers: Sequence[UniqueLayer], templates: Sequence[Template], technology: Technology, entries: int
) -> MappingTables:
    """Tables of the shapes that the mapper's will have, whose sizes of chiplets differ wherever they can.

    Args:
        layers: U unique layers.
        templates: T templates.
        technology: energy and area tables.
        entries: M, entries of a set; all of them count where the template runs the layer.

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
    runs = np.array([[fits(template, x.type, x.shape) is None for template in templates] for x in layers])
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


class Rehearsal:
    """A rehearsal in two parts, one after the other in a thread beside the caller's."""

    def __init__(
        self,
        application: ApplicationModel,
        site: Site,
        settings: Settings,
        technology: Technology,
        rates: Any,
        devices: Devices | None = None,
    ) -> None:
        """Begins. Searches of the same shapes are rehearsed once a process.

        Args:
            application: the networks.
            site: requirements brought together with them; its templates are the search's.
            settings: of the search.
            technology: energy and area tables.
            rates: of the search's operators.
            devices: of the search.
        """
        self._devices = devices
        self._application, self._site, self._settings = application, site, settings
        self._technology, self._rates = technology, rates
        # Frames in flight are as many as the rates have them.
        self._frames = ()
        if of_frames(settings.moham.objectives):
            self._frames = frame_jobs(application, settings.moham.periods).layer.shape
        self._tables: MappingTables | None = None
        self._designs: Any = None
        self._began, self._ended = False, threading.Event()
        mark = self._mark()
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "rehearsal")
        parts: tuple[Callable[[], None], ...] = (self._search, self._report)
        self._parts = [self._pool.submit(once, (part.__name__, *mark), part) for part in parts]

    def _mark(self) -> tuple[Any, ...]:
        """What the shapes depend on."""
        layers, settings, site = self._application.layers, self._settings, self._site
        before = immediate([layer.predecessors for layer in layers])
        after = np.bincount([p for needs in before for p in needs], minlength=1)
        kinds = room_for(np.array(self._application.unique_of_layer), site.allowed, site.pin)
        return (
            "rehearsal", len(layers), len(self._application.unique_layers),
            max(map(len, before)), int(after.max()), kinds,
            tuple(template.content_hash() for template in site.templates),
            settings.moham, settings.mapper.entries, settings.remap, settings.package, site.projects,
            self._devices, self._frames,
        )  # fmt: skip

    def searched(self) -> None:
        """Waits until the search's programs are there; what went wrong is raised here."""
        self._wait(0)

    def reported(self) -> None:
        """Waits until the programs of the evaluation in double precision are there, likewise."""
        self._wait(1)

    def _wait(self, part: int) -> None:
        # Another search of the same shapes may have begun the same rehearsal, and given it up.
        with contextlib.suppress(concurrent.futures.CancelledError):
            self._parts[part].result()

    def end(self) -> None:
        """Begins nothing more; a compile under way ends by itself."""
        self._ended.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _go_on(self, _: str = "") -> None:
        """Raises where nobody waits any more."""
        if self._ended.is_set():
            raise concurrent.futures.CancelledError

    def _search(self) -> None:
        self._began = True
        settings, site = self._settings, self._site
        config = settings.moham
        plans = config.genes == "plans"
        grows = plans and bool(settings.remap.every or settings.remap.polish)
        entries = settings.mapper.entries + (settings.remap.entries if grows else 0)
        self._go_on()
        single = cast(self._technology, jnp.float32)
        tables = made_up_tables(self._application.unique_layers, site.templates, single, entries)
        key = jax.random.key(0)
        context = build_context(
            key, self._application, site.templates, single, tables, settings.package, config, site, settings.weights
        )
        # It announces each compile.
        steps = run(
            key, context, config, rates=self._rates, projects=site.projects, announce=self._go_on, devices=self._devices
        )
        state, _ = next(steps)
        state = gathered(state, self._devices)
        if plans:
            self._go_on()
            state = refitted(state, context, config, rates=self._rates, devices=self._devices)
        self._tables = tables
        # As many as there may be in the end, so that batches are as wide; none is wider than those of so many.
        several = np.zeros(min(config.islands * config.archive, 2048), int)
        self._designs = take(jax.device_get(designs_of(state.population.genes)), (several, 0))

    def _report(self) -> None:
        if self._tables is None:
            if self._began:  # nothing is marked as rehearsed that was not
                raise RuntimeError("the rehearsal of the search failed")
            return  # rehearsed before
        tables, package, templates = self._tables, self._settings.package, self._site.templates
        designs = dataclasses.replace(self._designs, mapping=np.zeros_like(self._designs.mapping))
        few = np.minimum(np.asarray(tables.count), 1)
        moham = self._settings.moham
        found = reevaluate(
            self._application, templates, self._technology, package, tables.mapping, few, designs,
            measures=moham.objectives, periods=moham.periods,
        )  # fmt: skip
        scenario_bounds(self._application, templates, self._technology, package, found.tables, found.wires)
        self._tables = self._designs = None
