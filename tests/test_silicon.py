"""The packaged Eyeriss with the sizes of the chip, compared with measurements of the chip (JSSC 2017, Table V)."""

import csv
import json

import numpy as np
import pytest
from conftest import reference

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import load_technology, load_template, template_from_dict, template_to_dict, template_to_yaml
from mohamjax.io.samples import evaluate_samples, read_architectures
from mohamjax.mapper.problems import context
from mohamjax.mapping import encode
from mohamjax.mapping.notation import mapping_from_dict
from mohamjax.workload import UniqueLayer, WorkloadShape

CLOCK_HZ = 200e6
CHIP = {  # words have 16 bits
    "shared_glb": {"capacity_words": 51200, "block_words": 4, "bandwidth": [5, 5]},
    "ifmap_spad": {"capacity_words": 12, "block_words": 1},
    "weights_spad": {"capacity_words": 224, "block_words": 1},
    "psum_spad": {"capacity_words": 24, "block_words": 1},
}


def chip_template():
    """The packaged template with the chip's sizes; structure and dataflow are unchanged."""
    data = template_to_dict(load_template("eyeriss"))
    levels = []
    for level in data["levels"]:
        own = {"granularity_rows": 0} if level["name"] in CHIP else {}
        levels.append({**level, "word_bits": 16, **CHIP.get(level["name"], {}), **own})
    mac = {"width_bits": 16, "accumulator_bits": 32}
    return template_from_dict({**data, "name": "eyeriss-chip", "sizes": "fixed", "mac": mac, "levels": levels})


def measured():
    with reference("silicon/eyeriss_alexnet_measured.csv").open(newline="") as file:
        return {row["Layer"]: row for row in csv.DictReader(file) if row["Layer"] != "Total"}


@pytest.mark.slow
def test_the_chips_own_mappings_read_and_write_the_measured_bytes(tmp_path):
    architectures = read_architectures(reference("silicon/eyeriss_chip_architectures.json"))
    template, (chip,) = chip_template(), architectures.values()
    # The evaluated architecture has the structure of the packaged template: PEs directly below the global buffer.
    assert [level.fanout for level in template.levels] == [tuple(x) for x in np.asarray(chip.machine.fanout, int)]
    assert [level.keep for level in template.levels] == [tuple(x) for x in np.asarray(chip.machine.keep).tolist()]
    path = reference("silicon/eyeriss_chip.jsonl")
    groups = {row["id"]: row["layer"]["groups"] for row in map(json.loads, path.read_text().splitlines())}
    evaluate_samples(reference("silicon/eyeriss_chip_architectures.json"), path, tmp_path / "out.jsonl", links=False)
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    rows = measured()
    assert len(found) == len(rows) == 5
    for row in found:
        buffer = row["out"]["levels"][3]
        moved = (buffer["reads"][1] + 2 * buffer["updates"][2]) * 2 * groups[row["id"]]
        assert moved / 1e6 == pytest.approx(float(rows[row["id"]]["Global Buffer Accesses (MB)"]), rel=0.04)


def test_the_map_space_has_the_chips_mappings_of_all_layers_but_the_second():
    """CONV2's has two strips of output rows (Q) along Y, where the packaged dataflow has S, C, K and G."""
    template, refused = chip_template(), {}
    names, keeps = template.level_names, [level.keep for level in template.levels]
    for row in map(json.loads, reference("silicon/eyeriss_chip.jsonl").read_text().splitlines()):
        own = row["layer"]
        bounds = {d: own[d] for d in "NKCPQRS"}
        shape = WorkloadShape(**bounds, stride=(own["hstride"], own["wstride"]))
        levels = [{"name": name, **loops} for name, loops in zip(names, row["mapping"]["levels"], strict=True)]
        space = context(UniqueLayer("conv", shape), template, load_technology(), padding=False).space
        try:
            encode(mapping_from_dict({"levels": levels}, names, keeps), space, level_names=names)
        except InputError as error:
            refused[row["id"]] = str(error)
    assert list(refused) == ["CONV2"]
    assert "Q" in refused["CONV2"] and "shared_glb" in refused["CONV2"]


@pytest.mark.slow
def test_no_layer_takes_longer_than_on_the_chip(tmp_path):
    rows = measured()
    (tmp_path / "chip.yaml").write_text(template_to_yaml(chip_template()))
    network = reference("../workloads/alexnet_bvlc.onnx")
    command = ["map", str(network), "--batch", "4", "--template", str(tmp_path / "chip.yaml"), "--budget", "small"]
    assert main([*command, "--no-mapping-cache", "--out", str(tmp_path / "sets.json")]) == 0
    sets = json.loads((tmp_path / "sets.json").read_text())["sets"]
    best = [min(m["latency_cycles"] for m in s["mappings"]) for s in sets if s["type"] in ("conv", "gconv")]
    assert len(best) == 5
    for cycles, row in zip(best, rows.values(), strict=True):
        assert cycles / CLOCK_HZ * 1e3 <= float(row["Processing Latency (ms)"]), row["Layer"]
