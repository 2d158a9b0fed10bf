"""Schedules on packages that hand data on, format `package-schedule/1`: read, simulated, and written."""

from __future__ import annotations

import functools
from collections import abc
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax.forms import read_form
from mohamjax.hardware import PackageParameters
from mohamjax.io.entries import Entry, Place, entries_of, without_entries
from mohamjax.io.formats import PACKAGE_SCHEDULE_FORMAT
from mohamjax.io.forms import HandoverForm, PackageSchedulesForm
from mohamjax.io.schedule_rows import (
    answered,
    check_deadlock,
    makespans,
    read_predecessors,
    refuse_instant_traffic,
    simulated,
    slowed_rows,
    unlimited,
)
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.devices import Devices
from mohamjax.schedule.fluid import Asks, Jobs, Timeline, predecessor_bits, timeline_of_asks
from mohamjax.schedule.handover import Handover, byte_hops, sram_capacity
from mohamjax.schedule.segments import flow_of_asks, slowed


def package_cases(document: abc.Mapping[str, object], file: object) -> Iterator[Entry[Handover]]:
    """The cases of a `package-schedule/1` document, each with its name; a broken one is its error."""
    read_form(without_entries(document, "cases"), PackageSchedulesForm, file=file)
    return entries_of(document, "cases", file, read_handover)


_OTHER_PACKAGES = ("hop_latency", "max_sram", "placement", "interface_counts")
"""Keys that would describe another package. They are refused; other unknown keys of a case are notes of its writer."""


def read_handover(value: object, at: Place) -> Handover:
    """Reads one case of a `package-schedule/1` document at a place in a file; raises InputError."""
    for key in _OTHER_PACKAGES:
        if isinstance(value, abc.Mapping) and value.get(key):
            told = "is an option of packages that this format has not"
            raise at.at(key).error(told, "leave it out: packages are as by default, and hops take no time")
    form = at.form(value, HandoverForm)
    layers, count = form.layers, len(form.layers)
    for key in ("assignment", "order", "keep", "resident"):
        at.at(key).check_length(getattr(form, key), count, "layer")
    places = [at.at(f"layers[{i}]") for i in range(count)]
    sources = [
        place.at("edges").numbers([edge.source for edge in layer.edges], count, "layer")
        for layer, place in zip(layers, places, strict=True)
    ]
    predecessors = read_predecessors(sources, count, [place.at("edges") for place in places])
    chiplet = at.at("assignment").numbers(form.assignment, form.chiplets, "chiplet")
    order = at.at("order").numbers(form.order, count, "layer")
    at.at("order").check_order(order, range(count))
    check_deadlock(at.at("order"), order, chiplet, predecessors, range(count))

    def column(*keys: str) -> np.ndarray:
        return np.array([sum(getattr(layer, key) for key in keys) for layer in layers], float)

    most = {name: unlimited(getattr(form.bandwidth, name)) for name in form.bandwidth.__struct_fields__}
    case = Handover(
        duration=column("duration"),
        output_bytes=column("output_bytes"),
        weight_bytes=column("weight_bytes"),
        weights=column("weights"),
        outputs=column("outputs_read", "outputs_written"),
        external=column("external"),
        producer=np.array([p for own in sources for p in own], int),
        consumer=np.repeat(np.arange(count), [len(own) for own in sources]),
        edge_bytes=np.array([edge.bytes for layer in layers for edge in layer.edges], float),
        chiplet=np.array(chiplet),
        order=np.array(order, np.int32),
        keep=np.array(form.keep),
        resident=np.array(form.resident),
        chiplets=form.chiplets,
        package=PackageParameters(
            max_tiles=form.chiplets,
            contention=form.contention,
            interface_bandwidth=most["interface"],
            link_bandwidth=most["link"],
            dram_bandwidth=most["dram"],
        ),
        sram_bandwidth=most["sram"],
    )
    refuse_instant_traffic(
        lambda layer: places[layer].at("duration"), case.duration, case.traffic.memory + case.traffic.sram
    )
    return case


@functools.partial(jax.jit, static_argnames="accelerators")
def _simulate(jobs: Jobs, asks: Asks, accelerators: int) -> Timeline:
    return jax.vmap(functools.partial(timeline_of_asks, accelerators=accelerators))(jobs, asks)


def _most(cases: Sequence[Handover]) -> int:
    """Resources of these cases after padding."""
    return power_of_two(max(len(case.resources.names) for case in cases), 8)


def _stacked(cases: Sequence[Handover], layers: int, dtype: npt.DTypeLike) -> tuple[Jobs, Asks]:
    """The arguments of `timeline_of_asks`, with a leading axis of cases, padded to `layers` and a common size."""
    most = _most(cases)
    rows: list[tuple[np.ndarray, ...]] = []
    for case in cases:
        own, count = case.resources, len(case.duration)
        more, resources = layers - count, most - len(own.names)
        wide = ((0, more), (0, resources))
        rows.append(
            (
                np.pad(case.duration, (0, more)).astype(dtype),
                np.zeros(layers, dtype),
                predecessor_bits(case.predecessors, layers),
                np.pad(case.chiplet, (0, more), constant_values=-1).astype(np.int32),
                np.append(case.order, np.arange(count, layers)).astype(np.int32),
                np.arange(layers) < count,
                np.pad(own.amount, wide).astype(dtype),
                np.pad(own.binds, wide),
                np.pad(own.bandwidth, (0, resources), constant_values=np.inf).astype(dtype),
            )
        )
    columns = [jnp.asarray(np.stack(column)) for column in zip(*rows, strict=True)]
    return Jobs(*columns[:6]), Asks(*columns[6:])


_CELLS = 1 << 24
"""Most pairs of a layer and a resource that are simulated side by side: their arrays take about half a gigabyte."""


def _timelines(
    cases: Sequence[Handover], float32: bool, block: int | None = None, devices: Devices | None = None
) -> list[Timeline]:
    """Timelines of cases, see `simulated`; at most `block` side by side, a multiple of the number of devices."""
    number = 1 if devices is None else len(devices)

    def simulate(own: Sequence[Handover], layers: int, dtype: npt.DTypeLike) -> Timeline:
        program = functools.partial(_simulate, accelerators=power_of_two(max(case.chiplets for case in own), 4))
        return (program if devices is None else devices.over(program))(*_stacked(own, layers, dtype))

    def width(own: Sequence[Handover], layers: int) -> int:
        side_by_side = min(len(own) if block is None else block, power_of_two(len(own)))
        return number * -(-min(side_by_side, max(1, _CELLS // (layers * _most(own)))) // number)

    return simulated(cases, lambda case: len(case.duration), simulate, width, float32=float32)


def simulate_handovers(
    cases: Sequence[Handover], block: int, *, float32: bool = False, devices: Devices | None = None
) -> tuple[np.ndarray, list[str]]:
    """Makespans of cases and why a case never ends, as `fluid_cases.simulate_cases`."""
    return makespans(_timelines(cases, float32, block, devices), float32)


def evaluate_package_schedules(
    document: abc.Mapping[str, object], file: object, float32: bool, timelines: bool
) -> tuple[dict[str, object], dict[str, object]]:
    """Evaluates a document; see `io.schedules.SCHEDULE_READERS`."""
    entries = list(package_cases(document, file))
    cases = [case for _, case in entries if isinstance(case, Handover)]
    rows = answered(entries, _timelines(cases, float32), functools.partial(_answer, timelines=timelines), float32)
    jobs = sum(len(case.duration) for case in cases)
    return {"format": PACKAGE_SCHEDULE_FORMAT, "cases": rows}, {"schedules": len(rows), "jobs": jobs}


def _answer(case: Handover, timeline: Timeline, timelines: bool) -> dict[str, object]:
    count = len(case.duration)
    start, end = np.asarray(timeline.start[:count]), np.asarray(timeline.end[:count])
    row: dict[str, object] = {
        "start": start.tolist(),
        "end": end.tolist(),
        "makespan": float(timeline.makespan),
        "dram_bytes": case.traffic.memory.tolist(),
        "sram_bytes": case.traffic.sram.tolist(),
        "nop_byte_hops": byte_hops(case),
        "sram_capacity": sram_capacity(case, start, end).tolist(),
    }
    if timelines:
        resources = case.resources
        seen = flow_of_asks(start, end, case.duration, resources.amount, resources.binds, resources.bandwidth)
        row |= {"stall": timeline.stall[:count].tolist(), "slowed": slowed_rows(slowed(seen), resources.names)}
    return row
