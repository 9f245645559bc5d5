"""Everything a run has proposed, answered and judged, in one SQLite file; and the draw of tasks to build on.

Tasks and answers are stored once, under their content address. Every row carries the step that wrote it, so a run
that was killed goes back to its last checkpoint by dropping what is newer. The steps written never go down.
Traces are not kept: they are tensors that only the learner of the same step reads.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from autotelic.play.active import COLUMNS, STRATEGIES, ActiveSet, ArchiveConfig
from autotelic.play.index import draw
from autotelic.play.player import Sample
from autotelic.play.records import Attempt, Entry, Records, finite, to_figures, to_json, to_text
from autotelic.play.store import TABLES, Store
from autotelic.runs.files import content_address
from autotelic.worlds.base import Rejection, Task, Verdict

__all__ = ["Archive", "ArchiveConfig", "Attempt", "Entry"]

_COLUMNS = ", ".join(COLUMNS)


class Archive(Records):
    """One run's archive. `create` or `open` it; write inside `with archive.transaction():`, one a step."""

    def __init__(self, store: Store, config: ArchiveConfig) -> None:
        super().__init__(store)
        self.config = config
        self._writing = False
        self._load()

    @classmethod
    def create(cls, path: str | PathLike[str], config: ArchiveConfig | None = None) -> Archive:
        return cls(Store.create(Path(path)), config or ArchiveConfig())

    @classmethod
    def open(cls, path: str | PathLike[str], config: ArchiveConfig | None = None, readonly: bool = False) -> Archive:
        return cls(Store.open(Path(path), readonly), config or ArchiveConfig())

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def step(self) -> int:
        """The newest step that wrote anything; -1 for an empty archive."""
        return self._step

    def flush(self) -> None:
        """Makes all written steps safe against a power cut. Call before a checkpoint that relies on them."""
        self._store.flush()

    def check(self) -> None:
        """Reads the whole file; a UserError says what is damaged."""
        self._store.check()

    def _load(self) -> None:
        """Builds the view in memory from the file, in bulk."""
        newest = [self._store.value(f"SELECT max(step) FROM {table}") for table in TABLES]
        newest.append(self._store.value("SELECT max(retired_step) FROM tasks WHERE retired_step IS NOT NULL"))
        self._step = max((step for step in newest if step is not None), default=-1)
        self._active: dict[str, ActiveSet] = {}
        active = f"SELECT {_COLUMNS} FROM tasks WHERE kind = ? AND retired_step IS NULL ORDER BY n"
        kinds = self._store.all("SELECT DISTINCT kind FROM tasks WHERE retired_step IS NULL ORDER BY kind")
        for (kind,) in kinds:
            self._active[kind] = ActiveSet(self._store.integers(active, (kind,), len(COLUMNS)))

    # Writing

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: an exception inside undoes what was written, in the file and in memory."""
        if self._writing:
            raise RuntimeError("an archive transaction is open already")
        self._store.begin()
        self._writing = True
        try:
            yield
            self._store.commit()
        except BaseException:
            self._store.rollback()
            self._load()
            raise
        finally:
            self._writing = False

    @contextmanager
    def _writes(self, step: int) -> Iterator[None]:
        """Joins the open transaction or makes one of its own."""
        if step < max(self._step, 0):
            raise ValueError(f"step {step} is before step {self._step}, which is written already")
        if not self._writing:
            with self.transaction(), self._writes(step):
                yield
            return
        before = self._store.changes
        yield
        if self._store.changes > before:  # nothing written is no step, or the file would know less than we do
            self._step = step

    def _next(self, table: str) -> int:
        return (self._store.value(f"SELECT max(n) FROM {table}") or 0) + 1

    def add_samples(
        self,
        step: int,
        samples: Sequence[Sample],
        rewards: Sequence[float | None],
        references: Sequence[Sequence[str]] | None = None,
    ) -> list[int]:
        """Archives what players produced; `references` are the ids of the tasks each was shown. Returns row numbers."""
        shown = references if references is not None else [()] * len(samples)
        _same_length(samples=samples, rewards=rewards, references=shown)
        with self._writes(step):
            tasks = self.rows_of({sample.task for sample in samples if sample.task is not None})
            first, answer = self._next("samples"), self._next("answers")
            addresses = [content_address(sample.text) for sample in samples]
            known = dict(
                self._store.rows(
                    "SELECT address, n FROM answers WHERE address IN (SELECT value FROM json_each(?))",
                    (json.dumps(addresses),),
                )
            )
            texts, rows, links = [], [], []
            pairs = zip(samples, addresses, rewards, shown, strict=True)
            for n, (sample, address, reward, ids) in enumerate(pairs, first):
                if address not in known:
                    known[address] = answer + len(texts)
                    texts.append((known[address], address, step, to_text(sample.text)))
                task = None if sample.task is None else tasks[sample.task]
                claim = None if sample.claim is None else int(sample.claim)
                paid = None if reward is None else finite("reward", reward)
                rows.append((n, step, sample.role, sample.kind, known[address], task, claim, paid))
                links += [(step, n, "reference", id) for id in ids]
                if sample.parent is not None:
                    links.append((step, n, "parent", sample.parent))
            self._store.write_many("INSERT INTO answers VALUES (?, ?, ?, ?)", texts)
            self._store.write_many("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._store.write_many("INSERT INTO lineage (step, sample, relation, target) VALUES (?, ?, ?, ?)", links)
        return list(range(first, first + len(samples)))

    def add_tasks(self, step: int, tasks: Sequence[Task], sample_ids: Sequence[int | None] | None = None) -> None:
        """Archives admitted tasks, with the samples that proposed them. Each must be new: ask `known` first."""
        proposals = sample_ids if sample_ids is not None else [None] * len(tasks)
        _same_length(tasks=tasks, sample_ids=proposals)
        ids = [task.id for task in tasks]
        with self._writes(step):
            again = self.known(ids)
            if again or len(set(ids)) < len(ids):
                twice = min(again or {id for id in ids if ids.count(id) > 1})
                raise ValueError(f"task {twice} is archived already or given twice")
            first = self._next("tasks")
            self._store.write_many(
                "INSERT INTO tasks (n, id, step, world, kind, sample, touched) VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (n, task.id, step, task.world, task.kind, sample, step)
                    for n, (task, sample) in enumerate(zip(tasks, proposals, strict=True), first)
                ],
            )
            self._store.write_many(
                "INSERT INTO specs (n, step, spec, features) VALUES (?, ?, ?, ?)",
                [(n, step, to_json(task.spec), to_figures(task.features)) for n, task in enumerate(tasks, first)],
            )
            kinds = np.array([task.kind for task in tasks])
            for kind in dict.fromkeys(task.kind for task in tasks):
                rows = first + np.flatnonzero(kinds == kind)
                table = np.zeros((len(rows), len(COLUMNS)), dtype=np.int64)
                table[:, COLUMNS.index("n")] = rows
                table[:, COLUMNS.index("touched")] = step
                self._active.setdefault(kind, ActiveSet(table[:0])).append(table)

    def add_rejections(
        self, step: int, rejections: Sequence[Rejection], sample_ids: Sequence[int | None] | None = None
    ) -> None:
        proposals = sample_ids if sample_ids is not None else [None] * len(rejections)
        _same_length(rejections=rejections, sample_ids=proposals)
        with self._writes(step):
            self._store.write_many(
                "INSERT INTO rejections (step, kind, sample, outcome, reason) VALUES (?, ?, ?, ?, ?)",
                [
                    (step, rejection.kind, sample, rejection.outcome, to_text(rejection.reason))
                    for rejection, sample in zip(rejections, proposals, strict=True)
                ],
            )

    def add_verdicts(
        self, step: int, verdicts: Sequence[Verdict], task_ids: Sequence[str], sample_ids: Sequence[int]
    ) -> None:
        """Archives verdicts. Only those that are evidence count as attempts at their task."""
        _same_length(verdicts=verdicts, task_ids=task_ids, sample_ids=sample_ids)
        with self._writes(step):
            tasks = self.rows_of(set(task_ids))
            rows, counts = [], []
            for verdict, id, sample in zip(verdicts, task_ids, sample_ids, strict=True):
                evidence, task = int(verdict.evidence), tasks[id]
                solved = int(verdict.solved)
                timings = {name: value for name, value in verdict.metrics.items() if name.endswith("seconds")}
                metrics = {name: value for name, value in verdict.metrics.items() if name not in timings}
                score, detail = finite("score", verdict.score), to_text(verdict.detail)
                judged = (step, task, int(sample), solved, evidence, verdict.outcome, score, detail)
                rows.append(
                    (*judged, to_figures(metrics), verdict.version, str(int(verdict.seed)), to_figures(timings))
                )
                unsound = int(verdict.outcome == "nondeterministic")
                counts.append((evidence, evidence * solved, evidence, solved, step, unsound, task))
            self._store.write_many(
                "INSERT INTO verdicts (step, task, sample, solved, evidence, outcome, score, detail, metrics, version, "
                "seed, timings) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._store.write_many(
                "UPDATE tasks SET attempts = attempts + ?1, solved = solved + ?2, touched = max(touched, ?5), "
                "streak = CASE WHEN NOT ?3 THEN streak WHEN ?4 THEN streak + 1 ELSE 0 END, unsound = unsound + ?6 "
                "WHERE n = ?7",
                counts,
            )
            self._refresh(tasks.values())

    def _refresh(self, rows: Iterable[int]) -> None:
        """Takes the counters of these rows over from the file."""
        changed: dict[str, list[tuple[int, ...]]] = {}
        for kind, *counters in self._store.rows(
            f"SELECT kind, {_COLUMNS} FROM tasks WHERE retired_step IS NULL AND n IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(rows)),),
        ):
            changed.setdefault(kind, []).append(tuple(counters))
        for kind, table in changed.items():
            self._active[kind].update(np.array(table, dtype=np.int64))

    def retire(self, step: int, ids: Iterable[str], why: str) -> None:
        """Takes tasks out of the active set for good; those retired before keep their first reason."""
        with self._writes(step):
            self._retire(step, self.rows_of(set(ids)).values(), why)

    def _retire(self, step: int, rows: Iterable[int], why: str) -> None:
        gone = sorted(rows)
        self._store.write(
            "UPDATE tasks SET retired_step = ?, retired_why = ? "
            "WHERE retired_step IS NULL AND n IN (SELECT value FROM json_each(?))",
            (step, why, json.dumps(gone)),
        )
        for active in self._active.values():
            active.remove(gone)

    def enforce_capacity(self, step: int) -> dict[str, int]:
        """Retires what is non-deterministic, solved out, stale or too much; returns how many for each reason."""
        retired: dict[str, int] = {}
        with self._writes(step):
            for kind in sorted(self._active):
                for why, rows in self._active[kind].to_retire(step, self.config).items():
                    self._retire(step, rows, why)
                    retired[why] = retired.get(why, 0) + len(rows)
        return retired

    def rewind(self, step: int) -> None:
        """Goes back to the end of `step`, as if nothing later had happened. One transaction: a kill leaves either."""
        with self.transaction():
            touched = [row for (row,) in self._store.rows("SELECT DISTINCT task FROM verdicts WHERE step > ?", (step,))]
            for table in TABLES:
                self._store.write(f"DELETE FROM {table} WHERE step > ?", (step,))
            self._store.write(
                "UPDATE tasks SET retired_step = NULL, retired_why = NULL "
                "WHERE retired_step IS NOT NULL AND retired_step > ?",
                (step,),
            )
            evidence = "FROM verdicts v WHERE v.task = tasks.n AND v.evidence"
            self._store.write(
                f"UPDATE tasks SET attempts = (SELECT count(*) {evidence}), "
                f"solved = (SELECT count(*) {evidence} AND v.solved), "
                f"streak = (SELECT count(*) {evidence} AND v.solved AND v.n > coalesce("
                f"(SELECT max(n) {evidence} AND NOT v.solved), 0)), "
                "touched = coalesce((SELECT max(step) FROM verdicts v WHERE v.task = tasks.n), step), "
                "unsound = (SELECT count(*) FROM verdicts v WHERE v.task = tasks.n "
                "AND v.outcome = 'nondeterministic') "
                "WHERE n IN (SELECT value FROM json_each(?))",
                (json.dumps(touched),),
            )
            self._load()

    # Reading

    def newest(self, kind: str, n: int) -> list[str]:
        """Ids of the newest active tasks of a kind, newest first."""
        rows = self._active[kind].newest(n) if kind in self._active else []
        return [task.id for task in self.tasks_at(rows)]

    def active(self, kind: str) -> int:
        """How many tasks of a kind are active."""
        return len(self._active[kind]) if kind in self._active else 0

    def active_among(self, kind: str, ids: Sequence[str]) -> list[str]:
        """Those of the ids that are active tasks of a kind, in their order."""
        if kind not in self._active:
            return []
        rows = self.rows_of(self.known(ids))
        positions = self._active[kind].positions(sorted(rows.values()))
        live = {self._active[kind].row_at(position) for position in positions.tolist()}
        return [id for id in ids if rows.get(id) in live]

    def sample_references(
        self,
        kinds: Sequence[str],
        k: int,
        rng: np.random.Generator,
        strategy: str | None = None,
        exclude: Collection[str] = (),
    ) -> list[Task]:
        """`k` distinct active tasks of these kinds in the order drawn, or all there are if fewer; none of `exclude`."""
        strategy = strategy or self.config.reference_strategy
        if strategy not in STRATEGIES:
            raise ValueError(f"no reference strategy {strategy!r}; known are {', '.join(STRATEGIES)}")
        sets = [self._active[kind] for kind in dict.fromkeys(kinds) if kind in self._active]
        hidden: list[tuple[int, int]] = []
        if exclude:
            rows = sorted(self.rows_of(set(exclude) & self.known(exclude)).values())
            hidden = [(which, at) for which, active in enumerate(sets) for at in active.positions(rows).tolist()]
        recency = self.config.recency if strategy == "recent" else 1
        drawn = draw([active.tree(strategy) for active in sets], k, rng, recency, hidden)
        return self.tasks_at([sets[which].row_at(position) for which, position in drawn])

    def counts(self) -> dict[str, Any]:
        """What a report's header says: totals, by kind, by reason of retirement, by outcome."""
        counts: dict[str, Any] = {
            table: self._store.value(f"SELECT count(*) FROM {table}")
            for table in ("tasks", "samples", "answers", "verdicts", "rejections")
        }
        counts["active"] = {kind: len(self._active[kind]) for kind in sorted(self._active)}
        grouped = {
            "kinds": "SELECT kind, count(*) FROM tasks GROUP BY kind ORDER BY kind",
            "retired": "SELECT retired_why, count(*) FROM tasks WHERE retired_step IS NOT NULL "
            "GROUP BY retired_why ORDER BY retired_why",
            "outcomes": "SELECT outcome, count(*) FROM verdicts GROUP BY outcome ORDER BY outcome",
            "rejected": "SELECT outcome, count(*) FROM rejections GROUP BY outcome ORDER BY outcome",
        }
        counts.update({name: dict(self._store.rows(sql)) for name, sql in grouped.items()})
        return counts


def _same_length(**columns: Sequence[Any]) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("unequal lengths: " + ", ".join(f"{len(column)} {name}" for name, column in columns.items()))
