"""The command line of a script with a loop of its own: python3 train.py simulate job.toml."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from longhaul import _longhaul
from longhaul.site import RunEnded, Site, Unfit, _Score, site_of_this_thread, told

# A process that the user's own code forks (a DataLoader's worker) takes signals as any other, also
# one that comes at once.
_ours = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
_mask = threading.local()


def _before_fork() -> None:
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, _ours)


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _in_child() -> None:
    _longhaul.reset_signals()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)

# The command line, its signals and the random states are one for the process.
_one_run = threading.Lock()

# Commands of the C++ program that read a model.pt of its own or train a built-in model.
REFUSED = ("evaluate", "export", "predict", "sample", "serve", "query", "model")


def _program() -> list[str]:
    """The words that start this script again."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name:  # python3 -m package.train
        name = spec.name[: -len(".__main__")] if spec.name.endswith(".__main__") else spec.name
        return [sys.executable, "-m", name]
    script = os.path.abspath(sys.argv[0])
    return [sys.executable, script] if os.path.isfile(script) else []


_HELP = """{script} trains a loop of its own at several sites. Commands, each with --help:

  simulate JOB            all sites in this process, in virtual time
  time JOB                what a step of the loop takes here: [[site]] step_ms
  compare JOB --sync A,B  several strategies in the simulator; one table, the best first
  plan JOB                searches strategies and settings; recommends one
  launch JOB              one process a site on this machine, over TCP
  site JOB --site NAME    one site, for real
  explain, bound, perf, doctor, lab, keys, report, view, status, replay, list, version
                          as the command longhaul has them

Example: python3 {script} simulate job.toml"""


class Loops:
    """The loops of one command: a thread for each site of this process."""

    def __init__(self, train: Callable[[Site], Any],
                 score: Callable[[Any, Site], dict[str, float]] | None):
        self._train = train
        self.sites: dict[int, Site] = {}
        Site._playing = None
        _Score.function = score

    def start(self, rank: int, name: str, index: int, trains: bool, seed: int,
              rate: float | None, loop: _longhaul.Loop) -> None:
        site = Site(name, index, rank, seed, rate, trains, loop)
        self.sites[rank] = site
        threading.Thread(target=site._run, args=(self._train,), name=f"site {name}",
                         daemon=True).start()

    def score(self, rank: int, address: int, size: int) -> tuple[float, float | None, int]:
        site = self.sites.get(rank) or next(iter(self.sites.values()))
        try:
            return _Score.of(site, address)
        except Unfit:
            raise
        except Exception as error:
            print(f"site {site.name}:\n{traceback.format_exc()}", file=sys.stderr, end="")
            raise Unfit(f"site {site.name}: {told(error, 'score()')}") from error


def run(words: list[str], train: Callable[[Site], Any] | None,
        score: Callable[[Any, Site], dict[str, float]] | None,
        program: list[str] | None = None) -> tuple[int, dict[str, Any]]:
    """Carries out a command line; its exit code, and what train() has returned by site.

    program  the words that start a process with the same loops; by default this script's
    """
    code, sites = run_sites(words, train, score, program)
    return code, {site.name: site.result for site in sites}


def run_sites(words: list[str], train: Callable[[Site], Any] | None,
              score: Callable[[Any, Site], dict[str, float]] | None,
              program: list[str] | None = None) -> tuple[int, list[Site]]:
    """The same, with the sites of this process."""
    if (inside := site_of_this_thread()) is not None:
        raise Unfit(f"a run cannot be started inside train() of site {inside.name}: its turn would "
                    "not end")
    if program is None:
        program = _program()
    while not _one_run.acquire(timeout=60):
        print("longhaul: waits for another run of this process to end", file=sys.stderr)
    try:
        return _run_alone(words, train, score, program)
    finally:
        _one_run.release()


def _run_alone(words: list[str], train: Callable[[Site], Any] | None,
               score: Callable[[Any, Site], dict[str, float]] | None,
               program: list[str]) -> tuple[int, list[Site]]:
    if train is None:
        return _longhaul.run(words, program, None, None), []
    if words[:1] in (["launch"], ["compare"], ["plan"]) and not program:
        print(f"longhaul: {words[0]} starts this script again, and it is no file; save it as one",
              file=sys.stderr)
        return 2, []
    loops = Loops(train, score)
    code = _longhaul.run(words, program, loops.start, loops.score if score else None)
    sites = list(loops.sites.values())
    for site in sites:  # the run is over, and its result stands
        if code == 0 and site.error is not None:
            print(f"longhaul: site {site.name}: after the run {told(site.error)}", file=sys.stderr)
            code = 2
    return code, sites


def _at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def time_loop(words: list[str], train: Callable[[Site], Any]) -> int:
    """The command time: what a step of the loop takes here, for the job file."""
    import argparse
    import statistics

    parser = argparse.ArgumentParser(
        prog="time", description="measures a step of the loop on this machine, alone",
        epilog="Example: python3 train.py time job.toml --site tokyo")
    parser.add_argument("job", metavar="JOB", help="job file (TOML)")
    parser.add_argument("--site", metavar="NAME", help="as which site; default: the first")
    parser.add_argument("--steps", type=_at_least_one, default=20, metavar="N",
                        help="steps that count, after 5 others (default: 20)")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    try:
        site, seconds = _longhaul.time_steps(args.job, args.set, args.site or "", args.steps + 5,
                                             Loops(train, None).start)
    except ValueError as error:
        print(f"longhaul: {error}", file=sys.stderr)
        return 2
    took = [1000 * one for one in seconds[5:]]
    median = statistics.median(took)
    if args.json:
        import json

        print(json.dumps({"site": site, "step_ms": median, "min": min(took), "max": max(took),
                          "steps": len(took)}))
    else:
        print(f'[[site]]\nname = "{site}"\nstep_ms = {median:.3g}  # {min(took):.3g} to '
              f"{max(took):.3g}, {len(took)} steps here")
    return 0


def _follow(words: list[str], train: Callable[[Site], Any]) -> int:
    """A process of a site that is not its rank 0: what it needs of the job comes from rank 0."""
    from longhaul.group import Follower

    name = words[words.index("--site") + 1]
    sets = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--set"]
    job = next(word for i, word in enumerate(words[1:], 1)
               if not word.startswith("-") and words[i - 1] in ("site", "--quiet", "--json"))
    seed, rate = _longhaul.seed_and_rate(job, sets, name)
    site = Follower(name, 0, -1, seed, rate, True, None)
    site._follows = True
    try:
        site.run(train)
    except RunEnded:
        pass
    except Exception as error:
        print(f"longhaul: site {name}, process {os.environ['RANK']}:\n{traceback.format_exc()}"
              f"longhaul: site {name}, process {os.environ['RANK']}: {told(error)}",
              file=sys.stderr)
        return 2
    return 0


def _compute_with_one_thread() -> None:
    """What is loaded already: torch, and Debian's OpenBLAS under it and under numpy."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    for name in ("libopenblas.so.0", "libblas.so.3"):
        try:
            ctypes.CDLL(name, mode=os.RTLD_NOLOAD).openblas_set_num_threads(1)
        except (OSError, AttributeError):  # another BLAS, or none
            pass


def main(train: Callable[[Site], Any],
         score: Callable[[Any, Site], dict[str, float]] | None = None,
         argv: list[str] | None = None) -> None:
    """The command line, with train(site) in place of the built-in models. Ends by sys.exit(); in a
    process that the loop spawns, which imports the script, it does nothing.

    train  runs at every site in a thread of its own; see longhaul.Site
    score  score(model, site) returns {"loss": sum, "accuracy": sum, "samples": n} over the site's
           own test samples, of a copy of the model in evaluation mode; the sums of all sites are
           added up. "accuracy", how many are right, may be left out
    argv   by default the words of the command line

    Exit codes are those of longhaul: 0, 1 diverged, 2 bad job, usage or loop, 3 a peer or the
    network failed, 4 internal error, 130 Ctrl-C.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        return
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help"):
        print(_HELP.format(script=os.path.basename(sys.argv[0])))
        sys.exit(0 if words else 2)
    with contextlib.suppress(ValueError, OSError):  # standard error may be no file
        faulthandler.enable()  # a crash says where the loop was
    if words[0] in REFUSED:
        print(f"longhaul: {words[0]}: is for runs of built-in models: use the command longhaul "
              f"{words[0]}; longhaul.load_model(\"FOLDER\", model) loads the model of this loop's "
              "run", file=sys.stderr)
        sys.exit(2)
    if words and words[0] == "site" and int(os.environ.get("WORLD_SIZE", "1")) > 1 and (
            "--site" in words):
        # torchrun at this site: its rank 0 is the node, the others follow it.
        if int(os.environ["RANK"]) > 0:
            sys.exit(_follow(words, train))
    if words and words[0] in ("simulate", "launch", "compare", "plan"):
        # As torchrun: sites that share a machine share its cores, one thread each.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        if os.environ["OMP_NUM_THREADS"] == "1":
            _compute_with_one_thread()
    try:
        if words and words[0] == "time":
            code = time_loop(words[1:], train)
        else:
            code = run(words, train, score)[0]
    except KeyboardInterrupt:
        code = 130
    with contextlib.suppress(ValueError):  # the loop may have closed it
        sys.stdout.flush()
    sys.exit(code)
