"""Seeded, bounded fuzzing: every input gives a result or one line, and what once failed does not fail again."""

import os
import subprocess
import sys
import time

import fuzz_documents
import fuzz_graphs
import fuzzing
import numpy as np
import pytest

SEED = int(os.environ.get("MOHAMJAX_FUZZ_SEED", "20"))
SLOWEST = 60  # seconds for one kind; on a busy machine the rest of its cases is left out


def tried(made, folder, budget=SLOWEST):
    """Tries cases and returns the outcomes that are wrong, and how many were tried."""
    wrong, count, start = [], 0, time.process_time()
    for case in made:
        outcome = fuzzing.attempt(case, folder)
        count += 1
        if not outcome.good:
            wrong.append(f"{case.name} ({case.kind}): {outcome.kind}: {outcome.text}")
        if time.process_time() - start > budget:
            break
    return wrong, count


@pytest.fixture(scope="module")
def compiled():
    """What readers of results compile for sound designs: no input is to blame for the seconds that this takes."""
    fuzz_documents.evaluated()


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("reader", [name for name in fuzzing.READERS if not name.startswith("onnx")])
def test_documents(tmp_path, reader):
    """Damaged files of every reader but that of ONNX models; the sound file is read."""
    sound = fuzzing.Case(reader, "sound", fuzz_documents.sound(reader))
    assert fuzzing.attempt(sound, tmp_path).kind == "result"
    made = (fuzzing.case(np.random.default_rng((SEED, n)), tmp_path, reader) for n in range(40))
    wrong, _ = tried(made, tmp_path, budget=8)
    assert not wrong, "\n".join(wrong)


def test_sound_designs_are_read_as_such(tmp_path):
    """The files to be damaged are valid: otherwise readers would not get as far as the damage."""
    for reader in ("designs", "schedule"):
        for name, model in fuzz_documents.BEHIND.items():
            (tmp_path / name).write_bytes(model.SerializeToString())
        (tmp_path / "d.json").write_bytes(fuzz_documents.sound(reader))
        found = fuzzing.READERS[reader].read(tmp_path / "d.json")
        assert set(found.reasons) == {""}


def test_every_operator(tmp_path):
    """Every operator that the importer knows, with random operands and attributes."""
    made = (
        fuzzing.Case("onnx", "grammar", fuzz_graphs.single(np.random.default_rng((SEED, n, i)), operator))
        for n in range(3)
        for i, operator in enumerate(fuzz_graphs.OPERATORS)
    )
    wrong, count = tried(made, tmp_path, budget=20)
    assert not wrong, "\n".join(wrong)
    assert count > len(fuzz_graphs.OPERATORS)


def test_models(tmp_path):
    """Grown, damaged and hostile models."""
    made = (fuzzing.case(np.random.default_rng((SEED, n)), tmp_path, "onnx") for n in range(400))
    wrong, _ = tried(made, tmp_path, budget=15)
    assert not wrong, "\n".join(wrong)


def test_the_same_seed_makes_the_same_cases(tmp_path):
    first, second = ([fuzzing.case(np.random.default_rng((SEED, n)), tmp_path) for n in range(12)] for _ in range(2))
    assert first == second


@pytest.mark.usefixtures("compiled")
def test_findings_stay_mended(tmp_path):
    """What failed in longer runs (`experiments/fuzz.py`)."""
    files = sorted(fuzzing.FINDINGS.glob("*-*"))
    made = [fuzzing.Case(path.name.split("-")[0], "finding", path.read_bytes()) for path in files]
    wrong, _ = tried(made, tmp_path)
    assert not wrong, "\n".join(wrong)


# ----------------------------------------------------------------------------------------------------- the judge itself


def _reading(monkeypatch, read):
    monkeypatch.setitem(fuzzing.READERS, "transfer", fuzzing.Reader(".json", read))


def test_the_judge_condemns(tmp_path, monkeypatch):
    """Every kind of failure is recognised: otherwise fuzzing would find nothing."""
    case = fuzzing.Case("transfer", "grammar", b"{}")

    def outcome(read, seconds=fuzzing.SECONDS):
        _reading(monkeypatch, read)
        return fuzzing.attempt(case, tmp_path, seconds).kind

    def raises(make):
        def read(path):
            raise make(path)

        return read

    def repeats(path):
        try:
            return [][3]
        except IndexError as error:
            raise fuzzing.InputError(f"does not fit ({error})", file=path, item="node") from error

    def spins(path):
        while True:
            pass

    error = fuzzing.InputError
    assert outcome(lambda path: None) == "result"
    assert outcome(raises(lambda path: error("is bad", file=path, item="node"))) == "refused"
    assert outcome(raises(lambda path: error("is bad", file=path))) == "names no node"
    assert outcome(raises(lambda path: error("is bad", item="node"))) == "names no file"
    assert outcome(repeats) == "Python's words"
    assert outcome(lambda path: np.float64(1) / np.zeros(())) == "escaped"  # NumPy's warnings are not for users
    assert outcome(raises(lambda path: KeyError("x"))) == "escaped"
    assert outcome(spins, 0.2) == "too slow"


# ---------------------------------------------------------------------------------------------------- as users see it


def test_the_command_line(tmp_path):
    """A few cases through processes of their own: exit code 0, or 2 with one line and nothing else."""
    for name, model in fuzz_documents.BEHIND.items():
        (tmp_path / name).write_bytes(model.SerializeToString())
    lines = []
    for reader, verb in (("onnx", ["workload"]), ("jobtable", ["evaluate", "schedules"])):
        rng = np.random.default_rng((SEED, len(lines)))
        path = tmp_path / f"given{fuzzing.READERS[reader].suffix}"
        path.write_bytes(fuzzing.damaged_bytes(rng, fuzz_graphs.single(rng) if reader == "onnx" else b'{"format": 1}'))
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from mohamjax.cli import main; sys.exit(main())", *verb, str(path)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        lines.append(done.stderr)
        errors = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
        assert done.returncode in (0, 2), done.stderr
        assert len(errors) == (1 if done.returncode else 0), done.stderr
