"""Exhibits of UNICO (Efficient Unified Hardware-Software Co-Optimization for Deep Neural Networks) beside the paper's.

    python experiments/paper/unico.py --list
    python experiments/paper/unico.py table1 fig5a --tier small --seeds 1
    python experiments/paper/unico.py all --tier full

Networks are those of `experiments/data/unico_layers.csv`. Every search is appended to
`experiments/results/paper/unico/runs.csv` (or to the folder of `--out`) as it ends and is not done again. All methods
of a table have equally many mapping evaluations, and a table counts only the pairs of network and seed that all methods
were run on. `unico` is our default, `unico-printed` the preset without any of our additions; `hasco-aimed` and
`mobohb-extras` are rivals with these additions.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np
import unico_tables as tables
from exhibits import Lines, Study, main
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
from mohamjax.io.files import write_text
from mohamjax.plot.unico import hypervolume_differences, loop_bounds
from mohamjax.unico.axes import Axes, nearest_to_ideal
from mohamjax.unico.bracket import MappingSearch, run_bracket
from mohamjax.unico.choices import settings
from mohamjax.unico.config import BUDGETS
from mohamjax.unico.halving import Bracket
from mohamjax.unico.lanes import LaneConfig, advance, lane_problem, wires_room
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.space import HardwareSpace, named_space

UNICO_AXES = ("pe_x", "pe_y", "local_bytes", "shared_bytes", "noc_bits", "dataflow")
COMPARED = ("hasco", "nsga2", "mobohb", "unico-printed", "unico", "hasco-aimed", "mobohb-extras")
"""Methods of Table 1 and Figure 5a: rivals, UNICO as printed and ours, and rivals with our additions.

The cloud device (Table 2, Figure 5b) leaves out the last two.
"""
TWO = ("mobilenet_v1_224", "srgan_generator")
OTHERS = ("resnet50", "xception_299")
ALL = ("unico", "hasco", "hasco-r", "nsga2", "mobohb", "random")

PAPER = {
    "edge": "In the paper (Table 1) the mean distance of HASCO is 2.29 times UNICO's, that of NSGA-II 2.35 times; "
    "the costs in hours are 4.9 and 2.9 times by the table (4.5 and 2.7 in the text).",
    "cloud": "In the paper (Table 2) the mean distance of HASCO is 1.34 times UNICO's, that of NSGA-II 1.94 times; "
    "the costs in hours are 4.2 and 2.7 times.",
    "validation": "In the paper (Table 3) UNICO gains 44.7 % over HASCO, and HASCO with robustness 41.8 %, as "
    "means of the networks' gains; UNICO gains 5.0 % over HASCO with robustness (44 % and 7 % in the "
    "text).",
    "ablation": "In the paper (Figure 6, hypervolume difference), under the champion rule, modified halving gains "
    "7 % over HASCO and plain halving loses 48 %; under the Pareto rule modified halving gains 43 % "
    "over HASCO and 7 % over plain halving; under UUL 52 % and 5 %.",
}


def runs_of(study: Study) -> Runs:
    """The searches of a study, in its folder."""
    return Runs(Lines(study.folder / "runs.csv", RUN_COLUMNS, 5), study.until, study.report_only)


def written(study: Study, runs: Runs, name: str, title: str, text: str) -> None:
    """Writes `NAME.md`."""
    if runs.left:
        text += f"\n{runs.left} searches were not begun: the table shows what there is.\n"
    study.folder.mkdir(parents=True, exist_ok=True)
    write_text(study.folder / f"{name}.md", f"# {title}\n\n{header()}. Tier `{study.tier}`.\n\n{text}")
    print(text, flush=True)


def gathered(
    runs: Runs, study: Study, scenario: str, cases: Sequence[str], variants: Sequence[str], seeds: int = 0
) -> tables.Table:
    """Searches of all cases, seed by seed, so that early stops leave whole pairs."""
    out: dict[tuple[str, str, int], Run] = {}
    for seed in range(seeds or study.seeds):
        for case in cases:
            for variant in variants:
                found = runs.search(study.tier, scenario, case, variant, seed)
                if found is not None:
                    out[case, variant, seed] = found
    return out


# ---------------------------------------------------------------- Tables 1, 2, 4 and 5, Figure 5


def _case(study: Study, scenario: str) -> tuple[Sequence[str], Sequence[str]]:
    """Networks and methods of a table of single networks."""
    quick = ("hasco", "unico-printed", "unico", "mobohb-extras")
    methods = COMPARED if scenario == "edge" else COMPARED[:-2]
    return study.pick(("small",), SINGLE, SINGLE), study.pick(quick, methods, methods)


def _single(study: Study, name: str, scenario: str, title: str) -> None:
    """Networks one by one under every method: distances, hypervolumes and costs."""
    runs, (cases, methods) = runs_of(study), _case(study, scenario)
    found = gathered(runs, study, scenario, cases, methods)
    text = tables.comparison(found, methods, cases, study.seeds, "hasco") + f"\n{PAPER[scenario]}\n"
    if "unico-printed" in methods:
        text += (
            "\n`unico-printed` searches for mappings of least latency, the others for mappings of least "
            "energy-delay product, so that their points differ in the trade of latency for power too.\n"
        )
    text += "\nThe cost is counted in mapping evaluations, equally many for all methods; the paper counts hours.\n"
    written(study, runs, name, title, text)


def table1(study: Study) -> None:
    """Table 1: seven networks one by one, edge (2 W)."""
    _single(study, "table1", "edge", "UNICO, Table 1: single networks on the edge device")


def table2(study: Study) -> None:
    """Table 2: networks one by one, cloud (20 W)."""
    _single(study, "table2", "cloud", "UNICO, Table 2: single networks on the cloud device")


def _hardware(study: Study, name: str, scenario: str, title: str) -> None:
    """The design nearest to the ideal of every network and method."""
    runs, (cases, methods) = runs_of(study), _case(study, scenario)
    found = gathered(runs, study, scenario, cases, methods)
    space = named_space(SCENARIOS[scenario][0])
    text = "Each row has the design nearest to the ideal, of the median seed.\n\n"
    text += tables.chosen(found, methods, cases, study.seeds, space, UNICO_AXES)
    text += (
        "\nThe paper's arrays on the cloud device have 2 to 48 PEs, most of them thin (24 x 1, 12 x 1, 4 x 1), "
        "with local scratchpads of 42 to 1,024 bytes and shared ones of 2 to 768 KB. The paper does not print its "
        "axes, and its power and area models differ from ours.\n"
    )
    written(study, runs, name, title, text)


def table4(study: Study) -> None:
    """Table 4: the chosen hardware, edge."""
    _hardware(study, "table4", "edge", "UNICO, Table 4: chosen hardware of the edge device")


def table5(study: Study) -> None:
    """Table 5: the chosen hardware, cloud."""
    _hardware(study, "table5", "cloud", "UNICO, Table 5: chosen hardware of the cloud device")


def _convergence(study: Study, name: str, scenario: str) -> None:
    runs, (cases, methods) = runs_of(study), _case(study, scenario)
    found = gathered(runs, study, scenario, cases, methods)
    text = drawn(study, found, {m: m for m in methods}, cases, study.seeds, name, f"{scenario}, tier {study.tier}")
    text += "\nPaper (Figure 5): UNICO's difference falls fastest and ends lowest, before MOBOHB, HASCO and NSGA-II.\n"
    written(study, runs, name, f"UNICO, Figure {name[3:]}: hypervolume difference against cost, {scenario}", text)


def fig5a(study: Study) -> None:
    """Figure 5a: hypervolume difference against cost, edge."""
    _convergence(study, "fig5a", "edge")


def fig5b(study: Study) -> None:
    """Figure 5b: hypervolume difference against cost, cloud."""
    _convergence(study, "fig5b", "cloud")


def drawn(
    study: Study, found: tables.Table, methods: dict[str, str], cases: Sequence[str], seeds: int, name: str, title: str
) -> str:
    """Draws mean hypervolume differences of labelled methods against cost; returns a line on them."""
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
    study.figure(figure, name)
    ends = ", ".join(f"{label} {np.mean(rows, axis=0)[-1]:.3f}" for label, rows in lines.items())
    half = ", ".join(f"{label} {np.mean(rows, axis=0)[19]:.3f}" for label, rows in lines.items())
    return f"\nHypervolume difference against cost: `{name}.png`; at half of the cost {half}; at the end {ends}.\n"


# ---------------------------------------------------------------- Table 3


def table3(study: Study) -> None:
    """Table 3: one accelerator for four networks, its design nearest to the ideal on eight others."""
    runs = runs_of(study)
    methods = ("hasco", "hasco-r", "unico-no-R", "unico")
    trained = study.pick(("small",), TRAINED, TRAINED)
    unseen = study.pick(("mobilenet_v3_small",), UNSEEN, UNSEEN)
    seeds = study.pick(1, 10, 10)
    workload = "+".join(trained)
    found = gathered(runs, study, "edge", [workload], methods, seeds)
    pairs = tables.complete(found, methods, [workload], seeds)
    if not pairs:
        written(study, runs, "table3", "UNICO, Table 3", "No seed has a search of every method yet.\n")
        return
    space = named_space("unico-edge")
    generations = BUDGETS[study.tier]["first"] << (BUDGETS[study.tier]["rounds"] - 1)
    measurements = Measurements(Lines(study.folder / "measured.csv", MEASURED_COLUMNS, 4))
    text = "Searched for: " + ", ".join(trained) + ".\n\n"
    text += tables.comparison(found, methods, [workload], seeds, methods[0])
    for log in (False, True):
        axes = tables.common_axes(found.values(), log=log)
        picks = {
            (m, s): int(found[workload, m, s].index[nearest_to_ideal(found[workload, m, s].objectives, axes)])
            for _, s in pairs
            for m in methods
        }
        points, measured = sorted(set(picks.values())), {}
        for network in unseen:
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
    written(study, runs, "table3", "UNICO, Table 3: networks held out", f"{text}\n{PAPER['validation']}\n")


# ---------------------------------------------------------------- Figure 6


def fig6(study: Study) -> None:
    """Figure 6: halving times update rule, four networks on one accelerator."""
    runs = runs_of(study)
    case = "+".join(study.pick(("small",), ABLATED, ABLATED))
    parts = {f"{h}-{r}": f"{h}-{r}" for r in ("champion", "pareto", "uul") for h in ("none", "sh", "msh")}
    parts["msh-uul"] = "unico"
    whole = ("hasco", *parts.values(), "unico-printed", "unico-no-R", "unico-mesmo")
    quick = ("hasco", "sh-uul", "unico", "unico-printed")
    variants = study.pick(quick, whole, whole)
    found = gathered(runs, study, "edge", [case], variants)
    text = tables.comparison(found, variants, [case], study.seeds, variants[0]) + f"\n{PAPER['ablation']}\n"
    for letter, rule in zip("abc", ("champion", "pareto", "uul"), strict=True):
        methods = {"hasco": "hasco", **{label: m for label, m in parts.items() if label.endswith(rule)}}
        methods = {label: m for label, m in methods.items() if m in variants}
        if len(methods) > 1:
            text += drawn(study, found, methods, [case], study.seeds, f"fig6{letter}", f"update rule {rule}")
    written(study, runs, "fig6", "UNICO, Figure 6: parts", text)


# ---------------------------------------------------------------- Figure 7


def fig7(study: Study) -> None:
    """Figure 7: loop bounds of the layers that are searched for, and of those held out."""
    shown = ("C", "K", "P", "Q", "R", "S")
    body, groups = [], {}
    for label, networks in (("searched", TRAINED), ("unseen", UNSEEN)):
        layers = [layer for n in networks for layer in application(n).layers]
        bounds = np.asarray([layer.shape.bounds for layer in layers])
        groups[label] = bounds[:, [DIMS.index(d) for d in shown]]
        cells = [f"{np.median(column):g} ({np.mean(column):.1f})" for column in groups[label].T]
        body.append([label, len(layers), f"{sum(layer.macs for layer in layers):.3g}", *cells])
    study.figure(loop_bounds(groups, shown, title="Loop bounds of layers"), "fig7")
    note = (
        "The paper (Appendix B.3) says that the networks searched for have the larger P and Q, and in the next "
        "sentence that the unseen ones do. Here the networks searched for have the larger outputs, because of "
        "SRGAN and VGG; those held out have more layers with 1 x 1 filters and with few channels."
    )
    columns = ["networks", "layers", "MACs", *(f"median {d} (mean)" for d in shown)]
    study.table("fig7", "UNICO, Figure 7: loop bounds of layers", columns, body, note)


# ---------------------------------------------------------------- beside the paper


def _more(study: Study, name: str, scenario: str, cases: Sequence[str], methods: Sequence[str], note: str) -> None:
    runs, cases = runs_of(study), study.pick(("small",), cases, cases)
    methods = study.pick(methods[:2], methods, methods)
    found = gathered(runs, study, scenario, cases, methods)
    text = tables.comparison(found, methods, cases, study.seeds, "hasco" if "hasco" in methods else methods[0])
    text += drawn(study, found, {m: m for m in methods}, cases, study.seeds, name, f"{scenario}, tier {study.tier}")
    written(study, runs, name, f"UNICO: {note}", text)


def two(study: Study) -> None:
    """Two networks under all methods with more seeds, edge (not in the paper)."""
    _more(study, "two", "edge", TWO, ALL, "two networks, all methods")


def two_cloud(study: Study) -> None:
    """The same, cloud (not in the paper)."""
    _more(study, "two-cloud", "cloud", TWO, ALL, "two networks, all methods, cloud")


def others(study: Study) -> None:
    """HASCO, and UNICO with and without aim, on networks that no choice of ours was made on (not in the paper)."""
    _more(study, "others", "edge", OTHERS, ("hasco", "unico-even", "unico"), "networks that no choice was made on")


def capped(study: Study) -> None:
    """A limit of 0.4 W, which refuses something (not in the paper)."""
    _more(study, "capped", "edge-0.4W", TWO, (*ALL, "unico-printed"), "a limit on power of 0.4 W")


def fitted(study: Study) -> None:
    """Power and area as fitted to the paper's cloud table (not in the paper)."""
    _more(study, "fitted", "edge-fit", TWO, (*ALL, "unico-printed"), "power and area fitted to the paper's")


CHOICES = ("hasco", "unico-end", "unico-even", "unico-expected", "unico")


def choices(study: Study) -> None:
    """When points are finished, what is learnt of others, which picks aim (not in the paper).

    First on the space that is enumerated, where a search takes seconds, with brackets of eight points that cost 80
    generations each; then on two networks.
    """
    runs, space, seeds = runs_of(study), enumerable(), study.pick(1, 5, 5)
    sizes = {"lanes": 8, "first": 4, "rounds": 4, "iterations": study.pick(2, 8, 8), "mapping_seed": 0}
    variants = study.pick(("hasco", "unico"), CHOICES, CHOICES)
    found: dict[tuple[str, str, int], Run] = {}
    for seed in range(seeds):
        for variant in variants:
            method, parts = VARIANTS[variant]
            config = settings(space, method, "small", seed=seed, **{**sizes, **parts})
            run = runs.kept(("choices", space.name, "small", variant, str(seed)), small_application, space, config)
            if run is not None:
                found["432", variant, seed] = run
    text = f"## {space.name}\n\n" + tables.comparison(found, variants, ["432"], seeds, "hasco")
    cases = study.pick(("small",), TWO, TWO)
    more = gathered(runs, study, "edge", cases, variants)
    text += "\n## Networks\n\n" + tables.comparison(more, variants, cases, study.seeds, "hasco")
    written(study, runs, "choices", "UNICO: choices of ours", text)


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


def enumerated(study: Study) -> None:
    """A space that is searched whole: share of its true hypervolume at 15 % of the cost (not in the paper)."""
    runs, space, seeds = runs_of(study), enumerable(), study.pick(1, 10, 10)
    methods = study.pick(
        ("unico",), ("unico", "hasco", "mobohb", "nsga2", "random"), ("unico", "hasco", "mobohb", "nsga2", "random")
    )
    sizes = {"lanes": 8, "first": 4, "rounds": 4, "mapping_seed": 0}
    exhaustive = space.size * 32
    iterations = int(0.15 * exhaustive // Bracket(8, 4, 4).cost)

    def search(label: str, variant: str, seed: int, number: int) -> Run | None:
        method, parts = VARIANTS[variant]
        config = settings(space, method, "ci", seed=seed, **{**sizes, **parts, "iterations": number})
        return runs.kept(("enumerate", space.name, "small", label, str(seed)), small_application, space, config)

    # Random search, given as many evaluations as there are, measures every point once.
    whole = search("all", "random", 0, -(-exhaustive // Bracket(8, 4, 4).cost))
    if whole is None:
        written(study, runs, "enumerated", "UNICO: a space searched whole", "The space is not enumerated yet.\n")
        return
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
        "The truth is every point at the full budget under one key of the mapping searches. A share above 1 comes "
        "from mappings of less power or more latency that a mapping search met on the way to the full budget and "
        "then gave up.\n"
    )
    text = f"{space.size} points, {len(whole.objectives)} on the true front.\n\n{tables.fenced(body)}\n{note}\n"
    text += tables.comparison(found, methods, ["432"], seeds, "hasco" if "hasco" in methods else methods[0])
    written(study, runs, "enumerated", "UNICO: a space searched whole", text)


# ---------------------------------------------------------------- seconds of a bracket


def bracket(study: Study) -> None:
    """Seconds of a bracket beside those of the full budget for all of its points (not in the paper)."""
    name = study.pick("small", "resnet50", "resnet50")
    plan = Bracket(*study.pick((8, 2, 3), (32, 4, 5), (32, 4, 5)))
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
    text = (
        f"{name}: {layers} unique layers, {plan.lanes} points of unico-edge, {plan.rounds} rounds.\n\n"
        f"{tables.fenced(body)}\nShare of the full budget: {share[0]:.3f} of the seconds, {share[1]:.3f} of the "
        f"processor's, {plan.cost / plan.full_cost:.3f} of the mappings (gate: below 1/3).\n"
        f"A first bracket of other points compiled {programs} programs of the lanes ({compiling:.0f} s of the "
        f"processor, or read from a cache), later ones {more}: blocks of points have one size in every round.\n"
    )
    written(study, runs_of(study), "bracket", "UNICO: seconds of a bracket", text)


EXHIBITS: dict[str, Callable[[Study], None]] = {
    "table1": table1, "table2": table2, "table3": table3, "table4": table4, "table5": table5, "fig5a": fig5a,
    "fig5b": fig5b, "fig6": fig6, "fig7": fig7, "two": two, "two-cloud": two_cloud, "others": others, "capped": capped,
    "fitted": fitted, "choices": choices, "enumerated": enumerated, "bracket": bracket,
}  # fmt: skip

if __name__ == "__main__":
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(pathlib.Path.home() / ".cache" / "mohamjax" / "compiled"))
    main("unico", EXHIBITS)
