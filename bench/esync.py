#!/usr/bin/python3 -B
"""ESync against SSGD: scenarios es-1 and es-2 of docs/results/esync.md, simulated.

  bench/esync.py [--build build/release] [--only TEXT] [--seeds 3] [--resume FILE]

es-1: a star of 1 Gbit/s ports, 0.25 ms; four workers of 0.045 s a step, two of 3 and 3.5 s.
es-2: 100 Mbit/s, 40 ms one way; steps of 0.05, 0.2, 1 and 4 s. 44.7 MB on the wire; samples
labelled by a teacher, 10 classes. Prints local steps a second, times to an accuracy, and for es-1
the final accuracy beside that of one worker that takes as many steps alone: the median over the
seeds and, in brackets, the range.
"""
from unequal import Bench, Kind, job, phantom, spread, table, workers

SERVER = '[[site]]\nname = "server"\nroles = ["server"]\n'
STEPS = {"es-1": [45] * 4 + [3000, 3500], "es-2": [50, 200, 1000, 4000]}  # ms
MBPS = {"es-1": 1000, "es-2": 100}
DELAY_MS = {"es-1": 0.25, "es-2": 40}
BSP, ESYNC = 'kind = "bsp"', 'kind = "esync"'
KINDS = {
    "bsp (SSGD)": Kind(BSP, 2, 10),
    "esync, public": Kind(ESYNC + '\nmode = "public"', 0.5, 1),
    "esync": Kind(ESYNC, 0.5, 1),
}


def sites(scenario):
    port = f"up_mbps = {MBPS[scenario]}\ndown_mbps = {MBPS[scenario]}\n"
    return SERVER + port + workers(STEPS[scenario], MBPS[scenario])


def throughput(bench, scenario):
    workers_of, rows = len(STEPS[scenario]), []
    for name, kind in KINDS.items():
        cell = bench.cell(f"{scenario}, steps, {name}",
                          phantom(kind.sync, sites(scenario), delay_ms=DELAY_MS[scenario]))
        if cell:
            rows.append((name, cell["rate"] or cell["rounds_s"] * workers_of))
    if rows:
        print(f"\n{scenario}: local steps of all workers\n\n|  | a second | over bsp |")
        print("|---|---|---|")
        for name, rate in rows:
            print(f"| {name} | {rate:.2f} | {rate / rows[0][1]:.1f} |")


def alone(bench):
    """Beside es-1: a worker with all the data, as many steps as all workers of esync take."""
    scenario, kind = "es-1", KINDS["esync"]
    together = bench.over_seeds(f"{scenario}, esync", lambda seed: job(
        kind, seed, sites(scenario), delay_ms=DELAY_MS[scenario]))
    if not together:
        return
    steps = round(sum(cell["rate"] * cell["hours"] for cell in together) / len(together) * 3600)
    hours = steps * STEPS[scenario][0] / 1000 / 3600
    one = bench.over_seeds(f"{scenario}, esync's steps by one worker", lambda seed: job(
        Kind(BSP, hours, 500), seed, workers(STEPS[scenario][:1], MBPS[scenario]), overlay=""))
    if not one:
        return
    print(f"\n{scenario}: {steps} local steps\n\n|  | best accuracy | final accuracy |")
    print("|---|---|---|")
    for name, cells in (("esync", together), ("one worker, all the data", one)):
        print(f"| {name} |", *(spread([cell[key] for cell in cells], lambda v: f"{v:.3f}") + " |"
                              for key in ("best", "final")))


def main():
    bench = Bench(__doc__)
    for scenario in STEPS:
        throughput(bench, scenario)
        table(f"{scenario}: accuracy", [
            (name, bench.over_seeds(f"{scenario}, {name}", lambda seed, kind=kind: job(
                kind, seed, sites(scenario), delay_ms=DELAY_MS[scenario])))
            for name, kind in KINDS.items()])
    alone(bench)


if __name__ == "__main__":
    main()
