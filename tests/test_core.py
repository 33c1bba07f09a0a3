"""The core alone: what a user has who installed the package and nothing else."""

import subprocess
import sys
from pathlib import Path

import torch

import scorewise as sw

WITHOUT_EXTRAS = """
import sys, warnings
for name in ("numpy", "scipy", "pandas", "sklearn", "hypothesis", "scores", "xarray", "matplotlib"):
    sys.modules[name] = None
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
import scorewise as sw
train, test = sw.datasets.beijing_pm25().split(0.8, standardize=True)
loss = sw.ScoreLoss("hss", prior=sw.priors.Beta(2, 5))
logits = (train.features @ torch.ones(train.features.shape[1])).requires_grad_()
loss(logits, train.targets, mask=train.mask).backward()
curve = sw.score_curve(logits.detach(), train.targets, "hss", mask=train.mask, from_logits=True)
assert curve.bootstrap(10).unit == "samples"
try:
    curve.plot()
except ImportError as error:
    assert "pip install 'scorewise[plot]'" in str(error)
else:
    raise AssertionError
print(sw.confusion_matrix([0.2, 0.7], [0, 1]), bool(logits.grad.isfinite().all()))
"""


def test_works_without_any_extra():
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ConfusionMatrix(tn=1, fp=0, fn=0, tp=1) True\n"


def test_what_users_import():
    assert all(hasattr(sw, name) for name in sw.__all__)
    assert all(hasattr(sw.scores, name) for name in sw.scores.__all__)
    assert all(hasattr(sw.priors, name) for name in sw.priors.__all__)
    assert all(hasattr(sw.curves, name) for name in sw.curves.__all__)


def test_the_version_is_the_one_to_cite():
    root = Path(__file__).parent.parent
    assert f"version: {sw.__version__}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")


def test_the_published_order_of_the_cells():
    matrix = sw.ConfusionMatrix(1, 2, 3, 4)
    assert torch.equal(matrix.tensor(), torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))
