"""Application models: the packaged scenarios, a user's YAML list of networks, or ONNX files as they are."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
from collections import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import yaml
from msgspec import Meta

from mohamjax.errors import InputError, wrong_type
from mohamjax.forms import Form, Index, Positive, Text, Whole, read_form
from mohamjax.reader import closest, closest_name, file_like, found, read_yaml
from mohamjax.text import distinct
from mohamjax.workload.layer import ApplicationModel, Layer, Network, Task, network_name

SCENARIOS = ("mobile", "edge", "ar-vr", "data-center")
"""Packaged scenarios: A to D of the MOHaM paper (Table 3)."""

VARIANTS = ("ar-vr-rates", "ar-vr-unet", "data-center-released")
"""Packaged variants: `ar-vr` with frame rates of XRBench (sources in its file), and C and D as MOHaM's release has
them, with UNet in C."""

DEPTHWISE = ("physical", "as-released")
"""How depthwise convolutions are read: each channel over its own input, or as MOHaM's release reads them."""

MAX_COPIES = 1000
MAX_NETWORKS = 1000
"""Most networks of an application model, copies included."""

MAX_LAYERS = 200_000
"""Most layers of an application model."""

MAX_DEPENDENCIES = 1 << 23
"""Most dependencies between layers of an application model."""

_DATA = pathlib.Path(__file__).parent / "data"
_NAMES = (*SCENARIOS, *VARIANTS)
_ALIASES = {
    "a": "mobile",
    "b": "edge",
    "c": "ar-vr",
    "d": "data-center",
    "ar/vr": "ar-vr",
    "arvr": "ar-vr",
    "datacenter": "data-center",
}
_ELSEWHERE = {
    "requirements/1": "requirements",
    "robust/1": "robust",
    "template/1": "templates",
    "technology/1": "technology",
}
_OF_PACKAGES = frozenset(
    (
        "contention", "dram_bandwidth", "dram_bytes_per_cycle", "hop_energy_pJ_per_bit", "interface_bandwidth",
        "interface_bytes_per_cycle", "interface_counts", "link_bandwidth", "link_bytes_per_cycle", "max_tiles",
        "memory", "placement", "router_area_um2", "transceiver_area_um2",
    )
)  # fmt: skip
_OF_REQUIREMENTS = frozenset(("limits", "chiplets", "homogeneous", "package", "pin"))


_SIZES = "sizes such as [1, 3, 224, 224]; 0 only after the first"


class MemberForm(Form):
    """A network of a scenario: an ONNX file, or a packaged network by its name."""

    file: Text
    name: Text | None = None
    copies: Annotated[int, Meta(ge=1, le=MAX_COPIES)] | None = None
    batch: Whole | None = None
    shapes: dict[str, Annotated[list[Index] | Text, Meta(description=_SIZES)]] | None = None
    task: Task | None = None
    deadline_s: Positive | None = None
    frames_per_second: Positive | None = None
    weight: Positive | None = None


class ScenarioForm(Form, kw_only=True):
    """A scenario; paths are relative to its file."""

    name: Text | None = None
    description: str | None = None
    networks: Annotated[list[MemberForm | Text], Meta(min_length=1, description="at least one `- file: NET.onnx`")]


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One network of a scenario, checked."""

    file: pathlib.Path
    name: str | None = None
    copies: int = 1
    batch: int | None = None
    shapes: abc.Mapping[str, Sequence[int]] | None = None
    task: str = ""
    deadline_s: float = math.inf
    frames_per_second: float = 0.0
    weight: float = 1.0


def load_scenario(
    spec: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    batch: int | None = None,
    shapes: abc.Mapping[str, Sequence[int]] | None = None,
    skip_unknown: bool = False,
    warn: Callable[[str], None] | None = None,
    depthwise: str = DEPTHWISE[0],
) -> ApplicationModel:
    """Loads an application model.

    A user's scenario is YAML: `networks` and, optionally, `name` and `description`. A network has a `file` (relative to
    the YAML file, or the name of a packaged network) and, optionally, `name`, `copies`, `batch`, `shapes`
    (`{tensor: [d, d, ...]}`), `task` (one of `TASKS`, for drawing jobs by task), and what its users ask for:
    `deadline_s`, `frames_per_second` (which sets a deadline of one period if none is given) and `weight`.

    Args:
        spec: A packaged scenario (`SCENARIOS`, or A to D, or `VARIANTS`), a packaged network (`packaged_names`), a YAML
            file or an ONNX file; or several of them, whose networks then run together, in that order. A file with the
            name of a packaged network takes precedence over it.
        batch: Samples that run at once (`read_network`), for networks for which the scenario states no `batch`.
        shapes: Shapes by tensor name, for the networks that have a tensor of that name.
        skip_unknown: Passes over unknown operators, with a warning, instead of refusing them (`read_network`).
        warn: Takes each warning, one line; standard error by default.
        depthwise: `physical`, or `as-released` for depthwise layers as MOHaM's importer has them (`as_released`).

    Returns:
        The application model. Network names are distinct: copies become `name#2`, `name#3`, ...

    Raises:
        InputError: There is no such scenario or file, or it is not well-formed; names file, key and remedy.

    Examples:
        >>> app = load_scenario("edge")
        >>> [network.name for network in app.networks]
        ['resnet50', 'ssd_resnet34_1200', 'bert_large_384']
        >>> len(app.layers), len(app.unique_layers)
        (298, 58)
        >>> [network.name for network in load_scenario(["resnet50", "one.onnx"]).networks]
        ['resnet50', 'one']
    """
    if depthwise not in DEPTHWISE:
        raise InputError(f"unknown {depthwise!r}", argument="depthwise", remedy=f"use one of {', '.join(DEPTHWISE)}")
    specs = [spec] if isinstance(spec, (str, os.PathLike)) else list(spec) if isinstance(spec, abc.Iterable) else [spec]
    for one in specs:
        if not isinstance(one, str | os.PathLike):
            raise wrong_type(one, "spec", "give the name of a scenario or a network, a file, or a list of these")
    from mohamjax.workload.importer import read_network, tensor_names  # late: it takes as long as all else here

    name, entries = _entries(specs)
    source = " ".join(os.fspath(s) for s in specs)
    _check_shapes_are_used(shapes, entries)
    networks: list[Network] = []
    used: dict[str, int] = {}
    many = sum(entry.copies for entry in entries)
    if many > MAX_NETWORKS:
        raise _too_large(f"{many:,} networks", f"{MAX_NETWORKS:,}", name, source)
    layers = dependencies = 0
    for entry in entries:
        own = dict(entry.shapes or {})
        if shapes:
            present = tensor_names(entry.file)
            own = {**{k: v for k, v in shapes.items() if k in present}, **own}
        network = read_network(
            entry.file,
            name=entry.name,
            batch=batch if entry.batch is None else entry.batch,
            shapes=own,
            skip_unknown=skip_unknown,
            warn=warn,
        )
        layers += entry.copies * len(network.layers)
        dependencies += entry.copies * sum(len(layer.predecessors) for layer in network.layers)
        if layers > MAX_LAYERS or dependencies > MAX_DEPENDENCIES:
            most = f"{MAX_LAYERS:,} layers or {MAX_DEPENDENCIES:,} dependencies between them"
            raise _too_large(f"{layers:,} layers and {dependencies:,} dependencies", most, name, source)
        for _ in range(entry.copies):
            networks.append(
                dataclasses.replace(
                    network,
                    name=distinct(network.name, used, "{}#{}"),
                    task=entry.task,
                    deadline_s=entry.deadline_s,
                    frames_per_second=entry.frames_per_second,
                    weight=entry.weight,
                )
            )
    application = ApplicationModel(name, tuple(networks))
    return application if depthwise == DEPTHWISE[0] else as_released(application)


ApplicationLike = ApplicationModel | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""An application model, or what `load_scenario` reads."""


def as_application(given: ApplicationLike) -> ApplicationModel:
    """An application model, or what `load_scenario` reads: a name, a file, or several ONNX files.

    Raises:
        InputError: there is no such scenario or file, or it is malformed.
        TypeError: it is none of these.
    """
    if isinstance(given, ApplicationModel):
        return given
    several = isinstance(given, list | tuple) and given and all(isinstance(one, str | os.PathLike) for one in given)
    if several or isinstance(given, str | os.PathLike):
        return load_scenario(given)
    raise TypeError(
        f"application: expected what load_scenario or load_onnx return, or the path of a file, got {given!r:.80}"
    )


def as_released(application: ApplicationModel) -> ApplicationModel:
    """The networks with their depthwise layers as MOHaM's released importer reads them.

    That importer turns a depthwise layer into a convolution with one input channel (C = 1) and all channels as output
    channels (K). The multiply-accumulates are the same, but all channels read one shared input channel, unlike those of
    a real depthwise layer, and templates may run K in parallel where they would not run groups in parallel.
    """

    def released(layer: Layer) -> Layer:
        if layer.type != "dwconv":
            return layer
        shape = layer.shape
        channels = dataclasses.replace(shape, G=1, K=shape.G * shape.K, C=1)
        return dataclasses.replace(layer, type="conv", shape=channels)

    networks = (dataclasses.replace(n, layers=tuple(map(released, n.layers))) for n in application.networks)
    return dataclasses.replace(application, networks=tuple(networks))


def _too_large(what: str, most: str, name: str, source: str) -> InputError:
    return InputError(
        f"has {what}, more than {most}",
        file=source,
        item=f"scenario {name!r}",
        remedy="name fewer networks or fewer copies",
    )


def is_packaged(text: str) -> bool:
    """Whether the text names a packaged scenario, by name or alias, or a packaged network.

    Examples:
        >>> [is_packaged(text) for text in ("edge", "C", "AR-VR-rates", "resnet50", "edge.yaml")]
        [True, True, True, True, False]
    """
    return text.lower() in (*_NAMES, *_ALIASES, *_network_entries())


def packaged_names() -> tuple[str, ...]:
    """Names of the packaged networks, each of which `load_scenario` takes.

    Examples:
        >>> packaged_names()[:3]
        ('mobilenet_v3_large', 'deeplabv3plus_mobilenetv2', 'mobilebert_384')
    """
    return tuple(_network_entries())


def packaged_networks() -> ApplicationModel:
    """All networks of the packaged scenarios, each once, with their tasks."""
    from mohamjax.workload.importer import read_network

    read = (dataclasses.replace(read_network(e.file), task=e.task) for e in _network_entries().values())
    return ApplicationModel("packaged", tuple(read))


def networks_by_scenario() -> dict[str, list[str]]:
    """Names of the networks of every packaged scenario."""
    return {name: [entry.file.stem for entry in _packaged(name)] for name in _NAMES}


def named_beside(spec: str, folder: pathlib.Path) -> str:
    """Resolves a name in a file of `folder` for `load_scenario`: a path relative to it, or else a packaged name."""
    path = folder / os.path.expanduser(spec)
    return spec if is_packaged(spec) and not found(path, folder=False) else str(path)


def _check_shapes_are_used(shapes: abc.Mapping[str, Sequence[int]] | None, entries: Sequence[_Entry]) -> None:
    if not shapes:
        return
    from mohamjax.workload.importer import tensor_names

    known: set[str] = set().union(*(tensor_names(entry.file) for entry in entries))
    for name in shapes:
        if name not in known:
            near = closest_name(name, sorted(known))
            raise InputError(
                "the argument `shapes` names a tensor that no network has",
                item=repr(name),
                remedy="name a tensor of one of the models" if near is None else f"did you mean {near!r}?",
            )


def _entries(specs: Sequence[str | os.PathLike[str]]) -> tuple[str, list[_Entry]]:
    """Name of the application model, and its networks."""
    if not specs:
        raise InputError("no scenario and no ONNX file is named", remedy=f"name one of {', '.join(_NAMES)}, or a file")
    for spec in specs if len(specs) > 1 else ():  # refused first, or the error below may name another one
        path = pathlib.Path(spec)
        if path.suffix.lower() in (".yaml", ".yml") and found(path, folder=False):
            _refuse_other_formats(read_yaml(path), path)
    read = [_named(os.fspath(spec)) for spec in specs]
    return "+".join(name for name, _ in read), [entry for _, entries in read for entry in entries]


def _named(text: str) -> tuple[str, list[_Entry]]:
    """Name and networks of one spec."""
    key = _ALIASES.get(text.lower(), text.lower())
    if key in _NAMES:
        return key, _packaged(key)
    path, networks = pathlib.Path(text), _network_entries()
    if path.suffix.lower() in (".yaml", ".yml"):
        return _from_yaml(path)
    if key in networks and not found(path, folder=False):
        return key, [networks[key]]
    if path.suffix.lower() == ".onnx" or found(path):
        return network_name(path.stem), [_Entry(path)]
    near = file_like(path, (".onnx", ".yaml", ".yml")) or closest(key, (*_NAMES, *networks), 0.5)
    raise InputError(
        "there is no such scenario or file",
        item=repr(text),
        remedy=("" if near is None else f"did you mean {near}? or ")
        + f"give a scenario ({', '.join(_NAMES)}), a packaged network ({', '.join(networks)}), a YAML or an ONNX file",
    )


@functools.cache
def _network_entries() -> dict[str, _Entry]:
    """The networks of the packaged scenarios by name, each once."""
    entries = dict.fromkeys(entry for name in SCENARIOS for entry in _packaged(name))
    return {entry.file.stem: entry for entry in entries}


def _packaged(key: str) -> list[_Entry]:
    document = yaml.safe_load((_DATA / "scenarios.yaml").read_text(encoding="utf-8"))
    entries = []
    for network in document["scenarios"][key]["networks"]:
        file, rate = network["file"], float(network.get("frames_per_second", 0))
        task, deadline = document["provenance"][file]["task"], 1 / rate if rate else math.inf
        entries.append(_Entry(_DATA / file, task=task, deadline_s=deadline, frames_per_second=rate))
    return entries


def _from_yaml(path: pathlib.Path) -> tuple[str, list[_Entry]]:
    document = read_yaml(path)
    _refuse_other_formats(document, path)
    form = read_form(document, ScenarioForm, file=path)
    entries = [MemberForm(entry) if isinstance(entry, str) else entry for entry in form.networks]
    return network_name(form.name or path.stem), [_entry(entry, i, path) for i, entry in enumerate(entries)]


def _refuse_other_formats(document: abc.Mapping[object, object], path: pathlib.Path) -> None:
    """Refuses a file of another format that a search reads, and says which argument takes it."""
    stated = document.get("format")
    if stated is None and "networks" not in document and not _OF_REQUIREMENTS.isdisjoint(document):
        stated = "requirements/1"  # such files need not state their format
    if isinstance(stated, str) and stated in _ELSEWHERE:
        raise InputError(
            f"is a {stated} file, not a scenario",
            file=path,
            remedy=f"give it to a search as the argument `{_ELSEWHERE[stated]}`; name a scenario or ONNX files here",
        )
    strange = next((key for key in document if key in _OF_PACKAGES), None)
    if strange is not None:
        raise InputError(
            "is about the package, not the networks",
            file=path,
            item=strange,
            remedy="write it into a file of its own and give that to a search as the argument `package`",
        )


def _entry(form: MemberForm, i: int, path: pathlib.Path) -> _Entry:
    where = f"networks[{i}]"
    target, own = path.parent / os.path.expanduser(form.file), _network_entries().get(form.file.lower())
    if own is not None and not found(target, folder=False):
        target = own.file
    if not found(target):
        raise InputError(
            f"there is no file {form.file!r}",
            file=path,
            item=f"{where}.file",
            remedy=_near_file(target)
            or f"give its path relative to the YAML file, or a packaged network: {', '.join(_network_entries())}",
        )
    shapes = {
        name: read_form(
            [_number(d) for d in sizes.replace("x", ",").split(",")], list[Index],
            file=path, where=f"{where}.shapes.{name}",
        ) if isinstance(sizes, str) else sizes
        for name, sizes in (form.shapes or {}).items()
    }  # fmt: skip
    rate = form.frames_per_second or 0.0
    return _Entry(
        target,
        form.name,
        form.copies or 1,
        form.batch,
        shapes or None,
        form.task or (own.task if own is not None and target == own.file else ""),
        form.deadline_s or (1 / rate if rate else math.inf),
        rate,
        1.0 if form.weight is None else form.weight,
    )


def _number(text: str) -> int | str:
    """The integer that a text says, or else the text itself, which is an error that names it."""
    try:
        return int(text)
    except ValueError:
        return text


def _near_file(target: pathlib.Path) -> str:
    try:
        names: Iterable[str] = [p.name for p in target.parent.glob("*.onnx")]
    except OSError:
        return ""
    near = closest(target.name, names)
    return "" if near is None else f"did you mean {near!r}?"
