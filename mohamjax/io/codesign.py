"""The results folder of a hardware search, in the formats of a search (docs/formats.md).

- `front.csv`: the columns of a `search`, then `power_W`, `robustness`, `samples`, `generations` and the sizes of the
  hardware;
- `designs.json` (`designs/1`): every accelerator of the front alone in its package, with its sizes and the mappings of
  every layer, for `evaluate designs` and the exports;
- `history.csv`: a row per batch: `batch, hardware, evaluations, modelled_generations, seconds, front_size, hypervolume`
  (reference point 1.1, on log axes scaled to the minimum and maximum of all points that this search measured);
- `hardware.csv`: a row per hardware point measured; `config.yaml`; `checkpoint.npz`; `figures/`.
"""

from __future__ import annotations

import pathlib

import numpy as np
import yaml

from mohamjax.io.designs import designs_text
from mohamjax.io.files import csv_text, write_together
from mohamjax.io.results import HARDWARE_FILE, earlier_files, front_rows, remove_files
from mohamjax.runtime.struct import plain
from mohamjax.schedule import Evaluated
from mohamjax.unico.results import evaluated_front, hardware_rows, history_rows, power_of
from mohamjax.unico.search import CodesignResult


def codesign_front(result: CodesignResult, evaluated: Evaluated, kept: np.ndarray) -> list[dict[str, object]]:
    """The rows of `front.csv`, one per design."""
    history, rows = result.history, result.front[kept]
    power = power_of(result, evaluated)
    out = []
    for i, row in enumerate(front_rows(evaluated)):
        at = rows[i]
        values = result.space.values(result.space.digits(history["index"][at : at + 1])[0])
        model = result.config.ppa == "model"
        own = {
            "power_W": float(power[i]) if model else float(history["power_W"][at]),
            "robustness": float(history["robustness"][at]),
            "samples": int(history["samples"][at]),
            "generations": int(history["generations"][at]),
        }
        if not model:
            row["area_mm2"] = float(history["area_mm2"][at])
        out.append({**row, **own, **values})
    return out


def write_codesign(folder: pathlib.Path, result: CodesignResult) -> list[dict[str, object]]:
    """Writes all files of a results folder, except figures and checkpoint, all or none of them.

    Other files of an earlier search are removed (`earlier_files`).

    Args:
        folder: from `io.prepare_folder`.
        result: the result of the search.

    Returns:
        The rows of `front.csv`.

    Raises:
        InputError: the files cannot be written; the folder is as it was.
    """
    evaluated, kept = evaluated_front(result)
    front = codesign_front(result, evaluated, kept)
    earlier = earlier_files(folder)
    files = {
        folder / "front.csv": csv_text(front),
        folder / "designs.json": designs_text(evaluated, result.application.name),
        folder / "history.csv": csv_text(history_rows(result)),
        folder / HARDWARE_FILE: csv_text(hardware_rows(result)),
        folder / "config.yaml": yaml.safe_dump(plain(result.record()), sort_keys=False, allow_unicode=True),
    }
    write_together(files)
    remove_files(earlier, files)
    return front
