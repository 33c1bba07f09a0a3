"""What `scorewise train` tells: what it learns from, what was chosen, how good it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scorewise.cli import files, outputs, show
from scorewise.cli.facts import facts
from scorewise.cli.learning import Asked, Parts, Rows, threshold
from scorewise.evaluation import Evaluation

if TYPE_CHECKING:
    from scorewise.estimator import ScoreClassifier


@dataclass(frozen=True)
class Training:
    """What is told of a training, for people or for machines.

    Attributes:
        ctx: The command, with its arguments.
        asked: The same, read.
        source: The table.
        rows: How many rows it has.
        model_file: Where the model goes.
        shown: Whether somebody is to read it.
    """

    ctx: typer.Context
    asked: Asked
    source: files.Source
    rows: int
    model_file: Path
    shown: bool

    def progress(self, label: str) -> Any:
        """Wraps a loop with a bar, if somebody looks."""
        return show.progress(label) if self.shown else None

    def line(self, text: str) -> None:
        """Print a line."""
        if self.shown:
            show.line(text)

    def begin(self, parts: Parts) -> None:
        """Tell what is learned from."""
        left = f", {parts.unknown:,} of them without a label" if parts.unknown else ""
        self.line(f"{self.source.name}: {self.rows:,} rows{left}, {len(parts.train.features):,} columns to learn from.")
        self.line(f"  to learn from  {_span(parts.train)}")
        if parts.test is not None:
            self.line(f"  held out       {_span(parts.test)}")
        if parts.between:
            self.line(f"  in neither     {parts.between:,} rows, too near in time to those held out")

    def trained(self, model: ScoreClassifier, seconds: float) -> None:
        """Tell what was chosen."""
        self.line(
            f"Trained in {seconds:.0f} s, with {model.share_:.0%} of the score in the loss: {_main(self.asked)} "
            f"{show.number(_validation(model, self.asked))} on rows kept for validation, at the threshold "
            f"{show.threshold(threshold(model))}."
        )
        self.line(f"The model is in {self.model_file}.")

    def report(self, path: Path, model: ScoreClassifier, found: Evaluation, parts: Parts) -> None:
        """Write the page."""
        summary = (
            f"Trained for {found.main} on {len(parts.train):,} rows; judged on {found.rows:,} others, which it had not "
            "seen, at the threshold that was chosen on validation rows."
        )
        outputs.write_report(
            path,
            found,
            title=f"A classifier of {self.asked.target}",
            summary=summary,
            history=model.history_,
            facts=facts(self.ctx, self.source, self.rows, files.digest(self.source)),
        )

    def end(
        self,
        model: ScoreClassifier,
        found: Evaluation | None,
        parts: Parts,
        seconds: float,
        written: dict[str, Path | None],
        *,
        as_json: bool,
    ) -> None:
        """Tell how good it is, and what was written."""
        if as_json:
            digest = files.digest(self.source)
            judged = None if found is None else show.as_json(found, name=self.source.name, sha256=digest, notes=[])
            about = {
                "model": str(self.model_file),
                "table": {"name": self.source.name, "sha256": digest, "rows": self.rows, "unknown": parts.unknown},
                "features": parts.train.features,
                "trained_on": len(parts.train),
                "held_out": 0 if parts.test is None else len(parts.test),
                "between": parts.between,
                "main": _main(self.asked),
                "threshold": threshold(model),
                "share": model.share_,
                "validation": _validation(model, self.asked),
                "seconds": seconds,
                **{name: None if path is None else str(path) for name, path in written.items()},
            }
            show.write_json(about | {"evaluation": judged})
        elif self.shown:
            if found is not None:
                show.line()
                show.evaluation(found, "held-out rows", given="chosen on rows kept for validation")
            for name, path in written.items():
                if path is not None:
                    show.line(f"The {name} {'are' if name == 'predictions' else 'is'} in {path}.")


def _main(asked: Asked) -> str:
    return asked.score.name if asked.weight is None else f"w{asked.score.name}"


def _validation(model: ScoreClassifier, asked: Asked) -> float:
    """The score of the validation rows, as it is: the classifier has it negated if less is better."""
    return model.best_score_ if asked.score.greater_is_better else -model.best_score_


def _span(rows: Rows) -> str:
    text = f"{len(rows):,} rows, {rows.targets.mean():.2%} events"
    if rows.stamps is not None and rows.times is not None and len(rows):
        text += f", {rows.stamps[int(rows.times.argmin())]} to {rows.stamps[int(rows.times.argmax())]}"
    return text
