#!/usr/bin/python3 -B
"""FedGSync against FedAT and others where speeds and data are unequal: scenarios fg-1, fg-2 and
fg-3 of docs/results/fedgsync.md, simulated.

  bench/fedgsync.py [--build build/release] [--only TEXT] [--seeds 3] [--resume FILE]

Twelve workers on links of their own to a server, 20 ms away; 44.7 MB on the wire. Samples are
labelled by a random network, labels 0-3, 4-6 and 7-9 are at four workers each; once they are dealt
by Dirichlet's distribution instead. Prints a table a scenario: the median over the seeds and, in
brackets, the range.
"""
import pathlib
import random
import statistics
import tempfile

from common import site
from unequal import SEQUENTIAL, TEACHER, Bench, Kind, job, spread, table

TARGETS = (0.60, 0.65)
SETS = (range(0, 4), range(4, 7), range(7, 10))
STEP_MS = 50
WITHIN = [(1, 2, 5, 10)] * 3                                 # fg-1: speeds within each set
FOLLOWING = [(1, 1, 1, 2), (1, 2, 2, 5), (2, 5, 10, 10)]     # fg-2: speeds follow the data
SAMPLES, TEST_SAMPLES, FEATURES, HIDDEN = 24000, 4000, 20, 16
FG, AT = 'kind = "fedgsync"', 'kind = "fedat"'
FP16 = '[codec]\nkind = "fp16"\n'
KINDS = {
    "fedgsync": (FG, ""),
    "fedgsync, rho 0.5": (FG + "\nrho = 0.5", ""),
    "fedgsync, one group": (FG + "\ngroups = 1", ""),
    "fedgsync, equal shares": (FG + '\nshare = "equal"', ""),
    "fedat": (AT, ""),
    "fedat, fp16": (AT, FP16),
    "fedgsync, fp16": (FG, FP16),
    "fedavg": ('kind = "fedavg"\nsteps = 10', None),
    "fedssgd, step": ('kind = "fedssgd"', None),
    "fedssgd, semi": ('kind = "fedssgd"\nreading = "semi"', None),
    "fedasync": ('kind = "fedasync"\nsteps = 10', ""),
}
# Where transfers are short.
SHORT = ("fedgsync", "fedat", "fedavg", "fedssgd, step", "fedssgd, semi", "fedasync")


def write_data(folder):
    """One CSV file for each worker, and one of all labels for the test."""
    draw = random.Random(1)
    first = [[draw.gauss(0, 1) for _ in range(FEATURES)] for _ in range(HIDDEN)]
    last = [[draw.gauss(0, 1) for _ in range(HIDDEN)] for _ in range(10)]
    rows = [[draw.gauss(0, 1) for _ in range(FEATURES)] for _ in range(SAMPLES + TEST_SAMPLES)]
    scores = []
    for row in rows:
        hidden = [max(0, sum(map(float.__mul__, weights, row))) for weights in first]
        scores.append([sum(map(float.__mul__, weights, map(float, hidden))) for weights in last])
    means = [statistics.fmean(column) for column in zip(*scores)]  # so that labels are about equal
    labels = [max(range(10), key=lambda c, s=s: s[c] - means[c]) for s in scores]
    files = {"test": []}
    seen = [0] * 3
    for number, (row, label) in enumerate(zip(rows, labels)):
        text = ",".join(f"{v:.5f}" for v in row) + f",{label}\n"
        if number >= SAMPLES:
            files["test"].append(text)
            continue
        group = next(g for g, of in enumerate(SETS) if label in of)
        files.setdefault(f"w{4 * group + seen[group] % 4}", []).append(text)
        seen[group] += 1
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("".join(lines))


def sites(folder, speeds, mbps, server_mbps=10000):
    text = ('[[site]]\nname = "server"\nroles = ["server"]\n'
            f"up_mbps = {server_mbps}\ndown_mbps = {server_mbps}\n")
    for number, times in enumerate(factor for group in speeds for factor in group):
        text += site(f"w{number}", mbps, STEP_MS * times)
        text += f'data = "{folder}/w{number}.csv"\n' if folder else ""
    return text


class Scenarios:
    def __init__(self, bench, folder):
        self.bench, self.folder = bench, folder

    def row(self, scenario, name, where, hours, report=1, wan="", task=None):
        """`task`: absent, the workers' own labels."""
        sync, codec = KINDS[name] if name in KINDS else (name, "")
        task = task or TEACHER._replace(data='kind = "csv"\npartition = "local"\nclasses = 10\n'
                                        f'test_path = "{self.folder}/test.csv"')
        overlay = SEQUENTIAL if codec is None else codec
        kind = Kind(sync, hours, report, codec is not None)
        return self.bench.over_seeds(
            f"{scenario}, {name}", lambda seed: job(
                kind, seed, where, overlay=overlay, delay_ms=20,
                task=task).replace("[wan]\n", "[wan]\n" + wan))

    def fg1(self, mbps, names, hours):
        seconds = f"{44.7 * 8 / mbps:.1f} s a transfer"
        where = sites(self.folder, WITHIN, mbps)
        rows = [(name, self.row(f"fg-1, {seconds}", name, where, hours)) for name in names]
        table(f"fg-1, {seconds}", rows, TARGETS)

    def fg2(self):
        where = sites(self.folder, FOLLOWING, 450)
        names = ("fedgsync, one group", *SHORT)
        table("fg-2", [(name, self.row("fg-2", name, where, 0.3)) for name in names], TARGETS)

    def dirichlet(self):
        """fg-1 with shorter transfers and labels that are dealt unevenly, not in sets."""
        where = sites(None, WITHIN, 450)
        task = TEACHER._replace(data=TEACHER.data + '\npartition = "dirichlet"\nalpha = 0.5')
        rows = [(name, self.row("fg-1, Dirichlet 0.5", name, where, 0.3, task=task))
                for name in ("fedgsync, one group", *SHORT)]
        table("fg-1, 0.8 s a transfer, Dirichlet 0.5", rows, TARGETS)

    def fg3(self):
        where = sites(self.folder, WITHIN, 72, server_mbps=300)
        wan = 'model = "fair"\nloss = 0.005\n'
        lines = []
        for name, sync in (("on", FG), ("off", FG + "\ndifferential = false")):
            cells = self.row(f"fg-3, {name}", sync, where, 0.3, wan=wan)
            if cells:
                rounds = spread([1 / cell["rounds_s"] for cell in cells], lambda v: f"{v:.2f}")
                lines.append((f"differential {name}", cells, rounds))
        table("fg-3", [line[:2] for line in lines], TARGETS)
        for name, _, rounds in lines:
            print(f"{name}: {rounds} s a round")


def main():
    bench = Bench(__doc__, TARGETS)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_data(folder)
        scenarios = Scenarios(bench, folder)
        scenarios.fg1(72, KINDS, 1.0)
        scenarios.fg1(180, SHORT, 0.5)
        scenarios.fg1(450, SHORT, 0.3)
        scenarios.dirichlet()
        scenarios.fg2()
        scenarios.fg3()


if __name__ == "__main__":
    main()
