#!/usr/bin/python3 -B
"""The benchmark page: three models on three networks, ten strategies, and steps from 5 to 500.

  scripts/fetch-data fashion-mnist cifar10 sotu
  bench/page.py tune [--models ...]     # the rates, once a model on one grid: bench/page-rates.json
  bench/page.py run  [--models lenet,cnn,gpt] [--wans gaia-11,dtfm-10,halos-4]
                     [--write docs/results/page.md]

Both take [--build build/release] [--out build/page] [--jobs 2] [--epochs E], keep the runs that are
done, and go on where they were stopped. --epochs: of each run, in place of the models' own. Every
run of a model may use the same samples. `tune` tries the grid of a model with every strategy on one
network of four equal sites, whose data are as unlike as in the page; a rate is chosen once a model
and strategy, not once a network. `run` compares, sweeps `steps` of diloco on halos-4, and does the
same with one worker that holds all data and the same outer optimiser: what of its gain needs no
second worker. Each comparison is also a report, a file in --out. Simulated; one seed.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tomllib

from common import result, run
from page_picture import picture

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATES = ROOT / "bench/page-rates.json"
PICTURES = ROOT / "docs/img"
SYNCS = ("bsp", "fedavg", "diloco", "sparse_loco", "power_sgd", "nbsync", "fedasync", "dpsgd",
         "adpsgd", "gaia")
SWEEP = (5, 10, 20, 50, 100, 200, 500)
STEP_MS, SPREAD = 50, (1.0, 1.2, 1.5, 2.0)  # of a step; sites in turn
SGD = 'kind = "sgd"\nmomentum = 0.9\n'
MODELS = {
    "lenet": {"model": 'kind = "lenet"\n', "optimizer": SGD, "rates": (0.003, 0.01, 0.03, 0.1),
              "data": 'kind = "fashion_mnist"\npartition = "dirichlet"\nalpha = 0.5\nbatch = 32\n',
              "target": 0.8, "epochs": 2, "wire_scale": 100},
    "cnn": {"model": 'kind = "lenet"\nnorm = "group"\n', "optimizer": SGD,
            "rates": (0.003, 0.01, 0.03, 0.1),
            "data": 'kind = "cifar10"\npartition = "dirichlet"\nalpha = 0.5\nbatch = 32\n',
            "target": 0.5, "epochs": 3, "wire_scale": 100},
    "gpt": {"model": 'kind = "gpt"\n', "optimizer": 'kind = "adamw"\nbeta2 = 0.95\n',
            "rates": (0.001, 0.003, 0.01),
            "data": 'kind = "text"\npath = "data/sotu"\ntest_share = 0.01\nbatch = 8\n'
                    'partition = "dirichlet"\nalpha = 0.5\n',
            "target": 3.6, "epochs": 0.1, "wire_scale": 100, "every": 2500},
}
# Gbit/s between the four regions of HALoS, both ways; the delay is ours.
HALOS = {(0, 1): .537, (0, 2): .935, (0, 3): .202, (1, 2): .386, (1, 3): .117, (2, 3): .127}
WANS = ("gaia-11", "dtfm-10", "halos-4")
SETTINGS = """\
[for.fedavg.sync]
steps = 20
[for.diloco.sync]
steps = 50
[for.sparse_loco.sync]
steps = 50
[for.sparse_loco.overlay]
kind = "gather"
[for.fedasync.sync]
steps = 20
[for.fedasync.overlay]
kind = "hub"
[for.dpsgd.sync]
steps = 5
"""


def four_sites():
    return "".join(f'[[site]]\nname = "r{i}"\nstep_ms = {STEP_MS * SPREAD[i]:g}\n'
                   for i in range(4))


def network(wan, scale):
    if wan == "halos-4":
        links = "".join(f'[[wan.link]]\nfrom = "r{a}"\nto = "r{b}"\nboth = true\n'
                        f"mbps = {1000 * gbit:g}\ndelay_ms = 40\n"
                        for (a, b), gbit in HALOS.items())
        return f"[wan]\nwire_scale = {scale}\n{links}{four_sites()}"
    if wan == "tuning":
        return f"[wan]\nmbps = 200\ndelay_ms = 40\nwire_scale = {scale}\n{four_sites()}"
    if wan == "one":
        return f'[[site]]\nname = "all"\nstep_ms = {STEP_MS}\n'
    return f'[wan]\npreset = "{wan}"\nwire_scale = {scale}\n' + sites_of(wan)


def sites_of(wan):
    """The preset's sites, with steps of unequal lengths."""
    preset = tomllib.loads((ROOT / f"presets/{wan}.toml").read_text())
    sites = preset.get("sites")
    if not sites:
        lines = (ROOT / "presets" / preset["mbps_csv"]).read_text().splitlines()
        sites = next(line for line in lines if not line.startswith("#")).split(",")[1:]
    return "".join(f'[[site]]\nname = "{name}"\nstep_ms = {STEP_MS * SPREAD[i % 4]:g}\n'
                   for i, name in enumerate(sites))


def job(model, wan, rates):
    m = MODELS[model]
    own = "".join(f"[for.{sync}.optimizer]\nrate = {rate}\n" for sync, rate in rates.items())
    # The tuning has a seed of its own: the default.
    seed = "" if wan == "tuning" else "seed = 2\n"
    return (f'[job]\nname = "{model}-{wan}"\n{seed}[report]\n'
            f'every_samples = {m.get("every", 10000)}\n'
            f'[model]\n{m["model"]}[data]\n{m["data"]}[optimizer]\n{m["optimizer"]}'
            f'rate = {m["rates"][1]}\n[sync]\nkind = "bsp"\n{own}{SETTINGS}'
            + network(wan, m["wire_scale"]))


def compare(model, wan, name, rates, *options):
    """Its JSON; a comparison that is done runs nothing again."""
    file = ARGS.out / f"{name}.toml"
    text = job(model, wan, rates)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    words = ["compare", file, "--epochs", ARGS.epochs or MODELS[model]["epochs"], "--jobs",
             ARGS.jobs, "--quiet", "--json", "--resume", "--out", ARGS.out / name]
    return result(run(ARGS.build / "longhaul", *words, *options, folder=ROOT), name, codes=(0, 1),
                  patience_s=36000)


def score(one):
    """Of a run: more is better."""
    if one["stop_reason"] == "diverged":
        return -1e9
    return one["final_accuracy"] if one.get("bits_per_byte") is None else -one["bits_per_byte"]


def tune(models):
    rates = json.loads(RATES.read_text()) if RATES.exists() else {}
    for model in models:
        if model in rates:
            continue
        found = {}
        done = compare(model, "tuning", f"{model}-tuning", {}, "--sync", ",".join(SYNCS), "--sweep",
                       "optimizer.rate=" + ",".join(map(str, MODELS[model]["rates"])))
        for one in done["runs"]:
            rate = float(one["label"].rsplit("=", 1)[1])
            best = found.get(one["sync"])
            if best is None or score(one) > best[0]:
                found[one["sync"]] = (score(one), rate)
        rates[model] = {sync: rate for sync, (_, rate) in found.items()}
        RATES.write_text(json.dumps(rates, indent=2, sort_keys=True) + "\n")
        print(model, rates[model], flush=True)
    return rates


def reached(model, folder):
    """When the run passes the model's target for the first time, which ends it not."""
    key = "bits_per_byte" if model == "gpt" else "accuracy"
    for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        value = event["values"].get(key) if event["kind"] == "score" else None
        if value is None:
            continue
        if value <= MODELS[model]["target"] if model == "gpt" else value >= MODELS[model]["target"]:
            return event["time_s"]
    return None


def number(value, digits=3):
    """So many digits, and no exponent."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 ** digits else f"{value:.{digits}g}"


def table(model, wan, done):
    """Best at the end first."""
    text = model == "gpt"
    lines = [f"### {model} on {wan}", "",
             f"![{model} on {wan}](../img/page-{model}-{wan}.svg)", "",
             f"| strategy | {'bits per byte' if text else 'accuracy, %'} | s to "
             f"{MODELS[model]['target'] if text else 100 * MODELS[model]['target']:g} | s | "
             "WAN GB | computing, % |", "|---|---|---|---|---|---|"]
    for one in sorted(done["runs"], key=score, reverse=True):
        value = "diverged" if score(one) == -1e9 else (
            f"{one['bits_per_byte']:.3f}" if text else f"{100 * one['final_accuracy']:.2f}")
        lines.append(f"| {one['sync']} | {value} | {number(reached(model, one['folder']))} | "
                     f"{number(one['time_s'])} | {number(one['wan_bytes'] / 1e9)} | "
                     f"{100 * one['compute_utilisation']:.0f} |")
    for skipped in done["skipped"] + done["failed"]:
        lines.append(f"| {skipped['label']} | not run: {skipped['why'].splitlines()[0]} | | | | |")
    return lines + [""]


def sweep(model, rates):
    own = {"diloco": rates.get("diloco", MODELS[model]["rates"][1])}
    steps = "sync.steps=" + ",".join(map(str, SWEEP))
    rows = {}
    for workers, wan in ((4, "halos-4"), (1, "one")):
        done = compare(model, wan, f"{model}-sweep-{workers}", own, "--sync", "diloco", "--sweep",
                       steps)
        for one in done["runs"]:
            rows[int(one["label"].rsplit("=", 1)[1]), workers] = one
    lines = [f"### {model}: steps of diloco on halos-4, and with one worker", "",
             "| steps | four workers | s | WAN GB | one worker, the same samples |",
             "|---|---|---|---|---|"]
    for count in SWEEP:
        four, one = rows.get((count, 4)), rows.get((count, 1))
        if not four or not one:
            continue
        text = [f"{abs(score(r)):.3f}" if model == "gpt" else f"{100 * score(r):.2f} %"
                for r in (four, one)]
        lines.append(f"| {count} | {text[0]} | {number(four['time_s'])} | "
                     f"{number(four['wan_bytes'] / 1e9)} | {text[1]} |")
    return lines + [""]


def begin(models, wans):
    epochs = f" --epochs {ARGS.epochs:g}" if ARGS.epochs else ""
    left = [m for m in MODELS if m not in models] + [w for w in WANS if w not in wans]
    not_run = f"Not run: {', '.join(left)}; the same command without `--models` and `--wans` does."
    return ["# The benchmark page", "",
            f"    bench/page.py tune --models {','.join(models)}",
            f"    bench/page.py run --models {','.join(models)} --wans {','.join(wans)}"
            f"{epochs} --write docs/results/page.md", "",
            "Ten strategies, simulated, one seed; every run of a model uses the same number of",
            "samples. lenet learns Fashion-MNIST, cnn (lenet with GroupNorm) CIFAR-10, gpt the",
            "State of the Union by president, split by Dirichlet 0.5. Steps take 50 to 100 ms,",
            "messages count 100 times. halos-4: the rates of HALoS' four regions; delays of 40 ms",
            "are ours. Rates are from [page-rates.json](../../bench/page-rates.json), tuned once a",
            "model. The final model is scored in the end; 's to' is when a report on the way first",
            "passed it: of dpsgd and adpsgd that is one site's model, not the mean of all.",
            "The 132 runs of the whole page took 112 minutes of processor time, 56 on two cores.",
            "", *([not_run, ""] if left else [])]


def report(name):
    """The table and its picture do without."""
    done = subprocess.run([ARGS.build / "longhaul", "report", ARGS.out / name, "--out",
                           ARGS.out / f"{name}.html"], capture_output=True, text=True)
    if done.returncode:
        print(f"page: no report of {name}: {done.stderr.strip()}", file=sys.stderr, flush=True)


def pages(models, wans, rates):
    lines = begin(models, wans)
    for model in models:
        lines += [f"## {model}", ""]
        own = rates.get(model, {})
        for wan in wans:
            done = compare(model, wan, f"{model}-{wan}", own, "--sync", ",".join(SYNCS))
            lines += table(model, wan, done)
            folders = [ARGS.out / f"{model}-{wan}" / one["label"] for one in done["runs"]]
            (PICTURES / f"page-{model}-{wan}.svg").write_text(picture(folders))
            report(f"{model}-{wan}")
            print("\n".join(lines[-16:]), flush=True)
            if ARGS.write:
                ARGS.write.write_text("\n".join(lines))
        if "halos-4" in wans:
            lines += sweep(model, own)
        if ARGS.write:
            ARGS.write.write_text("\n".join(lines).rstrip() + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tune", "run"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--wans", default=",".join(WANS))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/page")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--write", type=pathlib.Path)
    return parser.parse_args()


def main():
    ARGS.out.mkdir(parents=True, exist_ok=True)
    models, wans = ARGS.models.split(","), ARGS.wans.split(",")
    for name, known in [(m, MODELS) for m in models] + [(w, WANS) for w in wans]:
        if name not in known:
            sys.exit(f"page: {name}: not one of {', '.join(known)}")
    if ARGS.what == "tune":
        tune(models)
        return
    rates = json.loads(RATES.read_text()) if RATES.exists() else {}
    missing = [m for m in models if m not in rates]
    if missing:
        sys.exit(f"page: no rates of {', '.join(missing)}: bench/page.py tune first")
    pages(models, wans, rates)


if __name__ == "__main__":
    ARGS = arguments()
    main()
