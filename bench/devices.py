#!/usr/bin/python3 -B
"""The learner on a GPU beside one core: steps a second, equal bits, simulated and over sockets.

  scripts/fetch-data fashion-mnist sotu
  bench/devices.py [--build build/release] [--write docs/results/devices.md]

Needs a program built with a libtorch that knows CUDA, and a GPU. Each row is one site that trains
alone. Its rate is of the steps between a short and a longer run of the same job, so that neither
the start nor the score at the end counts. The GPU's short run is as long as the CPU's long one: the
losses after it are compared. Its long run is repeated: equal bits are equal hashes of the
parameters. Below, jobs of four sites, which share the one GPU: once in one process, simulated,
and once as four processes with sockets.
"""
import argparse
import concurrent.futures
import itertools
import pathlib
import subprocess
import tempfile

from common import result, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
FASHION = 'kind = "fashion_mnist"\npath = "data/fashion-mnist"\n'
TEXT = 'kind = "text"\npath = "data/sotu"\ntest_share = 0.005\n'
SGD, ADAMW = 'kind = "sgd"\nrate = 0.02\nmomentum = 0.9\n', 'kind = "adamw"\nrate = 0.001\n'
CASES = {  # name: model, data, optimiser; steps of the short and the long run: CPU, GPU
    "clicks": ('kind = "clicks"\n', 'kind = "clicks"\nsamples = 200000\nbatch = 256\n', SGD,
               (100, 600), (600, 2600)),
    "lenet, batch 32": ('kind = "lenet"\n', FASHION + "batch = 32\n", SGD, (100, 600),
                        (600, 2600)),
    "resnet20, batch 128": ('kind = "resnet20"\n', FASHION + "batch = 128\n", SGD, (1, 4),
                            (4, 304)),
    "mlp of 4096, 4096": ('kind = "mlp"\nhidden = [4096, 4096]\n', FASHION + "batch = 256\n", SGD,
                          (1, 6), (6, 506)),
    "gpt, the default": ('kind = "gpt"\n', TEXT + "batch = 8\n", ADAMW, (10, 60), (60, 560)),
    "gpt, 11 M parameters": (
        'kind = "gpt"\nwidth = 384\nheads = 6\nlayers = 6\n',
        TEXT.replace(".005", ".0005") + "context = 128\nbatch = 8\n", ADAMW, (1, 4), (4, 204)),
}
SHARED = [("bsp", "", "lenet, batch 32"), ("bsp", "", "gpt, the default"),
          ("diloco", "steps = 10\n", "gpt, the default"),
          ("streaming_diloco", "steps = 10\n", "lenet, batch 32"),
          ("dpsgd", "steps = 2\n", "lenet, batch 32")]


def job(case, device, steps, sync="bsp", keys="", sites=1):
    model, data, optimizer = CASES[case][:3]
    text = "".join(f'[[site]]\nname = "s{i}"\nstep_ms = {100 + 20 * i}\n' for i in range(sites))
    return (f'[job]\nname = "devices"\ncheckpoint_every = 0\n[stop]\nmax_rounds = {steps}\n'
            f'[report]\nevery_samples = 100000000\n[model]\n{model}device = "{device}"\n'
            f"[data]\n{data}[optimizer]\n{optimizer}[sync]\nkind = \"{sync}\"\n{keys}"
            f"[wan]\nmbps = 1000\ndelay_ms = 1\n{text}")


class Runs:
    def __init__(self, build, folder):
        self.program, self.folder = build / "longhaul", folder
        self.numbers = itertools.count()

    def __call__(self, command, text):
        number = next(self.numbers)
        file = self.folder / f"{number}.toml"
        file.write_text(text)
        done = run(self.program, command, file, "--out", self.folder / str(number), "--json",
                   folder=ROOT)
        return result(done, f"{command}:\n{text}")


def rate(runs, case, device, steps):
    """Steps a second, and both runs."""
    short, long = (runs("simulate", job(case, device, count)) for count in steps)
    return (steps[1] - steps[0]) / (long["real_s"] - short["real_s"]), short, long


def rows(runs):
    """The CPU's runs, one after the other, beside the GPU's."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        cpu = {case: pool.submit(rate, runs, case, "cpu", parts[3])
               for case, parts in CASES.items()}
        for case, (*_, cpu_steps, gpu_steps) in CASES.items():
            per_s, short, long = rate(runs, case, "cuda", gpu_steps)
            again = runs("simulate", job(case, "cuda", gpu_steps[1]))
            equal = "yes" if again["params_hash"] == long["params_hash"] else "NO"
            core, _, here = cpu[case].result()
            yield (f"| {case} | {core:.3g} | {per_s:.4g} | {per_s / core:.3g} | {equal} "
                   f"| {here['final_loss']:.6f}, {short['final_loss']:.6f} |")


def both_hosts(runs):
    for sync, keys, case in SHARED:
        text = job(case, "cuda", 12, sync, keys, sites=4)
        simulated, real = runs("simulate", text), runs("launch", text)
        equal = "yes" if simulated["params_hash"] == real["params_hash"] else "NO"
        yield f"| {sync} | {case} | {simulated['params_hash']} | {real['params_hash']} | {equal} |"


def card():
    names = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], text=True,
                           capture_output=True, check=True)
    return names.stdout.splitlines()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    lines = ["# The learner on a GPU", "", "    bench/devices.py --write docs/results/devices.md",
             "", f"On one {card()}, beside one core of its host. One site alone; simulated.", "",
             "| model | steps/s, one core | steps/s, GPU | ratio | twice equal bits "
             "| loss after the GPU's short run: core, GPU |", "|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options.build.resolve(), pathlib.Path(folder))

        def tell(line):
            lines.append(line)
            print(line, flush=True)
            if options.write:
                options.write.write_text("\n".join(lines) + "\n")

        between = ("", "Four sites share the GPU, 12 rounds: hashes of the parameters.", "",
                   "| sync | model | simulated | over sockets | equal |", "|---|---|---|---|---|")
        for line in itertools.chain(rows(runs), between, both_hosts(runs)):
            tell(line)


if __name__ == "__main__":
    main()
