"""`python -m autotelic.cli`: the same command without the script, as sweeps start it."""

from autotelic.cli.main import command

command()
