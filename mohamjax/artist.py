"""A process beside a search that draws its figures while the search writes its results.

Drawing takes seconds of Python, which the threads of one process would only share. The process loads what it needs as
soon as it is there, and waits for a front; what it draws comes back as the bytes of files, so that nothing is written
before the results are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from mohamjax.io.files import prepare_folder, write_together

if TYPE_CHECKING:
    from mohamjax.schedule import Evaluated

__all__ = ["Artist"]


class Artist:
    """Such a process; a context manager, at whose end it is gone.

    What hinders it (no memory, no processes) costs time alone: the figures are drawn here then.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._front: tuple[Any, dict[str, Any]] | None = None

    def __enter__(self) -> Artist:
        # This package from where it is, no accelerator, and no Ctrl-C: that is for the search, which ends it.
        home = str(pathlib.Path(__file__).resolve().parents[1])
        paths = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                env={**os.environ, "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError), process:  # of what it has not read
                process.kill()

    def draw(self, evaluated: Evaluated, **what: Any) -> None:
        """Begins to draw.

        Args:
            evaluated: as of `figures.drawn_front`.
            what: likewise.
        """
        self._front = evaluated, what
        # Figures show neither loop nests nor wires, which are most of it.
        tables = dataclasses.replace(evaluated.tables, mapping=None)
        shown = dataclasses.replace(evaluated, wires=None, tables=tables)
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(pickle.dumps((shown, what), pickle.HIGHEST_PROTOCOL))
                self._process.stdin.close()

    def write(self, folder: pathlib.Path) -> None:
        """Writes the figures to a folder, once they are drawn.

        Raises:
            InputError: they cannot be written.
        """
        assert self._front is not None
        evaluated, what = self._front
        files = self._drawn()
        if files is None:
            from mohamjax.figures import drawn_front

            files = dict(drawn_front(evaluated, **what))
        prepare_folder(folder)
        write_together({folder / name: data for name, data in files.items()})

    def _drawn(self) -> dict[str, bytes] | None:
        """Names and contents of the files; None where something went wrong."""
        if self._process is None or self._process.stdout is None:
            return None
        content = self._process.stdout.read()
        return pickle.loads(content) if self._process.wait() == 0 else None


def _main() -> int:
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)  # whatever is printed is none
        from mohamjax.figures import drawn_front
        from mohamjax.plot.style import new_figure, rendered

        rendered(new_figure(1, 1), "png")  # the first figure of a process takes longer
        try:
            evaluated, what = pickle.load(sys.stdin.buffer)
            answer.write(pickle.dumps(dict(drawn_front(evaluated, **what))))
        except Exception:  # nobody asked, or the search meets it again itself
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
