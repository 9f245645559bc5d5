"""Self-play: propose, admit, attempt, judge, reward, learn, archive, checkpoint.

`Loop.run_step` follows Algorithm 1 of Absolute Zero (arXiv 2505.03335) with three changes: the n attempts that measure
a task's difficulty are learned from instead of thrown away, the solver meets the tasks of this step, not of the last,
and with hindsight it also learns answers that the world has found to be right, though it did not give them there.
Step 0 fills the archive without learning. All randomness is a function of (seed, step, purpose), so a run that resumes
from a checkpoint does what the uninterrupted one would have done.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, groupby, islice, zip_longest
from typing import Any

import numpy as np

from autotelic.errors import UserError
from autotelic.play import evaluation, measures, rewards
from autotelic.play.archive import Archive
from autotelic.play.curriculum import Curriculum, NoCurriculum, Pool, Wish
from autotelic.play.evaluation import Progress, Row
from autotelic.play.exchange import Imported, Record, import_jsonl
from autotelic.play.loop_config import LoopConfig as LoopConfig
from autotelic.play.player import Metrics, Player, Sample
from autotelic.play.rewards import RewardConfig
from autotelic.play.rounds import Attempted, Pay, Proposed, graded, proposer_pay, solver_pay
from autotelic.runs import seeds
from autotelic.runs.checkpoints import CheckpointConfig
from autotelic.runs.directory import Run
from autotelic.worlds.base import Answer, Proposal, Rejection, Request, Task, Verdict, World


class Loop:
    """One run of self-play. A step that returned is archived; a checkpoint makes it safe."""

    def __init__(
        self,
        config: LoopConfig,
        run: Run,
        world: World,
        proposer: Player,
        solver: Player,
        archive: Archive,
        *,
        seed: int = 0,
        reward: RewardConfig = rewards.PUBLISHED,
        curriculum: Curriculum | None = None,
        checkpoint: CheckpointConfig | None = None,
        suite: Sequence[Task] = (),
        evaluate_every: int = 0,
    ) -> None:
        """`suite` are the tasks the run is measured with: in its steps if `evaluate_every` says at which."""
        fewest = min(config.attempts_at.get(kind, config.attempts) for kind in world.kinds)
        if rewards.learnability(1, fewest, reward) is None:
            raise UserError(
                f"reward.learnability={reward.learnability} says nothing of {fewest} attempts: "
                "raise loop.attempts and loop.attempts_at, or choose another"
            )
        for name in ("retries", "critiques"):
            if getattr(config, name) and not solver.reads:
                raise UserError(f"loop.{name}: the player {solver.name} reads no words but those of tasks; set it to 0")
        self.config, self.directory, self.world, self.archive = config, run, world, archive
        self.proposer, self.solver, self.curriculum = proposer, solver, curriculum or NoCurriculum()
        world.recall_from(archive.solved_answer)
        self.proposer.seed = seeds.derive(seed, "proposer")
        self.solver.seed = seeds.derive(seed, "solver")
        self.seed, self.reward, self.checkpoint = seed, reward, checkpoint or CheckpointConfig()
        self.suite, self.evaluate_every = suite, evaluate_every
        self._heldout = {task.id for task in suite}
        self.step = -1  # the last step completed; -1 before the archive is filled
        self.seconds = 0.0  # spent in steps, without measuring, over all the processes this run has had
        self.became: Counter[str] = Counter()  # of all proposals: "kind/admitted" or "kind/class of rejection"
        # "kind/sort": attempts that succeeded and all, the newest counting most
        self.lately: dict[str, list[float]] = {}
        self.cheating: Counter[str] = Counter()  # the ledger, summed over steps
        self.episodes = 0  # attempts judged in all steps
        self.attempted = Attempted()  # in the last step
        self.heldout: dict[str, dict[str, Any]] = {}
        self.imported: Imported | None = None  # what became of `config.tasks`
        self._times: dict[str, float] = {}
        self.measured: dict[str, Row] | None = None  # on the suite, since something was last learned

    def run_step(self) -> Metrics:
        """One step; returns its figures."""
        began, step = time.perf_counter(), self.step + 1
        self._times = {}
        if step == 0:
            proposed, attempted = self._seed_archive(), Attempted()
            pay: tuple[Pay, Pay] = ([None] * len(proposed.samples), [])
            learned: Metrics = {}
        else:
            proposed = self._propose(
                step, [kind for kind in self.world.kinds for _ in range(self.config.asked_for(kind))]
            )
            attempted = self._attempt(step, proposed)
            questions, asked = self._questions(step, proposed, attempted)
            attempted = replace(attempted, questions=questions)
            pay = proposer_pay(proposed, attempted, self.reward), solver_pay(attempted, self.reward)
            learned = self._learn(proposed, attempted, *pay) | asked
        # Before the step is archived, so that one whose measuring fails leaves no trace either.
        due = bool(self.evaluate_every) and step % self.evaluate_every == 0
        heldout = evaluation.figures(self.measure()) if due else {}
        if step > 0:
            self._archive(step, proposed, attempted, *pay)
        self.lately = measures.lately(self.lately, attempted, self.world.sort_of)
        steered = self._steer(step, proposed, attempted) | self._remember(attempted)
        self.step = step
        self.attempted, self.episodes = attempted, self.episodes + len(attempted.verdicts)
        self.seconds += time.perf_counter() - began - self._times.get("evaluate", 0.0)
        return self._record(proposed, attempted, *pay, learned | heldout | steered)

    def run(self, steps: int) -> Metrics:
        """Some steps more, then a checkpoint; returns the last step's figures."""
        figures: Metrics = {}
        for _ in range(steps):
            figures = self.run_step()
        if self.step >= 0:
            self.save_checkpoint()
        return figures

    @property
    def target_reached(self) -> bool:
        """Self-play has no target: it ends at a bound."""
        return False

    def evaluate(self, suite: Sequence[Task], samples: int = 0, progress: Progress | None = None) -> dict[str, Row]:
        """The solver's accuracy on held-out tasks, by kind and depth; see `evaluation.evaluate`."""
        return evaluation.evaluate(self.world, self.solver, suite, self.seed, samples=samples, progress=progress)

    def measure(self, progress: Progress | None = None) -> dict[str, Row]:
        """The solver's accuracy on the run's suite. What was measured holds until something is learned."""
        if self.measured is None:
            with self._timed("evaluate"):
                self.measured = self.evaluate(self.suite, progress=progress)
        return self.measured

    # The parts of a step

    def _seed_archive(self) -> Proposed:
        """Step 0: the world's own seeds, then proposals without attempts until each kind has enough to build on."""
        with self.archive.transaction():
            found = [self._refusing_heldout(self.world.unless_heldout(seed)) for seed in self.world.seeds()]
            self.archive.add_tasks(0, [seed for seed in found if isinstance(seed, Task)])
        if self.config.tasks is not None:
            self.imported = import_jsonl(self.archive, self.config.tasks, 0, self._readmit)
        wanted, total = self.config.batch * self.config.seeding, Proposed([], [], [])
        kinds = self.world.kinds
        # Kinds that build on others come last, so that they do not build on the seeds alone.
        for builds in (False, True):
            for turn in range(4 * self.config.seeding):
                group = [kind for kind in kinds if bool(kinds[kind].builds_on) is builds]
                short = [kind for kind in group if self.archive.active(kind) < wanted]
                if not short:
                    break
                proposed = self._propose(0, [kind for kind in short for _ in range(self.config.batch)], turn)
                self._archive(0, proposed, Attempted(), [None] * len(proposed.samples), [])
                total.requests.extend(proposed.requests)
                total.samples.extend(proposed.samples)
                total.results.extend(proposed.results)
        return total

    def _readmit(self, records: Sequence[Record]) -> list[Task | Rejection]:
        """Tasks from elsewhere are proposals like any other: nothing in the file is believed."""
        restated: list[Proposal | Rejection] = []
        for record in records:
            try:
                if record.world != self.world.name or record.kind not in self.world.kinds:
                    raise ValueError(f"of {record.world}/{record.kind}, not of this world")
                restated.append(self.world.restate(record.kind, record.spec))
            except ValueError as error:
                restated.append(Rejection(record.kind, "format", str(error)))
        proposals = [proposal for proposal in restated if isinstance(proposal, Proposal)]
        admitted = iter(self.world.admit(proposals, seeds.derive(self.seed, "import", records[0].line)))
        return [self._refusing_heldout(next(admitted)) if isinstance(each, Proposal) else each for each in restated]

    def _refusing_heldout(self, result: Task | Rejection) -> Task | Rejection:
        if isinstance(result, Task) and result.id in self._heldout:
            return Rejection(result.kind, "heldout", f"equal to held-out task {result.id}")
        return result

    def _propose(self, step: int, kinds: Sequence[str], turn: int = 0) -> Proposed:
        """Proposals of each kind in turn; `kinds` names the kind of each and has equal ones together."""
        rng = seeds.generator(self.seed, "references", step, turn)
        requests: list[Request] = []
        samples: list[Sample] = []
        results: list[Task | Rejection] = []
        beside: list[Sequence[Task]] = []
        for kind, group in groupby(kinds):
            with self._timed("propose", kind):
                chance = seeds.generator(self.seed, "curriculum", step, turn, kind)
                wishes = self.curriculum.sample(kind, len(list(group)), chance)
                asked = self._requests(kind, wishes, rng)
                said = self.proposer.propose(asked, seeds.generator(self.seed, "propose", step, turn, kind))
            with self._timed("admit", kind):
                pairs = zip(asked, said, strict=True)
                proposals = [Proposal(kind, sample.text, request.base) for request, sample in pairs]
                seed = seeds.derive(self.seed, "admit", step, turn, kind)
                made = self._without_duplicates(self.world.admit(proposals, seed))
                beside += self._beside(made)
            results += made
            requests += asked
            samples += said
        self.became.update(f"{each.kind}/{'admitted' if isinstance(each, Task) else each.outcome}" for each in results)
        return Proposed(requests, samples, results, self._siblings(results, beside))

    def _beside(self, results: Sequence[Task | Rejection]) -> list[Sequence[Task]]:
        """What else each result gives to ask. Worlds know it until they admit something else."""
        return [self.world.siblings(each) if isinstance(each, Task) else each.found for each in results]

    def _siblings(self, results: Sequence[Task | Rejection], beside: Sequence[Sequence[Task]]) -> list[Task]:
        rounds = zip_longest(*beside)  # in turn: what is attempted of them is of as many tasks as there are
        found = {sibling.id: sibling for each in rounds for sibling in each if sibling is not None}
        made = {result.id for result in results if isinstance(result, Task)}
        known = self.archive.known(list(found)) | made | self._heldout
        return [sibling for sibling in found.values() if sibling.id not in known]

    def _requests(self, kind: str, wishes: Sequence[Wish], rng: np.random.Generator) -> list[Request]:
        """A request a wish; what has happened so far, all are told alike."""
        config, archive, prefix = self.config, self.archive, f"{kind}/"
        told = Request(
            kind,
            recent=tuple(archive.newest(kind, config.recent)),
            outcomes={name.removeprefix(prefix): n for name, n in self.became.items() if name.startswith(prefix)},
            lately=measures.rates(self.lately, kind),
        )
        requests: list[Request] = []
        for wish in wishes:
            base = next(iter(archive.sample_references(self.world.kinds[kind].builds_on, 1, rng)), None)
            references = tuple(archive.sample_references([kind], config.references, rng))
            difficulty = config.wanted if wish.difficulty is None else wish.difficulty
            asked = replace(told, references=references, base=base)
            requests.append(replace(asked, difficulty=difficulty, wanted=wish.features))
        return requests

    def _without_duplicates(self, results: Sequence[Task | Rejection]) -> list[Task | Rejection]:
        seen = self.archive.known([result.id for result in results if isinstance(result, Task)])
        kept: list[Task | Rejection] = []
        for result in map(self._refusing_heldout, results):
            if isinstance(result, Task):
                if result.id in seen:
                    result = Rejection(result.kind, "duplicate", f"task {result.id} is known already")
                else:
                    seen.add(result.id)
            kept.append(result)
        return kept

    def _attempt(self, step: int, proposed: Proposed) -> Attempted:
        """The new tasks of each kind, the batch filled up from the archive, each attempted n times and judged."""
        rng = seeds.generator(self.seed, "practice", step)
        tasks: list[Task] = []
        samples: list[Sample] = []
        verdicts: list[Verdict] = []
        critiques: list[Sample] = []
        practised: list[Task] = []
        for kind in self.world.kinds:
            new = [*proposed.tasks(kind), *(task for task in proposed.siblings if task.kind == kind)]
            new = new[: self.config.batch]
            missing = self.config.batch - len(new)
            chance = seeds.generator(self.seed, "curriculum", "practice", step, kind)
            again = self.curriculum.practise(kind, missing, chance, Pool(self.archive, kind, chance)) if missing else []
            practised += again
            missing, known = missing - len(again), [task.id for task in again]
            chosen = [*new, *again, *self.archive.sample_references([kind], missing, rng, self.config.practice, known)]
            if not chosen:
                continue
            n = self.config.attempts_at.get(kind, self.config.attempts)
            with self._timed("attempt", kind):
                said = self.solver.attempt(chosen, n, seeds.generator(self.seed, "attempt", step, kind))
            asked = [chosen[at // n] for at in range(len(said))]
            critiques += self._criticised(step, kind, asked, said)
            judged = self._judged(asked, said, seeds.derive(self.seed, "judge", step, kind), kind)
            said, judged = self._retried(step, kind, asked, said, judged)
            tasks += chosen
            samples += said
            verdicts += judged
        return Attempted(tasks, samples, verdicts, critiques, practised)

    def _questions(self, step: int, proposed: Proposed, attempted: Attempted) -> tuple[list[Task], Metrics]:
        """What some of the answers, drawn by chance, give to ask, and what became of it. Nobody proposed it, so nobody
        is paid."""
        if not self.config.questions:
            return [], {}
        tasks = {task.id: task for task in attempted.tasks}
        said = {
            (sample.task or "", sample.text): sample
            for sample, verdict in zip(attempted.samples, attempted.verdicts, strict=True)
            if verdict.evidence
        }
        rng = seeds.generator(self.seed, "questions", step)
        samples = list(said.values())
        drawn = [samples[at] for at in rng.permutation(len(samples))]
        asked = (self.world.questions(tasks[sample.task or ""], Answer(sample.text)) for sample in drawn)
        with self._timed("questions"):
            proposals = list(chain.from_iterable(islice(filter(None, asked), self.config.questions)))
            results = self._without_duplicates(self.world.admit(proposals, seeds.derive(self.seed, "questions", step)))
            admitted = [result for result in results if isinstance(result, Task)]
            found = [*admitted, *self._siblings(results, self._beside(results))]
        known = {made.id for made in (*proposed.results, *proposed.siblings) if isinstance(made, Task)}
        figures = {"questions/admitted": float(len(admitted)), "questions/refused": float(len(results) - len(admitted))}
        return [task for task in found if task.id not in known], figures

    def _judged(self, tasks: Sequence[Task], samples: Sequence[Sample], seed: int, kind: str) -> list[Verdict]:
        pairs = [(task, Answer(sample.text, sample.claim)) for task, sample in zip(tasks, samples, strict=True)]
        with self._timed("judge", kind):
            self.world.hindsight = self.config.hindsight  # not where answers are only measured
            try:
                return self.world.judge(pairs, seed)
            finally:
                self.world.hindsight = False

    def _criticised(self, step: int, kind: str, tasks: Sequence[Task], samples: Sequence[Sample]) -> list[Sample]:
        """What the solver thinks of some of its answers, drawn by chance."""
        if not self.config.critiques:
            return []
        rng = seeds.generator(self.seed, "criticise", step, kind)
        rows = sorted(rng.permutation(len(samples))[: self.config.critiques].tolist())
        with self._timed("attempt", kind):
            return self.solver.criticise([(tasks[row], samples[row]) for row in rows], rng)

    def _retried(
        self, step: int, kind: str, tasks: Sequence[Task], samples: Sequence[Sample], verdicts: Sequence[Verdict]
    ) -> tuple[list[Sample], list[Verdict]]:
        """The answers and verdicts with those of all retries behind them. A retry is judged at other starts, where a
        world draws any: what was said of the first ones is of no use beyond the task."""
        all_samples, all_verdicts = list(samples), list(verdicts)
        budget = self.config.retry_budget if self.world.kinds[kind].feedback else 0
        newest = list(zip(tasks, samples, verdicts, strict=True))
        for turn in range(self.config.retries):
            failed = [each for each in newest if not each[2].solved and each[2].evidence][:budget]
            if not failed:
                break
            budget -= len(failed)
            with self._timed("attempt", kind):
                said = self.solver.retry(failed, seeds.generator(self.seed, "retry", step, kind, turn))
            asked = [task for task, _, _ in failed]
            judged = self._judged(asked, said, seeds.derive(self.seed, "judge", step, kind, "retry", turn), kind)
            newest = list(zip(asked, said, judged, strict=True))
            all_samples += said
            all_verdicts += judged
        return all_samples, all_verdicts

    def _learn(self, proposed: Proposed, attempted: Attempted, proposer_pay: Pay, solver_pay: Pay) -> Metrics:
        self.measured = None
        with self._timed("learn"):
            made = [self._sorted(*pair) for pair in zip(proposed.samples, proposed.results, strict=True)]
            asked = graded(made, proposer_pay)
            tasks = {task.id: task for task in attempted.tasks}
            said = [self._sorted(sample, tasks[sample.task or ""]) for sample in attempted.samples]
            answered = [*graded(said, solver_pay), *self._hindsight(proposed, attempted)]
            if self.proposer is self.solver:
                learned = self.solver.learn([*asked, *answered])
            else:
                # What is named by role and kind is told apart already; the rest would hide the other player's.
                apart = {"proposer": self.proposer.learn(asked), "solver": self.solver.learn(answered)}
                learned = {
                    name if "/" in name else f"{role}/{name}": value
                    for role, figures in apart.items()
                    for name, value in figures.items()
                }
        return {f"learn/{name}": value for name, value in learned.items()}

    def _sorted(self, sample: Sample, task: Task | Rejection) -> Sample:
        """The sample with the sort of task that it made or was for."""
        sort = self.world.sort_of(task) if isinstance(task, Task) else ""
        return replace(sample, sort=sort) if sort else sample

    def _hindsight(self, proposed: Proposed, attempted: Attempted) -> list[tuple[Sample, float]]:
        """Answers as right ones to other tasks that they happen to solve, each once; and those that new tasks came
        with, which were found by trying."""
        found: dict[tuple[str, str], Sample] = {}
        if self.config.hindsight:
            made = (*proposed.results, *proposed.siblings, *attempted.questions)
            new = [task for task in made if isinstance(task, Task)]
            for task, sample in ((task, self.solver.recite(task)) for task in new):
                if sample is not None:
                    found[task.id, sample.text] = self._sorted(sample, task)
        pairs = zip(attempted.samples, attempted.verdicts, strict=True)
        for sample, task in ((sample, task) for sample, verdict in pairs for task in verdict.achieved):
            if task.id not in self._heldout and (task.id, sample.text) not in found:
                relabelled = self.solver.relabel(sample, task)
                if relabelled is not None:
                    found[task.id, sample.text] = self._sorted(relabelled, task)
        return [(sample, rewards.composite_reward(True, True, self.reward)) for sample in found.values()]

    def _archive(self, step: int, proposed: Proposed, attempted: Attempted, proposer_pay: Pay, solver_pay: Pay) -> None:
        """The whole step in one transaction."""
        archive = self.archive
        with self._timed("archive"), archive.transaction():
            shown = [[task.id for task in (*request.references, request.base) if task] for request in proposed.requests]
            rows = archive.add_samples(step, proposed.samples, proposer_pay, shown)
            admitted = [(task, row) for task, row in zip(proposed.results, rows, strict=True) if isinstance(task, Task)]
            refused = [(no, row) for no, row in zip(proposed.results, rows, strict=True) if isinstance(no, Rejection)]
            archive.add_tasks(step, [task for task, _ in admitted], [row for _, row in admitted])
            archive.add_tasks(step, [*proposed.siblings, *attempted.questions])
            archive.add_rejections(step, [no for no, _ in refused], [row for _, row in refused])
            rows = archive.add_samples(step, attempted.samples, solver_pay)
            asked = [sample.task or "" for sample in attempted.samples]
            archive.add_verdicts(step, attempted.verdicts, asked, rows)
            archive.add_samples(step, attempted.critiques, [None] * len(attempted.critiques))
            archive.enforce_capacity(step)

    def _steer(self, step: int, proposed: Proposed, attempted: Attempted) -> Metrics:
        """Tells the curriculum what became of the step; what it wanted and what it made of it."""
        if not self.curriculum.steers:
            return {}
        figures = measures.wanted(proposed.requests, attempted.practised)
        rng = seeds.generator(self.seed, "curriculum", "update", step)
        figures |= self.curriculum.update(measures.outcomes(attempted), rng)
        return {f"curriculum/{name}": value for name, value in figures.items()}

    def _remember(self, attempted: Attempted) -> Metrics:
        """Tells the world what has worked."""
        tasks = {task.id: task for task in attempted.tasks}
        said = [(tasks[sample.task or ""], Answer(sample.text, sample.claim)) for sample in attempted.samples]
        found = self.world.remember([(*pair, verdict) for pair, verdict in zip(said, attempted.verdicts, strict=True)])
        if found:
            self.measured = None  # it may know more than when it was measured
        return {f"world/{name}": value for name, value in found.items()}

    # The run around the steps

    def _record(
        self, proposed: Proposed, attempted: Attempted, proposer_pay: Pay, solver_pay: Pay, more: Metrics
    ) -> Metrics:
        ledger = measures.cheating(proposed, attempted)
        self.cheating.update(ledger)
        figures = measures.step_figures(proposed, attempted, self.reward, self.world.kinds)
        figures |= measures.cheating_by_role(proposed, attempted)
        figures |= measures.mean_pay("propose", proposed.samples, proposer_pay)
        figures |= measures.mean_pay("solve", attempted.samples, solver_pay)
        figures |= more
        figures |= {f"cheating/{name}": float(count) for name, count in ledger.items()}
        figures |= {f"archive/{kind}/active": float(self.archive.active(kind)) for kind in self.world.kinds}
        figures |= {f"time/{name}": spent for name, spent in self._times.items()}
        self.directory.metrics.write(self.step, figures)
        if self.step % self.checkpoint.every == 0:
            self.save_checkpoint()
        return figures

    def save_checkpoint(self) -> None:
        """The commit point: what is older is safe, what is newer is dropped on resume."""
        self.archive.flush()
        self.directory.metrics.sync()
        state: dict[str, Any] = {
            "became": dict(self.became),
            "lately": self.lately,
            "cheating": dict(self.cheating),
            "episodes": self.episodes,
            "heldout": self.heldout,
            "proposer": self.proposer.state(),
            "solver": {} if self.solver is self.proposer else self.solver.state(),
            "curriculum": {"name": self.curriculum.name, "state": self.curriculum.dump()},
            "world": self.world.state(),
            "timings": {"seconds": self.seconds},
        }
        self.directory.checkpoints.save(self.step, state)

    def restore(self, step: int, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint: archive and metrics forget what is newer, once the state has been taken over."""
        self.step, self.seconds = step, state["timings"]["seconds"]
        self.became, self.cheating = Counter(state["became"]), Counter(state["cheating"])
        self.episodes = state.get("episodes", 0)  # runs from before they were counted
        self.lately = {name: list(counts) for name, counts in state.get("lately", {}).items()}
        self.heldout = {kind: dict(figures) for kind, figures in state["heldout"].items()}
        self.proposer.load_state(state["proposer"])
        if self.solver is not self.proposer:
            self.solver.load_state(state["solver"])
        self.world.load_state(state.get("world", {}))
        steered = state.get("curriculum", {})  # runs from before there were any have none
        if steered.get("name") == self.curriculum.name:  # a fork may go on with another, which knows nothing yet
            self.curriculum.load(steered["state"])
        self.archive.rewind(step)
        self.directory.metrics.rewind(step)

    def result(self, finished: bool) -> dict[str, Any]:
        """The run's headline figures, as result.json has them."""
        return {
            "verb": "play",
            "seed": self.seed,
            "steps": max(self.step, 0),
            "minutes": round(self.seconds / 60, 3),
            "finished": finished,
            "world": self.world.name,
            "heldout": self.heldout,
            "archive": self.archive.counts(),
            "cheating": dict(measures.NO_CHEATING | self.cheating),
        }

    @contextmanager
    def _timed(self, phase: str, kind: str | None = None) -> Iterator[None]:
        began = time.perf_counter()
        yield
        spent = time.perf_counter() - began
        for name in [phase] if kind is None else [phase, f"{phase}/{kind}"]:
            self._times[name] = self._times.get(name, 0.0) + spent
