"""Drawings of the documentation: a package with its mesh, a loop nest on its levels, a chromosome.

    python experiments/drawings.py [--out docs/figures]

Chiplets and interfaces are placed by mohamjax's own rules; nest and chromosome are those of the pages that show them.
"""

import argparse
import pathlib

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from mohamjax.figures import save
from mohamjax.hardware import PackageParameters
from mohamjax.hardware.package import interface_positions, mesh_columns, mesh_routes

INK, SOFT, LINE = "#1b1f24", "#57606a", "#b8c0c8"
KINDS = {"simba": "#4c78a8", "eyeriss": "#f58518", "shidiannao": "#54a24b"}


def canvas(width: float, height: float, across: float, down: float) -> tuple[Figure, Axes]:
    """A figure without axes; y goes down."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(0, across)
    axes.set_ylim(down, 0)
    axes.set_aspect("equal")
    axes.axis("off")
    return figure, axes


def box(axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str, size: float = 8) -> None:
    """A box with a text in its middle."""
    axes.add_patch(FancyBboxPatch((x, y), width, height, "round,pad=0,rounding_size=.06", fc=f"{colour}33", ec=colour))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size, color=INK)


def package() -> Figure:
    """Five chiplets on their mesh, interfaces beside it, and the route of one chiplet's data."""
    params, chosen = PackageParameters(), ("simba", "eyeriss", "simba", "shidiannao", "simba")
    columns, sizes = mesh_columns(len(chosen)), (0.8, 0.55, 0.7, 0.45, 0.62)
    figure, axes = canvas(6.0, 3.2, columns + 2.2, 2.6)

    def middle(x: float, y: float) -> tuple[float, float]:
        return min(max(x, -0.75), columns - 0.25) + 1.1, y + 0.75

    for y in range(2):
        axes.plot(*zip(middle(0, y), middle(columns - 1, y), strict=True), color=LINE, lw=3, zorder=0)
    for x in range(columns):
        axes.plot(*zip(middle(x, 0), middle(x, 1), strict=True), color=LINE, lw=3, zorder=0)
    for i, (x, y) in enumerate(interface_positions(params, len(chosen))):
        left, top = middle(x, y)
        seen = "#d1242f" if i == 3 else LINE
        axes.plot(
            *zip(middle(min(max(x, 0), columns - 1), y), (left, top), strict=True),
            color=seen,
            lw=2 if i == 3 else 3,
            zorder=0,
        )
        axes.add_patch(Rectangle((left - 0.2, top - 0.2), 0.4, 0.4, fc="white", ec="none", zorder=1))
        box(axes, left - 0.2, top - 0.2, 0.4, 0.4, f"M{i}", SOFT)
    links = mesh_routes(params, len(chosen))[4]
    for start, end in links:
        axes.plot(*zip(middle(*start), middle(*end), strict=True), color="#d1242f", lw=2, zorder=1)
    for k, (kind, side) in enumerate(zip(chosen, sizes, strict=True)):
        x, y = middle(k % columns, k // columns)
        axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, fc="white", ec="none", zorder=2))
        axes.add_patch(
            Rectangle((x - side / 2, y - side / 2), side, side, fc=f"{KINDS[kind]}55", ec=KINDS[kind], zorder=3)
        )
        axes.text(x, y, f"{k}\n{kind}", ha="center", va="center", fontsize=7, color=INK, zorder=4)
    axes.text(1.1 + (columns - 1) / 2, 2.35, "chiplets on a mesh; red: the way of chiplet 4 to its memory interface",
              ha="center", fontsize=8, color=SOFT)  # fmt: skip
    return figure


def nest() -> Figure:
    """The nest of the example in `docs/concepts/cost-model.md`: loops beside the levels that hold their tiles."""
    figure, axes = canvas(6.4, 3.2, 12, 6)
    levels = (
        ("DRAM", "", "32 weights, 24 inputs, 48 outputs"),
        ("Buffer", "for k2 in 2:\n    for p in 6:\n        parallel k1 in 4:", "32 + 24 + 48 words"),
        ("Registers", "for c in 4:", "4 + 4 + 1 words in each of 4 elements"),
        ("MACs", "multiply and add", "one in each element"),
    )
    y = 0.2
    for name, loops, held in levels:
        height = 1.7 if "\n" in loops else 1.0
        box(axes, 0.2, y, 2.2, height, name, "#4c78a8", 9)
        axes.text(
            2.8, y + height / 2, loops or "everything once", va="center", family="monospace", fontsize=8, color=INK
        )
        axes.text(7.1, y + height / 2, held, va="center", fontsize=8, color=SOFT)
        if name != "MACs":
            axes.annotate(
                "", (1.3, y + height + 0.35), (1.3, y + height), arrowprops={"arrowstyle": "<->", "color": SOFT}
            )
        y += height + 0.35
    return figure


def chromosome() -> Figure:
    """The arrays of a design: genes of layers, and a gene of every tile."""
    figure, axes = canvas(6.4, 2.9, 12.4, 5.4)
    rows = (
        ("order", "3 0 4 1 5 2", "which layer comes first"),
        ("assignment", "0 0 1 0 2 1", "tile of each layer"),
        ("mapping", "7 2 0 9 4 4", "loop nest of each layer, by its place in the table"),
        ("template", "1 0 1 -", "template on each tile, - where empty"),
    )
    for r, (name, cells, told) in enumerate(rows):
        y = 0.3 + 1.25 * r + (0.15 if name == "template" else 0)
        axes.text(1.9, y + 0.4, name, ha="right", va="center", fontsize=9, color=INK)
        for k, cell in enumerate(cells.split()):
            colour = "#f58518" if name == "template" else "#4c78a8"
            box(axes, 2.1 + 0.8 * k, y, 0.74, 0.8, cell, colour, 9)
        axes.text(7.1, y + 0.4, told, va="center", fontsize=8, color=SOFT)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "docs" / "figures"
    )
    out = parser.parse_args().out
    for draw in (package, nest, chromosome):
        save(draw(), out / f"{draw.__name__}.svg")


if __name__ == "__main__":
    main()
