"""The states of the process's random generators: those of random, numpy and torch.

Several sites that are simulated in one process take turns, and each has its own.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy

State = dict[str, Any]


def _module(name: str) -> Any:
    """The module if the program has imported it: nobody draws from one that is not there."""
    return sys.modules.get(name)


def seed(value: int) -> None:
    """Seeds all generators as a user would: torch.manual_seed() and its like."""
    random.seed(value)
    numpy.random.seed(value % 2**32)
    if torch := _module("torch"):
        torch.manual_seed(value)


def state() -> State:
    now: State = {"random": random.getstate(), "numpy": numpy.random.get_state()}
    if torch := _module("torch"):
        now["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            now["cuda"] = torch.cuda.get_rng_state_all()
    return now


def restore(of: State) -> None:
    random.setstate(of["random"])
    numpy.random.set_state(of["numpy"])
    if "torch" in of and (torch := _module("torch")):
        torch.set_rng_state(of["torch"])
        if "cuda" in of:
            torch.cuda.set_rng_state_all(of["cuda"])
