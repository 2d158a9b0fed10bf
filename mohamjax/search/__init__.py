"""What is searched and how: the layer mapper (MEDEA) and the co-optimiser (MOHaM) on one generation loop."""

from mohamjax.search.baselines import random_search
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
    Progress,
    Rates,
    build_context,
    log_hypervolume,
    run,
    seed_designs,
)

__all__ = [
    "BUDGETS",
    "PAPER_RATES",
    "Budget",
    "Listener",
    "MapperConfig",
    "MapperProgress",
    "MohamConfig",
    "Progress",
    "Rates",
    "SearchResult",
    "Settings",
    "build_context",
    "cache_folder",
    "co_optimise",
    "expected_cost",
    "log_hypervolume",
    "map_layers",
    "random_search",
    "run",
    "runnable",
    "seed_designs",
]
