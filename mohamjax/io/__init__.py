"""Reading and writing files: results, designs, schedules, mappings, samples, checkpoints.

Modules that an evaluation of designs does not need (such as those that import `mohamjax.search`) are imported on first
use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from mohamjax.io.design_arrays import problem_document, read_design_arrays, write_design_arrays, write_front_arrays
from mohamjax.io.designs import (
    EXPLANATIONS_FORMAT,
    DesignRow,
    check_wanted,
    choose_designs,
    designs_document,
    evaluate_designs,
    evaluate_file,
    evaluation_csv,
    explain_designs,
    explanations_text,
    read_designs,
    schedules_document,
    write_design_trace,
    write_designs,
)
from mohamjax.io.documents import one_file, read_document
from mohamjax.io.files import (
    check_format,
    dump_json,
    locked_folder,
    prepare_folder,
    read_json,
    rows_text,
    write_text,
    write_together,
)
from mohamjax.io.formats import DESIGNS_FORMAT, SCHEDULE_FORMAT, is_batch, written_as
from mohamjax.io.mapping_cache import MappingCache, cache_folder, mapping_cache

if TYPE_CHECKING:
    from mohamjax.io.batch import BatchProgress, BatchSummary, evaluate_files
    from mohamjax.io.checkpoint import CheckpointFile, read_checkpoint, write_checkpoint
    from mohamjax.io.inputs import Inputs, find_inputs, keep_inputs
    from mohamjax.io.job_transfer import read_transfer, write_transfer
    from mohamjax.io.mappings import MAPPINGS_FORMAT, best_nests, given_mappings, mappings_document
    from mohamjax.io.nest_costs import NestRow, evaluate_nests
    from mohamjax.io.results import front_csv, front_rows, read_certificate, write_front_files
    from mohamjax.io.robust import package_rows, price_rows, read_comparisons, robust_rows, write_robust_results
    from mohamjax.io.schedules import evaluate_schedules
    from mohamjax.io.timeloop import TimeloopInput, evaluate_timeloop, read_timeloop
    from mohamjax.io.timeloop_template import template_constraints, write_timeloop_template
    from mohamjax.io.timeloop_writer import (
        TimeloopExport,
        template_architecture,
        timeloop_documents,
        write_timeloop,
        write_timeloop_designs,
        write_timeloop_mappings,
    )
    from mohamjax.io.validation import Validated, validate_file
    from mohamjax.search.resumed import HISTORY_COLUMNS

__all__ = [
    "DESIGNS_FORMAT",
    "EXPLANATIONS_FORMAT",
    "HISTORY_COLUMNS",
    "MAPPINGS_FORMAT",
    "SCHEDULE_FORMAT",
    "BatchProgress",
    "BatchSummary",
    "CheckpointFile",
    "DesignRow",
    "Inputs",
    "MappingCache",
    "NestRow",
    "TimeloopExport",
    "TimeloopInput",
    "Validated",
    "best_nests",
    "cache_folder",
    "check_format",
    "check_wanted",
    "choose_designs",
    "designs_document",
    "dump_json",
    "evaluate_designs",
    "evaluate_file",
    "evaluate_files",
    "evaluate_nests",
    "evaluate_schedules",
    "evaluate_timeloop",
    "evaluation_csv",
    "explain_designs",
    "explanations_text",
    "find_inputs",
    "front_csv",
    "front_rows",
    "given_mappings",
    "is_batch",
    "keep_inputs",
    "locked_folder",
    "mapping_cache",
    "mappings_document",
    "one_file",
    "package_rows",
    "prepare_folder",
    "price_rows",
    "problem_document",
    "read_certificate",
    "read_checkpoint",
    "read_comparisons",
    "read_design_arrays",
    "read_designs",
    "read_document",
    "read_json",
    "read_timeloop",
    "read_transfer",
    "robust_rows",
    "rows_text",
    "schedules_document",
    "template_architecture",
    "template_constraints",
    "timeloop_documents",
    "validate_file",
    "write_checkpoint",
    "write_design_arrays",
    "write_design_trace",
    "write_designs",
    "write_front_arrays",
    "write_front_files",
    "write_robust_results",
    "write_text",
    "write_timeloop",
    "write_timeloop_designs",
    "write_timeloop_mappings",
    "write_timeloop_template",
    "write_together",
    "write_transfer",
    "written_as",
]

_LATE = {
    "batch": ("BatchProgress", "BatchSummary", "evaluate_files"),
    "checkpoint": ("CheckpointFile", "read_checkpoint", "write_checkpoint"),
    "inputs": ("Inputs", "find_inputs", "keep_inputs"),
    "job_transfer": ("read_transfer", "write_transfer"),
    "mappings": ("MAPPINGS_FORMAT", "best_nests", "given_mappings", "mappings_document"),
    "nest_costs": ("NestRow", "evaluate_nests"),
    "results": ("HISTORY_COLUMNS", "front_csv", "front_rows", "read_certificate", "write_front_files"),
    "robust": ("package_rows", "price_rows", "read_comparisons", "robust_rows", "write_robust_results"),
    "schedules": ("evaluate_schedules",),
    "timeloop": ("TimeloopInput", "evaluate_timeloop", "read_timeloop"),
    "timeloop_template": ("template_constraints", "write_timeloop_template"),
    "timeloop_writer": (
        "TimeloopExport",
        "template_architecture",
        "timeloop_documents",
        "write_timeloop",
        "write_timeloop_designs",
        "write_timeloop_mappings",
    ),
    "validation": ("Validated", "validate_file"),
}


def __getattr__(name: str) -> object:
    for module, names in _LATE.items():
        if name in names:
            return getattr(importlib.import_module(f"mohamjax.io.{module}"), name)
    raise AttributeError(f"module 'mohamjax.io' has no attribute {name!r}")
