"""What-if results as CSV files with any columns."""

from __future__ import annotations

from collections import abc

import numpy as np

from mohamjax.io.files import csv_lines


def _cells(column: np.ndarray) -> list[str]:
    """A column as texts from which its values can be read back exactly."""
    if column.dtype == bool:
        return ["1" if value else "0" for value in column]
    if np.issubdtype(column.dtype, np.floating):
        return ["" if np.isnan(value) else str(value) for value in column]
    return [str(value) for value in column]


def columns_csv(columns: abc.Mapping[str, np.ndarray]) -> str:
    """Columns of equal length as CSV text; floats in full precision, NaN as empty, booleans as 0 and 1.

    Args:
        columns: columns by name, `[R]` each.
    """
    rows = zip(*(_cells(np.asarray(column)) for column in columns.values()), strict=True)
    return csv_lines([list(columns), *rows])
