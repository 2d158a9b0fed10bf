"""Networks, and the hardware that systems for them are built from."""

from __future__ import annotations

import dataclasses
from typing import TypedDict

import jax

from mohamjax.hardware import PackageParameters, Technology, Template, TemplateArrays, template_arrays
from mohamjax.workload import ApplicationModel


class SetupParts(TypedDict):
    """The fields of a `Setup`."""

    application: ApplicationModel
    templates: tuple[Template, ...]
    technology: Technology
    package: PackageParameters


@dataclasses.dataclass(frozen=True)
class Setup:
    """What the evaluation of a design depends on besides the design and the tables of its mappings.

    Attributes:
        application: the networks that run together.
        templates: T templates, in the order of tables and designs, with the memory of the package
            (`hardware.with_memory`).
        technology: energy and area tables, in any float dtype.
        package: package parameters.
    """

    application: ApplicationModel
    templates: tuple[Template, ...]
    technology: Technology
    package: PackageParameters

    def of(self, application: ApplicationModel) -> Setup:
        """The same hardware for other networks."""
        return Setup(application, self.templates, self.technology, self.package)

    @property
    def parts(self) -> SetupParts:
        """The four fields by name, to build instances of subclasses: `Evaluated(**setup.parts, tables=...)`."""
        return {
            "application": self.application,
            "templates": self.templates,
            "technology": self.technology,
            "package": self.package,
        }

    def machines(self, levels: int, dtype: jax.typing.DTypeLike) -> TemplateArrays:
        """The templates as arrays `[T, ...]`.

        Args:
            levels: V, levels of the arrays; at least those of the deepest template.
            dtype: float dtype; float64 needs JAX's x64 mode.
        """
        return template_arrays(self.templates, self.technology, levels=levels, dtype=dtype)
