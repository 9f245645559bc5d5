"""Episodes in processes: ordered, equal ones once, and a process that dies costs one try."""

import os
import signal

import pytest

from autotelic.worlds.arm import brief
from autotelic.worlds.arm.episodes import Job
from autotelic.worlds.arm.kinds.base import start_of
from autotelic.worlds.arm.tasks import read_setting
from autotelic.worlds.arm.workers import Workers
from autotelic.worlds.code.sandbox import SandboxConfig

SETTING = read_setting({"objects": [{"color": "red", "shape": "box", "at": [0.4, 0.1]}]})
SIMPLE = SandboxConfig(servers=1, ahead=1)


def job(calls: str) -> Job:
    return Job(SETTING.scene, start_of(SETTING.start), brief.program_of(calls))


@pytest.fixture(scope="module")
def workers():
    opened = Workers(SIMPLE, 2)
    yield opened
    opened.close()


def test_results_come_in_the_order_of_the_jobs_and_equal_jobs_are_run_once(workers):
    jobs = [job(" home home up"), job(" up"), job(" home home up"), job(" down")]
    found = workers.run(jobs)
    assert [each.metrics["calls"] for each in found] == [5, 3, 5, 3]
    assert found[0] is found[2]
    assert found[1].digest != found[3].digest


def test_a_process_that_dies_is_replaced_and_its_job_tried_again(workers):
    before = workers.run([job(" up"), job(" down")])
    for remote in workers._remotes:
        os.kill(remote.process.pid, signal.SIGKILL)
    assert workers.run([job(" up"), job(" down")]) == before


def test_a_job_that_ends_every_process_is_lost_and_the_others_are_not(workers, monkeypatch):
    answer, deadly = workers._answer, job(" left")

    def dying(rank):
        found = answer(rank)
        if found.metrics["calls"] == 3 and found.after.tool[1] > 0.2:
            raise EOFError
        return found

    monkeypatch.setattr(workers, "_answer", dying)
    lost, whole = workers.run([deadly, job(" right")])
    assert lost.how == "lost"
    assert whole.how == "ended"


def test_a_scene_that_cannot_be_is_an_end_of_its_own(workers):
    both = read_setting({"fixtures": [{"kind": "bin", "at": [0.5, 0.25]}, {"kind": "button", "at": [0.5, 0.25]}]})
    assert [each.how for each in workers.run([Job(both.scene, ()), job(" up")])] == ["uncompiled", "ended"]
