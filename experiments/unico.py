"""UNICO against its baselines on our measurements: the tables and figures of its evaluation, piece by piece, resumable.

    python experiments/unico.py edge                   # Tables 1 and 4, Figure 5a: networks one by one, all methods
    python experiments/unico.py cloud                  # Tables 2 and 5, Figure 5b
    python experiments/unico.py edge-0.4W              # the same under a limit on power that refuses something
    python experiments/unico.py edge-fit               # the same with power and area as fitted to the paper's
    python experiments/unico.py others                 # two more networks, which no choice of ours was made on
    python experiments/unico.py validation             # Table 3: search for four networks, hold out eight
    python experiments/unico.py ablation               # Figure 6: halving and update rules, four networks at once
    python experiments/unico.py choices                # when points of the front are finished, what is learnt of others
    python experiments/unico.py shapes                 # Figure 7: loop bounds of searched and of unseen networks
    python experiments/unico.py enumerate              # a space that is enumerated: share of its true hypervolume
    python experiments/unico.py bracket                # seconds of a bracket beside those of full mapping searches

`--tier` says how much: `ci` (a minute), `small`, `full`. Every search is appended to a CSV file as it ends and not done
again, so a piece may be stopped at any moment and started again, with other `--networks`, `--methods` or `--seeds` too;
`--minutes` begins no search after that long, `--report` begins none. Tables are written from what is there. All methods
of a table have as many mapping evaluations. The paper's results stand beside ours.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import time
from collections.abc import Sequence

import jax
import numpy as np
import unico_tables as tables
from lines import Lines
from report import header
from unico_runs import (
    ABLATED,
    MEASURED_COLUMNS,
    RUN_COLUMNS,
    SCENARIOS,
    SINGLE,
    TRAINED,
    UNSEEN,
    VARIANTS,
    Measurements,
    Run,
    Runs,
    application,
    small_application,
)

from mohamjax.dims import DIMS
from mohamjax.figures import save
from mohamjax.io.files import write_text
from mohamjax.plot.unico import hypervolume_differences, loop_bounds
from mohamjax.unico.bracket import MappingSearch, run_bracket
from mohamjax.unico.config import BUDGETS, METHODS
from mohamjax.unico.halving import Bracket
from mohamjax.unico.lanes import LaneConfig, advance, lane_problem, wires_room
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.protocol import Axes, nearest_to_ideal
from mohamjax.unico.space import HardwareSpace, named_space

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
UNICO_AXES = ("pe_x", "pe_y", "local_bytes", "shared_bytes", "noc_bits", "dataflow")


@dataclasses.dataclass(frozen=True)
class Tier:
    """Sizes of the pieces.

    Attributes:
        budget: of a search.
        seeds: of the tables of single networks and of the ablation.
        trials: seeds of the validation.
        single: networks of Tables 1 and 2.
        trained: networks that Table 3 searches for.
        unseen: networks that it holds out.
        ablated: networks of the ablation.
    """

    budget: str
    seeds: int
    trials: int
    single: Sequence[str]
    trained: Sequence[str]
    unseen: Sequence[str]
    ablated: Sequence[str]


TIERS = {
    "ci": Tier("ci", 1, 1, ("small",), ("small",), ("mobilenet_v3_small",), ("small",)),
    "small": Tier("small", 3, 10, ("mobilenet_v1_224", "srgan_generator"), TRAINED, UNSEEN, ABLATED),
    "full": Tier("full", 5, 10, SINGLE, TRAINED, UNSEEN, ABLATED),
}

PAPER = {
    "edge": "Paper (Table 1): mean d of HASCO 2.29 times UNICO's, of NSGA-II 2.35 times; costs 4.9 and 2.9 times.",
    "cloud": "Paper (Table 2): mean d of HASCO 1.34 times UNICO's, of NSGA-II 1.94 times; costs 4.2 and 2.7 times.",
    "validation": "Paper (Table 3): UNICO gains 44.7 % over HASCO, HASCO with robustness 41.8 %, mean of the networks' "
    "gains; UNICO over HASCO with robustness 5.0 %.",
    "ablation": "Paper (Figure 6, in hypervolume difference): under the champion rule modified halving gains 7 % over "
    "HASCO and plain halving loses 48 %; under the Pareto rule modified halving gains 43 % over HASCO, 7 % over plain; "
    "under UUL 52 % and 5 %.",
}


# ---------------------------------------------------------------- Tables 1 and 2, Figure 5


def gathered(
    runs: Runs, tier: Tier, scenario: str, cases: Sequence[str], variants: Sequence[str], seeds: int
) -> tables.Table:
    """Searches of all cases, seed by seed, so that early stops leave whole pairs."""
    out: dict[tuple[str, str, int], Run] = {}
    for seed in range(seeds):
        for case in cases:
            for variant in variants:
                found = runs.search(tier.budget, scenario, case, variant, seed)
                if found is not None:
                    out[case, variant, seed] = found
    return out


def single(
    runs: Runs, tier: Tier, options: argparse.Namespace, scenario: str = "", usual: Sequence[str] = METHODS
) -> str:
    """Networks one by one under every method."""
    cases, methods = options.networks or tier.single, options.methods or usual
    seeds, scenario = options.seeds or tier.seeds, scenario or options.piece
    found = gathered(runs, tier, scenario, cases, methods, seeds)
    base = "hasco" if "hasco" in methods else methods[0]
    text = tables.comparison(found, methods, cases, seeds, base)
    named = SCENARIOS[scenario][0]
    space = named_space(named)
    shown = UNICO_AXES if named != "unico-ci" else tuple(a.name for a in space.axes)
    text += f"\n{PAPER.get(scenario, PAPER['edge'])}\n"
    text += "\nThe design of the median seed:\n\n" + tables.chosen(found, methods, cases, seeds, space, shown)
    figure = options.figures / f"unico_{options.tier}_{options.piece}.png"
    return text + drawn(found, {m: m for m in methods}, cases, seeds, figure, f"{scenario}, tier {options.tier}")


def drawn(
    found: tables.Table, methods: dict[str, str], cases: Sequence[str], seeds: int, path: pathlib.Path, title: str
) -> str:
    """The figure of hypervolume differences against cost, a mean over cases and seeds; methods by their label."""
    pairs = tables.complete(found, list(methods.values()), cases, seeds)
    if not pairs:
        return ""
    shares = np.linspace(0, 1, 41)[1:]
    lines: dict[str, list[np.ndarray]] = {label: [] for label in methods}
    for case in dict.fromkeys(c for c, _ in pairs):
        own = [s for c, s in pairs if c == case]
        reference = tables.union(found[case, m, s] for m in methods.values() for s in own)
        axes = Axes.of(reference, log=True)
        for label, m in methods.items():
            for s in own:
                run = found[case, m, s]
                lines[label].append(tables.volume_curve(run, reference, axes, shares * run.evaluations))
    series = {label: (shares.tolist(), np.mean(rows, axis=0).tolist()) for label, rows in lines.items()}
    figure = hypervolume_differences(
        series, title=f"{title}: mean of {len(pairs)} searches", cost="share of the mappings"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    ends = ", ".join(f"{label} {np.mean(rows, axis=0)[-1]:.3f}" for label, rows in lines.items())
    return f"\nHypervolume difference against cost: `{path.name}`; at the end {ends}.\n"


# ---------------------------------------------------------------- choices of ours

CHOICES = ("hasco", "unico-end", "unico-even", "unico-expected", "unico")


def choices(runs: Runs, tier: Tier, options: argparse.Namespace) -> str:
    """Points of the front finished at the end or as brackets earn it, with expected values of stopped points, and with
    points that aim at the ideal, which the first three have not.

    First on the space that is enumerated, where a search takes seconds, at 80 generations of eight points each; then on
    the networks of the tier.
    """
    from mohamjax.unico.choices import settings

    space, seeds = enumerable(), options.seeds or 5
    sizes = {"lanes": 8, "first": 4, "rounds": 4, "iterations": 8, "mapping_seed": 0}
    found: dict[tuple[str, str, int], Run] = {}
    for seed in range(seeds):
        for variant in CHOICES:
            method, parts = VARIANTS[variant]
            config = settings(space, method, "small", seed=seed, **{**sizes, **parts})
            run = runs.kept(("choices", space.name, "small", variant, str(seed)), small_application, space, config)
            if run is not None:
                found["432", variant, seed] = run
    text = f"## {space.name}\n\n" + tables.comparison(found, CHOICES, ["432"], seeds, "hasco")
    return text + "\n## Networks\n\n" + single(runs, tier, options, "edge", CHOICES)


OTHERS = ("resnet50", "xception_299")


def others(runs: Runs, tier: Tier, options: argparse.Namespace) -> str:
    """HASCO's way and UNICO, with and without points that aim, on networks that no choice of ours was made on."""
    own = argparse.Namespace(**{**vars(options), "networks": options.networks or OTHERS})
    return single(runs, tier, own, "edge", ("hasco", "unico-even", "unico"))


# ---------------------------------------------------------------- Table 3


def validation(runs: Runs, tier: Tier, options: argparse.Namespace) -> str:
    """One accelerator for some networks, its design nearest to the ideal on others."""
    methods = options.methods or ("hasco", "hasco-r", "unico-no-R", "unico")
    seeds = options.seeds or tier.trials
    workload = "+".join(tier.trained)
    found = gathered(runs, tier, "edge", [workload], methods, seeds)
    pairs = tables.complete(found, methods, [workload], seeds)
    if not pairs:
        return "No seed has a search of every method yet.\n"
    space, generations = (
        named_space("unico-edge"),
        BUDGETS[tier.budget]["first"] << (BUDGETS[tier.budget]["rounds"] - 1),
    )
    measurements = Measurements(Lines(options.runs / "measured.csv", MEASURED_COLUMNS, 4))
    text = "Searched for: " + ", ".join(tier.trained) + ".\n\n"
    text += tables.comparison(found, methods, [workload], seeds, methods[0])
    for log in (False, True):
        axes = tables.common_axes(found.values(), log=log)
        picks = {
            (m, s): int(found[workload, m, s].index[nearest_to_ideal(found[workload, m, s].objectives, axes)])
            for _, s in pairs
            for m in methods
        }
        points, measured = sorted(set(picks.values())), {}
        for network in options.networks or tier.unseen:
            if runs.may_begin():
                measurements.measure(space, network, generations, points)
            if measurements.missing(space, network, generations, points):
                runs.left += 1
                continue
            for (m, s), point in picks.items():
                measured[network, m, s] = measurements.objectives(space, network, generations, point)
        kind = "logarithmic" if log else "linear"
        text += f"\n## Designs chosen on {kind} axes, on networks held out\n\n"
        text += tables.held_out(measured, methods, methods[0], found.values()) if measured else "None measured yet.\n"
    return f"{text}\n{PAPER['validation']}\n"


# ---------------------------------------------------------------- Figure 6


def ablation(runs: Runs, tier: Tier, options: argparse.Namespace) -> str:
    """Halving times update rule."""
    case, seeds = "+".join(options.networks or tier.ablated), options.seeds or tier.seeds
    parts = {f"{h}-{r}": f"{h}-{r}" for r in ("champion", "pareto", "uul") for h in ("none", "sh", "msh")}
    parts["msh-uul"] = "unico"
    more = ("unico-no-R", "unico-mesmo")
    variants = options.methods or ("hasco", *parts.values(), *more)
    found = gathered(runs, tier, "edge", [case], variants, seeds)
    text = tables.comparison(found, variants, [case], seeds, variants[0]) + f"\n{PAPER['ablation']}\n"
    if options.methods:
        return text
    for letter, rule in zip("abc", ("champion", "pareto", "uul"), strict=True):
        methods = {"hasco": "hasco", **{label: m for label, m in parts.items() if label.endswith(rule)}}
        path = options.figures / f"unico_{options.tier}_ablation_{letter}.png"
        text += drawn(found, methods, [case], seeds, path, f"update rule {rule}")
    return text


# ---------------------------------------------------------------- Figure 7


def shapes(runs: Runs, tier: Tier, options: argparse.Namespace) -> str:
    """Loop bounds of the layers that are searched for, and of those held out."""
    shown = ("C", "K", "P", "Q", "R", "S")
    body, groups = [["networks", "layers", "MACs", *(f"median {d} (mean)" for d in shown)]], {}
    for label, networks in (("searched", tier.trained), ("unseen", tier.unseen)):
        layers = [layer for n in networks for layer in application(n).layers]
        bounds = np.asarray([layer.shape.bounds for layer in layers])
        groups[label] = bounds[:, [DIMS.index(d) for d in shown]]
        cells = [f"{np.median(column):g} ({np.mean(column):.1f})" for column in groups[label].T]
        body.append([label, str(len(layers)), f"{sum(layer.macs for layer in layers):.3g}", *cells])
    path = options.figures / f"unico_{options.tier}_shapes.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    save(loop_bounds(groups, shown, title="Loop bounds of layers"), path)
    note = (
        "Paper (Appendix B.3): the unseen networks have the larger outputs P and Q. Ours: the other way round, because "
        "of SRGAN and VGG; the unseen ones have more layers of filters 1 x 1 and of few channels."
    )
    return f"{tables.fenced(body)}\nFigure: `{path.name}`. {note}\n"


# ---------------------------------------------------------------- an enumerated space


def enumerable() -> HardwareSpace:
    """432 points of `unico-ci`."""
    base = named_space("unico-ci")
    kept = {"bus_bits": (16,), "burst_words": (8,)}
    axes = tuple(dataclasses.replace(a, values=kept.get(a.name, a.values)) for a in base.axes)
    names = [a.name for a in base.axes]
    structural = [a for a in base.axes if not a.sets]
    digits = np.stack(np.unravel_index(np.arange(len(base.variants)), [len(a.values) for a in structural]), axis=1)
    use = [
        all(a.values[d] in axes[names.index(a.name)].values for a, d in zip(structural, row, strict=True))
        for row in digits
    ]
    return HardwareSpace("unico-432", axes, tuple(v for v, u in zip(base.variants, use, strict=True) if u))


def enumeration(runs: Runs, tier: Tier, options: argparse.Namespace) -> str:
    """Share of the true hypervolume at 15 % of the exhaustive cost (all searches see the same mapping searches)."""
    from mohamjax.unico.choices import settings

    space = enumerable()
    seeds = options.seeds or {"ci": 1, "small": 3, "full": 10}[options.tier]
    methods = options.methods or ("unico", "hasco", "mobohb", "nsga2", "random")
    sizes = {"lanes": 8, "first": 4, "rounds": 4, "mapping_seed": 0}
    exhaustive = space.size * 32
    iterations = int(0.15 * exhaustive // Bracket(8, 4, 4).cost)

    def search(label: str, variant: str, seed: int, number: int) -> Run | None:
        method, parts = VARIANTS[variant]
        config = settings(space, method, "ci", seed=seed, **{**sizes, **parts, "iterations": number})
        return runs.kept(("enumerate", space.name, "small", label, str(seed)), small_application, space, config)

    # Chance, given as many evaluations as there are, measures every point once.
    whole = search("all", "random", 0, -(-exhaustive // Bracket(8, 4, 4).cost))
    if whole is None:
        return "The space is not enumerated yet.\n"
    if whole.points != space.size:
        raise RuntimeError(f"{whole.points} of {space.size} points were measured")
    truth = np.concatenate([whole.objectives, whole.most[None]])
    found = {
        ("432", m, s): run for s in range(seeds) for m in methods if (run := search(m, m, s, iterations)) is not None
    }
    body = [["method", "seeds", "median share of HV", "least", "greatest", "share of the cost"]]
    for m in methods:
        own = [run for (_, n, _), run in found.items() if n == m]
        if own:
            shares = [tables.share_of(run.objectives, truth) for run in own]
            cost = np.mean([run.evaluations for run in own]) / whole.evaluations
            body.append([m, str(len(own)), *(f"{f(shares):.4f}" for f in (np.median, np.min, np.max)), f"{cost:.3f}"])
    note = (
        "The truth is every point at the full budget under one key of the mapping searches; a share above 1 comes from "
        "mappings met\non the way to it, of less power or more latency, that the end of the search gave up.\n"
    )
    text = f"{space.size} points, {len(whole.objectives)} on the true front.\n\n{tables.fenced(body)}\n{note}\n"
    return text + tables.comparison(found, methods, ["432"], seeds, "hasco" if "hasco" in methods else methods[0])


# ---------------------------------------------------------------- seconds of a bracket


def bracket(runs: Runs, tier: Tier, options: argparse.Namespace) -> str:
    """Seconds of a bracket of modified halving beside those of the full budget for all of its points."""
    name = (options.networks or (["small"] if options.tier == "ci" else ["resnet50"]))[0]
    plan = Bracket(32, *((2, 3) if options.tier == "ci" else (4, 5)))
    app, space = application(name), named_space("unico-edge")
    layers = len(app.unique_layers)
    lanes = LaneConfig(generations=plan.full_budget, max_children=wires_room(space))
    search = MappingSearch(jax.random.key(0), lane_problem(CodesignProblem(app, space)), space, layers, lanes)
    index = np.random.default_rng(0).choice(space.size, plan.lanes, replace=False)
    body = [["what", "points x generations", "mappings", "seconds", "seconds of the processor"]]

    def timed(label: str, cost: int, call) -> tuple[float, float]:
        evaluated, clock, cpu = search.evaluations, time.perf_counter(), time.process_time()
        call()
        spent = time.perf_counter() - clock, time.process_time() - cpu
        cells = [f"{search.evaluations - evaluated:,}", *(f"{s:.1f}" for s in spent)]
        body.append([label, f"{cost:,}", *cells])
        return spent

    def score(searched) -> np.ndarray:
        return np.prod(searched.curves(), axis=0)

    def halving(points: np.ndarray):
        return run_bracket(search, points, plan, score)

    before, began = advance._cache_size(), time.process_time()
    halving((index + 1) % space.size)  # compiles
    compiling, programs = time.process_time() - began, advance._cache_size() - before
    halved = timed("bracket", plan.cost, lambda: halving(index))
    full = timed("full budget", plan.full_cost, lambda: search.advance(search.begin(index), plan.full_budget))
    halved = min(halved, timed("bracket again", plan.cost, lambda: halving(index)), key=lambda spent: spent[1])
    more = advance._cache_size() - before - programs
    share = [a / b for a, b in zip(halved, full, strict=True)]
    return (
        f"{name}: {layers} unique layers, {plan.lanes} points of unico-edge, {plan.rounds} rounds.\n\n"
        f"{tables.fenced(body)}\nShare of the full budget: {share[0]:.3f} of the seconds, {share[1]:.3f} of the "
        f"processor's, {plan.cost / plan.full_cost:.3f} of the mappings (gate: below 1/3).\n"
        f"Programs of the lanes compiled: {programs} in a first bracket of other points ({compiling:.0f} s of the "
        f"processor, or read from a cache), {more} after it: blocks of points have one size whatever the round.\n"
    )


# ---------------------------------------------------------------- the command

PIECES = {
    **dict.fromkeys(SCENARIOS, single),
    "validation": validation,
    "ablation": ablation,
    "choices": choices,
    "others": others,
    "shapes": shapes,
    "enumerate": enumeration,
    "bracket": bracket,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("piece", choices=list(PIECES))
    parser.add_argument("--tier", choices=list(TIERS), default="small")
    parser.add_argument("--seeds", type=int, help="in the place of the tier's")
    parser.add_argument("--networks", nargs="+", help="likewise")
    parser.add_argument("--methods", nargs="+", choices=list(VARIANTS), help="likewise")
    parser.add_argument("--minutes", type=float, help="begin no search after so many")
    parser.add_argument("--report", action="store_true", help="begin no search, write what is there")
    parser.add_argument("--runs", type=pathlib.Path, default=RESULTS / "unico", help="folder of the lines of searches")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="folder of the tables")
    parser.add_argument("--figures", type=pathlib.Path, help="folder of the figures (default: that of the runs)")
    options = parser.parse_args()
    options.figures = options.figures or options.runs
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(pathlib.Path.home() / ".cache" / "mohamjax" / "compiled"))
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    runs = Runs(Lines(options.runs / "runs.csv", RUN_COLUMNS, 5), until, options.report)
    text = PIECES[options.piece](runs, TIERS[options.tier], options)
    if runs.left:
        text += f"\n{runs.left} searches are still to be done: start the piece again.\n"
    heading = f"# UNICO: {options.piece}, tier {options.tier}\n\n{header()}.\n\n"
    write_text(options.out / f"unico_{options.piece}_{options.tier}.md", heading + text)
    print(text)


if __name__ == "__main__":
    main()
