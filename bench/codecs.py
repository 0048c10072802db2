#!/usr/bin/python3 -B
"""Every codec on one small job in the simulator: what it reaches in equal rounds, and its bytes.

  bench/codecs.py [--task mlp|fashion|cifar10|gpt] [--only TEXT] [--seeds N] [--keep FILE]

Four sites train with fedavg (40 rounds of 10 steps) over gather, dense codecs and the fp32 baseline
over direct; each codec has its defaults.
  mlp      0.44 MB, synthetic data labelled by a hidden network; with bsp too (300 steps); the best
           of three rates by the mean of seeds 1 to N is printed
  fashion  lenet on Fashion-MNIST (scripts/fetch-data fashion-mnist)
  cifar10  lenet on CIFAR-10 (scripts/fetch-data cifar10)
  gpt      two blocks of 64 on State of the Union texts, a site holds one era; 10 rounds, AdamW
           (scripts/fetch-data sotu); bits per byte
In the last three, the rate is the best of three by the mean of N other seeds, from 100 on.
Runs are kept in FILE, and not repeated by the same command.
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import tempfile

from common import result, run

FEDAVG = {"fedavg": (["sync.kind=fedavg", "sync.steps=10"], 40)}
CODECS = [("fp32", "direct"), ("fp16", "direct"), ("bf16", "direct"), ("int8", "direct"),
          ("qsgd", "gather"), ("ternary", "gather"), ("sign", "gather"), ("top_k", "gather"),
          ("q_top_k", "gather"), ("random_k", "direct"), ("dgc", "gather"), ("demo", "gather"),
          ("bi_sparse", "gather")]
FIRST_TUNING_SEED = 100
COMMON = """\
job = {name = "codecs", seed = 1}
stop = {max_rounds = 10}
report = {every_rounds = 100000}
sync = {kind = "bsp"}
wan = {mbps = 50, delay_ms = 10}
site = [{name = "a"}, {name = "b"}, {name = "c"}, {name = "d"}]
"""
SYNTHETIC = """\
model = {kind = "mlp", hidden = [250, 400]}
optimizer = {kind = "sgd", rate = 0.2}
[data]
kind = "synthetic"
teacher = true
noise = 0
classes = 4
features = 20
samples = 16000
test_samples = 2000
batch = 32
partition = "dirichlet"
alpha = 0.5
"""
IMAGES = """\
model = {{kind = "lenet"}}
optimizer = {{kind = "sgd", rate = 0.2, momentum = 0.9}}
[data]
kind = "{kind}"
path = "{path}"
batch = 32
partition = "dirichlet"
alpha = 0.5
"""
TEXT = """\
model = {{kind = "gpt", layers = 2, width = 64, heads = 2}}
optimizer = {{kind = "adamw", rate = 0.003, weight_decay = 0.1, beta2 = 0.95}}
[data]
kind = "text"
path = "{path}"
context = 128
test_share = 0.01
groups = ["*/17*|*/18[0-4]*", "*/18[5-8]*", "*/189*|*/19[0-2]*", "*/19[3-9]*|*/20*"]
partition = "by_label"
batch = 8
"""


@dataclasses.dataclass
class Task:
    job: str
    rates: tuple
    syncs: dict = dataclasses.field(default_factory=lambda: FEDAVG)
    metric: str = "final_accuracy"
    head: str = "accuracy"
    tuned_apart: bool = True

    def value(self, summary):
        """What a run reached; of one that diverged, worse than any."""
        if "failure" in summary:
            return 0 if self.metric == "final_accuracy" else float("inf")
        return summary[self.metric]

    def shown(self, value):
        return f"{100 * value:.1f} %" if self.metric == "final_accuracy" else f"{value:.3f}"

    def best(self, measured):
        """The rate of (value, rate) that is best: most accurate, or fewest bits."""
        return max(measured)[1] if self.metric == "final_accuracy" else min(measured)[1]


def data(name):
    return pathlib.Path("data", name).resolve()


TASKS = {
    "mlp": Task(SYNTHETIC, (0.05, 0.2, 0.8),
                {"bsp": (["sync.kind=bsp"], 300), **FEDAVG}, tuned_apart=False),
    "fashion": Task(IMAGES.format(kind="fashion_mnist", path=data("fashion-mnist")),
                    (0.01, 0.03, 0.1)),
    "cifar10": Task(IMAGES.format(kind="cifar10", path=data("cifar10")), (0.01, 0.03, 0.1)),
    "gpt": Task(TEXT.format(path=data("sotu")), (0.001, 0.003, 0.01),
                {"fedavg": (FEDAVG["fedavg"][0], 10)}, "bits_per_byte", "bits per byte"),
}


def simulate(args, folder, settings):
    key = " ".join([args.task, *settings])
    if key not in args.kept:
        args.kept[key] = run_once(args, folder, settings)
        if args.keep:
            with open(args.keep, "a", encoding="utf-8") as handle:
                handle.write(json.dumps({"key": key, "summary": args.kept[key]}) + "\n")
    return args.kept[key]


def run_once(args, folder, settings):
    words = [w for s in settings for w in ("--set", s)]
    summary = result(run(args.build / "longhaul", "simulate", "job.toml", "--force", "--quiet",
                         "--json", *words, folder=folder), " ".join(settings), codes=(0, 1))
    if "failure" in summary and "has diverged" not in summary["failure"]:
        raise RuntimeError(f"{' '.join(settings)}: {summary['failure']}")
    return summary


def best_of(args, folder, sync, rounds, codec, overlay):
    task = TASKS[args.task]

    def measure(rate, seeds):
        runs = [simulate(args, folder,
                         [*sync, f"stop.max_rounds={rounds}", f"codec.kind={codec}",
                          f"overlay.kind={overlay}", f"optimizer.rate={rate}", f"job.seed={seed}"])
                for seed in seeds]
        return statistics.mean(map(task.value, runs)), runs[0]["wan_bytes"] / rounds / 1e6

    seeds = range(1, args.seeds + 1)
    first = FIRST_TUNING_SEED if task.tuned_apart else 1
    tuning = range(first, first + args.seeds)
    rate = task.best([(measure(rate, tuning)[0], rate) for rate in task.rates])
    return (rate, *measure(rate, seeds))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--task", choices=TASKS, default="mlp")
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.kept = {}
    if args.keep and args.keep.exists():
        rows = [json.loads(row) for row in args.keep.read_text(encoding="utf-8").splitlines()]
        args.kept = {row["key"]: row["summary"] for row in rows}
    task = TASKS[args.task]
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "job.toml").write_text(COMMON + task.job, encoding="utf-8")
        for name, (sync, rounds) in task.syncs.items():
            print(f"\n| {name}: codec | overlay | {task.head} | rate | WAN MB a round |\n"
                  "|---|---|---|---|---|")
            for codec, overlay in CODECS:
                if args.only not in f"{name} {codec}":
                    continue
                rate, value, mb = best_of(args, folder, sync, rounds, codec, overlay)
                print(f"| `{codec}` | {overlay} | {task.shown(value)} | {rate} | {mb:.3f} |",
                      flush=True)


if __name__ == "__main__":
    main()
