"""What ends a run of a learning mind in the middle: one line that says where the run is whole, and nothing lost. What a
policy cannot be used or measured for: one line that says what to do."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from autotelic.errors import UserError
from autotelic.physics.gym.adapter import GymnasiumConfig, GymnasiumEnvironment
from autotelic.policies.mlp import MLPConfig, MLPPolicy
from autotelic.training import collectors
from autotelic.training import evaluate as measuring
from autotelic.training.collecting import Collector
from autotelic.training.loop import load_policy

PACKAGE = '''
import os
from dataclasses import dataclass
import numpy as np
import torch
from autotelic.minds.base import Generation, Mind, MindConfig, Scores

torch.set_num_threads(1)
BREAKS, SOUND = os.environ.get("COIN_BREAKS"), 7  # how scoring fails, and how often it does not before


class Coin(Mind):
    """One weight: how likely an answer is right. Its texts are one token long."""

    name = "coin"
    Config = MindConfig
    width = 1

    def __init__(self, config):
        super().__init__(config)
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.scored = 0

    def sample(self, prompts, n, rng, *, greedy=False, max_tokens=None):
        right = torch.sigmoid(self.weight).item()
        said = []
        for prompt in [prompt for prompt in prompts for _ in range(n)]:
            token = int(0.5 < right if greedy else rng.random() < right)
            text = f"{rng.integers(900)}+{rng.integers(900)}"
            if prompt != "Two numbers.":
                text = str(sum(map(int, prompt.split("+"))) + 1 - token)
            chance = np.float32(np.log(right if token else 1 - right))
            said.append(Generation(text, np.zeros(1, np.int32), np.array([token], np.int32), chance[None]))
        return said

    def score(self, generations):
        self.scored += 1
        broken = BREAKS if self.scored > SOUND else None
        if broken == "memory":
            torch.empty(1 << 60)
        tokens = torch.tensor(np.array([each.tokens for each in generations]), dtype=torch.float32)
        right = torch.sigmoid(self.weight)
        chosen = torch.where(tokens > 0, right, 1 - right).log() * (torch.nan if broken == "nan" else 1.0)
        entropy = -(right * right.log() + (1 - right) * (1 - right).log()).expand_as(tokens)
        return Scores(chosen, entropy, torch.zeros(*tokens.shape, 1), tokens >= 0)

    def base_log_probs(self, generations):
        return torch.full((len(generations), 1), 0.5).log()

    def pieces(self, generations):
        return [list(range(len(generations)))]

    def encode(self, prompt):
        return np.zeros(1, np.int32)

    def parameters(self):
        return [self.weight]

    def state(self):
        return {"weight": self.weight.detach().clone()}

    def load_state(self, state):
        with torch.no_grad():
            self.weight.copy_(state["weight"])
'''


PLAY = ("play", "world=sums", "player=coin", "loop.batch=2", "loop.attempts=4", "loop.seeding=1", "steps=6")
PLAY += ("player.learner.lr=0.1", "checkpoint.every=2")


@pytest.fixture
def with_coin(autotelic, tmp_path: Path):
    """The command line, where another package brings that mind."""
    package = tmp_path / "coin"
    info = package / "coin-1.0.dist-info"
    info.mkdir(parents=True)
    (package / "coin_package.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: coin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[autotelic.minds]\ncoin = coin_package:Coin\n")
    autotelic.env["PYTHONPATH"] += os.pathsep + str(package)

    return autotelic


SAID = {"nan": "the loss is not finite", "memory": "out of memory while learning: lower max_tokens; whole"}


@pytest.mark.parametrize("breaks", SAID)
def test_a_run_that_breaks_says_where_it_is_whole_and_goes_on_from_there(with_coin, breaks: str):
    done = with_coin(*PLAY, "run=broken", COIN_BREAKS=breaks)
    assert done.code == 2
    line = done.err.splitlines()[-1]
    assert line.startswith(f"autotelic: step 4: {SAID[breaks]}")
    ways = line.partition("; whole up to runs/broken/checkpoints/step_000002: autotelic ")[2].split(", or autotelic ")
    assert ways == ["resume runs/broken", "resume runs/broken run=NEW KEY=VALUE"]
    assert "Traceback" not in done.err
    other = "player.learner.lr=0.01 player.learner.average=0.9 player.learner.estimator=ppo"
    assert with_coin(*ways[1].replace("KEY=VALUE", other).split()).code == 0
    assert with_coin(*ways[0].split()).code == 0
    broken, whole = with_coin.cwd / "runs" / "broken", with_coin.made(*PLAY)
    assert figures(broken) == figures(whole)
    assert result(broken) == result(whole)


# Policies

PENDULUM = {"count": 2, "id": "InvertedPendulum-v5", "threads": 1}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Of a policy that knows nothing, in an environment with an exact state."""
    with GymnasiumEnvironment(GymnasiumConfig(**PENDULUM)) as environment:
        policy = MLPPolicy(MLPConfig(hidden=(4,)), environment.sizes, environment.action_space)
        yield Collector(environment, policy, 3, seed=0)


@pytest.mark.parametrize(("limit", "why"), [(None, "and it has no time limit"), (3, "although that is its time limit")])
def test_an_episode_that_does_not_end_is_told_with_how_to_cut_it(
    collector: Collector, limit: int | None, why: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measuring, "LONGEST", 3)
    collector.environment.reset(0)
    same = collector.environment.step(np.zeros((2, 1)))  # which is no episode's last
    monkeypatch.setattr(collector.environment, "step", lambda action: same)
    collector.environment.limit = limit
    with pytest.raises(UserError) as caught:
        measuring.evaluate(collector.environment, collector.policy, 2, seed=0)
    assert str(caught.value) == (
        f"an episode of InvertedPendulum-v5 is longer than 3 steps, {why}: it cannot be measured; cut episodes with "
        "env.options.max_episode_steps=N, or train with evaluate=false"
    )


def test_a_checkpoint_of_another_task_says_what_to_do(collector: Collector):
    task = {"environment": "InvertedPendulum-v5", "sizes": {"policy": 4}}
    made = {"environment": "InvertedPendulum-v5", "sizes": {"policy": 9}}
    with pytest.raises(UserError, match=r": leave out the env\.KEY=VALUE that changes them, or start a new run$"):
        load_policy(collector.policy, {"task": made, "policy": collector.policy.state_dict()}, task)


class Asking:
    """The other end of a collector's channel."""

    def __init__(self, *messages: Any) -> None:
        self.messages, self.answers = list(messages), list[Any]()

    def receive_object(self) -> Any:
        if not self.messages:
            raise EOFError
        return self.messages.pop(0)

    def send(self, data: bytes) -> None:
        pass

    def send_object(self, answer: Any) -> None:
        self.answers.append(answer)


def test_a_process_that_was_given_a_state_says_that_one_not_the_one_before_its_last_rollout(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    collector.collect(0, 0)
    given, weights = collector.state(6), {name: each.numpy() for name, each in collector.policy.state_dict().items()}
    environment, policy = {"name": "gymnasium", **PENDULUM}, {"name": "mlp", "hidden": (4,)}
    asking = Asking(
        collectors.Job(environment, policy, length=3, seed=0, rank=0),
        (collectors.COLLECT, 0, 0, weights),
        (collectors.STATE, 6),
        (collectors.LOAD, given),
        (collectors.STATE, 6),
    )
    collectors._serve(asking)  # pyright: ignore[reportArgumentType]
    _, before, _, after = asking.answers
    assert np.array_equal(after["environment"]["elapsed"], given["environment"]["elapsed"])
    assert not np.array_equal(before["environment"]["elapsed"], after["environment"]["elapsed"])


def figures(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith("time/")} for line in lines]


def result(run: Path) -> dict:
    return {name: value for name, value in json.loads((run / "result.json").read_text()).items() if name != "minutes"}
