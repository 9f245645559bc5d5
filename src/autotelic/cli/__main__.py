"""`python -m autotelic.cli`: the same command without the script, as sweeps start it."""

import sys

from autotelic.cli.main import main

sys.exit(main())
