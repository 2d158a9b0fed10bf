"""Reports in files: reads results folders, makes one page of them, and writes it."""

from __future__ import annotations

import datetime
import pathlib
from collections import abc
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from mohamjax.errors import InputError
from mohamjax.hardware import Technology, technology_called, technology_hash
from mohamjax.io.files import prepare_folder, write_text
from mohamjax.io.results_reader import ResultDesigns, ResultFiles, evaluate_results, read_results
from mohamjax.page import Result, contents, page
from mohamjax.page.document import plotting_library
from mohamjax.schedule.decision import decide
from mohamjax.text import distinct

DETAILS = 512
"""Number of designs that a report shows in detail: all of a front of the default size, in about 3 MB."""


def write_report(
    folders: Sequence[str | pathlib.Path],
    out: str | pathlib.Path,
    *,
    details: int = DETAILS,
    designs: Sequence[str] = (),
    target: str | None = None,
    title: str | None = None,
    technology: Technology | Sequence[Technology] | None = None,
) -> pathlib.Path:
    """Writes one HTML page of results folders, which needs no internet.

    Reads front.csv, history.csv, config.yaml, designs.json (which it evaluates again in double precision), and
    bounds.json if there is one. The folders may be those of `search` and of `codesign`.

    Args:
        folders: results folders, at least one.
        out: the page.
        details: number of designs shown in detail (schedule, shares, mappings), over all folders. The others are only
            on the front and in the table.
        designs: `design_id`s that are shown in detail in any case, in every folder that has them, or as `FOLDER/ID` in
            one.
        target: a target as for `decide`: the designs that it names in each folder are shown in detail with their roles,
            and the page opens on the recommended one. Only for results of `search`.
        title: title of the page; default the titles of the results.
        technology: energy and area tables of the designs, or several, of which each folder takes its own; default the
            packaged ones, or those that the results hold.

    Returns:
        The path of the page.

    Raises:
        InputError: a folder or a file is missing, malformed or empty, the files do not belong together, no folder has a
            wanted design, the plotting library is not installed, or the page cannot be written.
    """
    if not folders:
        raise InputError("no results folder is named", item="report", remedy="name the results folder of a search")
    plotting_library()  # if it is missing, fails before the work is done
    files = [read_results(folder, kinds=("search", "codesign")) for folder in folders]
    prepare_folder(pathlib.Path(out).parent)
    always = _wanted(dict(zip(_names(files), files, strict=True)), designs)
    named = [_targeted(one, target) for one in files]
    given = [technology] if isinstance(technology, Technology) else list(technology or ())
    evaluated = [evaluate_results(one, technology=_own(one, given)) for one in files]
    results = [_result(*parts) for parts in zip(_names(files), files, evaluated, named, strict=True)]
    told = contents(results, most=details, always=always)
    title = title or "; ".join(dict.fromkeys(one.title for one in files))
    path = pathlib.Path(out)
    write_text(path, page(told, title))
    return path


def _wanted(files: abc.Mapping[str, ResultFiles], designs: Sequence[str]) -> list[tuple[str, str]]:
    """Returns (name of the results, `design_id`) of the designs that are given as `ID` or `FOLDER/ID`."""
    listed = {(name, str(row["design_id"])) for name, one in files.items() for row in one.front}
    wanted = []
    for design in designs:
        found = [(name, own) for name, own in listed if design in (own, f"{name}/{own}")]
        if not found:
            known = f"a `design_id` of a front.csv, or FOLDER/ID with a folder of {', '.join(files)}"
            raise InputError("is in no front.csv", item=f"design {design}", remedy=f"name {known}")
        wanted += found
    return wanted


def _targeted(files: ResultFiles, target: str | None) -> dict[str, int]:
    """Returns the rows of the designs that a target names, by role; the page opens on the first."""
    if target is None:
        return {}
    if files.kind != "search":
        raise InputError("is for results of a search", file=files.folder, item="target", remedy="leave the target out")
    decision = decide(files.front, target)
    if not decision.kept:
        return {f"nearest to {target}": decision.nearest}
    roles = {f"recommended for {target}": decision.named["smallest"]}
    roles |= {f"{role} with {target}": row for role, row in decision.named.items() if role != "smallest"}
    return roles | {f"a step to less {step.of}": step.row for step in decision.steps}


def _own(files: ResultFiles, given: Sequence[Technology]) -> Technology | None:
    """Returns the given technology whose hash the folder states; if it states none, the only one given; or None."""
    stated = files.config.get("technology_hash")
    fitting = next((one for one in given if technology_hash(one) == stated), None)
    return given[0] if fitting is None and stated is None and len(given) == 1 else fitting


def _result(
    name: str, files: ResultFiles, designs: ResultDesigns, roles: abc.Mapping[str, int] = MappingProxyType({})
) -> Result:
    return Result(
        name=name,
        title=files.title,
        kind=files.kind,
        front=files.front,
        history=files.history,
        config=files.config,
        facts=_facts(files, designs),
        certificate=files.certificate,
        evaluated=designs.evaluated,
        workload=_networks(files.config),
        place=designs.place,
        measures=files.measures,
        offsets=files.offsets,
        roles=roles,
        opens=next(iter(roles.values()), None),
    )


def _names(files: Sequence[ResultFiles]) -> list[str]:
    """Returns the names of the folders, all distinct: those that several folders have are numbered."""
    plain = [one.folder.resolve().name or str(one.folder) for one in files]
    taken = dict.fromkeys(plain, 0)
    return [distinct(name, taken, "{} ({})") if plain.count(name) > 1 else name for name in plain]


def _plainly(value: object) -> str:
    """Formats a value from a file without braces."""
    return " ".join(f"{key} {own}" for key, own in value.items()) if isinstance(value, dict) else str(value)


def _technology(config: abc.Mapping[str, Any]) -> str:
    """Returns the name of a packaged technology, or of the file that was given, and the hash of its figures."""
    stated = str(config.get("technology_hash", ""))
    name = technology_called(stated) or pathlib.PurePath(str(_table(config, "inputs").get("technology") or "")).name
    return f"{name} (figures {stated[:12]})" if name else stated


def _facts(files: ResultFiles, designs: ResultDesigns) -> list[tuple[str, str]]:
    """Returns the main facts on the origin of results; the page also holds `config.yaml`, which has the rest."""
    config, last = files.config, files.history[-1]
    search, versions = _table(config, "search"), _table(config, "versions")
    package = ", ".join(f"{key} {_plainly(value)}" for key, value in _table(config, "package").items())
    written = datetime.datetime.fromtimestamp((files.folder / "front.csv").stat().st_mtime, datetime.UTC)
    broken = sum(not row["valid"] for row in designs.rows)
    facts = [
        ("scenario", str(config.get("scenario"))),
        ("networks", _networks(config)),
        ("method", str(search.get("method", ""))),
        ("space", str(config.get("space", ""))),
        ("budget", str(config.get("budget", search.get("budget")))),
        ("seed", str(config.get("seed", search.get("seed")))),
        ("population", str(search.get("population", ""))),
        ("evaluations", f"{last['evaluations']:.0f}"),
        ("time of the search", f"{last['seconds']:.1f} s"),
        ("package", package),
        ("technology", _technology(config)),
        ("versions", ", ".join(f"{key} {value}" for key, value in versions.items())),
        ("device", str(config.get("device", ""))),
        ("written", written.strftime("%Y-%m-%d %H:%M UTC")),
        ("designs that cannot be evaluated", str(broken) if broken else ""),
    ]
    return [(what, value) for what, value in facts if value]


def _networks(config: abc.Mapping[str, Any]) -> str:
    networks = config.get("networks")
    named = [n for n in networks if isinstance(n, dict)] if isinstance(networks, list) else []
    return ", ".join(f"{n.get('name')} ({n.get('layers')} layers)" for n in named)


def _table(config: abc.Mapping[str, Any], key: str) -> dict[str, Any]:
    value = config.get(key)
    return value if isinstance(value, dict) else {}
