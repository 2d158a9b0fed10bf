"""`python -m mohamjax.cli`."""

from mohamjax.cli import command

command()
