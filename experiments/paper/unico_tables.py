"""Tables of `unico.py` from its runs: distances to the ideal, hypervolumes, costs, and designs.

All distances of a table are on one min-max scale over everything that was measured for it, within the limit on power;
the ideal has the least of every objective. A front is represented by its design nearest to the ideal. Only pairs of
case and seed count for which every method of the table was run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from unico_measures import cost_to_reach, hypervolume_difference, mean_of_ratios, ratio_of_means, sign_test
from unico_runs import Run
from wilcoxon_tests import a12, signed_rank

from mohamjax import emo
from mohamjax.text import table
from mohamjax.unico.axes import Axes, distance_to_ideal, nearest_to_ideal
from mohamjax.unico.space import HardwareSpace

Pairs = list[tuple[str, int]]
Table = dict[tuple[str, str, int], Run]
"""Runs by case, method and seed."""


def fenced(rows: Sequence[Sequence[str]]) -> str:
    """A table as a fenced block for a results file."""
    return "```\n" + table(rows) + "\n```\n"


def common_axes(runs: Iterable[Run], *, log: bool = False) -> Axes:
    """One scale over all that was measured in some runs."""
    runs = list(runs)
    return Axes.of(np.concatenate([r.objectives for r in runs] + [r.most[None] for r in runs]), log=log)


def complete(runs: Table, methods: Sequence[str], cases: Sequence[str], seeds: int) -> Pairs:
    """Pairs of case and seed for which every method has a run."""
    return [(c, s) for c in cases for s in range(seeds) if all((c, m, s) in runs for m in methods)]


def curve(run: Run, axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Evaluations, and the least distance that was known at each."""
    order = np.argsort(run.cost, kind="stable")
    return run.cost[order], np.minimum.accumulate(distance_to_ideal(run.objectives[order], axes))


def final(run: Run, axes: Axes) -> float:
    """Distance of the design that stands for the front."""
    return float(distance_to_ideal(run.objectives, axes).min())


def volume_curve(run: Run, reference: np.ndarray, axes: Axes, grid: np.ndarray) -> np.ndarray:
    """Hypervolume difference at costs `grid`; 1 where nothing is known yet."""
    return np.asarray([hypervolume_difference(run.objectives[run.cost <= c], reference, axes) for c in grid])


def union(runs: Iterable[Run]) -> np.ndarray:
    """Rows of some runs that none of the others dominates."""
    rows = np.concatenate([r.objectives for r in runs])
    return rows[emo.distinct_front(rows)]


def shares_to_reach(runs: Table, method: str, base: str, pairs: Pairs, axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Evaluations until a method has the final distance of another, by pair; inf where it never has.

    They are shares of all evaluations of the other, and of those after which the other had that distance itself.
    """
    whole, own = [], []
    for c, s in pairs:
        cost, reached = curve(runs[c, base, s], axes)
        ours = cost_to_reach(*curve(runs[c, method, s], axes), reached[-1])
        whole.append(ours / runs[c, base, s].evaluations)
        own.append(ours / cost_to_reach(cost, reached, reached[-1]))
    return np.asarray(whole), np.asarray(own)


def share_to_volume(run: Run, base: Run, reference: np.ndarray, axes: Axes) -> float:
    """Evaluations until a search has the final hypervolume of another, as a share of all those of the other."""
    goal = hypervolume_difference(base.objectives, reference, axes)
    costs = np.unique(run.cost)
    return cost_to_reach(costs, volume_curve(run, reference, axes, costs), goal) / base.evaluations


def comparison(runs: Table, methods: Sequence[str], cases: Sequence[str], seeds: int, base: str) -> str:
    """Distances, hypervolumes and costs of methods; `base` is the one that the others are compared with.

    Sign and signed-rank tests are of pairs of case and seed, the latter after Holm over the methods; A12 is how often a
    distance of the base is larger than one of the method on the same case, a mean over the cases.
    """
    pairs = complete(runs, methods, cases, seeds)
    if not pairs:
        return "No case has a run of every method yet.\n"
    used = {(c, m, s): runs[c, m, s] for c, s in pairs for m in methods}
    out = [f"{len(pairs)} of {len(cases) * seeds} pairs of case and seed; {base} is the base.\n"]
    fronts = {c: union(used[c, m, s] for m in methods for d, s in pairs if d == c) for c in {c for c, _ in pairs}}
    scales = {c: Axes.of(front, log=True) for c, front in fronts.items()}
    for log in (False, True):
        axes = common_axes(used.values(), log=log)
        heading = [
            "method",
            "mean d",
            "median d",
            "base's mean / own",
            "wins:losses (p)",
            "Wilcoxon p (Holm)",
            "A12",
            "to base's d / all of base's",
        ]
        body = [[*heading, "/ base's own", "HV difference", "to base's HV / all of base's", "modelled", "cpu s"]]
        distances = {m: np.asarray([final(used[c, m, s], axes) for c, s in pairs]) for m in methods}
        others = [m for m in methods if m != base]
        corrected = dict(zip(others, signed_rank([distances[m] - distances[base] for m in others]), strict=True))
        for m in methods:
            own = [used[c, m, s] for c, s in pairs]
            test = sign_test(distances[m], distances[base])
            spent = [share_to_volume(used[c, m, s], used[c, base, s], fronts[c], scales[c]) for c, s in pairs]
            lacking = [hypervolume_difference(used[c, m, s].objectives, fronts[c], scales[c]) for c, s in pairs]
            shares = [f"{np.median(x):.2f}" for x in shares_to_reach(used, m, base, pairs, axes)]
            body.append(
                [
                    m,
                    f"{distances[m].mean():.4f}",
                    f"{np.median(distances[m]):.4f}",
                    f"{ratio_of_means(distances[m], distances[base]):.2f}",
                    f"{test.wins}:{test.losses} ({test.p:.2f})",
                    f"{corrected[m]:.2f}" if m in corrected else "",
                    f"{_a12_of_cases(pairs, distances[base], distances[m]):.2f}" if m in corrected else "",
                    *shares,
                    f"{np.median(lacking):.3f}",
                    f"{np.median(spent):.2f}",
                    f"{np.mean([r.modelled.max() for r in own]):.0f}",
                    f"{np.mean([r.cpu_seconds for r in own]):.0f}",
                ]
            )
        out.append(f"\nOn {'logarithmic' if log else 'linear'} axes {_told(axes)}:\n\n{fenced(body)}")
    return "".join(out)


def _a12_of_cases(pairs: Sequence[tuple[str, int]], base: np.ndarray, own: np.ndarray) -> float:
    """How often a seed of a method is nearer than one of the base on the same case, a mean over the cases."""
    rows = [[k for k, (case, _) in enumerate(pairs) if case == one] for one in dict.fromkeys(c for c, _ in pairs)]
    return float(np.mean([a12(base[own_rows], own[own_rows]) for own_rows in rows]))


def _told(axes: Axes) -> str:
    low, high = ([f"{x:.3g}" for x in end] for end in (axes.low, axes.high))
    return "from ({} s, {} W, {} mm²)".format(*low) + " to ({} s, {} W, {} mm²)".format(*high)


def chosen(
    runs: Table, methods: Sequence[str], cases: Sequence[str], seeds: int, space: HardwareSpace, shown: Sequence[str]
) -> str:
    """Per case and method the design of the median seed and its hardware (Tables 1, 2, 4 and 5)."""
    pairs = complete(runs, methods, cases, seeds)
    if not pairs:
        return ""
    axes = common_axes(runs[c, m, s] for c, s in pairs for m in methods)
    body = [["case", "method", "L [ms]", "P [mW]", "A [mm2]", "d", *shown]]
    for case in dict.fromkeys(c for c, _ in pairs):
        for m in methods:
            own = sorted((runs[c, m, s] for c, s in pairs if c == case), key=lambda r: final(r, axes))
            run = own[(len(own) - 1) // 2]
            i = nearest_to_ideal(run.objectives, axes)
            latency, power, area = run.objectives[i]
            hardware = space.values(space.digits(run.index[i : i + 1])[0])
            numbers = [f"{latency * 1e3:.4g}", f"{power * 1e3:.4g}", f"{area:.3g}", f"{final(run, axes):.4f}"]
            body.append([case, m, *numbers, *(str(hardware[name]) for name in shown)])
    return fenced(body)


def held_out(
    measured: Mapping[tuple[str, str, int], np.ndarray], methods: Sequence[str], base: str, searched: Iterable[Run] = ()
) -> str:
    """Distances on unseen networks (Table 3): `[3]` objectives by network, method and seed of the search.

    Every method has the same seeds. The scale is that of the measurements together with all that was searched: chosen
    designs alone are so much alike that the least difference would span the whole scale.
    """
    known = [(r.objectives.min(axis=0), r.most) for r in searched]
    axes = Axes.of(np.concatenate([np.stack(list(measured.values())), *(np.stack(ends) for ends in known)]))
    networks = list(dict.fromkeys(n for n, _, _ in measured))
    seeds = sorted({s for _, _, s in measured})
    distance = {key: float(distance_to_ideal(row, axes)) for key, row in measured.items()}
    mean = {(n, m): np.mean([distance[n, m, s] for s in seeds]) for n in networks for m in methods}
    body = [["network", *methods]] + [[n, *(f"{mean[n, m]:.4f}" for m in methods)] for n in networks]
    body.append(["mean", *(f"{np.mean([mean[n, m] for n in networks]):.4f}" for m in methods)])
    summary = [["method", "gain over base", "mean of the networks' gains", "seeds better:worse (p)", "median of seeds"]]
    of_seed = {m: np.asarray([np.mean([distance[n, m, s] for n in networks]) for s in seeds]) for m in methods}
    for m in methods:
        ours, theirs = (np.asarray([mean[n, x] for n in networks]) for x in (m, base))
        test = sign_test(of_seed[m], of_seed[base])
        gains = [1 - 1 / ratio_of_means(ours, theirs), 1 - mean_of_ratios(theirs, ours)]
        pairs = f"{test.wins}:{test.losses} ({test.p:.2f})"
        summary.append([m, *(f"{100 * g:.1f} %" for g in gains), pairs, f"{np.median(of_seed[m]):.4f}"])
    return f"{len(seeds)} seeds, axes {_told(axes)}; d by network, mean of seeds:\n\n{fenced(body)}\n{fenced(summary)}"


def share_of(objectives: np.ndarray, truth: np.ndarray) -> float:
    """Hypervolume of rows over that of the true front, on logarithmic axes, up to 1.1 of the whole truth's range."""
    return 1 - hypervolume_difference(objectives, truth, Axes.of(truth, log=True))
