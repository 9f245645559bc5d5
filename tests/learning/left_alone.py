"""`left_alone.py END`: one of several processes that add up numbers, as a verb of the command line would. After the
first sum the last of them ends: END is `killed`, or `mistaken`, by an error of its own."""

import os
import signal
import sys

import torch

from autotelic.cli import main as command
from autotelic.learning import parallel


def learn(arguments: list[str]) -> int:
    with parallel.joined():
        parallel.total(torch.ones(2))
        if parallel.rank() == parallel.processes() - 1:
            if arguments == ["killed"]:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("shapes do not match")
        parallel.total(torch.ones(2))
    return 0


if __name__ == "__main__":
    command.dispatch = learn  # in place of a verb
    sys.exit(command.main())
