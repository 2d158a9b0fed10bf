"""mohamjax: co-optimisation of multi-chiplet, multi-tenant DNN accelerators on one JAX engine.

The main functions, each with an example in its docstring (`import mohamjax as mj`):

- a problem: `load_scenario`, `load_onnx`, `Package` and its `Memory`, `DesignProblem`;
- its mappings: `map_layers` searches them, `sample_mappings` draws some, `evaluate_mappings` evaluates yours;
- its designs: `problem.arrays(tables)` is their space, `sample_designs` draws some, `evaluate` and `report` evaluate
  them; `decode_design` turns any point of the unit cube into one, for an optimiser of your own;
- what-if questions about the hardware: `what_if` evaluates designs on a grid of variants, `sensitivities` says what
  each hardware number changes, `uncertainty` how certain a front is;
- `search` finds the front, `decide` chooses from it, `timetable` lists the schedule of one design, and `write_results`
  writes its results folder, for the command line; `codesign` finds one accelerator for a set of networks (UNICO);
- files: `read_designs` and `read_schedules` read one, `evaluate_files` evaluates many, `write_designs` writes designs;
- schedules by themselves: `simulate` evaluates them, `schedule_jobs` searches them;
- `use_cache` keeps compiled programs on disk; `over_devices` spreads a batched function over devices;
- `emo`: ranking, crowding, hypervolume, and `emo.NSGA2` with `init`, `ask`, `tell`.

Importing this package starts no device work and changes no global JAX setting; JAX is imported with the first use.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from mohamjax.version import __version__

if TYPE_CHECKING:
    from mohamjax import emo as emo
    from mohamjax.api import codesign as codesign
    from mohamjax.api import decide as decide
    from mohamjax.api import load_onnx as load_onnx
    from mohamjax.api import map_layers as map_layers
    from mohamjax.api import read_designs as read_designs
    from mohamjax.api import read_schedules as read_schedules
    from mohamjax.api import schedule_jobs as schedule_jobs
    from mohamjax.api import search as search
    from mohamjax.api import timetable as timetable
    from mohamjax.api import write_designs as write_designs
    from mohamjax.api import write_results as write_results
    from mohamjax.hardware import Memory as Memory
    from mohamjax.hardware import PackageParameters as Package
    from mohamjax.io.batch import evaluate_files as evaluate_files
    from mohamjax.mapper.random_mappings import sample_mappings as sample_mappings
    from mohamjax.mapping.own_costs import evaluate_mappings as evaluate_mappings
    from mohamjax.problem.design_problem import DesignProblem as DesignProblem
    from mohamjax.problem.evaluation import evaluate as evaluate
    from mohamjax.problem.evaluation import report as report
    from mohamjax.runtime.devices import over_devices as over_devices
    from mohamjax.runtime.programs import use_cache as use_cache
    from mohamjax.schedule import simulate as simulate
    from mohamjax.schedule.own_measures import Limit as Limit
    from mohamjax.schedule.own_measures import Objective as Objective
    from mohamjax.search.unit_cube import decode_design as decode_design
    from mohamjax.search.unit_cube import design_dimensions as design_dimensions
    from mohamjax.search.unit_cube import sample_designs as sample_designs
    from mohamjax.whatif.study import sensitivities as sensitivities
    from mohamjax.whatif.study import uncertainty as uncertainty
    from mohamjax.whatif.study import what_if as what_if
    from mohamjax.workload import load_scenario as load_scenario

__all__ = [
    "DesignProblem",
    "Limit",
    "Memory",
    "Objective",
    "Package",
    "__version__",
    "codesign",
    "decide",
    "decode_design",
    "design_dimensions",
    "emo",
    "evaluate",
    "evaluate_files",
    "evaluate_mappings",
    "load_onnx",
    "load_scenario",
    "map_layers",
    "over_devices",
    "read_designs",
    "read_schedules",
    "report",
    "sample_designs",
    "sample_mappings",
    "schedule_jobs",
    "search",
    "sensitivities",
    "simulate",
    "timetable",
    "uncertainty",
    "use_cache",
    "what_if",
    "write_designs",
    "write_results",
]

_HOMES = {
    "DesignProblem": "problem.design_problem",
    "Limit": "schedule.own_measures",
    "Memory": "hardware",
    "Objective": "schedule.own_measures",
    "Package": "hardware:PackageParameters",
    "codesign": "api",
    "decide": "api",
    "decode_design": "search.unit_cube",
    "design_dimensions": "search.unit_cube",
    "evaluate": "problem.evaluation",
    "evaluate_files": "io.batch",
    "evaluate_mappings": "mapping.own_costs",
    "load_onnx": "api",
    "load_scenario": "workload",
    "map_layers": "api",
    "over_devices": "runtime.devices",
    "read_designs": "api",
    "read_schedules": "api",
    "report": "problem.evaluation",
    "sample_designs": "search.unit_cube",
    "sample_mappings": "mapper.random_mappings",
    "schedule_jobs": "api",
    "search": "api",
    "sensitivities": "whatif.study",
    "simulate": "schedule",
    "timetable": "api",
    "uncertainty": "whatif.study",
    "use_cache": "runtime.programs",
    "what_if": "whatif.study",
    "write_designs": "api",
    "write_results": "api",
}
"""The module of each name, `module` or `module:name`. `emo` is a package, and `search` a package and a function."""


def __getattr__(name: str) -> Any:
    if name == "emo":
        return importlib.import_module("mohamjax.emo")
    if name not in _HOMES:
        raise AttributeError(f"module 'mohamjax' has no attribute {name!r}")
    if name == "search":
        importlib.import_module("mohamjax.search")  # before its importers, or two threads may wait for each other
    module, _, own = _HOMES[name].partition(":")
    function = getattr(importlib.import_module(f"mohamjax.{module}"), own or name)
    if name == "search":
        # The function gets the attributes of the package, so that `mohamjax.search.Settings` works too.
        function.__dict__ = vars(importlib.import_module("mohamjax.search"))
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted(__all__)


class _Mohamjax(types.ModuleType):
    """The type of this package, in which the name `search` stays free for the function.

    Python binds an imported subpackage to its name in the parent package. `from mohamjax.search import ...` works
    without that: it looks into `sys.modules`.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "search" or not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Mohamjax
