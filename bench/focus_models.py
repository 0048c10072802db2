#!/usr/bin/python3 -B
"""Focus with models trained here, on streams of tracks of Fashion-MNIST: docs/results/focus.md.

  scripts/fetch-data fashion-mnist
  bench/focus_models.py [--build build/release] [--folder runs/bench-focus] [--quick] [--json FILE]

1. The accurate model: resnet20, trained in one place.
2. At five sites it labels objects of each site's own stream of training images (longhaul sample).
3. The cheap models: lenet and perceptrons, trained over the five sites by fedavg on these labels,
   which never leave their site.
4. Streams of test images: cheap model, K and T are chosen on the first objects, and tried on later
   ones; times of the models are measured on this machine.
5. The same streams with queries, simulated with these times, beside query_all.

Steps whose files are in the folder are not repeated: a run that was stopped goes on. Models are
trained once; choice and queries are repeated where another program made them. --quick: tiny models
and streams, to see that all works.
"""
import argparse
import hashlib
import json
import pathlib
import statistics
import sys

from common import result, run

PATIENCE_S = 7200  # of one step
ROOT = pathlib.Path(__file__).resolve().parents[1]
SITES = ("oregon", "virginia", "ireland", "tokyo", "singapore")
CHEAP = {"lenet": 'kind = "lenet"', "mlp-64": 'kind = "mlp"\nhidden = [64]',
         "mlp-8": 'kind = "mlp"\nhidden = [8]'}
FULL = {"gt": 'kind = "resnet20"', "rounds": 1800, "labelled": 3000, "epochs": 12, "held": 4000,
        "objects": 6000}
QUICK = {"gt": 'kind = "lenet"', "rounds": 60, "labelled": 300, "epochs": 2, "held": 500,
         "objects": 1000}

GT = """\
job = {{name = "gt"}}
stop = {{max_rounds = {rounds}}}
report = {{every_rounds = {rounds}}}
data = {{kind = "fashion_mnist", path = "{data}", batch = 32}}
optimizer = {{kind = "adam", rate = 0.003, schedule = "cosine", steps = {rounds}, min_rate = 3e-5}}
sync = {{kind = "bsp"}}
wan = {{mbps = 100, delay_ms = 10}}
site = [{{name = "here", step_ms = 100}}]
[model]
{gt}
"""
STREAM = """\
job = {{name = "stream"}}
data = {{kind = "fashion_mnist", path = "{data}"}}
wan = {{preset = "dtfm-10"}}
site = [{sites}]
[focus]
stream = "images"
gt = "{gt_file}"
rate = 10
objects = {objects}
{settings}"""
CHEAP_JOB = """\
job = {{name = "{name}"}}
stop = {{max_epochs = {epochs}}}
report = {{every_rounds = 1000}}
optimizer = {{kind = "adam", rate = 0.001}}
sync = {{kind = "fedavg", steps = 20}}
wan = {{preset = "dtfm-10"}}
site = [{sites}]
[data]
{data}
[model]
{model}
"""


def toml(value):
    return json.dumps(value)


class Bench:
    def __init__(self, args):
        self.program = pathlib.Path(args.build).resolve() / "longhaul"
        self.folder = pathlib.Path(args.folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.size = QUICK if args.quick else FULL
        self.data = ROOT / "data/fashion-mnist"
        self.digest = hashlib.sha256(self.program.read_bytes()).hexdigest()

    def made(self, path):
        """What this program has written there, or nothing."""
        found = json.loads(path.read_text()) if path.exists() else {}
        return found if found.get("program") == self.digest else None

    def keep(self, path, found):
        found["program"] = self.digest
        path.write_text(json.dumps(found))
        return found

    def longhaul(self, *words):
        return result(run(self.program, *words, folder=self.folder), words[0], codes=(0, 1),
                      patience_s=PATIENCE_S)

    def gt_file(self):
        return self.folder / "runs/gt/model.pt"

    def train_gt(self):
        if self.gt_file().exists():
            return
        print("accurate model ...", flush=True)
        (self.folder / "gt.toml").write_text(GT.format(data=self.data, **self.size))
        self.longhaul("simulate", "gt.toml", "--force", "--json")

    def stream(self, name, settings=""):
        path = self.folder / f"{name}.toml"
        path.write_text(STREAM.format(
            data=self.data, sites=", ".join(f'{{name = "{site}"}}' for site in SITES),
            gt_file=self.gt_file(), objects=self.size["objects"], settings=settings))
        return path

    def label(self):
        done = self.folder / "labelled.json"
        if done.exists():
            return json.loads(done.read_text())
        print("labels ...", flush=True)
        job = self.stream("label", 'images = "train"\n')
        found = self.longhaul("sample", job, "--objects", self.size["labelled"], "--every", 7,
                              "--labels", "labelled", "--json")
        done.write_text(json.dumps(found))
        return found

    def train_cheap(self, labelled):
        data = dict(labelled["data"], test_path=str(self.folder / "labelled" / SITES[0]))
        folder = self.folder / "labelled"
        sites = ", ".join(f'{{name = "{site}", step_ms = 5, data = "{folder}/{site}"}}'
                          for site in SITES)
        for name, model in CHEAP.items():
            if (self.folder / f"runs/{name}/model.pt").exists():
                continue
            print(f"cheap model {name} ...", flush=True)
            (self.folder / f"{name}.toml").write_text(CHEAP_JOB.format(
                name=name, sites=sites, model=model, epochs=self.size["epochs"],
                data="\n".join(f"{key} = {toml(value)}" for key, value in data.items())))
            self.longhaul("simulate", f"{name}.toml", "--force", "--json")

    def cheap_settings(self, times=None):
        text = ""
        for name in CHEAP:
            text += f'[[focus.cheap]]\npath = "{self.folder}/runs/{name}/model.pt"\n'
            if times:
                text += f"ms = {times[name]:.5f}\n"
        return text

    # Times first, so that ingest costs of the choice are those of this machine.
    def choose(self):
        done = self.folder / "chosen.json"
        if found := self.made(done):
            return found
        print("choice ...", flush=True)
        first = self.longhaul("sample", self.stream("times", self.cheap_settings()), "--objects",
                              500, "--json")
        times = {name: statistics.median(site["cheap"][i]["ms"] for site in first["sites"])
                 for i, name in enumerate(CHEAP)}
        gt_ms = statistics.median(site["gt_ms"] for site in first["sites"])
        job = self.stream("choice", self.cheap_settings(times))
        found = self.longhaul("sample", job, "--held-out", self.size["held"], "--json")
        found["cheap_ms"], found["gt_ms"] = times, gt_ms
        return self.keep(done, found)

    def queries(self, chosen, policy, baseline):
        done = self.folder / f"queries-{policy}-{baseline}.json"
        if found := self.made(done):
            return found
        print(f"queries, {policy}, {baseline} ...", flush=True)
        classes = range(10) if baseline == "none" else range(1)
        settings = f'policy = "{policy}"\nbaseline = "{baseline}"\ngt_ms = {chosen["gt_ms"]:.5f}\n'
        settings += self.cheap_settings(chosen["cheap_ms"])
        settings += "".join(f'[[focus.query]]\nsite = "virginia"\nclass = {cls}\nat_s = '
                            f'{self.size["objects"] / 10 + 10 + 60 * cls}\n' for cls in classes)
        job = self.stream(f"queries-{policy}-{baseline}", settings)
        return self.keep(done, self.longhaul("simulate", job, "--json"))


def print_held_out(chosen, held):
    """Of each policy the mean and the least over the sites."""
    for policy in ("opt_ingest", "balance", "opt_query"):
        points = [site["chosen"][policy]["held_out"] for site in chosen["sites"]
                  if "held_out" in site["chosen"][policy]]
        if not points:
            continue
        recall, precision, checks = ([point[key] for point in points]
                                     for key in ("recall", "precision", "checks"))
        reached = sum(point["recall"] >= 0.95 and point["precision"] >= 0.95 for point in points)
        print(f"{policy:11} {reached} of {len(chosen['sites'])} sites: recall "
              f"{statistics.mean(recall):.3f} ({min(recall):.3f}), precision "
              f"{statistics.mean(precision):.3f} ({min(precision):.3f}), checks "
              f"{statistics.mean(checks):.0f}, {held / statistics.mean(checks):.0f} times less")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--build", default="build/release")
    options.add_argument("--folder", default="runs/bench-focus")
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json")
    args = options.parse_args()
    bench = Bench(args)
    bench.train_gt()
    labelled = bench.label()
    bench.train_cheap(labelled)
    chosen = bench.choose()
    print(f"accurate {chosen['gt_ms']:.3f} ms an object")
    for i, (name, ms) in enumerate(chosen["cheap_ms"].items()):
        top = [statistics.mean(site["cheap"][i][key] for site in chosen["sites"])
               for key in ("top_1", "top_4")]
        print(f"{name:8} {ms:.4f} ms ({chosen['gt_ms'] / ms:.0f} times less), agrees "
              f"{100 * top[0]:.1f} %, four best {100 * top[1]:.1f} %")
    for policy in ("opt_ingest", "balance", "opt_query"):
        for site in chosen["sites"]:
            point = site["chosen"][policy]
            if "why" in point:
                print(f"{policy:11} {site['site']:10} {point['why']}")
                continue
            held = point["held_out"]
            print(f"{policy:11} {site['site']:10} {list(CHEAP)[point['cheap']]:7} K {point['K']} "
                  f"T {point['T']:.2f} sample {point['recall']:.3f}-{point['recall_error']:.3f} "
                  f"{point['precision']:.3f}-{point['precision_error']:.3f} "
                  f"held out {held['recall']:.3f} {held['precision']:.3f} "
                  f"checks {held['checks']:.1f} of {bench.size['held']}")
    print_held_out(chosen, bench.size["held"])
    for policy, baseline in (("opt_ingest", "none"), ("balance", "none"), ("opt_query", "none"),
                             ("balance", "query_all")):
        try:
            found = bench.queries(chosen, policy, baseline)
        except RuntimeError as error:
            print(f"{policy:11} {baseline:10} {error}")
            continue
        latency = statistics.median(query["latency_s"] for query in found["queries"])
        checked = statistics.mean(query["checked"] for query in found["queries"])
        ingest = statistics.mean(site["computing_s"] for site in found["sites"])
        print(f"{policy:11} {baseline:10} median query {latency:.3f} s, {checked:.1f} checked, "
              f"computing {ingest:.2f} s a site")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(chosen, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
