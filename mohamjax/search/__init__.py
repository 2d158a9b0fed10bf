"""What is searched and how: the layer mapper (MEDEA) and the co-optimiser (MOHaM) on one generation loop.

The room bears the name of its main road: `mohamjax.search(problem, ...)` is `mohamjax.search.roads.search`.
"""

import inspect
import sys
import types
from typing import Any

from mohamjax.search.baselines import archive_of, plain_problem, random_search
from mohamjax.search.codesign import (
    BUDGETS,
    PRESETS,
    Budget,
    ExpectedCost,
    Listener,
    SearchResult,
    Settings,
    co_optimise,
    expected_cost,
    prepare,
    runnable,
)
from mohamjax.search.config import PAPER_RATES, MohamConfig, Rates, RemapConfig
from mohamjax.search.context import MohamContext, anywhere, build_context
from mohamjax.search.exhaustive import ExhaustiveProgress, SpaceSize, map_exhaustively, space_size
from mohamjax.search.mapper import MapperConfig, MapperProgress, cache_folder, map_layers
from mohamjax.search.moham import Progress, design_problem, log_hypervolume, run
from mohamjax.search.network_level import NetworkChoice, network_choices
from mohamjax.search.plan_operators import MOST_RATES, PlanRates
from mohamjax.search.problem import DesignProblem
from mohamjax.search.requirements import Requirements, load_requirements, survey
from mohamjax.search.roads import (
    SizedDesign,
    sample_designs,
    sample_mappings,
    search,
)
from mohamjax.search.seeding import list_designs, seed_designs

__all__ = [
    "BUDGETS",
    "MOST_RATES",
    "PAPER_RATES",
    "PRESETS",
    "Budget",
    "DesignProblem",
    "ExhaustiveProgress",
    "ExpectedCost",
    "Listener",
    "MapperConfig",
    "MapperProgress",
    "MohamConfig",
    "MohamContext",
    "NetworkChoice",
    "PlanRates",
    "Progress",
    "Rates",
    "RemapConfig",
    "Requirements",
    "SearchResult",
    "Settings",
    "SizedDesign",
    "SpaceSize",
    "anywhere",
    "archive_of",
    "build_context",
    "cache_folder",
    "co_optimise",
    "design_problem",
    "expected_cost",
    "list_designs",
    "load_requirements",
    "log_hypervolume",
    "map_exhaustively",
    "map_layers",
    "network_choices",
    "plain_problem",
    "prepare",
    "random_search",
    "run",
    "runnable",
    "sample_designs",
    "sample_mappings",
    "search",
    "seed_designs",
    "space_size",
    "survey",
]


class _Room(types.ModuleType):
    """A module that is called as its main road: Python binds a package's name to the folder, whatever is written."""

    __signature__ = inspect.signature(search)

    def __call__(self, *args: Any, **kwargs: Any) -> SearchResult:
        """As `roads.search`."""
        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
