"""`python -m mohamjax`."""

from mohamjax.cli import command

command()
