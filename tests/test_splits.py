"""Rows kept for validation, against plain loops over the rows."""

import collections
import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from scorewise.estimator.splits import around, folds, holdout


def classes(targets, rows):
    return {tuple(np.atleast_1d(targets[row])) for row in rows}


@st.composite
def stations(draw):
    """(targets, groups, times) of stations that report at the same hours, with gaps, in any order of rows."""
    rows = []
    for name in range(draw(st.integers(1, 3))):
        steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=1, max_size=15))
        rows += [(name, time) for time in itertools.accumulate(steps, initial=draw(st.integers(-3, 3)))]
    rows = draw(st.permutations(rows))
    rare = draw(st.sampled_from([0.1, 0.5]))
    chance = draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows)))
    return np.array([x < rare for x in chance], int), np.array([g for g, _ in rows]), np.array([t for _, t in rows])


gaps = st.integers(0, 4)


def by_time(targets, times, border, gap):
    """Fit on what is earlier than a moment by more than the gap, judge by what is not earlier."""
    rows = range(len(targets))
    return [r for r in rows if times[r] < border - gap], [r for r in rows if times[r] >= border]


@settings(max_examples=300)
@given(stations(), gaps, st.floats(0.05, 0.9))
def test_the_latest_rows_are_kept_and_the_cut_is_the_best_of_all(data, gap, fraction):
    targets, groups, times = data
    cuts = [by_time(targets, times, border, gap) for border in sorted(set(times.tolist()))]
    cuts = [cut for cut in cuts if all(len(classes(targets, part)) > 1 for part in cut)]
    arguments = {"fraction": fraction, "ordered": True, "groups": groups, "times": times, "gap": gap, "seed": 0}
    if not cuts:
        with pytest.raises(ValueError, match="cannot keep the latest rows for validation with two classes in each"):
            holdout(targets, **arguments)
        return
    split = holdout(targets, **arguments)
    assert (split.train.tolist(), split.test.tolist()) in cuts
    off = abs(len(split.test) - fraction * len(targets))
    assert off == min(abs(len(test) - fraction * len(targets)) for _, test in cuts)


@settings(max_examples=300)
@given(stations(), gaps, st.integers(2, 6))
def test_folds_are_stretches_of_time_apart_from_what_is_fitted(data, gap, number):
    targets, groups, times = data
    arguments = {"ordered": True, "groups": groups, "times": times, "gap": gap, "seed": 0}
    # Two folds, their border as near to the middle as moments allow, are what is tried last.
    borders = sorted(set(times.tolist()))[1:]
    middle = min(borders, key=lambda border: abs(sum(times < border) - len(times) / 2))
    halves = [t < middle - gap for t in times], [t > max(times[times < middle]) + gap for t in times]
    if any(len(classes(targets, np.flatnonzero(half))) < 2 for half in halves):
        number = 2
        with pytest.raises(ValueError, match="cannot cut time into folds with two classes in each part"):
            folds(targets, number, **arguments)
        return
    splits = folds(targets, number, **arguments)
    assert 2 <= len(splits) <= number
    assert sorted(itertools.chain.from_iterable(s.test.tolist() for s in splits)) == list(range(len(targets)))
    for split in splits:
        first, last = times[split.test].min(), times[split.test].max()
        for row in range(len(targets)):
            apart = all(abs(times[row] - times[kept]) > gap for kept in split.test)
            assert (row in split.test) == (first <= times[row] <= last)  # a moment is never cut
            assert (row in split.train) == (row not in split.test and apart)
        assert len(classes(targets, split.train)) == 2


@settings(max_examples=300)
@given(stations(), gaps, st.booleans(), st.data())
def test_rows_near_those_of_the_user_are_left_out(data, gap, apart, some):
    _, groups, times = data
    rows = range(len(times))
    test = np.array(some.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    assume(test.any())
    split = around(test, groups=groups if apart else None, times=times, gap=gap)
    assert split.test.tolist() == [row for row in rows if test[row]]
    assert split.train.tolist() == [
        row
        for row in rows
        if not test[row]
        and all(abs(times[row] - times[kept]) > gap or (apart and groups[row] != groups[kept]) for kept in split.test)
    ]


def test_stretches_have_about_equally_many_rows():
    times = np.repeat(np.arange(100), 3)
    splits = folds(times % 2, 5, ordered=True, times=times, seed=0)
    assert [len(split.test) for split in splits] == [60] * 5
    assert [times[split.test].min() for split in splits] == [0, 20, 40, 60, 80]
    crowded = np.r_[np.zeros(90, int), np.arange(1, 11)]  # most rows at one moment
    splits = folds(np.arange(100) % 2, 5, ordered=True, times=crowded, seed=0)
    assert [len(split.test) for split in splits] == [90, 10]


def test_one_series_is_cut_by_place_and_several_stay_whole():
    targets = np.arange(20) % 2
    split = holdout(targets, fraction=0.25, ordered=True, gap=3, seed=0)
    assert split.train.tolist() == list(range(12))
    assert split.test.tolist() == list(range(15, 20))
    alone = holdout(targets, fraction=0.25, ordered=True, groups=["a"] * 20, gap=3, seed=0)
    assert alone.train.tolist() == split.train.tolist()
    names = np.array(["a", "b", "c", "d"])[np.arange(20) // 5]
    for split in [
        holdout(targets, fraction=0.25, ordered=True, groups=names, gap=3, seed=0),
        *folds(targets, 4, ordered=True, groups=names, gap=3, seed=0),
    ]:
        assert len(set(names[split.test])) == 1
        assert len(split.train) == 15  # nothing lies near to another series


def test_the_cut_moves_to_where_there_are_events():
    targets = np.zeros(100, int)
    targets[[10, 40]] = 1
    early = holdout(targets, fraction=0.2, ordered=True, seed=0)
    assert early.test[0] == 40
    assert holdout(targets, fraction=0.2, ordered=True, gap=29, seed=0).test[0] == 40
    with pytest.raises(ValueError, match=r"and a gap of 30; saw 100 rows, times from 0 to 99, and rows of each class"):
        holdout(targets, fraction=0.2, ordered=True, gap=30, seed=0)
    late = holdout(1 - targets[::-1], fraction=0.8, ordered=True, seed=0)
    assert late.test[0] == 60


@st.composite
def grouped(draw):
    groups = draw(st.lists(st.integers(0, draw(st.integers(0, 6))), min_size=2, max_size=30))
    targets = draw(st.lists(st.sampled_from([0, 0, 1]), min_size=len(groups), max_size=len(groups)))
    return np.array(targets), np.array(groups)


def divisible(targets, groups):
    """Whether some way to divide the groups leaves both classes on both sides."""
    names = sorted(set(groups.tolist()))
    ways = itertools.chain.from_iterable(itertools.combinations(names, some) for some in range(1, len(names)))
    halves = ([np.isin(groups, way), ~np.isin(groups, way)] for way in ways)
    return any(all(len(classes(targets, np.flatnonzero(half))) == 2 for half in both) for both in halves)


@settings(max_examples=200)
@given(grouped(), st.integers(2, 5), st.integers(0, 3))
@example((np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 2, 2])), 2, 0)  # {0}, {0, 1}, {1}: one way only
@example((np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])), 3, 0)
@example((np.array([0, 0, 1]), np.array([0, 1, 2])), 2, 0)
def test_groups_stay_whole(data, number, seed):
    targets, groups = data
    names = set(groups.tolist())
    if not divisible(targets, groups):
        with pytest.raises(ValueError, match="cannot make folds of whole groups with two classes in each part"):
            folds(targets, number, ordered=False, groups=groups, seed=seed)
        return
    splits = folds(targets, number, ordered=False, groups=groups, seed=seed)
    assert 2 <= len(splits) <= min(number, len(names))
    assert sorted(itertools.chain.from_iterable(s.test.tolist() for s in splits)) == list(range(len(targets)))
    for split in splits:
        assert len(split.test)
        assert not set(groups[split.train]) & set(groups[split.test])
        assert len(split.train) + len(split.test) == len(targets)
        assert len(classes(targets, split.train)) == 2


@settings(max_examples=200)
@given(grouped(), st.floats(0.05, 0.6), st.integers(0, 3))
@example((np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 2, 2])), 0.2, 0)
def test_some_whole_groups_are_kept(data, fraction, seed):
    targets, groups = data
    if not divisible(targets, groups):
        with pytest.raises(ValueError, match=r"cannot keep whole groups .* groups, and rows of each class"):
            holdout(targets, fraction=fraction, ordered=False, groups=groups, seed=seed)
        return
    split = holdout(targets, fraction=fraction, ordered=False, groups=groups, seed=seed)
    assert not set(groups[split.train]) & set(groups[split.test])
    assert sorted([*split.train, *split.test]) == list(range(len(targets)))
    assert len(classes(targets, split.train)) == len(classes(targets, split.test)) == 2


def test_groups_of_one_class_each_are_spread_over_both_parts():
    groups = np.arange(60) // 3
    targets = (groups % 10 == 0).astype(int)  # two groups of positives
    split = holdout(targets, fraction=0.2, ordered=False, groups=groups, seed=1)
    assert targets[split.test].sum() == targets[split.train].sum() == 3
    for split in folds(targets, 2, ordered=False, groups=groups, seed=1):
        assert targets[split.test].sum() == 3
        assert len(split.test) == 30


def test_classes_are_balanced_and_not_rows():
    # Positives in groups of 6 and 4; with the 4 there must not be more of the ten groups of negatives.
    groups = np.repeat(np.arange(12), [6, 4] + [3] * 10)
    targets = (groups < 2).astype(int)
    for split in folds(targets, 2, ordered=False, groups=groups, seed=0):
        assert sum(targets[split.test] == 0) == 15


def test_the_share_of_the_groups_that_are_kept_is_the_nearest():
    groups = np.repeat(np.arange(4), [50, 30, 10, 10])
    targets = np.arange(100) % 2
    for fraction, share in [(0.25, 30), (0.15, 10), (0.45, 50)]:
        split = holdout(targets, fraction=fraction, ordered=False, groups=groups, seed=0)
        assert len(split.test) == share, fraction


def test_more_groups_are_kept_where_one_has_one_class_only():
    groups = np.arange(8) // 2
    split = holdout(1 - groups // 2, fraction=0.25, ordered=False, groups=groups, seed=0)
    assert sorted(groups[split.test] // 2) == [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"cannot keep whole groups .* 2 groups, and rows of each class: {0: 3, 1: 1}"):
        holdout([0, 1, 0, 0], fraction=0.5, ordered=False, groups=["a", "a", "b", "b"], seed=0)


@settings(max_examples=200)
@given(st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=2, max_size=60), st.floats(0.05, 0.9), st.integers(0, 3))
def test_every_class_has_its_share(targets, fraction, seed):
    targets = np.array(targets)
    counts = collections.Counter(targets.tolist())
    assume(len(counts) > 1 and sum(count > 1 for count in counts.values()) > 1)
    split = holdout(targets, fraction=fraction, ordered=False, seed=seed)
    assert sorted([*split.train, *split.test]) == list(range(len(targets)))
    for name, count in counts.items():
        kept = sum(targets[split.test] == name)
        assert abs(kept - fraction * count) <= 0.5 or kept == min(1 if fraction < 0.5 else count, count - 1)
        assert count == 1 or 0 < kept < count
    splits = folds(targets, 4, ordered=False, seed=seed)
    assert len(splits) == max(2, min(4, sorted(counts.values())[-2]))
    assert sorted(itertools.chain.from_iterable(s.test.tolist() for s in splits)) == list(range(len(targets)))
    for split in splits:
        assert sorted([*split.train, *split.test]) == list(range(len(targets)))
        for name, count in counts.items():
            assert abs(sum(targets[split.test] == name) - count / len(splits)) < 1
        assert len(classes(targets, split.test)) > 1


def test_labels_are_dealt_out_by_the_rarest():
    targets = np.zeros((100, 3), int)
    targets[:40, 0] = 1
    targets[:10, 1] = 1  # rarer, and always with the first
    targets[50:55, 2] = 1
    for split in folds(targets, 5, ordered=False, seed=3):
        assert targets[split.test].sum(0).tolist() == [8, 2, 1]
    split = holdout(targets, fraction=0.2, ordered=False, seed=3)
    assert targets[split.test].sum(0).tolist() == [8, 2, 1]
    with pytest.raises(ValueError, match=r"positives of each label: \[3, 0\]"):
        holdout([[1, 0]] * 3, fraction=0.3, ordered=False, seed=0)


def test_the_seed_decides_and_nothing_else():
    targets, groups = np.arange(50) % 3, np.arange(50) // 4

    def drawn(seed, **rest):
        parts = [holdout(targets, fraction=0.2, seed=seed, **rest), *folds(targets, 4, seed=seed, **rest)]
        return [part.test.tolist() for part in parts]

    for rest in ({"ordered": False}, {"ordered": False, "groups": groups}):
        assert drawn(1, **rest) == drawn(1, **rest) != drawn(2, **rest)
    assert drawn(1, ordered=True) == drawn(2, ordered=True)


def test_tensors_and_names_are_welcome():
    targets, times = torch.tensor([0, 1] * 10), torch.arange(20) // 2
    plain = holdout(targets.numpy(), fraction=0.2, ordered=False, times=times.numpy(), seed=0)
    given_tensors = holdout(targets, fraction=0.2, ordered=False, times=times, seed=0)  # times imply order
    assert plain.test.tolist() == given_tensors.test.tolist() == [16, 17, 18, 19]
    named = folds(["no", "yes"] * 4, 2, ordered=False, groups=["a", "a", "b", "b"] * 2, seed=0)
    assert sorted(split.test.tolist() for split in named) == [[0, 1, 4, 5], [2, 3, 6, 7]]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"targets": [0, 0, 0]}, ValueError, "saw 3 rows, and rows of each class: {0: 3}"),
        ({"targets": [0, 0, 1]}, ValueError, "saw 3 rows, and rows of each class: {0: 2, 1: 1}"),
        ({"targets": []}, ValueError, "targets must have the shape (n,) or (n, labels), with rows, saw (0,)"),
        ({"gap": -1}, ValueError, "gap must be a whole number of at least 0, saw -1"),
        ({"gap": 2}, ValueError, "a gap of 2 needs rows in order: pass times"),
        ({"times": [0.5, 1, 2, 3]}, TypeError, "times must be integers"),
        ({"times": [1, 2, 3]}, ValueError, "times must have one value for each of the 4 samples"),
        ({"times": [1, 1, 1, 1]}, ValueError, "saw 4 rows, times from 1 to 1, and rows of each class: {0: 2, 1: 2}"),
        ({"groups": ["a", None, "b", "b"]}, ValueError, "groups must be known, but 1 of 4 are missing"),
        ({"groups": [1, 2]}, ValueError, "groups must have one value for each of the 4 samples"),
        ({"groups": [1, 1, 1, 1]}, ValueError, "saw 4 rows, 1 groups, and rows of each class: {0: 2, 1: 2}"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_what_cannot_be_is_told(arguments, kind, message):
    arguments = {"targets": [0, 1, 0, 1], "ordered": False, "seed": 0} | arguments
    with pytest.raises(kind, match=re.escape(message)):
        holdout(fraction=0.5, **arguments)
    with pytest.raises(kind, match=re.escape(message)):
        folds(number=2, **arguments)


def test_fractions_and_numbers_are_checked():
    for fraction in (0, 1, "half", True):
        with pytest.raises(ValueError, match="fraction must be a number between 0 and 1"):
            holdout([0, 1, 0, 1], fraction=fraction, ordered=False, seed=0)
    for number in (1, 2.0, True):
        with pytest.raises(ValueError, match="the number of folds must be a whole number of at least 2"):
            folds([0, 1, 0, 1], number, ordered=False, seed=0)
