"""Language models: batched sampling with log-probabilities, scoring with gradient, saving and loading.

A mind knows prompts and what it wrote after them, nothing of tasks. Players ask it, a learner (minds/learner.py)
changes it. To add one, subclass `Mind`, or `FrozenMind` if it does not learn, and name it in the entry point group
`autotelic.minds`: it is then a player as well. `autotelic.testing.check_mind` says whether it keeps to its word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from autotelic.errors import UserError
from autotelic.minds.config import LearnerConfig

if TYPE_CHECKING:
    import torch

Prompt = str | tuple[str, ...]  # a question; or questions and replies in turn, of which the last is to be answered
Babble = Callable[[np.random.Generator, int], list[tuple[str, str]]]  # so many prompts, each with a well-formed reply


def turns(prompt: Prompt) -> list[dict[str, str]]:
    """A prompt as chat models take it."""
    said = (prompt,) if isinstance(prompt, str) else prompt
    return [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(said)]


@dataclass(frozen=True)
class Generation:
    """What a mind wrote after one prompt. Minds that do not learn leave the arrays empty."""

    text: str
    prompt: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # token ids
    tokens: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))  # with the end token, if it was reached
    log_probs: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))  # of each token when it was sampled
    finished: bool = True  # False if the bound on tokens cut it


@dataclass(frozen=True)
class Scores:
    """What a mind, as it is now, says of generations. All are [batch, longest answer]; the rest of a row is padding."""

    log_probs: torch.Tensor  # of each token, at the temperature of sampling
    entropy: torch.Tensor  # of the distribution each token was drawn from, in nats
    hidden: torch.Tensor  # [batch, longest answer, width]: what each token was predicted from
    mask: torch.Tensor  # bool: True for tokens of the answer


@dataclass
class MindConfig:
    """What every mind can be told. A mind adds its own fields."""

    temperature: float = 1.0  # of sampling, and of the distribution that is learned
    max_tokens: int = 512  # of one answer or proposal
    shots: int = 0  # worked examples that go before each question, of those that its kind has; for minds that converse
    learner: LearnerConfig = field(default_factory=LearnerConfig)

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UserError(f"temperature is {self.temperature}; it must be above 0 (evaluation can be greedy)")
        if self.max_tokens < 1:
            raise UserError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if self.shots < 0:
            raise UserError(f"shots is {self.shots}; it must be 0 or more")


class Mind(ABC):
    """A language model. Everything random comes from the generator it is given."""

    name: ClassVar[str]
    Config: ClassVar[type[MindConfig]]
    brief: ClassVar[bool] = False  # asked in a kind's brief wording, a few tokens, instead of its full one
    converses: ClassVar[bool] = False  # takes conversations (`Prompt`) where others are asked by a string each
    learns: ClassVar[bool] = True
    small: ClassVar[bool] = False  # so small that pieces are scored side by side, a thread each, to keep cores busy
    exact: ClassVar[bool] = True  # whether equal seeds give equal texts; False where a server decides

    def __init__(self, config: Any) -> None:
        self.config = config

    @classmethod
    def for_world(cls, config: Any, tokens: Sequence[str], babble: Babble) -> Mind:
        """The mind as it starts to play in a world. One that has a language of its own takes no notice of the world's
        `tokens` and `babble`."""
        return cls(config)

    @abstractmethod
    def sample(
        self,
        prompts: Sequence[str],
        n: int,
        rng: np.random.Generator,
        *,
        greedy: bool = False,
        max_tokens: int | None = None,
    ) -> list[Generation]:
        """n generations a prompt, prompt by prompt. Greedy ones are the likeliest token each time; n is then 1."""

    # What a learner needs; see `FrozenMind` for minds without

    @abstractmethod
    def encode(self, prompt: str) -> np.ndarray:
        """The tokens that a prompt is asked with: `Generation.prompt`."""

    def prompt_text(self, prompt: np.ndarray) -> str:
        """The prompt that was encoded: of brief minds, whose tokens are words."""
        raise UserError(
            f"learner.replay is not for the mind {self.name} in a world of things that are alike: set it to 0"
        )

    @property
    @abstractmethod
    def width(self) -> int:
        """Of `Scores.hidden`."""

    @abstractmethod
    def parameters(self) -> list[torch.nn.Parameter]:
        """The weights that learning changes."""

    def matrices(self) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
        """The weights apart: matrices inside the network, and all others (see learning/muon.py)."""
        raise UserError(f"optimizer=muon is not for the mind {self.name}: take adamw")

    def answering(self, prompt: str, generation: Generation) -> Generation:
        """What was written, as an answer to another prompt. It was not sampled there: nothing is known of its
        log-probabilities. Without tokens, if there is no room for it."""
        return replace(generation, prompt=self.encode(prompt), log_probs=np.empty(0, np.float32))

    def reciting(self, prompt: str, reply: str) -> Generation:
        """A reply that it has not written, as if it had."""
        raise UserError(f"learner.rehearsal is not for the mind {self.name}: it must be 0")

    @abstractmethod
    def score(self, generations: Sequence[Generation]) -> Scores:
        """The log-probabilities of what was written, with gradient; on the CPU, wherever the mind is."""

    @abstractmethod
    def base_log_probs(self, generations: Sequence[Generation]) -> torch.Tensor:
        """What `score` said before anything was learned: [batch, longest answer], without gradient."""

    @abstractmethod
    def pieces(self, generations: Sequence[Generation]) -> Iterable[list[int]]:
        """Positions, cut into parts that are scored at once: small enough for memory, alike enough to waste little."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The weights that learning changes, by name."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes a state back: the mind is then the one that gave it."""

    def close(self) -> None:  # noqa: B027 - a mind that holds nothing has nothing to give back
        """Gives back what the mind holds: connections, memory."""


class FrozenMind(Mind):
    """A mind that proposes and solves, but does not learn: `sample` is all it needs. No learner is made for it."""

    learns: ClassVar[bool] = False

    @property
    def width(self) -> int:
        raise self._frozen()

    def encode(self, prompt: str) -> np.ndarray:
        raise self._frozen()

    def parameters(self) -> list[torch.nn.Parameter]:
        raise self._frozen()

    def score(self, generations: Sequence[Generation]) -> Scores:
        raise self._frozen()

    def base_log_probs(self, generations: Sequence[Generation]) -> torch.Tensor:
        raise self._frozen()

    def pieces(self, generations: Sequence[Generation]) -> Iterable[list[int]]:
        raise self._frozen()

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but was given {sorted(state)}")

    def _frozen(self) -> TypeError:
        return TypeError(f"the mind {self.name} does not learn: it has nothing to score or to change")
