"""longhaul from a notebook or another program: the commands as functions that return values.

Jobs are paths, TOML texts or dicts of tables. Functions raise JobError, PeerError, Diverged or
KeyboardInterrupt where the command line exits with 2, 3, 1 or 130, with its text.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Union

from longhaul import command
from longhaul.site import Site

Train = Callable[[Site], Any]
ScoreFunction = Callable[[Any, Site], dict[str, float]]
Job = Union[str, "os.PathLike[str]", dict[str, Any]]


class JobError(ValueError):
    """The job, an option or the loop is wrong: what, where, and the remedy. Exit code 2."""


class PeerError(RuntimeError):
    """A peer or the network failed. Exit code 3."""


class Diverged(RuntimeError):
    """The run diverged; `summary` says how. Exit code 1."""

    summary: Summary | None = None


class Summary(dict[str, Any]):
    """A run's summary.json, its keys as attributes too; `folder` is the run's folder.

    models  what train() has returned, by site; of simulate() alone
    """

    folder: str = ""
    models: dict[str, Any]

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"a summary has no {key!r}; it has {', '.join(self)}") from None

    def _repr_html_(self) -> str:
        return _html(["", self.get("name", "run")],
                     [[k, v] for k, v in self.items() if isinstance(v, (int, float, str))])


class Table:
    """A comparison: `rows` (the best first), `verdict`, `runs` (their summaries), `text`."""

    def __init__(self, found: dict[str, Any], text: str):
        self.rows: list[dict[str, Any]] = found["ranking"]
        self.verdict: str = found["verdict"]
        self.winner: str | None = found["winner"]
        self.runs = [Summary(one) for one in found["runs"]]
        self.failed: list[dict[str, str]] = found["failed"] + found["skipped"]
        self.text = text

    def __str__(self) -> str:
        return self.text

    def _flat(self) -> list[dict[str, Any]]:
        flat = []
        for row in self.rows:
            plain: dict[str, Any] = {}
            for key, value in row.items():
                if isinstance(value, dict):  # a median with its range
                    plain.update({key if k == "median" else f"{key}_{k}": v
                                  for k, v in value.items()})
                else:
                    plain[key] = value
            flat.append(plain)
        return flat

    def to_pandas(self) -> Any:
        """A DataFrame, a row for each label: medians, and the ranges as NAME_min and NAME_max."""
        import pandas

        return pandas.DataFrame(self._flat())

    def _repr_html_(self) -> str:
        flat = self._flat()
        names = list(flat[0]) if flat else []
        return _html(names, [[row.get(name, "") for name in names] for row in flat])


def _html(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    import html

    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    return ("<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>")


@contextlib.contextmanager
def _captured(descriptor: int) -> Iterator[list[str]]:
    """Its one element is, afterwards, what the process has written to the descriptor."""
    (sys.stdout if descriptor == 1 else sys.stderr).flush()
    kept = os.dup(descriptor)
    text = [""]
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield text
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)
            file.seek(0)
            text[0] = file.read()


@contextlib.contextmanager
def _job_file(job: Job) -> Iterator[str]:
    if not isinstance(job, (str, os.PathLike, dict)):
        raise JobError(f"job: expected a path, a TOML text or a dict, found {type(job).__name__}")
    if not isinstance(job, dict) and (isinstance(job, os.PathLike) or os.path.exists(job)
                                      or ("\n" not in job and "=" not in job)):
        yield os.fspath(job)
        return
    text = job if isinstance(job, str) else "".join(_tables(job))
    with tempfile.TemporaryDirectory(prefix="longhaul-job-") as folder:
        path = Path(folder) / "job.toml"
        path.write_text(text)
        yield str(path)


def _tables(job: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, value in job.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, dict):
            plain = {k: v for k, v in value.items() if not isinstance(v, dict)}
            if plain or not value:
                yield f"[{path}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in plain.items())
            yield from _tables({k: v for k, v in value.items() if isinstance(v, dict)}, path)
        elif isinstance(value, (list, tuple)) and value and all(isinstance(v, dict) for v in value):
            for one in value:
                yield f"[[{path}]]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in one.items())
        else:
            raise JobError(f"job: {path}: expected a table (a dict) or a list of them")


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool) or isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, os.PathLike):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if hasattr(value, "__float__"):
        return repr(float(value))  # also inf and nan, as TOML writes them
    raise JobError(f"job: {value!r}: expected a number, text, true, false, a list or a dict")


def _words(set: dict[str, Any] | None, wan: str | None) -> list[str]:
    words = []
    for key, value in (set or {}).items():
        words += ["--set", f"{key}={value if isinstance(value, str) else _toml(value)}"]
    return words + (["--wan", wan] if wan else [])


def _run(words: list[str], train: Train | None, score: ScoreFunction | None,
         program: list[str] | None = None) -> tuple[int, str, dict[str, Any]]:
    """Exit code, standard output, what train() has returned by site; raises for 2, 3, 4, 130."""
    with _captured(1) as out, _captured(2) as err:
        code, sites = command.run_sites(words, train, score, program)
    texts = err[0].splitlines()
    said = "\n".join(line.removeprefix("longhaul: ") for line in texts
                     if line.startswith("longhaul: ")) or "\n".join(texts[-5:])
    if code == 130:
        raise KeyboardInterrupt
    if code in (2, 3, 4):
        cause = next((site.error for site in sites if site.error is not None), None)
        raise (JobError if code == 2 else PeerError if code == 3 else RuntimeError)(said) from cause
    return code, out[0], {site.name: site.result for site in sites}


def simulate(job: Job, train: Train | None = None, score: ScoreFunction | None = None, *,
             set: dict[str, Any] | None = None, wan: str | None = None,
             out: str | None = None) -> Summary:
    """Trains the job in virtual time; every site's train() runs in this process.

        summary = longhaul.simulate("job.toml", train, score, set={"sync.kind": "diloco"})
        summary.final_accuracy, summary.models["tokyo"]

    out   the run's folder, which is replaced; None: a temporary one
    """
    folder = os.path.abspath(out or tempfile.mkdtemp(prefix="longhaul-run-"))
    with _job_file(job) as path:
        code, _, results = _run(["simulate", path, "--out", folder, "--force", "--quiet",
                                 *_words(set, wan)], train, score)
    summary = read_run(folder)
    summary.models = results
    if code == 1:
        error = Diverged(summary.get("failure") or "the run diverged")
        error.summary = summary
        raise error
    return summary


def read_run(folder: str | os.PathLike[str]) -> Summary:
    """The summary of a run's folder, of whichever command."""
    path = Path(folder) / "summary.json"
    if not path.exists():
        raise JobError(f"{path}: no such file: no run has ended there")
    summary = Summary(json.loads(path.read_text()))
    summary.folder = str(folder)
    summary.models = {}
    return summary


def _trial(words: list[str], train: Train | None, score: ScoreFunction | None) -> int:
    """One run of a comparison, in a worker of an executor. A worker may be lost in the middle, and
    the executor may try again by itself: what is there is replaced."""
    return _run([*words, "--force"], train, score)[0]


@contextlib.contextmanager
def _as_program(train: Train | None, score: ScoreFunction | None) -> Iterator[list[str]]:
    """The words that start a process with this loop."""
    try:
        import cloudpickle as pickler  # type: ignore[import]
    except ImportError:
        pickler = pickle
    try:
        data = pickle.dumps((sys.path, pickler.dumps((train, score))))
    except Exception as error:
        raise JobError(f"train cannot be sent to other processes ({error}): define it in a module, "
                       "or pip install cloudpickle") from error
    with tempfile.TemporaryDirectory(prefix="longhaul-loop-") as folder:
        path = Path(folder) / "loop.pickle"
        path.write_bytes(data)
        yield [sys.executable, "-m", "longhaul.trial", str(path)]


def compare(job: Job, train: Train | None = None, score: ScoreFunction | None = None, *,
            sync: str | Sequence[str], seeds: int = 3, set: dict[str, Any] | None = None,
            wan: str | None = None, out: str | None = None, more: Sequence[str] = (),
            executor: Executor | None = None, jobs: int = 1) -> Table:
    """Trains the job with each strategy and seed, and ranks them.

        table = longhaul.compare("job.toml", train, score, sync=["fedavg", "diloco"], seeds=3)
        table.to_pandas()

    executor  any concurrent.futures.Executor, also one of dask or mpi4py whose workers see the
              same files: a run is a task, tried a second time if its worker is lost. None:
              processes of this machine, `jobs` at once
    more      further words of the command line: ["--epochs", "5"]
    """
    folder = out or tempfile.mkdtemp(prefix="longhaul-compare-")
    with _job_file(job) as path, _as_program(train, score) as program:
        kinds = sync if isinstance(sync, str) else ",".join(sync)
        words = ["compare", path, "--sync", kinds, "--seeds", str(seeds), "--out", folder,
                 *_words(set, wan), *more]
        if executor is None:
            _, text, _ = _run([*words, "--json", "--quiet", "--force", "--jobs", str(jobs)],
                              train, score, program)
        else:
            _, lines, _ = _run([*words, "--emit", "parallel", "--force"], train, score, program)
            import shlex

            tasks = [shlex.split(line)[len(program):] for line in lines.splitlines()]
            for attempt in (1, 2):
                futures = [(task, executor.submit(_trial, task, train, score)) for task in tasks]
                tasks = []
                for task, future in futures:
                    try:
                        future.result()
                    except JobError:
                        raise
                    except Exception:  # its worker is lost
                        if attempt == 2:
                            raise
                        tasks.append(task)
                if not tasks:
                    break
            _, text, _ = _run([*words, "--gather", "--json"], train, score, program)
        found = json.loads(text)
        _, shown, _ = _run([*words, "--gather"], train, score, program)
    return Table(found, shown)


def plan(job: Job, train: Train | None = None, score: ScoreFunction | None = None, *,
         budget_minutes: float = 10, budget_samples: int | None = None,
         set: dict[str, Any] | None = None, wan: str | None = None,
         out: str | None = None, jobs: int = 1) -> dict[str, Any]:
    """Tries strategies on the job's network and recommends one: what plan --json says.

    budget_samples  samples of all trials, in place of minutes: the same result on any machine
    jobs            trials at once, each a process
    """
    folder = out or tempfile.mkdtemp(prefix="longhaul-plan-")
    budget = (["--budget-minutes", str(budget_minutes)] if budget_samples is None
              else ["--budget-samples", str(budget_samples)])
    with _job_file(job) as path, _as_program(train, score) as program:
        _, text, _ = _run(["plan", path, *budget, "--json", "--quiet", "--force", "--out", folder,
                           "--jobs", str(jobs), *_words(set, wan)], train, score, program)
    found: dict[str, Any] = json.loads(text)
    return found


def explain(name: Job) -> str:
    """What a strategy, an overlay, a key or a job comes to, as `longhaul explain` prints it."""
    if isinstance(name, str) and "\n" not in name:
        return _run(["explain", name], None, None)[1]
    with _job_file(name) as path:
        return _run(["explain", path], None, None)[1]


def bound(job: Job, *, set: dict[str, Any] | None = None, wan: str | None = None) -> dict[str, Any]:
    """The least time that an exchange takes on the job's network: what bound --json says."""
    with _job_file(job) as path:
        found: dict[str, Any] = json.loads(_run(["bound", path, "--json", *_words(set, wan)],
                                                None, None)[1])
    return found


def perf(job: Job, *, set: dict[str, Any] | None = None,
         more: Sequence[str] = ()) -> dict[str, Any]:
    """Times exchanges of the job: what perf --json says."""
    with _job_file(job) as path:
        found: dict[str, Any] = json.loads(_run(["perf", path, "--json", *_words(set, None), *more],
                                                None, None)[1])
    return found
