"""MACs per cycle and utilisation by layer type over the designs of fronts; impossible machines show up here.

All layers of every design count, with their own multiply-accumulates (not those of padding) over the time that they
run. This time is split into computing, waiting for a port of a buffer, and what lies off the chiplet (memory interface,
link, DRAM). Slow designs dominate the sums over a whole front, so the fastest design has rows of its own.

    python experiments/utilisation.py results/ar-vr-small results/mobile-small --out experiments/results/utilisation.md
"""

import argparse
import pathlib

import jax
import numpy as np
from report import Report, header

from mohamjax.io import evaluate_designs
from mohamjax.schedule import LOW, LayerUse, by_type, layer_use, layers_of_little_use


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="results folders of `mohamjax search`")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    report = Report()
    report.say("# What layers make of their chiplets", "")
    report.say(f"{header()}.", "")
    report.head(
        "front", "designs", "type", "layers", "share of busy time", "MACs/cycle", "utilisation", "largest", "compute",
        "buffers", "off-chip",
    )  # fmt: skip
    low = []
    for folder in options.folders:
        name = f"{folder.parent.name}/{folder.name}"
        _, evaluated = evaluate_designs(folder / "designs.json")
        if evaluated is None:
            raise SystemExit(f"{folder}: no valid design")
        application = evaluated.application
        use = layer_use(application, evaluated.tables, evaluated.designs, jax.device_get(evaluated.reports))
        kinds = np.array([layer.type for layer in application.layers])
        fastest = np.argmin(np.asarray(evaluated.reports.objectives)[:, 0])[None]
        for designs, rows in (("all", slice(None)), ("fastest", fastest)):
            some = LayerUse(*(field[rows] for field in use))
            types = by_type(application, some)
            busy_s = sum(row["busy_s"] for row in types)
            for row in types:
                largest = some.utilisation[:, kinds == row["type"]].max()
                shares = (row["busy_s"] / busy_s, row["utilisation"], largest)
                report.row(
                    name, designs, row["type"], row["layers"], f"{shares[0]:.1%}", f"{row['macs_per_cycle']:.1f}",
                    *(f"{share:.1%}" for share in shares[1:]),
                    *(f"{row[key]:.1%}" for key in ("compute", "buffers", "offchip")),
                )  # fmt: skip
        low.append((name, layers_of_little_use(application, use)))
    report.say("", f"Layers below {LOW:.0%} of the MACs of their chiplet in every design, off-chip limits aside:", "")
    for front, layers in low:
        report.say(f"- {front}: {len(layers)}{': ' + ', '.join(layers[:5]) if layers else ''}")
    report.write(options.out)


if __name__ == "__main__":
    main()
