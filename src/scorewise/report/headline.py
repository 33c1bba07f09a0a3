"""What is to be known first: a few figures, and what they mean in words."""

from __future__ import annotations

from scorewise.evaluation.results import Evaluation, Judged, Model
from scorewise.report.data import main_label
from scorewise.report.words import between, cell, percent, plural, quoted, score, short, signed, threshold


def judged_by_main(model: Model) -> Judged:
    """What the score that matters is read from."""
    return model.plain if model.weighted is None else model.weighted


def best_model(evaluation: Evaluation) -> Model:
    """The model with the best value of the score that matters; the first of equals."""
    sign = 1 if evaluation.score.greater_is_better else -1
    return max(evaluation.models, key=lambda model: sign * judged_by_main(model).scores[evaluation.score.name])


def headline(evaluation: Evaluation) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Figures (a label, a number, a word beneath it) and sentences."""
    best, main = best_model(evaluation), evaluation.score.name
    own = judged_by_main(best)
    many = len(evaluation.models) > 1
    under = between(own.intervals.get(main))
    figures = [
        (_first_upper(main_label(evaluation)), score(own.scores[main]), under),
        ("Threshold", threshold(best.threshold), "chosen on these rows" if best.chosen else "given"),
        ("Rows", cell(evaluation.rows), f"{cell(evaluation.unknown)} more unknown" if evaluation.unknown else ""),
        ("Events", cell(evaluation.events), _rate(best, evaluation.events)),
    ]
    if evaluation.timed:
        figures.append(("Series", cell(evaluation.series), ""))
    told = [_first_upper(f"{_best_of(evaluation, best)}{optimism(evaluation, best)}")]
    if many and evaluation.differences:
        told.append(_lead(evaluation, best))
    if evaluation.resampling is not None:
        how = evaluation.resampling
        told.append(
            f"Intervals hold {percent(how.level, 0)} of {plural(how.draws, 'resample')} of {short(how.unit)} "
            f"(seed {how.seed}); they are of the threshold as it is."
        )
    return figures, [one for one in told if one]


def optimism(evaluation: Evaluation, model: Model) -> str:
    """What choosing the threshold on the same rows has gained, in words."""
    if not model.chosen:
        return "The threshold was given, not chosen on these rows: nothing was gained by choosing it."
    if model.optimism is None:
        return "The threshold was chosen on these very rows; how much that flatters was not estimated."
    less = "less" if evaluation.score.greater_is_better else "more"
    if abs(model.optimism) < 0.0005:
        return "The threshold was chosen on these very rows, which flatters by less than 0.001."
    if model.optimism < 0:
        return "The threshold was chosen on these very rows; resampling shows no gain from that."
    return (
        f"The threshold was chosen on these very rows, which flatters: expect about {score(model.optimism)} {less} on "
        "new ones."
    )


def _best_of(evaluation: Evaluation, best: Model) -> str:
    many = len(evaluation.models)
    if many == 1:
        return ""
    return f"{quoted(best.name)} is the best of {many} models on these rows; the figures are its own. "


def _lead(evaluation: Evaluation, best: Model) -> str:
    """How the first model stands against the best, or if it is that, against the next."""
    main, weighted = evaluation.score.name, evaluation.weight is not None
    beside = [one for one in evaluation.differences if one.score == main and one.weighted == weighted]
    first = evaluation.models[0].name
    sign = 1 if evaluation.score.greater_is_better else -1
    if not beside:
        return ""
    one = min(beside, key=lambda one: sign * one.value)
    clear = one.interval[0] > 0 or one.interval[1] < 0
    rest = "the interval does not hold 0" if clear else "the interval holds 0, so that it may be chance"
    next_to = "the closest other" if best.name == first else "the best"
    return (
        f"{quoted(first)} less {quoted(one.other)}, {next_to}: {signed(one.value)} ({between(one.interval)}); {rest}."
    )


def _rate(model: Model, events: float) -> str:
    total = sum(model.plain.cells)
    return f"{percent(events / total, 2)} of the rows" if total else ""


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
