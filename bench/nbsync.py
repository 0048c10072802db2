#!/usr/bin/python3 -B
"""NBSync against ESync and the others on unequal machines: scenarios nb-1, nb-2 and nb-3 of
docs/results/nbsync.md, simulated.

  bench/nbsync.py [--build build/release] [--only TEXT] [--seeds 3] [--resume FILE]

Six workers on links of 66 Mbit/s, 10 ms away from a server that is no limit; steps of 0.04 s (four
of them) and 6 s, 150:1; 44.7 MB on the wire; samples labelled by a teacher, 10 classes, and nb-1
also with LeNet-5 on Fashion-MNIST (scripts/fetch-data fashion-mnist). Prints a table a scenario:
the median over the seeds and, in brackets, the range.
"""
import pathlib

from unequal import HUB, MBYTES, Bench, Kind, Task, job, phantom, table, workers

SPEEDS = [40] * 4 + [6000] * 2  # ms a step
SERVER = '[[site]]\nname = "server"\nroles = ["server"]\nup_mbps = 10000\ndown_mbps = 10000\n'
STAR = SERVER + workers(SPEEDS, 66)
NBSYNC, ESYNC = 'kind = "nbsync"', 'kind = "esync"'
PUBLIC = ESYNC + '\nmode = "public"'
# Hours: long enough for each to come to rest, or to show that it does not.
KINDS = {
    "nbsync": Kind(NBSYNC, 0.4, 1),
    "esync": Kind(ESYNC, 0.6, 1),
    "esync, public": Kind(PUBLIC, 0.6, 1),
    "fedavg, 20 steps": Kind('kind = "fedavg"\nsteps = 20', 6, 1),
    "fedavg, 5 steps": Kind('kind = "fedavg"\nsteps = 5', 3, 2),
    "bsp": Kind('kind = "bsp"', 3, 10),
    "ssp": Kind('kind = "ssp"', 3, 10, True),
    "asp": Kind('kind = "asp"', 3, 10, True),
    "fedasync, 20 steps": Kind('kind = "fedasync"\nsteps = 20', 3, 2, True),
    "easgd, 10 steps": Kind('kind = "easgd"\nsteps = 10', 3, 2, True),
}
PARTITIONS = {"IID": "", "Dirichlet 0.5": 'partition = "dirichlet"\nalpha = 0.5',
              "3 labels a worker": 'partition = "shards"\nshards = 3'}


def nb1(bench, data):
    def cells(name, note="", **options):
        kind = KINDS[name]
        return name + note, bench.over_seeds(
            f"nb-1, {data}, {name}{note}",
            lambda seed: job(kind, seed, STAR, PARTITIONS[data], **options))

    # A model of 44.7 MB in eight pieces.
    pieces = f'phases = "streamed"\n{HUB}[transfer]\nchunk_kib = {round(MBYTES * 1e6 / 8192)}'
    streamed = [cells(name, ", streamed", overlay=pieces) for name in ("nbsync", "esync")]
    table(f"nb-1, {data}", [*map(cells, KINDS), *streamed])


def fashion(bench):
    """nb-1 with a model and data that the papers name: LeNet-5 on Fashion-MNIST."""
    path = pathlib.Path(__file__).resolve().parent.parent / "data/fashion-mnist"
    task = Task('[model]\nkind = "lenet"\n', f'kind = "fashion_mnist"\npath = "{path}"', 4 * 61706)
    # A second of nbsync is a hundred steps, real ones: minutes a seed.
    kinds = {"nbsync": Kind(NBSYNC, 0.15, 1), "esync": Kind(ESYNC, 0.2, 1),
             "fedavg, 20 steps": Kind('kind = "fedavg"\nsteps = 20', 4, 1)}
    table("nb-1, Fashion-MNIST, IID", [
        (name, bench.over_seeds(f"nb-1, Fashion-MNIST, {name}",
                                lambda seed, kind=kind: job(kind, seed, STAR, task=task)))
        for name, kind in kinds.items()])


def nb2(bench):
    rows = []
    for times in (0.5, 1, 3, 10):
        # T_sync of so many steps of the slowest: the vector up, and down again.
        mbps = MBYTES * 8 / (times * SPEEDS[-1] / 1000 / 2)
        sites = SERVER + workers(SPEEDS, mbps)
        cells = [bench.cell(f"nb-2, {times}, {sync!r}", phantom(sync, sites))
                 for sync in (NBSYNC, ESYNC, ESYNC + "\nmargin_s = 0", PUBLIC)]
        if None not in cells:
            rows.append(f"| {times} | {1 + times} |" +
                        "".join(f" {cells[0]['rate'] / cell['rate']:.2f} |" for cell in cells[1:]))
    if rows:
        print("\nnb-2: steps of all workers a second, over those of\n")
        print("| T_sync in steps of the slowest | 1 + that | esync | margin 0 | public |")
        print("|---|---|---|---|---|", *rows, sep="\n")


def nb3(bench):
    part = PARTITIONS["3 labels a worker"]
    kinds = {name: KINDS[name] for name in ("esync", "fedavg, 20 steps")}
    for weights in ("equal", "samples", "steps"):
        for most in (50, 200, 0):
            name = f"{weights} weights, " + (f"at most {most} steps" if most else "any steps")
            kinds[name] = Kind(f'{NBSYNC}\nweights = "{weights}"\nmax_steps = {most}', 0.4, 1)
    table("nb-3: three labels a worker", [
        (name, bench.over_seeds(f"nb-3, {name}",
                                lambda seed, kind=kind: job(kind, seed, STAR, part)))
        for name, kind in kinds.items()])


def main():
    bench = Bench(__doc__)
    for data in ("IID", "Dirichlet 0.5"):
        nb1(bench, data)
    fashion(bench)
    nb2(bench)
    nb3(bench)


if __name__ == "__main__":
    main()
