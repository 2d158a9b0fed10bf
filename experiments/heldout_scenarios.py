"""The default search against that of 84a5f18 on scenarios that no rate and no design choice was made on.

The scenarios (`HELD_OUT`) have other networks, other packages and other sets of templates than the packaged ones. They
are run once, at the end, and never used to choose anything. Both methods search the same mapping tables (those of
`--budget`, seed 0) without mapping again, with equal evaluations, list schedules included; ten seeds are islands of one
run. Results are hypervolumes on log axes, as shares of the box over these tables; p is two-sided and exact by
Wilcoxon's rank-sum test, after Holm over the scenarios. With `--reference N` a long run of the default search (N
evaluations, population and archive four times as large, another seed) and the archives of all runs make a reference
front: "of reference" is the median as a share of its hypervolume.

    python experiments/heldout_scenarios.py --reference 1000000 --out experiments/results/heldout_scenarios.md
    python experiments/heldout_scenarios.py --scenarios recommend --seeds 2 --budget tiny --population 32 \
--evaluations 700 --archive 32
"""

import dataclasses
import pathlib

import jax
import numpy as np
from report import Report, header
from search_problem import LAYERS, Clock, arguments_of, merit, paragraphs, prepared, schedules, searched, sized
from search_problem import spent as evaluations_of
from wilcoxon_tests import holm, p_value

from mohamjax.hardware import PackageParameters
from mohamjax.search import BUDGETS, Settings
from mohamjax.workload import load_scenario

NEW = "mohamjax"


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """A scenario.

    Attributes:
        files: ONNX files of the folder of workloads, one per network.
        package: its parameters.
        templates: packaged templates; None for all.
    """

    files: tuple[str, ...]
    package: PackageParameters
    templates: tuple[str, ...] | None = None


HELD_OUT = {
    "vision": HeldOut(
        ("densenet121_opset9", "shufflenet_v2_x1_0", "xception_299"),
        PackageParameters(interface_bandwidth=16.0, dram_bandwidth=64.0),
    ),
    "language": HeldOut(
        ("bert_base_128", "marianmt_128", "openai_gpt_128"),
        PackageParameters(link_bandwidth=8.0, hop_energy=1.6, placement="middle"),
        ("simba", "eyeriss"),
    ),
    "camera": HeldOut(
        ("srgan_generator", "mnasnet1_0", "mobilenet_v3_small", "vgg16"),
        PackageParameters(router_area=50_000.0, transceiver_area=200_000.0),
        ("simba", "shidiannao"),
    ),
    "recommend": HeldOut(
        ("dlrm_rmc1", "din", "wide_deep", "resnet18"),
        PackageParameters(interface_bandwidth=2.0, interface_counts=((None, 2),), contention="interface"),
    ),
    "one network": HeldOut(("resnext50_32x4d",), PackageParameters(), ("simba",)),
}
"""None of these networks is in a packaged scenario."""


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenarios", default=",".join(HELD_OUT))
    parser.add_argument("--workloads", type=pathlib.Path, default=pathlib.Path("../shared/workloads"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", default="paper", choices=list(BUDGETS))
    parser.add_argument("--evaluations", type=int, default=16_000, help="per seed, at most")
    parser.add_argument("--population", type=int, default=250)
    parser.add_argument("--archive", type=int, default=512)
    parser.add_argument("--reference", type=int, default=0, help="evaluations of the long run; 0 for none")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    scenarios = arguments.scenarios.split(",")
    if unknown := set(scenarios) - set(HELD_OUT):
        parser.error(f"--scenarios: {', '.join(sorted(unknown))}: name some of {', '.join(HELD_OUT)}")
    clock, lines, tests, boxes = Clock(), [], [], []
    for scenario in scenarios:
        held = HELD_OUT[scenario]
        files = [arguments.workloads / f"{name}.onnx" for name in held.files]
        application = dataclasses.replace(load_scenario(files), name=scenario)
        case = prepared(application, arguments.budget, held.package, held.templates)
        sizes = arguments.evaluations, arguments.population, arguments.archive, arguments.seeds
        default = sized(Settings.preset(arguments.budget), *sizes)
        old = Settings.preset(arguments.budget, preset="layers")
        seeds = schedules(case, sized(old, *sizes))
        given = 1 if seeds is None else -(-len(seeds.template) // arguments.population)
        layers = sized(old, *sizes, given)
        clock.say(f"{scenario}: tables and list schedules")
        fronts = {NEW: np.asarray(searched(case, default).archive.objectives)}
        clock.say(f"{scenario}: {NEW}")
        fronts[LAYERS] = np.asarray(searched(case, layers, seeds=seeds).archive.objectives)
        clock.say(f"{scenario}: {LAYERS}")
        whole = None
        if arguments.reference:
            large = sized(
                Settings.preset(arguments.budget),
                arguments.reference,
                4 * arguments.population,
                4 * arguments.archive,
                1,
            )
            state = searched(case, large, key=jax.random.fold_in(case.search_key, 1))
            everything = [np.asarray(state.archive.objectives), *fronts.values()]
            whole = merit(np.concatenate([front.reshape(-1, 3) for front in everything]), case.space)
            clock.say(f"{scenario}: reference {whole:.4f}")
        found = {name: [merit(front, case.space) for front in own] for name, own in fronts.items()}
        if arguments.seeds > 1:
            tests.append(p_value(found[NEW], found[LAYERS]))
        spent = {NEW: evaluations_of(default.moham), LAYERS: evaluations_of(layers.moham, given)}
        fields = {field.name: field.default for field in dataclasses.fields(PackageParameters)}
        own = {name: getattr(held.package, name) for name in fields}
        package = ", ".join(f"{name} {own[name]}" for name, usual in fields.items() if own[name] != usual) or "default"
        boxes.append(
            f"- {scenario}: {', '.join(held.files)} ({len(application.layers)} layers); package: {package}; templates: "
            f"{', '.join(held.templates) if held.templates else 'all'}; box (s, J, mm^2) {case.box}"
        )
        for name, values in found.items():
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            share = "" if whole is None else f"{100 * middle / whole:.2f} %"
            test = len(tests) - 1 if name == LAYERS and arguments.seeds > 1 else None
            row = (scenario, name, f"{spent[name]:,}", f"{middle:.4f}", f"{high - low:.4f}", f"{min(values):.4f}")
            lines.append(((*row, f"{max(values):.4f}", share), test))
    corrected, report = holm(tests), Report()
    report.say(
        f"{header()}: {arguments.seeds} seeds, populations of {arguments.population}, archives of "
        f"{arguments.archive}, mapping tables of the budget `{arguments.budget}`. Nothing was tuned on these "
        "scenarios.",
        "",
        paragraphs(__doc__)[1],
        "",
        *boxes,
        "",
    )
    report.head("scenario", "method", "evaluations", "median", "IQR", "least", "most", "of reference", "p")
    for row, test in lines:
        report.row(*row, "" if test is None else f"{corrected[test]:.1e}")
    report.write(arguments.out)


if __name__ == "__main__":
    main()
