"""`python -m mohamjax.cli`."""

import sys

from mohamjax.cli import main

sys.exit(main())
