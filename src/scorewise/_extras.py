"""What needs more than PyTorch: loaded when it is asked for, and a clear word where something is missing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

_PACKAGES = {
    "lightning_fabric": "lightning-fabric",
    "narwhals": "narwhals",
    "numpy": "NumPy",
    "rtdl_num_embeddings": "rtdl-num-embeddings",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "tabm": "tabm",
    "torchmetrics": "torchmetrics",
    "tqdm": "tqdm",
}
"""What is not installed may be called otherwise than it is imported."""


def loader(package: str, homes: Mapping[str, tuple[str, str]]) -> Callable[[str], Any]:
    """A package's ``__getattr__``, for names that are loaded when they are asked for.

    Args:
        package: The package's name.
        homes: Of each name the module it is in, or which it is, and the extra that brings what this needs; "" for
            what the core has.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, extra = homes[name]
        try:
            home = importlib.import_module(f"{package}.{module}")
        except ModuleNotFoundError as error:
            if not extra or error.name not in _PACKAGES:
                raise
            raise ImportError(
                f"{package}.{name} needs {_PACKAGES[error.name]}, which is not installed: pip install "
                f"'scorewise[{extra}]'."
            ) from error
        found = home if module == name else getattr(home, name)
        setattr(sys.modules[package], name, found)  # from now on it is there
        return found

    return load
