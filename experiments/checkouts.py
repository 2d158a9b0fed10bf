"""The command line of whatever checkout `PYTHONPATH` names, of old ones too: run it by `python -c`."""

COMMAND = "from mohamjax.cli import command; command()"
