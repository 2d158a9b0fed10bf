"""Hardware: accelerator templates, technology tables, and the package."""

from mohamjax.hardware.machine import DATA_SPACES, Machine

__all__ = ["DATA_SPACES", "Machine"]
