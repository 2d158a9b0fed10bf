"""The exhibits of UNICO: every target runs in the tier `ci`, and the committed searches are found."""

import dataclasses

import pytest
import unico
import unico_runs
from exhibits import RESULTS, main
from lines import Lines

from mohamjax.unico.config import CodesignConfig

NAMES = [n if n == "fig7" else pytest.param(n, marks=pytest.mark.slow) for n in unico.EXHIBITS]
FIGURES = {"fig5a": "fig5a", "fig5b": "fig5b", "fig6": "fig6c", "fig7": "fig7"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all tests, so that searches shared by several exhibits run once."""
    return tmp_path_factory.mktemp("unico")


@pytest.mark.parametrize("name", NAMES)
def test_a_target_runs(name, folder):
    main("unico", unico.EXHIBITS, [name, "--tier", "ci", "--seeds", "1", "--out", str(folder)])
    text = (folder / f"{name}.md").read_text()
    assert "Tier `ci`" in text and "not begun" not in text and "nan" not in text
    if name in FIGURES:
        assert (folder / f"{FIGURES[name]}.png").exists()


def test_committed_searches_are_found():
    """The committed lines have today's settings: a table is made again without a search, and others are missing."""
    lines = Lines(RESULTS / "unico" / "runs.csv", unico_runs.RUN_COLUMNS, 5)
    runs = unico_runs.Runs(lines, report_only=True)
    found = [runs.search("small", "edge", w, v, s) for w in unico.TWO for v in unico.ALL for s in range(3)]
    assert all(found) and runs.left == 0
    assert runs.search("small", "edge", "srgan_generator", "mobohb-extras", 99) is None


def test_packaged_networks_have_their_layers():
    """Numbers of multiply-accumulates are those of the papers (docs/concepts/unico.md)."""
    macs = {n: sum(layer.macs for layer in unico_runs.application(n).layers) for n in ("vit_b16", "resnet50")}
    assert macs["vit_b16"] == pytest.approx(17.56e9, rel=2e-3)
    assert macs["resnet50"] == pytest.approx(4.1e9, rel=2e-2)
    both = unico_runs.application("resnet50+vgg19_opset9")
    assert [n.name for n in both.networks] == ["resnet50", "vgg19_opset9"]
    assert {*unico_runs.SINGLE, *unico_runs.TRAINED, *unico_runs.UNSEEN, *unico_runs.ABLATED} == {
        n for n in (*unico_runs.SINGLE, *unico_runs.TRAINED, *unico_runs.UNSEEN) if unico_runs.application(n).layers
    }
    with pytest.raises(SystemExit, match="no network nothing"):
        unico_runs.application("nothing")


def test_variants_of_the_paper_have_none_of_our_additions():
    method, changes = unico_runs.VARIANTS["unico-printed"]
    config = CodesignConfig(method=method, **changes)
    assert (config.finished, config.aims, config.acquisition, config.objective, config.score) == (
        0.0, 0.0, "mesmo", "latency", "latency",
    )  # fmt: skip
    for name in ("hasco-aimed", "mobohb-extras"):
        method, changes = unico_runs.VARIANTS[name]
        own = CodesignConfig(method=method, **changes)
        assert own.aims == CodesignConfig().aims == 0.25
        assert dataclasses.replace(own, extras=False).aims == 0.0
