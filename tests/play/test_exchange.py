import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from autotelic.errors import UserError
from autotelic.play import exchange
from autotelic.play.archive import Archive
from autotelic.play.exchange import Record, export_jsonl, import_jsonl
from autotelic.play.player import Sample
from autotelic.runs.files import content_address
from autotelic.worlds.base import Rejection, Task, Verdict


def make_task(number: int) -> Task:
    spec = {"input": number, "output": number + 1}
    return Task(content_address("deduction", spec), "code", "deduction", spec, {"depth": 1.0})


def admit(records: Sequence[Record]) -> list[Task | Rejection]:
    """A world in which the output is the input plus one, whatever a record says."""
    judged: list[Task | Rejection] = []
    for record in records:
        number = record.spec.get("input")
        judged.append(make_task(number) if type(number) is int else Rejection(record.kind, "invalid", "no input"))
    return judged


@pytest.fixture
def archive(tmp_path: Path):
    with Archive.create(tmp_path / "archive.sqlite") as made:
        yield made


def line(**changes: object) -> str:
    return json.dumps({"type": "task", "world": "code", "kind": "deduction", "spec": {"input": 1}} | changes)


def imported(archive: Archive, tmp_path: Path, *lines: str | bytes) -> exchange.Imported:
    encoded = [text if isinstance(text, bytes) else text.encode() for text in lines]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(encoded))
    return import_jsonl(archive, tmp_path / "in.jsonl", 0, admit)


def test_what_was_exported_is_imported_once(archive: Archive, tmp_path: Path) -> None:
    tasks = [make_task(n) for n in range(600)]
    archive.add_tasks(0, tasks)
    (number,) = archive.add_samples(0, [Sample("solve", "deduction", "half a pair \ud800", tasks[0].id)], [1.0])
    archive.add_verdicts(0, [Verdict(True, "correct", 1.0)], [tasks[0].id], [number])
    archive.add_rejections(0, [Rejection("deduction", "syntax", "line 1")])
    assert export_jsonl(archive, tmp_path / "out.jsonl") == 603
    with Archive.create(tmp_path / "other.sqlite") as other:
        result = import_jsonl(other, tmp_path / "out.jsonl", 3, admit)
        assert (result.tasks, result.bad, result.ignored) == ([task.id for task in tasks], [], 3)
        assert [entry.task for entry in other.tasks(limit=1000)] == tasks
        assert import_jsonl(other, tmp_path / "out.jsonl", 4, admit).duplicates == 600


def test_evidence_of_another_run_does_not_count_here(archive: Archive, tmp_path: Path) -> None:
    imported(archive, tmp_path, line(attempts=8, solved=4), json.dumps({"type": "verdict", "solved": True}))
    (entry,) = archive.tasks()
    assert (entry.attempts, entry.solved, archive.counts()["verdicts"]) == (0, 0, 0)


def test_a_forged_output_or_id_does_not_become_gold(archive: Archive, tmp_path: Path) -> None:
    imported(archive, tmp_path, line(id="0" * 32, spec={"input": 1, "output": 999}))
    (entry,) = archive.tasks()
    assert entry.task == make_task(1)


def test_what_the_world_rejects_stays_out_and_is_named_by_line(archive: Archive, tmp_path: Path) -> None:
    result = imported(archive, tmp_path, line(), line(spec={"input": "x"}))
    assert result.rejected == [(2, Rejection("deduction", "invalid", "no input"))]
    assert archive.counts()["tasks"] == 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        (b'{"type": "task\xff"}', "not UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        ('{"type": "task", "world": "code", "kind": "k", "spec": {"input": NaN}}', "NaN is not JSON"),
        ('{"type": "task", "type": "task"}', "given twice"),
        ('{"type": "task", "spec": {"input": ' + "9" * 5000 + "}}", "4300"),
        (line(world=1), "world is not"),
        (line(world="a" * 65), "world is not"),
        (line(kind="a\nb"), "kind is not"),
        (line(spec=[1]), "spec is not"),
        (line(features={"depth": True}), "feature depth is not"),
        (line(features={"depth": 10**400}), "feature depth is not"),
        (line(features=[]), "features is not"),
        (line(type="program"), "its type is 'program'"),
        ('{"type": "header", "format": "autotelic-archive", "version": 2}', "reads up to 1"),
    ],
)
def test_a_bad_line_is_named_and_skipped(archive: Archive, tmp_path: Path, bad: str | bytes, why: str) -> None:
    result = imported(archive, tmp_path, line(), bad, line(spec={"input": 2}))
    (found,) = result.bad
    assert found.line == 2
    assert why in found.why
    assert str(found).startswith(f"{tmp_path / 'in.jsonl'}, line 2: ")
    assert "\n" not in str(found)
    assert result.tasks == [make_task(1).id, make_task(2).id]


def test_a_line_too_long_is_skipped_without_losing_count(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MAX_LINE", 1000)
    result = imported(archive, tmp_path, line(), line(note="x" * 5000), line(spec={"input": 2}), line(world=1))
    assert result.bad[0].why == "longer than 1000 bytes"
    assert [bad.line for bad in result.bad] == [2, 4]
    assert len(result.tasks) == 2


def test_a_file_cut_in_the_middle_of_a_line_gives_all_lines_before(archive: Archive, tmp_path: Path) -> None:
    archive.add_tasks(0, [make_task(n) for n in range(10)])
    export_jsonl(archive, tmp_path / "out.jsonl")
    whole = (tmp_path / "out.jsonl").read_bytes()
    with Archive.create(tmp_path / "other.sqlite") as other:
        result = imported(other, tmp_path, whole[:-20])
    assert len(result.tasks) == 9
    assert [bad.line for bad in result.bad] == [11]


def test_a_missing_file_is_one_line(archive: Archive, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*none.jsonl: No such file"):
        import_jsonl(archive, tmp_path / "none.jsonl", 0, admit)


def test_an_export_that_fails_leaves_the_old_file(archive: Archive, tmp_path: Path) -> None:
    archive.add_tasks(0, [make_task(1)])
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        export_jsonl(archive, tmp_path / "out")
    assert sorted(item.name for item in tmp_path.iterdir() if "out" in item.name) == ["out"]
