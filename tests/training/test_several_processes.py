"""Training by torchrun: two processes that keep the same weights, and resume."""

import json
import os
import subprocess
import sys
from pathlib import Path


def torchrun(folder: Path, *arguments: str, program: str = "") -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0", "--standalone"]
    done = subprocess.run(
        [*command, *([program] if program else ["-m", "autotelic.cli"]), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


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


SMALL = ("env=InvertedPendulum-v5", "env.count=4", "policy.hidden=[8]", "learner.steps=16", "video=false")


def test_processes_that_learn_together_collect_for_themselves(tmp_path, together):
    done = together(["train", *SMALL, "steps=512", "run=one", "collectors=1"], tmp_path)
    refused = "autotelic: collectors=1: processes that learn together collect for themselves; set it to 0\n"
    assert [(each.code, each.err) for each in done] == [(2, refused)] * 2
    assert not (tmp_path / "runs" / "one").exists()


def test_a_run_of_one_process_is_not_resumed_by_two(tmp_path, together, run_autotelic):
    done = run_autotelic(["train", *SMALL, "steps=128", "run=one", "evaluate=false"], tmp_path, os.environ)
    assert done.code == 0, done.err
    run = tmp_path / "runs" / "one"
    before = (run / "metrics.jsonl").read_bytes()
    first, second = together(["resume", "runs/one", "steps=512"], tmp_path)
    assert "the checkpoint is of 1 processes, not of 2: start as many" in first.complaint()
    assert "another of the processes that learn together has ended" in second.complaint()
    assert (run / "metrics.jsonl").read_bytes() == before


PROGRAM = """
import torch.distributed as dist
from autotelic.learning import parallel
from autotelic.training import loop

class Collector:
    def collect(self, iteration, step):
        rank = parallel.rank()
        figures = {"episode/ended": 1 + 2 * rank, "episode/return": 4 * rank, "reward/alive": rank, "broken": 5 * rank}
        return {name: float(value) for name, value in figures.items()}

class Training(loop.Training):
    def __init__(self):
        self.collector, self._times, self.iteration, self.step, self.broken = Collector(), {}, 0, 0, 0
    _learn = lambda self: {}
    steps_an_iteration = 1

with parallel.joined():
    training = Training()
    figures = training._iterate()
    if parallel.rank() == 0:
        print(sorted(figures.items()), training.broken)
"""


def test_figures_are_of_the_environments_of_all_processes(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    said = torchrun(tmp_path, program="program.py")
    expected = [("broken", 5.0), ("episode/ended", 4.0), ("episode/return", 3.0), ("reward/alive", 0.5)]
    assert said.strip().splitlines()[-1] == f"{expected} 5"
