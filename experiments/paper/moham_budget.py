"""Exhibits of MOHaM about its search: operators switched off, the printed budget beside others, the stop rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from exhibits import Study
from moham_figures import bars, curves
from moham_measures import (
    additive_epsilon,
    dominated_share,
    igd_plus,
    median,
    non_dominated,
    scaled,
)
from moham_runs import METHODS, OPERATORS, Found, tier_of
from moham_shared import OURS, all_seeds, box_of, generations_of, scenarios_of, volume_of
from wilcoxon_tests import a12, rank_sum

from mohamjax import emo
from mohamjax.workload import SCENARIOS

CONTROL_OF_PAPER = 0.149


# ---------------------------------------------------------------- Figure 12


def fig12(study: Study) -> None:
    """Fig. 12: share of designs that are dominated when an operator is off, at Table 4's rates and at ours."""
    generations = generations_of(study)
    groups: dict[str, dict[str, float]] = {}
    rows, tested = [], []
    for rates, base, suffix in (("Table 4", "MOHaM", ""), ("ours", "MOHaM, our rates", ", our rates")):
        seeds = range(max(2, study.seeds))
        whole = [one.result for one in all_seeds(study, "ar-vr", base, generations, seeds)]
        if len(whole) < 2:
            continue
        control = _dominated(whole, whole)
        for operator in ("", *OPERATORS):
            off = f"no {operator}{suffix}"
            shares = control
            if operator:
                shares = _dominated([x.result for x in all_seeds(study, "ar-vr", off, generations, seeds)], whole)
                if not shares:
                    continue
                if len(shares) > 1:
                    tested.append((len(rows), shares, control))
            label, share = operator.replace("_", " ") or "control", 100 * np.array(shares)
            groups.setdefault(label, {})[rates] = float(np.mean(share))
            effect = f"{a12(shares, control):.2f}" if operator else ""
            rows.append((rates, label, len(shares), f"{np.mean(share):.1f}", _spread(share), effect, ""))
    for (place, _, _), p in zip(tested, rank_sum([(a, b) for _, a, b in tested]), strict=True):
        rows[place] = (*rows[place][:-1], f"{p:.2g}")
    note = (
        f"The paper's measure (Section VI-B6) on ar-vr, with {generations} generations of "
        f"{tier_of(study).population}, is the percentage of a front that the front of a whole run dominates, for "
        "every run the mean over the whole runs of other seeds. Searches are as printed (preset `moham`), or with "
        "the rates, per layer, of our preset `layers`. The control is whole runs in the place of runs with an "
        "operator off. The paper's control is 14.9 %, and all ten operators are above it; its other values are "
        "only in the figure. Mean and quartiles are over the runs. A12 is how often a run with the operator off is "
        "dominated more than one of the control. p is by the rank-sum test of that, after Holm; as all runs are "
        "compared with the same whole runs, it is rather too small."
    )
    columns = ("rates", "off", "seeds", "dominated [%]", "quartiles [%]", "A12", "p")
    study.table("fig12", "MOHaM, Figure 12: operators switched off", columns, rows, note)
    whole_groups = {k: v for k, v in groups.items() if len(v) == len(next(iter(groups.values())))}
    if whole_groups:
        title = "ar-vr: designs dominated by the whole method where an operator is off (Fig. 12)"
        line = "control of the paper", 100 * CONTROL_OF_PAPER
        study.figure(bars(whole_groups, label="dominated designs [%]", title=title, line=line), "fig12")


def _dominated(fronts: Sequence[np.ndarray], whole: Sequence[np.ndarray]) -> list[float]:
    """For the front of every seed, the mean share of it that the fronts of whole runs of other seeds dominate."""
    return [
        float(np.mean([dominated_share(own, b) for j, b in enumerate(whole) if i != j])) for i, own in enumerate(fronts)
    ]


def _spread(shares: np.ndarray) -> str:
    low, high = np.quantile(shares, [0.25, 0.75])
    return f"{low:.1f} to {high:.1f}"


# ---------------------------------------------------------------- the printed budget


def budget(study: Study) -> None:
    """MOHaM at 300 x 250 beside our default, NSGA-II and random search, at equal evaluations and equal seconds."""
    generations = study.pick(3, 300, 300)
    names = ("MOHaM", "MOHaM, our tables", "ours", "NSGA-II", "random")
    rows: list[tuple] = []
    curves_of: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for scenario in scenarios_of(study, ("ar-vr",), SCENARIOS):
        runs: dict[tuple[str, str], list[Found]] = {}
        for name in names:
            runs["evaluations", name] = all_seeds(study, scenario, name, _equal(study, name, generations))
        runs = {key: own for key, own in runs.items() if own}
        printed = runs.get(("evaluations", "MOHaM"))
        if printed is None:
            continue
        seconds = float(np.median([one.seconds for one in printed]))
        for name in names[2:]:
            if own := runs.get(("evaluations", name)):
                each = float(np.median([one.seconds for one in own])) / len(own[0].volumes)
                number = max(1, min(round(seconds / each), 2 * generations)) - 1
                # Rounded, so that it is the same run whatever the day's speed.
                number = max(round(number, -1), 2)
                if found := all_seeds(study, scenario, name, number):
                    runs["seconds", name] = found
        runs["seconds", "MOHaM"] = printed
        rows += _judged(study, scenario, runs, names)
        if scenario == "ar-vr":
            for name in names:
                if own := runs.get(("evaluations", name)):
                    volumes = np.array([one.volumes for one in own])
                    curves_of[name] = (np.linspace(0, own[0].evaluations, volumes.shape[1]), volumes)
    note = (
        f"`MOHaM` is as printed: the preset `moham`, {generations} generations of {tier_of(study).population}, its "
        "own mapping tables. All other methods search the tables of our layer mapper. `ours` is the default search "
        "without mapping again and without its end (refitting, closing), with an archive of 512. NSGA-II has "
        "one-point crossover and random resets of every genome. MOHaM's and NSGA-II's results are the fronts of "
        "their last populations, the others' their archives; `archive` is the hypervolume of all that was "
        "evaluated. Hypervolume is on log axes in the box of our tables; IGD+ and additive epsilon are on the same "
        "axes against the union of all fronts of the scenario, and smaller is better. A12 is how often a seed of "
        "`ours` has a larger hypervolume than one of the method; p is by the rank-sum test of that, after Holm. "
        "Equal seconds are those of MOHaM's generations, without compiling and mapping, for at most twice its "
        "generations."
    )
    columns = (
        "scenario", "equal", "method", "seeds", "evaluations", "seconds", "hypervolume", "archive", "IGD+", "epsilon",
        "A12", "p",
    )  # fmt: skip
    study.table("budget", "MOHaM at its printed budget", columns, rows, note)
    if curves_of:
        title = "ar-vr: hypervolume of all that was evaluated (each in the box of its own tables)"
        study.figure(curves(curves_of, x="designs evaluated", y="hypervolume of the archive", title=title), "budget")


def _equal(study: Study, name: str, generations: int) -> int:
    """Generations in which a method evaluates as many designs as MOHaM does; ours evaluates immigrants too."""
    population = tier_of(study).population
    extra = round(0.1 * population) if METHODS[name].kind == "default" else 0
    return (generations + 1) * population // (population + extra) - 1


def _judged(
    study: Study, scenario: str, runs: Mapping[tuple[str, str], list[Found]], names: Sequence[str]
) -> list[tuple]:
    """Rows of the table of one scenario."""
    ideal, reference = box_of(study, scenario, OURS)
    union = non_dominated(
        np.concatenate([f for own in runs.values() for one in own for f in (one.result, one.archive)])
    )
    target = scaled(union, ideal, reference)
    rows, volumes, tests = [], {}, []
    for (equal, name), own in sorted(runs.items(), key=lambda item: (item[0][0], names.index(item[0][1]))):
        volumes[equal, name] = [volume_of(study, scenario, one.result, OURS) for one in own]
    for (equal, name), values in volumes.items():
        own = runs[equal, name]
        fronts = [scaled(one.result, ideal, reference) for one in own]
        rival = volumes.get((equal, OURS))
        against = name != OURS and rival is not None
        if against and min(len(rival), len(values)) > 1:
            tests.append((len(rows), rival, values))
        rows.append(
            (
                scenario, equal, name, len(own), f"{int(np.median([one.evaluations for one in own])):,}",
                f"{np.median([one.seconds for one in own]):.1f}", median(values),
                median([volume_of(study, scenario, one.archive, OURS) for one in own]),
                median([igd_plus(front, target) for front in fronts]),
                median([additive_epsilon(front, target) for front in fronts]),
                f"{a12(rival, values):.2f}" if against and rival is not None else "", "",
            )
        )  # fmt: skip
    corrected = rank_sum([(a, b) for _, a, b in tests])
    for (place, _, _), p in zip(tests, corrected, strict=True):
        rows[place] = (*rows[place][:-1], f"{p:.2g}")
    whole = volume_of(study, scenario, union, OURS)
    return [*rows, (scenario, "", "union of all fronts", "", "", "", f"{whole:.4g}", "", "0", "0", "", "")]


# ---------------------------------------------------------------- Section V-C2


def stop(study: Study) -> None:
    """V-C2: generations at which the stop rule ends a search as printed, and what that costs."""
    generations, rows = study.pick(3, 300, 300), []
    for scenario in scenarios_of(study, ("ar-vr",), SCENARIOS):
        found = all_seeds(study, scenario, "MOHaM", generations)
        for window, delta in study.pick(((2, 0.5),), ((40, 0.02), (40, 0.05), (20, 0.05)), ((40, 0.02), (40, 0.05))):
            at = [_stops(one.stability, window, delta) for one in found]
            ends = [g for g in at if g is not None]
            # The archive's hypervolume at the stop, over that after all generations.
            kept = [one.volumes[g] / one.volumes[-1] for one, g in zip(found, at, strict=True) if g is not None]
            rows.append(
                (
                    scenario, window, delta, f"{len(ends)} of {len(found)}", median(ends) if ends else "",
                    median(kept) if kept else "",
                )
            )  # fmt: skip
    note = (
        f"Searches are as printed (preset `moham`), with {generations} generations of {tier_of(study).population}. "
        "The rule of Roudenko and Schoenauer stops where the largest finite crowding distance of the front has had "
        "a standard deviation below delta over the last generations of its window. The paper prints neither "
        "number; 40 and 0.02 are those of the rule's authors and our defaults. The last column is the archive's "
        "hypervolume at the stop over that of the whole run."
    )
    columns = ("scenario", "window", "delta", "stopped", "at generation", "hypervolume in that of all generations")
    study.table("stop", "MOHaM, Section V-C2: the stop rule", columns, rows, note)


def _stops(stability: np.ndarray, window: int, delta: float) -> int | None:
    """Generation at which the rule stops; None where it does not. Generation 0 does not count."""
    for g in range(1, len(stability)):
        if emo.should_stop(list(stability[1 : g + 1]), window, delta):
            return g
    return None
