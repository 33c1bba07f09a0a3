"""The training loop, and the race between shares of the score."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from scorewise.curves.choice import InfeasibleError
from scorewise.estimator.objective import MeanCrossEntropy, class_weights
from scorewise.estimator.problems import Classes, Context, Problem
from scorewise.estimator.recipe import Recipe, between
from scorewise.estimator.runner import Evaluation, Runner, State
from scorewise.estimator.samples import Samples, logits_of, members_of
from scorewise.parallel.sums import SummedLoss
from scorewise.priors import ThresholdPrior
from scorewise.series import ChronologicalBatchSampler, SeriesBatch, StratifiedBatchSampler

_RISING = 0.05  # the share of steps in which the learning rate rises
_MEASURED = 5  # steps to tell how long one takes
_LONGEST = 1.0  # norm of a gradient


class Interrupted(Exception):  # noqa: N818  # no error: what was found so far is used
    """Time is up, or the user has had enough."""


class Trainer:
    """Trains one network in several ways, and keeps the best.

    All runners take turns in one network: their weights are elsewhere when others run.
    """

    def __init__(
        self,
        network: nn.Module,
        problem: Problem,
        recipe: Recipe,
        fabric: Any,
        *,
        train: Samples,
        kept: Samples,
        ordered: bool,
        save: Callable[[int, float, list[Runner]], None],
        bar: Any,
        begun: float,
    ) -> None:
        self.network, self.problem, self.recipe, self.fabric = network, problem, recipe, fabric
        self._spread: Any = fabric.world_size > 1
        self._train, self._kept = train.to(fabric.device), kept
        self._seen = kept.to(fabric.device).inputs
        self._save, self._bar = save, bar
        self.runners: list[Runner] = []
        self.interrupted = False
        self.steps = recipe.steps
        self._before = 0.0  # seconds, of a race that was interrupted
        self._begun = begun
        self._sampler = _sampler(train, problem, recipe, fabric, ordered=ordered)
        classes = problem.outputs if isinstance(problem, Classes) else None
        counted = train.context.get("sample_weight")
        weights = class_weights(train.targets, counted, recipe.balance, classes).to(fabric.device)
        self._cross_entropy = MeanCrossEntropy(weights, sync=self._spread)
        self._first = _copied(network)
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True
        )
        self._optimizer = optimizer
        self._model, self._stepper = fabric.setup(network, optimizer)
        self._fresh = optimizer.state_dict()

    # ------------------------------------------------------------------------------------------------- the race

    def race(self, left: Mapping[str, Any] | None) -> Runner:
        """Train with every share, drop the worse half now and then, and return the winner.

        What it does depends on nothing but the runners, so that a race which is begun with the runners of one that was
        interrupted ends as that would have ended.

        Args:
            left: What an interrupted race has left: steps, seconds, runners.
        """
        shares = self.recipe.shares
        if left is not None:
            self.steps, self._before, self.runners = left["steps"], left["seconds"], left["runners"]
            self._bar.update(sum(runner.step for runner in self.runners))
        else:
            self.runners = [Runner(0.0, trunk=True)] if self.recipe.warm_up else list(map(Runner, shares))
        try:
            if left is None and self.recipe.max_time is not None:
                self._fit_into(self.recipe.max_time)
            self._bar.total = round(self.steps * self.recipe.runs)
            self._check_time()
            warm, trunk = self._warm, self.runners[0]
            if trunk.trunk:
                self._advance(trunk, warm)
                if self.recipe.shift:
                    self._shift(trunk)
                # copies: optimizers and averages work in place
                branches = (dataclasses.replace(copy.deepcopy(trunk), share=share, trunk=False) for share in shares)
                self.runners = list(branches)
            alive = list(self.runners)
            for mark in self.recipe.marks:
                until = warm + round((self.steps - warm) * mark)
                for runner in alive:
                    self._advance(runner, until)
                ranked = sorted(alive, key=lambda one: -one.standing(warm, until))  # stable: the smaller share first
                alive = ranked[: -(-len(alive) // 2)]
            return alive[0]
        except (KeyboardInterrupt, Interrupted) as error:
            if isinstance(error, KeyboardInterrupt):
                self.interrupted = True
                warnings.warn("fit was interrupted: the best network so far is kept.", stacklevel=2)
            elif not any(runner.step for runner in self.runners):
                warnings.warn(
                    f"no step fitted into max_time={self.recipe.max_time:g} s: the network is untrained. Allow more.",
                    stacklevel=2,
                )
            if all(runner.best() is None for runner in self.runners):
                self._evaluate(self.runners[0], math.nan)
        return max(self.runners, key=lambda one: _value(one.best()))

    @property
    def _warm(self) -> int:
        """How many steps are of cross entropy alone."""
        return max(1, round(self.recipe.warm_up * self.steps)) if self.recipe.warm_up else 0

    def _advance(self, runner: Runner, until: int) -> None:
        """Train until a step, unless it was done already or there is no hope."""
        if runner.step >= until or self._hopeless(runner):
            return
        self._resume(runner)
        interval = max(1, -(-self.steps // self.recipe.evaluations))
        batches = self._batches(runner.step)
        losses: list[Tensor] = []
        prior = self._prior(runner.step)
        criterion = self._criterion(runner, prior)
        while runner.step < until:
            if prior is not (prior := self._prior(runner.step)):
                criterion = self._criterion(runner, prior)
            losses.append(self._step(runner, criterion, *next(batches)))
            runner.step += 1
            self._bar.update()
            # where some drop out, all have been judged; after the warm up none does
            if runner.step % interval == 0 or (runner.step == until and not runner.trunk):
                loss = float(torch.stack(losses).mean())
                if not math.isfinite(loss):
                    raise ValueError(
                        f"training failed: the loss is {loss} after {runner.step} steps. Pass a smaller learning_rate, "
                        "or look for very large numbers in X."
                    )
                losses.clear()
                self._evaluate(runner, loss)
                self._pause(runner)
                if self.fabric.is_global_zero:
                    self._save(self.steps, self._seconds(), self.runners)
                self._bar.set_postfix_str(f"best {max(_value(one.best()) for one in self.runners):.3f}")
                if self._hopeless(runner):
                    return
                self._check_time()
        self._pause(runner)

    def _hopeless(self, runner: Runner) -> bool:
        patience = self.recipe.patience
        return patience is not None and not runner.trunk and runner.stale(self._warm) >= patience

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._begun

    def _check_time(self) -> None:
        # all processes stop at the same step
        if self.recipe.max_time is not None and self.fabric.broadcast(self._seconds() > self.recipe.max_time):
            raise Interrupted

    # -------------------------------------------------------------------------------------------------- a step

    def _step(self, runner: Runner, criterion: SummedLoss, samples: Samples, where: Context) -> Tensor:
        progress = runner.step / self.steps
        rate = min(1.0, (runner.step + 1) / (_RISING * self.steps + 1)) * (1 + math.cos(math.pi * progress)) / 2
        for group in self._optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * rate
        self._model.train()
        logits = members_of(self._model(*samples.inputs))
        logits = logits if runner.offset is None else logits + runner.offset.to(logits)
        loss: Tensor = criterion(*self._pooled(logits, samples.targets), **self._repeated(where, logits.shape[1]))
        self._stepper.zero_grad()
        self.fabric.backward(loss)
        self.fabric.clip_gradients(self._model, self._stepper, max_norm=_LONGEST, error_if_nonfinite=False)
        self._stepper.step()
        if self.recipe.weight_average:
            rate = min(self.recipe.weight_average, (1 + runner.step) / (10 + runner.step))
            with torch.no_grad():
                for name, value in self.network.state_dict().items():
                    kept = runner.average.setdefault(name, value.detach().clone())
                    kept.lerp_(value, 1 - rate) if value.is_floating_point() else kept.copy_(value)
        return loss.detach()

    def _pooled(self, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """All members' samples, one member after another: their matrix is the sum of theirs."""
        members = logits.shape[1]
        laid = self.problem.laid(logits.transpose(0, 1).reshape(-1, logits.shape[2]))
        return laid, targets.repeat(members, *[1] * (targets.dim() - 1))

    def _repeated(self, where: Context, members: int) -> dict[str, Tensor]:
        rest = {}
        for name, value in where.items():
            if name in ("groups", "times") and not self.problem.reach:
                continue
            rest[name] = value.repeat(members, *[1] * (value.dim() - 1))
            if name == "groups" and members > 1:
                # no window reaches from one member into another
                count = int(value.max()) + 1 if len(value) else 1
                rest[name] += torch.arange(members, device=value.device).repeat_interleave(len(value)) * count
        return rest

    def _batches(self, step: int) -> Iterator[tuple[Samples, Context]]:
        """The batches from a step on, epoch after epoch."""
        for epoch in itertools.count(step // len(self._sampler)):
            self._sampler.set_epoch(epoch, step % len(self._sampler) if epoch == step // len(self._sampler) else 0)
            for batch in self._sampler:
                index = batch.index if isinstance(batch, SeriesBatch) else torch.as_tensor(batch)
                samples = self._train[index.to(self.fabric.device)]
                known = {name: value for name, value in samples.context.items() if name not in ("groups", "times")}
                if isinstance(batch, SeriesBatch):
                    here = batch.to(self.fabric.device)
                    known |= {"mask": here.mask, "groups": here.groups, "times": here.times}
                yield samples, known

    def _prior(self, step: int) -> ThresholdPrior | None:
        """The prior of the threshold at a step: from the first, after the warm up, to the last, at the end."""
        if self.recipe.prior is None:
            return None
        progress = max(0, step - self._warm) / max(1, self.steps - 1 - self._warm)
        return between(*self.recipe.prior, min(1.0, progress))

    def _criterion(self, runner: Runner, prior: ThresholdPrior | None) -> SummedLoss:
        share = 0.0 if runner.trunk else runner.share
        return self.problem.loss(share, self._cross_entropy, prior, exact=self.recipe.exact, sync=self._spread)

    # --------------------------------------------------------------------------------------------- an evaluation

    def _predict(self, offset: Tensor | None) -> Tensor:
        """Probabilities of the network as it is, of the rows that were kept for validation."""
        logits = logits_of(self._model, self._seen)
        return self.problem.probabilities(logits if offset is None else logits + offset)

    def _evaluate(self, runner: Runner, loss: float) -> None:
        trained = None
        if runner.average:
            trained = _copied(self.network)
            self.network.load_state_dict(runner.average)
        state = _copied(self.network)
        probabilities = self._predict(runner.offset)
        if trained is not None:
            self.network.load_state_dict(trained)
        kept = self._kept
        try:
            threshold = self.problem.choose(probabilities, kept.targets, kept.context)
            value = self.problem.goodness(self.problem.decide(probabilities, threshold), kept.targets, kept.context)
        except InfeasibleError:  # of this network; whether the best of all meets at_least is seen in the end
            threshold, value = torch.tensor(math.nan), -math.inf
        log_loss = self.problem.log_loss(probabilities, kept.targets, kept.context)
        # first what predicts, then that it does: an interrupt may come in between
        runner.kept[runner.step] = state, runner.offset, probabilities
        runner.history.append(
            Evaluation(runner.share, runner.step, loss, value, log_loss, threshold.tolist(), round(self._seconds(), 3))
        )
        runner.forget(self.recipe.ensemble_fraction)

    def _shift(self, trunk: Runner) -> None:
        """Move the logits so that the best threshold lies at the prior's mean."""
        self._resume(trunk)
        free = dataclasses.replace(self.problem, at_least=None)  # type: ignore[type-var]  # of labels; fit refuses others
        threshold = free.choose(self._predict(None), self._kept.targets, self._kept.context)
        prior = self._prior(trunk.step)
        middle = torch.as_tensor(0.5 if prior is None else prior.mean, dtype=torch.float64)
        edge = 1e-4  # nearer to 0 or 1 nothing is decided any more
        trunk.offset = torch.atleast_1d(torch.logit(middle) - torch.logit(threshold.clamp(edge, 1 - edge)))

    # --------------------------------------------------------------------------------------------- taking turns

    def _resume(self, runner: Runner) -> None:
        if not runner.network:
            runner.network, runner.optimizer = self._first, self._fresh
            torch.manual_seed(self.recipe.seed + self.fabric.global_rank)  # each process drops out others
            runner.noise = self._noise()
        self.network.load_state_dict(runner.network)
        self._optimizer.load_state_dict(runner.optimizer)
        torch.set_rng_state(runner.noise[0].clone())
        if len(runner.noise) > 1:
            torch.get_device_module(self.fabric.device).set_rng_state(runner.noise[1], self.fabric.device)

    def _pause(self, runner: Runner) -> None:
        runner.network = _copied(self.network)
        state = self._optimizer.state_dict()
        moments = {k: {n: v.detach().cpu().clone() for n, v in own.items()} for k, own in state["state"].items()}
        runner.optimizer = {**state, "state": moments}
        runner.noise = self._noise()

    def _noise(self) -> list[Tensor]:
        noise = [torch.get_rng_state()]
        if self.fabric.device.type != "cpu":
            noise.append(torch.get_device_module(self.fabric.device).get_rng_state(self.fabric.device))
        return noise

    def _fit_into(self, seconds: float) -> None:
        """Take fewer steps if so many would take longer; a few are done to tell, and undone."""
        runner = Runner(self.recipe.shares[-1])
        self._resume(runner)
        batches = self._batches(0)
        criterion = self._criterion(runner, self._prior(self.steps))
        self._step(runner, criterion, *next(batches))  # the first takes longer
        begun = time.monotonic()
        for _ in range(_MEASURED):
            self._step(runner, criterion, *next(batches))
        each = (time.monotonic() - begun) / _MEASURED
        begun = time.monotonic()
        self._evaluate(runner, math.nan)
        judging = (time.monotonic() - begun) * self.recipe.evaluations
        left = max(seconds - self._seconds() - self.recipe.runs * judging, 0.1 * seconds)
        self.steps = self.fabric.broadcast(max(1, min(self.steps, int(left / (self.recipe.runs * each)))))


def _value(evaluation: Evaluation | None) -> float:
    return -math.inf if evaluation is None or math.isnan(evaluation.value) else evaluation.value


def _copied(network: nn.Module) -> State:
    return {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}


def _sampler(train: Samples, problem: Problem, recipe: Recipe, fabric: Any, *, ordered: bool) -> Any:
    # of one process, so that all of them together take what was asked for
    size = max(1, -(-recipe.batch_size // fabric.world_size))
    options: Any = {"seed": recipe.seed, "num_replicas": fabric.world_size, "rank": fabric.global_rank}
    if ordered:
        return ChronologicalBatchSampler(
            size,
            groups=train.context.get("groups"),
            times=train.context.get("times"),
            samples=len(train),
            context=problem.reach,
            **options,
        )
    with warnings.catch_warnings():
        # A rare class is in every batch, if need be repeatedly.
        warnings.simplefilter("ignore", UserWarning)
        return StratifiedBatchSampler(train.targets, size, **options)
