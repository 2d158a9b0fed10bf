"""Loop nests: the encoding of a mapping, the map space, and the cost model."""

from mohamjax.mapping.nest import LayerArrays, Mapping

__all__ = ["LayerArrays", "Mapping"]
