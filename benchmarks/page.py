"""The results as a page, made from what is kept and from nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import aims, exponents
from benchmarks.timing import Rows

PAGE = Path(__file__).parent / "README.md"
RESULTS = PAGE.parent / "results"
FIGURE = PAGE.parent / "figures" / "speed.svg"
BASE = "binary cross entropy"
SORT = "torch.sort of the predictions"
SHOWN, FIRST = 4, 2
"""Of batches, every fourth from the third on is in the table, and the largest; all are in the figure."""
INTRODUCTION = """# Benchmarks

This page is made by `make bench`, from the results in `results/`.

What a loss costs beside `binary_cross_entropy_with_logits`: forward and backward on the same logits, eager float32,
`validate=False` unless it says validated, 10 % positives. All lines of a table took turns in one process; a ratio is
one of medians, and in brackets are the quartiles of the line's own times, over the same median. *score* lines have the
uniform prior, *prior* lines the score TSS. *cdf alone* is `prior.cdf` of that many probabilities, without a gradient,
beside a whole step of cross entropy. Labels are floats and there is no mask unless it says masked, for memory too.
"""
Kept = Mapping[str, object]


def text(results: Sequence[Kept]) -> str:
    """The whole page, of the results of each device."""
    lines = [INTRODUCTION]
    if drawn(results):
        told = "Milliseconds of a step over the size of the batch, of our losses and of others"
        lines.append(f"![{told}]({FIGURE.parent.name}/{FIGURE.name})\n")
    for kept in results:
        lines.append(f"## {kept['device'].upper()}: {kept['on']}, PyTorch {kept['torch']}, Python {kept['python']}\n")
        for needed, section in _SECTIONS:
            if needed in kept:
                lines += section(kept)
    return "\n".join(lines).rstrip() + "\n"


def drawn(results: Sequence[Kept]) -> bool:
    """Whether there is anything for the figure."""
    return any(kept.get("peers") for kept in results)


def line(row: Mapping[str, object]) -> str:
    """A row of the results in one line, for the terminal."""
    names = " ".join(f"{name} = {row[name]:,}" for name in ("n", "m", "T") if row.get(name))
    what = ", ".join(str(row[name]) for name in ("asked", "what") if name in row)
    if "left_out" in row:
        return f"{what:<55}{names:<20} left out: {row['left_out']}"
    rest = {k: v for k, v in row.items() if k not in {"n", "m", "T", "what", "asked", "microseconds", "low", "high"}}
    time = (
        f"{row['microseconds']:>14,.1f} µs ({row['low']:,.1f} to {row['high']:,.1f})" if "microseconds" in row else ""
    )
    return f"{what:<55}{names:<20}{time} " + ", ".join(f"{k} {v}" for k, v in rest.items())


# ------------------------------------------------------------------------------------------------------- sections


def _about(kept: Kept) -> list[str]:
    """On what machine all was measured; when and with what, part by part."""
    made: dict[str, dict[str, str]] = {}
    for part, told in kept.get("measured", {}).items():
        # older results have dates alone
        one = told if isinstance(told, dict) else {"date": told, "with": "an unknown commit"}
        made.setdefault(one["with"], {})[part] = one["date"]
    lines = [f"Measured on {kept.get('machine', 'an unknown machine')}{':' if made else ', with an unknown commit.'}\n"]
    for versions, parts in made.items():
        dates = sorted(set(parts.values()))
        when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        lines.append(f"- {', '.join(parts)}: {when}, with {versions}")
    lines += [""] if made else []
    absent = {who: why for some in kept.get("absent", {}).values() for who, why in some.items()}
    if absent:
        lines.append(f"Not there, and so not measured: {'; '.join(f'{who} ({why})' for who, why in absent.items())}.\n")
    return lines


def _aims(kept: Kept) -> list[str]:
    """The aims, and a word on what the base of ratios does to them."""
    lines = aims.told(kept) if kept["device"] == "cpu" else []
    if not lines:
        return []
    bases = [
        row["microseconds"] / 1e3
        for section in ("peers", "times", "weights")
        for row in kept.get(section, [])
        if row["what"] == BASE and row["n"] == aims.LARGE
    ]
    between = f", from {min(bases):.1f} to {max(bases):.1f} ms at n = {aims.LARGE:,}" if bases else ""
    told = f"""Each table measures cross entropy anew, among other calls, which have an influence on its
        time{between}. A ratio is to that of its own table. The value weights are all lines of weights with the
        maximum or the product: those with stations, gaps and `isolated`, too."""
    told = textwrap.fill(" ".join(told.split()), 120) + "\n"
    return ["### Aims\n", told, "| | n | at most | table | measured | |\n|---|---:|---:|---|---:|---|", *lines, ""]


def _peers(kept: Kept) -> list[str]:
    rows = kept["peers"]
    sizes = sorted({row["n"] for row in rows})
    some = {*sizes[FIRST::SHOWN], sizes[-1]}
    lines = ["### Losses of others\n", *table([row for row in rows if row["n"] in some]), "", *_left_out(rows)]
    if kept.get("metrics"):
        lines.append("Metrics without a gradient, of the same predictions, values checked as each does by default:\n")
        lines.append("| | | n | ms | beside ours | value |\n|---|---|---:|---:|---:|---:|")
        for row in kept["metrics"]:
            told = f"{row['n']:,} | {_ms(row)} | {row['ratio']:.2f} × | {row['value']:.6f}"
            lines.append(f"| {row['asked']} | {row['what']} | {told} |")
        lines.append("")
    return lines


def _left_out(rows: Rows) -> list[str]:
    """Who is missing from a table, from which size on, and why."""
    first: dict[object, dict[str, object]] = {}
    for row in rows:
        if "left_out" in row:
            first.setdefault(row["what"], row)
    return [f"Left out from n = {row['n']:,} on: {what} ({row['left_out']}).\n" for what, row in first.items()]


def _scores(kept: Kept) -> list[str]:
    return ["### Scores and priors\n", *table(kept["times"]), ""]


def _weights(kept: Kept) -> list[str]:
    lags = next(row["T"] for row in kept["growth"] if row["over"] == "n")
    lines = ["### Weights\n", f"Score TSS, uniform prior; windows have {lags} lags.\n", *table(kept["weights"]), ""]
    for kind, fixed in (("n", "T"), ("T", "n")):
        rows = [row for row in kept["growth"] if row["over"] == kind]
        lines.append(f"A step of `Value`, max, over {kind}, at {fixed} = {rows[0][fixed]:,}:\n")
        lines.append(f"| {kind} | {' | '.join(f'{row[kind]:,}' for row in rows)} |\n|---|{'---:|' * len(rows)}")
        lines.append(f"| ms | {' | '.join(_ms(row) for row in rows)} |")
        if "ratio" in rows[0]:
            ratios = [f"{row['ratio']:.2f} ×" for row in rows]
            lines.append(f"| beside cross entropy, measured with it | {' | '.join(ratios)} |")
        lines.append("")
    if "loop" in kept:
        ours, plain = kept["loop"]
        lines.append(
            f"The same loss at n = {ours['n']:,} as a loop over samples, written after the paper's Theorem 3 with "
            f"one tensor operation at a time: {plain['microseconds'] / 1e6:.2f} s, {plain['ratio']:.0f} × as long.\n"
        )
    return lines


def _curves(kept: Kept) -> list[str]:
    lines = ["### Every threshold\n", *table(kept["curves"], SORT), "", "The same over n, in ms:\n"]
    rows = kept["curve_growth"]
    sizes = sorted({row["n"] for row in rows})
    lines.append(f"| | {' | '.join(f'{n:,}' for n in sizes)} |\n|---|{'---:|' * len(sizes)}")
    lines += [
        f"| {what} | {' | '.join(_ms(row) for row in rows if row['what'] == what)} |"
        for what in dict.fromkeys(row["what"] for row in rows)
    ]
    lines += ["", "The exact loss, forward and backward, beside the first-order one:\n", *table(kept["exact"]), ""]
    if "thresholds" in kept:
        lines.append("Best HSS of the same float64 predictions, pair by pair:\n")
        lines.append("| | n | ms | as long as ours | HSS reached |\n|---|---:|---:|---:|---:|")
        lines += [
            f"| {row['what']} | {row['n']:,} | {_ms(row)} | {row['ratio']:,.2f} × | {row['hss']:.9f} |"
            for row in kept["thresholds"]
        ]
        lines.append("")
    return lines


def _growth(kept: Kept) -> list[str]:
    told = """The b of time ~ size^b, by least squares on logarithms, with its standard error, over the sizes at which a
call takes at least 4 × as long as the fastest: below, fixed costs dominate. Where fewer than three such sizes were
measured there is no line to fit; of three sizes the error is itself hardly known. The last column is the b of n log n.
"""
    lines = ["### Growth\n", told, "| | over | from | to | sizes | b | n log n |\n|---|---|---:|---:|---:|---:|---:|"]
    for row in kept["exponents"]:
        b = "| too few" if row["b"] is None else f"{row['points']} | {row['b']:.2f} ± {row['error']:.2f}"
        sort = f"{exponents.of_sorting(row['from'], row['to']):.2f}" if row["over"] == "n" else ""
        what = ": ".join(filter(None, (row["of"], row["what"])))
        lines.append(f"| {what} | {row['over']} | {row['from']:,} | {row['to']:,} | {b} | {sort} |")
    return [*lines, ""]


def _classes(kept: Kept) -> list[str]:
    lines = ["### Labels and classes\n", "Twenty labels:\n", *table(kept["labels"]), ""]
    for m in dict.fromkeys(row["m"] for row in kept["classes"]):
        some = [row for row in kept["classes"] if row["m"] == m]
        lines += [f"{m:,} classes:\n", *table(some, "cross entropy"), ""]
    if "class_memory" in kept:
        row = kept["class_memory"][0]
        lines.append(f"Peak extra memory of a step, n = {row['n']:,}, {row['m']:,} classes:\n")
        lines.append("| | MiB |\n|---|---:|")
        lines += [f"| {row['what']} | {row['mib']:,.1f} |" for row in kept["class_memory"]]
        lines.append("")
    return lines


def _training(kept: Kept) -> list[str]:
    lines = ["### A training step\n", "Three layers of 128, AdamW, losses validated:\n", *table(kept["training"]), ""]
    if "largest" in kept:
        budget = kept["largest"][0]["budget_mib"]
        lines.append(f"The largest batch that fits into {budget:,} MiB together with a step; accumulated, over")
        lines.append("micro-batches of 1,024:\n")
        lines.append("| | samples | times as many |\n|---|---:|---:|")
        lines += [f"| {row['what']} | {row['n']:,} | {row['ratio']:.1f} |" for row in kept["largest"]]
        lines.append("")
    return lines


def _fits(kept: Kept) -> list[str]:
    told = """10 % positives, in seconds, in shuffled turns. `ScoreClassifier` has its defaults. `MLPClassifier` is
scikit-learn's with two layers of 128 and early stopping; trees are its `HistGradientBoostingClassifier` with defaults.
"""
    lines = ["### Fits of classifiers\n", told]
    lines.append("| rows × columns | | seconds | fits | beside ScoreClassifier |\n|---|---|---:|---:|---:|")
    lines += [
        f"| {row['n']:,} × {row['columns']} | {row['what']} | {_spread(row, 1e6, 1)} | {row.get('runs', '')} "
        f"| {row['ratio']:.3f} × |"
        for row in kept["fits"]
    ]
    return [*lines, ""]


def _files(kept: Kept) -> list[str]:
    row = kept["files"][0]
    told = f"a Parquet file of {row['rows']:,} rows ({row['file_mib']} MiB, 100 stations)"
    lines = [
        f"### A file of predictions\n\n`scorewise evaluate` on {told}, the whole command (streamed: no intervals):\n",
        "| | seconds | peak memory, MiB | report, MB |\n|---|---:|---:|---:|",
    ]
    for row in kept["files"]:
        size = "" if row["report_mb"] is None else row["report_mb"]
        lines.append(f"| {row['what']} | {row['seconds']} | {row['peak_mib']:,} | {size} |")
    return [*lines, ""]


def _imports(kept: Kept) -> list[str]:
    runs = kept["imports"][0]["runs"]
    lines = [f"### Imports\n\nIn {runs} fresh processes each, which took turns, without the interpreter's start:\n"]
    lines.append("| | ms | beside PyTorch alone |\n|---|---:|---:|")
    lines += [f"| `{row['what']}` | {_ms(row)} | {row['ratio']:.3f} × |" for row in kept["imports"]]
    return [*lines, ""]


def _memory(kept: Kept) -> list[str]:
    lines = ["### Memory\n\nPeak extra memory of a step, in bytes per sample, of which the gradient is 4:\n"]
    lines.append("| | n | bytes per sample |\n|---|---:|---:|")
    lines += [f"| {row['what']} | {row['n']:,} | {row['bytes_per_sample']} |" for row in kept["memory"]]
    return [*lines, ""]


def _bandwidth(kept: Kept) -> list[str]:
    told = """What must move in a step, 20 bytes a sample (forward reads z and y; backward, which needs sums over all
samples, reads them again and writes the gradient), over its time, as a share of what a copy of the same total size on
the device reaches:
"""
    lines = ["### Bandwidth\n", told, "| | n | ms | GB/s | share of the copy |\n|---|---:|---:|---:|---:|"]
    lines += [
        f"| {row['what']} | {row['n']:,} | {_ms(row)} | {row['gb_per_s']:,.1f} | {row['share']:.1%} |"
        for row in kept["bandwidth"]
        if "microseconds" in row
    ]
    return [*lines, "", *_left_out(kept["bandwidth"])]


# What a section needs, and the section; in the order of the page.
_SECTIONS: tuple[tuple[str, Callable[[Kept], list[str]]], ...] = (
    ("device", _about),
    ("device", _aims),
    ("peers", _peers),
    ("times", _scores),
    ("weights", _weights),
    ("curves", _curves),
    ("exponents", _growth),
    ("labels", _classes),
    ("training", _training),
    ("fits", _fits),
    ("files", _files),
    ("imports", _imports),
    ("memory", _memory),
    ("bandwidth", _bandwidth),
)


# ---------------------------------------------------------------------------------------------------------- cells


def table(rows: Rows, base: str = BASE) -> list[str]:
    """Lines over n: microseconds of the base, ratios of the others, each with quartiles where they are kept."""
    sizes = sorted({row["n"] for row in rows})
    lines = [f"| | {' | '.join(f'n = {n:,}' for n in sizes)} |\n|---|{'---:|' * len(sizes)}"]
    cells = {(row["what"], row["n"]): row for row in rows if "microseconds" in row}
    for what in dict.fromkeys(row["what"] for row in rows if (row["what"], row["n"]) in cells):
        told = []
        for n in sizes:
            row, first = cells.get((what, n)), cells.get((base, n))
            if row is None or first is None:
                told.append("")
            elif what == base:
                told.append(_spread(row, 1, 0, " µs"))
            else:
                told.append(_spread(row, first["microseconds"], 2, " ×"))
        lines.append(f"| {what} | {' | '.join(told)} |")
    return lines


def _ms(row: Mapping[str, object]) -> str:
    """Milliseconds."""
    return _spread(row, 1e3, 1 if row["microseconds"] >= 1e5 else 2)


def _spread(row: Mapping[str, object], unit: float, digits: int, sign: str = "") -> str:
    """The median in a unit, and the quartiles if there are any; one time alone has none."""
    told = f"{row['microseconds'] / unit:,.{digits}f}{sign}"
    if row.get("runs", 1) == 1:
        return told
    return f"{told} ({row['low'] / unit:,.{digits}f}–{row['high'] / unit:,.{digits}f})"
