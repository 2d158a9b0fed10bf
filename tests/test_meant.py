"""Complaints say what the user probably meant."""

import pathlib

import pytest

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import load_template
from mohamjax.reader import file_like, read_text
from mohamjax.workload import load_scenario


@pytest.mark.parametrize(
    ("missing", "meant"),
    [
        ("npu_os", "npu_os.yaml"),
        ("npu_os.yml", "npu_os.yaml"),
        ("npuos.yaml", "npu_os.yaml"),
        ("gesture.onx", "gesture.onnx"),
        ("gestures.onnx", "gesture.onnx"),
        ("b.json", None),  # a.json is another file
        ("gesture.csv", None),
        ("wholly different", None),
        ("nowhere/npu_os.yaml", None),
        ("folder.yaml", None),
    ],
)
def test_a_file_of_nearly_the_same_name_is_found(tmp_path, missing, meant):
    for name in ("npu_os.yaml", "gesture.onnx", "a.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "folder.yml").mkdir()
    wanted = None if meant is None else str(tmp_path / meant)
    assert file_like(tmp_path / missing, (".yaml",)) == wanted
    if pathlib.Path(missing).suffix:
        with pytest.raises(InputError, match="no such file") as caught:
            read_text(tmp_path / missing, "text file")
        assert caught.value.remedy == ("check the path" if wanted is None else f"did you mean {wanted}?")


def test_templates_and_networks_beside_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("npu_os.yaml", "gesture.onnx"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=r"did you mean the file npu_os\.yaml\?"):
        load_template("npu_os")
    with pytest.raises(InputError, match=r"did you mean gesture\.onnx\?"):
        load_scenario("gesture.onx")
    with pytest.raises(InputError, match=r"did you mean gesture\.onnx\?"):
        load_scenario("gesture")
    with pytest.raises(InputError, match=r"did you mean 'simba'\?"):
        load_template("simbaa")


def told(capsys, *words):
    """The complaint about a command line; argparse ends the process itself."""
    try:
        code = main(list(words))
    except SystemExit as end:
        code = end.code
    assert code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_decide_takes_one_folder(capsys):
    line = told(capsys, "decide", "a", "b", "fps>=30")
    assert "takes one results folder" in line and "mohamjax report a b --target 'fps>=30'" in line
    # Other surplus arguments, and those of other verbs, are refused as usual.
    assert "unknown argument --wrong" in told(capsys, "decide", "a", "fps>=30", "--wrong")
    assert "unknown argument b" in told(capsys, "plot", "a", "b")
