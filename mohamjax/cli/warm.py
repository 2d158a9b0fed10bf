"""The verb `warm`: compiles the programs that searches need into the cache."""

from __future__ import annotations

import argparse
import time

from mohamjax.cli import options
from mohamjax.cli.terminal import Terminal, warn
from mohamjax.errors import InputError


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser(
        "warm",
        help="compile the programs that searches need into the cache",
        description="Compiles the programs of searches into the user's cache folder, without searching anything.",
    )
    parser.add_argument(
        "workload", nargs="*", help="scenarios or ONNX files, each a search of its own (default the packaged scenarios)"
    )
    parser.add_argument(
        "--budget", help="budget of the searches: tiny, small (default) or paper (default with --preset moham)"
    )
    parser.add_argument("--preset", default="default", help="preset of the searches: default, layers, moham or paper")
    options.add_common(parser, "accepted by every verb; only the cache is written")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Compiles for one scenario after the other, and prints how long each took."""
    from mohamjax.problem import DesignProblem
    from mohamjax.search import Settings, compile_search, preset_package
    from mohamjax.workload import SCENARIOS, load_scenario

    if arguments.no_compile_cache:
        raise InputError("nothing would be kept", item="--no-compile-cache", remedy="leave it out")
    settings = Settings.preset(arguments.budget, preset=arguments.preset, seed=arguments.seed)
    budget = settings.budget
    package = preset_package(arguments.preset)
    for name in arguments.workload or SCENARIOS:
        application = load_scenario(name, warn=warn)
        terminal.announce(f"compiling for {application.name}, budget {budget}")
        began = time.perf_counter()
        compile_search(DesignProblem(application, package=package), settings)
        terminal.line(f"{application.name}: {time.perf_counter() - began:.1f} s")
    return 0
