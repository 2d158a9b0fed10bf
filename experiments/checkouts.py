"""The command line of the checkout that `PYTHONPATH` names, old or new, as a program for `python -c`."""

COMMAND = "from mohamjax.cli import command; command()"
