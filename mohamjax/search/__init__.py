"""What is searched and how: the layer mapper (MEDEA) and the co-optimiser (MOHaM) on one generation loop.

The room bears the name of its main road: `mohamjax.search(problem, ...)` is `mohamjax.door.search`.
"""

from mohamjax.search.baselines import archive_of, plain_problem, random_search
from mohamjax.search.codesign import Listener, SearchResult, co_optimise, compile_search, prepare, runnable
from mohamjax.search.config import PAPER_RATES, MapperConfig, MapperProgress, MohamConfig, Rates, RemapConfig
from mohamjax.search.context import MohamContext, anywhere, build_context
from mohamjax.search.exhaustive import ExhaustiveProgress, SpaceSize, map_exhaustively, space_size
from mohamjax.search.expected import ExpectedCost, expected_cost
from mohamjax.search.mapper import map_layers
from mohamjax.search.moham import Progress, design_problem, log_hypervolume, run
from mohamjax.search.network_level import NetworkChoice, network_choices
from mohamjax.search.one_axis import one_axis_templates, over_one_axis
from mohamjax.search.plan_operators import MOST_RATES, PlanRates
from mohamjax.search.problem import DesignProblem
from mohamjax.search.requirements import survey
from mohamjax.search.reschedule import Packages, Served, reschedule
from mohamjax.search.roads import SizedDesign, sample_designs, sample_mappings
from mohamjax.search.robust import NominalFront, Rescheduler, RobustFront, RobustResult, prepare_robust, robust_search
from mohamjax.search.seeding import list_designs, seed_designs
from mohamjax.search.settings import BUDGETS, PRESETS, Budget, Settings
from mohamjax.search.spread import check_islands

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
    "NominalFront",
    "Packages",
    "PlanRates",
    "Progress",
    "Rates",
    "RemapConfig",
    "Rescheduler",
    "RobustFront",
    "RobustResult",
    "SearchResult",
    "Served",
    "Settings",
    "SizedDesign",
    "SpaceSize",
    "anywhere",
    "archive_of",
    "build_context",
    "check_islands",
    "co_optimise",
    "compile_search",
    "design_problem",
    "expected_cost",
    "list_designs",
    "log_hypervolume",
    "map_exhaustively",
    "map_layers",
    "network_choices",
    "one_axis_templates",
    "over_one_axis",
    "plain_problem",
    "prepare",
    "prepare_robust",
    "random_search",
    "reschedule",
    "robust_search",
    "run",
    "runnable",
    "sample_designs",
    "sample_mappings",
    "seed_designs",
    "space_size",
    "survey",
]
