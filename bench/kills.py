#!/usr/bin/python3 -B
"""Every process of a real run killed with kill -9 in turn, the server's first.

  bench/kills.py [--build build/release] [--out runs/kills] [--times 20] [--only KIND] [--lanes 1]
                 [--write docs/results/kills.md]    and bench/results/kills.csv

Five processes over sockets on this machine, four workers and `hq` in the middle: a server, a state
server, or a relay without a learner. `longhaul launch` starts what dies again, as it does unless
told otherwise. Each kill is one run: at a moment drawn by its number, in the two seconds after all
nodes have their first checkpoint. It is right if launch ends with code 0 and all who were in the
run at its end have done its rounds and hold one model; it hangs if 90 s have passed and no node
does a round in 30 s more. Each writes one line into --out/KIND.jsonl; what is there is not done
again, so the command may be stopped at any time. Prints the rows.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import textwrap
import time

from common import write_csv

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))

WORKERS, MIDDLE = ["tokyo", "lima", "oslo", "paris"], "hq"
STEP_MS, PATIENCE_S = 5, 90
# kind: keys of [sync], rounds of 5 s at least, what the middle is, other settings
SERVER, STATE_SERVER, RELAY = "server", "state_server", "relay"
KINDS = {
    "bsp": ([], 1000, RELAY, ["overlay.kind=hub"]),
    "bsp over forest": ([], 1000, RELAY, ["overlay.kind=forest"]),
    "fedavg": (["steps=3"], 330, RELAY, ["overlay.kind=hub"]),
    "diloco": (["steps=3"], 330, RELAY, ["overlay.kind=ring"]),
    "nbsync": ([], 600, RELAY, ["overlay.kind=hub"]),
    "esync": (["state_timeout_s=1"], 600, STATE_SERVER, ["overlay.kind=hub"]),
    "gaia": ([], 1000, RELAY, ["overlay.kind=direct"]),
    "ds_sync": ([], 1000, RELAY, ["overlay.kind=hub"]),
    "p3": ([], 1000, RELAY, ["overlay.kind=hub", "model.kind=mlp", "model.hidden=[32]"]),
    "shadowsync easgd": (["algorithm=easgd"], 1000, SERVER, ["overlay.kind=hub"]),
    "selmcast": ([], 1000, RELAY, ["overlay.kind=hub"]),
    "lag": ([], 1000, RELAY, ["overlay.kind=hub"]),
    "adpsgd": ([], 4000, RELAY, ["overlay.kind=hub"]),
    "dpsgd": ([], 1000, RELAY, ["overlay.kind=hub"]),
    # Of two layers one goes as factors; with staleness the other one, too.
    "sfb": (["hash_every=10"], 1000, RELAY,
            ["overlay.kind=hub", "model.kind=mlp", "model.hidden=[32]"]),
    "sfb eager": (["staleness=3"], 1000, RELAY,
                  ["overlay.kind=hub", "model.kind=mlp", "model.hidden=[32]",
                   "optimizer.momentum=0"]),
    "gadmm": ([], 100, RELAY, ["overlay.kind=hub", "data.samples=80"]),
    "asp": ([], 1000, SERVER, ["server.standby_every=20"]),
    "fedgsync": (["steps=3", "groups=2"], 330, SERVER, ["server.standby_every=20"]),
}


def start(case, launcher, kind):
    keys, rounds, middle, sets = KINDS[kind]
    role = STATE_SERVER if middle == STATE_SERVER else SERVER
    case.write(launcher.job_of(WORKERS) + f'[[site]]\nname = "{MIDDLE}"\nroles = ["{role}"]\n')
    words = [f"sync.kind={kind.split()[0]}", *[f"sync.{key}" for key in keys], *sets,
             f"stop.max_rounds={rounds}", "report.every_rounds=200", "net.pace=true",
             f"site.*.step_ms={STEP_MS}", "net.silence_s=6"]
    if middle == RELAY:
        words.append(f"roles.server={MIDDLE}")
    return case.start("launch", "job.toml",
                      *[word for value in words for word in ("--set", value)])


def is_right(case, kind, victim):
    """All who were in the run at its end have done its rounds and hold one model."""
    paths = [case.folder / f"runs/small/{name}/summary.json" for name in WORKERS]
    ends = [json.loads(path.read_text()) for path in paths if path.exists()]
    done = [end for end in ends if end["stop_reason"] == "max_rounds"]
    return (len(done) >= len(WORKERS) - (victim in WORKERS)
            and {end["rounds"] for end in done} == {KINDS[kind][1]}
            and len({end["params_hash"] for end in done}) == 1)


def progress_of(case):
    """The rounds of all nodes, of which none goes on in a run that hangs."""
    paths = [case.folder / f"runs/small/{name}/status.json" for name in (*WORKERS, MIDDLE)]
    return [json.loads(path.read_text())["rounds"] for path in paths if path.exists()]


def end_of(case, launch):
    """launch's exit code; None: it hangs. Waits longer only while rounds are done."""
    before = None
    while True:
        try:
            return launch.wait(PATIENCE_S if before is None else PATIENCE_S / 3)
        except subprocess.TimeoutExpired:
            now = progress_of(case)
            if now == before:
                return None
            before = now


def one(case, launcher, kind, victim, number):
    wait_s = random.Random(f"{kind} {victim} {number}").uniform(0, 2)
    record = {"kind": kind, "victim": victim, "number": number, "wait_s": round(wait_s, 3)}
    case.setUp()
    try:
        launch = start(case, launcher, kind)
        # What a follower needs to go on from is there when its server has a checkpoint, too.
        has_follower = KINDS[kind][2] == SERVER
        case.until_checkpoints(launch, [*WORKERS, MIDDLE] if has_follower else WORKERS)
        sites = case.sites_of(launch)
        time.sleep(wait_s)  # the moment that was drawn
        os.kill(sites[victim], 9)
        began = time.monotonic()
        code = end_of(case, launch)
        text = case.said(launch)
        if code is None:
            text += subprocess.run([os.environ["LONGHAUL"], "status", case.folder / "runs/small"],
                                   capture_output=True, text=True).stdout
        right = code == 0 and is_right(case, kind, victim)
        return {**record, "code": code, "seconds": round(time.monotonic() - began, 2),
                "right": right, "was_lost": "is declared lost" in text,
                "is_back": "is back" in text, "text": "" if right else text[-6000:]}
    except (AssertionError, KeyError) as before:  # the run ended, or a site, before the kill
        return {**record, "code": -1, "seconds": 0, "right": False, "was_lost": False,
                "is_back": False, "text": f"before the kill: {before}"[-6000:]}
    finally:
        case.doCleanups()


HEAD = ["strategy", "killed", "runs", "hangs", "wrong_ends", "declared_lost", "came_back",
        "end_after_the_kill_s_median", "most"]


def rows_of(records):
    """Of HEAD."""
    for kind in KINDS:
        for victims in ([MIDDLE], WORKERS):
            runs = [r for r in records if r["kind"] == kind and r["victim"] in victims]
            if not runs:
                continue
            hangs = sum(r["code"] is None for r in runs)
            seconds = [r["seconds"] for r in runs]
            yield [kind, "hq" if victims == [MIDDLE] else "each worker", len(runs), hangs,
                   sum(not r["right"] for r in runs) - hangs, sum(r["was_lost"] for r in runs),
                   sum(r["is_back"] for r in runs), f"{statistics.median(seconds):.1f}",
                   f"{max(seconds):.1f}"]


def page(rows, bad):
    """`rows`: of HEAD; `bad`: records of runs that were not right."""
    runs, hangs, wrong = (sum(int(row[i]) for row in rows) for i in (2, 3, 4))
    fill = lambda text: textwrap.fill(text, 119, break_on_hyphens=False)
    lines = ["# Kills", "", fill(
        f"To judge robustness: {hangs} of {runs} runs with a killed process hung, and {wrong} "
        "ended wrong. `launch` starts the killed process again. Then it returns, or the run ends "
        "without it."),
        "", "    bench/kills.py --write docs/results/kills.md", "", fill(
        "Five processes over sockets: four workers, and `hq` as a server, a state server or a "
        "relay. A run has one kill -9. It hangs if it has not ended "
        f"{PATIENCE_S} s later and no node finishes a round in 30 s. An end is wrong if the exit "
        "code is not 0 or the remaining nodes do not hold one model after all rounds."),
        "", "| killed | strategies | runs | hangs | wrong | returned | s from the kill to the end: "
        "medians of the strategies | longest |", "|---" * 8 + "|"]
    for victim in dict.fromkeys(row[1] for row in rows):
        of = [row for row in rows if row[1] == victim]
        total = [sum(int(row[i]) for row in of) for i in (2, 3, 4, 6)]
        medians = [float(row[7]) for row in of]
        lines.append(f"| {victim} | {len(of)} | {' | '.join(map(str, total))} | {min(medians):.1f} "
                     f"to {max(medians):.1f} | {max(float(row[8]) for row in of):.1f} |")
    away = [f"{row[0]}, {row[1]} {row[6]} of {row[2]}" for row in rows if row[6] != row[2]]
    lines += ["", fill(
        "[kills.csv](../../bench/results/kills.csv) has a row for each strategy"
        + (f". Those that did not return in every run: {'; '.join(away)}." if away else "."))]
    for one in bad:
        lines += ["", f"Not right: {one['kind']}, {one['victim']} killed {one['wait_s']:.2f} s "
                  "after the checkpoints."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--out", default="runs/kills", type=pathlib.Path)
    parser.add_argument("--times", default=20, type=int)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--lanes", default=1, type=int)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    os.environ["LONGHAUL"] = str(pathlib.Path(options.build).resolve() / "longhaul")
    import launch_test as launcher  # reads LONGHAUL

    options.out.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for path in sorted(options.out.glob("*.jsonl"))
               for line in path.read_text().splitlines()]
    have = {(r["kind"], r["victim"], r["number"]) for r in records}
    kinds = [options.only] if options.only else list(KINDS)
    todo = [(kind, victim, number) for number in range(options.times) for kind in kinds
            for victim in (MIDDLE, *WORKERS) if (kind, victim, number) not in have]
    lock, left = threading.Lock(), len(todo)

    def run(what):
        nonlocal left
        record = one(launcher.Case(), launcher, *what)
        with lock:
            left -= 1
            records.append(record)
            with (options.out / f"{what[0].replace(' ', '-')}.jsonl").open("a") as out:
                out.write(json.dumps(record) + "\n")
            print(f"{what[0]}, {what[1]} killed after {record['wait_s']:.2f} s: "
                  f"{'right' if record['right'] else 'WRONG'}, {record['seconds']:.1f} s; "
                  f"{left} left", file=sys.stderr, flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.lanes) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, what) for what in todo]):
            done.result()
    rows = list(rows_of(records))
    print(*(", ".join(map(str, row)) for row in (HEAD, *rows)), sep="\n")
    if options.write:
        write_csv("kills", HEAD, rows)
        options.write.write_text(page(rows, [r for r in records if not r["right"]]))
    return 0 if all(r["right"] for r in records) else 1


if __name__ == "__main__":
    sys.exit(main())
