"""Loop nests: the encoding of a mapping, the map space, and the cost model."""

from mohamjax.mapping.accesses import AccessCounts, Counting, count_accesses
from mohamjax.mapping.cost import (
    REASONS,
    CycleCounts,
    EnergyBreakdown,
    Evaluation,
    area,
    cycles,
    energy,
    evaluate_batch,
    minimal_hardware,
    offchip_bytes,
    plausible,
    validity,
)
from mohamjax.mapping.explain import explain, explanation_text
from mohamjax.mapping.nest import LayerArrays, Mapping
from mohamjax.mapping.notation import loop_nest, mapping_from_dict, mapping_to_dict, mappings_to_dicts
from mohamjax.mapping.own_costs import MappingCosts, told_reason
from mohamjax.mapping.predict import Sample, predict
from mohamjax.mapping.space import (
    Constraints,
    constraints,
    encode,
    layer_arrays,
    map_space,
    prime_factors,
    stacked_layers,
)
from mohamjax.mapping.tables import MappingTables, OwnHardware, on_own_hardware, recast, tabulate, tabulate_sets
from mohamjax.mapping.wires import ArraySizes, Wires, hop_columns, least_hops, wires

__all__ = [
    "REASONS",
    "AccessCounts",
    "ArraySizes",
    "Constraints",
    "Counting",
    "CycleCounts",
    "EnergyBreakdown",
    "Evaluation",
    "LayerArrays",
    "Mapping",
    "MappingCosts",
    "MappingTables",
    "OwnHardware",
    "Sample",
    "Wires",
    "area",
    "constraints",
    "count_accesses",
    "cycles",
    "encode",
    "energy",
    "evaluate_batch",
    "explain",
    "explanation_text",
    "hop_columns",
    "layer_arrays",
    "least_hops",
    "loop_nest",
    "map_space",
    "mapping_from_dict",
    "mapping_to_dict",
    "mappings_to_dicts",
    "minimal_hardware",
    "offchip_bytes",
    "on_own_hardware",
    "plausible",
    "predict",
    "prime_factors",
    "recast",
    "stacked_layers",
    "tabulate",
    "tabulate_sets",
    "told_reason",
    "validity",
    "wires",
]
