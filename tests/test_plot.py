"""What is drawn: the points of the curve, the marks, and where."""

import matplotlib as mpl
import pytest
import torch

import scorewise as sw

mpl.use("Agg")
from matplotlib import pyplot as plt  # after the choice of where to draw

G = torch.Generator().manual_seed(3)
P = torch.rand(200, generator=G, dtype=torch.float64)
Y = torch.rand(200, generator=G) < P


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_the_line_has_every_threshold():
    curve = sw.score_curve(P, Y, "csi")
    (ax,) = curve.plot().axes
    line = ax.lines[0]
    assert line.get_drawstyle() == "steps-post"  # a value holds from its threshold up to the next
    assert list(line.get_xdata()) == [*curve.thresholds.tolist(), 1.0]
    assert list(line.get_ydata()) == [*curve.values.tolist(), curve.values[-1].item()]
    assert ax.get_xlim() == (0, 1)


def test_it_draws_where_it_is_told_and_returns_that_figure():
    figure, axes = plt.subplots(1, 2)
    curves = sw.score_curve(P, Y, ["tss", "hss"])
    assert curves["tss"].plot(axes[1]) is figure
    assert curves["hss"].plot(axes[1], label="Heidke") is figure
    assert not axes[0].lines
    assert {"tss", "Heidke"} <= set(labels(axes[1]))
    assert plt.get_fignums() == [figure.number]


def test_the_best_is_marked():
    curve = sw.score_curve(P, Y, "tss")
    (ax,) = curve.plot().axes
    threshold, value = curve.best()
    marked = next(line for line in ax.lines if line.get_marker() == "o")
    assert (marked.get_xdata()[0], marked.get_ydata()[0]) == (threshold, value)
    assert f"best: {value:.3f} at {threshold:.3f}" in labels(ax)
    (ax,) = curve.plot(at_least={"precision": 0.9}).axes
    limited = next(line for line in ax.lines if line.get_marker() == "o")
    assert (
        (limited.get_xdata()[0], limited.get_ydata()[0])
        == curve.best(at_least={"precision": 0.9})
        != (threshold, value)
    )


def test_a_prior_lies_beneath():
    (ax,) = sw.score_curve(P, Y, "tss").plot(prior=sw.priors.Triangular(0.0, 0.25, 1.0)).axes
    (area,) = ax.collections
    outline = area.get_paths()[0].vertices
    assert outline[:, 1].max() == pytest.approx(0.2)  # of the height of the axes
    assert outline[outline[:, 1].argmax(), 0] == pytest.approx(0.25)
    assert area.get_transform() == ax.get_xaxis_transform()
    assert "prior" in labels(ax)


def test_a_density_that_is_infinite_at_the_ends():
    (ax,) = sw.score_curve(P, Y, "tss").plot(prior=sw.priors.Beta(0.5, 0.5)).axes
    assert ax.collections[0].get_paths()[0].vertices[:, 1].max() <= 0.2


def test_a_prior_with_labels_is_refused():
    with pytest.raises(ValueError, match="there are no labels: expected numbers"):
        sw.score_curve(P, Y, "tss").plot(prior=sw.priors.Beta(torch.ones(2), torch.ones(2)))


def test_intervals_are_drawn():
    curve = sw.score_curve(P, Y, "hss")
    found = curve.bootstrap(50, level=0.9)
    (ax,) = curve.plot(bootstrap=found).axes
    band = ax.patches[0]
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx(found.threshold)
    bar = ax.lines[-1]
    assert list(bar.get_ydata()) == list(found.value)
    assert list(bar.get_xdata()) == [curve.best()[0]] * 2
    assert any(text.startswith("90%:") for text in labels(ax))


def test_a_long_curve_is_thinned_and_keeps_its_extremes():
    n = 300_000
    p = torch.rand(n, generator=G, dtype=torch.float64)
    y = torch.rand(n, generator=G) < p
    curve = sw.score_curve(p, y, "hss")
    (ax,) = curve.plot().axes
    x, shown = (torch.as_tensor(data, dtype=torch.float64) for data in ax.lines[0].get_data())
    assert len(x) < 10_000
    assert (x.diff() > 0).all()
    points = dict(zip(curve.thresholds.tolist(), curve.values.tolist(), strict=True))
    assert all(points[at] == value for at, value in zip(x[:-1].tolist(), shown[:-1].tolist(), strict=True))
    # in every column of the picture the whole height of the curve is there
    for low in torch.linspace(0, 0.95, 20).tolist():
        inside = (curve.thresholds >= low) & (curve.thresholds < low + 0.05)
        kept = (x[:-1] >= low) & (x[:-1] < low + 0.05)
        assert shown[:-1][kept].max() == curve.values[inside].max()
        assert shown[:-1][kept].min() == curve.values[inside].min()


def test_thresholds_below_zero_are_at_the_edge():
    curve = sw.score_curve(torch.tensor([0.0, 0.0, 1.0]), torch.tensor([1, 1, 1]), "recall")
    assert curve.best()[0] == -1
    (ax,) = curve.plot().axes
    assert min(min(line.get_xdata()) for line in ax.lines) == 0
