"""Time and memory of the losses beside binary cross entropy with logits.

    python -m benchmarks.speed [--quick] [--device cpu|cuda] [--write]

Every call is forward and backward on the same logits, in eager float32. All contestants take turns within one process,
so that what the machine does meanwhile hits them alike; a ratio is one of medians. --write keeps the results under
benchmarks/results/ and renders the tables of benchmarks/README.md from them.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import scorewise as sw
from benchmarks import classes, curves, training, weights
from benchmarks.timing import Rows, peak_memory, rows, step, take_turns

RESULTS = Path(__file__).parent / "results"
BASE = "binary cross entropy"
INTRODUCTION = """# Benchmarks

This page is made by `make bench`, from the results in `results/`.

What a loss costs beside `binary_cross_entropy_with_logits`: forward and backward on the same logits, eager float32,
`validate=False` unless it says validated, 10 % positives. All lines of a table took turns in one process; a ratio is
one of medians. *score* lines have the uniform prior, *prior* lines the score TSS. *cdf alone* is `prior.cdf` of that
many probabilities, without a gradient, beside a whole step of cross entropy. Labels are floats and there is no mask
unless it says masked, in the memory figures too.

The aims on a CPU: a step at most 4 × at n = 4,096 and at most 1.5 × at n = 1,048,576 with the uniform prior, and a cdf
at most 10 × at n = 1,048,576; with a value weight of 8 lags at most 10 × and 6 ×. The best threshold of n = 2,097,152
predictions at most 2 × one `torch.sort` of them, value-weighted (T = 3) at most 3 ×. A whole training step of a network
of three layers of 128 at n = 4,096 at most 1.25 × that of cross entropy, accumulated over micro-batches at most 2 ×.
`ScoreClassifier` fits a table of 1,000 × 10 in at most 10 seconds, and one of 50,000 × 30 in at most 120.
"""
MEMORY = {
    "binary cross entropy": "torch.nn.functional.binary_cross_entropy_with_logits",
    "tss": "sw.ScoreLoss('tss', validate=False)",
    "value-weighted tss, 8 lags": "sw.ScoreLoss('tss', weight=sw.weights.Value([0.5] * 8), validate=False)",
    "value-weighted tss, 128 lags": "sw.ScoreLoss('tss', weight=sw.weights.Value([0.5] * 128), validate=False)",
}
PRIORS: dict[str, object] = {
    "Uniform()": sw.priors.Uniform(),
    "Uniform(0.2, 0.8)": sw.priors.Uniform(0.2, 0.8),
    "RaisedCosine()": sw.priors.RaisedCosine(),
    "Triangular(0.1, 0.3, 0.9)": sw.priors.Triangular(0.1, 0.3, 0.9),
    "Beta(2, 8)": sw.priors.Beta(2.0, 8.0),
    "Beta(0.5, 300)": sw.priors.Beta(0.5, 300.0),
    "Kumaraswamy(2, 5)": sw.priors.Kumaraswamy(2.0, 5.0),
    "TruncatedNormal(0.5, 0.2)": sw.priors.TruncatedNormal(0.5, 0.2),
    "Logistic(0.5, 0.1)": sw.priors.Logistic(0.5, 0.1),
    "Mixture of Beta(2, 8), Uniform()": sw.priors.Mixture([sw.priors.Beta(2.0, 8.0), sw.priors.Uniform()], [0.5, 0.5]),
    "Truncated(Normal(0.5, 0.2))": sw.priors.Truncated(torch.distributions.Normal(0.5, 0.2)),
    "Density(exp)": sw.priors.Density(torch.exp),
}


def compare(n: int, seconds: float, device: str) -> Rows:
    """Ratios to binary cross entropy at a batch of n: every score, then every prior, then the validated loss."""
    g = torch.Generator().manual_seed(0)
    z = torch.randn(n, generator=g).to(device).requires_grad_()
    y = (torch.rand(n, generator=g) < 0.1).float().to(device)
    mask = (torch.rand(n, generator=g) < 0.9).to(device)

    losses: dict[str, Callable[[], object]] = {BASE: step(binary_cross_entropy_with_logits, z, y)}
    for name in sw.scores.names():
        losses[f"score {name}"] = step(sw.ScoreLoss(name, validate=False), z, y)
    for name, prior in PRIORS.items():
        losses[f"prior {name}"] = step(sw.ScoreLoss("tss", prior=prior, validate=False), z, y)
    losses["validated tss"] = step(sw.ScoreLoss("tss"), z, y)
    losses["masked tss"] = step(sw.ScoreLoss("tss", validate=False), z, y, mask=mask)
    p = torch.sigmoid(z.detach())
    for name, prior in PRIORS.items():
        losses[f"cdf alone {name}"] = lambda prior=prior: prior.cdf(p)
    return rows(n, take_turns(losses, seconds, device))


def render() -> None:
    """Write benchmarks/README.md from the results that are kept."""
    page = [INTRODUCTION]
    for path in sorted(RESULTS.glob("speed-*.json")):
        kept = json.loads(path.read_text())
        page.append(f"## {kept['device'].upper()}: {kept['on']}, PyTorch {kept['torch']}, Python {kept['python']}\n")
        page += ["### Scores and priors\n", *_table(kept["times"]), "", "### Weights\n"]
        page.append(f"Score TSS, uniform prior; windows have {weights.T} lags.\n")
        page += [*_table(kept["weights"]), ""]
        for kind, fixed in (("n", "T"), ("T", "n")):
            rows = [row for row in kept["growth"] if row["over"] == kind]
            page.append(f"A step of `Value`, max, over {kind}, at {fixed} = {rows[0][fixed]:,}:\n")
            page.append(f"| {kind} | {' | '.join(f'{row[kind]:,}' for row in rows)} |\n|---|{'---:|' * len(rows)}")
            milliseconds = [f"{row['microseconds'] / 1000:,.2f}" for row in rows]
            page.append(f"| ms | {' | '.join(milliseconds)} |\n")
        if "loop" in kept:
            ours, plain = kept["loop"]
            page.append(
                f"The same loss at n = {ours['n']:,} as a loop over samples, written after the paper's Theorem 3 with "
                f"one tensor operation at a time: {plain['microseconds'] / 1e6:.2f} s, "
                f"{plain['ratio']:.0f} × as long.\n"
            )
        if "curves" in kept:
            page += _curves(kept)
        if "classes" in kept:
            page += _classes(kept)
        if "training" in kept:
            page += _training(kept)
        if "fits" in kept:
            page.append("### Fits of classifiers\n\nWith defaults, 10 % positives, in seconds, one after another:\n")
            page.append("| rows × columns | | seconds | beside ScoreClassifier |\n|---|---|---:|---:|")
            page += [
                f"| {row['rows']:,} × {row['columns']} | {row['what']} | {row['seconds']:.1f} | {row['ratio']:.3f} × |"
                for row in kept["fits"]
            ]
            page.append("")
        if "files" in kept:
            from benchmarks import files  # as above

            page += files.table(kept["files"])
        if "memory" in kept:
            page.append("### Memory\n\nPeak extra memory of a step, in bytes per sample, of which the gradient is 4:\n")
            page.append("| | n | bytes per sample |\n|---|---:|---:|")
            page += [f"| {row['what']} | {row['n']:,} | {row['bytes_per_sample']} |" for row in kept["memory"]]
            page.append("")
    (RESULTS.parent / "README.md").write_text("\n".join(page).rstrip() + "\n")


def _curves(kept: dict[str, Rows]) -> list[str]:
    lines = ["### Every threshold\n", *_table(kept["curves"], curves.SORT), "", "The same over n:\n"]
    sizes = sorted({row["n"] for row in kept["curve_growth"]})
    lines.append(f"| ms (ns per n log₂ n) | {' | '.join(f'{n:,}' for n in sizes)} |\n|---|{'---:|' * len(sizes)}")
    for what in dict.fromkeys(row["what"] for row in kept["curve_growth"]):
        mine = [row for row in kept["curve_growth"] if row["what"] == what]
        cells = [f"{row['milliseconds']:,.1f} ({row['per_n_log_n']:.2f})" for row in mine]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    lines += ["", "The exact loss, forward and backward, beside the first-order one:\n", *_table(kept["exact"]), ""]
    if "peers" in kept:
        lines.append("Best HSS of the same float64 predictions, pair by pair:\n")
        lines.append("| | n | ms | as long as ours | HSS reached |\n|---|---:|---:|---:|---:|")
        lines += [
            f"| {row['what']} | {row['n']:,} | {row['milliseconds']:,.2f} | {row['ratio']:,.2f} × | {row['hss']:.9f} |"
            for row in kept["peers"]
        ]
        lines.append("")
    return lines


def _classes(kept: dict[str, Rows]) -> list[str]:
    lines = ["### Labels and classes\n", "Twenty labels:\n", *_table(kept["labels"]), ""]
    for m in dict.fromkeys(row["m"] for row in kept["classes"]):
        some = [row for row in kept["classes"] if row["m"] == m]
        lines += [f"{m:,} classes:\n", *_table(some, "cross entropy"), ""]
    if "class_memory" in kept:
        row = kept["class_memory"][0]
        lines.append(f"Peak extra memory of a step, n = {row['n']:,}, {row['m']:,} classes:\n")
        lines.append("| | MiB |\n|---|---:|")
        lines += [f"| {row['what']} | {row['mib']:,.1f} |" for row in kept["class_memory"]]
        lines.append("")
    return lines


def _training(kept: dict[str, Rows]) -> list[str]:
    lines = ["### A training step\n", "Three layers of 128, AdamW, losses validated:\n", *_table(kept["training"]), ""]
    if "largest" in kept:
        budget = kept["largest"][0]["budget_mib"]
        lines.append(f"The largest batch that fits into {budget:,} MiB together with a step; accumulated, over")
        lines.append(f"micro-batches of {training.MICRO:,}:\n")
        lines.append("| | samples | times as many |\n|---|---:|---:|")
        lines += [f"| {row['what']} | {row['n']:,} | {row['ratio']:.1f} |" for row in kept["largest"]]
        lines.append("")
    return lines


def _table(times: Rows, base: str = BASE) -> list[str]:
    sizes = sorted({row["n"] for row in times})
    lines = [f"| | {' | '.join(f'n = {n:,}' for n in sizes)} |\n|---|{'---:|' * len(sizes)}"]
    for what in dict.fromkeys(row["what"] for row in times):
        cells = []
        for n in sizes:
            row = next((r for r in times if r["n"] == n and r["what"] == what), None)
            if row is None:
                cells.append("")
            else:
                cells.append(f"{row['microseconds']:,.0f} µs" if what == base else f"{row['ratio']:.2f} ×")
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return lines


def _print(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    for row in rows:
        print(f"  {row['what']:<45}{row['microseconds']:>12,.1f} µs {row['ratio']:>8.2f} x", flush=True)
    return rows


def main() -> None:
    """Measure, print, and with --write keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--write", action="store_true", help="keep the results and render the tables")
    parser.add_argument("--only", choices=["fits", "files"], help="measure a part of it, and keep the rest")
    options = parser.parse_args()
    if options.only is not None:
        path = RESULTS / f"speed-{options.device}.json"
        part = {"fits": _fits, "files": _files}[options.only](quick=options.quick)
        _keep({**json.loads(path.read_text()), options.only: part}, path, write=options.write)
        return
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} threads"
    result = {"torch": torch.__version__, "python": platform.python_version(), "device": options.device, "on": where}
    result["times"], result["weights"] = [], []
    for n in (4096, 1 << (17 if options.quick else 20)):
        print(f"n = {n:,}: forward and backward, {where}, eager float32", flush=True)
        result["times"] += _print(compare(n, 2 if options.quick else 40, options.device))
        result["weights"] += _print(weights.compare(n, 2 if options.quick else 30, options.device))
    print("growth of the value-weighted loss")
    result["growth"] = weights.growth(1 if options.quick else 15, options.device, 16 if options.quick else 22)
    for row in result["growth"]:
        print(f"  n = {row['n']:>9,} T = {row['T']:>3}  {row['microseconds'] / 1000:>10,.2f} ms")
    print("every threshold")
    quick = options.quick
    result["curves"] = _print(curves.compare(1 << (17 if quick else 21), 2 if quick else 60, options.device))
    result["curve_growth"] = curves.growth(1 if quick else 12, options.device, 16 if quick else 24)
    for row in result["curve_growth"]:
        print(f"  n = {row['n']:>10,} {row['what']:<35}{row['milliseconds']:>12,.2f} ms")
    result["exact"] = []
    for n in (4096, 1 << (17 if quick else 20)):
        result["exact"] += _print(curves.exact(n, 1 if quick else 15, options.device))
    print("labels and classes")
    result["labels"] = _print(classes.labels(4096, 1 if quick else 15, options.device))
    result["classes"] = []
    for n, m in ((4096, 10), (256, 1000)):
        result["classes"] += _print(classes.compare(n, m, 1 if quick else 15, options.device))
    print("a training step")
    result["training"] = _print(training.compare(4096, 2 if quick else 40, options.device))
    if options.device == "cpu":
        result["largest"] = training.largest((64 if quick else 2048) << 20)
        for row in result["largest"]:
            print(f"  largest batch in {row['budget_mib']:,} MiB, {row['what']}: {row['n']:,} ({row['ratio']} x)")
        result["class_memory"] = [
            {"n": 256, "m": 1000, "what": what, "mib": round(peak_memory(loss, 256, 1000) / 2**20, 1)}
            for what, loss in classes.MEMORY.items()
        ]
        for row in result["class_memory"]:
            print(f"peak extra memory, n = 256, m = 1,000, {row['what']}: {row['mib']} MiB")
        from benchmarks import peers  # other machines may lack scikit-learn

        result["peers"] = peers.thresholds(256 if quick else 1024, 1 << (14 if quick else 17), 1 if quick else 10)
        for row in result["peers"]:
            print(f"  n = {row['n']:>9,} {row['what']:<50}{row['milliseconds']:>12,.2f} ms, HSS {row['hss']:.9f}")
        result["fits"] = _fits(quick=quick)
        result["files"] = _files(quick=quick)
        result["loop"] = _print(weights.loop(1))
        n = 1 << (20 if options.quick else 24)
        result["memory"] = [
            {"n": n, "what": what, "bytes_per_sample": round(peak_memory(loss, n) / n, 2)}
            for what, loss in MEMORY.items()
        ]
        for row in result["memory"]:
            print(f"peak extra memory, n = {n:,}, {row['what']}: {row['bytes_per_sample']} bytes per sample")
    _keep(result, RESULTS / f"speed-{options.device}.json", write=options.write)


def _fits(*, quick: bool) -> Rows:
    from benchmarks import peers  # other machines may lack scikit-learn

    print("fits of classifiers")
    found = peers.fits(300, 5, 1, steps=20) if quick else peers.fits(1000, 10, 5) + peers.fits(50_000, 30, 1)
    for row in found:
        print(
            f"  {row['rows']:>7,} x {row['columns']:<4}{row['what']:<40}{row['seconds']:>9.2f} s {row['ratio']:>8.3f} x"
        )
    return found


def _files(*, quick: bool) -> Rows:
    from benchmarks import files  # other machines may lack the command line

    print("files of predictions")
    return files.compare(20_000 if quick else 10_000_000, quick=quick)


def _keep(result: dict[str, object], path: Path, *, write: bool) -> None:
    if write:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
        render()
        print(f"wrote {path} and the tables of benchmarks/README.md")


if __name__ == "__main__":
    main()
