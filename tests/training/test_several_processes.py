"""Training by torchrun: two processes that keep the same weights, and resume."""

import json
import os
import subprocess
import sys
from pathlib import Path


def torchrun(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--standalone"]
    done = subprocess.run(
        [*command, "-m", "autotelic.cli", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def figures(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in line if not key.startswith(("time/", "steps_per_second"))} for line in lines]


def test_two_processes_train_one_policy_and_resume_exactly(tmp_path, together):
    small = ("env=InvertedPendulum-v5", "env.count=4", "policy.hidden=[8]", "learner.steps=16", "video=false")
    kept = ("evaluate_episodes=2", "checkpoint.every=1", "checkpoint.keep=0")
    torchrun(tmp_path, "train", *small, *kept, "steps=512", "run=whole")
    for done in together(["resume", "runs/whole", "step=256", "run=parts"], tmp_path):
        assert done.code == 0, done.err
    whole, parts = tmp_path / "runs" / "whole", tmp_path / "runs" / "parts"
    assert [line["step"] for line in figures(whole)] == [128, 256, 384, 512]  # 2 processes x 4 environments x 16
    assert figures(parts) == figures(whole)
    assert json.loads((parts / "result.json").read_text())["finished"] is True
