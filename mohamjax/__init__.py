"""mohamjax: co-optimisation of multi-chiplet, multi-tenant DNN accelerators on one JAX engine.

Importing this package starts no device work and changes no global JAX setting.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
