"""Scenarios: YAML lists of networks, several ONNX files, and invalid ones."""

import argparse
import errno
import itertools
import os
import pathlib
from unittest.mock import Mock

import onnx
import pytest
import yaml
from workload_models import info, model, node, save, weight

from mohamjax import cli
from mohamjax.cli import main
from mohamjax.cli.options import shape
from mohamjax.errors import InputError
from mohamjax.hardware import PackageForm
from mohamjax.workload import load_scenario, networks_by_scenario, packaged_names
from mohamjax.workload.scenario import _ALIASES, _DATA, _OF_PACKAGES, SCENARIOS, VARIANTS, is_packaged


@pytest.fixture
def nets(tmp_path):
    """A folder with two small networks; `a` has a symbolic batch."""
    (tmp_path / "nets").mkdir()
    a = model([node("MatMul", "x w", "y")], [info("x", ("batch", 4))], ["y"], [weight("w", (4, 5))])
    nodes = [node("MatMul", "img w", "t"), node("MatMul", "t v", "y")]
    b = model(nodes, [info("img", ("seq", 4))], ["y"], [weight("w", (4, 6)), weight("v", (6, 3))])
    save(tmp_path / "nets", a, "a.onnx")
    save(tmp_path / "nets", b, "b.onnx")
    return tmp_path


def write(folder, text):
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# Each line repeats the previous one ten times: 10^8 entries in all. MERGES does the same with merged keys.
BOMB = "a: &a [x]\n" + "".join(f"{k}: &{k} [{', '.join(['*' + j] * 10)}]\n" for j, k in itertools.pairwise("abcdefghi"))
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{k}: &{k} {{<<: [{', '.join(['*' + j] * 10)}]}}\n" for j, k in itertools.pairwise("abcdefghi")
)

GOOD = """
name: my mix
description: what I run
networks:
  - file: nets/a.onnx
    copies: 2
    batch: 8
  - file: nets/b.onnx
    name: tail, second
    shapes: {img: [3, 4]}
  - {file: nets/a.onnx, batch: 2}
"""


def test_a_scenario_of_several_networks(nets):
    warnings = []
    application = load_scenario(write(nets, GOOD), warn=warnings.append)
    assert warnings == []
    assert application.name == "my_mix"
    assert [n.name for n in application.networks] == ["a", "a#2", "tail__second", "a#3"]
    assert [n.layers[0].shape.N for n in application.networks] == [8, 8, 3, 2]
    assert application.network_of_layer == (0, 1, 2, 2, 3)
    assert application.layers[3].predecessors == (2,)
    assert len(application.unique_layers) == 4


def test_keywords_reach_the_networks_that_have_the_tensor(nets):
    files = [nets / "nets/a.onnx", nets / "nets/b.onnx"]
    application = load_scenario(files, batch=3, shapes={"img": (7, 4)}, warn=[].append)
    assert application.name == "a+b"
    assert [n.layers[0].shape.N for n in application.networks] == [3, 7]
    with pytest.raises(InputError, match="did you mean 'img'"):
        load_scenario(files, shapes={"imge": (7, 4)})


def test_a_shape_of_the_command_line_may_be_empty_after_its_first_size():
    assert shape("past=1,2,0,8") == ("past", (1, 2, 0, 8))
    for text in ("past=0,2", "past=1,-1", "past=", "=1"):
        with pytest.raises(argparse.ArgumentTypeError, match="positive sizes"):
            shape(text)


@pytest.mark.parametrize("sizes", ["[1, 2, 0, 8]", "1x2x0x8"])
def test_a_shape_of_a_scenario_may_be_empty_after_its_first_size(nets, sizes):
    nodes = [node("Concat", "past k", "kk", axis=2), node("Transpose", "kk", "kt", perm=[0, 1, 3, 2]),
             node("MatMul", "k kt", "y")]  # fmt: skip
    save(nets, model(nodes, [info("k", (1, 2, 3, 8)), info("past", (1, 2, "length", 8))], ["y"]), "cache.onnx")
    application = load_scenario(write(nets, f"networks: [{{file: cache.onnx, shapes: {{past: {sizes}}}}}]"))
    assert application.layers[0].shape.K == 3
    with pytest.raises(InputError, match="0 only after the first"):
        load_scenario(write(nets, "networks: [{file: cache.onnx, shapes: {past: [0, 2, 3, 8]}}]"))


def test_names_that_are_no_text_do_not_hide_a_mistake(nets):
    """A tensor whose name is no UTF-8 cannot be given a shape, but a wrong name still gets its one line."""
    proto = model([node("MatMul", "img w", "qqq")], [info("img", ("seq", 4))], ["qqq"], [weight("w", (4, 6))])
    path = save(nets, proto.SerializeToString().replace(b"qqq", b"q\xffq"))
    with pytest.raises(InputError, match="did you mean 'img'"):
        load_scenario(path, shapes={"imge": (7, 4)})


def test_the_same_file_twice_has_two_names(nets):
    file = str(nets / "nets/a.onnx")
    application = load_scenario([file, file], batch=1)
    assert [n.name for n in application.networks] == ["a", "a#2"]


def test_one_file_is_a_scenario(nets):
    application = load_scenario(nets / "nets/a.onnx", batch=1)
    assert application.name == "a" and len(application.networks) == 1


@pytest.mark.parametrize("name", ["AR-VR", "ar/vr", "c"])
def test_packaged_names_are_forgiving(name):
    assert load_scenario(name).name == "ar-vr"


def test_shapes_may_be_text(nets):
    path = write(nets, "networks: [{file: nets/b.onnx, shapes: {img: '3,4'}}]")
    assert load_scenario(path).networks[0].layers[0].shape.N == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("networks:\n  - fil: nets/a.onnx\n", ["networks[0].fil", "did you mean 'file'?"]),
        ("netwoks:\n  - file: nets/a.onnx\n", ["netwoks", "did you mean 'networks'?"]),
        ("networks:\n  - file: nets/a.onnx\n    copys: 2\n", ["networks[0].copys", "did you mean 'copies'?"]),
        ("networks:\n  - file: nets/a.onnx\n    colour: red\n", ["networks[0].colour", "known keys"]),
        (
            "networks:\n  - {file: nets/a.onnx, shapes: {x: '1,\u00b2'}}\n",
            ["networks[0].shapes.x[1]", "a whole number"],
        ),
        (f"networks:\n  - {{file: nets/a.onnx, shapes: {{x: '1,{'7' * 5000}'}}}}\n", ["networks[0].shapes.x[1]"]),
        ("networks: []\n", ["networks", "is empty", "at least one"]),
        ("name: x\n", ["networks", "is missing"]),
        ("networks: nets/a.onnx\n", ["networks", "expected a list"]),
        ("networks: [3]\n", ["networks[0]", "expected text or a mapping"]),
        ("networks:\n  - {name: x}\n", ["networks[0].file", "is missing"]),
        ("networks:\n  - {file: 3}\n", ["networks[0].file", "expected text, found number 3"]),
        ("networks:\n  - {file: nets/absent.onnx}\n", ["networks[0].file", "no file 'nets/absent.onnx'"]),
        ("networks:\n  - {file: nets/aa.onnx}\n", ["networks[0].file", "did you mean 'a.onnx'?"]),
        ("networks:\n  - {file: nets/a.onnx, copies: 0}\n", ["networks[0].copies", "0 is too small"]),
        ("networks:\n  - {file: nets/a.onnx, copies: 1.5}\n", ["networks[0].copies", "1.5 is not whole"]),
        ("networks:\n  - {file: nets/a.onnx, copies: 99999999}\n", ["networks[0].copies", "up to 1000"]),
        ("networks:\n  - {file: nets/a.onnx, batch: yes}\n", ["networks[0].batch", "found true/false"]),
        ("networks:\n  - {file: nets/a.onnx, shapes: 3}\n", ["networks[0].shapes", "expected a mapping"]),
        ("networks:\n  - {file: nets/a.onnx, shapes: {x: [1, -4]}}\n", ["networks[0].shapes.x", "-4 is too small"]),
        ("networks:\n  - {file: nets/a.onnx, shapes: {x: '3,,4'}}\n", ["networks[0].shapes.x", "a whole number"]),
        ("networks:\n  - {file: nets/a.onnx, name: [1]}\n", ["networks[0].name"]),
        ("networks:\n  - {file: nets/a.onnx, file: nets/b.onnx}\n", ["'file' is written twice", "line 2"]),
        ("networks:\n  - file: nets/a.onnx\n   batch: 2\n", ["not valid YAML", "line 3"]),
        ("networks: [\n", ["not valid YAML"]),
        ("name: {}\nnetworks: [{file: nets/a.onnx}]\n", ["name", "expected text"]),
        ("- file: nets/a.onnx\n", ["holds a list at its top"]),
        ("", ["is empty"]),
        ("a: &a [*a]\nnetworks: *a\n", ["line 1", "refers to itself"]),
        (BOMB + "networks: [{file: *i}]\n", ["its aliases stand for more than 1,000,000 entries"]),
        (MERGES + "networks: [{file: *i}]\n", ["its aliases stand for more than 1,000,000 entries"]),
        ("networks: [{file: nets/a.onnx, copies: 0x" + "f" * 300 + "}]\n", ["line 1", "has 302 digits"]),
        ('name: "\\ud800"\nnetworks: [{file: nets/a.onnx}]\n', ["line 1", "a lone surrogate"]),
        ('networks: [{file: "~nouser/x.onnx"}]\n', ["networks[0].file", "no file '~nouser/x.onnx'"]),
        (f"networks: [{{file: {'a' * 300}}}]\n", ["networks[0].file", "no file 'aaa"]),
        (f"networks: [{{file: [{'a' * 10**6}]}}]\n", ["networks[0].file", "expected text, found list ['aaa", " ... "]),
        ("networks: !!python/object/apply:os.system ['true']\n", ["not valid YAML"]),
        ("format: requirements/1\n", ["is a requirements/1 file", "argument `requirements`"]),
        ("limits: {area_mm2: 3}\n", ["is a requirements/1 file", "argument `requirements`"]),
        ("format: technology/1\n", ["is a technology/1 file", "argument `technology`"]),
    ],
)
def test_mistakes_name_file_key_and_remedy(nets, text, words):
    path = write(nets, text)
    with pytest.raises(InputError) as caught:
        load_scenario(path, batch=1)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message and caught.value.remedy
    for word in words:
        assert word in message, message
    assert len(message) < 2000


def test_what_the_system_refuses_is_one_line(nets, capsys, monkeypatch):
    """Denied folders, names too long for a file and full disks give one line each and are no error of ours."""
    (nets / "locked").mkdir()
    real, denied = os.stat, PermissionError(errno.EACCES, "Permission denied")

    def stat(path, *more, **named):
        if "locked" in str(path):
            raise denied
        return real(path, *more, **named)

    monkeypatch.setattr(os, "stat", stat)
    path = write(nets, "networks: [{file: locked/a.onnx}]\n")
    for argument, words in (
        (str(path), "a.onnx: cannot be accessed (Permission denied); check the permissions"),
        (str(nets / "locked" / "x"), "cannot be accessed (Permission denied); check the permissions"),
        ("a" * 300, "there is no such scenario or file"),
    ):
        assert main(["workload", argument]) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1
    network = str(nets / "nets" / "a.onnx")
    for error, words in (
        (OSError(errno.ENOSPC, "No space left on device", "x.csv"), "x.csv: No space left on device; check the path"),
        (
            UnicodeEncodeError("ascii", "\u03b1", 0, 1, "ordinal not in range(128)"),
            "ordinal not in range(128); set PYTHONUTF8=1",
        ),
        (ZeroDivisionError(), "this is an error in mohamjax itself"),
    ):
        monkeypatch.setattr(cli.workload, "run", Mock(side_effect=error))
        assert main(["workload", network]) == (1 if "itself" in words else 2)
        said = capsys.readouterr().err
        assert words in said and (said.count("\n") == 1 or "itself" in words)


def test_parameters_of_the_package_are_pointed_to_its_file(nets):
    path = write(nets, "networks: [one.onnx]\ncontention: mesh\n")
    with pytest.raises(InputError, match=r"mine\.yaml: contention: is about the package.*argument `package`"):
        load_scenario([path])
    assert _OF_PACKAGES.issuperset(PackageForm.__struct_fields__)


def test_requirements_beside_a_scenario_are_no_second_scenario(nets):
    path = write(nets, "limits: {area_mm2: 3}\n")
    with pytest.raises(InputError, match=r"mine\.yaml: is a requirements/1 file.*argument `requirements`"):
        load_scenario(["ar-vr", path])


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("mobil", "did you mean mobile"),
        ("nothing-like-it", "no such scenario or file"),
        ("absent.yaml", "no such file"),
        ("absent.onnx", "no such file"),
        ([], "no scenario"),
        (["mobile", "nothing-like-it"], "no such scenario or file.*data-center.*resnet50"),
        (["a.yaml", "b.onnx"], "no such file"),
        ("resnet5", "did you mean resnet50"),
        (["a.onnx", "b.onnx"], "no such file"),
    ],
)
def test_specs_that_name_nothing(spec, word):
    with pytest.raises(InputError, match=word):
        load_scenario(spec)


def test_yaml_that_is_no_text(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match="not UTF-8"):
        load_scenario(path)
    with pytest.raises(InputError, match="is a folder"):
        (tmp_path / "folder.yaml").mkdir()
        load_scenario(tmp_path / "folder.yaml")


def test_a_scenario_with_rates_has_the_networks_of_the_other():
    """Every rate is from XRBench, and the deadline is one period."""
    plain, rated = load_scenario("ar-vr"), load_scenario("ar-vr-rates")
    assert [n.layers for n in rated.networks] == [n.layers for n in plain.networks]
    assert [n.frames_per_second for n in rated.networks] == [10, 30, 10]
    assert all(n.deadline_s == 1 / n.frames_per_second for n in rated.networks)
    document = yaml.safe_load((_DATA / "scenarios.yaml").read_text())["scenarios"]["ar-vr-rates"]
    assert all(f"at {network['frames_per_second']} FPS" in network["rate_source"] for network in document["networks"])
    assert "ar-vr-rates" in VARIANTS and not any(n.asked for n in plain.networks)


def test_unet_stands_where_the_table_or_the_release_has_it():
    """UNet moves from D, where Table 3 prints it, to C, where the release has it; nothing else changes."""
    printed = [load_scenario(name) for name in ("ar-vr", "data-center")]
    released = [load_scenario(name) for name in ("ar-vr-unet", "data-center-released")]
    (unet,) = (network for network in printed[1].networks if network.name == "unet_572")
    assert released[0].networks == (*printed[0].networks, unet)
    assert (unet, *released[1].networks) == printed[1].networks
    assert sum(scenario.macs for scenario in released) == sum(scenario.macs for scenario in printed)
    assert [scenario.macs for scenario in released] == [188686775744, 157645533056]
    # The release states 157.39 GMAC for D: it leaves out the first layers of its networks.
    assert released[1].macs / 1e9 == pytest.approx(157.39, rel=2e-3)


def rebatched(path, batch, folder):
    """The file with `batch` samples instead of one in the first axes of its inputs and in the shapes that it states."""
    proto = onnx.load(path, load_external_data=False)
    for given in proto.graph.input:
        given.type.tensor_type.shape.dim[0].dim_value = batch
    for given in proto.graph.output:
        given.type.tensor_type.ClearField("shape")
    del proto.graph.value_info[:]
    places = {"Reshape": 1, "Expand": 1, "Resize": 3}
    shapes = {n.input[places[n.op_type]] for n in proto.graph.node if len(n.input) > places.get(n.op_type, 99)}
    constants = [
        a.t for n in proto.graph.node if n.op_type == "Constant" and n.output[0] in shapes for a in n.attribute
    ]
    for tensor in [*constants, *(t for t in proto.graph.initializer if t.name in shapes)]:
        sizes = onnx.numpy_helper.to_array(tensor).copy()
        if sizes.size > 1 and sizes[0] == 1:
            sizes[0] = batch
            tensor.CopyFrom(onnx.numpy_helper.from_array(sizes, tensor.name))
    out = folder / path.name
    onnx.save(proto, out)
    return out


@pytest.mark.parametrize("name", packaged_names())
def test_the_batch_of_a_packaged_network_is_that_of_a_graph_of_so_many_samples(tmp_path, name):
    """Each graph is for one sample; `batch` gives the same as the graph exported for four samples."""
    (network,) = load_scenario(name, batch=4, warn=pytest.fail).networks
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)  # a file of that name takes precedence
        other = rebatched(pathlib.Path(network.source), 4, tmp_path)
        (exported,) = load_scenario(other.rename(name), warn=pytest.fail).networks
    assert exported.source == name and network.source != name
    assert [layer.shape for layer in network.layers] == [layer.shape for layer in exported.layers]


def test_packaged_networks_stand_beside_scenarios_and_files(nets):
    file = nets / "nets/a.onnx"
    application = load_scenario(["resnet50", "mobile", file, "ResNet50"], batch=2, warn=pytest.fail)
    names = [network.name for network in application.networks]
    assert names == ["resnet50", *networks_by_scenario()["mobile"], "a", "resnet50#2"]
    assert application.name == "resnet50+mobile+a+resnet50"
    assert application.networks[0].task == "vision" and application.networks[0].layers[0].shape.N == 2
    mine = write(nets, "networks: [{file: resnet50, name: camera, batch: 2}, nets/a.onnx]\n")
    camera = load_scenario(mine, batch=1, warn=pytest.fail).networks[0]
    assert (camera.name, camera.task, camera.layers) == ("camera", "vision", application.networks[0].layers)
    (nets / "resnet50").write_bytes(file.read_bytes())
    assert len(load_scenario(mine, batch=1).networks[0].layers) == 1
    with pytest.raises(InputError, match=r"no file 'resnet5'.*resnet50"):
        load_scenario(write(nets, "networks: [{file: resnet5}]\n"))


def test_the_packaged_ones_are_listed(capsys):
    assert main(["workload"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in (*SCENARIOS, *VARIANTS, *packaged_names()))
    assert main(["workload", "--csv", "-"]) == 2
    assert "--csv: is for networks that are named; name one" in capsys.readouterr().err


def test_packaged_names_are_those_that_load():
    names = (*SCENARIOS, *VARIANTS, *_ALIASES, *packaged_names())
    assert all(is_packaged(text) and is_packaged(text.upper()) for text in names)
    assert not any(map(is_packaged, ("", "edge.yaml", "./edge", "e", "data center")))
