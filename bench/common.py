"""What benchmarks of networks share: sites as TOML, and runs of the program."""
import csv
import json
import pathlib
import subprocess

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
PATIENCE_S = 560
EQUAL = [66] * 4  # Mbit/s
UNEQUAL = [155, 140, 120, 100, 80, 60, 40, 20]  # the first serves the hub
GAIA = ("virginia", "california", "oregon", "ireland", "frankfurt", "tokyo", "seoul", "singapore",
        "sydney", "mumbai", "saopaulo")


def site(name, mbps, step_ms):
    steps = f"step_ms = {step_ms}\n" if step_ms else ""
    return f'[[site]]\nname = "{name}"\nup_mbps = {mbps}\ndown_mbps = {mbps}\n{steps}'


def sites(rates, step_ms=None):
    return "".join(site(f"s{i}", rate, step_ms) for i, rate in enumerate(rates))


def gaia(step_ms=None):
    """gaia-11's sites, 100 Mbit/s each, which its preset does not limit."""
    return "".join(site(name, 100, step_ms) for name in GAIA)


def run(*words, network=None, folder):
    prefix = ["ip", "netns", "exec", network] if network else []
    return subprocess.Popen([*prefix, *map(str, words)], cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def result(process, what, codes=(0,), patience_s=PATIENCE_S):
    """The JSON object that it prints; `codes`: what it may exit with."""
    try:
        out, err = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise RuntimeError(f"{what}: not done after {patience_s} s: {err[-400:]}") from None
    if process.returncode not in codes:
        raise RuntimeError(f"{what}: exit code {process.returncode}: {(out + err)[-400:]}")
    return json.loads(out)


def void(real):
    """Why a run over sockets says little of the network; empty: it says something."""
    why = []
    if real.get("router_limited") or real.get("lab", {}).get("router_limited"):
        why.append("router")
    if (real.get("overrun_share") or 0) > 0.01:
        why.append(f"late steps {100 * real['overrun_share']:.0f} %")
    return ", ".join(why)


def write_csv(name, head, rows):
    """The raw rows of a page, in bench/results."""
    with (RESULTS / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)
