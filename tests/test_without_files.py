"""Results with a user's technology, template, package and network still work elsewhere, when these files are gone."""

import json
import shutil

import numpy as np
import pytest
import yaml
from report_cases import unpacked
from small_search import objectives, small_network, table

from mohamjax.cli import main
from mohamjax.hardware import load_template, template_to_dict

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def away(tmp_path_factory):
    """The moved folder of two searches with different technologies, whose input files are deleted."""
    made, away = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("away")
    (made / "npu.yaml").write_text(yaml.safe_dump(template_to_dict(load_template("simba")) | {"name": "npu"}))
    (made / "package.yaml").write_text("{max_tiles: 9, link_bandwidth: 8, interface_bandwidth: 6}\n")
    small_network(made / "net.onnx", 16)
    for name, energy in (("mine", 0.5), ("theirs", 2.0)):
        (made / f"{name}.yaml").write_text(f"base: 45nm\nscale: {{energy: {energy}, area: 0.5}}\n")
        given = [f"--{word}={made / file}.yaml" for word, file in
                 (("templates", "npu"), ("technology", name), ("package", "package"))]  # fmt: skip
        command = ["search", str(made / "net.onnx"), "--budget", "tiny", "--population", "16", "--generations", "4"]
        assert main([*command, *given, "--out", str(made / "results" / name)]) == 0
    shutil.move(made / "results", away)
    shutil.rmtree(made)
    return away / "results"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_its_designs_are_evaluated_to_the_same_numbers(away, tmp_path):
    fronts = {}
    for name in ("mine", "theirs"):
        fronts[name] = objectives(table(away / name / "front.csv"))
        assert main(["evaluate", "designs", str(away / name / "designs.json"), "--out", "again.csv"]) == 0
        rows = table(tmp_path / "again.csv")
        assert all(row["valid"] == "1" for row in rows)
        np.testing.assert_allclose(objectives(rows), fronts[name], rtol=1e-5)
    assert fronts["mine"][:, 1].min() < 0.5 * fronts["theirs"][:, 1].min()


def test_its_figures_are_drawn_again(away, tmp_path):
    assert main(["plot", str(away / "mine"), "--out", "figures"]) == 0
    drawn = {file.name for file in (tmp_path / "figures").iterdir()}
    assert {"front.png", "gantt_knee.png", "area_knee.png", "energy_knee.png"} <= drawn


def test_its_page_compares_two_technologies_and_names_them(away, tmp_path):
    assert main(["report", str(away / "mine"), str(away / "theirs"), "--out", "page.html"]) == 0
    results = unpacked((tmp_path / "page.html").read_text("utf-8"))["results"]
    named = [dict(result["facts"])["technology"].split(".yaml")[0] for result in results]
    assert named == ["mine", "theirs"]
    assert all(result["designs"] and result["layers"] for result in results)


def test_a_design_of_it_is_chosen(away, capsys):
    assert main(["decide", str(away / "mine"), "latency<=10s", "--json"]) == 0
    told, rows = json.loads(capsys.readouterr().out), table(away / "mine" / "front.csv")
    assert str(told["recommended"]) == rows[objectives(rows)[:, 2].argmin()]["design_id"]
