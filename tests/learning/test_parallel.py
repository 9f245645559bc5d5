"""Processes that learn together, when one of them ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

SCRIPT = Path(__file__).with_name("left_alone.py")
ALONE = "autotelic: another of the processes that learn together has ended; see what it said\n"
MISTAKEN = "autotelic: internal error: RuntimeError: shapes do not match; run again with --debug to see where\n"


def together(*arguments: str) -> list[tuple[int, str]]:
    """Exit code and errors of two processes that meet as those of torchrun do: at a store that none of them holds."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "GLOO_SOCKET_IFNAME": "lo"}
    torchrun = {"WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *arguments],
            env={**os.environ, **meeting, **torchrun, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=60)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, errors) for process, errors in zip(started, said, strict=True)]


@pytest.mark.parametrize(("end", "ended"), [("killed", (-9, "")), ("mistaken", (1, MISTAKEN))])
def test_who_is_left_alone_ends_with_one_line_and_the_other_with_its_own_words(end: str, ended: tuple[int, str]):
    assert together(end) == [(2, ALONE), ended]
