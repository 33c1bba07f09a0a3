"""Where an interrupted fit goes on."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scorewise._files import write
from scorewise.estimator.runner import Evaluation, Runner


class Checkpoint:
    """A file with all runners of a race; without a path, nothing.

    Args:
        path: The file. It is there while a fit runs, and removed when it is done.
        seed: For a fit that begins.

    Attributes:
        seed: That of the fit that goes on, or the given one.
    """

    def __init__(self, path: str | os.PathLike[str] | None, seed: int) -> None:
        self.path = None if path is None else Path(path)
        self._left = self._read()
        self.seed: int = seed if self._left is None else self._left["seed"]
        self._mark = ""

    def _read(self) -> dict[str, Any] | None:
        if self.path is None or not self.path.exists():
            return None
        try:
            found: dict[str, Any] = torch.load(self.path, weights_only=True)
            _ = found["mark"], found["seed"]
        except Exception as error:  # whatever is in a file that is none of ours
            raise ValueError(
                f"checkpoint: {self.path} is no checkpoint of a fit ({type(error).__name__}). Pass another path, or "
                "remove the file."
            ) from error
        return found

    def load(self, told: str, data: Iterable[Tensor]) -> dict[str, Any] | None:
        """What an interrupted fit has left.

        Args:
            told: The parameters of the fit, as text.
            data: All that it is fitted on. A file of another fit is refused.
        """
        if self.path is not None:
            self._mark = _mark(told, data)
        found = self._left
        if found is None:
            return None
        if found["mark"] != self._mark:
            raise ValueError(
                f"checkpoint: {self.path} was left by a fit with other parameters or other data. Pass another path, or "
                "remove the file to begin anew."
            )
        found["runners"] = [
            Runner(**{**one, "history": [Evaluation(**own) for own in one["history"]]}) for one in found["runners"]
        ]
        return found

    def save(self, steps: int, seconds: float, runners: list[Runner]) -> None:
        """Keep what is there now: the file is the old one or the new one, and never half of one."""
        if self.path is None:
            return
        rows = [{**vars(one), "history": [vars(own) for own in one.history]} for one in runners]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        state = {"mark": self._mark, "seed": self.seed, "steps": steps, "seconds": seconds, "runners": rows}
        write(self.path, lambda file: torch.save(state, file))

    def remove(self) -> None:
        """The fit is done."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _mark(told: str, data: Iterable[Tensor]) -> str:
    # without addresses: those of functions and objects differ from one process to the next
    mark = hashlib.sha256(re.sub(r" at 0x[0-9A-Fa-f]+", "", told).encode())
    for one in data:
        mark.update(f"{one.dtype}{tuple(one.shape)}".encode())
        mark.update(one.detach().cpu().contiguous().numpy().tobytes())
    return mark.hexdigest()
