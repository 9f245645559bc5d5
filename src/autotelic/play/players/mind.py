"""Any mind as a player: asks it in the words of the kinds, and teaches it what its texts earned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from autotelic import registry
from autotelic.errors import UserError
from autotelic.minds.base import Generation, Mind, MindConfig
from autotelic.play.player import Metrics, Player, Sample
from autotelic.runs.files import content_address
from autotelic.worlds.base import KINDS, Kind, Request, Task, Verdict, World

CRITICISE = (
    "That answer will now be run. Before it is: will it turn out right? Begin with yes or no, then say in a sentence or"
    " two what is most likely to go wrong."
)


class MindPlayer(Player):
    """Proposes and attempts by sampling a mind. `player_of` makes one for each class of minds."""

    mind_class: ClassVar[type[Mind]]
    config: MindConfig

    def __init__(self, config: MindConfig, world: World) -> None:
        super().__init__(config, world)
        if config.shots and not self.mind_class.converses:
            raise UserError(f"shots is {config.shots}, but {self.name} is asked one thing at a time: it must be 0")
        known = [*world.kinds, *(kind for kind in KINDS if kind not in world.kinds)]
        for kind in config.learner.replay_weights if self.mind_class.learns else ():
            if kind not in known:
                raise UserError(f"learner.replay_weights.{kind}: no such kind; {registry.nearest(kind, known)}")
        self.mind = self.mind_class.for_world(config, world.tokens, world.babble)
        self.exact, self.reads = self.mind.exact, self.mind.converses
        self.learner = None
        if self.mind.learns:
            from autotelic.minds.learner import Learner  # needs torch, which a mind behind a server does not

            if not self.mind.brief:
                self.learner = Learner(config.learner, self.mind)
            else:
                rest = {"babble": world.rehearsal, "alike": world.alike, "withheld": world.asks_heldout}
                self.learner = Learner(config.learner, self.mind, **rest)

    def propose(self, requests: Sequence[Request], rng: np.random.Generator) -> list[Sample]:
        kinds = [self.world.kinds[request.kind] for request in requests]
        brief = self.mind.brief
        texts = [
            kind.brief_propose_prompt(request) if brief else kind.propose_prompt(request)
            for kind, request in zip(kinds, requests, strict=True)
        ]
        prompts = self._after_examples("propose", kinds, texts)
        samples = []
        for kind, request, said in zip(kinds, requests, self.mind.sample(prompts, 1, rng), strict=True):
            text = kind.expand_proposal(said.text, request) if self.mind.brief else said.text
            samples.append(Sample("propose", request.kind, text, trace=_trace(said)))
        return samples

    def attempt(self, tasks: Sequence[Task], n: int, rng: np.random.Generator, greedy: bool = False) -> list[Sample]:
        kinds = [self.world.kind_of(task) for task in tasks]
        prompts = self._solve_prompts(kinds, tasks)
        # A greedy mind says the same each time.
        said = self.mind.sample(prompts, 1 if greedy else n, rng, greedy=greedy)
        if greedy:
            said = [each for each in said for _ in range(n)]
        samples = []
        for at, each in enumerate(said):
            text = kinds[at // n].expand_answer(each.text) if self.mind.brief else each.text
            task = tasks[at // n]
            samples.append(Sample("solve", task.kind, text, task=task.id, trace=_trace(each)))
        return samples

    def retry(self, failed: Sequence[tuple[Task, Sample, Verdict]], rng: np.random.Generator) -> list[Sample]:
        after = [(sample, _feedback(verdict)) for _, sample, verdict in failed]
        said = self._talked_on([task for task, _, _ in failed], after, rng)
        return [
            Sample("solve", sample.kind, each.text, sample.task, _trace(each), parent=content_address(sample.text))
            for (sample, _), each in zip(after, said, strict=True)
        ]

    def criticise(self, answered: Sequence[tuple[Task, Sample]], rng: np.random.Generator) -> list[Sample]:
        after = [(sample, CRITICISE) for _, sample in answered]
        said = self._talked_on([task for task, _ in answered], after, rng)
        return [
            replace(
                sample,
                role="criticise",
                text=each.text,
                trace={},
                claim=_yes_or_no(each.text),
                parent=content_address(sample.text),
            )
            for (sample, _), each in zip(after, said, strict=True)
        ]

    def _talked_on(
        self, tasks: Sequence[Task], after: Sequence[tuple[Sample, str]], rng: np.random.Generator
    ) -> list[Generation]:
        """What the mind says to something more, after a question and its answer to it."""
        asked = self._solve_prompts([self.world.kind_of(task) for task in tasks], tasks)
        talks: list[Any] = [
            (*([question] if isinstance(question, str) else question), sample.text, more)
            for question, (sample, more) in zip(asked, after, strict=True)
        ]
        return self.mind.sample(talks, 1, rng)

    def _solve_prompts(self, kinds: Sequence[Kind], tasks: Sequence[Task]) -> list[Any]:
        brief = self.mind.brief
        texts = [
            kind.brief_solve_prompt(task) if brief else kind.solve_prompt(task)
            for kind, task in zip(kinds, tasks, strict=True)
        ]
        return self._after_examples("solve", kinds, texts)

    def _after_examples(self, role: str, kinds: Sequence[Kind], texts: Sequence[str]) -> list[Any]:
        """The questions, each after as many worked examples of its kind as are asked for: then conversations, which
        only a mind that converses is given."""
        if not self.config.shots:
            return list(texts)
        shown = {}
        for kind in set(kinds):
            examples = kind.propose_examples() if role == "propose" else kind.solve_examples()
            shown[kind.name] = [text for pair in examples[: self.config.shots] for text in pair]
        return [(*shown[kind.name], text) for kind, text in zip(kinds, texts, strict=True)]

    def evaluating(self) -> AbstractContextManager[None]:
        return nullcontext() if self.learner is None else self.learner.averaged()

    def relabel(self, sample: Sample, task: Task) -> Sample | None:
        if self.learner is None:
            return None
        kind = self.world.kind_of(task)
        (prompt,) = self._solve_prompts([kind], [task])
        said = self.mind.answering(prompt, sample.trace["generation"])
        if not len(said.tokens):  # it does not fit behind that prompt
            return None
        return replace(sample, task=task.id, trace=_trace(said), hindsight=True)

    def recite(self, task: Task) -> Sample | None:
        if self.learner is None or not self.mind.brief:
            return None
        kind = self.world.kind_of(task)
        answer = kind.brief_answer(task)
        if answer is None:
            return None
        (prompt,) = self._solve_prompts([kind], [task])
        said = self.mind.reciting(prompt, answer)
        return Sample("solve", task.kind, kind.expand_answer(answer), task.id, _trace(said), hindsight=True)

    def learn(self, graded: Sequence[tuple[Sample, float]]) -> Metrics:
        if self.learner is None:
            return {}
        from autotelic.minds.samples import Graded

        self.learner.seed = self.seed
        return self.learner.learn(
            [
                Graded(
                    sample.trace["generation"],
                    reward,
                    f"{sample.role}/{sample.kind}",
                    sample.task or "",
                    sample.hindsight,
                    sample.sort,
                )
                for sample, reward in graded
            ]
        )

    def state(self) -> dict[str, Any]:
        return {"mind": self.mind.state(), "learner": self.learner.state()} if self.learner is not None else {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        if self.learner is None:
            super().load_state(state)
            return
        self.mind.load_state(state["mind"])
        self.learner.load_state(state["learner"])

    def close(self) -> None:
        self.mind.close()


def _feedback(verdict: Verdict) -> str:
    said = f"{verdict.outcome}: {verdict.detail}" if verdict.detail else verdict.outcome
    return f"That was judged, and it is not right ({said}). Say what has to change, then answer again in the same form."


def _yes_or_no(text: str) -> bool | None:
    said = re.match(r"\W*(yes|no)\b", text.lower())
    return None if said is None else said[1] == "yes"


def _trace(generation: Generation) -> dict[str, Any]:
    return {"generation": generation}


def player_of(mind: type[Mind]) -> type[MindPlayer]:
    """The player that a mind is."""
    return type(f"{mind.__name__}Player", (MindPlayer,), {"name": mind.name, "Config": mind.Config, "mind_class": mind})
