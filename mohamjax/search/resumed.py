"""Checkpoints of a search, and the checks before a search goes on from one.

A checkpoint must belong to the search that goes on from it, and its content must be valid. `CheckpointStore` is the
protocol of the stores that keep checkpoints; `io` has a store in files.

Axes: N individuals, L layers (padded), S tiles, T templates, U unique layers, A predecessors.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import abc
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import package_to_dict, technology_hash
from mohamjax.mapper.config import MapperRates
from mohamjax.mapping import MappingTables
from mohamjax.problem.design_problem import DesignProblem
from mohamjax.problem.plan_tables import WEIGHTS
from mohamjax.problem.space import DesignSpace, Genetics
from mohamjax.runtime.struct import plain
from mohamjax.schedule import Design, DesignFile
from mohamjax.schedule.measures import DEFAULT, of_frames
from mohamjax.schedule.validity import in_turn, sound_genes
from mohamjax.search.config import Rates, Settings
from mohamjax.search.plan_operators import PlanRates
from mohamjax.search.plans import THRIFT, Plan
from mohamjax.version import __version__
from mohamjax.workload import Ensemble

HISTORY_COLUMNS = ("generation", "evaluations", "seconds", "hypervolume", "front_size", "stability")
"""Columns of a search's history, which has one row per generation."""

ANEW = "start the search again without the argument `resume`"
"""The remedy for a checkpoint that cannot be used."""

_WHOLE = ("generation", "evaluations", "front_size")


def leaves_by_path(tree: Any) -> tuple[dict[str, Any], Any]:
    """Leaves of a pytree by path, and its structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}, structure


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The state of a search as it was kept.

    Attributes:
        source: where it comes from, for error messages.
        meta: the record that was kept with the arrays.
        arrays: the leaves by path; typed keys are kept as their key data.
    """

    source: Any
    meta: abc.Mapping[str, Any]
    arrays: abc.Mapping[str, np.ndarray]

    def refused(self, why: str, remedy: str = ANEW) -> InputError:
        """The error for a checkpoint that a search cannot go on from; `why` completes "the checkpoint is"."""
        return InputError(f"the checkpoint is {why}", file=self.source, remedy=remedy)

    def restore(self, like: Any) -> Any:
        """The arrays as a pytree with the structure of `like`.

        Args:
            like: pytree with the wanted structure, shapes and dtypes (arrays or `jax.ShapeDtypeStruct`).

        Raises:
            InputError: the checkpoint is of another search.
        """
        named, structure = leaves_by_path(like)
        if unknown := sorted(set(self.arrays) - set(named)):
            raise self.refused(f"of another search ({unknown[0]} is unknown)")
        leaves = []
        for name, leaf in named.items():
            wrapped = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            wanted = jax.eval_shape(jax.random.key_data, leaf) if wrapped else leaf
            found = self.arrays.get(name)
            if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                raise self.refused(f"of another search ({name} differs)")
            leaves.append(jax.random.wrap_key_data(jnp.asarray(found)) if wrapped else jnp.asarray(found))
        return jax.tree_util.tree_unflatten(structure, leaves)


class CheckpointStore(Protocol):
    """Keeps the state of one search."""

    def read(self) -> Checkpoint | None:
        """The last state that was kept, or None."""

    def write(self, tree: Any, meta: abc.Mapping[str, Any]) -> None:
        """Keeps a state, which replaces the last one.

        Args:
            tree: pytree of arrays and typed keys.
            meta: a small JSON-able record.
        """


def marks_of(record: abc.Mapping[str, object]) -> dict[str, object]:
    """The marks of a search, which its checkpoints hold: a hash of all that determines it, and one of each part.

    Args:
        record: the parts, JSON-able, by names that users understand.
    """
    texts = {name: json.dumps(value, sort_keys=True, default=str) for name, value in record.items()}
    parts = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}
    return {"fingerprint": hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest(), "parts": parts}


def search_marks(
    problem: DesignProblem, settings: Settings, designs: DesignFile | None = None, ensemble: Ensemble | None = None
) -> dict[str, object]:
    """The marks of the inputs and settings that determine a search; a checkpoint can only be resumed under equal ones.

    Args:
        problem: the problem.
        settings: settings.
        designs: the user's own designs.
        ensemble: application models whose networks, joined, are those of the problem.
    """
    application, technology = problem.application, problem.technology
    moham = dataclasses.asdict(settings.moham)
    loose = ["generations", "front", "chunk", "stop", "window", "delta", "end_batches", "end_rounds"]
    loose += ["end_orders", "result"]
    loose += ["migration"] * (settings.moham.islands == 1 or not settings.moham.migration)
    loose += ["survival"] * (settings.moham.survival == "crowding")
    loose += ["objectives"] * (settings.moham.objectives == DEFAULT)
    loose += ["limits"] * (not settings.moham.limits)
    loose += ["periods"] * (not of_frames(settings.moham.objectives))
    for name in loose:
        moham.pop(name)
    record = {
        "networks": [plain(layer) for layer in application.layers],
        "templates": [t.content_hash() for t in problem.resolved.templates],
        "technology": technology_hash(technology),
        "static energy": technology.static_share is not None,
        "package": package_to_dict(problem.package),
        "mapper": plain(settings.mapper),
        "rates of the mapper": named_rates(settings.mapper_rates),
        "sizes and rules of the search": moham,
        "rates": [named_rates(settings.rates), named_rates(settings.plan_rates)],
        "mapping again": plain(settings.remap),
        "requirements": problem.requirements.to_dict(),
        "most chiplets": problem.max_chiplets,
        "weights": settings.weights,
        "seed": settings.seed,
        "injected designs": None if designs is None else designs.digest,
        "version of mohamjax": __version__,
        "within": settings.within,
    }
    if any(network.asked for network in application.networks):
        record["deadlines and rates of networks"] = [
            (network.name, len(network.layers), network.asked) for network in application.networks
        ]
    if ensemble is not None:
        members = [len(member.application.layers) for member in ensemble.models]
        record["application models"] = [members, ensemble.over, ensemble.weights.tolist()]
    return marks_of(record)


def named_rates(rates: Rates | PlanRates | MapperRates) -> dict[str, float]:
    """Rates by name."""
    return {name: float(rate) for name, rate in dataclasses.asdict(rates).items()}


def tables_hash(tables: MappingTables, seeds: Design | None) -> str:
    """Hash of the tables and seeds made from the inputs: a checkpoint's designs point into these tables.

    Args:
        tables: Pareto tables.
        seeds: initial designs of the search, or None.
    """
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves((tables, seeds)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def check_same_search(saved: Checkpoint | None, marks: abc.Mapping[str, object]) -> None:
    """Checks that a checkpoint was written under the same marks.

    Args:
        saved: the checkpoint; None where a search begins.
        marks: those that the search has so far (`marks_of`).

    Raises:
        InputError: a mark of the checkpoint is another one; says which parts differ.
    """
    if saved is None or all(saved.meta.get(name) == mark for name, mark in marks.items()):
        return
    if "fingerprint" in saved.meta and "parts" not in saved.meta:
        raise saved.refused("of an earlier version of mohamjax")
    theirs, ours = saved.meta.get("parts"), marks.get("parts")
    differing: list[str] = []
    if isinstance(theirs, dict) and isinstance(ours, dict):
        differing = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    told = f" ({', '.join(differing)})" if differing else ""
    # The checkpoint may hold hours of work: the way to keep it comes first.
    remedy = "give the same again, or start without the argument `resume`"
    raise saved.refused(f"of a search with other inputs or settings{told}", remedy)


def history_of(saved: Checkpoint) -> list[dict[str, Any]]:
    """The checkpoint's history: a row for each generation done, from 0 on.

    Raises:
        InputError: it is missing, or a row is not valid.
    """
    rows = saved.meta.get("history")
    if not isinstance(rows, list) or not rows:
        raise saved.refused("without a history")
    for generation, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(HISTORY_COLUMNS):
            raise saved.refused(f"of another search (row {generation} of its history has other columns)")
        if not all(type(value) is int or (type(value) is float and name not in _WHOLE) for name, value in row.items()):
            raise saved.refused(f"damaged (row {generation} of its history holds what is no number)")
        if row["generation"] != generation or not 0 <= row["seconds"] < math.inf or row["evaluations"] < 0:
            raise saved.refused(f"damaged (row {generation} of its history is out of range)")
    return [{name: row[name] for name in HISTORY_COLUMNS} for row in rows]


def check_grown(saved: Checkpoint, grown: dict[str, Any], first: np.ndarray, entries: int, rounds: int) -> None:
    """Checks that rounds of mapping again can have added the mappings that joined the tables.

    Args:
        saved: the checkpoint, for error messages.
        grown: from `remap.Remapper.saved`, as the checkpoint has it.
        first: `[U, T]` int, mappings of each set before any round.
        entries: most mappings that may join a set.
        rounds: most rounds.

    Raises:
        InputError: the numbers are out of range.
    """
    joined = np.asarray(grown["count"]) - first
    if not 0 <= int(grown["rounds"]) <= rounds or joined.min() < 0 or joined.max() > entries:
        raise saved.refused("damaged (mappings that joined are out of range)")
    if int(grown["rounds"]) == 0 and joined.any():
        raise saved.refused("damaged (mappings joined without a round)")


def check_state(saved: Checkpoint, state: Any, history: list[dict[str, Any]], space: DesignSpace) -> None:
    """Checks that a search can have had a state.

    Args:
        saved: the checkpoint, for error messages.
        state: `loop.SearchState`.
        history: from `history_of`.
        space: the problem, over the tables as they have grown.

    Raises:
        InputError: the generation is not that of the history, or an individual is not valid.
    """
    told = np.asarray(state.population.generation)  # the first population is generation 0
    if (told != len(history)).any():
        raise saved.refused(f"damaged (generation {int(told.max()) - 1}, its history ends at {len(history) - 1})")
    genetics = jax.device_get(space.genetics)
    sizes = space.plans.fits.shape[3]
    used = np.asarray(state.archive.valid)
    archived = jax.tree.map(lambda leaf: np.asarray(leaf)[used], state.archive.genes)
    living, waiting = (
        jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), genes)
        for genes in (state.population.genes, state.candidates)
    )
    for where, genes in (("population", living), ("generation to come", waiting), ("archive", archived)):
        for part in _parts(genes):
            wrong = _wrong_plan(part, genetics, sizes) if isinstance(part, Plan) else _wrong_design(part, genetics)
            if wrong:
                raise saved.refused(f"damaged (the {where} holds {wrong})")


def _parts(genes: Any) -> list[Any]:
    """The designs and plans `[N, ...]` of individuals."""
    kinds = (Design, Plan)
    found = jax.tree.leaves(genes, is_leaf=lambda part: isinstance(part, kinds))
    return [part for part in found if isinstance(part, kinds)]


def _outside(values: Any, least: int, below: int) -> bool:
    """Whether any value is not in `least..below - 1`."""
    values = np.asarray(values)
    return bool(values.size) and not (least <= values.min() and values.max() < below)


def _wrong_plan(plan: Plan, genetics: Genetics, sizes: int) -> str:
    """A text on what is wrong with plans `[N, ...]`; empty if they are valid."""
    if _outside(plan.template, -1, genetics.count.shape[1]):
        return "a template that is not there"
    if _outside(plan.size, 0, sizes) or _outside(plan.weight, 0, len(WEIGHTS)) or _outside(plan.thrift, 0, len(THRIFT)):
        return "genes out of range"
    return ""


def _wrong_design(design: Design, genetics: Genetics) -> str:
    """A text on what is wrong with designs `[N, ...]`; empty if they are valid."""
    total, layers = genetics.unique.shape[0], int(genetics.layers)
    if not len(design.order):
        return ""
    sound = sound_genes(design, np.asarray(genetics.unique), np.asarray(genetics.count))
    if not sound.known.all():
        return "a template that is not there"
    if not sound.listed.all() or _outside(design.order[:, layers:], layers, total):
        return "an order that is no permutation of the layers"
    after, nth = np.nonzero(np.asarray(genetics.predecessors)[:layers] >= 0)
    before = np.asarray(genetics.predecessors)[after, nth]
    if not in_turn(np.asarray(design.order), np.stack([before, after], axis=1)).all():
        return "an order with a layer before its predecessor"
    if _outside(design.assignment[:, :layers], 0, design.template.shape[-1]):
        return "a layer on a tile that is not there"
    return "" if sound.mapped[:, :layers].all() else "a mapping that is not there"
