"""The off-chip memory of a package: one cost per bit for all chiplets, from the layer mapper to files."""

import dataclasses
import functools
import json

import fuzz_documents
import jax
import numpy as np
import pytest
from small_search import search, small_network

import mohamjax as mj
from mohamjax.errors import InputError
from mohamjax.hardware import DRAM_TYPES, load_technology, load_template, with_memory
from mohamjax.io import evaluate_designs, read_designs, write_designs
from mohamjax.runtime.struct import take
from mohamjax.search.injection import check_injected
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.space import named_space
from mohamjax.whatif import Candidates, evaluate_variants, known_parameters, nominal_variant, stack_variants
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

TECHNOLOGY = load_technology()
PJ = dict(zip(DRAM_TYPES, np.asarray(TECHNOLOGY.dram).tolist(), strict=True))


def naming(name, dram):
    """A packaged template that names another memory, or states costs of its own for it."""
    template = load_template(name)
    component = dict.fromkeys(["dram_type"], dram) if isinstance(dram, str) else {"cls": "fixed", "fixed": dram}
    offchip = dataclasses.replace(
        template.levels[-1], component=dataclasses.replace(template.levels[-1].component, **component)
    )
    return dataclasses.replace(template, levels=(*template.levels[:-1], offchip))


def toy():
    stem = Layer("stem", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0,))
    return ApplicationModel("toy", (Network("net", (stem, head)),))


MIXED = naming("simba", "HBM2"), naming("eyeriss", (1.0, 2.0, 3.0))


def problem(memory, templates=MIXED):
    return mj.DesignProblem(toy(), templates, mj.Package(memory=memory))


def per_bit(found):
    """Read and written, pJ per bit of the off-chip level of every template of a problem, `[T, 2]`."""
    arrays = found.template_arrays(dtype=np.float32).machine
    last = np.sum(arrays.level_mask, axis=1) - 1
    rows = np.arange(len(last)), last
    bits = np.asarray(arrays.word_bits)[rows] * np.asarray(arrays.block_words)[rows]
    return np.asarray(arrays.access_energy)[rows] / bits[:, None]


@pytest.mark.parametrize("memory", [*map(mj.Memory, DRAM_TYPES), mj.Memory(energy=4.5), mj.Memory(energy=0.0)])
def test_all_templates_of_a_package_pay_the_same_per_bit(memory):
    expected = memory.energy if memory.type is None else PJ[memory.type]
    np.testing.assert_allclose(per_bit(problem(memory)), expected, rtol=1e-6)


def test_a_package_may_leave_the_memory_to_its_templates():
    own = problem(None)
    assert own.resolved.templates == own.templates
    np.testing.assert_allclose(per_bit(own)[0], PJ["HBM2"], rtol=1e-6)
    bits = MIXED[1].levels[-1].word_bits * MIXED[1].levels[-1].block_words
    np.testing.assert_allclose(per_bit(own)[1], np.array([1.0, 2.0]) / bits, rtol=1e-6)


def test_templates_in_a_package_stay_as_they_are():
    packaged = load_template("simba")
    assert with_memory([packaged], mj.Memory("LPDDR4"))[0] is packaged
    for memory in (mj.Memory("HBM2"), mj.Memory(energy=4.5)):
        once = with_memory(MIXED, memory)
        assert [t is u for t, u in zip(once, with_memory(once, memory), strict=True)] == [True, True]
        assert [t.levels[:-1] for t in once] == [t.levels[:-1] for t in MIXED]


@functools.cache
def evaluated(memory, templates=MIXED):
    """Objectives, off-chip bits (in whole blocks), problem, tables and designs of a package with this memory."""
    own = problem(memory, templates)
    with jax.enable_x64(True):
        made = mj.sample_mappings(own, 16, seed=0)
        space = own.arrays(made, dtype=np.float64)
        designs = mj.sample_designs(jax.random.key(0), space, 24)
        objectives = np.asarray(jax.vmap(mj.evaluate, (0, None))(designs, space))
        layers = np.arange(len(own.application.layers))
        kind = np.take_along_axis(np.asarray(designs.template), np.asarray(designs.assignment), axis=1)[:, layers]
        entry = np.asarray(own.application.unique_of_layer), kind, np.asarray(designs.mapping)[:, layers]
        rows = np.asarray(made.block_reads + made.block_writes)[entry]  # [N, layers, V]
        last = np.asarray([len(template.levels) - 1 for template in own.templates])[kind]
        bits = np.asarray([t.levels[-1].word_bits * t.levels[-1].block_words for t in own.templates])[kind]
        traffic = np.sum(np.take_along_axis(rows, last[..., None], axis=2)[..., 0] * bits, axis=1)
        return objectives, traffic, own, made, designs


@pytest.mark.slow
def test_a_design_pays_its_bits_at_the_price_of_the_package():
    cheap, dear, stated = (evaluated(m) for m in (mj.Memory("HBM2"), mj.Memory("LPDDR4"), mj.Memory(energy=8.0)))
    gap = dear[1] * (PJ["LPDDR4"] - PJ["HBM2"]) * 1e-12
    np.testing.assert_allclose(dear[0][:, 1] - cheap[0][:, 1], gap, rtol=1e-6)
    np.testing.assert_array_equal(dear[0][:, [0, 2]], cheap[0][:, [0, 2]])
    np.testing.assert_allclose(stated[0], dear[0], rtol=1e-6)  # LPDDR4 has 8 pJ/bit


@pytest.mark.slow
def test_what_templates_name_is_nothing_to_a_package():
    own = load_template("simba"), load_template("eyeriss")
    np.testing.assert_array_equal(evaluated(mj.Memory("LPDDR4"))[0], evaluated(mj.Memory("LPDDR4"), own)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["designs.json", "designs.npz"])
def test_a_template_of_fixed_sizes_has_no_others_in_files(tmp_path, name):
    only = dataclasses.replace(load_template("simba"), name="chip", sizes="fixed")
    own = problem(None, (only,))
    made = mj.sample_mappings(own, 4, seed=0)
    designs = mj.sample_designs(jax.random.key(0), own.arrays(made), 2)
    path = tmp_path / "designs.npz"
    mj.write_designs(path, own, made, designs)
    rows, found = evaluate_designs(path)
    assert all(row["valid"] for row in rows)
    levels = max(len(one.levels) for one in own.templates)
    at = next(v for v, level in enumerate(only.levels) if level.name == "GlobalBuffer")
    words = only.levels[at].capacity_words
    for size, other in (("capacity", words // 2), ("capacity", 2 * words), ("fanout", [1, 1])):
        if name == path.name:
            arrays = dict(np.load(path))
            shape = *arrays["template"].shape, levels
            stated = {"capacity": np.full(shape, -1.0), "fanout": np.full((*shape, 2), -1.0)}
            stated[size][:, :, at] = other
            changed = tmp_path / "changed.npz"
            np.savez(changed, **arrays, **stated)
        else:
            changed = tmp_path / name
            write_designs(changed, found, "toy")
            assert all(row["valid"] for row in evaluate_designs(changed)[0])
            document = json.loads(changed.read_text())
            for design in document["designs"]:
                (level,) = (one for one in design["chiplets"][0]["levels"] if one["name"] == "GlobalBuffer")
                level["capacity_words" if size == "capacity" else "fanout"] = other
            changed.write_text(json.dumps(document))
        rows, _ = evaluate_designs(changed)
        assert not any(row["valid"] for row in rows) and all("always has" in row["reason"] for row in rows), rows


@pytest.mark.slow
@pytest.mark.parametrize("memory", [mj.Memory("HBM2"), mj.Memory(energy=4.5), None])
@pytest.mark.parametrize("name", ["designs.npz", "designs.json"])
def test_files_of_designs_say_the_memory(tmp_path, memory, name):
    objectives, _, own, made, designs = evaluated(memory)
    path = tmp_path / "designs.npz"
    with jax.enable_x64(True):
        mj.write_designs(path, own, made, designs)
    if name != path.name:
        _, found = evaluate_designs(path)
        assert found is not None
        path = tmp_path / name
        write_designs(path, found, "toy")
        written = json.loads(path.read_text())["package"]["memory"]
        assert written == ({"energy_pJ_per_bit": 4.5} if memory and memory.energy else {"type": written["type"]})
    rows, _ = evaluate_designs(path)
    found = np.asarray([[row[k] for k in ("latency_s", "energy_J", "area_mm2")] for row in rows])
    np.testing.assert_allclose(found, objectives, rtol=1e-9)
    file = read_designs(path)
    assert file.package == own.package and file.templates == own.resolved.templates


def energy(tmp_path, document):
    path = tmp_path / "designs.json"
    path.write_text(json.dumps(document))
    rows, _ = evaluate_designs(path)
    return np.asarray([row["energy_J"] for row in rows])


def test_older_files_cost_what_their_templates_name(tmp_path):
    """Files from before the memory belonged to the package."""
    document = fuzz_documents.written()
    document["package"]["memory"] = {"type": "HBM2"}
    stated = energy(tmp_path, document)
    document["package"].pop("memory")
    packaged = energy(tmp_path, document)
    for template in document["templates"]:
        template["levels"][0]["dram_type"] = "HBM2"
    np.testing.assert_array_equal(energy(tmp_path, document), stated)
    assert (packaged > stated).all()


def test_schedules_of_users_have_the_package_of_a_search(tmp_path):
    """A `schedule/1` file without a package has the default one, whatever its templates name."""
    document = fuzz_documents.schedule()
    for name, content in fuzz_documents.BEHIND.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(document | {"package": {"max_tiles": 16}}))
    file = read_designs(path)
    assert file.package == mj.Package()
    assert file.templates == with_memory(file.templates, mj.Memory("LPDDR4"))


@pytest.mark.slow
def test_designs_of_another_memory_join_a_search(tmp_path):
    _, _, own, made, designs = evaluated(mj.Memory("HBM2"))
    with jax.enable_x64(True):
        mj.write_designs(tmp_path / "designs.npz", own, made, designs)
    file = read_designs(tmp_path / "designs.npz")
    numbers = check_injected(file, own.application, problem(mj.Memory(energy=4.5)).resolved.templates)
    assert numbers.tolist() == [0, 1, -1]


def test_a_hardware_search_has_the_memory_of_its_package():
    found = [
        CodesignProblem(toy(), named_space("unico-edge"), package=mj.Package(memory=memory)).space
        for memory in (mj.Memory("LPDDR4"), mj.Memory("HBM2"))
    ]
    kinds = [{variant.levels[-1].component.dram_type for variant in space.variants} for space in found]
    assert kinds == [{"LPDDR4"}, {"HBM2"}]


# ---------------------------------------------------------------- what if


def doubled(template):
    """A template that states twice the energy per hop."""
    levels = tuple(
        level if level.hop_energy_pJ is None else dataclasses.replace(level, hop_energy_pJ=2 * level.hop_energy_pJ)
        for level in template.levels
    )
    return dataclasses.replace(template, levels=levels)


def asked(memory):
    _, _, own, made, designs = evaluated(memory)
    with jax.enable_x64(True):
        space = own.arrays(made, dtype=np.float64)
        return Candidates(
            names=tuple(range(24)), designs=designs, evaluation=space.evaluation, package=own.package,
            templates=own.resolved.templates,
            capacity=np.full((24, 16, space.evaluation.tables.capacity.shape[-1]), -1.0),
            fanout=np.full((24, 16, space.evaluation.tables.capacity.shape[-1], 2), -1.0),
        )  # fmt: skip


@pytest.mark.slow
def test_what_if_the_memory_cost_something_else():
    stated = asked(mj.Memory(energy=4.5))
    known = known_parameters(stated)
    assert "technology.dram_energy" not in known
    one = known["nop.memory_energy"]
    assert one.value == 4.5 and one.assign is not None
    now = nominal_variant(stated.evaluation)
    # Energies that templates state themselves do not scale with the package's memory.
    others = known["templates.stated_energy"].scale
    found = evaluate_variants(
        stated, stack_variants([one.assign(now, 9.0), one.scale(now, 2.0), others(now, 2.0), others(now, 1.0)])
    )
    expected = evaluated(mj.Memory(energy=9.0))[0]
    np.testing.assert_allclose(found[:2], [expected, expected], rtol=1e-9)
    hops = evaluated(mj.Memory(energy=4.5), tuple(map(doubled, MIXED)))[0]
    np.testing.assert_allclose(found[2:], [hops, evaluated(mj.Memory(energy=4.5))[0]], rtol=1e-9)


@pytest.mark.slow
def test_what_if_asks_for_the_energy_by_its_name():
    _, _, own, made, designs = evaluated(mj.Memory(energy=4.5))
    with jax.enable_x64(True):
        space = own.arrays(made, dtype=np.float64)
        with pytest.raises(InputError, match=r"states the energy of its memory; use nop\.memory_energy"):
            mj.what_if(designs, space, own, {"technology.dram_energy": "x2"})
        found = mj.what_if(take(designs, np.arange(2)), space, own, {"nop.memory_energy": [4.5, 9]})
        assert found.objectives[0, 0, 1] < found.objectives[1, 0, 1]
        with pytest.raises(InputError, match="another package"):
            mj.what_if(designs, space, problem(mj.Memory("HBM2")), {"clock": [1]})


@pytest.mark.slow
def test_templates_that_state_their_memory_scale_it_with_the_rest():
    own = asked(None)
    known = known_parameters(own)
    twice = known["templates.stated_energy"].scale(nominal_variant(own.evaluation), 2.0)
    found = evaluate_variants(own, stack_variants([twice]))
    expected = evaluated(None, (doubled(MIXED[0]), doubled(naming("eyeriss", (2.0, 4.0, 3.0)))))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)


# ---------------------------------------------------------------- command line


def test_a_search_says_which_memory_stands_in(tmp_path, capsys):
    from mohamjax.hardware import template_to_yaml

    (tmp_path / "own.yaml").write_text(template_to_yaml(naming("simba", "HBM2")))
    small_network(tmp_path / "one.onnx", 8)
    given = [str(tmp_path / "one.onnx")], tmp_path / "out", "--templates", str(tmp_path / "own.yaml"), "--dry-run"
    assert search(*given) == 0
    told = capsys.readouterr().err
    assert "simba: the memory of the package, LPDDR4 at 8 pJ/bit, stands in" in told
    (tmp_path / "package.yaml").write_text("memory: {type: template}\n")
    assert search(*given, "--package", str(tmp_path / "package.yaml")) == 0
    assert "stands in" not in capsys.readouterr().err
