"""Epochs that are almost as good as the best one, and what they say together."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import scorewise as sw
from scorewise.ensemble import EpochEnsemble

G = torch.Generator().manual_seed(12)
N, FEATURES = 50, 3
X = torch.randn(N, FEATURES, generator=G)
Y = (X[:, 0] + torch.randn(N, generator=G) > 0.3).long()
NEW = torch.randn(200, FEATURES, generator=G)
VALUE = sw.weights.Value([0.5, 0.25])
GROUPS = torch.arange(N) // 20
TIMES = torch.randint(1, 3, (N,), generator=G).cumsum(0)
MASK = torch.rand(N, generator=G) < 0.9
CONTEXT = {
    "groups": GROUPS,
    "times": TIMES,
    "mask": MASK,
    "sample_weight": torch.rand(N, generator=G),
    "costs": torch.rand(N, 2, generator=G),
}


class Model(nn.Module):
    """With a buffer, and layers that behave differently in training."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(FEATURES)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(FEATURES, 1)

    def forward(self, x):
        return self.last(self.drop(self.norm(x))).squeeze(-1)


def epochs(count=12, seed=0):
    """A model after each of some epochs."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        model = Model().eval()
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point():
                tensor.data = torch.rand(tensor.shape, generator=generator) + 0.1
        model.last.weight.data[0] = torch.tensor([1.0, 0, 0]) + 0.6 * torch.randn(FEATURES, generator=generator)
        yield model


def run(ensemble, count=12, seed=0, context=CONTEXT):
    """An ensemble of epochs; the models, and what update said of them."""
    models, values = [], []
    target = Model()
    for model in epochs(count, seed):
        target.load_state_dict(model.state_dict())
        with torch.no_grad():
            outputs = model(X)
        values.append(ensemble.update(target, outputs if ensemble.from_logits else outputs.sigmoid(), Y, **context))
        models.append(model)
    return models, values


def on_validation(score, weight, outputs, context=CONTEXT):
    """The best threshold and the score there, over all of a fine enough list of thresholds: between any two outputs."""
    p = outputs.sigmoid()
    limits = torch.cat([torch.tensor([-1.0]), p.sort().values])
    found = [sw.scores.get(score)(sw.confusion_matrix(p, Y, limit, weight, **context)) for limit in limits]
    pick = max if sw.scores.get(score).greater_is_better else min
    return float(pick(found))


@pytest.mark.parametrize("weight", [None, VALUE], ids=["none", "value"])
@pytest.mark.parametrize("score", ["tss", "error_rate", "cost"])
def test_those_near_the_best_are_kept(score, weight):
    ensemble = EpochEnsemble(score, weight, fraction=0.9)
    models, values = run(ensemble)
    with torch.no_grad():
        expected = [on_validation(score, weight, model(X)) for model in models]
    assert values == pytest.approx(expected, abs=1e-9)
    if score == "tss":
        near = [k for k, value in enumerate(values) if value >= 0.9 * max(values)]
    elif score == "error_rate":
        near = [k for k, value in enumerate(values) if value <= 1.1 * min(values)]
    else:
        near = [k for k, value in enumerate(values) if value >= 1.1 * max(values)]  # below 0
    assert [member.epoch for member in ensemble.members] == near
    assert 1 < len(near) < len(models)
    assert [member.value for member in ensemble.members] == [values[k] for k in near]


@pytest.mark.parametrize("from_logits", [True, False], ids=["logits", "probabilities"])
def test_votes_are_those_of_a_loop(from_logits):
    ensemble = EpochEnsemble("tss", VALUE, fraction=0.8, from_logits=from_logits)
    models, _ = run(ensemble)
    votes = torch.zeros(len(NEW))
    for member in ensemble.members:
        with torch.no_grad():
            p = models[member.epoch](NEW).sigmoid()
        # the same decision as in the matrix that the threshold was chosen by
        votes += (p > torch.tensor(member.threshold)).float()
    share = votes / len(ensemble.members)
    forward = None if from_logits else lambda model, x: model(x).sigmoid()
    found = ensemble.predict(Model(), NEW, forward=forward)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, share.double(), rtol=0, atol=1e-6)  # thirds in float32
    assert torch.equal(ensemble.decide(Model(), NEW, forward=forward), (votes > len(ensemble.members) / 2).long())
    assert 0 < int((votes > len(ensemble.members) / 2).sum()) < len(NEW)
    assert ensemble.threshold == 0.5


def test_a_member_decides_on_validation_samples_as_it_was_scored():
    ensemble = EpochEnsemble("tss", fraction=1.0, at_most=1)
    _, values = run(ensemble, context={})
    calls = ensemble.decide(Model(), X)
    assert float(sw.scores.get("tss")(sw.confusion_matrix(calls, Y))) == pytest.approx(max(values), abs=1e-12)


def test_the_mean_has_its_own_best_threshold():
    ensemble = EpochEnsemble("tss", VALUE, fraction=0.8, by="mean")
    models, _ = run(ensemble)
    with torch.no_grad():
        kept = [models[member.epoch] for member in ensemble.members]
        mean = sum(model(X).sigmoid().double() for model in kept) / len(kept)
        new = sum(model(NEW).sigmoid().double() for model in kept) / len(kept)
    assert len(kept) > 2
    assert ensemble.threshold == pytest.approx(sw.best_threshold(mean, Y, "tss", VALUE, **CONTEXT), abs=1e-12)
    torch.testing.assert_close(ensemble.predict(Model(), NEW), new, rtol=1e-12, atol=1e-12)
    assert torch.equal(ensemble.decide(Model(), NEW), (new > ensemble.threshold).long())


def test_the_threshold_of_the_mean_follows_the_members():
    ensemble, short = EpochEnsemble("tss", fraction=0.0, by="mean"), EpochEnsemble("tss", fraction=0.0, by="mean")
    run(ensemble, 2)
    ensemble.threshold  # noqa: B018  # must be forgotten when there are more members
    model = next(epochs(1, seed=5))
    with torch.no_grad():
        outputs = model(X)
    run(short, 2)
    for one in (ensemble, short):
        one.update(model, outputs, Y, **CONTEXT)
    assert ensemble.threshold == short.threshold


def test_the_mean_wants_the_same_samples_every_time():
    names = np.array(["a", "b"])[(np.arange(N) > 20).astype(int)]
    targets = Y.double().where(MASK, float("nan"))
    context = {"groups": names, "mask": MASK}
    model = next(epochs(1))
    with torch.no_grad():
        outputs = model(X)
    for change in ({"targets": 1 - targets}, {"groups": names[::-1].copy()}, {"groups": None}, {"groups": GROUPS}):
        ensemble = EpochEnsemble("tss", by="mean")
        for _ in range(2):
            ensemble.update(model, outputs, targets, **context)
        arguments = {"targets": targets, **context, **change}
        with pytest.raises(ValueError, match="must be the same in every epoch"):
            ensemble.update(model, outputs, **arguments)
    with pytest.raises(ValueError, match="must be the same in every epoch"):
        ensemble.update(model, outputs[:30], targets[:30], mask=MASK[:30], groups=names[:30])
    EpochEnsemble("tss").update(model, outputs[:30], Y[:30])


# ------------------------------------------------------------------------------------------------ who stays


def fake(ensemble, values):
    """Epochs with given accuracies, of four samples: how many of them are right."""
    model = nn.Linear(1, 1)
    for k, right in enumerate(values):
        nn.init.constant_(model.bias, k)
        wrong = 8 - right
        # for every threshold that is not beyond all predictions the same samples are right
        targets = torch.tensor([1.0] * right + [0.0] * wrong)
        ensemble.update(model, torch.zeros(8), targets, mask=torch.ones(8, dtype=torch.bool))
    return [member.epoch for member in ensemble.members]


def test_no_more_are_kept_than_there_is_room_for():
    # the accuracies are those of calling all samples alike: 5, 6, 5, 7, 6, 7, 7 of 8
    rights = [5, 6, 5, 7, 6, 7, 7]
    assert fake(EpochEnsemble("accuracy", fraction=0.0), rights) == [0, 1, 2, 3, 4, 5, 6]
    assert fake(EpochEnsemble("accuracy", fraction=0.0, at_most=4), rights) == [1, 3, 5, 6]
    assert fake(EpochEnsemble("accuracy", fraction=0.0, at_most=2), rights) == [3, 5]
    assert fake(EpochEnsemble("accuracy", fraction=1.0), rights) == [3, 5, 6]
    assert fake(EpochEnsemble("accuracy", fraction=6 / 7), rights) == [1, 3, 4, 5, 6]
    ensemble = EpochEnsemble("accuracy", fraction=0.0, at_most=2)
    fake(ensemble, rights)
    assert [float(one["weights"]["bias"]) for one in ensemble.state_dict()["members"]] == [3.0, 5.0]


def test_a_tied_vote_is_no_alarm():
    ensemble = EpochEnsemble("tss", fraction=0.0)
    model = nn.Linear(1, 1, bias=False)
    x, y = torch.tensor([-1.0, 1.0]), torch.tensor([0, 1])
    for slope in (1.0, -1.0):
        nn.init.constant_(model.weight, slope)
        ensemble.update(model, slope * x, y if slope > 0 else 1 - y)

    def forward(model, x):
        return (model.weight * x).squeeze(0)

    assert ensemble.predict(model, x, forward=forward).tolist() == [0.5, 0.5]
    assert ensemble.decide(model, x, forward=forward).tolist() == [0, 0]


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("by", ["vote", "mean"])
def test_validation_samples_of_one_class(by, label):
    ensemble = EpochEnsemble("tss", by=by)
    for model in epochs(3):
        with torch.no_grad():
            assert ensemble.update(model, model(X), torch.full((N,), label)) == 0
    assert [member.epoch for member in ensemble.members] == [0, 1, 2]
    assert set(ensemble.decide(Model(), NEW).tolist()) <= {0, 1}


def test_a_score_that_is_never_known_is_refused():
    ensemble = EpochEnsemble(sw.scores.Score("never", lambda tn, fp, fn, tp: tn * float("nan")))
    with pytest.raises(ValueError, match="NaN at every threshold"):
        ensemble.update(next(epochs(1)), torch.zeros(4), torch.tensor([0, 1, 0, 1]))
    assert ensemble.members == ()


def test_without_members_nothing_can_be_said():
    ensemble = EpochEnsemble("tss")
    for ask in (lambda: ensemble.predict(Model(), X), lambda: ensemble.decide(Model(), X), lambda: ensemble.threshold):
        with pytest.raises(ValueError, match="no members: call update"):
            ask()


# ------------------------------------------------------------------------------------------ the model itself


def snapshot(model):
    return copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]


def unchanged(model, before):
    weights, modes = before
    assert [module.training for module in model.modules()] == modes
    return all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_the_model_is_left_as_it_was():
    ensemble = EpochEnsemble("tss", fraction=0.5)
    run(ensemble)
    model = Model().train()
    model.drop.eval()  # a part may have another mode
    model(X).sum().backward()
    parameters, before = list(model.parameters()), snapshot(model)
    grads = [parameter.grad.clone() for parameter in parameters]
    seen = []
    ensemble.predict(
        model, NEW, forward=lambda model, x: seen.append((model.training, torch.is_grad_enabled())) or model(x)
    )
    assert set(seen) == {(False, False)}
    assert unchanged(model, before)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(torch.equal(a, parameter.grad) for a, parameter in zip(grads, parameters, strict=True))


def test_the_model_is_left_as_it_was_when_something_fails():
    ensemble = EpochEnsemble("tss", fraction=0.5)
    run(ensemble)
    model = Model()
    before, calls = snapshot(model), []

    def forward(model, x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return model(x)

    with pytest.raises(KeyboardInterrupt):
        ensemble.predict(model, NEW, forward=forward)
    assert unchanged(model, before)
    with pytest.raises(ValueError, match=r"shape \(n,\), saw \(200, 1\). Pass forward="):
        ensemble.predict(model, NEW, forward=lambda model, x: model(x)[:, None])
    assert unchanged(model, before)
    other = nn.Linear(FEATURES, 1)
    before = snapshot(other)
    with pytest.raises(RuntimeError, match="state_dict"):
        ensemble.predict(other, NEW)
    assert unchanged(other, before)


def test_members_are_copies():
    ensemble = EpochEnsemble("tss", fraction=0.0)
    model = Model().eval()
    with torch.no_grad():
        outputs = model(NEW)
        ensemble.update(model, model(X), Y)
        for parameter in model.parameters():
            parameter.zero_()
    p = outputs.sigmoid()
    assert torch.equal(ensemble.decide(model, NEW), (p > torch.tensor(ensemble.members[0].threshold)).long())


def test_the_outputs_of_an_epoch_need_no_detaching():
    model = Model().eval()
    for by in ("vote", "mean"):
        ensemble = EpochEnsemble("tss", by=by)
        ensemble.update(model, model(X), Y)
        assert not ensemble.predict(model, X).requires_grad
        assert not any(t.requires_grad for one in ensemble.state_dict()["members"] for t in one["weights"].values())


# ---------------------------------------------------------------------------------------------------- state


@pytest.mark.parametrize("by", ["vote", "mean"])
def test_a_run_that_is_resumed_is_the_same(by, tmp_path):
    through, before = EpochEnsemble("tss", VALUE, by=by, fraction=0.8), EpochEnsemble("tss", VALUE, by=by, fraction=0.8)
    models, _ = run(through)
    for model in models[:5]:
        with torch.no_grad():
            before.update(model, model(X), Y, **CONTEXT)
    torch.save(before.state_dict(), tmp_path / "state.pt")
    after = EpochEnsemble("tss", VALUE, by=by, fraction=0.8)
    after.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert after.members == before.members
    for model in models[5:]:
        with torch.no_grad():
            after.update(model, model(X), Y, **CONTEXT)
    assert after.members == through.members
    assert after.threshold == through.threshold
    assert torch.equal(after.predict(Model(), NEW), through.predict(Model(), NEW))
    other = EpochEnsemble("tss", by="mean" if by == "vote" else "vote")
    with pytest.raises(ValueError, match=f"by='{by}', but this one is"):
        other.load_state_dict(before.state_dict())


def test_what_it_tells_of_itself():
    ensemble = EpochEnsemble("tss", VALUE)
    run(ensemble, 3)
    assert repr(ensemble).endswith("of 3 epochs)")
    assert "EpochEnsemble('tss', weight=Value(" in repr(ensemble)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"fraction": 1.5}, r"fraction must be a number in \[0, 1\]"),
        ({"fraction": True}, "fraction must be a number"),
        ({"by": "median"}, "by must be 'vote' or 'mean'"),
        ({"at_most": 0}, "at_most must be a whole number"),
        ({"from_logits": 1}, "from_logits must be True or False"),
        ({"weight": sw.weights.Margin(1.0)}, "sees the threshold itself"),
        ({"score": "tsss"}, "there is no score"),
    ],
    ids=["above-1", "true", "by", "at-most", "from-logits", "weight", "score"],
)
def test_arguments_that_have_no_meaning_are_refused(arguments, told):
    with pytest.raises((ValueError, TypeError), match=told):
        EpochEnsemble(**{"score": "tss", **arguments})


def test_bad_outputs_are_refused_and_change_nothing():
    ensemble = EpochEnsemble("tss", by="mean")
    run(ensemble, 3)
    before = ensemble.members
    with pytest.raises(ValueError, match=r"predictions must have the shape \(n,\), saw \(50, 1\)"):
        ensemble.update(Model(), torch.zeros(N, 1), Y[:, None])
    with pytest.raises(ValueError, match="logits must be finite"):
        ensemble.update(Model(), torch.full((N,), float("nan")), Y)
    assert ensemble.members == before
    assert ensemble.state_dict()["epochs"] == 3
