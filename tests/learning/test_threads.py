"""Pieces of work side by side."""

import threading

import pytest
import torch

from autotelic.learning.threads import alone, side_by_side


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_parts_are_worked_on_at_the_same_time():
    both = threading.Barrier(2, timeout=20)
    assert len(side_by_side(lambda _: both.wait(), range(2))) == 2


@pytest.mark.usefixtures("two_threads")
def test_results_are_in_the_order_of_the_parts():
    later = threading.Event()

    def work(part: int) -> int:
        if part == 0:
            later.wait(20)
        else:
            later.set()
        return part * 10

    assert side_by_side(work, [0, 1]) == [0, 10]


@pytest.mark.usefixtures("two_threads")
def test_each_part_has_one_of_the_threads():
    assert side_by_side(lambda _: torch.get_num_threads(), range(3)) == [1, 1, 1]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_what_is_done_alone_has_one_thread_and_gives_the_others_back():
    with alone():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("one_thread")
def test_with_one_thread_nothing_leaves_it():
    assert set(side_by_side(lambda _: threading.get_ident(), range(3))) == {threading.get_ident()}


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_a_part_is_raised():
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda part: 1 // part, [1, 0])
