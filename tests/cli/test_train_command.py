import json
import shutil
from pathlib import Path

import av
import pytest
import yaml

from autotelic.testing import run_digest

SMALL = (
    "env=InvertedPendulum-v5",
    "env.count=8",
    "policy.hidden=[16]",
    "learner.steps=16",
    "evaluate_episodes=4",
    "video=false",
)


def train(autotelic, *arguments, **env):
    return autotelic("train", *SMALL, *arguments, **env)


@pytest.fixture
def trained(autotelic) -> Path:
    """A finished run `one` of four iterations, each with a checkpoint and every other one with a measurement."""
    kept = ("checkpoint.every=1", "checkpoint.keep=0", "evaluate_every=2")
    return autotelic.made("train", *SMALL, *kept, "steps=512", "seed=3")


def metrics(path: Path) -> list[dict]:
    """The figures of a run without its timings."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    timings = ("time/", "steps_per_second")
    return [{name: value for name, value in line.items() if not name.startswith(timings)} for line in lines]


def checkpoint(path: Path) -> dict[str, bytes]:
    """The newest one, file by file, without its timings."""
    step = path / "checkpoints" / (path / "checkpoints" / "latest").read_text().strip()
    state = json.loads((step / "state.json").read_text())
    del state["timings"]
    files = {file.name: file.read_bytes() for file in step.glob("*.safetensors")}
    return files | {"state.json": json.dumps(state).encode()}


def test_a_run_writes_its_directory_and_says_where(autotelic):
    done = train(autotelic, "steps=512", "run=one", "seed=3")
    assert done.code == 0, done.err
    assert "runs/one" in done.err
    run = autotelic.cwd / "runs" / "one"
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["env"]["name"], config["env"]["id"]) == ("gymnasium", "InvertedPendulum-v5")
    result = json.loads((run / "result.json").read_text())
    assert (result["verb"], result["env"], result["seed"]) == ("train", "InvertedPendulum-v5", 3)
    assert (result["steps"], result["finished"]) == (512, True)
    assert result["steps_per_second"] > 0
    assert result["eval"]["episodes"] == 4
    assert result["eval"]["length_mean"] >= 1
    assert [line["step"] for line in metrics(run)] == [128, 256, 384, 512]


def test_the_same_seed_gives_the_same_run(autotelic, trained):
    for name, seed in (("two", 3), ("other", 4)):
        arguments = ("steps=512", "evaluate_every=2", "evaluate=false", f"run={name}", f"seed={seed}")
        assert train(autotelic, *arguments).code == 0
    runs = autotelic.cwd / "runs"
    assert metrics(trained) == metrics(runs / "two") != metrics(runs / "other")
    assert checkpoint(trained) == checkpoint(runs / "two") != checkpoint(runs / "other")
    assert run_digest(trained) == run_digest(runs / "two") != run_digest(runs / "other")


def test_a_resumed_run_is_the_uninterrupted_one(autotelic, trained):
    assert train(autotelic, "steps=256", "evaluate_every=2", "run=parts", "seed=3").code == 0
    assert autotelic("resume", "runs/parts", "steps=512").code == 0
    parts = autotelic.cwd / "runs" / "parts"
    assert metrics(parts) == metrics(trained)
    assert checkpoint(parts) == checkpoint(trained)


@pytest.mark.parametrize("collectors", [0, 1])
def test_a_killed_run_goes_on_as_if_it_had_not_been(autotelic, collectors):
    arguments = ("checkpoint.every=2", "evaluate=false", f"collectors={collectors}")
    process = autotelic.start("train", *SMALL, "run=killed", *arguments, "steps=100000000")
    killed, whole = (autotelic.cwd / "runs" / name for name in ("killed", "whole"))
    autotelic.until(lambda: (killed / "checkpoints" / "latest").exists(), process)
    process.kill()
    assert process.wait() == -9
    bound = f"steps={metrics(killed)[-1]['step'] + 256}"
    assert autotelic("resume", "runs/killed", bound).code == 0
    assert train(autotelic, "run=whole", *arguments, bound).code == 0
    assert metrics(killed) == metrics(whole)
    assert checkpoint(killed) == checkpoint(whole)


def test_a_humanoid_goes_on_as_if_it_had_not_stopped(autotelic):
    small = ("env=humanoid-walk", "env.count=4", "policy.hidden=[8]", "learner.steps=16", "learner.minibatches=2")
    small += ("env.randomise=sim-to-real", "env.seconds=0.5", "evaluate=false", "video=false", "checkpoint.every=4")
    assert autotelic("train", *small, "checkpoint.keep=0", "run=whole", "steps=512").code == 0
    assert autotelic("resume", "runs/whole", "step=256", "run=parts").code == 0
    runs = autotelic.cwd / "runs"
    assert metrics(runs / "parts") == metrics(runs / "whole")
    assert checkpoint(runs / "parts") == checkpoint(runs / "whole")


def test_a_fork_may_go_on_in_other_environments(autotelic, trained):
    done = autotelic("resume", "runs/one", "step=256", "run=two", "env.count=16", "evaluate=false")
    assert done.code == 0, done.err
    assert "begin new episodes" in done.err
    lines = metrics(autotelic.cwd / "runs" / "two")
    assert [line["step"] for line in lines] == [128, 256, 512]


def test_a_fork_that_is_measured_otherwise_is_measured_anew(autotelic):
    autotelic.made("train", *SMALL, "steps=256", "evaluate_episodes=4")
    done = autotelic("resume", "runs/one", "run=two", "evaluate_episodes=9")
    assert done.code == 0, done.err
    counts = [
        json.loads((autotelic.cwd / "runs" / run / "result.json").read_text())["eval"]["episodes"]
        for run in ("one", "two")
    ]
    assert counts == [4, 9]


def test_a_rate_that_falls_to_another_end_is_said(autotelic):
    autotelic.made("train", *SMALL, "steps=256", "evaluate=false", "learner.schedule=linear")
    done = autotelic("resume", "runs/one", "steps=512")
    assert done.code == 0, done.err
    assert "falls to 0 at another bound" in done.err


def test_a_fork_with_other_networks_is_one_line(autotelic, trained):
    line = autotelic("resume", "runs/one", "run=two", "policy.hidden=[8]").complaint()
    assert "keep policy as it was" in line
    assert not (autotelic.cwd / "runs" / "two").exists()


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(autotelic):
    run = autotelic.made("train", *SMALL, "steps=128", "evaluate=false")
    before = metrics(run)
    shutil.rmtree(run / "checkpoints")
    (run / "result.json").unlink()
    done = autotelic("resume", "runs/one")
    assert done.code == 0, done.err
    assert metrics(run) == before


def test_checkpoints_that_were_lost_are_missed(autotelic, trained):
    shutil.rmtree(trained / "checkpoints")
    assert "no checkpoint, but the run has 512 steps" in autotelic("resume", "runs/one").complaint()


def test_a_run_ends_when_its_target_is_reached(autotelic):
    done = train(autotelic, "steps=100000", "run=one", "evaluate_every=1", "target=1")
    assert done.code == 0, done.err
    result = json.loads((autotelic.cwd / "runs" / "one" / "result.json").read_text())
    assert (result["steps"], result["finished"]) == (128, True)
    assert result["eval"]["return_mean"] >= 1


@pytest.fixture
def stood(autotelic) -> Path:
    """A finished run `one` of robots that stand from the first, for the fifth of a second that they are asked to."""
    small = ("env=humanoid-stand", "env.count=4", "env.seconds=0.2", "env.randomise=off", "policy.hidden=[8]")
    small += ("policy.initial_std=0.01", "learner.steps=16", "learner.minibatches=2", "evaluate_episodes=4")
    return autotelic.made("train", *small, "steps=512", "evaluate_every=2", "target_success=0.9")


def test_a_run_ends_when_enough_episodes_are_successes(stood):
    result = json.loads((stood / "result.json").read_text())
    assert (result["steps"], result["finished"]) == (128, True)
    assert result["eval"]["success_rate"] >= 0.9


def test_a_run_ends_with_a_film_and_a_report(stood):
    with av.open(str(stood / "videos" / "step_000128.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (640, 480, 30)
        assert stream.frames == 6  # every other of twelve steps
    report = (stood / "report.html").read_text()
    assert "humanoid-stand" in report
    assert 'src="videos/step_000128.mp4"' in report


def test_metrics_have_successes_episodes_timings_and_rates(stood):
    lines = [json.loads(line) for line in (stood / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["iteration"]) for line in lines] == [(64, 1), (128, 2)]
    last = lines[-1]
    assert (last["episode/success"], last["episode/length"], last["eval/success_rate"]) == (1.0, 12.0, 1.0)
    assert 0 < last["episode/return"] < 12 * 0.3
    assert last["episode/return"] == pytest.approx(last["eval/return_mean"], rel=0.5)
    assert all(last[f"time/{phase}"] > 0 for phase in ("rollout", "learn", "evaluate"))
    assert last["steps_per_second"] == pytest.approx(64 / (last["time/rollout"] + last["time/learn"]))
    assert {"learn/kl", "learn/value_loss", "learn/lr", "reward/alive", "broken"} <= set(last)


def test_a_fork_that_would_see_something_else_is_one_line(autotelic, stood):
    line = autotelic("resume", "runs/one", "run=two", "env.obs=compact32").complaint()
    assert "with observations {'policy': 53, 'critic': 59}, not of humanoid-stand with {'policy': 32" in line
    assert "leave out the env.KEY=VALUE that changes them" in line
    assert not (autotelic.cwd / "runs" / "two").exists()


def test_eval_measures_in_environments_that_are_changed(autotelic, stood):
    lengths = []
    for changes in ([], ["env.seconds=0.1"]):
        report = json.loads(autotelic("eval", "runs/one", *changes, "--json").out)
        assert report["changes"] == changes
        lengths.append(report["eval"]["length_mean"])
    assert lengths == [12.0, 6.0]
    assert "did you mean env.seconds" in autotelic("eval", "runs/one", "env.secnds=0.1").complaint()


@pytest.fixture
def measured(autotelic) -> Path:
    """A finished run `one` of five iterations, measured after the second and the fourth."""
    return autotelic.made("train", *SMALL, "steps=640", "evaluate_every=2", "evaluate=false", "checkpoint.keep=1")


def test_the_best_checkpoint_is_kept_beside_the_newest(measured):
    means = {line["step"]: line["eval/return_mean"] for line in metrics(measured) if "eval/return_mean" in line}
    assert list(means) == [256, 512]
    best = int((measured / "checkpoints" / "best").read_text().strip().removeprefix("step_"))
    assert means[best] == max(means.values())
    kept = {path.name for path in (measured / "checkpoints").glob("step_*")}
    assert kept == {f"step_{best:06d}", "step_000640"}


def test_the_best_checkpoint_can_be_measured_and_forked(autotelic, measured):
    best = (measured / "checkpoints" / "best").read_text().strip().removeprefix("step_")
    found = json.loads(autotelic("eval", "runs/one", "step=best", "episodes=2", "--json").out)
    assert found["step"] == int(best)
    assert autotelic("resume", "runs/one", "step=best", "run=two").code == 0
    assert metrics(autotelic.cwd / "runs" / "two") == metrics(measured)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("env=HalfCheeta-v5", "did you mean HalfCheetah-v5"),
        ("env=humanoid-wlak", "did you mean humanoid-walk"),
        ("env=HalfCheetah", "HalfCheetah-v5"),
        ("learner.minibatches=7", "learner.minibatches=7 does not divide the 128 steps"),
        ("target=5", "evaluate_every=N"),
        ("learner.clp=0.1", "did you mean learner.clip?"),
        ("collectors=3", "collectors=3: 8 environments cannot be shared equally"),
        ("env.count=0", "env.count=0: must be at least 1"),
        ("policy.activation=tanj", "did you mean tanh"),
    ],
)
def test_a_mistake_is_one_line(autotelic, override, words):
    overrides = [part for part in SMALL if not override.startswith("env=") or not part.startswith("env")]
    assert words in autotelic("train", *overrides, override, "run=one").complaint()
    assert not (autotelic.cwd / "runs" / "one").exists()


def test_an_unwritable_root_is_one_line(autotelic):
    (autotelic.cwd / "file").write_text("")
    line = train(autotelic, "steps=128", "root=file/runs").complaint()
    assert line.endswith("file/runs: a part of the path is a file, not a directory; choose another place with root=DIR")


def test_eval_measures_the_policy_of_a_run(autotelic, trained):
    done = autotelic("eval", "runs/one", "episodes=3", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert (report["step"], report["eval"]["episodes"]) == (512, 3)


def test_eval_with_the_runs_own_episodes_says_what_the_run_said(autotelic, trained):
    report = json.loads(autotelic("eval", "runs/one", "--json").out)
    assert report["eval"] == json.loads((trained / "result.json").read_text())["eval"]


def test_the_runs_of_a_sweep_are_tabulated_compared_and_listed(autotelic):
    done = train(autotelic, "-m", "learner.clip=0.1,0.3", "steps=128", "run=both")
    assert done.code == 0, done.err
    assert "both-001" in done.out
    assert "return" in done.out
    done = autotelic("compare", "runs/both-000", "runs/both-001")
    assert done.code == 0, done.err
    assert "return_mean" in done.out
    assert "both-001" in autotelic("runs").out


def test_a_fork_begins_where_its_source_was(autotelic, trained):
    done = autotelic("resume", "runs/one", "step=256", "run=two", "learner.clip=0.05", "steps=384", "evaluate=false")
    assert done.code == 0, done.err
    fork = metrics(autotelic.cwd / "runs" / "two")
    assert fork[:2] == metrics(trained)[:2]
    assert fork[2] != metrics(trained)[2]


def test_a_checkpoint_of_another_environment_is_refused(autotelic, trained):
    config = yaml.safe_load((trained / "config.yaml").read_text())
    config["env"]["id"] = "HalfCheetah-v5"
    (trained / "config.yaml").write_text(yaml.safe_dump(config))
    complaint = autotelic("eval", "runs/one").complaint()
    assert "InvertedPendulum-v5" in complaint
    assert "HalfCheetah-v5" in complaint


OWN = """
import gymnasium, numpy as np
from gymnasium import spaces

class Odd(gymnasium.Env):
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(3)

    def __init__(self, breaks="no"):
        self.breaks, self.steps = breaks, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 40 and self.breaks == "raises":
            raise ValueError("the gripper is stuck")
        if self.steps == 40 and self.breaks == "dies":
            import os
            os._exit(3)
        reward = float("nan") if self.steps == 40 and self.breaks == "blank" else 1.0
        return np.zeros(2, np.float32), reward, False, self.steps % 20 == 0, {}

gymnasium.register("Odd-v0", Odd)
"""


@pytest.fixture
def odd(autotelic):
    """The command, where there is such an environment."""
    (Path(autotelic.env["PYTHONPATH"]) / "odd_package.py").write_text(OWN)
    return autotelic


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        ("raises", "environment 0: step raised ValueError: the gripper is stuck ("),
        ("dies", "environment 0: the process ended with exit code 3;"),
        ("blank", "environment 0: its reward is nan after 40 steps;"),
    ],
    ids=["raises", "dies", "blank"],
)
def test_an_environment_that_breaks_is_one_line_and_the_run_is_whole(odd, breaks, words):
    done = odd(
        *("train", "env=odd_package:Odd-v0", "env.count=4", f"+env.options.breaks={breaks}", "policy.hidden=[8]"),
        *("learner.steps=16", "checkpoint.every=1", "steps=4096", "run=one", "video=false"),
    )
    complaint = done.complaint() if len(done.err.splitlines()) == 1 else done.err.splitlines()[-1]
    assert done.code == 2
    assert f"step 129: odd_package:Odd-v0, {words}" in complaint
    assert "whole up to runs/one/checkpoints/step_000128: autotelic resume runs/one" in complaint


def test_what_cannot_be_filmed_is_trained_all_the_same_and_said(odd):
    small = ("env.count=2", "policy.hidden=[8]", "learner.steps=16", "learner.minibatches=2", "evaluate_episodes=2")
    done = odd("train", "env=odd_package:Odd-v0", *small, "steps=64", "run=one")
    assert done.code == 0, done.err
    (note,) = (line for line in done.err.splitlines() if line.startswith("note: "))
    assert note.startswith("note: no video: odd_package:Odd-v0, environment 0: ")
    assert "'render_mode'" in note
    run = odd.cwd / "runs" / "one"
    assert not list(run.rglob("*.mp4"))
    assert json.loads((run / "result.json").read_text())["finished"] is True
    assert "Odd-v0" in (run / "report.html").read_text()


def test_an_environment_that_cannot_say_its_state_goes_on_and_that_is_said(autotelic):
    small = ("env=CartPole-v1", "env.count=2", "env.processes=1", "policy.hidden=[8]", "learner.steps=16")
    small += ("learner.minibatches=2", "learner.schedule=constant", "evaluate=false", "video=false")
    run = autotelic.made("train", *small, "steps=32")
    done = autotelic("resume", "runs/one", "steps=64")
    assert done.code == 0, done.err
    said = "note: CartPole-v1 cannot be restored exactly; results may differ from an uninterrupted run"
    assert said in done.err.splitlines()
    assert [line["step"] for line in metrics(run)] == [32, 64]


def test_training_stops_between_iterations_when_asked(autotelic, stop_signal):
    process = autotelic.start("train", *SMALL, "run=one", "steps=100000000", "checkpoint.every=5")
    file = autotelic.cwd / "runs" / "one" / "metrics.jsonl"
    autotelic.until(lambda: file.exists() and file.read_bytes().count(b"\n") > 5, process)
    process.send_signal(stop_signal)
    _, err = process.communicate()
    assert process.returncode == 128 + stop_signal
    assert "autotelic resume runs/one" in err
    result = json.loads((autotelic.cwd / "runs" / "one" / "result.json").read_text())
    assert result["finished"] is False
