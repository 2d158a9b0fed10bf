"""Pareto sets of mappings in a file, format `mappings/1` (JSON).

`sets` has one entry per unique layer and template that runs it: `{"layer" (the first of its kind), "layers" (how many
share it), "type", "bounds", "stride", "dilation", "template", "mappings"}`; every mapping has `latency_cycles` (without
off-chip limits), `energy_pJ` and `area_um2` of its own minimal hardware, `offchip_bytes`, and its loop nest: `levels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mohamjax import __version__
from mohamjax.hardware import Template
from mohamjax.mapping import MappingTables, mapping_to_dict
from mohamjax.workload import DIMS, ApplicationModel

__all__ = ["MAPPINGS_FORMAT", "mappings_document"]

MAPPINGS_FORMAT = "mappings/1"


def mappings_document(
    application: ApplicationModel, templates: Sequence[Template], tables: MappingTables
) -> dict[str, Any]:
    """The content of a `mappings/1` file.

    Args:
        application: networks whose unique layers were mapped.
        templates: T templates.
        tables: their Pareto tables `[U, T, M, ...]`.
    """
    sets = []
    owners = application.unique_of_layer
    for u, unique in enumerate(application.unique_layers):
        first = owners.index(u)
        network = application.networks[application.network_of_layer[first]].name
        for t, template in enumerate(templates):
            count = int(np.asarray(tables.count)[u, t])
            if count == 0:
                continue
            mappings = []
            for m in range(count):
                latency, energy, area = (float(x) for x in np.asarray(tables.objectives)[u, t, m])
                nest = jax.tree.map(lambda leaf, at=(u, t, m): np.asarray(leaf)[at], tables.mapping)
                mappings.append(
                    {
                        "latency_cycles": latency,
                        "energy_pJ": energy,
                        "area_um2": area,
                        "offchip_bytes": float(np.asarray(tables.offchip_bytes)[u, t, m]),
                        **mapping_to_dict(nest, template.level_names),
                    }
                )
            sets.append(
                {
                    "layer": f"{network}/{application.layers[first].name}",
                    "layers": owners.count(u),
                    "type": unique.type,
                    "bounds": {d: b for d, b in zip(DIMS, unique.shape.bounds, strict=True) if b > 1},
                    "stride": list(unique.shape.stride),
                    "dilation": list(unique.shape.dilation),
                    "template": template.name,
                    "mappings": mappings,
                }
            )
    return {"format": MAPPINGS_FORMAT, "mohamjax": __version__, "sets": sets}
