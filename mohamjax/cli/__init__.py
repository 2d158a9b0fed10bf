"""The command line. A file per verb has its options and what it does; the rooms of the house do the work."""

from mohamjax.cli.entry import main

__all__ = ["main"]
