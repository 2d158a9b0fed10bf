"""Mappers: the layer mapper (MEDEA), which finds Pareto sets of mappings; baselines; and enumeration."""

from mohamjax.mapper.baselines import COSTS, METHODS, BaselineMapper, check_choice
from mohamjax.mapper.config import (
    MAPPER_PRESETS,
    MapperConfig,
    MapperPreset,
    MapperProgress,
    MapperRates,
    mapper_preset,
)
from mohamjax.mapper.exhaustive import Enumeration, ExhaustiveProgress, SpaceSize, space_size
from mohamjax.mapper.layer_mapper import LayerMapper, TableStore
from mohamjax.mapper.network_level import NetworkChoice, network_choices
from mohamjax.mapper.one_axis import kept_templates, one_axis_templates, over_one_axis, over_variants
from mohamjax.mapper.random_mappings import sample_mappings
from mohamjax.mapper.sieve import SieveConfig, sieved_choices

__all__ = [
    "COSTS",
    "MAPPER_PRESETS",
    "METHODS",
    "BaselineMapper",
    "Enumeration",
    "ExhaustiveProgress",
    "LayerMapper",
    "MapperConfig",
    "MapperPreset",
    "MapperProgress",
    "MapperRates",
    "NetworkChoice",
    "SieveConfig",
    "SpaceSize",
    "TableStore",
    "check_choice",
    "kept_templates",
    "mapper_preset",
    "network_choices",
    "one_axis_templates",
    "over_one_axis",
    "over_variants",
    "sample_mappings",
    "sieved_choices",
    "space_size",
]
