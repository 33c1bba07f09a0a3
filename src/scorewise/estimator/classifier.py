"""A scikit-learn classifier that is trained for the score it will be judged by."""

from __future__ import annotations

import contextlib
import copy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from tqdm import tqdm

from scorewise import scores
from scorewise._averages import Average
from scorewise.curves.choice import AtLeast
from scorewise.estimator.checkpoints import Checkpoint
from scorewise.estimator.network import TableNetwork, bins_of
from scorewise.estimator.parameter import ParameterAndMethod, ScoreParameter
from scorewise.estimator.persistence import load_classifier, save_classifier
from scorewise.estimator.predictor import Predictor
from scorewise.estimator.problems import Classes, Labels, Problem
from scorewise.estimator.recipe import GOOD_ENOUGH, OF_TABM, Recipe, check
from scorewise.estimator.runner import Runner
from scorewise.estimator.samples import Samples, logits_of
from scorewise.estimator.splits import Split, holdout
from scorewise.estimator.tables import Inputs, TableEncoder, read
from scorewise.estimator.targets import Coding, check_counted, in_order, known, own_split, places
from scorewise.estimator.training import Trainer
from scorewise.weights import Weight

Array = NDArray[Any]


# scikit-learn has no types, and so its classes are anything.
class ScoreClassifier(ScoreParameter, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # as above
    r"""A classifier that is trained for a score, on a table as it is.

    The loss is :math:`\beta \ell + (1 - \beta) H`: a share of minus the expected score, and cross entropy H for the
    rest. Training begins with cross entropy alone, and goes on with the share. All the while the network is judged by
    the score itself, at its best threshold, on rows that are kept for validation; the moments that do best together are
    what predicts. Several shares can be given: one is chosen by a race, in which the worse half drops out now and then.

    Args:
        score: A name (see `scorewise.scores.names`) or a `Score`; with labels, one for all or a list of one for each.
        prior: Which thresholds matter in training, as for `ScoreLoss`; a pair of priors of the same kind begins with
            the one and ends with the other. None: the uniform one. Of more than two classes there is none but this.
        weight: What an error costs, an object of `scorewise.weights`. Not for more than two classes.
        module: A network of your own, or a function ``(inputs, outputs)`` that makes one of the number of columns and
            the number of logits. It is called with X as it is, float32, (n, columns) or with further axes, and returns
            logits: (n,), (n, outputs), or of an ensemble (n, members, outputs). None: TabM, for any table.
        share: β, or several to choose from.
        exact: Whether to train for the expected score itself, and not for the score of the expected matrix.
        balance: Classes weigh, in cross entropy, one over their share of the samples to this power: 0 for nothing, and
            1 for classes that weigh the same in all.
        warm_up: The part of all steps, at first, in which cross entropy alone is trained for, by all shares together.
        shift: Whether to move the logits after that so that the best threshold lies at the prior's mean.
        batch_size: How many samples a step takes, of all processes together; None: 256, or fewer of small tables.
        steps: How many steps a run takes; None: by the number of rows.
        evaluations: How often in a run the network is judged.
        patience: After how many evaluations without progress a run ends; None: never.
        learning_rate: The greatest; it rises at first and falls to 0, in half a cosine.
        weight_decay: Of AdamW.
        weight_average: What share of itself a running average of the weights keeps in each step; it is judged and kept
            instead of the weights. 0: none.
        ensemble: What predicts: the networks of some evaluations together. "greedy": the mean of six, chosen one after
            another, each that with which the score is best, some repeatedly. "mean" or "vote": of all that are good
            enough. None: the best alone. Where scores are equal, the log loss decides.
        ensemble_fraction: What is good enough for "mean" and "vote": this share of the best score.
        tune: How the threshold is found on the validation rows. "best": the exactly best one, which is so by chance in
            part. "plug_in": the one that the probabilities ask for, calibrated. "between": half-way between them, in
            log-odds. With ``at_least`` and of more than two classes, "between" is the best; a vote is decided by the
            majority. Each label has a threshold that is good for its own score, whatever ``average`` is.
        max_time: How many seconds `fit` may take; fewer steps are taken if so many would not fit in. What it gives then
            depends on how fast the machine is.
        members: How many networks TabM is made of.
        width: Of TabM's hidden layers.
        depth: How many of them.
        dropout: In them.
        average: How the scores of labels or classes become one.
        at_least: What other scores must reach at the threshold, as {"precision": 0.9}; with labels, for each.
        validation_fraction: The share of rows that are kept for validation.
        horizon: How many steps ahead labels look. It tells that rows are series, in order, and keeps as many of them
            out of training before those for validation.
        pos_label: The positive one of two classes; None: the greater.
        fabric: A `lightning.fabric.Fabric`, for devices, precision and processes; None: one device, the best there is.
            With several processes, all call `fit` with the same data.
        progress: Whether to show a progress bar; None: if standard error is a terminal.
        random_state: Makes results repeatable on a CPU.

    Attributes:
        classes_: The classes; of labels, their numbers.
        threshold_: What is greater is positive: a number, or of labels an array. Of more classes, an array on the
            simplex: the class whose probability exceeds its own by most.
        best_score_: The score there, of the validation rows; negated if less is better.
        share_: The share of the score in the loss at the best evaluation: 0 if that was in the warm up.
        history_: All evaluations, of all shares in the race, as dicts: share, step, loss, value (the score, negated if
            less is better), log_loss, threshold, seconds, and whether it was chosen.
        networks_: The network; of an ensemble, all of them. They are on the CPU, and can be moved.
        n_features_in_: How many columns.
        feature_names_in_: Their names, if there are.

    ``predict_proba`` gives what the threshold is compared with. These numbers order the samples; they are no calibrated
    probabilities, since neither the score nor balanced classes ask for those. `sklearn.calibration` makes some of them.

    Example:
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(n_samples=300, weights=[0.9], random_state=0)
        >>> model = ScoreClassifier("hss", steps=40, random_state=0).fit(X, y)
        >>> model.predict(X[:5]).shape, model.share_ in (0, model.share)
        ((5,), True)
    """

    def __init__(
        self,
        score: str | scores.Score | Sequence[str | scores.Score] = "tss",
        *,
        prior: Any = None,
        weight: Weight | Sequence[Weight | None] | None = None,
        module: nn.Module | Callable[[int, int], nn.Module] | None = None,
        share: float | Sequence[float] = 0.5,
        exact: bool = False,
        balance: float = 0.0,
        warm_up: float = 0.5,
        shift: bool = False,
        batch_size: int | None = None,
        steps: int | None = None,
        evaluations: int = 15,
        patience: int | None = None,
        learning_rate: float = 1e-2,
        weight_decay: float = 3e-4,
        weight_average: float = 0.0,
        ensemble: Literal["greedy", "mean", "vote"] | None = "greedy",
        ensemble_fraction: float = GOOD_ENOUGH,
        tune: Literal["between", "best", "plug_in"] = "between",
        max_time: float | None = None,
        members: int = OF_TABM["members"],
        width: int = OF_TABM["width"],
        depth: int = OF_TABM["depth"],
        dropout: float = OF_TABM["dropout"],
        average: Average = "macro",
        at_least: AtLeast | None = None,
        validation_fraction: float = 0.2,
        horizon: int = 0,
        pos_label: Any = None,
        fabric: Any = None,
        progress: bool | None = None,
        random_state: Any = None,
    ) -> None:
        self.score = score
        self.prior = prior
        self.weight = weight
        self.module = module
        self.share = share
        self.exact = exact
        self.balance = balance
        self.warm_up = warm_up
        self.shift = shift
        self.batch_size = batch_size
        self.steps = steps
        self.evaluations = evaluations
        self.patience = patience
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.weight_average = weight_average
        self.ensemble = ensemble
        self.ensemble_fraction = ensemble_fraction
        self.tune = tune
        self.max_time = max_time
        self.members = members
        self.width = width
        self.depth = depth
        self.dropout = dropout
        self.average = average
        self.at_least = at_least
        self.validation_fraction = validation_fraction
        self.horizon = horizon
        self.pos_label = pos_label
        self.fabric = fabric
        self.progress = progress
        self.random_state = random_state

    # ----------------------------------------------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        times: Any = None,
        *,
        costs: Any = None,
        validation: Any = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Train, and find the threshold.

        With ``times``, a weight that looks around in time, or a ``horizon``, rows are series: batches are stretches of
        time, and the latest rows are kept for validation; those within the horizon and the weight's window of them are
        not trained on. (Of several groups without times, whole ones are kept.) Every batch has some of each class: a
        class that is too rare for that is repeated, and so is a little more frequent than it is. Interrupted (Ctrl-C),
        `fit` keeps the best network so far.

        Args:
            X: The table: a data frame of pandas or polars, or an array. Numbers, strings, categories and truth values;
                some may be missing. With a ``module`` of your own, an array of numbers.
            y: Classes, (n,), or 0/1 for each label, (n, labels).
            sample_weight: How much each row counts, at least 0.
            groups: The series that each row belongs to, or whatever else must not be torn apart by validation.
            times: When, in whole units of one lag, no two the same in a group; in any order.
            costs: What an error of each row costs, (n, 2) or (n, labels, 2): as a false positive, and a false negative.
            validation: Which rows to keep for validation, as a mask or as their numbers; None: as told above. Here too,
                rows near them are not trained on.
            checkpoint: A file to go on from if `fit` is killed and called again, with the same data and parameters. It
                is removed at the end, unless `fit` was interrupted.
        """
        begun = time.monotonic()
        params = self.get_params(deep=False)
        check(params)
        self.__dict__.pop("_predictor", None)  # whatever fails from here on, what was fitted before is no more
        table = self._table(X, reset=True)
        rows = len(table[0]) if isinstance(table, list) else len(table)
        self._coding = Coding.of(y, self.pos_label)
        self.classes_ = self._coding.classes
        targets = self._coding.encode(y, rows)
        context = self._known(rows, sample_weight=sample_weight, groups=groups, times=times, costs=costs)
        problem = self._problem()
        ordered = "times" in context or problem.reach > 0 or self.horizon > 0
        loading = time.monotonic()
        fabric = self.fabric if self.fabric is not None else _one_device()
        begun += time.monotonic() - loading  # to import what trains may take longer than max_time
        store = Checkpoint(checkpoint, check_random_state(self.random_state).randint(2**31 - 1))
        seed = fabric.broadcast(store.seed)
        how: Any = {"ordered": ordered, "gap": self.horizon + problem.reach, "seed": seed}
        split = self._split(validation, targets, context, **how)
        if ordered and "times" not in context:
            context["times"] = places(context.get("groups"), rows)  # which rows that are left out do not change
        if isinstance(table, list):
            self._encoder = TableEncoder.fit(table, split.train)
        data = Samples(self._inputs(table), targets, context)
        order = in_order(context, rows)
        train, kept = (data[torch.from_numpy(order[np.isin(order, part)])] for part in (split.train, split.test))

        recipe = Recipe.of(params, problem, len(train), seed)
        told = repr(sorted((name, value) for name, value in params.items() if name not in ("progress", "fabric")))
        with _own_noise(seed, fabric.device), self._bar() as bar:
            network = self._network(train, problem)
            given = [*data.inputs, targets, *context.values(), torch.from_numpy(split.train)]
            left = store.load(told, [*given, *network.state_dict().values()])
            trainer = Trainer(
                network,
                problem,
                recipe,
                fabric,
                train=train,
                kept=kept,
                ordered=ordered,
                save=store.save,
                bar=bar,
                begun=begun,
            )
            winner = trainer.race(left)
            self._settle(winner, trainer.runners, network.cpu().float(), problem, kept)
        if fabric.is_global_zero and not trainer.interrupted:
            store.remove()
        return self

    def _settle(
        self, winner: Runner, runners: Sequence[Runner], network: nn.Module, problem: Problem, kept: Samples
    ) -> None:
        """Make of a race that is over what predicts, and tell of it."""
        predictor = Predictor.of(winner, network, problem, self.ensemble, kept)
        threshold, self.best_score_ = predictor.choose(kept, self.tune)
        chosen = winner.best()
        self.share_ = winner.share if chosen is None else chosen.share
        self.threshold_ = threshold.item() if threshold.dim() == 0 else threshold.numpy()
        # those of the warm up are every runner's, and told once
        once = {(one.share, one.step): one for runner in runners for one in runner.history}
        steps = {member.step for member in predictor.members}
        used = {(one.share, one.step) for one in winner.history if one.step in steps}
        self.history_ = [asdict(one) | {"chosen": place in used} for place, one in once.items()]
        self._predictor = predictor  # last, since it tells that all is fitted

    @property
    def networks_(self) -> list[nn.Module]:
        """The network; of an ensemble, all of them."""
        check_is_fitted(self, "_predictor")
        return [member.network for member in self._predictor.members]

    def _table(self, X: Any, *, reset: bool) -> Any:
        """The columns of a table; for a module of the user's, an array of numbers."""
        if self.module is None:
            return read(self, X, reset=reset)
        return validate_data(self, X, reset=reset, dtype=np.float32, allow_nd=True)

    def _inputs(self, table: Any) -> Inputs:
        return self._encoder.transform(table) if isinstance(table, list) else (torch.from_numpy(table),)

    def _known(self, rows: int, **given: Any) -> dict[str, Tensor]:
        if given["costs"] is not None:
            if self._coding.kind == "classes":
                seen = f"there are {len(self.classes_)} classes"
                raise ValueError(f"costs are for two classes or for labels, but {seen}.")
            shape = (rows, len(self.classes_), 2) if self._coding.kind == "labels" else (rows, 2)
            if np.shape(given["costs"]) != shape:
                raise ValueError(f"costs must have the shape {shape}, saw {np.shape(given['costs'])}.")
        return known(rows, **given)

    def _problem(self) -> Problem:
        score: Any = vars(self)["score"]
        outputs = len(self.classes_)
        if self._coding.kind != "classes":
            several = self._coding.kind == "labels"
            return Labels(outputs if several else 1, several, score, self.weight, self.average, self.at_least)
        given = [name for name in ("prior", "weight", "at_least") if getattr(self, name) is not None]
        given += [name for name in ("exact", "shift") if getattr(self, name)]
        given += ["tune='plug_in'"] if self.tune == "plug_in" else []
        if given:
            raise ValueError(f"{given[0]} is for two classes or for labels, but there are {outputs} classes.")
        return Classes(outputs, score, self.average)

    def _split(
        self, validation: Any, targets: Tensor, context: dict[str, Tensor], *, ordered: bool, gap: int, seed: int
    ) -> Split:
        if validation is None:
            known: Any = {name: context[name].numpy() for name in ("groups", "times") if name in context}
            how: Any = {"fraction": self.validation_fraction, "ordered": ordered, "gap": gap, "seed": seed}
            split = holdout(targets.numpy(), **known, **how)
        else:
            split = own_split(validation, targets, context, gap)
        check_counted(split, context)
        return split

    def _network(self, train: Samples, problem: Problem) -> nn.Module:
        if self.module is None:
            numbers = train.inputs[0]
            return TableNetwork(
                bins_of(numbers),
                self._encoder.cardinalities,
                problem.outputs,
                members=self.members,
                width=self.width,
                depth=self.depth,
                dropout=self.dropout,
            )
        network = self._made(train.inputs[0].shape[1], problem.outputs)
        logits = logits_of(network, (train.inputs[0][:2],))
        if logits.shape[-1] != problem.outputs:
            raise ValueError(
                f"module must give {problem.outputs} logits for each sample, (n,) or (n, {problem.outputs}), but the "
                f"last axis of what it gives has {logits.shape[-1]}."
            )
        return network

    def _made(self, inputs: int, outputs: int) -> nn.Module:
        """A network of the user's: a copy, or a new one."""
        if isinstance(self.module, nn.Module):
            return copy.deepcopy(self.module)
        network = self.module(inputs, outputs)  # type: ignore[misc]  # it is there, and can be called
        if not isinstance(network, nn.Module):
            raise TypeError(f"module must make a torch.nn.Module, but made {type(network).__name__}.")
        return network

    def _bar(self) -> Any:
        shown = sys.stderr.isatty() if self.progress is None else self.progress
        return tqdm(desc="ScoreClassifier", unit=" steps", disable=not shown, leave=False)

    # ------------------------------------------------------------------------------------------------- predict

    def _probabilities(self, X: Any) -> Tensor:
        check_is_fitted(self, "_predictor")
        return self._predictor.probabilities(self._inputs(self._table(X, reset=False)))

    def predict_proba(self, X: Any) -> Array:
        """What the threshold is compared with, (n, classes), or (n, labels): not calibrated.

        Args:
            X: The table, with the columns of `fit`.
        """
        found = self._probabilities(X)
        if found.dim() == 1:
            found = torch.stack([1 - found, found] if self._coding.positive else [found, 1 - found], 1)
        return np.asarray(found)

    def decision_function(self, X: Any) -> Array:
        """How far it is above the threshold: (n,) for two classes, positive for the positive one's side of `classes_`.

        For labels and for more classes, (n, outputs).

        Args:
            X: The table, with the columns of `fit`.
        """
        found = self._probabilities(X) - torch.as_tensor(self.threshold_)
        return np.asarray(found if found.dim() > 1 or self._coding.positive else -found)

    def predict(self, X: Any) -> Array:
        """The class of each row, or 0/1 for each label.

        Args:
            X: The table, with the columns of `fit`.
        """
        decisions = self._decisions(X)
        return self._coding.decode(decisions)

    def _decisions(self, X: Any) -> Tensor:
        probabilities = self._probabilities(X)
        return self._predictor.problem.decide(probabilities, torch.as_tensor(self.threshold_, dtype=torch.float64))

    @ParameterAndMethod
    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        times: Any = None,
        costs: Any = None,
    ) -> float:
        """The score of the predictions, weighted as in `fit`; negated if less is better.

        Args:
            X: The table, with the columns of `fit`.
            y: The classes or labels.
            sample_weight: How much each row counts.
            groups: The series that each row belongs to, if the weight looks around in time.
            times: When, in whole units of one lag.
            costs: What an error of each row costs.
        """
        decisions = self._decisions(X)
        rows = len(decisions)
        context = self._known(rows, sample_weight=sample_weight, groups=groups, times=times, costs=costs)
        order = torch.from_numpy(in_order(context, rows))
        samples = Samples((decisions,), self._coding.encode(y, rows), context)[order]
        return self._predictor.problem.goodness(samples.inputs[0], samples.targets, samples.context)

    # --------------------------------------------------------------------------------------------------- files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted classifier to a file that holds numbers and text, and no code: safetensors.

        What cannot be written down so, such as a score or weight that is a function of your own, is refused. Networks
        of your own are saved without their code.

        Args:
            path: The file; one that is there is replaced.
        """
        check_is_fitted(self, "_predictor")
        save_classifier(self, Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str], *, module: Any = None) -> Self:
        """A classifier that was written with `save`. No code is run that the file could hold.

        Args:
            path: The file.
            module: The network of your own that it was fitted with, if it was.
        """
        return load_classifier(cls, Path(path), module)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = self.module is None
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = False
        tags.non_deterministic = False
        return tags


@contextlib.contextmanager
def _own_noise(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers of its own: others', on the CPU and on the device, are what they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def _one_device() -> Any:
    from lightning_fabric import Fabric  # takes seconds, which whoever only predicts need not wait

    return Fabric(accelerator="auto", devices=1)
