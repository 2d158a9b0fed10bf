"""What a search leaves in the folder of an earlier one: its own files, and those of the user."""

import csv
import io

import numpy as np
import pytest
import yaml
from report_cases import CONFIG, HISTORY
from toy_designs import toy_designs

from mohamjax.cli.outputs import results_folder
from mohamjax.errors import InputError
from mohamjax.io import write_front_files
from mohamjax.io.files import csv_text
from mohamjax.io.results import earlier_files

ROBUST = {
    "format": "robust/1", "over": "mean", "nominal": "one",
    "models": [{"name": name, "networks": ["a"], "batch": 1, "weight": 1.0} for name in ("one", "two")],
    "held_out": [{"name": "three", "networks": ["b"], "batch": 1}],
}  # fmt: skip
OF_ONE = ("archive.csv", "bounds.json", "designs.npz", "report.html")
OF_MODELS = ("robust.csv", "price.csv", "designs_two.json", "designs_three.json", "nominal/designs.json")
MINE = ("designs_mine.json", "notes.txt", "nominal/mine.csv")


@pytest.fixture(scope="module")
def evaluated():
    return toy_designs()


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def filled(folder, *, config=None):
    """A folder with all files that some search writes and some of the user's; with `config` an earlier search."""
    (folder / "nominal").mkdir(parents=True)
    for name in (*OF_ONE, *OF_MODELS, *MINE):
        (folder / name).write_text("mine\n")
    if config is not None:
        (folder / "front.csv").write_text("design_id\n")
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.mark.parametrize(
    ("config", "gone"),
    [
        (None, {"bounds.json"}),
        (CONFIG, set(OF_ONE)),
        ({**CONFIG, "robust": ROBUST}, {*OF_ONE, *OF_MODELS}),
        ({**CONFIG, "robust": "models.yaml"}, set(OF_ONE)),
    ],
)
def test_a_search_removes_what_an_earlier_one_wrote_and_nothing_else(tmp_path, evaluated, config, gone):
    folder = filled(tmp_path / "run", config=config)
    before = names(folder)
    write_front_files(folder, evaluated, HISTORY, CONFIG)
    written = {"front.csv", "designs.json", "history.csv", "config.yaml"}
    assert names(folder) == (before | written) - gone
    assert earlier_files(folder) == [folder / name for name in sorted({*OF_ONE} - gone)]


FIGURES = ("front.png", "convergence.png", "gantt_knee.png", "roofline_smallest.png")
OF_HARDWARE = ("front.png", "hypervolume.png", "lanes.png", "predictions.png")
SEARCHED = {**CONFIG, "search": {"objectives": ["latency", "energy", "area"]}}


@pytest.mark.parametrize(
    ("config", "gone"),
    [
        (CONFIG, set()),  # it does not say what was searched, and so not what was drawn
        (SEARCHED, {f"figures/{name}" for name in FIGURES}),
        ({**CONFIG, "format": "codesign/1"}, {"hardware.csv", *(f"figures/{name}" for name in OF_HARDWARE)}),
        ({**CONFIG, "search": {"objectives": ["latency", "idle"]}}, {f"figures/{name}" for name in FIGURES[:3]}),
    ],
)
def test_figures_and_hardware_of_an_earlier_search_are_removed(tmp_path, evaluated, config, gone):
    """Those of another kind of search would stand beside the new ones; a search that draws any does so afterwards."""
    folder = filled(tmp_path / "run", config=config)
    (folder / "figures").mkdir()
    for name in ("hardware.csv", *(f"figures/{name}" for name in {*FIGURES, *OF_HARDWARE, "mine.png", "front.svg"})):
        (folder / name).write_text("old")
    before = names(folder) - set(OF_ONE)
    write_front_files(folder, evaluated, HISTORY, CONFIG)
    assert names(folder) == (before | {"designs.json", "history.csv"}) - gone


def test_a_folder_of_figures_is_removed_with_its_last_one(tmp_path, evaluated):
    folder = filled(tmp_path / "run", config=SEARCHED)
    (folder / "figures").mkdir()
    (folder / "figures/price.png").write_text("old")
    write_front_files(folder, evaluated, HISTORY, CONFIG)
    assert not (folder / "figures").exists()


def test_a_folder_of_a_nominal_search_is_removed_with_its_last_file(tmp_path, evaluated):
    folder = filled(tmp_path / "run", config={**CONFIG, "robust": ROBUST})
    (folder / "nominal/mine.csv").unlink()
    write_front_files(folder, evaluated.take(np.asarray([0])), HISTORY, CONFIG)
    assert not (folder / "nominal").exists()


@pytest.mark.parametrize("name", ["designs.json", "designs_two.json", "designs.npz", "nominal/designs.json"])
def test_designs_that_a_search_would_replace_or_remove_are_no_input_of_it(tmp_path, name):
    folder = filled(tmp_path / "run", config={**CONFIG, "robust": ROBUST})
    (folder / "designs.json").write_text("{}")
    before = names(folder)
    with (
        pytest.raises(InputError, match="which the result would replace"),
        results_folder(folder, designs=folder / name),
    ):
        pass
    with results_folder(folder, designs=folder / "designs_mine.json"):
        pass
    assert names(folder) == before


@pytest.mark.parametrize("name", ["a\rb", "\r", 'a,"b"\r\n', "a\nb", "a"])
def test_tables_are_read_back_whatever_networks_are_called(name):
    rows = [{"design_id": name, f"latency_s_{name}": 0.1}, {"design_id": "b", f"latency_s_{name}": None}]
    told = list(csv.reader(io.StringIO(csv_text(rows), newline="")))
    assert told == [list(rows[0]), [name, "0.1"], ["b", ""]]
    assert csv_text([{"design_id": "b", "x": 0.5}]) == "design_id,x\nb,0.5\n"
