"""Input of a hardware search: networks, the accelerators to choose from, and the tables for their costs."""

from __future__ import annotations

import dataclasses

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, Technology, load_technology, with_memory
from mohamjax.unico.space import HardwareSpace, check_layers
from mohamjax.workload import ApplicationModel


@dataclasses.dataclass(frozen=True)
class CodesignProblem:
    """Networks and the hardware space of a search, checked on construction.

    Attributes:
        application: networks; latency and energy are summed over them.
        space: hardware space. The off-chip level of its variants becomes the memory of the package.
        technology: energy and area tables; default the packaged ones.
        package: the package, which holds one accelerator; `max_tiles` is set to 1.

    Raises:
        InputError: some template of the space cannot run every layer, or the technology counts static energy.
    """

    application: ApplicationModel
    space: HardwareSpace
    technology: Technology = dataclasses.field(default_factory=load_technology)
    package: PackageParameters = dataclasses.field(default_factory=PackageParameters)

    def __post_init__(self) -> None:
        """Checks the parts, and adapts space and package to each other."""
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
