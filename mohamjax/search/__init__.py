"""What is searched and how: the layer mapper (MEDEA) and the co-optimiser (MOHaM) on one generation loop."""

from mohamjax.search.baselines import archive_of, plain_problem, random_search
from mohamjax.search.codesign import (
    BUDGETS,
    Budget,
    Listener,
    SearchResult,
    Settings,
    co_optimise,
    expected_cost,
    runnable,
)
from mohamjax.search.mapper import MapperConfig, MapperProgress, cache_folder, map_layers
from mohamjax.search.moham import (
    PAPER_RATES,
    MohamConfig,
    MohamContext,
    Progress,
    Rates,
    anywhere,
    build_context,
    design_problem,
    list_designs,
    log_hypervolume,
    run,
    seed_designs,
)
from mohamjax.search.requirements import Requirements, load_requirements, survey

__all__ = [
    "BUDGETS",
    "PAPER_RATES",
    "Budget",
    "Listener",
    "MapperConfig",
    "MapperProgress",
    "MohamConfig",
    "MohamContext",
    "Progress",
    "Rates",
    "Requirements",
    "SearchResult",
    "Settings",
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
    "map_layers",
    "plain_problem",
    "random_search",
    "run",
    "runnable",
    "seed_designs",
    "survey",
]
