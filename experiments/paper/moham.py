"""Exhibits of MOHaM beside the paper's: sizes of its spaces, Figures 2a and 6 to 12, its budget and its stop rule.

Searches "as printed" use the preset `moham`: MOHaM's chromosome, operators, rates, mapper sizes and result. Results go
to `experiments/results/paper/moham`, figures to `docs/papers/figures/moham`.

    python experiments/paper/moham.py --list
    python experiments/paper/moham.py fig7 fig8 --tier small
    python experiments/paper/moham.py all --tier ci --out FOLDER
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from exhibits import Study, main
from moham_budget import budget, fig12, stop
from moham_figures import bars, curves, projections
from moham_measures import additive_epsilon, dominated_share, igd_plus, median, non_dominated, scaled
from moham_runs import BANDWIDTHS, TEMPLATES, application_of, problem_of, tables_of, tier_of
from moham_shared import OURS, all_seeds, box_of, generations_of, scenarios_of, volume_of
from wilcoxon_tests import a12, rank_sum

from mohamjax.hardware import load_templates
from mohamjax.plot.design import area_shares, gantt
from mohamjax.schedule.view import design_view
from mohamjax.search import Search, Settings
from mohamjax.workload import SCENARIOS, WorkloadShape

_WITH_UNET = (*SCENARIOS, "ar-vr-unet")


def _least(fronts: Sequence[np.ndarray]) -> list[str]:
    """Medians over the seeds of the least latency [ms], energy [mJ] and area [mm²] of their fronts."""
    least = np.array([front.min(axis=0) for front in fronts]) * (1e3, 1e3, 1.0)
    return [f"{x:.4g}" for x in np.median(least, axis=0)]


def _compared(
    study: Study,
    name: str,
    methods: Mapping[str, str],
    scenarios: Sequence[str],
    title: str,
    note: str,
    *,
    against: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] | None = None,
) -> None:
    """Compares fronts of several methods per scenario: a table of all seeds, a figure of the first one.

    Args:
        study: the call.
        name: of table and figure.
        methods: names in `METHODS` by label; the last one is the whole method.
        scenarios: names.
        title: of table and figure.
        note: of the table.
        against: further columns, each a function of a method's front and the whole method's of the same seed.
    """
    columns = {"share that the whole method dominates": dominated_share, **(against or {})}
    distances = {"IGD+": igd_plus, "epsilon": additive_epsilon}
    generations, rows, drawn = generations_of(study), [], {}
    tested: list[tuple[int, list[float], list[float]]] = []
    for scenario in scenarios:
        found = {label: all_seeds(study, scenario, method, generations) for label, method in methods.items()}
        found = {label: own for label, own in found.items() if own}
        if len(found) == len(methods):
            drawn[scenario] = {label: own[0].result for label, own in found.items()}
        whole = found.get(list(methods)[-1], [])
        volumes = {label: [volume_of(study, scenario, one.result) for one in own] for label, own in found.items()}
        every = [one.result for own in found.values() for one in own]
        if not every:
            continue
        box = box_of(study, scenario, "printed")
        union = scaled(non_dominated(np.concatenate(every)), *box)
        for label, own in found.items():
            fronts = [one.result for one in own]
            if own is not whole and min(len(own), len(whole)) > 1:
                tested.append((len(rows), volumes[list(methods)[-1]], volumes[label]))
            same = {one.seed: one.result for one in whole if own is not whole}
            pairs = [(one.result, same[one.seed]) for one in own if one.seed in same]
            on_axes = [scaled(front, *box) for front in fronts]
            rows.append(
                (
                    scenario, label, len(own), median([len(front) for front in fronts]), *_least(fronts),
                    median(volumes[label]),
                    *(median([distance(front, union) for front in on_axes]) for distance in distances.values()),
                    *(median([measure(*pair) for pair in pairs]) if pairs else "" for measure in columns.values()),
                    "", "",
                )
            )  # fmt: skip
    for (place, ours, theirs), p in zip(tested, rank_sum([pair for _, *pair in tested]), strict=True):
        rows[place] = (*rows[place][:-2], f"{a12(ours, theirs):.2f}", f"{p:.2g}")
    head = (
        "scenario", "variant", "seeds", "designs", "least latency [ms]", "least energy [mJ]", "least area [mm²]",
        "hypervolume", *distances, *columns, "A12", "p",
    )  # fmt: skip
    spent = (
        f"Every run has {generations} generations of {tier_of(study).population} designs; values are medians over "
        "the seeds, some with quartiles. Hypervolume is on log axes in the box of MOHaM's tables. IGD+ and additive "
        "epsilon are on the same axes against the union of all fronts of the scenario, and smaller is better. A12 is "
        "how often a run of the whole method has a larger hypervolume than one of the variant; p is by the rank-sum "
        "test of that, after Holm. "
    )
    study.table(name, title, head, rows, spent + note)
    if drawn:
        study.figure(projections(drawn, title=f"{title}: {generations} generations, seed 0"), name)


# ---------------------------------------------------------------- Section IV: Equations 1 to 5


def eq1(study: Study) -> None:
    """Eq. 1 to 5: logarithms of the sizes of the search spaces, with 16 instances."""
    instances, depth = 16, 6
    levels = [_choices(name) for name in TEMPLATES]
    hardware = math.log10(sum(map(math.prod, levels)) * instances)
    rows = []
    cases = {name: application_of(name) for name in _WITH_UNET}
    resnet = application_of("edge").networks[0]
    four = dataclasses.replace(
        cases["edge"], networks=tuple(dataclasses.replace(resnet, name=f"{i}") for i in range(4))
    )
    cases["4 x ResNet50"] = four
    for name, application in cases.items():
        layers, networks = application.layers, len(application.networks)
        bounds = sum(math.prod(_tiled(layer.shape)) for layer in layers)
        mapping = math.log10(math.factorial(depth) * 2**depth) + math.log10(bounds)
        assignment = math.log10(len(layers) * instances)
        tiles = math.log10(math.factorial(instances))
        each = len(layers) / networks
        schedule = math.log10(math.factorial(networks) * each) + networks * math.log10(each)
        parts = (hardware, mapping, assignment, tiles, schedule)
        rows.append((name, len(layers), networks, *(f"{x:.1f}" for x in parts), f"{sum(parts):.1f}"))
    note = (
        "Values are decimal logarithms, for 16 instances and loop nests of depth 6. Eq. 1 needs the numbers of "
        "free parameters and of their values, which the paper does not print; here they are those of our templates "
        "at the sizes of Table 4 (buffers in steps of 16 rows, arrays in whole rows and columns): "
        f"{', '.join(_counted(levels))}. The tiling of Eq. 2 is summed over the layers. The paper states 55 for "
        "four networks like ResNet50."
    )
    columns = ("scenario", "layers", "networks", "Eq. 1", "Eq. 2", "Eq. 3", "Eq. 4", "Eq. 5", "product")
    study.table("eq1", "MOHaM, Equations 1 to 5: sizes of the spaces", columns, rows, note)


def _choices(template: str) -> list[int]:
    """Number of values of every free parameter of a template."""
    (own,) = load_templates([template])
    out = []
    for level in own.levels[:-1]:
        if level.capacity_words is not None and level.granularity_rows:
            out.append(max(level.capacity_words // (level.block_words * level.granularity_rows), 1))
        out += [x for x in level.fanout if x > 1]
    return out


def _counted(levels: Sequence[Sequence[int]]) -> list[str]:
    parts = zip(TEMPLATES, levels, strict=True)
    return [f"{name} {len(own)} parameters and {math.prod(own):.1e} choices" for name, own in parts]


def _tiled(shape: WorkloadShape) -> tuple[int, ...]:
    """C, K, Y, X, R, S of Eq. 2, of a layer; Y and X are extents of the input, channels those of all groups."""
    height, width = shape.input_extent
    return shape.G * shape.C, shape.G * shape.K, height, width, shape.R, shape.S


# ---------------------------------------------------------------- Figure 2a


def fig2a(study: Study) -> None:
    """Fig. 2a: energy-delay product of three ResNet50 layers on three templates."""
    tier = tier_of(study)
    problem = problem_of("edge", dataclasses.replace(tier, networks=1))
    layers = problem.application.layers
    # Nodes 0, 33 and 121 of the graph without batch normalisation: the stem, the first 1x1 of the second block of the
    # third stage (layer 15 of those with weights), and the classifier.
    wanted = {"CONV_0": layers[0], "CONV_33": layers[15], "FC_121": layers[-1]}
    tables = tables_of("edge", dataclasses.replace(tier, networks=1), OURS)
    shapes = [(u.type, u.shape) for u in problem.application.unique_layers]
    names = [t.name for t in problem.resolved.templates]
    groups, rows = {}, []
    for name, layer in wanted.items():
        u = shapes.index((layer.type, layer.shape))
        best = {}
        for template in TEMPLATES:
            t = names.index(template)
            own = np.asarray(tables.objectives)[u, t, : int(tables.count[u, t])]
            best[template] = float((own[:, 0] * own[:, 1]).min()) * 1e-21  # cycles of 1 ns, pJ
        least = min(best.values())
        groups[name] = {template: value / least for template, value in best.items()}
        rows.append((name, str(layer.shape), *(f"{v:.3g} ({v / least:.2f})" for v in best.values())))
    note = (
        "Values are the least energy-delay products [J s] of the mappings that our layer mapper found, without "
        "off-chip limits, on their own minimal hardware; in brackets they are over that of the best template. The "
        "paper shows normalised bars without numbers. Its layer numbers count the nodes of the graph: 0, 33 and "
        "121 are the stem, a 1x1 convolution of 512 to 128 channels at 28 x 28, and the classifier."
    )
    study.table("fig2a", "MOHaM, Figure 2a: layers prefer templates", ("layer", "shape", *TEMPLATES), rows, note)
    figure = bars(
        groups, label="energy-delay product (best = 1)", title="ResNet50 layers on three templates (Fig. 2a)", log=True
    )
    study.figure(figure, "fig2a")


# ---------------------------------------------------------------- what a random gene meets


def sets(study: Study) -> None:
    """Mappings per layer of MOHaM's tables and of ours, and how far a random one is from the fastest."""
    tier, rows = tier_of(study), []
    for scenario in scenarios_of(study, SCENARIOS):
        problem = problem_of(scenario, tier)
        application = problem.application
        uses = np.bincount(application.unique_of_layer, minlength=len(application.unique_layers))
        for label, kind in (("MOHaM", "printed"), ("ours", OURS)):
            tables = tables_of(scenario, tier, kind)
            objectives, count = np.asarray(tables.objectives, float), np.asarray(tables.count)
            for t, template in enumerate(problem.resolved.templates):
                able = count[:, t] > 0
                there = np.arange(objectives.shape[2]) < count[able, t, None]
                values = np.where(there[..., None], objectives[able, t, :, :2], np.nan)
                mean, least = (uses[able] @ reduce(values, axis=1) for reduce in (np.nanmean, np.nanmin))
                counted = np.average(count[able, t], weights=uses[able])
                rows.append((scenario, label, template.name, f"{counted:.0f}", *(f"{x:.3g}" for x in mean / least)))
    note = (
        "Mappings per layer are a mean over the layers of the scenario that the template runs. The last two "
        "columns give the expected cycles (without off-chip limits) and energy of all these layers if each takes a "
        "random mapping of its set, over those if each takes its best. A random gene of MOHaM's chromosome is such "
        "a random mapping."
    )
    columns = ("scenario", "tables", "template", "mappings", "cycles of random mappings", "energy of random mappings")
    study.table("sets", "MOHaM: what a random mapping costs", columns, rows, note)


# ---------------------------------------------------------------- Figure 6


def fig6(study: Study) -> None:
    """Fig. 6: schedule and area of two very different designs of one front of AR/VR."""
    columns = (
        "generations",
        "design",
        "chiplets",
        "templates",
        "latency_ms",
        "energy_mJ",
        "area_mm2",
        "slowed",
        "largest",
    )
    kept = study.kept("fig6", columns, 2)
    generations, tier = generations_of(study, small=300), tier_of(study)
    done: dict[str, dict[str, object]] = {}

    def run(role: str) -> dict[str, object]:
        if not done:
            done.update(_two_designs(study, generations))
        return done[role]

    rows = [kept.get(generations, role, run=lambda role=role: run(role)) for role in ("fastest", "smallest")]
    columns = (
        "design", "chiplets", "templates", "latency [ms]", "energy [mJ]", "area [mm²]",
        "share of layers that bandwidth slows", "share of the largest chiplet in the area",
    )  # fmt: skip
    note = (
        f"Both designs are of one front, that of the preset `moham` with {generations} generations of "
        f"{tier.population}, seed 0, on the scenario ar-vr. The figures are drawn as the run ends: schedule and "
        "area of each, `fig6_fastest_*` and `fig6_smallest_*`."
    )
    table = [tuple(row.values())[2:] for row in rows if row is not None]
    study.table("fig6", "MOHaM, Figure 6: two designs of one front", columns, table, note)


def _two_designs(study: Study, generations: int) -> dict[str, dict[str, object]]:
    tier = tier_of(study)
    settings = Settings.preset(tier.mapper, preset="moham")
    moham = dataclasses.replace(settings.moham, population=tier.population, generations=generations)
    tables = tables_of("ar-vr", tier, "printed")
    result = Search(problem_of("ar-vr", tier), dataclasses.replace(settings, moham=moham), tables=tables).run()
    out: dict[str, dict[str, object]] = {}
    for role, m in (("fastest", 0), ("smallest", 2)):
        row = int(np.argmin(result.front.objectives[:, m]))
        view = design_view(result.front, row, role)
        title = f"ar-vr, MOHaM as printed, {generations} generations"
        study.figure(gantt(view, title=title), f"fig6_{role}_schedule")
        study.figure(area_shares(view, title=title), f"fig6_{role}_area")
        areas = [sum(a for _, a in chiplet.area_mm2) for chiplet in view.chiplets]
        kinds = [chiplet.template for chiplet in view.chiplets]
        latency, energy, area = result.front.objectives[row]
        out[role] = {
            "chiplets": len(kinds),
            "templates": ", ".join(f"{kinds.count(t)} {t}" for t in TEMPLATES if t in kinds),
            "latency_ms": f"{latency * 1e3:.4g}",
            "energy_mJ": f"{energy * 1e3:.4g}",
            "area_mm2": f"{area:.4g}",
            "slowed": f"{np.mean([bool(bar.slowed) for bar in view.bars]):.2f}",
            "largest": f"{max(areas) / sum(areas):.2f}",
        }
    return out


# ---------------------------------------------------------------- Figures 7 to 9


def fig7(study: Study) -> None:
    """Fig. 7: hardware-only, mapping-only and co-optimisation, four scenarios and AR/VR with UNet."""
    methods = {"hardware only": "simba only", "mapping only": "mapping only", "co-optimisation": "MOHaM"}
    note = (
        "All searches are as printed (preset `moham`). With hardware only, Simba is the only template. With "
        "mapping only, the package is closed and has 16 chiplets of the largest size, of the three templates in "
        "turn (the paper does not print its mix)."
    )
    _compared(study, "fig7", methods, scenarios_of(study, _WITH_UNET), "MOHaM, Figure 7: what is optimised", note)


def fig8(study: Study) -> None:
    """Fig. 8: homogeneous and heterogeneous sub-accelerators, four scenarios and AR/VR with UNet."""
    methods = {**{name: f"{name} only" for name in TEMPLATES}, "all templates": "MOHaM"}
    note = "All searches are as printed (preset `moham`); all templates run depthwise layers over their own channels."
    _compared(study, "fig8", methods, scenarios_of(study, _WITH_UNET), "MOHaM, Figure 8: templates", note)


def fig9(study: Study) -> None:
    """Fig. 9: single objectives beside the front, four scenarios and AR/VR with UNet."""
    methods = {
        "latency alone": "least latency", "energy alone": "least energy", "energy-delay product": "least product",
        "all three": "MOHaM",
    }  # fmt: skip
    note = (
        "All searches are as printed (preset `moham`). A single objective, or the product of latency and energy, "
        "is minimised alone and gives one design."
    )
    _compared(study, "fig9", methods, scenarios_of(study, _WITH_UNET), "MOHaM, Figure 9: objectives", note)


# ---------------------------------------------------------------- Figure 10


def _gain(objective: int) -> Callable[[np.ndarray, np.ndarray], float]:
    """A measure of two fronts: how much lower [%] the second's design of least energy-delay product is."""

    def gain(front: np.ndarray, whole: np.ndarray) -> float:
        one, other = (own[np.argmin(own[:, 0] * own[:, 1]), objective] for own in (front, whole))
        return float(100 * (1 - other / one))

    return gain


def fig10(study: Study) -> None:
    """Fig. 10: mappings of a CoSA-like, a GAMMA-like and Timeloop's hybrid mapper in the place of MOHaM's, AR/VR."""
    methods = {
        "CoSA-like mappings": "CoSA mappings", "GAMMA-like mappings": "GAMMA mappings",
        "hybrid mappings": "hybrid mappings", "MOHaM": "MOHaM",
    }  # fmt: skip
    against = {
        "share that dominates the whole method": lambda front, whole: dominated_share(whole, front),
        "latency saved [%]": _gain(0),
        "energy saved [%]": _gain(1),
    }
    note = (
        "All searches are as printed (preset `moham`) but for the mappings: the tables of CoSA, GAMMA and Timeloop's "
        "hybrid search (which the paper does not have here) hold one mapping per layer and template, MOHaM's hold its "
        "Pareto sets. GAMMA and the hybrid search minimise the energy-delay product. So the search chooses chiplets, "
        "assignment and order for all four, and mappings for MOHaM alone. The "
        "saved per cent are by how much MOHaM's design of least energy-delay product is below the variant's; "
        "negative ones are above. The paper saves 16.5 % of latency and 3.6 % of energy against CoSA, 7.1 % and "
        "4.7 % against GAMMA."
    )
    title = "MOHaM, Figure 10: mappings of CoSA and GAMMA"
    _compared(study, "fig10", methods, scenarios_of(study, ("ar-vr",)), title, note, against=against)


# ---------------------------------------------------------------- Figure 11


def fig11(study: Study) -> None:
    """Fig. 11: latency over the bandwidth of links to memory, AR/VR."""
    generations = generations_of(study)
    rows, lines = [], {}
    for label, name in (("unlimited memory", "interface {}"), ("memory of 16 GB/s", "interface {}, memory 16")):
        least, middle, places = [], [], []
        for b in BANDWIDTHS:
            fronts = [one.result for one in all_seeds(study, "ar-vr", name.format(b), generations)]
            if not fronts:
                continue
            least.append([front[:, 0].min() * 1e3 for front in fronts])
            middle.append([float(np.median(front[:, 0])) * 1e3 for front in fronts])
            places.append(b)
            rows.append((label, b, len(fronts), median(least[-1]), median(middle[-1])))
        if places and len({len(x) for x in least}) == 1:
            lines[f"least latency, {label}"] = (places, np.array(least).T)
            lines[f"median latency of the front, {label}"] = (places, np.array(middle).T)
    note = (
        f"Searches are as printed (preset `moham`), with {generations} generations of {tier_of(study).population}. "
        "They sweep the bandwidth of each memory interface, which is what the released code calls a link; behind "
        "the paper's 4 GB/s interfaces a chiplet's own link of 16 GB/s never binds. The release also limits the "
        "memory behind all interfaces to 16 bytes per cycle, which is the second series."
    )
    columns = ("memory", "interface [GB/s]", "seeds", "least latency [ms]", "median latency of the front [ms]")
    study.table("fig11", "MOHaM, Figure 11: latency over bandwidth", columns, rows, note)
    if lines:
        title = "ar-vr: latency over the bandwidth of memory interfaces (Fig. 11)"
        study.figure(curves(lines, x="interface bandwidth [GB/s]", y="latency [ms]", title=title, logs="xy"), "fig11")


EXHIBITS: dict[str, Callable[[Study], None]] = {
    "eq1": eq1,
    "fig2a": fig2a,
    "fig6": fig6,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
    "fig10": fig10,
    "fig11": fig11,
    "fig12": fig12,
    "budget": budget,
    "sets": sets,
    "stop": stop,
}

if __name__ == "__main__":
    main("moham", EXHIBITS)
