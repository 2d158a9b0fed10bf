"""The verb `map`: the Pareto sets of mappings of every layer on every template."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
from typing import TYPE_CHECKING

from mohamjax.cli import options, spread
from mohamjax.cli.inputs import application_of, technology_of, templates_of, warn_of_other_memory
from mohamjax.cli.interrupts import STOPPED
from mohamjax.cli.options import refuse
from mohamjax.cli.outputs import probe, refuse_stream, tell_export, write
from mohamjax.cli.tables import choice_table, set_table
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mohamjax.hardware import Template
    from mohamjax.mapper import MapperConfig, NetworkChoice
    from mohamjax.mapping import MappingTables
    from mohamjax.schedule import Setup
    from mohamjax.workload import ApplicationModel, UniqueLayer

_MOST_ENUMERATED = 10**8  # mappings per layer and template, which takes minutes


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser(
        "map",
        help="search the Pareto sets of mappings of every layer of networks on templates",
        description="Searches the Pareto-optimal mappings (latency [cycles], energy [pJ], area [um^2]) of every unique "
        "layer on every template.",
    )
    parser.add_argument("workload", nargs="+", help="ONNX files, a scenario name or a scenario YAML")
    options.add_hardware(parser, "--template")
    parser.add_argument("--budget", help="how many mappings to evaluate: tiny, small (default) or paper")
    parser.add_argument(
        "--preset",
        help="operators, rates and sizes of the search: default; medea, as its paper prints them (15 generations of "
        "120, nothing of ours); medea-released, as its code has them; or moham-released, as MOHaM's code sets them",
    )
    parser.add_argument(
        "--method",
        help="another mapper on the same cost model instead, as a baseline that gives one mapping per layer: cosa (a "
        "mixed-integer program like CoSA's), gamma (a genetic algorithm like GAMMA's) or hybrid (Timeloop's hybrid "
        "search)",
    )
    parser.add_argument(
        "--cost", help="what --method gamma or hybrid minimises: latency, energy, area or edp (default), their product"
    )
    parser.add_argument(
        "--sieve",
        action="store_true",
        help="choose mappings for whole networks as MEDEA does: from the ten best of each layer in latency and energy, "
        "by random search of weighted sums, the area that of the largest layer's chip",
    )
    parser.add_argument(
        "--exhaustive", action="store_true", help="evaluate every mapping instead: the true Pareto sets of small spaces"
    )
    parser.add_argument(
        "--limit",
        type=options.positive,
        help=f"most mappings to evaluate per layer and template with --exhaustive (default {_MOST_ENUMERATED:,})",
    )
    parser.add_argument(
        "--inject",
        nargs="+",
        action="append",
        default=[],
        metavar="FILE",
        help="mappings of your own that join the search: a JSON file as --out writes, or the YAML files of "
        "one mapping in Timeloop's format, or their folder; may be given several times",
    )
    parser.add_argument(
        "--nests",
        metavar="FILE",
        help="write the best mappings as loop nests [cycles, uJ, mm^2]; - for standard output",
    )
    parser.add_argument("--figure", metavar="FILE", help="draw the sets of the largest layers (.png, .svg or .pdf)")
    parser.add_argument("--timeloop", metavar="FOLDER", help="export every mapping as Timeloop's YAML files")
    options.add_no_pad(parser)
    parser.add_argument(
        "--one-axis",
        action="store_true",
        help="let a dimension run along X or Y of a level, not along both, as in Timeloop's own mapper; every "
        "way to choose the axes is searched (or enumerated)",
    )
    parser.add_argument(
        "--package",
        metavar="FILE",
        help="package parameters (YAML): the off-chip memory, and the memory interface behind which latencies are also "
        "told (default: the memory that templates name, and an interface of 4 GB/s)",
    )
    parser.add_argument("--no-mapping-cache", action="store_true", help="neither read nor keep mapping tables on disk")
    spread.add_devices(parser, "spread the layers")
    options.add_workload(parser)
    options.add_common(
        parser, "JSON file for the Pareto sets with their loop nests; - for standard output", random=True
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Searches or enumerates mappings; writes what is asked for and prints a table."""
    import jax

    from mohamjax.io import given_mappings, mapping_cache, prepare_folder
    from mohamjax.mapper import BaselineMapper, LayerMapper, mapper_preset, network_choices, sieved_choices
    from mohamjax.plot.style import known_format

    _check_options(arguments)
    refuse_stream(arguments.timeloop, "--timeloop")
    devices = spread.devices_of(arguments)
    config, rates = _mapper(arguments), mapper_preset(arguments.preset or "default").rates
    setup = _setup(arguments)
    named = _named(arguments, setup.application)
    given = given_mappings(arguments.inject, setup)
    if arguments.out == arguments.nests == "-":
        raise InputError("standard output takes --out already", item="--nests", remedy="name a file for one of them")
    if arguments.figure is not None:
        known_format(pathlib.Path(arguments.figure).suffix.removeprefix(".").lower())
    for option in ("out", "nests", "figure"):
        probe(getattr(arguments, option), f"--{option}")
    if arguments.timeloop is not None:
        _keep_injected(arguments)
        prepare_folder(arguments.timeloop, "--timeloop")
    search_key, _, network_key = jax.random.split(jax.random.key(arguments.seed), 3)

    def search(templates: Sequence[Template]) -> MappingTables:
        if arguments.method is not None:
            layers, cost = setup.application.unique_layers, arguments.cost or "edp"
            baseline = BaselineMapper(
                layers, templates, setup.technology, arguments.method, cost=cost, progress=terminal.mapping
            )
            return baseline.search(search_key)[0]
        mapper = LayerMapper(
            setup.application.unique_layers,
            templates,
            setup.technology,
            config,
            rates=rates,
            progress=terminal.mapping,
            cache=None if arguments.no_mapping_cache else mapping_cache(),
            devices=devices,
        )
        return mapper.search(search_key, given=given)

    try:
        tables = _mapped(arguments, terminal, setup, config, search)
    except KeyboardInterrupt:
        kept = not (arguments.exhaustive or arguments.method or arguments.no_mapping_cache)
        terminal.line("stopped by hand" + ("; finished sets are in the cache" if kept else ""))
        return STOPPED
    terminal.close()
    choose = sieved_choices if arguments.sieve else network_choices
    _write(arguments, terminal, setup, tables, choose(network_key, setup, tables), named)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    """Raises `InputError` for options that have no effect beside others."""
    if arguments.exhaustive:
        refuse("an enumeration needs no mappings of yours", "leave out either option", inject=arguments.inject)
        refuse(
            "is for a search, not for an enumeration",
            budget=arguments.budget,
            no_mapping_cache=arguments.no_mapping_cache,
            devices=arguments.devices,
        )
        refuse("is for a search", preset=arguments.preset, method=arguments.method)
    else:
        refuse("is for an enumeration", "add --exhaustive, or leave it out", limit=arguments.limit)
    if arguments.preset not in (None, "default"):
        refuse("a preset says how much is evaluated", "leave out either option", budget=arguments.budget)
    if arguments.method is not None:
        refuse(
            f"is not for --method {arguments.method}",
            budget=arguments.budget,
            preset=arguments.preset,
            inject=arguments.inject,
            devices=arguments.devices,
            no_mapping_cache=arguments.no_mapping_cache,
            no_pad=arguments.no_pad,
            one_axis=arguments.one_axis,
        )
    if arguments.one_axis:
        refuse("mappings of yours may use both axes", "leave out either option", inject=arguments.inject)


def _setup(arguments: argparse.Namespace) -> Setup:
    """Loads networks and hardware; raises `InputError` if some layer runs on no template."""
    from mohamjax.hardware import PackageParameters, load_package, with_memory
    from mohamjax.problem.design_problem import runnable
    from mohamjax.schedule import Setup

    application, technology = application_of(arguments), technology_of(arguments)
    templates = templates_of(arguments, application)
    package = PackageParameters()
    if arguments.package is not None:
        package = load_package(arguments.package)
        warn_of_other_memory(templates, package, technology)
        templates = with_memory(templates, package.memory)
    runnable(application, templates)
    return Setup(application, tuple(templates), technology, package)


def _keep_injected(arguments: argparse.Namespace) -> None:
    """Raises `InputError` if mappings of the user lie where the export to Timeloop writes files of these names."""
    folder = pathlib.Path(arguments.timeloop).resolve()
    for path in (path for group in arguments.inject for path in group if not path.endswith(".json")):
        if folder in pathlib.Path(path).resolve().parents:
            told = f"holds the input {path}, which the export could replace"
            raise InputError(told, file=arguments.timeloop, item="--timeloop", remedy="name another folder")


def _named(arguments: argparse.Namespace, application: ApplicationModel) -> tuple[Template, ...] | None:
    """Returns the templates without the width of `--word-bits model`; None without this option."""
    if arguments.word_bits != "model":
        return None
    return templates_of(argparse.Namespace(templates=arguments.templates, word_bits="template"), application)


def _mapper(arguments: argparse.Namespace) -> MapperConfig:
    """Returns the configuration of the search; raises `InputError` for an unknown budget, preset or method."""
    from mohamjax.mapper import check_choice, mapper_preset
    from mohamjax.search import BUDGETS, Settings

    check_choice(arguments.method, arguments.cost)
    own = mapper_preset(arguments.preset or "default").config
    if own is not None:
        return own
    config = BUDGETS[Settings.preset(arguments.budget or "small").budget].mapper
    return dataclasses.replace(config, padding=not arguments.no_pad)


def _mapped(
    arguments: argparse.Namespace,
    terminal: Terminal,
    setup: Setup,
    config: MapperConfig,
    search: Callable[[Sequence[Template]], MappingTables],
) -> MappingTables:
    """Returns the Pareto sets, enumerated or found by a search."""
    from mohamjax.mapper import Enumeration, over_one_axis

    layers, templates = setup.application.unique_layers, setup.templates
    problems = f"{plural(len(layers), 'unique layer')} on {plural(len(templates), 'template')}"
    if arguments.one_axis:
        problems += ", each choice of one axis per dimension by itself"

    def enumerated(templates: Sequence[Template]) -> MappingTables:
        enumeration = Enumeration(
            layers,
            templates,
            setup.technology,
            limit=arguments.limit or _MOST_ENUMERATED,
            padding=config.padding,
            progress=terminal.enumeration,
            announce=lambda layer, template, size: terminal.line(
                f"{layer.type} {_bounds(layer)} on {template.name}: {plural(size.mappings, 'mapping')}, "
                f"{size.classes:,} of different cost"
            ),
        )
        return enumeration.tables()

    mapped = enumerated if arguments.exhaustive else search
    terminal.line(f"counting the mappings of {problems}" if arguments.exhaustive else f"mapping {problems}; compiling")
    if not arguments.one_axis:
        return mapped(templates)
    return over_one_axis(mapped, templates, layers, None if arguments.exhaustive else config.entries)


def _write(
    arguments: argparse.Namespace,
    terminal: Terminal,
    setup: Setup,
    tables: MappingTables,
    choices: dict[tuple[str, str], list[NetworkChoice]],
    named: Sequence[Template] | None,
) -> None:
    """Writes the files that were asked for, and prints the tables."""
    from mohamjax.io import best_nests, mappings_document, write_timeloop_mappings
    from mohamjax.schedule import layers_that_fill_no_template, told_of_unfilled

    report = mappings_document(setup, tables, choices, _record(arguments), named=named)
    if arguments.out is not None:
        write(arguments.out, json.dumps(report, indent=1) + "\n")
    if arguments.timeloop is not None:
        exported = write_timeloop_mappings(arguments.timeloop, setup, tables, progress=terminal.exporting("mappings"))
        tell_export(terminal, "mapping", exported, arguments.timeloop)
    if arguments.figure is not None:
        terminal.line(f"figure {_draw_mappings(setup, tables, arguments.figure)}")
    if unfilled := told_of_unfilled(layers_that_fill_no_template(setup, tables)):
        terminal.line(unfilled)
    stream = sys.stderr if arguments.out == "-" else sys.stdout
    text = set_table(report, stream) + "\n"
    if choices:
        told = "whole networks, one mapping per layer on one chiplet"
        if arguments.sieve:
            told = "whole networks, one mapping per layer; area of the largest layer, energies of layers by themselves"
        text += f"\n{told}\n{choice_table(report, stream)}\n"
    nests = best_nests(setup, tables) if arguments.nests is not None else ""
    if arguments.nests not in (None, "-"):
        write(arguments.nests, nests)
    stream.write(text)
    if arguments.nests == "-":
        sys.stdout.write("\n" + nests)


def _record(arguments: argparse.Namespace) -> dict[str, object]:
    """Returns how the mappings were found, for the output file: the relevant options, with defaults filled in."""
    own = arguments.method is None and not arguments.exhaustive
    record: dict[str, object] = {"method": arguments.method or ("medea" if own else "exhaustive")}
    if own:
        record["preset"] = arguments.preset or "default"
        if record["preset"] == "default":
            record["budget"] = arguments.budget or "small"
    if arguments.method in ("gamma", "hybrid"):
        record["cost"] = arguments.cost or "edp"
    if arguments.method is None:
        record |= {"padding": _mapper(arguments).padding, "one_axis": arguments.one_axis}
    if arguments.technology is not None:
        record["technology"] = arguments.technology
    if arguments.word_bits == "model":
        record["word_bits"] = arguments.word_bits
    return record | {"seed": arguments.seed, "networks": "sieve" if arguments.sieve else "chiplet"}


def _bounds(layer: UniqueLayer) -> str:
    from mohamjax.workload import DIMS

    return " ".join(f"{d}={b}" for d, b in zip(DIMS, layer.shape.bounds, strict=True) if b > 1)


def _draw_mappings(setup: Setup, tables: MappingTables, path: str) -> pathlib.Path:
    """Draws the sets of the three unique layers with the most work as parallel coordinates; returns the path."""
    import numpy as np

    from mohamjax.figures import save
    from mohamjax.plot import MappingSet, parallel_coordinates

    application, owners = setup.application, setup.application.unique_of_layer
    work = np.bincount(owners, [layer.shape.macs for layer in application.layers])
    most = np.argsort(-work, kind="stable")[:3].tolist()
    counts, objectives = np.asarray(tables.count), np.asarray(tables.objectives, np.float64)
    several = len(application.networks) > 1  # whose layers may have equal names
    sets = []
    for u in most:
        first = owners.index(u)
        network = application.networks[application.network_of_layer[first]].name
        sets += [
            MappingSet(
                application.layers[first].name,
                template.name,
                objectives[u, t, : counts[u, t]] * [1e-9, 1e-12, 1e-6],
                network=network if several else "",
            )
            for t, template in enumerate(setup.templates)
            if counts[u, t]
        ]
    kind = "the three layers with the most work" if len(work) > 3 else "all layers"
    return save(parallel_coordinates(sets, title=f"Pareto sets of mappings, {application.name}: {kind}"), path)
