"""The exhibits of MOHaM: each runs in the tier `ci`, and their measures are correct."""

import pathlib
import subprocess
import sys

import moham
import moham_measures as measures
import moham_runs as runs
import numpy as np
import pytest
import wilcoxon_tests
from hypothesis import given, settings
from hypothesis import strategies as st

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "experiments" / "paper"


def made(folder, *words):
    moham.main("moham", moham.EXHIBITS, [*words, "--tier", "ci", "--out", str(folder)])
    return {path.name: path.read_text() for path in folder.glob("*.md")}


def test_the_sizes_of_the_spaces(tmp_path):
    rows = made(tmp_path, "eq1")["eq1.md"].splitlines()
    (four,) = [row.split("|")[1:-1] for row in rows if row.startswith("| 4 x ResNet50")]
    name, layers, networks, *parts, whole = (cell.strip() for cell in four)
    assert (name, layers, networks) == ("4 x ResNet50", "216", "4")
    assert parts[2:4] == ["3.5", "13.3"]  # 216 x 16 and 16!, Eq. 3 and 4
    assert parts[4] == f"{np.log10(24 * 54) + 4 * np.log10(54):.1f}"  # Eq. 5
    assert abs(float(whole) - 55) < 3  # the paper's


@pytest.mark.slow
def test_every_exhibit_runs_and_what_was_run_is_not_run_again(tmp_path, capsys):
    tables = made(tmp_path, "all")
    assert set(tables) == {f"{name}.md" for name in moham.EXHIBITS}
    assert not [name for name, text in tables.items() if "were not begun" in text]
    figures = {path.name for path in tmp_path.glob("*.png")}
    assert {f"{name}.png" for name in ("fig2a", "fig7", "fig8", "fig9", "fig10", "fig11", "fig12", "budget")} <= figures
    assert {f"fig6_{role}_{what}.png" for role in ("fastest", "smallest") for what in ("schedule", "area")} <= figures
    kept = (tmp_path / "searches_runs.csv").read_text()
    capsys.readouterr()
    again = made(tmp_path, "all")
    assert (tmp_path / "searches_runs.csv").read_text() == kept
    for name, text in tables.items():
        own, other = ([line for line in x.splitlines() if line.startswith("|")] for x in (text, again[name]))
        assert own == other


def test_a_file_of_all_seeds_replaces_one_and_leaves_the_others(tmp_path):
    study = runs.Study("moham", "ci", 2, tmp_path, tmp_path)
    file = runs.BySeed(study, "fronts", ("ar-vr", "no sa_template, our rates", 3))
    with pytest.raises(ValueError, match="lacks seed 0"):
        file.rows(0)
    file.keep(1, ("a", "b"), [["x", "1"], ["y", "2"]])
    file.keep(0, ("a", "b"), [["z", "3"]])
    file.keep(1, ("a", "b"), [["w", "4"]])
    assert file.rows(1) == [["w", "4"]] and file.rows(0) == [["z", "3"]]
    assert [path.name for path in (tmp_path / "fronts").iterdir()] == ["ci-ar-vr-no-sa-template-our-rates-3.csv.gz"]


def test_an_unknown_exhibit_and_a_tier_that_proves_nothing_are_refused(tmp_path):
    for words in (["fig99", "--tier", "ci", "--out", str(tmp_path)], ["eq1", "--tier", "ci"]):
        with pytest.raises(SystemExit) as stopped:
            moham.main("moham", moham.EXHIBITS, words)
        assert stopped.value.code == 2


def test_the_script_lists_its_exhibits():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "moham.py"), "--list"], capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(moham.EXHIBITS)


@pytest.mark.slow
def test_one_template_alone_is_the_problem_with_that_template_only():
    """Designs in the space with copies of one template cost the same as in the space with only that template."""
    import jax

    import mohamjax as mj
    from mohamjax.mapping import MappingTables

    app = runs.application_of("ar-vr", 1)
    short = mj.DesignProblem(app, runs.TEMPLATES, runs.PACKAGE)
    tables = mj.sample_mappings(short, count=4, seed=0)
    space = short.arrays(tables)
    t = [x.name for x in short.resolved.templates].index("simba")
    copies = runs.alone(space, t)
    one = mj.DesignProblem(app, ("simba",), runs.PACKAGE)
    own: MappingTables = jax.tree.map(lambda leaf: leaf[:, t : t + 1], tables)
    designs = mj.sample_designs(jax.random.key(0), copies, 8)
    named = designs.replace(template=np.where(np.asarray(designs.template) >= 0, 0, -1))
    evaluate = jax.jit(jax.vmap(mj.evaluate, (0, None)))
    levels = own.capacity.shape[3]
    assert levels == tables.capacity.shape[3]
    np.testing.assert_allclose(evaluate(designs, copies), evaluate(named, one.arrays(own)), rtol=1e-5)


points = st.lists(st.tuples(*[st.integers(1, 6)] * 3), min_size=1, max_size=12).map(lambda x: np.array(x, float))


@settings(max_examples=60, deadline=None)
@given(points, points)
def test_measures_of_fronts(front, other):
    def beats(a, b):
        return (a <= b).all() and (a < b).any()

    plain = {tuple(p) for p in front if not any(beats(q, p) for q in front)}
    kept = measures.non_dominated(front)
    assert {tuple(p) for p in kept} == plain and len(kept) == len(plain)
    share = np.mean([any(beats(q, p) for q in other) for p in front])
    assert measures.dominated_share(front, other) == pytest.approx(share)
    union = measures.non_dominated(np.concatenate([front, other]))
    # A front that holds the reference is at distance 0 from it; shifted by epsilon, a front weakly dominates it.
    assert measures.igd_plus(union, union) == 0
    assert measures.additive_epsilon(union, union) == 0
    gap = measures.additive_epsilon(front, union)
    assert all(((front - gap) <= p + 1e-12).all(axis=1).any() for p in union)
    assert (measures.igd_plus(front, union) == 0) == (gap <= 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_a12_is_a_probability_of_being_larger(first, second):
    assert wilcoxon_tests.a12(first, second) + wilcoxon_tests.a12(second, first) == pytest.approx(1)
    assert wilcoxon_tests.a12([max(second) + 1], second) == 1
    assert wilcoxon_tests.a12(first, first) == pytest.approx(0.5)


def test_tests_of_samples():
    # Six pairs, all better: p = 2 / 2^6. Holm keeps the order of three rising p values, and no p value exceeds 1.
    better, even = np.arange(1, 7), np.array([1, -1, 2, -2, 3, -3])
    first, second, none = wilcoxon_tests.signed_rank([better, even, np.zeros(4)])
    assert first == pytest.approx(3 * 2 / 64) and second == none == 1
    assert wilcoxon_tests.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert wilcoxon_tests.rank_sum([([1, 2, 3], [4, 5, 6])]) == pytest.approx([2 / 20])


def test_axes_of_the_box():
    ideal, reference = np.array([1.0, 2.0, 4.0]), np.array([100.0, 8.0, 64.0])
    np.testing.assert_allclose(
        measures.scaled(np.stack([ideal, reference, np.sqrt(ideal * reference)]), ideal, reference),
        [[0] * 3, [1] * 3, [0.5] * 3],
        atol=1e-12,
    )
