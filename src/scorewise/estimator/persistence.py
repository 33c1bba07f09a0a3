"""A fitted classifier as one file without code: tensors, and a description of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from scorewise._files import write
from scorewise.estimator.descriptions import described, restored
from scorewise.estimator.network import TableNetwork
from scorewise.estimator.predictor import Member, Predictor
from scorewise.estimator.tables import TableEncoder
from scorewise.estimator.targets import Coding

if TYPE_CHECKING:
    from scorewise.estimator.classifier import ScoreClassifier

C = TypeVar("C", bound="ScoreClassifier")

_FORMAT = 2
_NOT_SAVED = ("module", "fabric", "progress")  # things of where it was fitted


def save_classifier(model: ScoreClassifier, path: Path) -> None:
    """Write a fitted classifier to a file."""
    params: dict[str, Any] = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_SAVED}
    if not isinstance(params["random_state"], int | None):
        params["random_state"] = None
    tensors: dict[str, Tensor] = {}
    networks = []
    for k, member in enumerate(model._predictor.members):
        tensors |= {f"network {k} {name}": value for name, value in member.network.state_dict().items()}
        tensors[f"threshold {k}"] = member.threshold
        if member.offset is not None:
            tensors[f"offset {k}"] = member.offset
        if isinstance(member.network, TableNetwork):
            tensors |= {f"bins {k} {j}": one for j, one in enumerate(member.network.bins)}
            networks.append({"settings": member.network.settings, "bins": len(member.network.bins)})
        else:
            networks.append({})
        networks[-1] |= {"step": member.step, "count": member.count}
    encoder: TableEncoder | None = getattr(model, "_encoder", None)
    told = {
        "format": _FORMAT,
        "params": {name: described(value, name) for name, value in params.items()},
        "kind": model._coding.kind,
        "positive": model._coding.positive,
        "classes": {"dtype": model.classes_.dtype.str, "values": model.classes_.tolist()},
        "threshold": np.asarray(model.threshold_).tolist(),
        "share": model.share_,
        "best_score": described(model.best_score_, "best_score_"),
        "history": described(model.history_, "history_"),
        "networks": networks,
        "features": model.n_features_in_,
        "names": list(model.feature_names_in_) if hasattr(model, "feature_names_in_") else None,
    }
    if encoder is not None:
        tensors["quantiles"] = torch.from_numpy(encoder.quantiles)
        rest = {name: value for name, value in vars(encoder).items() if name != "quantiles"}
        told["encoder"] = described(rest, "the categories of X")
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    content = save(plain, {"scorewise": json.dumps(told)})
    write(path, lambda file: file.write(content))


def load_classifier(kind: type[C], path: Path, module: Any) -> C:
    """A fitted classifier from a file."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with safe_open(path, "pt") as file:
            told = json.loads((file.metadata() or {})["scorewise"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path} is no classifier that ScoreClassifier.save has written ({error}).") from error
    if told["format"] != _FORMAT:
        raise ValueError(f"{path} has the format {told['format']}, but this version of scorewise reads {_FORMAT}.")
    model = kind(**{name: restored(value) for name, value in told["params"].items()}, module=module)
    classes = np.array(told["classes"]["values"], dtype=told["classes"]["dtype"])
    model._coding, model.classes_ = Coding(told["kind"], classes, told["positive"]), classes
    threshold = told["threshold"]
    model.threshold_ = np.array(threshold) if isinstance(threshold, list) else threshold
    model.share_, model.best_score_ = told["share"], restored(told["best_score"])
    model.history_ = restored(told["history"])
    model.n_features_in_ = told["features"]
    if told["names"] is not None:
        model.feature_names_in_ = np.array(told["names"], dtype=object)
    if "encoder" in told:
        model._encoder = TableEncoder(**restored(told["encoder"]), quantiles=tensors["quantiles"].numpy())
    problem, members = model._problem(), []
    for k, own in enumerate(told["networks"]):
        state = {name.split(" ", 2)[2]: value for name, value in tensors.items() if name.startswith(f"network {k} ")}
        bins = [tensors[f"bins {k} {j}"] for j in range(own.get("bins", 0))]
        network = TableNetwork(bins, **own["settings"]) if "settings" in own else _of_users(model, problem.outputs)
        network.load_state_dict(state)
        network.eval().requires_grad_(requires_grad=False)
        told_of = tensors.get(f"offset {k}"), tensors[f"threshold {k}"], own["step"], own["count"]
        members.append(Member(network, *told_of))
    model._predictor = Predictor(problem, tuple(members), model.ensemble or "mean")
    return model


def _of_users(model: ScoreClassifier, outputs: int) -> nn.Module:
    if model.module is None:
        raise ValueError(
            "the file holds the weights of a network of your own, and no code: pass module=, as for ScoreClassifier."
        )
    return model._made(model.n_features_in_, outputs)
