"""The co-optimiser (MOHaM): searches packages and schedules together, in one generation loop.

The package has the name of its main function: `mohamjax.search(problem, ...)` is `mohamjax.api.search`.
"""

from mohamjax.search.config import (
    BUDGETS,
    PAPER_RATES,
    PRESETS,
    Budget,
    MohamConfig,
    Rates,
    RemapConfig,
    Settings,
    check_rate,
    preset_package,
    usual_budget,
)
from mohamjax.search.expected import ExpectedCost, expected_cost
from mohamjax.search.generations import Generations, Listener, Progress, check_islands
from mohamjax.search.moham import genetic_problem, log_hypervolume
from mohamjax.search.plan_operators import MOST_RATES, PlanRates
from mohamjax.search.result import SearchResult
from mohamjax.search.search import Search, compile_search
from mohamjax.search.seeding import list_designs, seed_designs
from mohamjax.search.unit_cube import sample_designs

__all__ = [
    "BUDGETS",
    "MOST_RATES",
    "PAPER_RATES",
    "PRESETS",
    "Budget",
    "ExpectedCost",
    "Generations",
    "Listener",
    "MohamConfig",
    "PlanRates",
    "Progress",
    "Rates",
    "RemapConfig",
    "Search",
    "SearchResult",
    "Settings",
    "check_islands",
    "check_rate",
    "compile_search",
    "expected_cost",
    "genetic_problem",
    "list_designs",
    "log_hypervolume",
    "preset_package",
    "sample_designs",
    "seed_designs",
    "usual_budget",
]
