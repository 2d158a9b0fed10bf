"""Tables of the experiments: printed as they come, and written as Markdown with their date and machine."""

import datetime
import os
import pathlib

import jax


class Report:
    """Lines of a Markdown table, printed as they come, kept for a file."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        self.lines += lines
        print(*lines, sep="\n", flush=True)

    def head(self, *columns: str) -> None:
        self.row(*columns)
        self.row(*["---"] * len(columns))

    def row(self, *cells: object) -> None:
        self.say("| " + " | ".join(map(str, cells)) + " |")

    def write(self, out: pathlib.Path | None) -> None:
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text("\n".join(self.lines) + "\n")


def when_and_where() -> str:
    """Date and machine, for the head of a table."""
    device = jax.devices()[0]
    what = f"{os.cpu_count()} cores of a shared server" if device.platform == "cpu" else device.device_kind
    return f"{datetime.date.today().isoformat()}: {what}, load {os.getloadavg()[0]:.1f}, JAX {jax.__version__}"
