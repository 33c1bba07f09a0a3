"""Random inputs against public functions, counted.

Input number k of a target is made by a generator of its own, seeded with ``target:k``, so that any can be made again by
itself. Of an input it is known beforehand whether it is sound or what is wrong with it, and one of two things must
come of it:

- what is sound gives a finite result in the range of its score, with finite gradients, and equal to a plain oracle
  where there is one for it;
- what is not is refused by a ValueError or TypeError that the package itself raises, in one line.

Anything else is a failure: another exception, a warning, an error from the depths of another library, a number that is
not finite or not right, a sound input that is refused, an unsound one that is not.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import scorewise as sw
from benchmarks import command
from benchmarks.robustness import keep

PACKAGE = Path(sw.__file__).parent
LONGEST = 80
"""Characters of a kind of message."""


class PropertyError(Exception):
    """A property that does not hold, in words."""


class RefusedError(ValueError):
    """An error that a program printed, rather than raised."""


@dataclass(frozen=True, eq=False)
class Try:
    """One input.

    Attributes:
        call: Calls the package.
        check: Raises a `PropertyError` unless what it returned is right; tells whether an oracle was there to say so.
        flaw: What is wrong with the input; None if it is sound.
        allowed: Part of a message that even a sound input may be refused with; None if it must not be.
    """

    call: Callable[[], Any]
    check: Callable[[Any], bool]
    flaw: str | None = None
    allowed: str | None = None


Target = Callable[[random.Random], Try]


@dataclass(eq=False)
class Tally:
    """What inputs of one target came to.

    Attributes:
        target: Its name.
        inputs: How many were tried.
        accepted: How many gave a result.
        compared: How many of these were compared with an oracle.
        refused: How many were refused, by the kind of message.
        flaws: How many were refused, by what was wrong with them.
        failures: What must not be, by the number of the input.
        seconds: How long it took.
    """

    target: str
    inputs: int = 0
    accepted: int = 0
    compared: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    flaws: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """All of it, for a file, with the versions of today."""
        return {
            "target": self.target,
            "inputs": self.inputs,
            "accepted": self.accepted,
            "compared": self.compared,
            "refused": dict(self.refused.most_common()),
            "flaws": dict(self.flaws.most_common()),
            "failures": {str(seed): what for seed, what in self.failures.items()},
            "seconds": round(self.seconds, 1),
            "versions": keep.versions(),
            "date": datetime.now(UTC).date().isoformat(),
        }


def run(name: str, target: Target, seeds: Iterable[int], tell: Callable[[int, str], None] | None = None) -> Tally:
    """Try inputs of a target.

    Args:
        name: The target's name.
        target: Makes them.
        seeds: Their numbers.
        tell: Is told of each failure, with its number.
    """
    tally = Tally(name)
    started = time.perf_counter()
    for seed in seeds:
        tally.inputs += 1
        told, compared, failure = None, False, None
        try:
            told, compared = judge(target, name, seed)
        except PropertyError as error:
            failure = str(error)
        command.go_on()  # what came of an input may be what somebody has made of Ctrl-C
        if failure is not None:
            tally.failures[seed] = failure
            if tell is not None:
                tell(seed, failure)
        elif told is None:
            tally.accepted += 1
            tally.compared += compared
        else:
            flaw, message = told
            tally.flaws[flaw] += 1
            tally.refused[kind_of(message)] += 1
    tally.seconds = time.perf_counter() - started
    return tally


def judge(target: Target, name: str, seed: int) -> tuple[tuple[str, str] | None, bool]:
    """Try one input: why it was refused and with which message, or None; and whether an oracle had its say.

    Raises:
        PropertyError: If what must hold does not.
    """
    one = target(random.Random(f"{name}:{seed}"))  # noqa: S311  # no secret
    with warnings.catch_warnings(), _every_warning():
        warnings.simplefilter("error")
        try:
            found = one.call()
        except (ValueError, TypeError) as error:
            return _refusal(one, error), False
        except (PropertyError, KeyboardInterrupt, command.Stopped):
            raise
        except BaseException as error:  # whatever it is, it is what is looked for; panics of polars are no Exception
            raise PropertyError(f"{type(error).__name__} at {_where(error)}: {error}"[:400]) from error
        if one.flaw is not None:
            raise PropertyError(f"accepted in spite of {one.flaw}")
        try:
            return None, one.check(found)
        except PropertyError:
            raise
        except Exception as error:  # a result that cannot even be looked at is no result
            raise PropertyError(f"a result that cannot be checked, {type(error).__name__}: {error}"[:400]) from error


@contextlib.contextmanager
def _every_warning() -> Iterator[None]:
    """Have torch warn each time, and not once only: else what an input comes to would depend on those before it."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _refusal(one: Try, error: Exception) -> tuple[str, str]:
    message = str(error)
    if not isinstance(error, RefusedError) and not ours(error):
        raise PropertyError(f"{type(error).__name__} of another's at {_where(error)}: {message}"[:400]) from error
    if not message.strip() or "\n" in message:
        raise PropertyError(f"an error that is not one line: {message!r}"[:400]) from error
    if one.flaw is None and (one.allowed is None or one.allowed not in message):
        raise PropertyError(f"refused, though sound: {message}"[:400]) from error
    return one.flaw or "what cannot be had", message


def ours(error: Exception) -> bool:
    """Whether an error was raised by a line of the package, and not by a library beneath it."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(PACKAGE)


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = next((one for one in reversed(frames) if Path(one.filename).is_relative_to(PACKAGE)), frames[-1])
    return f"{Path(last.filename).name}:{last.lineno}"


def kind_of(message: str) -> str:
    """A message without its particulars: numbers, names, and what was seen."""
    start = re.split(r", (?:but|saw|since|expected)\b|; saw\b|: saw\b| saw\b", message, maxsplit=1)[0]
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "…", start)
    bare = re.sub(r"\([\d, ]*\)|(?<![\w.])[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", "#", bare)
    bare = re.split(r"(?<=[a-z…])\. ", bare, maxsplit=1)[0]
    return bare if len(bare) <= LONGEST else bare[: LONGEST - 1] + "…"


# ------------------------------------------------------------------------------------------------------ checks


def require(holds: bool, what: str) -> None:
    """Raise a `PropertyError` in these words unless it holds."""
    if not holds:
        raise PropertyError(what)


def require_close(found: Sequence[float], exact: Sequence[float], tolerance: float, what: str) -> None:
    """Raise a `PropertyError` unless numbers are equal but for so much; NaN is equal to nothing."""
    same = len(found) == len(exact) and all(abs(a - b) <= tolerance for a, b in zip(found, exact, strict=True))
    require(same, f"{what} is {list(found)}, expected {list(exact)} to {tolerance:g}")
