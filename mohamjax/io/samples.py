"""Reads mappings on given architectures and writes predictions, in the formats of the Timeloop reference data.

`architectures.json` describes machines with their energies and areas. A samples file (`.jsonl`, may be gzipped) holds
one (architecture, layer, mapping) per line. Predictions have the fields of Timeloop's statistics in that data.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from mohamjax.dims import DATA_SPACES, DIMS, RELEVANT, WINDOWS, C, G, K, N, O, W
from mohamjax.errors import InputError
from mohamjax.hardware.arrays import Architecture, Machine, pad_machine
from mohamjax.io.files import dump_json, parse_json, read_json, write_text
from mohamjax.io.inputs import keep_inputs
from mohamjax.mapping import Sample, predict
from mohamjax.mapping.cost import Evaluation
from mohamjax.mapping.explain import explain_evaluation, explanation_text, rejection, whole
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.notation import mapping_from_dict
from mohamjax.mapping.predict import alike
from mohamjax.reader import closest, read_lines, suggestion
from mohamjax.text import plural, repeated
from mohamjax.workload.layer import WorkloadShape


@dataclasses.dataclass(frozen=True)
class Unread:
    """A mapping that cannot be read; it keeps its place among the samples.

    Attributes:
        id: its identifier, like that of a sample.
        error: what is wrong with it.
    """

    id: str
    error: InputError


class _Fields:
    """A JSON object with checked access to its fields; error messages name file, item and key."""

    def __init__(self, data: dict[str, Any], file: object, item: str) -> None:
        self.data, self.file, self.item = data, file, item
        if not isinstance(data, dict):
            raise InputError("is no JSON object", file=file, item=item, remedy="see the reference format")

    def error(self, key: str, message: str, remedy: str) -> InputError:
        return InputError(message, file=self.file, item=f"{self.item}, {key}", remedy=remedy)

    def get(self, key: str) -> Any:
        if key not in self.data:
            raise self.error(key, "the key is missing", "add it")
        return self.data[key]

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str) or not value:
            raise self.error(key, f"{value!r} is no name", "give a text")
        return value

    def number(self, key: str, *, positive: bool = True, unlimited: bool = False) -> float:
        value = self.get(key)
        if value is None and unlimited:
            return math.inf
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.error(
                key, f"{value!r} is no number", "give one" + (", or null for no limit" if unlimited else "")
            )
        if value < 0 or (positive and value == 0):
            raise self.error(key, f"{value!r} is too small", f"give {'a positive number' if positive else '0 or more'}")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.data.get(key, default) if default is not None else self.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
            raise self.error(key, f"{value!r} is no positive integer", "give 1 or more")
        return value


def _level(fields: _Fields) -> dict[str, object]:
    """The fields of `Machine` for one level of an architectures file."""
    keep = fields.get("keep_default")
    if not isinstance(keep, list) or any(name not in DATA_SPACES for name in keep):
        raise fields.error(
            "keep_default", f"{keep!r} is no list of data spaces", f"choose from {', '.join(DATA_SPACES)}"
        )
    number = fields.number
    return {
        "level_mask": True,
        "keep": [name in keep for name in DATA_SPACES],
        "capacity": number("capacity_words", positive=False, unlimited=True),
        "word_bits": number("word_bits"),
        "block_words": number("block_words"),
        "fanout": [number("fanoutX"), number("fanoutY")],
        "mesh": [number("meshX"), number("meshY")],
        "instances": number("instances"),
        "bandwidth": [number("read_bw", unlimited=True), number("write_bw", unlimited=True)],
        "shared_bandwidth": number("shared_bw", unlimited=True) if "shared_bw" in fields.data else math.inf,
        "reduces": fields.text("kind") != "dram",
        "access_energy": [number("energy_read_pJ", positive=False), number("energy_write_pJ", positive=False)],
        "area": number("area_um2", positive=False),
        "hop_energy": number("energy_per_hop_pJ", positive=False),
    }


def read_architectures(path: str | pathlib.Path) -> dict[str, Architecture]:
    """Reads an architectures file.

    Args:
        path: JSON with a list `architectures`; the reference README describes the fields.

    Returns:
        Architectures by name, all padded to the same number of levels.

    Raises:
        InputError: the file is unreadable, a key is missing or has an impossible value, or a name occurs twice.
    """
    document = _Fields(read_json(path), path, "top level")
    entries = document.get("architectures")
    if not isinstance(entries, list) or not entries:
        raise document.error("architectures", "is no list of architectures", "give at least one")
    parsed = []
    for n, entry in enumerate(entries):
        fields = _Fields(entry, path, f"architecture {n}")
        name = fields.text("name")
        rows = fields.get("levels")
        if not isinstance(rows, list) or not rows:
            raise fields.error("levels", "is no list of levels", "list them innermost first")
        levels = [_Fields(row, path, f"{name}, level {i}") for i, row in enumerate(rows)]
        mac = _Fields(fields.get("mac"), path, f"{name}, mac")
        parsed.append((name, [level.text("name") for level in levels], [_level(level) for level in levels], mac))
    most = max(len(levels) for _, _, levels, _ in parsed)
    result: dict[str, Architecture] = {}
    for name, level_names, levels, mac in parsed:
        if name in result:
            raise InputError("the name comes twice", file=path, item=name, remedy="rename one")
        if len(set(level_names)) < len(level_names):
            raise InputError("two levels share a name", file=path, item=name, remedy="rename one")
        arrays: dict[str, Any] = {key: np.array([level[key] for level in levels]) for key in levels[0]}
        arrays |= {
            "mac_mesh": np.array([mac.number("meshX"), mac.number("meshY")]),
            "mac_instances": np.array(mac.number("instances")),
            "mac_energy": np.array(mac.number("energy_pJ", positive=False)),
            "mac_area": np.array(mac.number("area_um2", positive=False)),
        }
        machine = pad_machine(Machine(**arrays), most)
        result[name] = Architecture(name, tuple(level_names), mac.text("name"), machine)
    return result


_LAYER_KEYS = ("shape", *"RSPQCKN", "wstride", "hstride", "wdil", "hdil", "name", "groups")
"""Keys of a sample's layer; the last two and other keys are informational. Near misses of these keys are refused, as a
misspelt stride would otherwise count as 1."""


def _shape(layer: _Fields) -> WorkloadShape:
    """The shape of a layer in the reference format; channels of a depthwise layer move from C to G."""
    for key in layer.data:
        if key not in _LAYER_KEYS and closest(key, _LAYER_KEYS) is not None:
            raise layer.error(key, f"unknown key {key!r}", suggestion(key, _LAYER_KEYS))
    kind = layer.text("shape")
    if kind not in ("conv", "dwconv"):
        raise layer.error("shape", f"{kind!r} is unknown", "use conv or dwconv")
    bounds = {d: layer.whole(d, 1 if d == "K" and kind == "dwconv" else None) for d in "RSPQCKN"}
    if kind == "dwconv":
        if bounds["K"] != 1:
            raise layer.error("K", f"is {bounds['K']} in a depthwise layer", "write 1; its channels are C")
        bounds["G"], bounds["C"] = bounds["C"], 1
    return WorkloadShape(
        **bounds,
        stride=(layer.whole("wstride", 1), layer.whole("hstride", 1)),
        dilation=(layer.whole("wdil", 1), layer.whole("hdil", 1)),
    )


def _swap_channels(mapping: Mapping) -> Mapping:
    """The mapping with the roles of C and G exchanged."""
    columns = np.arange(len(DIMS))
    columns[[C, G]] = columns[[G, C]]
    return Mapping(
        keep=mapping.keep,
        temporal=mapping.temporal[:, columns],
        spatial=mapping.spatial[:, :, columns],
        order=columns[mapping.order].astype(np.int32),
        spatial_order=columns[mapping.spatial_order].astype(np.int32),
    )


def _sample(row: _Fields, architectures: dict[str, Architecture], called: str) -> Sample:
    """The sample of a line."""
    path, item = row.file, row.item
    name = row.text("arch")
    if name not in architectures:
        raise row.error("arch", f"{name!r} is unknown", f"use one of {', '.join(architectures)}")
    architecture = architectures[name]
    layer = _Fields(row.get("layer"), path, f"{item}, layer")
    shape = _shape(layer)
    machine = architecture.machine
    mapping = mapping_from_dict(
        row.get("mapping"),
        architecture.level_names,
        machine.keep.tolist(),
        levels=machine.level_mask.shape[0],
        file=path,
        item=f"{item}, mapping",
    )
    if layer.data["shape"] == "dwconv":
        mapping = _swap_channels(mapping)
    factors = np.concatenate([mapping.temporal[None], mapping.spatial]).astype(object)
    for d, bound in enumerate(shape.bounds):
        product = math.prod(factors[:, :, d].flat)
        if product != bound:
            letter = "C" if DIMS[d] == "G" and layer.data["shape"] == "dwconv" else DIMS[d]
            raise InputError(
                f"the factors of {letter} multiply to {product}, its bound is {bound}",
                file=path,
                item=f"{item}, mapping",
                remedy="make them equal; residual factors are not modelled",
            )
    return Sample(called, architecture, shape, mapping)


def sample_entries(path: str | pathlib.Path, architectures: dict[str, Architecture]) -> Iterator[Sample | Unread]:
    """Like `read_samples`, but yields an `Unread` for a wrong line and goes on."""
    for number, line in read_lines(path, ".jsonl file"):
        name = item = f"line {number}"
        try:
            row = _Fields(parse_json(line.rstrip(), path, item), path, item)
            name = str(row.data.get("id", item))
            yield _sample(row, architectures, name)
        except InputError as error:
            yield Unread(name, error)


def read_samples(path: str | pathlib.Path, architectures: dict[str, Architecture]) -> Iterator[Sample]:
    """Reads a samples file, line by line.

    Args:
        path: JSON lines, gzipped or not, each with `id`, `arch`, `layer`, `mapping` as in the reference README.
        architectures: From `read_architectures`.

    Yields:
        Samples in the order of the file.

    Raises:
        InputError: the file is unreadable; a line is no JSON or names something unknown; or the product of the factors
            of a dimension is not its bound.
    """
    for entry in sample_entries(path, architectures):
        if isinstance(entry, Unread):
            raise entry.error
        yield entry


def _input_groups(sample: Sample, spread: np.ndarray, level: int) -> dict[int, int]:
    """Groups of a level's children that share inputs: number of groups (scatter) by their size (multicast)."""
    child = np.prod(sample.mapping.temporal[:level], axis=0) * np.prod(sample.mapping.spatial[:, :level], axis=(0, 1))
    sizes = np.array([spread[K]])
    for (d, e), stride, dilation in zip(WINDOWS, sample.shape.stride, sample.shape.dilation, strict=True):
        offsets = np.add.outer(
            np.arange(spread[d]) * int(child[d]) * stride, np.arange(spread[e]) * int(child[e]) * dilation
        )
        sizes = np.multiply.outer(sizes, np.unique(offsets, return_counts=True)[1]).ravel()
    others = int(np.prod([spread[d] for d in (G, N, C)]))
    return {int(m): int(n) * others for m, n in zip(*np.unique(sizes, return_counts=True), strict=True)}


def _traffic(result: Evaluation, sample: Sample, level: int) -> dict[str, object]:
    """What enters the network below a level, per data space and size of multicast group.

    Hops are only known for all groups together, so they are null where groups have several sizes. The entries of a data
    space are null where link transfers change its groups.
    """
    counts, reduces = result.counts, sample.architecture.machine.reduces[level]
    spread = np.prod(sample.mapping.spatial[:, level].astype(np.int64), axis=0)
    children = int(np.prod(spread))
    single = [int(np.prod([spread[d] for d in RELEVANT[v]])) for v in (W, O)]
    classes = [
        {children // single[0]: single[0]},
        _input_groups(sample, spread, level),
        {children // single[1]: single[1]},
    ]
    ingresses: list[object] = []
    for v, sizes in enumerate(classes):
        groups, words, hops = sum(sizes.values()), counts.network[level, v], counts.hops[level, v]
        if not np.isclose(counts.ingress[level, v], counts.delivered[level, v] * groups, rtol=1e-5):
            ingresses.append(None)
            continue
        entries = []
        for members, number in sizes.items():
            sent = words / groups * number
            if v == 2 and not reduces:
                # A memory that cannot add by itself sends the old sum and receives the new one.
                sent = 2 * sent - counts.partition[level, v]
            entries.append([members, number, whole(sent), whole(hops) if len(sizes) == 1 else None])
        ingresses.append(entries)
    words = counts.network[level].copy()
    if not reduces:
        # Reductions and hops count what enters the network; MACs under such a memory that hand on sums have no classes.
        words[2] = 2 * words[2] - counts.partition[level, 2]
    reductions = (max(classes[2]) - 1) * words[2]
    if counts.link_transfers[level, 2] > 0:
        # The network adds all partial sums down to one per group, except those that MACs hand on to each other.
        summed = counts.delivered[level, 2] * children - counts.link_transfers[level, 2]
        reductions = summed - counts.ingress[level, 2]
    return {
        "multicast_max": [max(sizes) for sizes in classes],
        "ingresses": ingresses,
        "spatial_reductions": [0, 0, whole(reductions)],
        "avg_hops": np.divide(counts.hops[level], words, out=np.zeros(3), where=words > 0).tolist(),
    }


def _statistics(result: Evaluation, area_um2: float, sample: Sample) -> dict[str, object]:
    """The `out` object of an accepted sample, from its evaluation as float64 NumPy arrays."""
    counts, cycles, energy = result.counts, result.cycles, result.energy
    architecture, machine = sample.architecture, sample.architecture.machine
    compute, total = counts.compute_cycles, cycles.total
    words = {"reads": counts.reads, "fills": counts.fills, "updates": counts.updates}
    blocks = {kind: np.ceil(n / machine.block_words[:, None]) for kind, n in words.items()}
    generations = counts.fills + np.where(np.arange(3) == 2, counts.updates, counts.reads)
    reductions = np.where(np.arange(3) == 2, counts.reads, 0)

    def ints(values: npt.ArrayLike) -> list[int | float]:
        return [whole(v) for v in np.asarray(values)]

    levels, networks = [], []
    for i, name in enumerate(architecture.level_names):
        instances = counts.instances_used[i]
        levels.append(
            {
                "name": name,
                "keep": [int(k) for k in counts.tile[i] > 0],
                "utilized_capacity": ints(counts.tile[i]),
                "partition_size": ints(counts.partition[i]),
                "utilized_instances": ints([instances] * 3),
                "x_expansion": ints([counts.expansion[i, 0]] * 3),
                "y_expansion": ints([counts.expansion[i, 1]] * 3),
                **{kind: ints(n[i]) for kind, n in words.items()},
                "temporal_reductions": ints(reductions[i]),
                "address_generations": ints(generations[i]),
                **{f"vector_{kind}": ints(n[i]) for kind, n in blocks.items()},
                "read_bw": (counts.reads[i] / compute * cycles.slowdown[i]).tolist(),
                "write_bw": ((counts.fills[i] + counts.updates[i]) / compute * cycles.slowdown[i]).tolist(),
                "slowdown": float(cycles.slowdown[i]),
                "throttled": bool(cycles.slowdown[i] < 1),
                "cycles": whole(cycles.per_level[i]),
                "energy_per_instance_pJ": (energy.level[i] / instances).tolist(),
                "energy_pJ": energy.level[i].tolist(),
            }
        )
        wires = counts.hops[i] * machine.hop_energy[i]
        handed = counts.link_transfers[i] * machine.hop_energy[i]
        networks.append(
            {
                "name": f"{name} <==> {architecture.level_names[i - 1] if i else architecture.mac_name}",
                "fanout": ints([np.prod(counts.fanout_used[i])] * 3),
                **_traffic(result, sample, i),
                "link_transfers": ints(counts.link_transfers[i]),
                "utilized_instances": ints([instances] * 3),
                "energy_per_instance_pJ": wires.tolist(),
                "link_energy_per_instance_pJ": handed.tolist(),
                "energy_pJ": ((wires + handed) * instances).tolist(),
            }
        )
    return {
        "cycles": whole(total),
        "energy_pJ": float(energy.total),
        "area_um2": float(area_um2),
        "utilization": float(counts.macs / (total * machine.mac_instances)),
        "macs": whole(counts.macs),
        "mac_instances_used": whole(np.prod(counts.mac_expansion)),
        "mac_x": whole(counts.mac_expansion[0]),
        "mac_y": whole(counts.mac_expansion[1]),
        "mac_cycles": whole(compute),
        "mac_energy_pJ": float(energy.mac),
        "levels": levels,
        "networks": networks,
    }


def _answer(name: str, out: dict[str, object] | None, reject: dict[str, str | None] | None = None) -> dict[str, object]:
    """The result row of a sample: its statistics, or the level and reason of its rejection."""
    return {"id": name, "ok": reject is None, "reject": None if reject is None else [reject], "out": out}


_TOO_LARGE = (
    "its energy, or another figure, is too large to be a number; write smaller energies, areas and sizes for its "
    "architecture"
)


_TOO_MANY = "its layer has more than 2^53 multiply-accumulates, of which floats do not count each; write smaller bounds"


def evaluate_samples(
    architectures_path: str | pathlib.Path,
    samples_path: str | pathlib.Path,
    out_path: str | pathlib.Path,
    *,
    links: bool = True,
    first_fills: bool = False,
    float32: bool = False,
    explain: str | None = None,
) -> dict[str, float]:
    """Predicts every sample of a file; rejected mappings and unreadable lines are results, not errors.

    Args:
        architectures_path: Architectures file; energies and areas come from it.
        samples_path: Samples file, `.jsonl` or `.jsonl.gz`.
        out_path: As in `report_samples`.
        links: As in `predict`.
        first_fills: As in `predict`.
        float32: As in `predict`.
        explain: As in `report_samples`.

    Returns:
        As `report_samples`.

    Raises:
        InputError: a file cannot be read or written, `out_path` is one of the input files, or no line of the samples
            can be read.
    """
    keep_inputs(out_path, [architectures_path, samples_path])
    architectures = read_architectures(architectures_path)
    entries = list(sample_entries(samples_path, architectures))
    if not entries:
        raise InputError("holds no sample", file=samples_path, remedy="give one JSON object per line")
    return report_samples(entries, out_path, links=links, first_fills=first_fills, float32=float32, explain=explain)


def report_samples(
    entries: Sequence[Sample | Unread],
    out_path: str | pathlib.Path,
    *,
    links: bool = True,
    first_fills: bool = False,
    float32: bool = False,
    explain: str | None = None,
) -> dict[str, float]:
    """Predicts samples and writes the results.

    Args:
        entries: At least one sample, and mappings that could not be read, which become rows with the reason.
        out_path: Predictions, one JSON object per line: `id`, `ok`, `reject` (a list of `level` and `reason`, null if
            none) and `out` (Timeloop's statistics, null if rejected); `-` is standard output.
        links: As in `predict`.
        first_fills: As in `predict`.
        float32: As in `predict`.
        explain: Also print an explanation per mapping, as a table (`text`) or a JSON object per line (`json`), to
            standard output (standard error if that takes the predictions).

    Returns:
        Numbers of `samples`, `accepted` and `rejected` (including those that could not be read), and `seconds`.

    Warns:
        UserWarning: some entries could not be read, or an id occurs twice.

    Raises:
        InputError: none of the entries could be read, or the predictions cannot be written.
    """
    began = time.perf_counter()
    unread = [entry for entry in entries if isinstance(entry, Unread)]
    if unread and len(unread) == len(entries):
        raise unread[0].error
    if unread:
        count = f"{len(unread):,} of {plural(len(entries), 'mapping')}"
        told = f"{count} could not be read and count as rejected: rows with `ok` false and the reason. The first"
        warnings.warn(f"{told}: {unread[0].error}", stacklevel=2)
    twice = repeated(entry.id for entry in entries)
    if twice:
        more = f", and {plural(len(twice) - 1, 'other id')}" if len(twice) > 1 else ""
        warnings.warn(f"the id {twice[0]} comes twice{more}: rows stand in the order of the input", stacklevel=2)
    samples = alike([entry for entry in entries if isinstance(entry, Sample)])
    results, areas = predict(samples, links=links, first_fills=first_fills, float32=float32)
    results = jax.tree.map(lambda x: x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x, results)
    leaves, tree = jax.tree.flatten(results)
    rows, explanations, accepted = [], [], 0
    each = enumerate(samples)
    for entry in entries:
        if isinstance(entry, Unread):
            rows.append(dump_json(_answer(entry.id, None, {"level": None, "reason": entry.error.reason})))
            continue
        n, sample = next(each)
        result: Evaluation = jax.tree.unflatten(tree, [leaf[n] for leaf in leaves])
        architecture = sample.architecture
        names = (architecture.level_names, architecture.mac_name)
        failed = rejection(result, architecture.machine, *names)
        if failed is not None:
            rows.append(dump_json(_answer(sample.id, None, {**failed})))
        elif not result.plausible and sample.shape.macs > 2**53:
            rows.append(dump_json(_answer(sample.id, None, {"level": None, "reason": _TOO_MANY})))
            continue
        elif not result.plausible:
            raise AssertionError(f"{sample.id}: the MACs counted are not those of the layer, or more than run")
        else:
            try:
                rows.append(dump_json(_answer(sample.id, _statistics(result, areas[n], sample))))
            except ValueError:  # JSON has no infinity
                rows.append(dump_json(_answer(sample.id, None, {"level": None, "reason": _TOO_LARGE})))
                continue
            accepted += 1
        if explain is not None:
            reasons = explain_evaluation(result, architecture.machine, *names)
            head = {"id": sample.id, "arch": architecture.name}
            table = f"{sample.id} on {architecture.name}\n{explanation_text(reasons)}\n\n"
            explanations.append(dump_json({**head, **reasons}) if explain == "json" else table)
    text = "".join(rows)
    if str(out_path) == "-":
        sys.stdout.write(text)
    else:
        write_text(out_path, text)
    (sys.stderr if str(out_path) == "-" else sys.stdout).write("".join(explanations))
    return {
        "samples": len(entries),
        "accepted": accepted,
        "rejected": len(entries) - accepted,
        "seconds": round(time.perf_counter() - began, 3),
    }
