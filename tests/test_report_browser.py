"""The report in headless Chromium: it renders, selections are linked, the keyboard suffices, nothing is fetched.

Needs playwright and a Chromium (`pip install playwright && playwright install chromium`, or an installed one).
"""

import dataclasses
import itertools
import math
import os
import re
import shutil

import pytest
from report_cases import HISTORY, HOSTILE, NAMES, called, hostile, made_up, unpacked
from toy_designs import toy_designs

from mohamjax.hardware import load_technology
from mohamjax.page import Result, contents, page
from mohamjax.schedule import landmarks
from mohamjax.schedule.measures import measure_named

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium: playwright's own, or else an installed one."""
    with playwright.sync_playwright() as play:
        own = play.chromium.executable_path
        path = own if os.path.exists(own) else next(filter(None, map(shutil.which, _NAMES)), None)
        if path is None:
            pytest.skip("no Chromium: neither playwright's own nor one on the PATH")
        # Inside containers Chromium has no sandbox of its own; the page comes from this test.
        found = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def evaluated():
    return toy_designs()


class Visit:
    """A report in a tab; records requests, console messages, and errors."""

    def __init__(self, browser, path, **settings):
        self.tab = browser.new_page(viewport={"width": 1300, "height": 900}, **settings)
        self.tab.set_default_timeout(60_000)
        self.requests, self.complaints = [], []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.goto(path.as_uri())
        self.tab.wait_for_selector("html[data-ready=yes]")

    def expect(self, selector):
        """An assertion on an element (the page's policy forbids functions given as text)."""
        return playwright.expect(self.tab.locator(selector))

    def count(self):
        """Designs that pass the filters, all designs, and those selected in the front (None without a selection)."""
        text = self.tab.inner_text("#count")
        found = re.match(r"(\d+) of (\d+) designs pass the filters(?:, of them (\d+) selected in the front)?\.", text)
        return tuple(None if value is None else int(value) for value in found.groups())

    def drag(self, a, b):
        """Drags over the front, from one point to another [pixels from the upper left corner of the chart]."""
        chart = self.tab.locator("#front-chart")
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        mouse = self.tab.mouse
        mouse.move(box["x"] + a[0], box["y"] + a[1])
        mouse.down()
        mouse.move(box["x"] + (a[0] + b[0]) / 2, box["y"] + (a[1] + b[1]) / 2)
        mouse.move(box["x"] + b[0], box["y"] + b[1])
        mouse.up()
        self.expect("#count").to_contain_text("selected in the front")
        self.tab.wait_for_timeout(300)  # the count may still be that of the first part of the way

    def limits(self):
        """The filters of objectives that are set, as (low, high) by column."""
        values = {}
        for name in ("latency_s", "energy_J", "area_mm2"):
            text = self.tab.input_value(f'#designs input[data-column="{name}"]')
            if text:
                values[name] = tuple(float(x) for x in text.split(".."))
        return values

    def close(self):
        self.tab.close()
        assert not self.complaints
        assert len(self.requests) == 1  # the page itself


def written(tmp_path, results, most=12, title="a report"):
    path = tmp_path / "report.html"
    text = page(contents(results, most=most), title)
    path.write_text(text, encoding="utf-8")
    assert len(text.encode()) < 10e6
    return path, unpacked(text)


@pytest.mark.parametrize("count", [5, 5000])
def test_selection_is_linked_and_filters_follow(browser, evaluated, tmp_path, count):
    path, data = written(tmp_path, [made_up(evaluated, count)])
    columns = data["results"][0]["columns"]
    visit = Visit(browser, path)
    tab = visit.tab
    assert visit.count() == (count, count, None)
    drawn = "svg" if count == 5 else "canvas"
    assert tab.locator(f"#front-chart {drawn}").count() == 1
    # Drag over half of the first projection, latency over energy.
    width = tab.locator("#front-chart").bounding_box()["width"] / 3
    visit.drag((110, 30), (width / 2 + 50, 280))
    _, _, selected = visit.count()
    assert 0 < selected < count
    assert tab.locator("#rows tr").count() == min(selected, 50)
    if count == 5:  # all three projections fade the same designs
        pale = "#front-chart svg path[opacity='0.12'], #front-chart svg .mark-symbol path[fill-opacity='0.12']"
        assert tab.locator(pale).count() == 3 * (count - selected)
    # As filters, the selection keeps the same designs.
    tab.click("#keep-brush")
    visit.expect("#count").not_to_contain_text("selected")
    limits = visit.limits()
    assert set(limits) == {"latency_s", "energy_J"}
    wanted = sum(
        all(low * (1 - 2e-6) <= columns[name][i] <= high * (1 + 2e-6) for name, (low, high) in limits.items())
        for i in range(count)
    )
    assert visit.count() == (selected, count, None) and wanted == selected
    tab.click("#clear-filters")
    assert visit.count() == (count, count, None)
    # Sort in both directions.
    tab.click("#designs thead button:text-is('area [mm²]')")
    shown = [float(text) for text in tab.locator("#rows tr td:nth-child(4)").all_inner_texts()]
    assert shown == sorted(shown) and shown[0] == pytest.approx(min(columns["area_mm2"]), rel=1e-4)
    tab.keyboard.press("Enter")
    assert tab.locator("#designs th[aria-sort=descending]").inner_text().startswith("area")
    visit.close()


@pytest.mark.parametrize("names", NAMES)
def test_designs_are_selected_and_filtered_whatever_the_objectives_are_called(browser, evaluated, tmp_path, names):
    sizes = {"called": 40, "other": 9}
    path, data = written(tmp_path, [called(evaluated, count, names, name) for name, count in sizes.items()])
    columns = [measure_named(name).column for name in names]
    values = [
        tuple(told["columns"][column][i] for column in columns)
        for told in data["results"]
        for i in range(len(told["ids"]))
    ]
    visit = Visit(browser, path)
    tab = visit.tab
    # The table: results and designs, then the objectives, with the first one rising.
    order = sorted(range(len(values)), key=lambda i: values[i][0])
    owners = [(name, str(i)) for name, count in sizes.items() for i in range(count)]
    shown = [row.locator("td").all_inner_texts() for row in tab.locator("#rows tr").all()]
    assert [(cells[0][1:].strip(), cells[1]) for cells in shown] == [owners[i] for i in order]
    inputs = tab.locator("#designs .filters input")
    labels = inputs.evaluate_all("inputs => inputs.map(input => input.ariaLabel)")[2 : 2 + len(names)]
    told = [measure_named(name).label for name in names]
    assert labels == ["filter " + {"area": "area [mm²]"}.get(label, label) for label in told]
    # The axes fit the designs: all of them are within the frame of the first projection.
    points = tab.locator("#front-chart svg .projection_0_marks path")
    assert points.count() == len(values)
    frame = tab.locator("#front-chart svg .concat_0_group > g > path.background").first.bounding_box()
    boxes = [point.bounding_box() for point in points.all()]
    places = [(box["x"] + box["width"] / 2 - frame["x"], box["y"] + box["height"] / 2 - frame["y"]) for box in boxes]
    spread = [max(along) - min(along) for along in zip(*places, strict=True)]
    assert all(0 < x < frame["width"] and 0 < y < frame["height"] for x, y in places)
    assert spread[0] > 0.7 * frame["width"] and spread[1] > 0.7 * frame["height"]
    # A tooltip has a line for every value.
    tab.mouse.move(boxes[0]["x"] + boxes[0]["width"] / 2, boxes[0]["y"] + boxes[0]["height"] / 2)
    tab.wait_for_selector("#vg-tooltip-element.visible")
    keys = [key.strip() for key in tab.locator("#vg-tooltip-element td.key").all_text_contents()]
    usual = ["latency [s]", "energy [J]", "area [mm²]", "chiplets"]
    own = [label for name, label in zip(names, told, strict=True) if name not in ("energy", "area")]
    clean = [re.sub(r"[\\\s]+", " ", "design (objective)" if label == "design" else label).strip() for label in own]
    assert [re.sub(r"\s+", " ", key.rstrip(":")).strip() for key in keys] == ["results", "design", *clean, *usual]
    assert tab.locator("#vg-tooltip-element td.value").count() == len(keys)
    assert "" not in tab.locator("#vg-tooltip-element td.value").all_text_contents()
    tab.mouse.move(0, 0)
    # A selection keeps the designs in its box, in the table and as filters.
    left = tab.locator("#front-chart").bounding_box()
    corner = frame["x"] - left["x"], frame["y"] - left["y"]
    visit.drag((corner[0] + 12, corner[1] + 12), (corner[0] + 0.6 * frame["width"], corner[1] + 0.7 * frame["height"]))
    _, _, selected = visit.count()
    assert 0 < selected < len(values)
    tab.click("#keep-brush")
    visit.expect("#count").not_to_contain_text("selected")
    texts = [inputs.nth(2 + k).input_value() for k in range(len(names))]
    assert texts[0] and texts[1] and not any(texts[2:])
    ends = [tuple(map(float, text.split(".."))) for text in texts[:2]]
    inside = [all(low <= v <= high for v, (low, high) in zip(row, ends, strict=False)) for row in values]
    assert visit.count() == (selected, len(values), None) and sum(inside) == selected
    # The details are those of the design that is chosen.
    tab.click("#rows tr >> nth=0")
    first = next(i for i in order if inside[i])
    visit.expect("#design-title").to_have_text(
        re.compile(rf"Design {owners[first][1]}\b.* of \S+\s*{owners[first][0]}")
    )
    visit.close()


@pytest.mark.parametrize("leaks", [False, True])
def test_shares_of_energy_add_up(browser, tmp_path, leaks):
    evaluated = toy_designs(load_technology(static_energy=leaks))
    path, data = written(tmp_path, [made_up(evaluated, 3)], most=3)
    visit = Visit(browser, path)
    for design in data["results"][0]["designs"]:
        visit.tab.fill('#designs input[data-column="id"]', f"= {design}")
        visit.tab.click("#rows tr >> nth=0")
        visit.expect("#design-title").to_contain_text(f"Design {design}")
        for table in ("#chiplets", "#networks"):
            heads = visit.tab.locator(f"{table} th").all_inner_texts()
            cells = visit.tab.locator(f"{table} tbody td:nth-child({heads.index('energy') + 1})").all_inner_texts()
            shares = [float(re.search(r"\((.*) %\)", text)[1]) for text in cells]
            assert sum(shares) == pytest.approx(100, abs=0.06 * len(shares)) and max(shares) <= 100
    assert visit.tab.locator("#networks tbody tr").count() == 2 + leaks
    visit.close()


def test_the_number_of_evaluations_is_shown_exactly(browser, evaluated, tmp_path):
    history = [{"evaluations": count, "hypervolume": 0.5} for count in (64.0, 1_234_567.0)]
    path, _ = written(tmp_path, [dataclasses.replace(made_up(evaluated, 5), history=history)])
    visit = Visit(browser, path)
    heads = visit.tab.locator("#summary th").all_inner_texts()
    assert visit.tab.locator("#summary td").all_inner_texts()[heads.index("evaluations")] == "1234567"
    visit.close()


LIMITS = {
    "latency_s": {
        "< 40ms": lambda v: v < 0.04,
        "<= 40 m": lambda v: v <= 0.04,
        ">0.04": lambda v: v > 0.04,
        ">= 4e-2 s": lambda v: v >= 0.04,
        "30 ms..0.05s": lambda v: 0.03 <= v <= 0.05,
    },
    "area_mm2": {"< 20 mm2": lambda v: v < 20, "> 20mm²": lambda v: v > 20},
    "id": {"= 178": lambda v: v == "178", "17": lambda v: v == "17", ">= 200": lambda v: int(v) >= 200},
    "n_chiplets": {"=2": lambda v: v == 2, "3": lambda v: v == 3},
    "result": {"e u": lambda v: True, "= MADE UP": lambda v: v == "made up", "= made": lambda v: False},
}


@pytest.mark.parametrize("name", LIMITS)
def test_filters_take_limits_with_and_without_units(browser, evaluated, tmp_path, name):
    results = [made_up(evaluated, 300), made_up(evaluated, 4, "made up 2")]
    for result in results:  # values around the limits
        for i, row in enumerate(result.front):
            row |= {"latency_s": 0.02 + 0.0002 * (i + 0.5), "area_mm2": 5 + 0.1 * (i + 0.5)}
    path, data = written(tmp_path, results)
    values = []
    for told in data["results"]:
        size = len(told["ids"])
        values += {"id": told["ids"], "result": [told["name"]] * size, **told["columns"]}[name]
    visit = Visit(browser, path)
    entry = visit.tab.locator(f'#designs input[data-column="{name}"]')
    for text, passes in LIMITS[name].items():
        entry.fill(text)
        assert entry.get_attribute("aria-invalid") == "false"
        assert visit.count()[0] == sum(map(passes, values)), text
    if name == "latency_s":
        entry.fill("< 40 mJ")
        assert entry.get_attribute("aria-invalid") == "true"
    visit.close()


def test_log_axes_label_decades_and_no_label_touches_another(browser, evaluated, tmp_path):
    result = made_up(evaluated, 60)
    for i, row in enumerate(result.front):  # two decades of latency, less than one of energy, six of area
        row |= {"latency_s": 0.04 * 1.1**i, "energy_J": 0.09 * 1.03**i, "area_mm2": 0.0005 * 1.24**i}
    path, _ = written(tmp_path, [result])
    visit = Visit(browser, path)
    axes = visit.tab.locator("#front-chart svg .role-axis-label")
    said = [axes.nth(k).locator("text:not([opacity='0'])").all_text_contents() for k in range(axes.count())]
    said = [texts for texts in said if texts]
    assert said.count(["0.001", "0.01", "0.1", "1", "10", "100"]) == 2  # area, in two projections
    assert sum({"100ms", "1s", "10s"} <= set(texts) for texts in said) == 2
    assert sum({"100mJ", "200mJ", "500mJ"} <= set(texts) for texts in said) == 2
    for k in range(axes.count()):
        shown = axes.nth(k).locator("text:not([opacity='0'])").all()
        boxes = [label.bounding_box() for label in shown]
        for a, b in itertools.pairwise(boxes):
            apart = abs(a["x"] - b["x"]) > min(a["width"], b["width"]) or abs(a["y"] - b["y"]) > a["height"] * 0.8
            assert apart, said
    visit.close()


def test_the_page_opens_on_the_design_that_a_target_recommends(browser, evaluated, tmp_path):
    roles = {"recommended for area<=3mm2": 7}
    path, _ = written(tmp_path, [dataclasses.replace(made_up(evaluated, 30), roles=roles, opens=7)])
    visit = Visit(browser, path)
    assert visit.tab.inner_text("#design-title").startswith("Design 7 (recommended for area<=3mm2")
    visit.close()


def test_the_page_opens_on_the_knee_and_names_designs_by_their_roles(browser, evaluated, tmp_path):
    results = [made_up(evaluated, 130), made_up(evaluated, 9, "made up 2")]
    path, data = written(tmp_path, results)
    rows = landmarks(results[0].objectives)
    assert data["results"][0]["roles"] == rows and rows["knee"] != rows["fastest"]
    visit = Visit(browser, path)
    tab = visit.tab
    assert tab.inner_text("#design-title").startswith(f"Design {rows['knee']} (knee) of ")
    chosen = tab.locator("#rows tr[aria-selected=true]")
    assert chosen.locator("td").nth(1).inner_text() == str(rows["knee"])
    table, line = tab.locator("#table .tall").bounding_box(), chosen.bounding_box()
    assert table["y"] < line["y"] and line["y"] + line["height"] <= table["y"] + table["height"]
    tab.fill('#designs input[data-column="id"]', str(rows["smallest"]))
    tab.click("#rows tr >> nth=0")
    visit.expect("#design-title").to_contain_text("(smallest)")
    visit.close()


def test_layers_are_sorted_by_any_column(browser, evaluated, tmp_path):
    path, data = written(tmp_path, [made_up(evaluated, 3)], most=3)
    told = data["results"][0]
    design = told["designs"][str(told["roles"]["knee"])]
    visit = Visit(browser, path)
    tab = visit.tab

    def shown():
        numbers = tab.locator("#layers tbody tr").evaluate_all("rows => rows.map(row => row.dataset.number)")
        return list(map(int, numbers))

    layers = list(range(len(design["nest"])))
    assert shown() == layers
    tab.click("#layers thead button:text-is('energy')")
    energies = [design["energy_J"][number] for number in shown()]
    assert energies == sorted(energies) and sorted(shown()) == layers and shown() != layers
    assert tab.locator("#layers th[aria-sort=ascending]").inner_text().startswith("energy")
    tab.keyboard.press("Enter")
    assert [design["energy_J"][number] for number in shown()] == energies[::-1]
    tab.click("#layers thead button:text-is('layer')")
    names = [told["layers"][number]["name"] for number in shown()]
    assert names == sorted(names)
    # Arrow keys follow the displayed order, and the loop nest follows them.
    tab.click("#layers tbody tr >> nth=0")
    for number in shown():
        assert tab.inner_text("#nest") == told["nests"][design["nest"][number]]["text"]
        tab.keyboard.press("ArrowDown")
    visit.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_the_floor_plan_shows_chiplets_to_scale_on_their_tiles(browser, evaluated, tmp_path, width, scheme):
    path, data = written(tmp_path, [made_up(evaluated, 3)], most=3)
    told = data["results"][0]
    design = told["designs"][str(told["roles"]["knee"])]
    visit = Visit(browser, path)
    visit.tab.emulate_media(color_scheme=scheme)
    visit.tab.set_viewport_size({"width": width, "height": 900})
    visit.tab.wait_for_timeout(500)
    dies = [die.bounding_box() for die in visit.tab.locator("#floor .die").all()]
    areas = [sum(mm2 for _, mm2 in chip["area"]) for chip in design["chiplets"]]
    assert len(dies) == len(areas) and visit.tab.locator("#floor .interface").count() == len(
        design["floor"]["interfaces"]
    )
    largest = max(range(len(areas)), key=areas.__getitem__)
    for die, area in zip(dies, areas, strict=True):
        side = dies[largest]["width"] * (area / areas[largest]) ** 0.5
        assert die["width"] == pytest.approx(die["height"], rel=0.1)
        assert die["width"] == pytest.approx(side, rel=0.1) or side < 12  # smaller ones would be invisible
    for (x, y), die in zip(design["floor"]["chiplets"], dies, strict=True):
        for (other_x, other_y), other in zip(design["floor"]["chiplets"], dies, strict=True):
            middles = [[box["x"] + box["width"] / 2, box["y"] + box["height"] / 2] for box in (die, other)]
            assert (middles[0][0] < middles[1][0] - 5) == (x < other_x)
            assert (middles[0][1] < middles[1][1] - 5) == (y < other_y)
    told_aloud = visit.tab.get_attribute("#floor svg", "aria-label")
    assert told_aloud.count("hops to M") == len(areas)
    assert visit.tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visit.close()


@pytest.mark.parametrize("width", [1280, 1400])
def test_no_table_is_cut_off(browser, evaluated, tmp_path, width):
    result = made_up(evaluated, 60)
    networks = ("ssd_mobilenet_v1_300", "efficientdet_d0_512", "mask_rcnn_r50_800", "yolov3_416", "resnet50")
    for row in result.front:
        row |= {"n_eyeriss": 1, "n_shidiannao": 2, **{f"latency_s_{name}": 0.0123456 for name in networks}}
    path, _ = written(tmp_path, [result])
    visit = Visit(browser, path)
    visit.tab.set_viewport_size({"width": width, "height": 900})
    visit.tab.wait_for_timeout(500)
    wide = "parts => parts.filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerHTML.slice(0, 40))"
    for kind in (".wide", ".tall", ".chart"):
        assert visit.tab.locator(kind).count() and visit.tab.locator(kind).evaluate_all(wide) == []
    # Both rows of the heading stay visible.
    visit.tab.evaluate("document.querySelector('#table .tall').scrollTop = 400")
    rows = visit.tab.locator("#designs thead tr").all()
    first, second = (row.bounding_box() for row in rows)
    assert second["y"] >= first["y"] + first["height"] - 1
    visit.close()


@pytest.mark.parametrize(("scheme", "ink"), [("light", "#1b1f24"), ("dark", "#e6e8eb")])
def test_feet_of_layers_that_wait_for_bandwidth_are_seen(browser, evaluated, tmp_path, scheme, ink):
    """In dark mode black ones would look like shorter bars."""
    path, data = written(tmp_path, [made_up(evaluated, 5)])
    visit = Visit(browser, path, color_scheme=scheme)
    visit.tab.wait_for_selector("#schedule-chart svg")
    feet = visit.tab.locator("#schedule-chart svg .concat_0_layer_1_marks path")
    assert feet.count() > 0 and any(design["slowed"] for design in data["results"][0]["designs"].values())
    assert set(feet.evaluate_all("paths => paths.map(path => path.getAttribute('fill'))")) == {ink}
    visit.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (420, "dark")])
def test_rooflines_tell_every_layer_to_mouse_and_keyboard(browser, evaluated, tmp_path, width, scheme):
    path, data = written(tmp_path, [made_up(evaluated, 3)], most=3)
    told = data["results"][0]
    design = told["designs"][str(told["roles"]["knee"])]
    visit = Visit(browser, path)
    tab = visit.tab
    tab.emulate_media(color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": 900})
    tab.wait_for_timeout(500)
    panels = tab.locator("#roofs figure").all()
    assert len(panels) == len(design["chiplets"])
    decades = ["0.01", "0.1", "1", "10", "100", "1k", "10k"]
    (west, east), (south, north) = design["roof_decades"]
    for k, panel in enumerate(panels):
        assert panel.locator(".decade-x").all_text_contents() == decades[west + 2 : east + 3]
        assert panel.locator(".decade-y").all_text_contents() == decades[south + 2 : north + 3]
        frame, drawing = panel.locator(".frame").bounding_box(), panel.locator("svg").bounding_box()
        assert drawing["x"] >= 0 and drawing["x"] + drawing["width"] <= width
        points = panel.locator(".layer").all()
        numbers = [int(point.get_attribute("data-number")) for point in points]
        assert sorted(numbers) == [i for i, chiplet in enumerate(design["chiplet"]) if chiplet == k]
        # Points lie at their places on the log axes, none above the roof.
        roof = design["chiplets"][k]["roof"]
        for number, point in zip(numbers, points, strict=True):
            intensity, rate = told["nests"][design["nest"][number]]["intensity"], design["macs_per_cycle"][number]
            assert rate <= min(roof["peak"], roof["bandwidth"] * intensity) * 1.001
            spot = point.bounding_box()
            across = (math.log10(intensity) - west) / (east - west) * frame["width"] + frame["x"]
            above = (north - math.log10(rate)) / (north - south) * frame["height"] + frame["y"]
            assert spot["x"] + spot["width"] / 2 == pytest.approx(across, abs=1.5)
            assert spot["y"] + spot["height"] / 2 == pytest.approx(above, abs=1.5)
        # Arrow keys go through the layers of a chiplet; each states its name and what binds it.
        bubble = panel.locator(".told")
        assert bubble.is_visible() == (k > 0)  # for later panels, the Tab key has moved the focus here
        panel.locator('.layer[tabindex="0"]').focus()
        for number in numbers:
            text = bubble.inner_text()
            assert told["layers"][number]["name"] in text and "MACs per cycle" in text
            assert f"bound by {design['bound'][number]}" in text or design["bound"][number] == "MACs"
            assert tab.evaluate("document.activeElement.ariaLabel").endswith(text.rpartition("\n")[2])
            box = bubble.bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= width
            tab.keyboard.press("ArrowRight")
        tab.keyboard.press("Enter")  # shows the loop nest of the last layer
        assert tab.inner_text("#nest") == told["nests"][design["nest"][numbers[-1]]]["text"]
        assert tab.locator("#roofs .layer[aria-pressed=true]").get_attribute("data-number") == str(numbers[-1])
        tab.keyboard.press("Tab")
        assert not bubble.is_visible()
    panels[0].locator(".layer >> nth=0").hover(force=True)
    assert panels[0].locator(".told").is_visible()
    ink = tab.locator("#roofs .roof >> nth=0").evaluate("line => getComputedStyle(line).stroke")
    assert ink == {"light": "rgb(27, 31, 36)", "dark": "rgb(230, 232, 235)"}[scheme]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    visit.close()


def test_the_keyboard_suffices(browser, evaluated, tmp_path):
    path, data = written(tmp_path, [made_up(evaluated, 130)], most=130)
    visit = Visit(browser, path)
    tab = visit.tab
    order = sorted(range(130), key=lambda i: data["results"][0]["columns"]["latency_s"][i])
    tab.focus('#designs tr[tabindex="0"]')
    tab.keyboard.press("Home")
    seen = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "End", "ArrowUp", "PageUp", "Home"):
        tab.keyboard.press(key)
        seen.append(tab.evaluate("document.activeElement.cells[0].textContent"))
    assert seen == [str(order[k]) for k in (1, 2, 1, 129, 128, 78, 0)]
    tab.keyboard.press("PageDown")
    tab.keyboard.press("Enter")
    visit.expect("#design-title").to_have_text(f"Design {order[50]}")
    assert tab.evaluate("document.activeElement.id") == "design"
    # Filters, with a typing error on the way.
    chiplets = tab.locator('#designs input[data-column="n_chiplets"]')
    chiplets.fill("= 2")
    assert visit.count()[0] == sum(value == 2 for value in data["results"][0]["columns"]["n_chiplets"])
    chiplets.fill("= 2 or so")
    assert chiplets.get_attribute("aria-invalid") == "true"
    chiplets.fill("2..3")
    assert visit.count()[0] == sum(2 <= value <= 3 for value in data["results"][0]["columns"]["n_chiplets"])
    chiplets.fill("")
    # Layers and their loop nests.
    tab.focus('#layers tr[tabindex="0"]')
    design = data["results"][0]["designs"][str(order[50])]
    for layer in range(5):
        assert tab.inner_text("#nest") == data["results"][0]["nests"][design["nest"][layer]]["text"]
        tab.keyboard.press("ArrowDown")
    # Every control can be reached and is named.
    unnamed = "[...document.querySelectorAll('button, input, a')].filter((e) => !(e.textContent || e.ariaLabel || "
    assert tab.evaluate(unnamed + "e.closest('label'))).length") == 0
    visit.close()


def test_schedules_zoom_and_tell_the_layer(browser, evaluated, tmp_path):
    path, data = written(tmp_path, [made_up(evaluated, 3)], most=3)
    visit = Visit(browser, path)
    tab = visit.tab
    tab.wait_for_selector("#schedule-chart svg")
    design = data["results"][0]["designs"]["0"]
    tab.click("#rows tr:has(td:text-is('0'))")
    tab.wait_for_selector("#schedule-chart[data-design='0:0']")

    def ticks():
        return sorted(tab.locator("#schedule-chart svg .role-axis-label text").all_text_contents())

    def other_than(those):
        for _ in range(50):
            if (found := ticks()) != those:
                return found
            tab.wait_for_timeout(200)
        raise AssertionError(f"still {those}")

    tab.wait_for_timeout(1000)  # the drawing of the chosen design replaces the first one
    before = ticks()
    assert len(before) > 5
    tab.click("#zoom-in")
    zoomed = other_than(before)
    tab.click("#zoom-right")
    other_than(zoomed)
    tab.click("#zoom-all")
    tab.wait_for_timeout(300)
    assert ticks() == before
    assert tab.locator("#chiplets tbody tr").count() == len(design["chiplets"])
    assert tab.locator("#layers tbody tr").count() == len(design["nest"])
    assert [cell.strip() for cell in tab.locator("#networks tbody td:first-child").all_inner_texts()] == ["a", "b"]
    tab.click("#layers tr:nth-child(4)")
    assert tab.inner_text("#nest") == data["results"][0]["nests"][design["nest"][3]]["text"]
    visit.close()


def test_designs_without_details_name_the_nearest_with_them(browser, evaluated, tmp_path):
    path, data = written(tmp_path, [made_up(evaluated, 60)], most=6)
    visit = Visit(browser, path)
    tab = visit.tab
    whole = set(data["results"][0]["designs"])
    assert tab.is_visible("#details")
    lacking = next(str(i) for i in range(60) if str(i) not in whole)
    tab.fill('#designs input[data-column="id"]', lacking)
    tab.click(f"#rows tr:has(td:text-is('{lacking}'))")
    tab.wait_for_selector("#no-details:visible")
    assert "6 of 60" in tab.inner_text("#no-details") and not tab.is_visible("#details")
    tab.click("#no-details button")
    tab.wait_for_selector("#details:visible")
    assert tab.inner_text("#design-title").split()[1] in whole
    tab.click("#clear-filters")
    tab.click("#only-whole")
    assert visit.count()[0] == 6
    visit.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_several_results_in_light_and_dark_and_no_name_is_run(browser, evaluated, tmp_path, scheme):
    bare = Result("hardware", "toy, budget ci, seed 1", "codesign", made_up(evaluated, 4).front, HISTORY)
    path, _ = written(tmp_path, [hostile(evaluated), made_up(evaluated, 9), bare], title=HOSTILE)
    visit = Visit(browser, path, color_scheme=scheme)
    tab = visit.tab
    assert tab.title().startswith("</script>")
    assert visit.count() == (18, 18, None)
    assert tab.locator("#summary tbody tr").count() == 3
    assert tab.locator("#facts dt").count() > 0 and tab.locator("#convergence-chart svg").count() == 1
    tab.fill('#designs input[data-column="result"]', "hardware")
    assert visit.count()[0] == 4
    tab.fill('#designs input[data-column="result"]', "script")
    assert visit.count()[0] == 5
    tab.click("#rows tr")
    tab.wait_for_selector("#schedule-chart[data-design^='0:']")
    for _ in range(50):  # a chart that is redrawn meanwhile forgets where the mouse is
        tab.mouse.move(0, 0)
        tab.hover("#schedule-chart svg path[aria-roledescription='bar'] >> nth=0")
        if tab.locator("#vg-tooltip-element.visible").count():
            break
        tab.wait_for_timeout(100)
    tab.wait_for_selector("#vg-tooltip-element.visible")
    assert tab.locator("#vg-tooltip-element img").count() == 0
    assert tab.evaluate("window.owned") is None
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", ground)[:3])) > 600
    assert light == (scheme == "light")
    assert len(tab.pdf()) > 10_000  # the PDF exists; how it looks is not tested
    tab.set_viewport_size({"width": 420, "height": 800})
    tab.wait_for_timeout(800)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 430  # no part of the page is wider than a phone
    visit.close()
