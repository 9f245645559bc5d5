import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotelic.play.index import Fenwick, draw

weights = st.lists(st.integers(0, 50), max_size=200)


def naive_find(values: list[int], target: int) -> int:
    for position, value in enumerate(values):
        if target < value:
            return position
        target -= value
    raise AssertionError("target beyond the total")


@given(weights)
def test_every_target_finds_the_position_that_covers_it(values: list[int]) -> None:
    tree = Fenwick(values)
    assert tree.total == sum(values)
    targets = list(range(tree.total))
    assert tree.find(targets).tolist() == [naive_find(values, target) for target in targets]


@given(weights, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 50))), weights)
def test_a_tree_kept_up_to_date_equals_one_rebuilt(
    values: list[int], changes: list[tuple[int, int]], more: list[int]
) -> None:
    tree = Fenwick(values)
    tree.append(more)
    values = values + more
    for at, weight in changes if values else []:
        values[at % len(values)] = weight
        tree.set([at % len(values)], [weight])
    rebuilt = Fenwick(values)
    assert tree.weights.tolist() == values
    assert (tree.total, tree.live, len(tree)) == (rebuilt.total, rebuilt.live, len(rebuilt))
    targets = np.arange(tree.total)
    assert (tree.find(targets) == rebuilt.find(targets)).all()


@given(weights)
def test_compaction_keeps_order_and_draws(values: list[int]) -> None:
    tree, compacted = Fenwick(values), Fenwick(values)
    kept = compacted.compact()
    assert kept.tolist() == [position for position, value in enumerate(values) if value]
    assert len(compacted) == compacted.live == len(kept)
    targets = np.arange(tree.total)
    assert (kept[compacted.find(targets)] == tree.find(targets)).all()


def test_one_batch_sets_many_positions() -> None:
    tree = Fenwick(range(100))
    tree.set([3, 50, 99], [7, 0, 1])
    expected = list(range(100))
    expected[3], expected[50], expected[99] = 7, 0, 1
    assert tree.weights.tolist() == expected
    assert tree.find(np.arange(tree.total)).tolist() == np.repeat(np.arange(100), expected).tolist()


@pytest.mark.parametrize("target", [-1, 6])
def test_a_target_outside_the_total_is_refused(target: int) -> None:
    with pytest.raises(IndexError):
        Fenwick([1, 2, 3]).find([target])


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="below 0"):
        Fenwick([1]).set([0], [-1])


@given(st.lists(weights, max_size=3), st.integers(0, 50), st.integers(1, 4), st.integers(0, 2**32))
def test_draws_are_distinct_live_and_as_many_as_there_are(
    lists: list[list[int]], k: int, recency: int, seed: int
) -> None:
    trees = [Fenwick(values) for values in lists]
    drawn = draw(trees, k, np.random.default_rng(seed), recency)
    assert len(drawn) == len(set(drawn)) == min(k, sum(tree.live for tree in trees))
    assert all(lists[which][position] for which, position in drawn)
    assert [tree.weights.tolist() for tree in trees] == lists


def test_draws_leave_out_what_is_excluded() -> None:
    trees = [Fenwick([5, 5, 5]), Fenwick([5, 5])]
    drawn = draw(trees, 10, np.random.default_rng(0), exclude=[(0, 1), (1, 0)])
    assert sorted(drawn) == [(0, 0), (0, 2), (1, 1)]
    assert trees[0].total == 15


def test_first_draws_follow_the_weights() -> None:
    rng = np.random.default_rng(1)
    trees = [Fenwick([1, 2]), Fenwick([3, 4])]
    firsts = [draw(trees, 2, rng)[0] for _ in range(4000)]
    shares = [firsts.count(pair) / 4000 for pair in [(0, 0), (0, 1), (1, 0), (1, 1)]]
    assert shares == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.03)


def test_second_draws_follow_the_weights_that_are_left() -> None:
    rng = np.random.default_rng(2)
    pairs = [draw([Fenwick([6, 3, 1])], 2, rng) for _ in range(6000)]
    after_first = [second[1] for first, second in pairs if first[1] == 0]
    assert after_first.count(1) / len(after_first) == pytest.approx(0.75, abs=0.03)


def test_recency_hits_the_newest_share_as_documented() -> None:
    rng = np.random.default_rng(3)
    tree = Fenwick(np.ones(1000, dtype=int))
    newest_tenth = sum(draw([tree], 1, rng, recency=4)[0][1] >= 900 for _ in range(4000)) / 4000
    assert newest_tenth == pytest.approx(1 - 0.9**4, abs=0.03)
