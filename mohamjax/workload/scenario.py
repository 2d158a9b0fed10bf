"""Application models: the packaged scenarios, a user's YAML list of networks, or ONNX files as they are."""

from __future__ import annotations

import dataclasses
import difflib
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml

from mohamjax.errors import InputError
from mohamjax.workload.importer import network_name, read_network, tensor_names
from mohamjax.workload.layer import ApplicationModel, Network

__all__ = ["SCENARIOS", "load_scenario"]

SCENARIOS = ("mobile", "edge", "ar-vr", "data-center")
"""Packaged scenarios: A to D of the MOHaM paper (Table 3)."""

MAX_COPIES = 1000

_DATA = pathlib.Path(__file__).parent / "data"
_ALIASES = {
    "a": "mobile",
    "b": "edge",
    "c": "ar-vr",
    "d": "data-center",
    "ar/vr": "ar-vr",
    "arvr": "ar-vr",
    "datacenter": "data-center",
}
_KEYS = ("name", "description", "networks")
_NETWORK_KEYS = ("file", "name", "copies", "batch", "shapes")


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One network of a scenario, checked."""

    file: pathlib.Path
    name: str | None = None
    copies: int = 1
    batch: int | None = None
    shapes: Mapping[str, Sequence[int]] | None = None


def load_scenario(
    spec: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    batch: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    skip_unknown: bool = False,
    warn: Callable[[str], None] | None = None,
) -> ApplicationModel:
    """Loads an application model.

    A user's scenario is YAML: `name` (optional), `description` (optional) and `networks`, a list of `file` (relative to
    the YAML file) with, optionally, `name`, `copies`, `batch` and `shapes` (`{tensor: [d, d, ...]}`).

    Args:
        spec: A packaged name (`SCENARIOS`, or A to D), a YAML file, an ONNX file, or several ONNX files.
        batch: Symbolic batch of the networks that the scenario gives none.
        shapes: Shapes by tensor name, for the networks that have a tensor of that name.
        skip_unknown: As in `read_network`.
        warn: As in `read_network`.

    Returns:
        The application model. Network names are distinct: copies become `name#2`, `name#3`, ...

    Raises:
        InputError: There is no such scenario or file, or it is not well-formed; names file, key and remedy.
    """
    name, entries = _entries([spec] if isinstance(spec, (str, os.PathLike)) else list(spec))
    _check_shapes_are_used(shapes, entries)
    networks: list[Network] = []
    used: set[str] = set()
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
        for _ in range(entry.copies):
            networks.append(dataclasses.replace(network, name=_distinct(network.name, used)))
    return ApplicationModel(name, tuple(networks))


def _distinct(name: str, used: set[str]) -> str:
    out, k = name, 1
    while out in used:
        k += 1
        out = f"{name}#{k}"
    used.add(out)
    return out


def _check_shapes_are_used(shapes: Mapping[str, Sequence[int]] | None, entries: Sequence[_Entry]) -> None:
    if not shapes:
        return
    known: set[str] = set().union(*(tensor_names(entry.file) for entry in entries))
    for name in shapes:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            raise InputError(
                "--shape names a tensor that no network has",
                item=repr(name),
                remedy=f"did you mean {near[0]!r}?" if near else "name a tensor of one of the models",
            )


def _entries(specs: Sequence[str | os.PathLike[str]]) -> tuple[str, list[_Entry]]:
    if not specs:
        raise InputError(
            "no scenario and no ONNX file is named", remedy=f"name one of {', '.join(SCENARIOS)}, or a file"
        )
    if len(specs) == 1:
        text = os.fspath(specs[0])
        key = _ALIASES.get(text.lower(), text.lower())
        if key in SCENARIOS:
            return key, _packaged(key)
        path = pathlib.Path(text)
        if path.suffix.lower() in (".yaml", ".yml"):
            return _from_yaml(path)
        if path.suffix.lower() == ".onnx" or path.exists():
            return network_name(path.stem), [_Entry(path)]
        near = difflib.get_close_matches(key, SCENARIOS, 1, 0.5)
        raise InputError(
            "there is no such scenario or file",
            item=repr(text),
            remedy=(f"did you mean {near[0]}? or " if near else "")
            + f"give one of {', '.join(SCENARIOS)}, a YAML file or ONNX files",
        )
    for spec in specs:
        if os.fspath(spec).lower().endswith((".yaml", ".yml")) or os.fspath(spec).lower() in (*SCENARIOS, *_ALIASES):
            raise InputError(
                "several scenarios at once",
                item=repr(os.fspath(spec)),
                remedy="name one scenario, or several ONNX files, or list the files in one YAML file",
            )
    paths = [pathlib.Path(spec) for spec in specs]
    return "+".join(network_name(path.stem) for path in paths), [_Entry(path) for path in paths]


def _packaged(key: str) -> list[_Entry]:
    document = yaml.safe_load((_DATA / "scenarios.yaml").read_text(encoding="utf-8"))
    return [_Entry(_DATA / network["file"]) for network in document["scenarios"][key]["networks"]]


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping: YAML would silently take the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        """The mapping, after a look for keys that repeat."""
        seen = set()
        for key_node, _ in node.value:
            key = getattr(key_node, "value", None)
            if isinstance(key, str):
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key!r} stands twice", key_node.start_mark
                    )
                seen.add(key)
        return super().construct_mapping(node, deep)


def _from_yaml(path: pathlib.Path) -> tuple[str, list[_Entry]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError("there is no such file", file=path, remedy="check the path") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InputError(f"cannot be read ({reason})", file=path, remedy="name a YAML text file") from error
    try:
        document = yaml.load(text, _StrictLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        problem = getattr(error, "problem", None) or type(error).__name__
        raise InputError(f"is no valid YAML: {problem}{where}", file=path, remedy="correct that line") from error
    if not isinstance(document, dict):
        raise InputError(
            "is no mapping with the key 'networks'",
            file=path,
            remedy="write `networks:` and below it `- file: NET.onnx`",
        )
    _check_keys(document, _KEYS, path, "")
    networks = document.get("networks")
    if not isinstance(networks, list) or not networks:
        raise InputError(
            "is missing or no list" if not networks else "is no list",
            file=path,
            item="networks",
            remedy="list at least one `- file: NET.onnx`",
        )
    name = document.get("name", path.stem)
    if not isinstance(name, (str, int, float)) or str(name) == "":
        raise InputError(f"is {name!r}", file=path, item="name", remedy="give a text")
    return network_name(str(name)), [_entry(entry, i, path) for i, entry in enumerate(networks)]


def _check_keys(mapping: Mapping, allowed: Sequence[str], path: pathlib.Path, prefix: str) -> None:
    for key in mapping:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, 1, 0.5)
            guess = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(allowed)}"
            raise InputError("unknown key", file=path, item=f"{prefix}{key}", remedy=guess)


def _entry(entry: object, i: int, path: pathlib.Path) -> _Entry:
    where = f"networks[{i}]"
    if isinstance(entry, str):
        entry = {"file": entry}
    if not isinstance(entry, dict):
        raise InputError(f"is {entry!r}", file=path, item=where, remedy="write `- file: NET.onnx`")
    _check_keys(entry, _NETWORK_KEYS, path, f"{where}.")
    file = entry.get("file")
    if not isinstance(file, str) or not file:
        raise InputError(
            "is missing" if file is None else f"is {file!r}",
            file=path,
            item=f"{where}.file",
            remedy="name an ONNX file",
        )
    target = path.parent / pathlib.Path(file).expanduser()
    if not target.exists():
        raise InputError(
            f"there is no file {file!r}",
            file=path,
            item=f"{where}.file",
            remedy=_near_file(target) or "give its path relative to the YAML file",
        )
    name = entry.get("name")
    if name is not None and (not isinstance(name, (str, int, float)) or str(name) == ""):
        raise InputError(f"is {name!r}", file=path, item=f"{where}.name", remedy="give a text")
    return _Entry(
        target,
        None if name is None else str(name),
        _positive(entry, "copies", where, path, MAX_COPIES) or 1,
        _positive(entry, "batch", where, path, 2**31 - 1),
        _shapes(entry.get("shapes"), where, path),
    )


def _near_file(target: pathlib.Path) -> str:
    try:
        names: Iterable[str] = [p.name for p in target.parent.glob("*.onnx")]
    except OSError:
        return ""
    near = difflib.get_close_matches(target.name, list(names), 1, 0.6)
    return f"did you mean {near[0]!r}?" if near else ""


def _positive(entry: Mapping, key: str, where: str, path: pathlib.Path, most: int) -> int | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InputError(
            f"is {value!r}", file=path, item=f"{where}.{key}", remedy=f"give a whole number from 1 to {most}"
        )
    return value


def _shapes(value: object, where: str, path: pathlib.Path) -> dict[str, tuple[int, ...]] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InputError(
            f"is {value!r}", file=path, item=f"{where}.shapes", remedy="write `shapes: {INPUT: [1, 3, 224, 224]}`"
        )
    out = {}
    for name, sizes in value.items():
        parts = sizes.replace("x", ",").split(",") if isinstance(sizes, str) else sizes
        try:
            if not isinstance(parts, list) or any(isinstance(d, (bool, float)) for d in parts):
                raise ValueError
            shape = tuple(int(d) for d in parts)
            if any(d < 1 for d in shape):
                raise ValueError
        except (TypeError, ValueError):
            raise InputError(
                f"is {sizes!r}",
                file=path,
                item=f"{where}.shapes.{name}",
                remedy="give positive sizes: [1, 3, 224, 224]",
            ) from None
        out[str(name)] = shape
    return out
