"""Samplers of batches: stretches of time with their context, and strata, against plain loops over the samples."""

import copy
import itertools
import pickle
import re
import warnings
from collections import Counter, namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Subset, TensorDataset

import scorewise as sw
from scorewise.series import ChronologicalBatchSampler, SeriesBatch, StratifiedBatchSampler, WithContext
from scorewise.series.stratified import _level

# --------------------------------------------------------------------------------------------- stretches of time


@st.composite
def tables(draw):
    """Rows (group, time) of several series with gaps, in the order of a table: by series, by time, or any."""
    rows = []
    for name in draw(st.sampled_from(["a", "ab", "cab", "dabc"])):
        steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3, 9]), min_size=1, max_size=14))
        rows += [(name, time) for time in itertools.accumulate(steps, initial=draw(st.integers(-5, 5)))][1:]
    arranged = draw(st.sampled_from(["by series", "by time", "any"]))
    if arranged == "by time":
        rows.sort(key=lambda row: row[1])
    elif arranged == "any":
        rows = draw(st.permutations(rows))
    return rows


ranks = st.integers(1, 5)
options = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 20),
        "context": st.integers(0, 6),
        "stretch": st.one_of(st.none(), st.integers(1, 8)),
        "max_gap": st.one_of(st.none(), st.integers(1, 10)),
        "shuffle": st.booleans(),
        "seed": st.integers(-2, 3),
    }
)


def on_every_rank(replicas, **kwargs):
    return [ChronologicalBatchSampler(num_replicas=replicas, rank=rank, **kwargs) for rank in range(replicas)]


def counted(batch):
    return [row for row, counts in zip(batch, batch.mask.tolist(), strict=True) if counts]


def stretches(batch):
    """(rows, those of them that count) of each stretch of a batch."""
    parts = {}
    for row, counts, number in zip(batch, batch.mask.tolist(), batch.groups.tolist(), strict=True):
        rows, those = parts.setdefault(number, ([], []))
        rows.append(row)
        those += [row] if counts else []
    assert list(parts) == list(range(len(parts)))  # numbered in the order of the batch
    assert batch.groups.tolist() == sorted(batch.groups.tolist())
    return list(parts.values())


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one, other, strict=True)
        for name in ("index", "mask", "groups", "times")
    )


@settings(max_examples=200)
@given(tables(), options, ranks, st.integers(0, 3))
def test_every_sample_counts_once_and_sees_its_context(table, options, replicas, epoch):
    groups, times = (list(column) for column in zip(*table, strict=True))
    samplers = on_every_rank(replicas, groups=groups, times=times, **options)
    for sampler in samplers:
        sampler.set_epoch(epoch)
    passes = [list(sampler) for sampler in samplers]
    n, most = len(table), options["batch_size"]
    steps = -(-n // (most * replicas))
    assert {len(sampler) for sampler in samplers} == {len(batches) for batches in passes} == {steps}
    assert Counter(itertools.chain(*(counted(b) for b in itertools.chain(*passes)))) == Counter(range(n))

    context = options["context"]
    max_gap = options["max_gap"] or max(context, 1)
    stretch = options["stretch"] or most * replicas  # less, by default, where there are more than 64
    sizes = []
    for batch in itertools.chain(*passes):
        assert batch.times.tolist() == [times[row] for row in batch]
        sizes.append(len(counted(batch)))
        if not sizes[-1]:
            assert len(batch) == 1
            continue
        for rows, those in stretches(batch):
            assert len(those) <= stretch
            first, last = times[those[0]], times[those[-1]]
            here = [row for row in range(n) if groups[row] == groups[those[0]]]
            here.sort(key=lambda row: times[row])
            assert rows == [row for row in here if first - context <= times[row] <= last + context]
            assert those == [row for row in here if first <= times[row] <= last]
            assert all(times[b] - times[a] <= max_gap for a, b in itertools.pairwise(those))
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


@given(tables(), st.sampled_from([(24, 1), (12, 2), (8, 3), (4, 6), (1, 24)]), options)
def test_steps_do_not_depend_on_the_number_of_processes(table, shared, options):
    groups, times = (list(column) for column in zip(*table, strict=True))
    kwargs = {**options, "groups": groups, "times": times}
    one = list(ChronologicalBatchSampler(**{**kwargs, "batch_size": 24}))
    batch_size, replicas = shared
    many = [list(s) for s in on_every_rank(replicas, **{**kwargs, "batch_size": batch_size})]
    for step, batch in enumerate(one):
        assert sorted(counted(batch)) == sorted(itertools.chain(*(counted(batches[step]) for batches in many)))


def test_steps_do_not_depend_on_the_number_of_processes_with_long_stretches():
    # here the default length of a stretch would differ, were it that of one process's batch
    one = list(ChronologicalBatchSampler(64, samples=1000, context=3))
    four = [list(s) for s in on_every_rank(4, batch_size=16, samples=1000, context=3)]
    for step, batch in enumerate(one):
        assert sorted(counted(batch)) == sorted(itertools.chain(*(counted(batches[step]) for batches in four)))


@given(tables(), st.integers(0, 6))
def test_groups_and_times_of_every_kind(table, context):
    names, times = (list(column) for column in zip(*table, strict=True))
    numbers = [list(dict.fromkeys(names)).index(name) for name in names]
    kwargs = {"batch_size": 4, "context": context}
    expected = list(ChronologicalBatchSampler(groups=names, times=times, **kwargs))
    for groups, ticks in [
        (torch.tensor(numbers), torch.tensor(times)),
        (np.array(numbers, dtype=np.int16), np.array(times, dtype=np.int32)),
        (np.array(names), tuple(times)),
        (tuple(names), torch.tensor(times, dtype=torch.int8)),
    ]:
        assert same(expected, list(ChronologicalBatchSampler(groups=groups, times=ticks, **kwargs)))
    assert same(expected, list(ChronologicalBatchSampler(groups=names, times=times, samples=len(names), **kwargs)))


def test_without_times_a_sample_is_at_its_place_in_its_series():
    groups = [7, 3, 7, 7, 3]
    (batch,) = ChronologicalBatchSampler(5, groups=groups, shuffle=False, stretch=9)
    assert list(batch) == [1, 4, 0, 2, 3]
    assert batch.times.tolist() == [0, 1, 0, 1, 2]
    assert batch.groups.tolist() == [0, 0, 1, 1, 1]
    (batch,) = ChronologicalBatchSampler(5, samples=5, shuffle=False)
    assert list(batch) == batch.times.tolist() == [0, 1, 2, 3, 4]


def test_without_shuffling_the_order_is_that_of_series_and_time():
    kwargs = {"groups": ["b", "a", "b", "a", "b"], "times": [3, 8, 1, 9, 2], "shuffle": False}
    sampler = ChronologicalBatchSampler(2, **kwargs)
    for _ in range(2):  # of every epoch; and strings in the order of their first appearance
        assert [list(batch) for batch in sampler] == [[2], [4, 0], [1, 3]]
    assert [b.groups.tolist() for b in ChronologicalBatchSampler(5, stretch=2, **kwargs)] == [[0, 0, 1, 2, 2]]
    assert [b.groups.tolist() for b in ChronologicalBatchSampler(5, **kwargs)] == [[0, 0, 0, 1, 1]]


def test_default_stretches():
    def longest(**kwargs):
        sampler = ChronologicalBatchSampler(samples=4000, **kwargs)
        return max(len(those) for batch in sampler for _, those in stretches(batch))

    assert longest(batch_size=1000) == 64
    assert longest(batch_size=1000, context=10) == 160
    assert longest(batch_size=50, context=10) == 50
    assert longest(batch_size=1000, shuffle=False) == 1000


def starts(batch):
    return [those[0] for _, those in stretches(batch)]


def test_borders_move_from_epoch_to_epoch():
    sampler = ChronologicalBatchSampler(160, groups=[0] * 80 + [1] * 80, stretch=8)
    offsets = Counter()
    for (batch,) in (list(sampler) for _ in range(400)):
        first, second = ({row % 8 for row in starts(batch) if low < row < low + 80} for low in (0, 80))
        assert len(first) == len(second) == 1  # within a series all borders have the same distance
        offsets[min(first), min(second)] += 1
    for side in (0, 1):
        seen = Counter(pair[side] for pair in offsets.elements())
        # 50 each on average, with a standard deviation of sqrt(400 · 7/64) = 6.6: five of them on either side
        assert set(seen) == set(range(8))
        assert all(17 <= count <= 83 for count in seen.values())
    assert sum(count for (a, b), count in offsets.items() if a == b) < 100  # drawn for each series: 50 on average


def test_stretches_of_all_series_are_shuffled_together():
    sampler = ChronologicalBatchSampler(200, groups=[0] * 100 + [1] * 100, stretch=5)
    (one,), (two,) = list(sampler), list(sampler)
    for batch in (one, two):
        order = [row >= 100 for row in starts(batch)]
        assert sum(a != b for a, b in itertools.pairwise(order)) > 8  # one series after the other: 1
    assert starts(one) != starts(two)


def test_a_stretch_ends_where_a_step_is_longer_than_max_gap():
    def parts(**kwargs):
        (batch,) = ChronologicalBatchSampler(9, times=[0, 1, 3, 6, 7], shuffle=False, **kwargs)
        return [those for _, those in stretches(batch)]

    assert parts() == parts(context=1) == [[0, 1], [2], [3, 4]]
    assert parts(context=2) == [[0, 1, 2], [3, 4]]
    assert parts(context=3) == parts(context=8) == parts(max_gap=3) == parts(max_gap=2**31 - 1) == [[0, 1, 2, 3, 4]]
    assert parts(context=3, max_gap=1) == [[0, 1], [2], [3, 4]]


@pytest.mark.parametrize("context", [0, 1, 2**31 - 1])
def test_times_as_far_apart_as_64_bits_allow(context):
    low, high = -(2**63), 2**63 - 1
    times = torch.tensor([low, low + 1, high - 1, high] * 2)
    groups = [0] * 4 + [1] * 4
    batches = list(ChronologicalBatchSampler(1, groups=groups, times=times, context=context))
    assert len(batches) == 8
    for batch in batches:
        (row,) = counted(batch)
        assert sorted(batch) == (sorted({row, row ^ 1}) if context else [row])
        assert batch.times.tolist() == times[batch.index].tolist()


def test_fewer_samples_than_processes():
    batches = [b for sampler in on_every_rank(8, batch_size=4, samples=3, context=2) for b in sampler]
    assert len(batches) == 8  # a step of each
    assert sorted(itertools.chain(*map(counted, batches))) == [0, 1, 2]
    for batch in batches:
        if not batch.mask.any():
            assert len(batch) == 1
            assert batch.groups.tolist() == [0]
    assert sum(not batch.mask.any() for batch in batches) == 5


# ------------------------------------------------------------------------------------------------- epochs, both kinds

IMBALANCED = torch.arange(60) % 4 == 0


def both(**kwargs):
    """One sampler of each kind, and how to compare what they yield."""
    chronological = ChronologicalBatchSampler(8, samples=60, context=2, stretch=4, **kwargs)
    return [(chronological, same), (StratifiedBatchSampler(IMBALANCED, 8, **kwargs), list.__eq__)]


def test_passes_move_on_and_epochs_can_be_set():
    for (sampler, equal), (other, _) in zip(both(), both(), strict=True):
        epochs = []
        for epoch in range(3):
            assert sampler.epoch == epoch
            epochs.append(list(sampler))
            assert len(epochs[-1]) == len(sampler) == 8
        assert not any(equal(a, b) for a, b in itertools.combinations(epochs, 2))
        # not the same batches in another order, either
        assert len({frozenset(batch) for batches in epochs for batch in batches}) == 24
        other.set_epoch(2)  # without those before it
        assert equal(list(other), epochs[2])
        other.set_epoch(1, start=5)
        assert other.epoch == 1
        assert len(other) == 8
        assert equal(list(other), epochs[1][5:])
        assert equal(list(other), epochs[2])  # from the first batch on
        other.set_epoch(0, start=8)
        assert list(other) == []
        assert equal(list(other), epochs[1])


def test_an_engine_that_tells_the_epoch_only_keeps_the_start():
    for sampler, equal in both():
        sampler.set_epoch(3)
        whole = list(sampler)
        for told, expected in (
            ([(3, 2), (3,)], whole[2:]),
            ([(3, 2), (4,), (3,)], whole),  # it was the start of epoch 3 that was asked for first
            ([(3, 2), (3, 0)], whole),
        ):
            for arguments in told:
                sampler.set_epoch(*arguments)
            assert equal(list(sampler), expected)


def test_a_pass_begins_with_its_first_batch():
    for (sampler, equal), (other, _) in zip(both(), both(), strict=True):
        iter(sampler), iter(sampler)  # as a loader with workers does
        assert sampler.epoch == 0
        broken_off = iter(sampler)
        first = next(broken_off)
        assert sampler.epoch == 1
        next_pass = list(sampler)
        epochs = [list(other), list(other)]
        assert equal([first, *broken_off], epochs[0])  # two passes at once do not disturb each other
        assert equal(next_pass, epochs[1])


def test_the_order_depends_on_seed_and_epoch_alone():
    before = torch.get_rng_state()
    seeds = [[list(s) for s, _ in both(seed=seed)] for seed in (0, 1, 2**40, -1, np.int64(0))]
    torch.manual_seed(123)
    again = [list(s) for s, _ in both()]
    torch.set_rng_state(before)
    for k, (sampler, equal) in enumerate(both()):
        assert equal(seeds[0][k], again[k])
        assert equal(seeds[0][k], seeds[4][k])
        assert not any(equal(seeds[i][k], seeds[j][k]) for i, j in itertools.combinations(range(4), 2))
        sampler.set_epoch(1)
        assert not equal(list(sampler), seeds[1][k])  # seed 0, epoch 1 is not seed 1, epoch 0
    list(both()[0][0]), list(both()[1][0])
    assert torch.equal(before, torch.get_rng_state())


def test_a_default_device_does_not_matter():
    expected = [list(s) for s, _ in both()]
    with torch.device("meta"):
        for (sampler, equal), batches in zip(both(), expected, strict=True):
            assert equal(list(sampler), batches)
        (batch,) = pickle.loads(pickle.dumps(expected[0][:1]))  # noqa: S301  # written here
    assert same([batch], expected[0][:1])
    times, groups = torch.tensor([3, 1, 2]), torch.tensor([1, 1, 0])
    with torch.device("meta"):
        (batch,) = ChronologicalBatchSampler(3, times=times, groups=groups, shuffle=False)
    assert list(batch) == [2, 1, 0]


def test_samplers_can_be_copied_and_pickled():
    for sampler, equal in both(num_replicas=2, rank=1):
        next(iter(sampler))
        sampler.set_epoch(3, start=2)
        twins = [pickle.loads(pickle.dumps(sampler)), copy.deepcopy(sampler)]  # noqa: S301  # written here
        expected = list(sampler)
        assert len(expected) == 2
        for twin in twins:
            assert equal(list(twin), expected)


def distribute(monkeypatch, world, rank):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)


@pytest.mark.parametrize("late", [False, True])
def test_processes_are_those_of_torch_distributed(monkeypatch, late):
    expected = [list(s) for s, _ in both(num_replicas=3, rank=2)]
    made = both() if late else []
    for sampler, _ in made:
        assert (sampler.num_replicas, sampler.rank, len(sampler)) == (1, 0, 8)
    distribute(monkeypatch, 3, 2)
    for (sampler, equal), batches in zip(made or both(), expected, strict=True):
        assert (sampler.num_replicas, sampler.rank, len(sampler)) == (3, 2, 3)
        assert equal(list(sampler), batches)
    for sampler, _ in both(num_replicas=1, rank=0):
        assert (sampler.num_replicas, sampler.rank) == (1, 0)


def test_where_engines_look_for_set_epoch():
    for sampler, _ in both():
        loader = DataLoader(TensorDataset(torch.zeros(60)), batch_sampler=sampler)
        # lightning.fabric.utilities.data._set_sampler_epoch; transformers.Trainer; accelerate.DataLoaderShard
        for where in (loader.batch_sampler.sampler, loader.batch_sampler.batch_sampler, loader.batch_sampler):
            where.set_epoch(7)
            assert sampler.epoch == 7
            sampler.set_epoch(0)


def test_batches_are_not_shared_out_twice(monkeypatch):
    for sampler, _ in both():
        assert getattr(sampler, "drop_last", None) is None
    distribute(monkeypatch, 2, 0)
    for sampler, _ in both():
        with pytest.raises(TypeError, match=r"Sampler gives each process its own .*prepare\(\)\. .*fabric\.setup"):
            getattr(sampler, "drop_last", False)  # as accelerate and Lightning ask, before they do it


@pytest.mark.parametrize(
    ("kwargs", "error", "told"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, saw 0"),
        ({"batch_size": 2.0}, TypeError, "batch_size must be a whole number, saw 2.0"),
        ({"batch_size": True}, TypeError, "batch_size must be a whole number, saw True"),
        ({"shuffle": 1}, TypeError, "shuffle must be True or False, saw 1"),
        ({"seed": None}, TypeError, "seed must be a whole number, saw None"),
        ({"num_replicas": 2}, ValueError, "both or neither, .* saw num_replicas=2 and rank=None"),
        ({"rank": 0}, ValueError, "both or neither, .* saw num_replicas=None and rank=0"),
        ({"num_replicas": 0, "rank": 0}, ValueError, "num_replicas must be at least 1, saw 0"),
        ({"num_replicas": 2, "rank": 2}, ValueError, "rank must be from 0 to 1, saw 2"),
        ({"num_replicas": 2, "rank": -1}, ValueError, "rank must be from 0 to 1, saw -1"),
        ({"num_replicas": "2", "rank": 0}, TypeError, "num_replicas must be a whole number, saw '2'"),
    ],
)
def test_both_refuse(kwargs, error, told):
    with pytest.raises(error, match=told):
        ChronologicalBatchSampler(**{"batch_size": 8, "samples": 60, **kwargs})
    with pytest.raises(error, match=told):
        StratifiedBatchSampler(IMBALANCED, **{"batch_size": 8, **kwargs})


@pytest.mark.parametrize(
    ("args", "error", "told"),
    [
        ((-1,), ValueError, "epoch must be at least 0, saw -1"),
        ((1.5,), TypeError, "epoch must be a whole number, saw 1.5"),
        ((0, 9), ValueError, "start must be from 0 to 8, saw 9"),
        ((0, -1), ValueError, "start must be from 0 to 8, saw -1"),
        ((0, "1"), TypeError, "start must be a whole number, saw '1'"),
    ],
)
def test_set_epoch_refuses(args, error, told):
    for (sampler, equal), (other, _) in zip(both(), both(), strict=True):
        with pytest.raises(error, match=told):
            sampler.set_epoch(*args)
        assert equal(list(sampler), list(other))  # as if it had not been called


@pytest.mark.parametrize(
    ("kwargs", "error", "told"),
    [
        ({}, ValueError, "One of groups, times and samples must be passed"),
        ({"samples": 0}, ValueError, "at least one sample to make batches of, saw none"),
        ({"groups": []}, ValueError, "at least one sample to make batches of, saw none"),
        ({"samples": -1}, ValueError, "samples must be at least 0, saw -1"),
        ({"samples": 3.0}, TypeError, "samples must be a whole number, saw 3.0"),
        ({"groups": 3}, TypeError, "groups must have one value for each sample, saw int"),
        ({"times": torch.tensor(3)}, TypeError, "times must have one value for each sample, saw Tensor"),
        ({"groups": [1, 1], "times": [1, 2, 3]}, ValueError, r"times must have one .* shape \(2,\), saw \(3,\)"),
        ({"samples": 3, "groups": [1, 1]}, ValueError, r"groups must have one .* shape \(3,\), saw \(2,\)"),
        ({"samples": 3, "times": [1, 2]}, ValueError, r"times must have one .* shape \(3,\), saw \(2,\)"),
        ({"groups": torch.zeros(2, 1, dtype=torch.int64)}, ValueError, r"groups must have one .* saw \(2, 1\)"),
        ({"groups": [0.5, 1.5]}, TypeError, "groups must be integers or strings"),
        ({"groups": ["a", None]}, ValueError, "groups must be known, but 1 of 2 are missing"),
        ({"times": [0.5, 1.5]}, TypeError, r"times must be integers, .* series\.lags"),
        ({"times": np.array(["2024-01-01"], dtype="M8[D]")}, TypeError, r"times must be integers, .* series\.lags"),
        (
            {"times": [4, 2, 9, 4, 2]},
            ValueError,
            r"differ within a group, but 2 of 5 repeat an earlier one: rows 0 and 3 are both at 4\. If there are sev",
        ),
        (
            {"times": [4, 2, 2, 4, 4], "groups": [0, 1, 0, 1, 0]},
            ValueError,
            r"differ within a group, but 1 of 5 repeat an earlier one: rows 0 and 4 are both at 4\.$",
        ),
        ({"samples": 3, "context": -1}, ValueError, "context must be from 0 to 2147483647, saw -1"),
        ({"samples": 3, "context": 2**31}, ValueError, "context must be from 0 to 2147483647, saw 2147483648"),
        ({"samples": 3, "context": 1.0}, TypeError, "context must be a whole number, saw 1.0"),
        ({"samples": 3, "stretch": 0}, ValueError, "stretch must be from 1 to 2147483647, saw 0"),
        ({"samples": 3, "max_gap": 0}, ValueError, "max_gap must be from 1 to 2147483647, saw 0"),
    ],
)
def test_chronological_refuses(kwargs, error, told):
    with pytest.raises(error, match=told):
        ChronologicalBatchSampler(4, **kwargs)


# ------------------------------------------------------------------------------------------------- why there is context


def station_record(seed, labels=None):
    """Three stations in a table sorted by time, each with gaps of its own; logits and rare events."""
    generator = torch.Generator().manual_seed(seed)
    rows = [(hour, station) for hour in range(90) for station in ("north", "south", "west")]
    keep = torch.rand(len(rows), generator=generator) > 0.15
    rows = [row for row, there in zip(rows, keep.tolist(), strict=True) if there and not 30 < row[0] < 36]
    shape = (len(rows),) if labels is None else (len(rows), labels)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    y = (torch.rand(shape, generator=generator) < 0.2).double()
    return x, y, [row[1] for row in rows], [row[0] for row in rows]


@pytest.mark.parametrize("g", ["max", "prod"])
@pytest.mark.parametrize("labels", [None, 2])
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("options", [{}, {"stretch": 5}, {"shuffle": False}, {"max_gap": 1}], ids=str)
def test_batches_of_an_epoch_add_up_to_all_data(g, labels, replicas, options):
    x, y, groups, times = station_record(0, labels)
    loss = sw.ScoreLoss("tss", weight=sw.weights.Value([0.4, 0.3, 0.2], g, isolated=2), from_logits=True)
    whole_x = x.clone().requires_grad_()
    whole = loss.matrix(whole_x, y, groups=groups, times=times)
    samplers = on_every_rank(replicas, batch_size=24, groups=groups, times=times, context=3, **options)
    part_x = x.clone().requires_grad_()
    parts = [
        loss.matrix(part_x[b.index], y[b.index], mask=b.mask, groups=b.groups, times=b.times)
        for sampler in samplers
        for b in sampler
    ]
    total = sum(parts[1:], parts[0])
    # float64: a few hundred numbers of at most 2 in each cell
    for cell in ("tn", "fp", "fn", "tp"):
        torch.testing.assert_close(getattr(total, cell), getattr(whole, cell), rtol=0, atol=1e-10)
    slope = torch.tensor([0.7, -1.3, 2.1, 0.4], dtype=torch.float64)  # a gradient in which no cells cancel
    for matrix in (whole, total):
        cells = torch.stack([getattr(matrix, cell).sum() for cell in ("tn", "fp", "fn", "tp")])
        (slope @ cells).backward(retain_graph=True)
    torch.testing.assert_close(part_x.grad, whole_x.grad, rtol=0, atol=1e-10)
    expected, seen = (torch.autograd.grad(sw.scores.tss(m).sum(), z)[0] for m, z in ((whole, whole_x), (total, part_x)))
    torch.testing.assert_close(seen, expected, rtol=0, atol=1e-10)


def test_with_too_little_context_they_do_not():
    x, y, groups, times = station_record(0)
    loss = sw.ScoreLoss("tss", weight=sw.weights.Value([0.4, 0.3, 0.2], isolated=2), from_logits=True)
    whole = loss.matrix(x, y, groups=groups, times=times)
    sampler = ChronologicalBatchSampler(24, groups=groups, times=times, context=2)
    parts = [loss.matrix(x[b.index], y[b.index], mask=b.mask, groups=b.groups, times=b.times) for b in sampler]
    total = sum(parts[1:], parts[0])
    assert abs(float(total.fn - whole.fn)) > 0.01
    assert abs(float(total.fp - whole.fp)) > 0.01


# ------------------------------------------------------------------------------------------------------ DataLoaders

# A process with threads is forked, which newer Pythons warn of; and a machine may have fewer cores than workers.
forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
WORKERS = {"num_workers": 2, "multiprocessing_context": "fork"}
Pair = namedtuple("Pair", ["x", "y"])


class Items:
    """A map-style dataset of anything."""

    def __init__(self, make, n=40):
        self.make, self.n = make, n

    def __len__(self):
        return self.n

    def __getitem__(self, row):
        assert type(row) is int
        return self.make(row)


class ManyItems(Items):
    def __getitem__(self, row):
        raise AssertionError("one by one, though it can give many")

    def __getitems__(self, rows):
        assert type(rows) is list
        return [self.make(row) for row in rows]


def sampler_of(n=40, **kwargs):
    return ChronologicalBatchSampler(9, samples=n, context=2, stretch=6, **kwargs)


def collated(kind, loaded):
    """(x, y or None, the rest) of what a loader yields."""
    if kind == "dict":
        assert set(loaded) == {"x", "y", "mask", "groups", "times"}
        return loaded["x"], loaded["y"], {key: loaded[key] for key in ("mask", "groups", "times")}
    if kind == "plain":
        x, where = loaded
        return x, None, where
    x, y, where = loaded
    return x, y, where


KINDS = {
    "tuple": lambda row: (torch.tensor(row), float(row)),
    "list": lambda row: [torch.tensor(row), float(row)],
    "namedtuple": lambda row: Pair(torch.tensor(row), float(row)),
    "dict": lambda row: {"x": torch.tensor(row), "y": float(row)},
    "plain": torch.tensor,
}


@forks
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("items", [Items, ManyItems])
@pytest.mark.parametrize("workers", [{}, WORKERS], ids=["here", "two workers"])
def test_loaders_bring_samples_with_their_context(kind, items, workers):
    dataset = WithContext(items(KINDS[kind]))
    assert len(dataset) == 40
    sampler = sampler_of()
    loader = DataLoader(dataset, batch_sampler=sampler, **workers)
    assert len(loader) == len(sampler) == 5
    for epoch in range(2):
        expected = sampler_of()
        expected.set_epoch(epoch)
        batches = list(loader)
        assert len(batches) == 5
        for batch, loaded in zip(expected, batches, strict=True):
            x, y, where = collated(kind, loaded)
            assert torch.equal(x, batch.index)
            assert y is None or torch.equal(y, batch.index.double())
            assert list(where) == ["mask", "groups", "times"]
            assert torch.equal(where["mask"], batch.mask)
            assert torch.equal(where["groups"], batch.groups)
            assert torch.equal(where["times"], batch.times)
            assert [where[key].dtype for key in where] == [torch.bool, torch.int64, torch.int64]


@forks
def test_workers_that_stay():
    sampler = sampler_of()
    loader = DataLoader(WithContext(Items(torch.tensor)), batch_sampler=sampler, persistent_workers=True, **WORKERS)
    sampler.set_epoch(4, start=3)
    seen = [[x.tolist() for x, _ in loader] for _ in range(3)]
    expected = sampler_of()
    expected.set_epoch(4, start=3)
    assert seen == [[list(batch) for batch in expected] for _ in range(3)]
    assert [len(batches) for batches in seen] == [2, 5, 5]


@forks
@pytest.mark.parametrize("workers", [{}, WORKERS], ids=["here", "two workers"])
def test_plain_datasets_take_the_batches_of_both(workers):
    for (sampler, _), (twin, _) in zip(both(), both(), strict=True):
        plain = [x.tolist() for x in DataLoader(Items(torch.tensor, 60), batch_sampler=sampler, **workers)]
        assert plain == [list(batch) for batch in twin]


def test_a_loss_takes_what_the_loader_brings():
    x, y, groups, times = station_record(1)
    loss = sw.ScoreLoss("csi", weight=sw.weights.Value([0.5, 0.25]))
    sampler = ChronologicalBatchSampler(50, groups=groups, times=times, context=2)
    loader = DataLoader(WithContext(Subset(TensorDataset(x, y), range(len(x)))), batch_sampler=sampler)
    parts = [loss.matrix(logits, targets, **where) for logits, targets, where in loader]
    whole = loss.matrix(x, y, groups=groups, times=times)
    torch.testing.assert_close(sum(parts[1:], parts[0]).fn, whole.fn, rtol=0, atol=1e-10)


def test_a_dataset_with_context_refuses():
    dataset = WithContext(Items(torch.tensor))
    told = r"indexed with a batch of a ChronologicalBatchSampler, saw {}\. .*batch_sampler=ChronologicalBatchSampler"
    with pytest.raises(TypeError, match=told.format("int")):
        dataset[3]
    with pytest.raises(TypeError, match=told.format("list")):
        next(iter(DataLoader(dataset, batch_size=4)))
    with pytest.raises(TypeError, match=told.format("int")):
        next(iter(DataLoader(dataset, batch_size=None)))
    taken = WithContext(Items(lambda row: {"x": row, "times": row}))
    with pytest.raises(ValueError, match="adds mask, groups and times to a sample, but 'times' is there already"):
        next(iter(DataLoader(taken, batch_sampler=sampler_of())))


@pytest.mark.parametrize("item", [lambda row, rest: (float(row), rest), lambda row, rest: {"x": float(row), **rest}])
def test_what_a_dataset_knows_itself_is_kept(item):
    known = WithContext(Items(lambda row: item(row, {"mask": row % 3 > 0, "sample_weight": row / 2})))
    for batch, found in zip(sampler_of(), DataLoader(known, batch_sampler=sampler_of()), strict=True):
        where = found[1] if isinstance(found, list) else found
        assert where["mask"].tolist() == [bool(m) and row % 3 > 0 for row, m in zip(batch, batch.mask, strict=True)]
        assert where["sample_weight"].tolist() == [row / 2 for row in batch]
        assert torch.equal(where["groups"], batch.groups)
        assert torch.equal(where["times"], batch.times)


def test_a_batch_is_a_sequence_of_numbers():
    batch = next(iter(sampler_of()))
    assert isinstance(batch, SeriesBatch)
    rows = batch.index.tolist()
    assert len(batch) == len(rows)
    assert list(batch) == rows
    assert {type(row) for row in batch} == {int}
    assert type(batch[0]) is int
    assert [batch[k] for k in range(-3, 3)] == [rows[k] for k in range(-3, 3)]
    assert rows[3] in batch
    with pytest.raises(IndexError):
        batch[len(rows)]
    with pytest.raises(AttributeError):
        batch.index = None
    part = batch[2:5]
    assert list(part) == rows[2:5]
    assert [getattr(part, name).tolist() for name in ("mask", "groups", "times")] == [
        getattr(batch, name)[2:5].tolist() for name in ("mask", "groups", "times")
    ]
    assert [batch.index.dtype, batch.mask.dtype, batch.groups.dtype, batch.times.dtype] == [
        torch.int64,
        torch.bool,
        torch.int64,
        torch.int64,
    ]
    assert {getattr(batch.to("meta"), name).device.type for name in ("index", "mask", "groups", "times")} == {"meta"}
    for twin in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch), copy.copy(batch)):  # noqa: S301  # written here
        assert same([twin], [batch])


# ---------------------------------------------------------------------------------------------------------- strata


def quietly(targets, batch_size, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StratifiedBatchSampler(targets, batch_size, **kwargs)


def epoch_of(targets, batch_size, replicas, **kwargs):
    """The parts of an epoch: all batches of all processes."""
    samplers = [quietly(targets, batch_size, num_replicas=replicas, rank=rank, **kwargs) for rank in range(replicas)]
    passes = [list(sampler) for sampler in samplers]
    assert {len(sampler) for sampler in samplers} == {len(batches) for batches in passes}
    return list(itertools.chain(*zip(*passes, strict=True)))


def check_batches(parts, n, batch_size):
    assert set(itertools.chain(*parts)) == set(range(n))
    assert max(map(len, parts)) <= batch_size
    assert all(len(set(batch)) == len(batch) for batch in parts)  # nobody twice in one batch
    assert {type(row) for batch in parts for row in batch} == {int}


@settings(max_examples=200)
@given(st.data(), ranks, st.booleans(), st.integers(0, 2))
def test_every_batch_has_its_share_of_every_class(data, replicas, shuffle, seed):
    counts = data.draw(st.lists(st.integers(1, 30), min_size=2, max_size=5))
    targets = data.draw(st.permutations([c for c, count in enumerate(counts) for _ in range(count)]))
    n, batch_size = len(targets), data.draw(st.integers(len(counts), 40))
    parts = epoch_of(torch.tensor(targets), batch_size, replicas, shuffle=shuffle, seed=seed)
    check_batches(parts, n, batch_size)
    uses = Counter(itertools.chain(*parts))
    for c, count in enumerate(counts):
        share = max(count, len(parts)) / len(parts)
        assert all(abs(sum(targets[row] == c for row in batch) - share) < 1 for batch in parts)
        assert all(any(targets[row] == c for row in batch) for batch in parts)
        often = [uses[row] for row in range(n) if targets[row] == c]
        assert max(often) - min(often) <= 1
        assert sum(often) == max(count, len(parts))  # no more repeated than must be
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    # as few batches as there can be
    fewest = next(p for p in itertools.count(replicas, replicas) if sum(max(c, p) for c in counts) <= p * batch_size)
    assert len(parts) == fewest


@settings(max_examples=200)
@given(st.data(), ranks, st.booleans(), st.integers(0, 2))
def test_every_batch_has_a_positive_of_every_label(data, replicas, shuffle, seed):
    labels = data.draw(st.integers(1, 4))
    rates = data.draw(st.lists(st.sampled_from([0.02, 0.1, 0.5, 0.95]), min_size=labels, max_size=labels))
    n = data.draw(st.integers(1, 80))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    y = torch.rand(n, labels, generator=generator) < torch.tensor(rates)
    y[0, 0] = True
    batch_size = data.draw(st.integers(labels + 1, 40))
    parts = epoch_of(y, batch_size, replicas, shuffle=shuffle, seed=seed)
    check_batches(parts, n, batch_size)
    for positive in y.t():
        assert not positive.any() or all(any(positive[row] for row in batch) for batch in parts)
    # strata: the rarest label that a sample is positive for
    counts = y.sum(0).tolist()
    rarest = [min((counts[k], k) for k in range(labels) if row[k]) if any(row) else None for row in y.tolist()]
    for stratum in set(rarest):
        size = rarest.count(stratum)
        assert all(sum(rarest[row] == stratum for row in batch) >= size // len(parts) for batch in parts)
    # as few batches as leave room for a positive of each label that may be dealt to fewer than all of them
    sizes = [rarest.count((counts[k], k)) for k in range(labels) if counts[k]]
    room = (p for p in itertools.count(replicas, replicas) if -(-n // p) + sum(s < p for s in sizes) <= batch_size)
    assert len(parts) == next(room)


def test_labels_that_suffice_are_dealt_out_and_not_repeated():
    rows = [[1, 0], [0, 1], [1, 1], [0, 0], [0, 1], [0, 0], [1, 0], [0, 1]] * 9
    parts = epoch_of(np.array(rows), 18, 2)
    check_batches(parts, 72, 18)
    assert len(parts) == 4
    assert sum(map(len, parts)) == 72
    # samples with both labels are dealt out with the rarer, the first
    for stratum in ([[1, 0], [1, 1]], [[0, 1]], [[0, 0]]):
        share = sum(row in stratum for row in rows) / 4
        assert all(abs(sum(rows[row] in stratum for row in batch) - share) < 1 for batch in parts)


def test_rare_positives_of_a_label_are_repeated_evenly():
    y = torch.zeros(200, 3, dtype=torch.int64)
    y[2:7, 0], y[:3, 1], y[50:, 2] = 1, 1, 1
    for seed in range(5):
        parts = epoch_of(y, 12, 1, seed=seed)
        uses = Counter(itertools.chain(*parts))
        assert len(parts) > 15
        for rows in (range(3), range(3, 7)):  # row 2 has both, and is used enough for the rarer label's sake
            often = [uses[row] for row in rows]
            assert max(often) - min(often) <= 1


def test_what_is_uneven_moves_from_epoch_to_epoch():
    sampler = StratifiedBatchSampler(torch.arange(100) < 13, 10)  # 10 batches, of which 3 have a positive more
    more = [{k for k, batch in enumerate(sampler) if sum(row < 13 for row in batch) == 2} for _ in range(30)]
    assert all(len(those) == 3 for those in more)
    assert set.union(*more) == set(range(10))

    y = torch.zeros(200, 2, dtype=torch.bool)
    y[:3, 0], y[50:, 1] = True, True
    sampler = quietly(y, 11)
    most, changes = set(), 0
    for _ in range(30):
        order = [next(row for row in batch if row < 3) for batch in sampler]
        assert len(order) == 20
        uses = Counter(order)
        most |= {row for row in uses if uses[row] == max(uses.values())}
        changes += sum(a != b for a, b in itertools.pairwise(order))
    assert most == {0, 1, 2}
    # two of three neighbours differ, 19 · 30 · 2/3 = 380; one sample after another: 60
    assert changes > 300


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 60))
def test_levelling(uses, more):
    greedy = list(uses)
    for _ in range(more):
        greedy[greedy.index(min(greedy))] += 1
    times = _level(torch.tensor(uses), more)
    assert int(times.sum()) == more
    assert (times >= 0).all()
    assert sorted((torch.tensor(uses) + times).tolist()) == sorted(greedy)


@pytest.mark.parametrize("shared", [(10, 2), (5, 4), (4, 5)])
def test_strata_in_steps_that_do_not_depend_on_the_number_of_processes(shared):
    targets = torch.arange(90) % 3
    one = list(StratifiedBatchSampler(targets, 20))
    batch_size, replicas = shared
    parts = epoch_of(targets, batch_size, replicas)
    for step, batch in enumerate(one):
        assert sorted(batch) == sorted(itertools.chain(*parts[step * replicas : (step + 1) * replicas]))


def test_strata_without_shuffling_keep_the_order_of_the_data():
    sampler = StratifiedBatchSampler([1, 0, 0, 1, 0, 0, 0, 0, 1], 3, shuffle=False)
    assert list(sampler) == list(sampler) == [[0, 1, 5], [2, 3, 6], [4, 7, 8]]


def test_strata_with_shuffling_are_in_no_order():
    batches = list(StratifiedBatchSampler(torch.arange(1000) % 2, 100))
    assert all(batch != sorted(batch) for batch in batches)
    odd = [[row % 2 for row in batch] for batch in batches]
    assert all(sum(a != b for a, b in itertools.pairwise(batch)) > 20 for batch in odd)  # one class, then the other: 1


@pytest.mark.parametrize(
    "targets",
    [
        [0, 1, 0, 1],
        (0.0, 1.0, 0.0, 1.0),
        np.array([False, True, False, True]),
        torch.tensor([0, 1, 0, 1], dtype=torch.uint8),
        torch.tensor([0, 1, 0, 1], dtype=torch.bfloat16, requires_grad=True),
    ],
)
def test_targets_of_every_dtype(targets):
    assert list(StratifiedBatchSampler(targets, 2, shuffle=False)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("targets", "batch_size", "told"),
    [
        (
            [1] * 3 + [0] * 37,
            5,
            (
                "There are 3 samples of class 1 for the 10 batches of an epoch: each is used 3 or 4 times, so that "
                "every batch has one. Pass a larger batch_size, or take batches as they come and a running estimate of "
                "their sums, scorewise.parallel.RunningLoss."
            ),
        ),
        ([1] * 5 + [0] * 35, 5, "There are 5 samples of class 1 for the 9 batches of an epoch: each is used 1 or 2"),
        ([1] * 5 + [0] * 40, 5, "There are 5 samples of class 1 for the 10 batches of an epoch: each is used 2 times"),
        (
            [2] * 3 + [1] * 2 + [0] * 35,
            5,
            "There are 2 samples of class 1 for the 12 batches of an epoch, and too few of 1 more classes: each is",
        ),
        (
            [[1, 0, 1]] * 2 + [[0, 1, 1]] * 3 + [[0, 0, 1]] * 35,
            7,
            (
                "There are 2 positives of label 0 for the 8 batches of an epoch, and too few of 1 more labels: each is "
                "used about 4 times, so that every batch has one. Pass a larger batch_size,"
            ),
        ),
    ],
)
def test_repeats_are_told(targets, batch_size, told):
    with pytest.warns(UserWarning, match=f"^{re.escape(told)}") as caught:
        StratifiedBatchSampler(torch.tensor(targets), batch_size)
    (warning,) = caught
    assert warning.filename == __file__  # where the sampler was made


def test_repeats_are_counted_over_all_processes():
    targets = [1] * 5 + [0] * 35
    StratifiedBatchSampler(targets, 10)  # 4 batches: nothing to tell
    with pytest.warns(UserWarning, match="5 samples of class 1 for the 6 batches"):
        StratifiedBatchSampler(targets, 10, num_replicas=6, rank=0)


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ([0, 0, 3, 3], "samples of class 1, 2"),
        ([10**12, 0], "samples of class 1, 2, 3, 4, 5 and 999999999994 others"),
        ([[0, 1, 0]] * 4, "positives of label 0, 2"),
    ],
)
def test_what_never_occurs_is_told(targets, told):
    with pytest.warns(UserWarning, match=f"^targets have no {told}: no batch has any either\\.$") as caught:
        sampler = StratifiedBatchSampler(targets, 2)
    assert len(caught) == 1
    assert sorted(itertools.chain(*sampler)) == list(range(len(targets)))


@pytest.mark.parametrize(
    ("targets", "batch_size", "error", "told"),
    [
        ([0, 0, 0], 2, ValueError, "must have both classes, but all 3 are 0: there are no positives"),
        ([1, 1], 2, ValueError, "must have both classes, but all 2 are 1: there are no negatives"),
        ([[0, 0], [0, 0]], 2, ValueError, "must have positives of some label, but all 4 are 0"),
        ([0, 1, 2], 2, ValueError, "batch_size must be at least 3, one for each class, saw 2"),
        ([0, 1], 1, ValueError, "batch_size must be at least 2, one for each class, saw 1"),
        (
            [[1, 0], [0, 1], [0, 0]],
            2,
            ValueError,
            "batch_size must be at least 3, a positive of each of 2 labels beside any other sample, saw 2",
        ),
        ([0, 1, 0.5, 0.25], 2, ValueError, r"classes, 0, 1, 2, …, but 2 of 4 are not: the first, at index 2, is 0\.5"),
        ([0, 1, -1], 2, ValueError, "classes, 0, 1, 2, …, but 1 of 3 are not: the first, at index 2, is -1"),
        ([0.0, float("nan")], 2, ValueError, "1 of 2 are not: the first, at index 1, is nan"),
        ([0.0, float("inf")], 2, ValueError, "1 of 2 are not: the first, at index 1, is inf"),
        ([[0, 1], [2, 1]], 2, ValueError, r"0 or 1 for each label, but 1 of 4 are not: the first, at index \(1, 0\)"),
        ([[0.0, float("nan")]], 2, ValueError, r"0 or 1 for each label, but 1 of 2 are not: .* is nan"),
        ([], 2, ValueError, r"shape \(n,\) or \(n, labels\), with samples, saw \(0,\)"),
        (torch.zeros(3, 0), 2, ValueError, r"with samples, saw \(3, 0\)"),
        (torch.zeros(0, 3), 2, ValueError, r"with samples, saw \(0, 3\)"),
        (torch.zeros(3, 3, 3), 2, ValueError, r"with samples, saw \(3, 3, 3\)"),
        (1, 2, ValueError, r"with samples, saw \(\)"),
        (["a", "b"], 2, TypeError, "targets must be a tensor or an array of numbers"),
        (torch.zeros(3, dtype=torch.complex64), 2, TypeError, "targets must be real, saw torch.complex64"),
    ],
)
def test_stratified_refuses(targets, batch_size, error, told):
    with pytest.raises(error, match=told):
        StratifiedBatchSampler(targets, batch_size)
