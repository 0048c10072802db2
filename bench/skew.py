#!/usr/bin/python3 -B
"""Skewed labels, what they cost and a tuner for them: docs/results/skew.md, simulated; resumable.

  scripts/fetch-data mnist
  bench/skew.py --part study|tuner [--build build/release] [--steps 300] [--seeds 1]
                [--resume build/skew.json] [--only TEXT] [--degrees 0,0.6,1] [--rates KIND=RATE,...]

LeNet on MNIST over five sites, 100 Mbit/s and 60 ms between each two, batch 20, momentum 0.9. All
take the same number of local steps. study: five strategies with batch and with group normalisation,
a share of 0 to 100 % of each label at one site. Each strategy has the rate of one grid with the
best mean accuracy over shares of 0 and 100 %, with group normalisation, on a seed that is not
reported.
tuner: skewscout on gaia's threshold against bsp and against every fixed threshold of its grid.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from common import result, run

JOB = """\
[job]
name = "skew"
seed = {seed}
[stop]
max_rounds = {rounds}
[report]
every_rounds = {rounds}
[model]
kind = "lenet"
norm = "{norm}"
[data]
kind = "mnist"
path = "{data}"
batch = 20
partition = "skewed"
degree = {degree}
[optimizer]
kind = "sgd"
rate = {rate}
momentum = {momentum}
[sync]
{sync}
[wan]
mbps = 100
delay_ms = 60
{more}
"""
SITES = ("virginia", "oregon", "frankfurt", "tokyo", "singapore")
DEGREES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
NORMS = {"group": "group", "batch": "batch", "batch, local": 'batch"\nbn = "local'}
RATES, TUNED_ON = (0.005, 0.02, 0.08), 11
THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # skewscout's grid for gaia
# Keys of [sync], local steps of a round, other tables. dgc has a momentum of its own.
GAIA = 'kind = "gaia"\nsignificance = {}\nthreshold = "const"\nstaleness = 0'
KINDS = {
    "bsp": ('kind = "bsp"', 1, ""),
    "gaia .2": (GAIA.format(0.2), 1, ""),
    "fedavg 50": ('kind = "fedavg"\nsteps = 50\nweights = "equal"\nreset_optimizer = false',
                  50, ""),
    "dgc .01": ('kind = "bsp"', 1, '[codec]\nkind = "dgc"\nratio = 0.01\nwarm_up = 50'),
    "dpsgd": ('kind = "dpsgd"', 1, ""),
    "skewscout": ('kind = "skewscout"\nstrategy = "gaia"\n'
                  'with = ["staleness = 0", "threshold = const"]\n'
                  'travel_every = {travel_every}\nannounce = 10', 1, ""),
    **{f"gaia {value}": (GAIA.format(value), 1, "") for value in THRESHOLDS},
}
STUDIED = ("bsp", "gaia .2", "fedavg 50", "dgc .01", "dpsgd")


class Bench:
    def __init__(self):
        parser = argparse.ArgumentParser(description=__doc__,
                                         formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--part", choices=["study", "tuner"], required=True)
        parser.add_argument("--build", default="build/release")
        parser.add_argument("--data", default="data/mnist")
        parser.add_argument("--only", default="", help="strategies whose names contain this")
        parser.add_argument("--steps", type=int, default=300)
        parser.add_argument("--travel-every", type=int, default=50, help="tuner: steps")
        parser.add_argument("--seeds", type=int, default=1)
        parser.add_argument("--resume", help="a file of cells: those that it has are not run again")
        parser.add_argument("--degrees", default=",".join(map(str, DEGREES)),
                            help="study: shares of a label at one site")
        parser.add_argument("--norms", default="", help="those whose names contain this")
        parser.add_argument("--rates", default="",
                            help="of an earlier run, in place of the grid: 'bsp=0.08,dpsgd=0.02'")
        self.options = parser.parse_args()
        self.rates = {kind: float(rate) for kind, rate in
                      (word.split("=") for word in self.options.rates.split(",") if word)}
        self.degrees = [float(degree) for degree in self.options.degrees.split(",")]
        self.known = {}
        self.path = pathlib.Path(self.options.resume) if self.options.resume else None
        if self.path and self.path.exists():
            self.known = json.loads(self.path.read_text())

    def cell(self, kind, norm, degree, rate, seed):
        every = self.options.travel_every
        often = f"; {every}" if kind == "skewscout" and every != 50 else ""
        name = f"{kind}; {norm}; {degree}; {rate}; {seed}; {self.options.steps}{often}"
        if name not in self.known:
            self.known[name] = self.measure(kind, norm, degree, rate, seed, name)
            if self.path:
                self.path.write_text(json.dumps(self.known, indent=1))
            print(name, self.known[name], file=sys.stderr, flush=True)
        return self.known[name]

    def measure(self, kind, norm, degree, rate, seed, name):
        sync, steps, more = KINDS[kind]
        sync = sync.replace("{travel_every}", str(self.options.travel_every))
        text = JOB.format(rounds=max(1, self.options.steps // steps), sync=sync, seed=seed,
                          norm=NORMS[norm], degree=degree, rate=rate, more=more,
                          momentum=0 if "dgc" in kind else 0.9,
                          data=pathlib.Path(self.options.data).resolve())
        text += "".join(f'[[site]]\nname = "{site}"\nstep_ms = 50\n' for site in SITES)
        program = pathlib.Path(self.options.build).resolve() / "longhaul"
        with tempfile.TemporaryDirectory() as folder:
            job = pathlib.Path(folder) / "job.toml"
            job.write_text(text)
            process = run(program, "simulate", job, "--json", "--quiet", "--checkpoint-every", "0",
                          "--out", pathlib.Path(folder) / "run", folder=folder)
            try:
                summary = result(process, name, patience_s=3600)
            except RuntimeError as error:
                if "not finite" not in str(error):
                    raise
                return {"accuracy": 0, "diverged": True, "time_s": 0, "mb": 0, "travel_mb": 0,
                        "theta": None, "losses": []}
            lines = (pathlib.Path(folder) / "run/metrics.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]

        def values(figure):
            return [event["values"]["value"] for event in events if event["kind"] == figure]

        return {"accuracy": summary["final_accuracy"], "time_s": summary["time_s"],
                "mb": summary["wan_bytes"] / 1e6, "travel_mb": sum(values("travel_bytes")) / 1e6,
                "theta": (values("theta") or [None])[-1],
                "losses": [round(loss, 3) for loss in values("accuracy_loss")]}

    def best_rate(self, kind):
        if kind in self.rates:
            return self.rates[kind]

        def merit(rate):
            return sum(self.cell(kind, "group", degree, rate, TUNED_ON)["accuracy"]
                       for degree in (0.0, 1.0))
        return max(RATES, key=merit)

    def median(self, kind, norm, degree, rate):
        cells = [self.cell(kind, norm, degree, rate, seed)
                 for seed in range(1, self.options.seeds + 1)]
        return {key: statistics.median_low([cell[key] or 0 for cell in cells])
                for key in ("accuracy", "mb", "travel_mb", "theta", "time_s")}


def study(bench):
    kinds = [kind for kind in STUDIED if bench.options.only in kind]
    rates = {kind: bench.best_rate(kind) for kind in kinds}
    norms = [norm for norm in NORMS if bench.options.norms in norm]
    for seed in range(1, bench.options.seeds + 1):  # seed by seed: what is cut off is a study, too
        for degree in bench.degrees:
            for kind in kinds:
                for norm in norms:
                    bench.cell(kind, norm, degree, rates[kind], seed)
    print("\n| | normalisation | rate |", *(f"{100 * d:.0f} % |" for d in bench.degrees), "MB |")
    print("|---" * (len(bench.degrees) + 4) + "|")
    for kind, rate in rates.items():
        for norm in norms:
            cells = [bench.median(kind, norm, degree, rate) for degree in bench.degrees]
            print(f"| {kind} | {norm} | {rate} |",
                  *(f"{100 * cell['accuracy']:.1f} |" for cell in cells),
                  f"{cells[-1]['mb']:.0f} |", flush=True)


def tuner(bench):
    rate = bench.best_rate("bsp")
    print(f"\nGroup normalisation, rate {rate}, the best of the grid for bsp.\n")
    print("| skew | strategy | accuracy | MB between sites | of bsp's | MB of travels | ends with "
          "|")
    print("|---|---|---|---|---|---|---|")
    for degree in (1.0, 0.0):
        bsp = bench.median("bsp", "group", degree, rate)
        for kind in ("bsp", *(f"gaia {value}" for value in THRESHOLDS), "skewscout"):
            if bench.options.only not in kind:
                continue
            cell = bench.median(kind, "group", degree, rate)
            data = cell["mb"] - cell["travel_mb"]
            print(f"| {100 * degree:.0f} % | {kind} | {100 * cell['accuracy']:.2f} % | {data:.0f} "
                  f"| {data / bsp['mb']:.3f} | {cell['travel_mb']:.1f} "
                  f"| {cell['theta'] or '-'} |", flush=True)


if __name__ == "__main__":
    made = Bench()
    {"study": study, "tuner": tuner}[made.options.part](made)
