"""Templates that stand for the cores of G#'s platforms in the loop-nest model.

In the closed forms (`analysis`) a core is only a dataflow: the loops that run over its array of h rows of w elements.
Here the same loops run over an array of the same size, and the rest of the nest is searched within these constraints:

| style | along a row (w) | over the rows (h) | stationary |
| --- | --- | --- | --- |
| `HB` (NVDLA-like) | C, added up along the row | K; G of a depthwise layer | weights: a filter window per element |
| `LB_rs` (Eyeriss-like) | P | P, S | filter windows, and the inputs of a row of outputs |
| `LB_os` (ShiDianNao-like) | Q | P | outputs, until they are complete |

In a matrix product the rows (N) take the place of P; then no loop runs along a row of `LB_os`.

Differences from the paper's cores:

- Buffer capacities are enforced, and buffers hold every tile once; MAESTRO assumes buffers as large as needed, and
  doubles them for double buffering. The shared buffer has the size that Table 4 gives a core of the style, 72.5 bytes
  per element for HB and 54.25 for LB. The 64 words of operands in every element and the 32 accumulators (per element;
  for HB per row) are our choice.
- Trip counts over the array are exact divisors of the layer's bounds, so no pass fills the array partly.
- Depthwise layers follow the style; MAESTRO has one dataflow for them on all cores. `LB_os` gives every output row a
  row of the array; MAESTRO's walks R output rows in time.
- There is no extra cycle per filter window. As in MAESTRO, networks on the chip do not limit the speed.
"""

from __future__ import annotations

import math

from mohamjax.hardware import Component, Dataflow, Level, LevelRule, Mac, Template
from mohamjax.workload import DIMS

_BUFFER_BYTES = {"HB": 72.5, "LB_rs": 54.25, "LB_os": 54.25}  # per element
_OPERANDS, _ACCUMULATORS = 64, 32
_BLOCK = 32  # words of one access to the shared buffer
_CONVOLUTIONS = ("conv", "gconv", "tconv")
_PRODUCTS = ("fc", "bmm", "rnn")


def _rule(temporal: str, x: str = "", y: str = "", order: str = "") -> LevelRule:
    return LevelRule(dict.fromkeys(temporal), dict.fromkeys(x), dict.fromkeys(y), tuple(order))


_ANY = "".join(DIMS)
_NESTS = {
    "HB": {
        (*_CONVOLUTIONS, *_PRODUCTS): (_rule("RS"), _rule("NPQ", x="C"), _rule(_ANY, y="K", order="PQNCRSKG")),
        ("dwconv",): (_rule("RS"), _rule("NPQ"), _rule(_ANY, y="G", order="PQNCRSKG")),
    },
    "LB_rs": {
        (*_CONVOLUTIONS, "dwconv"): (_rule("Q"), _rule("CRS"), _rule(_ANY, x="P", y="PS", order="QRSCPNKG")),
        _PRODUCTS: (_rule("Q"), _rule("CRS"), _rule(_ANY, x="N", y="N", order="QRSCPNKG")),
    },
    "LB_os": {
        (*_CONVOLUTIONS, "dwconv"): (_rule("CRS"), _rule("CRS"), _rule(_ANY, x="Q", y="P", order="CRSPQKNG")),
        _PRODUCTS: (_rule("CRS"), _rule("CRS"), _rule(_ANY, y="N", order="CRSPQKNG")),
    },
}
"""Allowed loops of the two levels of an element and of the shared buffer, innermost first; memory allows all loops."""


def core_template(style: str, rows: int, columns: int) -> Template:
    """The template of a core, with fixed sizes.

    Args:
        style: one of `analysis.STYLES`.
        rows: height of the array.
        columns: width of the array.
    """

    def registers(name: str, words: int, keep: tuple[bool, bool, bool], bits: int, children: int = 1) -> Level:
        return Level(name, "rf", Component("regfile"), keep, words, bits, fanout=(children, 1), hop_energy_pJ=None)

    if style == "HB":
        inner = registers("Weights", _OPERANDS, (True, False, False), 8)
        outer = registers("Accumulators", _ACCUMULATORS, (False, False, True), 24, columns)
        fanout = (1, rows)
    else:
        inner = registers("Accumulators", _ACCUMULATORS, (False, False, True), 24)
        outer = registers("Operands", _OPERANDS, (True, True, False), 8)
        fanout = (columns, rows)
    everything = (True, True, True)
    words = _BLOCK * math.ceil(_BUFFER_BYTES[style] * rows * columns / _BLOCK)
    buffer = Level("Buffer", "sram", Component("sram"), everything, words, 8, _BLOCK, fanout, hop_energy_pJ=None)
    memory = Level("DRAM", "dram", Component("dram"), everything, None, block_words=8)
    return Template(
        name=f"{style}_{rows}x{columns}",
        levels=(inner, outer, buffer, memory),
        mac=Mac(),
        dataflows=tuple(Dataflow(types, (*rules, _rule(_ANY))) for types, rules in _NESTS[style].items()),
        description=f"stands for a core of G#'s style {style}",
        sizes="fixed",
    )
