"""What a hardware search is of: networks, the accelerators to choose from, and what both are measured with."""

from __future__ import annotations

import dataclasses

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, Technology, load_technology, with_memory
from mohamjax.unico.space import HardwareSpace, check_layers
from mohamjax.workload import ApplicationModel


@dataclasses.dataclass(frozen=True)
class CodesignProblem:
    """Networks and the hardware space of a search, checked once.

    Attributes:
        application: networks; latency and energy are summed over them.
        space: hardware space. Its variants take the memory of the package for their off-chip level.
        technology: energy and area tables; default the packaged ones.
        package: the package in which an accelerator stands alone; it has one tile, also where more are given.

    Raises:
        InputError: some layer runs on no template of the space, or the technology counts static energy.
    """

    application: ApplicationModel
    space: HardwareSpace
    technology: Technology = dataclasses.field(default_factory=load_technology)
    package: PackageParameters = dataclasses.field(default_factory=PackageParameters)

    def __post_init__(self) -> None:
        """Checks the parts, and brings space and package together."""
        if self.technology.static_share is not None:
            raise InputError(
                "counts static energy, and a hardware search has a leakage of its own",
                argument="technology",
                remedy="leave static energy out, and give `leakage` in W per mm^2",
            )
        check_layers(self.application.unique_layers, self.space)
        variants = with_memory(self.space.variants, self.package.memory)
        object.__setattr__(self, "space", dataclasses.replace(self.space, variants=variants))
        object.__setattr__(self, "package", dataclasses.replace(self.package, max_tiles=1))
