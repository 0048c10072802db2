"""Jobs, loops and processes for the tests.

PYTHONPATH=BUILD/python: the package of a build. Without it: the installed one, and LONGHAUL names
the C++ program that it is compared with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from longhaul.command import run

torch.set_num_threads(1)
HERE = Path(__file__).resolve().parent
PYTHON_PATH = ":".join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
PROGRAM = os.environ.get("LONGHAUL") or str(
    Path(os.environ["PYTHONPATH"].split(":")[0]).parent / "longhaul")
JOB = """
[job]
name = "own"
seed = 3
[stop]
max_rounds = {rounds}
[report]
every_rounds = 2
[sync]
kind = "{sync}"
{keys}
[overlay]
kind = "ring"
[wan]
mbps = 100
delay_ms = 5
[[site]]
name = "aa"
step_ms = 10
[[site]]
name = "bb"
step_ms = 10
[[site]]
name = "cc"
step_ms = 15
"""


class Command:
    """The command line, in this process or as one of its own, in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.children: list[subprocess.Popen[str]] = []

    def job(self, sync: str = "fedavg", keys: str = "steps = 3", rounds: int = 4,
            more: str = "", name: str = "job.toml", text: str | None = None) -> str:
        path = self.folder / name
        path.write_text((text or JOB.format(sync=sync, keys=keys, rounds=rounds)) + more)
        return str(path)

    def here(self, words: list[str], train: Any, score: Any = None) -> int:
        return run([*words], train, score)[0]

    def simulate(self, job: str, train: Any, score: Any = None, out: str = "run",
                 more: list[str] | None = None) -> tuple[int, dict[str, Any]]:
        """The exit code and the summary, {} if there is none."""
        folder = self.folder / out
        words = ["simulate", job, "--out", str(folder), "--quiet", *(more or [])]
        code = self.here(words, train, score)
        summary = folder / "summary.json"
        return code, json.loads(summary.read_text()) if summary.exists() else {}

    def start(self, script: str | Path, words: list[str],
              threads: str | None = "1") -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
        environment.pop("OMP_NUM_THREADS", None)
        if threads:
            environment["OMP_NUM_THREADS"] = threads
        path = Path(script) if isinstance(script, Path) else self.folder / "script.py"
        if not isinstance(script, Path):
            path.write_text(script)
        child = subprocess.Popen([sys.executable, str(path), *words], cwd=self.folder, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=environment)
        self.children.append(child)
        return child

    def process(self, script: str | Path, words: list[str],
                limit_s: float = 60) -> tuple[int, str, str]:
        child = self.start(script, words)
        out, err = child.communicate(timeout=limit_s)
        return child.returncode, out, err


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path)
    yield command
    for child in command.children:  # that a failed test has left
        child.kill()
