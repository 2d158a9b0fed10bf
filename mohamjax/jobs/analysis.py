"""Job analysis of G#: costs of a layer on a core of a fixed dataflow style, as closed forms on arrays.

G# asks MAESTRO for the no-stall latency and the bandwidth of every (layer, core). Under its settings (no limit on
buffers or networks, one extra cycle per filter window) MAESTRO's results for the three styles of MAGMA are the closed
forms below, with h rows (clusters) of w processing elements and T = R S + 1. They reproduce every row of
`maestro/job_analysis.csv` of the reference data.

| style | parallel over | latency [cycles] | one tile set [bytes] |
| --- | --- | --- | --- |
| `HB` (NVDLA-like) | K over rows, C inside a row | `1 + ceil(K/h) ceil(C/w) P Q T` | `k c R S + c R S + k` |
| `LB_rs` (Eyeriss-like) | output rows, w per cluster | `1 + K C ceil(P/(w h)) ceil(Q/S) T` | `R S + i (x+S-1) + y x` |
| `LB_os` (ShiDianNao-like) | R output rows per row | `1 + K C ceil(P/(R h)) ceil(Q/w) (R R S + 1)` | that of `LB_rs` |
| depthwise, any | 64 channels per element | `1 + min(C, 64) P Q R S` | `C (2 R S + 1)` |

Here k = min(K, h) and c = min(C, w). A tile set of the LB styles has the y rows and x columns of outputs of one pass
over the array, y = min(P, w h) and x = min(Q, S) for `LB_rs`, y = min(P, R h) and x = min(Q, w) for `LB_os`, and
i = y + n (R-1) rows of inputs, n = ceil(y/w) or ceil(y/R). That of a depthwise layer has the C channels of one round.

MAESTRO counts one output less in HB's tile where 1 < K < h, and 64 words less in the depthwise tile where its channels
are a multiple of 64. Both are kept here, because they decide the bandwidth that the releases print. For one layer
(AlexNet's first, filter 11 x 11) MAESTRO gives nonsense under the LB styles, a tile of 86 bytes and a negative one;
here that layer has the tile of the formula.

Three properties hold here by construction. A depthwise layer of more channels than the elements hold runs in several
rounds, and no core does more multiply-accumulates per cycle than it has elements (without this limit `LB_rs` would,
where P exceeds w h / S); MAESTRO's own model violates both. Tile sets hold the rows of one pass or the channels of one
round, so that those of all passes or rounds together hold each of them about once; in the reference data no depthwise
row takes a second round, and no `LB_rs` row a second pass.

There are no energies here: MAESTRO's leave out multiply-accumulates and the off-chip memory, and its counts of buffer
accesses follow rules at the edges of tiles for which we know no closed form. The loop-nest model has energies
(`jobs.core_mappings`).

Axes: N jobs.
"""

from __future__ import annotations

import dataclasses
from collections import abc
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from mohamjax.workload import DIMS, LAYER_TYPES, UniqueLayer, WorkloadShape

Style = Literal["HB", "LB_rs", "LB_os"]

STYLES: tuple[str, ...] = get_args(Style)
"""Dataflow styles of cores."""

DEMANDS = ("as-released", "per-tile", "compulsory")
"""Conventions for the bandwidth that a job asks for, see `bandwidth_demand`."""

NEST_DEMANDS = ("traffic", *DEMANDS)
"""Conventions for analyses by the loop-nest model, which knows the off-chip traffic."""

_CHANNELS_PER_ELEMENT = 64  # most channels of a depthwise layer in an element
_COPIES = 6  # bytes of an element's buffer per place of the filter window: three tensors, each twice
_COLUMNS = 64


@dataclasses.dataclass(frozen=True, eq=False)
class JobShapes:
    """Layers in MAESTRO's form: stride 1, no padding, one byte per element.

    A strided or padded layer keeps its output size, so that its multiply-accumulates are exact and its input is
    `(P + R - 1) x (Q + S - 1)`. A fully connected layer has K = out, C = in and 1 elsewhere; a matrix product of M rows
    has P = M.

    Attributes:
        K: `[N]` int64, output channels per group (per channel, in a depthwise layer: its multiplier).
        C: `[N]` int64, input channels per group (all channels of a depthwise layer).
        P: `[N]` int64, output rows.
        Q: `[N]` int64, output columns.
        R: `[N]` int64, filter rows.
        S: `[N]` int64, filter columns.
        depthwise: `[N]` bool.
        groups: `[N]` int64, number of equal parts run one after another (groups of a convolution, heads).
        samples: `[N]` int64, number of samples run one after another with the same weights; 1 for a matrix product,
            whose samples are rows.
    """

    K: np.ndarray
    C: np.ndarray
    P: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    S: np.ndarray
    depthwise: np.ndarray
    groups: np.ndarray
    samples: np.ndarray

    def __len__(self) -> int:
        return len(self.K)

    def __getitem__(self, rows: object) -> JobShapes:
        """The jobs of these rows (an index array, slice or mask)."""
        return JobShapes(*(getattr(self, field.name)[rows] for field in dataclasses.fields(self)))

    @property
    def macs(self) -> np.ndarray:
        """`[N]` float64, number of multiply-accumulates."""
        product = np.ones(len(self))
        for factor in (self.groups, self.samples, self.K, self.C, self.P, self.Q, self.R, self.S):
            product *= factor
        return product

    @property
    def tensor_bytes(self) -> np.ndarray:
        """`[N]` float64, bytes of inputs, weights and outputs together."""
        shape = self._floats()
        outputs = np.where(self.depthwise, shape.C, 1) * shape.K * shape.P * shape.Q
        inputs = shape.C * (shape.P + shape.R - 1) * (shape.Q + shape.S - 1)
        weights = shape.K * shape.C * shape.R * shape.S
        return shape.groups * (shape.samples * (inputs + outputs) + weights)

    @property
    def element_bytes(self) -> np.ndarray:
        """`[N]` int64, buffer that a processing element needs, double buffering included."""
        return _COPIES * self.R * self.S * np.where(self.depthwise, _CHANNELS_PER_ELEMENT, 1)

    def _floats(self) -> JobShapes:
        numbers = {f.name: getattr(self, f.name).astype(float) for f in dataclasses.fields(self)}
        return JobShapes(**{**numbers, "depthwise": self.depthwise})


class JobAnalysis(NamedTuple):
    """Costs of jobs on one core.

    Attributes:
        latency: `[N]` float64, no-stall time [cycles]; +inf where a job cannot run.
        tile_bytes: `[N]` float64, bytes of one tile set in the core's shared buffer (double buffering holds two).
        tiles: `[N]` float64, number of tile sets that the core processes.
        tensor_bytes: `[N]` float64, bytes of all tensors, the least off-chip traffic.
        traffic_bytes: `[N]` float64, off-chip traffic of the loop nest; None if the model has no loop nests.
        energy: `[N]` float64 [J]; None if the model has no energies.
    """

    latency: np.ndarray
    tile_bytes: np.ndarray
    tiles: np.ndarray
    tensor_bytes: np.ndarray
    traffic_bytes: np.ndarray | None = None
    energy: np.ndarray | None = None


def job_layer(
    kind: str, bounds: abc.Mapping[str, int], stride: tuple[int, int] = (1, 1), dilation: tuple[int, int] = (1, 1)
) -> UniqueLayer:
    """A job as a layer of the loop-nest model.

    Args:
        kind: `conv`, `gconv`, `tconv`, `dwconv`, `fc`, `bmm` or `rnn` as in our importer, or `gemm`; case does not
            matter.
        bounds: loop bounds by the letters of `workload.DIMS`; 1 where a letter is missing. The channels of a depthwise
            layer may be in G (our form: K is then the number of filters of each channel, not of all output channels)
            or in C (the reference data: K then does not matter), the rows of a matrix product in N (ours) or in P.
        stride: stride along the first and second axis.
        dilation: dilation along the first and second axis.

    Raises:
        ValueError: the kind is not known.
    """
    kind = kind.lower()
    size = {letter: int(bounds.get(letter, 1)) for letter in DIMS}
    if kind == "dwconv":
        # The reference data have the channels in C; what stands in their K is no multiplier.
        size |= {"G": size["G"] * size["C"], "K": size["K"] if size["G"] > 1 else 1, "C": 1}
    elif kind in ("fc", "gemm", "bmm"):
        kind = "fc" if kind == "gemm" else kind
        size |= {"N": size["N"] * size["P"], "P": 1}
    elif kind not in LAYER_TYPES:
        raise ValueError(f"layer type {kind!r} is not known")
    return UniqueLayer(kind, WorkloadShape(**size, stride=stride, dilation=dilation))


def layer_shape(kind: str, bounds: abc.Mapping[str, int]) -> dict[str, int | bool]:
    """A layer in MAESTRO's form, as a row of `JobShapes`; arguments and errors are those of `job_layer`."""
    layer = job_layer(kind, bounds)
    size = layer.shape
    row: dict[str, int | bool] = {d: getattr(size, d) for d in "KCPQRS"} | {"depthwise": layer.type == "dwconv"}
    if layer.type == "dwconv":
        return row | {"C": size.G, "groups": 1, "samples": size.N}
    if layer.type in ("conv", "gconv", "tconv"):
        return row | {"groups": size.G, "samples": size.N}
    return row | {"P": size.P * size.N, "groups": size.G, "samples": 1}  # rows of a matrix product are output rows


def job_shapes(rows: Sequence[abc.Mapping[str, int | bool]]) -> JobShapes:
    """Arrays of rows from `layer_shape`."""
    return JobShapes(
        **{
            field.name: np.asarray([row[field.name] for row in rows], bool if field.name == "depthwise" else np.int64)
            for field in dataclasses.fields(JobShapes)
        }
    )


def _folds(bound: np.ndarray, lanes: np.ndarray | float) -> np.ndarray:
    """Number of passes over a bound with this many lanes."""
    return np.ceil(bound / lanes)


def analyse(
    shapes: JobShapes,
    style: str,
    rows: object,
    columns: object = _COLUMNS,
    *,
    element_buffer: float | None = None,
) -> JobAnalysis:
    """Analyses every job on one core (G#, Section 3.5).

    Args:
        shapes: N jobs.
        style: one of `STYLES`.
        rows: h, height of the array (clusters), one number or one per job `[N]`.
        columns: w, width of the array (elements of a cluster), one number or one per job `[N]`.
        element_buffer: buffer of an element [bytes], which holds two copies of each of its three tensors; None for no
            limit, as MAESTRO is run. An element holds fewer than 64 channels of a depthwise layer if 64 do not fit. A
            filter window that does not fit is processed in equal parts, each with its own extra cycle.

    Raises:
        ValueError: there is no such style.
    """
    shape = shapes._floats()
    h, w = np.asarray(rows, float), np.asarray(columns, float)
    K, C, P, Q, R, S = shape.K, shape.C, shape.P, shape.Q, shape.R, shape.S
    whole = R * S
    parts = np.ones_like(whole) if element_buffer is None else _folds(_COPIES * whole, element_buffer)
    window = np.ceil(whole / parts)
    if style == "HB":
        tiles = parts * _folds(K, h) * _folds(C, w) * P * Q
        tile_cycles = window + 1
        k, c = np.minimum(K, h), np.minimum(C, w)
        tile = k * c * window + c * window + k - ((K > 1) & (h > K))
    elif style == "LB_rs":
        tiles = parts * K * C * _folds(P, w * h) * _folds(Q, S)
        tile_cycles = window + 1
        y, x = np.minimum(P, w * h), np.minimum(Q, S)
        tile = window + (y + _folds(y, w) * (R - 1)) * (x + S - 1) + y * x
    elif style == "LB_os":
        tiles = parts * K * C * _folds(P, R * h) * _folds(Q, w)
        tile_cycles = R * window + 1
        y, x = np.minimum(P, R * h), np.minimum(Q, w)
        tile = window + (y + _folds(y, R) * (R - 1)) * (x + S - 1) + y * x
    else:
        raise ValueError(f"style is {style!r}, expected one of {', '.join(STYLES)}")

    room = np.full_like(whole, _CHANNELS_PER_ELEMENT)
    if element_buffer is not None:
        room = np.clip(np.floor(element_buffer / (_COPIES * whole)), 1, _CHANNELS_PER_ELEMENT)
    held = np.minimum(C, room)
    tiles = np.where(shapes.depthwise, K * P * Q * _folds(C, room * h * w), tiles)
    tile_cycles = np.where(shapes.depthwise, held * whole, tile_cycles)
    at_once = np.minimum(C, room * h * w)
    short = np.where(at_once % _CHANNELS_PER_ELEMENT == 0, _CHANNELS_PER_ELEMENT, 0)
    tile = np.where(shapes.depthwise, at_once * (2 * whole + 1) - short, tile)

    tiles = shape.groups * shape.samples * tiles
    latency = np.maximum(1 + tiles * tile_cycles, np.ceil(shapes.macs / (h * w)))
    return JobAnalysis(latency, tile, tiles, shapes.tensor_bytes)


def bandwidth_demand(analysis: JobAnalysis, convention: str = "as-released") -> np.ndarray:
    """Bandwidth that every job asks for so that it does not stall.

    - `as-released`: one tile set over the run time of the whole layer, as MAGMA computes it. It lies far below the
      traffic that must go off-chip, and exists because published results rest on it.
    - `per-tile`: one tile set per time of one tile, as in the paper's Section 3.5.2: the whole next tile is fetched
      while the present one computes, so that nothing is reused between tiles. This is the other extreme.
    - `compulsory`: inputs, weights and outputs once each, over the run time of the layer.
    - `traffic`: off-chip reads and writes of the loop nest, over the run time of the layer: mostly between the two
      above, and below `compulsory` where strides skip inputs. Only the loop-nest model knows it.

    Args:
        analysis: analysis of N jobs.
        convention: one of `DEMANDS`, or of `NEST_DEMANDS` if the analysis has `traffic_bytes`.

    Returns:
        `[N]` float64, bytes per cycle.

    Raises:
        ValueError: there is no such convention, or none for this analysis.
    """
    extra = 1 if analysis.traffic_bytes is None else 0  # MAESTRO's latency has one cycle more than its tiles
    busy = np.maximum(analysis.latency - extra, 1)
    if convention == "as-released":
        return analysis.tile_bytes / busy
    if convention == "per-tile":
        return analysis.tile_bytes * analysis.tiles / busy
    if convention == "compulsory":
        return analysis.tensor_bytes / analysis.latency
    if convention == "traffic" and analysis.traffic_bytes is not None:
        return analysis.traffic_bytes / analysis.latency
    known = DEMANDS if analysis.traffic_bytes is None else NEST_DEMANDS
    raise ValueError(f"convention is {convention!r}, expected one of {', '.join(known)}")


def flexible_rows(
    shapes: JobShapes,
    style: str,
    elements: int,
    *,
    shared_buffer: float = 2 * 2**20,
    element_buffer: float | None = None,
) -> np.ndarray:
    """Height of the array that runs each job fastest if the array's shape is free (G#, Section 5.5).

    All heights that divide the number of elements are tried; shapes whose tiles do not fit the shared buffer are left
    out, unless none fits. Among equally fast shapes the one with the smallest tile is taken.

    Args:
        shapes: N jobs.
        style: one of `STYLES`.
        elements: number of processing elements of the core.
        shared_buffer: shared buffer of the core [bytes]; default the paper's 2 MB.
        element_buffer: see `analyse`; 1 KB in the paper.

    Returns:
        `[N]` int64, rows; the columns are `elements // rows`.
    """
    heights = np.asarray([h for h in range(1, elements + 1) if elements % h == 0])
    found = [analyse(shapes, style, h, elements // h, element_buffer=element_buffer) for h in heights]
    latency = np.stack([a.latency for a in found])
    tile = np.stack([a.tile_bytes for a in found])
    fits = 2 * tile <= shared_buffer
    best = np.lexsort((tile, latency, ~fits), axis=0)[0]
    return heights[best]
