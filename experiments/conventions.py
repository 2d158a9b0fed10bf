"""How far conventions of the templates shift the numbers of fronts: the same designs, evaluated by other templates.

Every row changes one property of the templates in `designs.json` and evaluates the designs again, with their mappings,
sizes and schedules as they are. Ratios are over the values before; "longer" counts designs that take over 5 % longer.
The changes: large register files (over 64 rows) as SRAMs; a single port for reads and writes of the buffers that state
16 words per cycle with rows of 8; the same with the cycle time that the technology gives their largest size, where it
is longer than a clock cycle; wires as long as the chiplet where the template states an energy per hop; and a
multiply-accumulate of 0.23 pJ (Horowitz, ISSCC 2014: an 8-bit multiplication and addition at 45 nm). Below that, the
designs with a chiplet too small for its interface.

    python experiments/conventions.py results/ar-vr-tiny results/ar-vr-simba --out experiments/results/conventions.md
"""

import argparse
import copy
import json
import math
import pathlib
import tempfile
from collections.abc import Callable

import numpy as np
from report import Report, header

from mohamjax.hardware import load_technology, template_from_dict
from mohamjax.hardware.timing import CLOCK_NS, slow_buffers
from mohamjax.io import evaluate_designs

LARGE = 64
"""A register file with more rows than this becomes an SRAM, as the reference data recommend."""

SMALL_MM2 = 0.01
"""A bump of 100 um by 100 um."""

LONGER = 1.05

Change = Callable[[dict], bool]
"""Changes a template and says whether anything was there to change."""


def registers_as_srams(template: dict) -> bool:
    found = False
    for level in template["levels"]:
        rows = math.ceil(level.get("capacity_words", 0) / level["block_words"])
        if level["component"] == "regfile" and rows > LARGE:
            level["component"], found = "sram", True
    return found


def _share_ports(template: dict, cycles: dict[str, float]) -> bool:
    """Lets the ports of levels, by name, make one access in so many cycles, be it a read or a write."""
    for level in template["levels"]:
        if level["name"] in cycles:
            level["shared_bandwidth"] = level["ports"] * level["block_words"] / cycles[level["name"]]
    return bool(cycles)


def single_ports(template: dict) -> bool:
    """Where a level states more words than its ports deliver in a cycle."""
    stated = {
        level["name"]: 1.0
        for level in template["levels"]
        if level["component"] == "sram" and max(level["bandwidth"]) > level["ports"] * level["block_words"]
    }
    return _share_ports(template, stated)


def cycle_times(template: dict) -> bool:
    """All buffers whose largest size is slower than the clock get one access per cycle time."""
    slow = slow_buffers((template_from_dict(template),), load_technology())
    return _share_ports(template, {level: ns / CLOCK_NS for _, level, *_, ns in slow if ns > CLOCK_NS})


def wires(template: dict) -> bool:
    found = False
    for level in template["levels"]:
        if not isinstance(level["hop_energy_pJ"], str) and level["hop_energy_pJ"] > 0:
            level["hop_energy_pJ"], found = "wire", True
    return found


def cheap_macs(template: dict) -> bool:
    template["mac"]["energy_pJ"] = 0.23
    return True


CHANGES: dict[str, Change] = {
    "register files of over 64 rows are SRAMs": registers_as_srams,
    "buffers have one port": single_ports,
    "one port, at the cycle time of the largest size": cycle_times,
    "hops cost the energy of their wire": wires,
    "0.23 pJ per multiply-accumulate": cheap_macs,
}


def evaluated(document: dict) -> np.ndarray:
    """Latency, energy and area of the designs, `[n, 3]`; NaN where a design is not valid."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "designs.json"
        file.write_text(json.dumps(document))
        rows, _ = evaluate_designs(file)
    keys = ("latency_s", "energy_J", "area_mm2")
    return np.asarray([[row[key] if row["valid"] else math.nan for key in keys] for row in rows], float)


def spread(values: np.ndarray) -> str:
    return f"{np.median(values):.2f} ({values.min():.2f} to {values.max():.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="results folders of `mohamjax search`")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    report = Report()
    report.say("# Conventions of the templates", "", f"{header()}.", "", (__doc__ or "").split("\n\n")[1], "")
    report.say("Cells are medians, with the least and the most. Areas are in mm².", "")
    report.head("front", "change", "designs", "latency", "longer", "energy", "area", "area of the fastest")
    small = []
    for folder in arguments.folders:
        document = json.loads((folder / "designs.json").read_text())
        before = evaluated(document)
        assert np.isfinite(before).all(), f"{folder}: an invalid design"
        fastest = int(np.argmin(before[:, 0]))
        for name, change in CHANGES.items():
            other = copy.deepcopy(document)
            changed = [change(template) for template in other["templates"]]
            if not any(changed):
                continue
            after = evaluated(other)
            assert np.isfinite(after).all(), f"{folder}, {name}: an invalid design"
            ratio = after / before
            areas = f"{before[fastest, 2]:.3g} to {after[fastest, 2]:.3g}"
            longer = int((ratio[:, 0] > LONGER).sum())
            latency, energy, area = map(spread, ratio.T)
            report.row(folder.name, name, len(before), latency, longer, energy, area, areas)
        least = [min(chiplet["area_mm2"] for chiplet in design["chiplets"]) for design in document["designs"]]
        small.append(f"- {folder.name}: {sum(area < SMALL_MM2 for area in least)} of {len(least)}")
    report.say("", f"Designs with a chiplet below {SMALL_MM2} mm², on which one bump fits:", "", *small)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
