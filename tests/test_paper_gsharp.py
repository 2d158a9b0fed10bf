"""The exhibits of G#: every target runs in the tier `ci` and resumes from its lines, and its cases are as described."""

import gsharp
import gsharp_cases
import gsharp_runs
import numpy as np
import pytest
from exhibits import Study, main

TABLES = {
    "fig6": ["fig6"], "fig7": ["fig7"], "fig8": ["fig8"], "fig9": ["fig9"], "fig10": ["fig10"], "fig11": ["fig11"],
    "fig12": ["fig12"], "fig13": ["fig13"], "fig14": ["fig14"], "table6": ["table6a", "table6b"], "table7": ["table7"],
    "demand": ["demand"], "space": ["space"],
}  # fmt: skip
LIGHT = ("fig6", "space")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all tests, so that searches shared by several exhibits run once."""
    return tmp_path_factory.mktemp("gsharp")


@pytest.mark.parametrize("name", [n if n in LIGHT else pytest.param(n, marks=pytest.mark.slow) for n in TABLES])
def test_a_target_runs(name, folder):
    main("gsharp", gsharp.EXHIBITS, [name, "--tier", "ci", "--out", str(folder)])
    for table in TABLES[name]:
        text = (folder / f"{table}.md").read_text()
        rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
        assert len(rows) > 1 and len({row.count("|") for row in rows}) == 1
        assert "nan" not in text
    if name not in ("space", "table6", "table7", "demand"):
        assert list(folder.glob(f"{name}*.png"))


def test_all_targets_are_tested():
    assert set(TABLES) == set(gsharp.EXHIBITS)


@pytest.mark.slow
def test_searches_go_on_from_their_lines(tmp_path, capsys):
    main("gsharp", gsharp.EXHIBITS, ["fig8", "--tier", "ci", "--out", str(tmp_path)])
    lines, table = (tmp_path / "searches_runs.csv").read_text(), (tmp_path / "fig8.md").read_text()
    capsys.readouterr()
    main("gsharp", gsharp.EXHIBITS, ["fig8", "--tier", "ci", "--out", str(tmp_path), "--report"])
    assert (tmp_path / "searches_runs.csv").read_text() == lines
    assert (tmp_path / "fig8.md").read_text().split("| setting")[1] == table.split("| setting")[1]
    half = lines.splitlines(keepends=True)[: len(lines.splitlines()) // 2]
    (tmp_path / "searches_runs.csv").write_text("".join(half))
    main("gsharp", gsharp.EXHIBITS, ["fig8", "--tier", "ci", "--out", str(tmp_path)])
    again = (tmp_path / "searches_runs.csv").read_text()
    whole, resumed = (sorted(line.rsplit(",", 1)[0] for line in text.splitlines()) for text in (lines, again))
    assert whole == resumed  # except for the seconds


def test_cases_are_the_packaged_batches():
    for batch in gsharp_cases.BATCHES:
        jobs = gsharp_cases.named_batch(batch)
        assert len(jobs.layers) == 100
        kinds = {"vision", "lang", "recom"} if batch.startswith("mix") else {batch[:-1]}
        assert set(jobs.tenants) == kinds
    plain, random = gsharp_runs.Case("mix0", "S1", 4), gsharp_runs.Case("random0", "S1", 4)
    assert plain.table().duration.shape == random.table().duration.shape == (100, 4)
    assert not np.array_equal(plain.table().duration, random.table().duration)
    cases = [gsharp_runs.Case("mix0", "S1", 4, arrays=arrays) for arrays in gsharp_runs.ARRAYS]
    assert cases[0] == plain and len({case.key for case in cases}) == 3 and {len(case.key) for case in cases} == {5}
    names = [case.table().accelerators[0] for case in cases]
    assert ["1024 B" in name for name in names] == [False, True, True]  # free shapes beside equal elements
    assert ["flexible" in name for name in names] == [False, False, True]


def test_groups_of_methods_part_table_5():
    assert set(gsharp_runs.BLIND) | set(gsharp_runs.GREEDY) == {*gsharp_runs.TABLE_5, "HEFT"}
    assert not set(gsharp_runs.BLIND) & set(gsharp_runs.GREEDY)
    claim = gsharp._claims("S1", {"FCFS-OLB": 8.0, "random-RR": 4.0, "HEFT": 1.0, "g": 2.0}, "g")
    assert "2.17 x all of the paper's that were run; 3 x blind heuristics (the best, random-RR, 2.000 x)" in claim
    assert "0.5 x heuristics that look at durations (the best, HEFT, 0.500 x)" in claim


def test_every_pair_is_run_once():
    methods = ("FCFS-OLB", "PPO", "CMA-ES-printed", "A2C", "DE", "gsharp")
    cases = [gsharp_runs.Case(b, s, 1) for s in ("S1", "S2") for b in ("mix0", "lang0")]
    pairs = gsharp._in_order(methods, cases)
    assert sorted(map(str, pairs)) == sorted(str((m, c)) for m in methods for c in cases)
    names = [m for m, _ in pairs]
    assert list(dict.fromkeys(names)) == ["FCFS-OLB", "gsharp", "DE", "PPO", "A2C", "CMA-ES-printed"]
    assert [c.setting for m, c in pairs if m in ("PPO", "A2C")] == ["S2"] * 4 + ["S1"] * 4


def test_every_search_has_as_many_evaluations(tmp_path):
    study = Study("gsharp", "small", 3, tmp_path, tmp_path)
    search = gsharp_runs.Searches(study)
    assert {search.config(m).evaluations for m in ("gsharp", "gsharp-printed", "DE", "A2C")} == {10_000}
    assert gsharp_runs.converged([(10, 5.0), (20, 1.005), (30, 1.0)]) == 20


def test_effect_sizes_say_how_often_a_seed_is_longer():
    base = 1.0 + np.arange(16)
    medians = {"gsharp-printed": base, "slow": 3 * base, "quick": base / 2}
    about, longer, shorter = gsharp._tested(medians, {"slow": 1.0, "quick": 0.0, "gsharp-printed": 0.5})
    assert "how often a seed is longer" in about
    assert "slow (1.00) are longer" in longer and "quick (0.00) are shorter" in shorter
    assert gsharp.a12([3, 4], [1, 2]) == 1.0 and gsharp.a12([1, 2], [1, 2]) == 0.5
