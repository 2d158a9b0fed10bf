"""Settings of the layer mapper: sizes and variant, rates of the operators, and named presets of both; and its progress.

The presets are the mapper's own settings, those of MEDEA's paper, and those of released code.
"""

from __future__ import annotations

import dataclasses
import os

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.runtime.checks import check_whole
from mohamjax.runtime.platforms import accelerated
from mohamjax.runtime.struct import record

CHOICES = {
    "operators": ("own", "medea", "medea-released"),
    "scale": ("log", "linear"),
    "front": ("archive", "population"),
}
"""Allowed values of those settings of the mapper that are words; the default comes first."""


@dataclasses.dataclass(frozen=True)
class MapperConfig:
    """Sizes and variant of the mapper; static.

    Attributes:
        population: P, individuals per problem.
        generations: generations after the first population.
        immigrants: random individuals that join every generation.
        descent: most rounds of descent after the last generation, each with as many evaluations as a generation:
            better neighbours (`mapping_operators.neighbours`) replace members of the archive, until there is no
            neighbour left to try.
        archive: A, most non-dominated mappings remembered per problem during the search.
        entries: M, most mappings of a Pareto set in the result.
        block: B, problems searched in one call on each device; 0 means 8 on a processor, and all of them, up to 1,024,
            on an accelerator. Except for rounding, the result does not depend on it.
        threads: blocks searched at a time; 0 means the number of cores, or one on an accelerator. Where several devices
            share a block it is always one.
        fixed: evaluate on the templates at their largest sizes, with the limits of their own off-chip memory, instead
            of on each mapping's minimal hardware. The area is then that of the template, and the third objective of the
            search is the energy-delay product.
        distinct: mappings with equal objectives count once in survival.
        padding: mappings may cover larger bounds than those of the layer, a few per dimension (`mapping.padding`); all
            work of the padded problem then counts.
        operators: `own` (`mapper.mapping_operators`), `medea` as the paper prints them or `medea-released` as its code
            has them (`mapper.medea`).
        scale: crowding distances are computed from the objectives' logarithms (`log`) or, as in NSGA-II, from the
            objectives themselves (`linear`).
        front: where the sets are taken from: an `archive` of all evaluated mappings, or the first front of the final
            `population`, which allows no descent. Either holds at most `archive` mappings.
    """

    population: int = 120
    generations: int = 15
    immigrants: int = 12
    descent: int = 32
    archive: int = 256
    entries: int = 128
    block: int = 0
    threads: int = 0
    fixed: bool = False
    distinct: bool = True
    padding: bool = True
    operators: str = "own"
    scale: str = "log"
    front: str = "archive"

    @property
    def evaluations(self) -> int:
        """Most mappings that the search of one problem evaluates."""
        return (self.generations + 1 + self.descent) * (self.population + self.immigrants)

    def problems_at_once(self, problems: int) -> int:
        """B for a number of problems on this machine, such that scenarios of any number of layers share programs.

        On a processor small blocks spread the problems over the cores and spend little on the padding of the last one;
        a problem takes no longer in them.
        """
        if self.block:
            return self.block
        return min(1024, max(32, -(-problems // 32) * 32)) if accelerated() else 8

    def blocks_at_once(self) -> int:
        """Blocks searched at a time on this machine."""
        return self.threads or (1 if accelerated() else os.cpu_count() or 1)

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        check_whole(self, "mapper settings", {
            "population": 4, "generations": 0, "immigrants": 0, "descent": 0, "archive": 6, "entries": 6, "block": 0,
            "threads": 0,
        })  # fmt: skip
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}",
                    item="mapper settings",
                    remedy=f"use one of {', '.join(choices)}",
                )
        if self.front == "population" and self.descent:
            raise InputError(
                f"descent is {self.descent}, but the result is the front of the final population",
                item="mapper settings",
                remedy="set descent to 0, or front to archive",
            )

    def content(self) -> dict[str, object]:
        """All settings that sets depend on, for hashes; words at their default are left out."""
        fields = {k: v for k, v in dataclasses.asdict(self).items() if k not in ("block", "threads")}
        return {k: v for k, v in fields.items() if k not in CHOICES or v != CHOICES[k][0]}


@record
class MapperRates:
    """Probability that an operator touches a pair (crossover) or a child (mutations); 0 switches it off.

    The defaults did best on seven layers of ResNet50 and BERT; `PAPER_RATES` are the MEDEA paper's.

    Attributes:
        crossover: level crossover.
        random: random mutation.
        fill: bottom-up fill mutation.
        parallelise: parallelising mutation.
        pad: padding mutation, in spaces where a mapping may cover several bounds.
        bypass: bypass mutation, where a template leaves one open.
    """

    crossover: jax.typing.ArrayLike = dataclasses.field(default_factory=lambda: np.float32(1.0))
    random: jax.typing.ArrayLike = dataclasses.field(default_factory=lambda: np.float32(0.8))
    fill: jax.typing.ArrayLike = dataclasses.field(default_factory=lambda: np.float32(0.2))
    parallelise: jax.typing.ArrayLike = dataclasses.field(default_factory=lambda: np.float32(0.2))
    pad: jax.typing.ArrayLike = dataclasses.field(default_factory=lambda: np.float32(0.1))
    bypass: jax.typing.ArrayLike = dataclasses.field(default_factory=lambda: np.float32(0.2))


PAPER_RATES = MapperRates(
    random=np.float32(0.4),
    fill=np.float32(0.7),
    parallelise=np.float32(0.7),
    pad=np.float32(0.0),
    bypass=np.float32(0.0),
)
"""The MEDEA paper's probabilities (Section V), with crossover always, as in the released code. The paper neither pads
nor mutates bypasses; only crossover passes these on."""


@dataclasses.dataclass(frozen=True)
class MapperPreset:
    """Sizes, variant and rates of a mapper.

    Attributes:
        config: sizes and variant; None for those of a budget.
        rates: probabilities of the operators.
    """

    config: MapperConfig | None
    rates: MapperRates


_MEDEA = MapperConfig(
    population=120,
    generations=15,
    immigrants=0,
    descent=0,
    distinct=False,
    padding=False,
    operators="medea",
    scale="linear",
    front="population",
)
_RELEASED = dataclasses.replace(_MEDEA, operators="medea-released")
_IN_MOHAM = dataclasses.replace(PAPER_RATES, fill=np.float32(0.2), parallelise=np.float32(0.2))

MAPPER_PRESETS = {
    "default": MapperPreset(None, MapperRates()),
    "medea": MapperPreset(_MEDEA, PAPER_RATES),
    "medea-released": MapperPreset(_RELEASED, PAPER_RATES),
    "moham-released": MapperPreset(dataclasses.replace(_RELEASED, immigrants=20), _IN_MOHAM),
}
"""Presets by name.

`default` has the sizes of a budget and our operators. `medea` follows the text of the MEDEA paper (Sections IV and V):
15 generations of 120; random, fill and parallelising mutation at rates .4, .7 and .7; nothing of ours; the first front
of the final population. `medea-released` has the operators of its code (`mapper.medea` tells how they differ) and the
same numbers. `moham-released` is that mapper as MOHaM's code sets it: rates .4, .2 and .2, and 20 random immigrants per
generation.
"""


def mapper_preset(name: str) -> MapperPreset:
    """A preset by name.

    Raises:
        InputError: there is no such preset.
    """
    if name not in MAPPER_PRESETS:
        raise InputError(
            f"unknown preset {name!r} of the mapper",
            argument="preset",
            remedy=f"use one of {', '.join(MAPPER_PRESETS)}",
        )
    return MAPPER_PRESETS[name]


@dataclasses.dataclass(frozen=True)
class MapperProgress:
    """Progress of the mapper, passed to the caller after every generation of every block.

    Attributes:
        problems: (unique layer, template) pairs in all.
        cached: pairs whose set was on disk.
        done: pairs whose search has ended, cached ones included.
        evaluations: mappings evaluated so far.
        total: mappings to evaluate in all.
        seconds: since the search began, compiling included.
        compile_s: of these, seconds spent on compiling so far.
    """

    problems: int
    cached: int
    done: int
    evaluations: int
    total: int
    seconds: float
    compile_s: float = 0.0
