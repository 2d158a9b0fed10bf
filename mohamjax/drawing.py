"""A child process that draws the figures of a search while the search computes bounds and writes its results.

Drawing takes seconds of Python, which threads of one process could only share. The child loads what it needs when it
starts, waits for a front, and returns the figures as the bytes of files, so that none is written before the results.
It saves 14 % of the second `mohamjax search ar-vr --budget tiny` on a machine with two cores, for 1.4 s more of the
processor, and nothing of the first, which compiles for most of its time (`experiments/results/saved_seconds.md`).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import gc
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
from collections import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mohamjax.schedule import Certificate, Evaluated


class _Front(NamedTuple):
    """What is to be drawn, see `FigureProcess.draw`."""

    evaluated: Evaluated
    title: str
    history: Sequence[abc.Mapping[str, float]]


class FigureProcess:
    """A child process that draws figures; a context manager that ends the process on exit.

    If the child cannot be started or dies, for lack of memory for instance, the figures are drawn in this process.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._sender: threading.Thread | None = None
        self._front: _Front | None = None
        self._certificate: concurrent.futures.Future[Certificate | None] = concurrent.futures.Future()

    def __enter__(self) -> FigureProcess:
        if sys.executable:  # empty if Python is embedded in another program
            with contextlib.suppress(OSError):
                # The child imports from the same paths, uses no accelerator, and does not receive Ctrl-C.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "JAX_PLATFORMS": "cpu"},
                )  # fmt: skip
                self._tell(sys.path)
        return self

    def __exit__(self, *_: object) -> None:
        self._certificate.cancel()
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError, ValueError), process:  # about data that it has not read
                process.kill()
        if self._sender is not None:
            self._sender.join()  # ends, since nobody reads any more, and the certificate is set or cancelled

    def draw(self, evaluated: Evaluated, title: str, history: Sequence[abc.Mapping[str, float]]) -> None:
        """Starts to draw all figures but those that show bounds; returns at once.

        Args:
            evaluated: the front.
            title: title of the figures.
            history: rows of the generations, see `SearchResult`.
        """
        self._front = _Front(evaluated, title, history)
        self._sender = threading.Thread(target=self._send, name="figures", daemon=True)
        self._sender.start()

    def certify(self, certificate: Certificate | None) -> None:
        """Gives the bounds to draw with the front; called once, before `write`."""
        self._certificate.set_result(certificate)

    def _send(self) -> None:
        assert self._front is not None
        # Loop orders and wires are most of the data, and figures show neither.
        evaluated = self._front.evaluated
        nests = dataclasses.replace(evaluated.tables.mapping, order=None, spatial_order=None, keep=None)
        tables = dataclasses.replace(evaluated.tables, mapping=nests)
        shown = dataclasses.replace(evaluated, wires=None, tables=tables)
        # If anything goes wrong, the child has nothing to draw, and `write` draws here.
        with contextlib.suppress(Exception):
            self._tell((shown, *self._front[1:]))
            self._tell(self._certificate.result())
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._process.stdin.close()  # pyright: ignore[reportOptionalMemberAccess]

    def _tell(self, content: object) -> None:
        if self._process is not None and self._process.stdin is not None:
            pickle.dump(content, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()

    def write(self, folder: pathlib.Path) -> None:
        """Waits for the figures and writes them to a folder, all or none; `certify` must have been called.

        Args:
            folder: created.

        Raises:
            InputError: they cannot be written.
        """
        from mohamjax.io.files import write_folder

        assert self._front is not None and self._certificate.done()
        files = self._drawn()
        if files is None:
            from mohamjax.figures import drawn_front

            evaluated, title, history = self._front
            files = dict(drawn_front(evaluated, title=title, history=history, certificate=self._certificate.result()))
        write_folder(folder, files)

    def _drawn(self) -> dict[str, bytes] | None:
        """Returns names and contents of the files; None if something went wrong."""
        if self._process is None or self._process.stdout is None:
            return None
        content = self._process.stdout.read()
        return pickle.loads(content) if self._process.wait() == 0 else None


def _main() -> int:
    gc.disable()  # the process draws a few figures and ends; collecting would take a tenth of its time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer = os.dup(1)
    os.dup2(2, 1)  # printed text must stay out of the answer
    try:
        sys.path[:] = pickle.load(sys.stdin.buffer)
        from mohamjax.figures import drawn_front
        from mohamjax.plot.style import new_figure, rendered

        rendered(new_figure(1, 1), "png")  # the first figure of a process takes longer
        evaluated, title, history = pickle.load(sys.stdin.buffer)
        certificate = functools.partial(pickle.load, sys.stdin.buffer)
        files = dict(drawn_front(evaluated, title=title, history=history, certificate=certificate))
        with os.fdopen(answer, "wb") as stream:
            pickle.dump(files, stream)
    except Exception:  # no front was sent, or the search runs into the same error itself
        return 1
    return 0


if __name__ == "__main__":
    os._exit(_main())  # skips the shutdown of JAX, which takes a third of a second
