"""Settings of the layer mapper, and how far it is."""

from __future__ import annotations

import dataclasses
import os

from mohamjax.runtime.checks import check_whole
from mohamjax.runtime.platforms import accelerated


@dataclasses.dataclass(frozen=True)
class MapperConfig:
    """Sizes of the mapper; static.

    Attributes:
        population: P, individuals per problem.
        generations: generations after the first population.
        immigrants: random individuals that join every generation.
        descent: rounds after the last generation, each of as many evaluations: the members of the archive are replaced
            by better ones among all their neighbours (`mapping_operators.neighbours`), until none is left to try.
        archive: A, non-dominated mappings remembered per problem during the search.
        entries: M, mappings of a Pareto set that are handed on.
        block: B, problems searched in one call; 0 for 32 on a processor, and on an accelerator for all, up to 1,024.
            Of every device where there are several. What is found does not depend on it, but for rounding.
        threads: blocks searched at a time; 0 for the number of cores, and on an accelerator for one; always one where
            several devices share it.
        fixed: evaluate on the templates as they are at their largest sizes, with the limits of their own off-chip
            memory, instead of on each mapping's minimal hardware. Area is then the template's, and the search's third
            objective the energy-delay product.
        distinct: mappings with equal objectives count once in survival.
        padding: mappings may cover larger bounds than the layer's, a few per dimension (`mapping.padding`); all work of
            the padded problem then counts.
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

    @property
    def evaluations(self) -> int:
        """Most mappings that the search of one problem evaluates."""
        return (self.generations + 1 + self.descent) * (self.population + self.immigrants)

    def problems_at_once(self, problems: int) -> int:
        """B for so many problems, on the machine at hand; multiples of 32, so that scenarios share programs."""
        if self.block:
            return self.block
        return min(1024, max(32, -(-problems // 32) * 32)) if accelerated() else 32

    def blocks_at_once(self) -> int:
        """Blocks searched at a time, on the machine at hand."""
        return self.threads or (1 if accelerated() else os.cpu_count() or 1)

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        check_whole(self, "mapper settings", {
            "population": 4, "generations": 0, "immigrants": 0, "descent": 0, "archive": 6, "entries": 6, "block": 0,
            "threads": 0,
        })  # fmt: skip


@dataclasses.dataclass(frozen=True)
class MapperProgress:
    """How far the mapper is; passed to the caller after every generation of every block.

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
