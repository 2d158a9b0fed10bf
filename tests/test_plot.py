"""Figures: each draws without warnings, shows all that it should, and stays readable in odd cases."""

import dataclasses
import io
import json
import math
import shutil
import sys
import threading

import matplotlib
import numpy as np
import pytest
import yaml
from matplotlib.colors import LogNorm
from matplotlib.image import imread
from matplotlib.text import Text
from toy_designs import toy_designs

from mohamjax import figures, plot
from mohamjax.cli import main
from mohamjax.drawing import FigureProcess
from mohamjax.errors import InputError
from mohamjax.hardware import counting_leakage
from mohamjax.io.results import write_front_files
from mohamjax.plot import style
from mohamjax.plot.jobs import JobView, job_convergence, job_gantt, method_bars
from mohamjax.plot.robust import price_figure
from mohamjax.plot.unico import hardware_front, hypervolume_differences, loop_bounds
from mohamjax.plot.whatif import front_under_uncertainty, tornado, what_if_figures
from mohamjax.robust.price import Comparison
from mohamjax.schedule import ROLES, Certificate, FrontCurves, Staircase, certify, landmarks
from mohamjax.schedule.roofline import Roof
from mohamjax.schedule.view import ENERGY_PARTS
from mohamjax.whatif import Axis, Sensitivities, Uncertainty, WhatIf
from mohamjax.whatif.parameters import Parameter

pytestmark = pytest.mark.filterwarnings("error")

TITLE = "a_b $cost$, budget tiny, seed 0"
PARTS = {"eyeriss": ("MACs", "Psums", "GlobalBuffer"), "simba": ("MACs", "Weights")}


# ---------------------------------------------------------------- data


def view(layers, chiplets, networks=2, slowed=True):
    """A made-up design; every third layer is slowed in its second half."""
    rng = np.random.default_rng(layers)
    free = np.zeros(chiplets)
    bars = []
    for i in range(layers):
        chip = i % chiplets
        start = float(free[chip])
        end = free[chip] = start + float(rng.exponential(1e-4))
        slow = (plot.Slowdown((start + end) / 2, end, 0.25, ("link", "DRAM")[i % 2]),) if slowed and i % 3 == 0 else ()
        place = i * networks // layers, chip, start, end, slow
        bars.append(plot.LayerBar(f"/block{i}/conv/Conv", *place, intensity=10.0 ** (i % 3), reached=2.0))
    chips = tuple(
        plot.ChipletView(
            template=kind,
            interface=k % 4,
            hops=1,
            area_mm2=tuple((part, 0.1 + 0.01 * k) for part in PARTS[kind]),
            energy_J=tuple((part, 1e-4) for part in ENERGY_PARTS[:-1]),
            roof=Roof(64.0, 4.0, f"interface {k % 4}"),
        )
        for k, kind in zip(range(chiplets), ("eyeriss", "simba") * chiplets, strict=False)
    )
    area = sum(a for chip in chips for _, a in chip.area_mm2)
    names = tuple(f"_net_{n}" for n in range(networks))
    return plot.DesignView("7", (float(free.max()), 5e-4 * chiplets, area), names, tuple(PARTS), chips, tuple(bars))


def front(count, **others):
    """A made-up front whose latency and energy span decades where it has more than one design."""
    t = np.linspace(0, 1, count)
    return plot.Front(10 ** (2 * t - 3), 10 ** (-1 - 2 * t), 2 + t, **others)


COLUMNS = ("generation", "evaluations", "seconds", "hypervolume", "front_size", "stability")
HISTORY = [dict(zip(COLUMNS, (g, 64 + 70 * g, g / 2, 0.3 + g / 64, 3 * g + 1, 0.5), strict=True)) for g in range(12)]


@pytest.fixture(scope="module")
def evaluated():
    return toy_designs()


@pytest.fixture
def folder(tmp_path, evaluated):
    config = {"scenario": "toy", "budget": "tiny", "seed": 3}
    write_front_files(tmp_path, evaluated, HISTORY, config)
    return tmp_path


# ---------------------------------------------------------------- looking at figures


def legend_texts(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def collection(figure, gid):
    found = [c for c in figure.axes[0].collections if c.get_gid() == gid]
    return found[0] if found else None


def overlaps(boxes):
    return [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.padded(-1).overlaps(b.padded(-1))]


def assert_tidy(figure):
    """Draws the figure and checks that nothing is outside it and that no panels, tick labels or legends overlap."""
    figure.canvas.draw()
    room = figure.bbox.padded(1)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [t for t in axis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_text()]
            assert not overlaps([t.label1.get_window_extent() for t in ticks if t.label1.get_visible()])
    solid = [legend.get_window_extent() for legend in figure.legends]
    solid += [axes.get_tightbbox() for axes in figure.axes]
    assert not overlaps(solid)
    title = figure.get_suptitle()
    assert title.startswith(TITLE) and "\n" in title
    for box in solid:
        assert room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1


# ---------------------------------------------------------------- the front


@pytest.mark.parametrize("count", [1, 2, 40])
def test_front_has_three_planes_with_units_and_landmarks(count):
    ids = tuple(f"d{i}" for i in range(count))
    figure = plot.front_projections(front(count, chiplets=np.arange(count) % 16 + 1, design_ids=ids), title=TITLE)
    assert_tidy(figure)
    panels, bars = figure.axes[:3], figure.axes[3:]
    units = [(axes.get_xlabel(), axes.get_ylabel()) for axes in panels]
    latency, energy, area = "latency [ms]", "energy [mJ]", "area [mm²]"
    assert units == [(latency, energy), (latency, area), (energy, area)]
    assert [bar.get_ylabel() for bar in bars] == [area, energy, latency]
    assert all(len(axes.collections[0].get_offsets()) == count for axes in panels)
    texts = " ".join(legend_texts(figure))
    assert all(role in texts for role in ROLES)
    assert "chiplet" in texts and "d0" in texts


def test_axes_and_colours_are_logarithmic_from_a_decade_on():
    figure = plot.front_projections(front(20), title=TITLE)
    assert [axes.get_xscale() for axes in figure.axes[:3]] == ["log", "log", "log"]
    assert [axes.get_yscale() for axes in figure.axes[:3]] == ["log", "linear", "linear"]
    assert [isinstance(axes.collections[0].norm, LogNorm) for axes in figure.axes[:3]] == [False, True, True]
    narrow = plot.Front(np.array([1.0, 9.0]), np.array([9.0, 1.0]), np.array([1.0, 1.0]))
    figure = plot.front_projections(narrow, title=TITLE)
    assert {axes.get_xscale() for axes in figure.axes[:3]} == {"linear"}


@pytest.mark.parametrize("area", [2.5, 1e-4, 3e5])
def test_front_of_equal_designs(area):
    same = plot.Front(np.full(4, 5e-3), np.full(4, 3e-3), np.full(4, area))
    assert_tidy(plot.front_projections(same, title=TITLE))


def test_front_over_many_decades():
    t = np.linspace(0, 1, 30)
    assert_tidy(plot.front_projections(plot.Front(10 ** (9 * t - 8), 10 ** (-9 * t), 10 ** (4 * t - 2)), title=TITLE))


def certified(own):
    """Made-up bounds at half of a front's best values, with a step where both are small."""
    low, high = own.objectives.min(axis=0) / 2, own.objectives.max(axis=0)
    pairs = {"latency_of_area": (2, 0), "energy_of_area": (2, 1), "energy_of_latency": (0, 1)}
    curves = {
        name: Staircase(at=np.asarray([low[a], 3 * low[a]]), least=np.asarray([3 * low[b], low[b]]))
        for name, (a, b) in pairs.items()
    }
    corners = {"ideal": tuple(low.tolist()), "reference": tuple(high.tolist())}
    return Certificate(FrontCurves(**curves), hypervolume=0.25, most=0.5, **corners)


@pytest.mark.parametrize("count", [1, 2, 40])
def test_front_with_its_bounds(count):
    own = front(count)
    figure = plot.front_projections(own, title=TITLE, certificate=certified(own))
    assert_tidy(figure)
    assert "50.0% of the hypervolume that the bounds leave (0.250 of 0.500)" in figure.get_suptitle()
    assert "proven out of reach with the mappings found" in legend_texts(figure)
    low = own.objectives.min(axis=0) / 2
    for axes, (x, y) in zip(figure.axes[:3], ((0, 1), (0, 2), (1, 2)), strict=True):
        (region,) = axes.patches
        inside = region.get_path().contains_points
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        first, second = (low[i] * (1e3 if i < 2 else 1.0) for i in (x, y))  # ms, mJ, mm^2
        points = np.asarray([(0.99, 4), (4, 0.99), (2, 2), (3.1, 1.1), (1.1, 3.1), (4, 4)]) * (first, second)
        seen = (points > (left, bottom)).all(axis=1) & (points < (right, top)).all(axis=1)
        assert (inside(points) == [True, True, True, False, False, False])[seen].all()


def test_landmarks_are_the_extremes_and_the_knee():
    values = np.array([[1.0, 9.0, 9.0], [9.0, 1.0, 9.0], [9.0, 9.0, 1.0], [2.0, 2.0, 2.0]])
    assert landmarks(values) == {"fastest": 0, "most frugal": 1, "smallest": 2, "knee": 3}
    assert set(landmarks(values[:1]).values()) == {0}


@pytest.mark.parametrize("bad", [[], [math.inf], [0.0], [math.nan]])
def test_a_front_needs_finite_positive_objectives(bad):
    with pytest.raises(ValueError, match="front"):
        plot.Front(np.asarray(bad), np.ones(len(bad)), np.ones(len(bad)))


# ---------------------------------------------------------------- convergence


@pytest.mark.parametrize("generations", [1, 2, 12])
def test_convergence_shows_every_generation(generations):
    figure = plot.convergence(HISTORY[:generations], title=TITLE)
    assert_tidy(figure)
    upper, lower = figure.axes
    rows = HISTORY[:generations]
    assert list(upper.lines[0].get_xdata()) == [row["evaluations"] for row in rows]
    assert list(upper.lines[0].get_ydata()) == [row["hypervolume"] for row in rows]
    assert list(lower.lines[0].get_ydata()) == [row["front_size"] for row in rows]
    assert "evaluated" in lower.get_xlabel() and "hypervolume" in upper.get_ylabel()


def test_convergence_without_generations():
    with pytest.raises(ValueError, match="no generations"):
        plot.convergence([], title=TITLE)


# ---------------------------------------------------------------- one design


@pytest.mark.parametrize(("layers", "chiplets", "networks"), [(1, 1, 1), (6, 2, 2), (40, 3, 20), (540, 16, 3)])
def test_gantt_has_a_bar_per_layer_and_names_every_network(layers, chiplets, networks):
    design = view(layers, chiplets, networks)
    figure = plot.gantt(design, title=TITLE)
    assert_tidy(figure)
    axes = figure.axes[0]
    assert sum(len(collection(figure, f"network-{n}").get_paths()) for n in range(networks)) == layers
    assert set(design.networks) < set(legend_texts(figure))
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"{k} {chip.template}, M{chip.interface}" for k, chip in enumerate(design.chiplets)
    ]
    assert axes.get_xlabel() in ("time [ms]", "time [µs]")
    title = figure.get_suptitle()
    assert "design 7" in title and "s, " in title and "J, " in title and "mm²" in title


def test_gantt_places_bars_in_time_and_row():
    design = view(6, 2)
    axes = plot.gantt(design, title=TITLE).axes[0]
    scale = axes.get_xlim()[1] / design.objectives[0]
    boxes = [path.get_extents() for n in range(2) for path in collection(axes.figure, f"network-{n}").get_paths()]
    for bar, box in zip(design.bars, boxes, strict=True):
        assert box.x0 == pytest.approx(bar.start_s * scale)
        assert box.x1 == pytest.approx(bar.end_s * scale)
        assert (box.y0 + box.y1) / 2 == pytest.approx(bar.chiplet)


@pytest.mark.parametrize("slowed", [True, False])
def test_gantt_marks_what_is_slowed_and_explains_it(slowed):
    design = view(9, 2, slowed=slowed)
    figure = plot.gantt(design, title=TITLE)
    black = collection(figure, "slowed")
    legend = [text for text in legend_texts(figure) if "slowed" in text]
    assert (black is not None) == slowed == bool(legend)
    if slowed:
        assert len(black.get_paths()) == 3
        assert "DRAM, link" in legend[0]
        heights = {round(path.get_extents().height, 6) for path in black.get_paths()}
        assert len(heights) == 1  # one rate, one height


def test_gantt_names_layers_only_where_the_name_fits():
    design = view(3, 1)
    ends = (1e-3, 2e-3, 2.0001e-3)
    bars = [
        dataclasses.replace(bar, start_s=start, end_s=end)
        for bar, start, end in zip(design.bars, (0.0, *ends), ends, strict=False)
    ]
    few = plot.gantt(dataclasses.replace(design, bars=bars, objectives=(ends[-1], 1.0, 1.0)), title=TITLE)
    shown = [text.get_text() for text in few.axes[0].texts if text.get_text().startswith("/")]
    assert shown == [bar.name for bar in bars[:2]]
    many = plot.gantt(view(540, 16), title=TITLE)
    many.canvas.draw()
    names = [text for text in many.axes[0].texts if text.get_text().startswith("/")]
    assert not overlaps([text.get_window_extent() for text in names])


def test_gantt_draws_layers_narrower_than_a_pixel():
    design = view(2, 1)
    short = dataclasses.replace(design.bars[0], end_s=design.bars[0].start_s + 1e-12)
    figure = plot.gantt(dataclasses.replace(design, bars=(short, design.bars[1])), title=TITLE)
    figure.canvas.draw()
    box = collection(figure, "network-0").get_paths()[0].get_extents(figure.axes[0].transData)
    assert box.width == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("chiplets", [1, 2, 16])
def test_area_shares_add_up(chiplets):
    design = view(4, chiplets)
    figure = plot.area_shares(design, title=TITLE)
    assert_tidy(figure)
    axes = figure.axes[0]
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(design.objectives[2])
    notes = [text.get_text() for text in axes.texts]
    assert len(notes) == chiplets and all("mm² (" in note and note.endswith("%)") for note in notes)
    shares = [float(note.split("(")[1].rstrip("%)")) for note in notes]
    assert sum(shares) == pytest.approx(100, abs=0.06 * chiplets)
    used = {chip.template for chip in design.chiplets}
    assert {f"{name}:" for name in used} <= set(legend_texts(figure))
    assert {part for name in used for part in PARTS[name]} <= set(legend_texts(figure))


def test_a_template_keeps_its_colour_in_every_design():
    def colour(design):
        axes = plot.area_shares(design, title=TITLE).axes[0]
        return axes.patches[-1].get_facecolor()

    both = view(4, 2)
    assert colour(both) == colour(dataclasses.replace(both, chiplets=both.chiplets[1:], bars=()))


@pytest.mark.parametrize("chiplets", [1, 16])
def test_energy_breakdown_adds_up(chiplets):
    design = view(4, chiplets)
    figure = plot.energy_breakdown(design, title=TITLE)
    assert_tidy(figure)
    axes = figure.axes[0]
    scale = {"energy [µJ] (share of the design)": 1e6, "energy [mJ] (share of the design)": 1e3}[axes.get_xlabel()]
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(design.objectives[1] * scale)
    assert legend_texts(figure) == list(ENERGY_PARTS[:-1])


def test_times_are_written_in_full(folder, evaluated):
    """A layer may take a millionth of the latency: rounded times would give wrong differences."""
    timeline = evaluated.reports.timeline
    for i, design in enumerate(json.loads((folder / "designs.json").read_text())["designs"]):
        for step in design["schedule"]:
            written = step["start_s"], step["end_s"]
            assert written == (timeline.start[i, step["layer"]] * 1e-9, timeline.end[i, step["layer"]] * 1e-9)


@pytest.mark.slow
def test_leakage_is_a_part_where_it_counts(evaluated):
    parts = [name for name, _ in plot.design_view(evaluated, 0).chiplets[0].energy_J]
    assert parts == list(ENERGY_PARTS[:-1])
    leaking = toy_designs(counting_leakage(evaluated.technology))
    seen = plot.design_view(leaking, 0)
    assert all(dict(chip.energy_J)["leakage"] > 0 for chip in seen.chiplets)
    assert sum(e for chip in seen.chiplets for _, e in chip.energy_J) == pytest.approx(seen.objectives[1], rel=1e-9)
    assert legend_texts(plot.energy_breakdown(seen, title=TITLE)) == list(ENERGY_PARTS)


def test_view_agrees_with_the_evaluation(evaluated):
    for i in range(len(evaluated)):
        seen = plot.design_view(evaluated, i)
        latency, energy, area = seen.objectives
        assert seen.objectives == tuple(evaluated.reports.objectives[i])
        assert max(bar.end_s for bar in seen.bars) == pytest.approx(latency, rel=1e-12)
        assert sum(e for chip in seen.chiplets for _, e in chip.energy_J) == pytest.approx(energy, rel=1e-9)
        assert sum(a for chip in seen.chiplets for _, a in chip.area_mm2) == pytest.approx(area, rel=1e-9)
        assert all(dict(chip.area_mm2)["router, transceiver"] == pytest.approx(0.02) for chip in seen.chiplets)
        lost = [sum((s.end_s - s.start_s) * (1 - s.rate) for s in bar.slowed) for bar in seen.bars]
        np.testing.assert_allclose(lost, evaluated.reports.timeline.stall[i, :5] * 1e-9, rtol=1e-6, atol=1e-15)
    spread = plot.design_view(evaluated, 0)
    assert [chip.template for chip in spread.chiplets] == ["simba", "shidiannao", "simba"]
    assert [bar.chiplet for bar in spread.bars] == [0, 1, 2, 0, 1]
    assert [bar.network for bar in spread.bars] == [0, 0, 1, 1, 1]
    assert any(s.cause == "memory interface" for bar in spread.bars for s in bar.slowed)
    assert spread.templates == ("simba", "shidiannao")


# ---------------------------------------------------------------- saving


@pytest.mark.parametrize("suffix", plot.FORMATS)
def test_equal_figures_give_equal_files(tmp_path, suffix):
    files = [
        figures.save(plot.gantt(view(6, 2), title=TITLE), tmp_path / name / f"figure.{suffix}")
        for name in ("one", "two")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert sorted(p.name for p in files[0].parent.iterdir()) == [f"figure.{suffix}"]


def test_png_has_at_least_150_dots_per_inch(tmp_path):
    figure = plot.area_shares(view(4, 2), title=TITLE)
    height, width, _ = imread(figures.save(figure, tmp_path / "a.png")).shape
    assert width >= 150 * figure.get_figwidth() - 1 and height >= 150 * figure.get_figheight() - 1


def test_save_refuses_what_it_cannot_write(tmp_path):
    figure = plot.convergence(HISTORY, title=TITLE)
    with pytest.raises(InputError, match=r"use png, svg, pdf"):
        figures.save(figure, tmp_path / "figure.docx")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be created"):
        figures.save(figure, tmp_path / "file" / "figure.png")
    with pytest.raises(InputError, match="cannot be written"):
        (tmp_path / "folder.png").mkdir()
        figures.save(figure, tmp_path / "folder.png")


def test_the_users_matplotlib_settings_stay(tmp_path):
    with matplotlib.rc_context({"font.size": 31.0, "text.usetex": True, "axes.facecolor": "black"}):
        changed = figures.save(plot.convergence(HISTORY, title=TITLE), tmp_path / "changed.png")
        assert matplotlib.rcParams["font.size"] == 31.0
    plain = figures.save(plot.convergence(HISTORY, title=TITLE), tmp_path / "plain.png")
    assert changed.read_bytes() == plain.read_bytes()


def test_names_of_users_are_drawn_as_they_are(tmp_path):
    odd = dataclasses.replace(view(2, 1), networks=("_$x^{$", "网络\n\t" + 80 * "y"), design_id="$\\frac$")
    figures.save(plot.rooflines(odd, title="$unbalanced \\sqrt{ title" * 20), tmp_path / "roofs.png")
    figure = plot.gantt(odd, title="$unbalanced \\sqrt{ title" * 20)
    figures.save(figure, tmp_path / "odd.png")
    labels = legend_texts(figure)
    assert labels[0] == "_$x^{$"
    assert labels[1].startswith("?? yyy") and "…" in labels[1] and len(labels[1]) == 40


def hostile_figures():
    """Every kind of figure, with names that matplotlib cannot draw as formulas."""
    odd, seen = "$\\frac$", view(2, 1)
    chips = tuple(dataclasses.replace(chip, template=odd, area_mm2=((odd, 1.0),)) for chip in seen.chiplets)
    bars = tuple(dataclasses.replace(bar, name=odd) for bar in seen.bars)
    seen = dataclasses.replace(seen, design_id=odd, networks=(odd, odd), templates=(odd,), chiplets=chips, bars=bars)
    for draw in (plot.gantt, plot.area_shares, plot.energy_breakdown, plot.rooflines):
        yield draw(seen, title=odd)
    ids, t = (odd, odd), np.asarray([1.0, 2.0])
    yield plot.front_projections(front(2, design_ids=ids), title=odd)
    own = ("latency", f"own:x[{odd}]", f"latency:{odd}")
    values = np.stack([t, 3 - t, t], axis=1)
    yield plot.front_projections(front(2, design_ids=ids, measures=own, values=values), title=odd)
    yield plot.convergence(HISTORY, title=odd)
    points = np.stack([values, 2 * values]).reshape(-1, 3)
    yield plot.parallel_coordinates([plot.MappingSet(odd, odd, points, {odd: points[0]}, network=odd)], title=odd)
    zero, numbers = np.zeros(1, int), np.ones(1)
    job = JobView(odd, (odd,), (odd,), zero, numbers, numbers, numbers, zero, 1.0, "s")
    yield job_gantt(job, title=odd)
    yield job_convergence({odd: [(1, 2.0)]}, bound=None, label="makespan", unit="s", title=odd)
    yield method_bars({odd: 2.0}, bound=None, label="makespan", unit="s", title=odd)
    yield price_figure([Comparison(odd, "searched", points, points)], title=odd)
    yield hypervolume_differences({odd: ([1.0, 2.0], [0.5, 0.1])}, title=odd, cost=odd)
    yield loop_bounds({odd: np.ones((3, 1), int) * 7}, [odd], title=odd)
    yield hardware_front(points, np.arange(2), title=odd)
    numbers = [Parameter(f"chiplet.{odd}.{n}", "size", odd, 1.0, frozenset(n), lambda v, _: v) for n in "abc"]
    for axes in (1, 2, 3):
        grid = np.linspace(1, 2, 2**axes * 3).reshape(-1, 1, 3)
        axis = [Axis(one, (1.0, 2.0), False) for one in numbers[:axes]]
        found = WhatIf(tuple(axis), np.ones((2**axes, axes)), (odd,), grid, grid[0])
        yield from (figure for _, figure in what_if_figures(found, title=odd))
    one, many = np.ones((1, 3)), np.ones((1, 3, 3))
    yield tornado(Sensitivities((odd,), tuple(numbers), ("exact",) * 3, one, many, many), title=odd)
    spread = np.ones(3)
    values = one, many, many.reshape(3, 1, 3)
    shown = Uncertainty((odd,), tuple(numbers), spread, many[0], *values, np.ones(1, bool), np.zeros(1))
    yield front_under_uncertainty(shown, title=odd)


def test_names_of_users_are_no_formulas():
    for figure in hostile_figures():
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if "\\frac" in text.get_text()]
        assert texts and not any(text.get_parse_math() for text in texts)


def test_layers_of_two_networks_may_have_one_name():
    points = 10.0 ** np.arange(6).reshape(2, 3)
    sets = [plot.MappingSet("conv", kind, points, network=name) for name in "ab" for kind in ("simba", "eyeriss")]
    figure = plot.parallel_coordinates(sets, title=TITLE)
    assert [axes.get_title() for axes in figure.axes] == [f"{s.network}: conv on {s.template}" for s in sets]
    assert all(axes.lines for axes in figure.axes)
    (alone,) = plot.parallel_coordinates([plot.MappingSet("conv", "simba", points)], title=TITLE).axes
    assert alone.get_title() == "conv on simba"
    with pytest.raises(ValueError, match="two sets of one layer on one template"):
        plot.parallel_coordinates([*sets, sets[0]], title=TITLE)


@pytest.mark.parametrize("values", [(-5e6, -1.2e7, -3e5), (-5e3, -1.2e4, 3e4), (5e3, 1.2e4, 3e4), (0.0, 0.0, 0.0)])
def test_bars_of_methods_have_room_on_both_sides_of_zero(values):
    """A lateness may be negative: bars begin at zero all the same, with their values beside their ends."""
    figure = method_bars(dict(zip("abc", values, strict=True)), bound=None, label="lateness", unit="cycles", title="t")
    (axes,) = figure.axes
    figure.canvas.draw()
    factor = {6: 1e-6, 3: 1e-3, 0: 1.0}[int(np.log10(max(map(abs, values)) or 1)) // 3 * 3]
    bars = [bar.get_bbox() for bar in axes.patches]
    assert [bar.x0 + bar.x1 for bar in bars] == pytest.approx([value * factor for value in sorted(values)])
    assert all(0 in (bar.x0, bar.x1) for bar in bars)
    low, high = axes.get_xlim()
    assert low <= 0 <= high and low < high and all(low <= bar.x0 and bar.x1 <= high for bar in bars)
    assert axes.get_xlabel() == "lateness [{}cycles]".format({1e-6: "M ", 1e-3: "k ", 1.0: ""}[factor])
    room = axes.get_window_extent()
    for text, value, patch in zip(axes.texts, sorted(values), axes.patches, strict=True):
        assert text.get_text() == f"{value * factor:,.4g}"
        box = text.get_window_extent()
        assert room.x0 <= box.x0 and box.x1 <= room.x1 and not box.overlaps(patch.get_window_extent())


def test_convergence_of_negative_values_has_their_unit():
    histories = {"gsharp": [(8, -1e6), (20, -3e6)]}
    figure = job_convergence(histories, bound=None, label="lateness", unit="cycles", title="t")
    assert figure.axes[0].get_ylabel() == "best lateness so far [M cycles]"


def test_units_for_people():
    assert style.quantity(5.312e-3, "s") == "5.31 ms"
    assert style.quantity(1e-3, "J") == style.quantity(0.9999e-3, "J") == "1.00 mJ"
    assert style.quantity(9.9999e-3, "s") == "10.0 ms"
    assert style.quantity(123.4, "mm²") == "123 mm²"
    assert style.quantity(0.0, "J") == "0 J"
    assert style.quantity(6.1e-8, "J s") == "6.1e-08 J s"  # a unit that takes no prefixes
    assert style.si([2e-6, 9e-4], "s") == (pytest.approx(1e6), "µs")
    assert style.si([5e-3], "mm²") == (1.0, "mm²")


# ---------------------------------------------------------------- everything


def named(suffix="png"):
    roles = ("fastest", "frugal", "smallest", "knee")
    return {f"{kind}_{role}.{suffix}" for kind in ("gantt", "area", "energy", "roofline") for role in roles}


@pytest.mark.slow
def test_plot_evaluated_writes_all_figures(tmp_path, evaluated):
    paths = figures.plot_evaluated(evaluated, tmp_path / "new", title=TITLE, history=HISTORY, formats=("png", "svg"))
    names = {path.name for path in paths}
    assert names == {
        f"{name}.{s}" for s in ("png", "svg") for name in ("front", "convergence")
    } | named("png") | named("svg")  # fmt: skip
    assert all(path.stat().st_size > 1000 for path in paths) and len(paths) == len(names)


def test_plot_evaluated_of_a_single_design(tmp_path, evaluated):
    paths = figures.plot_evaluated(evaluated.take(np.array([1])), tmp_path, title=TITLE)
    assert {path.name for path in paths} == {"front.png"} | named()


def test_plot_results_reads_a_folder(folder):
    paths = figures.plot_results(folder)
    assert {path.parent for path in paths} == {folder / "figures"}
    assert {path.name for path in paths} == {"front.png", "convergence.png"} | named()


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [False, True])
def test_figures_of_a_folder_equal_those_in_memory(folder, tmp_path, evaluated, bounds):
    certificate = None
    if bounds:
        low, high = (f(evaluated.reports.objectives, axis=0) for f in (np.min, np.max))
        certificate = certify(evaluated.front_bounds(), evaluated.reports.objectives, low / 64, high * 2)
        assert 0 < certificate.hypervolume <= certificate.most < 1
        write_front_files(
            folder, evaluated, HISTORY, {"scenario": "toy", "budget": "tiny", "seed": 3}, None, certificate
        )
    title = "toy, budget tiny, seed 3"
    read = figures.plot_results(folder, tmp_path / "read", ("svg",))
    more = {"title": title, "history": HISTORY, "formats": ("svg",)}
    direct = figures.plot_evaluated(evaluated, tmp_path / "direct", **more, certificate=certificate)
    assert [p.name for p in read] == [p.name for p in direct]
    assert [p.name for p, q in zip(read, direct, strict=True) if p.read_bytes() != q.read_bytes()] == []


PYTHON = sys.executable


@pytest.mark.slow
@pytest.mark.parametrize("python", [PYTHON, "/no/such/python", shutil.which("false"), None])
def test_figures_drawn_beside_are_those_drawn_here(tmp_path, evaluated, monkeypatch, python):
    """Also if the other process cannot start or dies, and if the working folder holds a file `matplotlib.py`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matplotlib.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(sys, "executable", python)
    low, high = evaluated.reports.objectives.min(axis=0), evaluated.reports.objectives.max(axis=0)
    certificate = certify(evaluated.front_bounds(), evaluated.reports.objectives, low / 64, high * 2)
    what = {"title": TITLE, "history": HISTORY}
    paths = figures.plot_evaluated(evaluated, tmp_path / "here", **what, certificate=certificate)
    here = []
    monkeypatch.setattr(figures, "drawn_front", lambda *a, f=figures.drawn_front, **k: here.append(1) or f(*a, **k))
    with FigureProcess() as drawing:
        drawing.draw(evaluated, **what)
        drawing.certify(certificate)
        drawing.write(tmp_path / "beside")
    assert {path.name for path in (tmp_path / "beside").iterdir()} == {path.name for path in paths}
    assert [p.name for p in paths if p.read_bytes() != (tmp_path / "beside" / p.name).read_bytes()] == []
    assert bool(here) == (python != PYTHON)


@pytest.mark.parametrize("begun", [False, True])
def test_the_figure_process_is_gone_in_the_end(evaluated, begun):
    """Also if it never received bounds."""
    with FigureProcess() as drawing:
        process = drawing._process
        assert process.poll() is None
        if begun:
            drawing.draw(evaluated, title=TITLE, history=HISTORY)
    assert process.poll() is not None
    assert [thread.name for thread in threading.enumerate() if thread.name == "figures" and thread.is_alive()] == []


@pytest.mark.parametrize("name", ["front.csv", "designs.json", "history.csv", "config.yaml"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\x00", b"<html>no</html>"])
def test_broken_files_are_named(folder, name, content):
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        figures.plot_results(folder)
    assert name in str(error.value) and "\n" not in str(error.value)
    assert not (folder / "figures").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format":"bounds/1"}', b'{"format":"bounds/2"}', b"<html>"])
def test_broken_bounds_are_named(folder, content):
    (folder / "bounds.json").write_bytes(content)
    with pytest.raises(InputError, match=r"bounds\.json"):
        figures.plot_results(folder)
    assert not (folder / "figures").exists()


def test_broken_rows_are_named(folder):
    front_csv = folder / "front.csv"
    good = front_csv.read_text()
    lines = good.splitlines()
    front_csv.write_text("\n".join([lines[0], "0,nan" + lines[1][lines[1].index(",", 2) :], ""]))
    with pytest.raises(InputError, match=r"front.csv: line 2: latency_s is 'nan'"):
        figures.plot_results(folder)
    front_csv.write_text("\n".join([lines[0], "0,-1" + lines[1][lines[1].index(",", 2) :], ""]))
    with pytest.raises(InputError, match=r"line 2: latency_s is -1, not positive"):
        figures.plot_results(folder)
    front_csv.write_text(lines[0] + "\n")
    with pytest.raises(InputError, match="no rows"):
        figures.plot_results(folder)
    front_csv.write_text(good.replace("energy_J", "energy"))
    with pytest.raises(InputError, match="column energy_J is missing"):
        figures.plot_results(folder)
    front_csv.write_text("\n".join([lines[0], *["9" + line[1:] for line in lines[1:]], ""]))
    with pytest.raises(InputError, match=r"design 9\d?: is in front.csv but not in this file"):
        figures.plot_results(folder)
    changed = [",".join([*line.split(",")[:1], "9", *line.split(",")[2:]]) for line in lines[1:]]
    front_csv.write_text("\n".join([lines[0], *changed, ""]))
    with pytest.raises(InputError, match=r"front.csv: design 0: its latency is 9 s, that of the design in"):
        figures.plot_results(folder)
    front_csv.write_text("\n".join([*lines[:-1], ""]))
    with pytest.raises(InputError, match=r"front.csv: design \d+ of designs.json is missing: the file is cut off"):
        figures.plot_results(folder)
    assert not (folder / "figures").exists()
    front_csv.write_text(good)
    for name in ("front.csv", "history.csv", "config.yaml"):
        whole = (folder / name).read_text()
        (folder / name).write_text(whole[:-2])
        with pytest.raises(InputError, match=f"{name}: its last line has no end: the file is cut off"):
            figures.plot_results(folder)
        (folder / name).write_text(whole)
    (folder / "config.yaml").write_text(yaml.safe_dump({"scenario": "toy", "seed": 0}))
    with pytest.raises(InputError, match="`budget` is missing"):
        figures.plot_results(folder)


def test_figures_do_not_go_to_standard_output(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert main(["plot", str(folder), "--out", "-"]) == 2
    assert capsys.readouterr().err == "mohamjax: --out: cannot go to standard output; name a folder\n"
    assert sorted(folder.iterdir()) == before


def test_folders_and_format_are_checked_first(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("mohamjax.io.results_reader.evaluate_designs", None)
    with pytest.raises(InputError, match="no such folder"):
        figures.plot_results(tmp_path / "nowhere")
    with pytest.raises(InputError, match="use png, svg, pdf"):
        figures.plot_results(folder, formats=("gif",))
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"taken: argument `out`: cannot be written"):
        figures.plot_results(folder, tmp_path / "taken")


@pytest.mark.parametrize(
    "draw", [lambda: plot.gantt(view(9, 3), title=TITLE), lambda: plot.front_projections(front(9), title=TITLE)]
)
def test_a_png_is_what_matplotlib_would_save(draw):
    """Without matplotlib's extra drawing. Each gets its own figure: a second drawing of one would reuse its layout."""
    wanted = io.BytesIO()
    with matplotlib.style.context(["default", style._STYLE]):
        draw().savefig(wanted, format="png", dpi=style._DPI, metadata={"Software": None})
    assert style.rendered(draw(), "png") == wanted.getvalue()
