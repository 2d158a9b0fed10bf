"""The exhibits of MEDEA: every target runs, resumes, and writes its table; its layers are those of the networks."""

import exhibits
import medea
import numpy as np
import pytest
from medea_layers import UNTUNED, chosen_layers, network


def run(folder, *words):
    """Runs targets in the tier `ci`."""
    table = {"fig4": medea.fig4, "table2": medea.table2, "space": medea.space, "mappers": medea.mappers}
    exhibits.main("medea", table, [*words, "--tier", "ci", "--seeds", "1", "--out", str(folder)])


@pytest.mark.slow
def test_figure_4_and_table_2_run_once(tmp_path, capsys):
    run(tmp_path, "fig4", "table2", "space")
    assert (tmp_path / "fig4.png").read_bytes()[:4] == b"\x89PNG"
    for name, what in (("fig4", "CoSA-like"), ("table2", "the largest layer"), ("space", "10^32")):
        assert what in (tmp_path / f"{name}.md").read_text()
    before = [(tmp_path / f"{name}_runs.csv").read_text() for name in ("fig4", "table2")]
    capsys.readouterr()
    run(tmp_path, "fig4", "table2", "space", "--report")
    assert before == [(tmp_path / f"{name}_runs.csv").read_text() for name in ("fig4", "table2")]
    assert "not begun" not in capsys.readouterr().out


@pytest.mark.slow
def test_mappers_are_compared(tmp_path):
    run(tmp_path, "mappers")
    text = (tmp_path / "mappers.md").read_text()
    assert all(f"| {name} |" in text for name in ("ours", "medea", "cosa", "gamma edp", "hybrid edp"))


def test_the_table_of_another_call_is_not_made_up(tmp_path, capsys):
    run(tmp_path, "space")
    assert "run table2 first" in capsys.readouterr().out and not (tmp_path / "space.md").exists()


def test_networks_written_as_shapes_are_theirs():
    vgg, dense = network("vgg16"), network("densenet201")
    assert (len(vgg.layers), len(vgg.unique_layers), vgg.macs) == (16, 12, 15_470_264_320)
    # 5.92 M + 9,408 + ... : 20.0 M parameters, of which 1.9 M are the classifier's.
    weights = sum(np.prod([getattr(x.shape, d) for d in "KCRS"]) for x in dense.layers)
    assert len(dense.layers) == 201 and weights == pytest.approx(19.8e6, rel=0.02)


def test_layers_of_ten_networks_are_chosen_by_work():
    assert len(set(UNTUNED)) == 10 and not {"resnet50", "bert_large_384"} & set(UNTUNED)
    for name in UNTUNED:
        most, *_ = chosen = chosen_layers(name, 2)
        assert len(chosen) == 2
        assert most.layer.shape.macs == max(u.shape.macs for u in network(name).unique_layers)
