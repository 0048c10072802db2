#!/usr/bin/python3 -B
"""The benchmark page: three models on three networks, ten strategies, and steps from 5 to 500.

  scripts/fetch-data fashion-mnist cifar10 sotu
  bench/page.py tune [--models ...]     # the rates, once a model on one grid: bench/page-rates.json
  bench/page.py run  [--models lenet,cnn,gpt] [--wans gaia-11,dtfm-10,halos-4]
                     [--write docs/results/page.md]    and bench/results/page.csv, page-steps.csv

Both take [--build build/release] [--out build/page] [--jobs 2] [--epochs E], keep the runs that are
done, and go on where they were stopped. --epochs: of each run, in place of the models' own. Every
run of a model may use the same samples. `tune` tries the grid of a model with every strategy on one
network of four equal sites, whose data are as unlike as in the page; a rate is chosen once a model
and strategy, not once a network. `run` compares, sweeps `steps` of diloco on halos-4, and does the
same with one worker that holds all data and the same outer optimiser: what of its gain needs no
second worker. Each comparison is also a report, a file in --out. Simulated; one seed.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys
import textwrap
import tomllib

from common import result, run, write_csv
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


HEAD = ["model", "wan", "strategy", "score", "unit", "target", "to_target_s", "s", "wan_gb",
        "computing_percent"]
STEPS_HEAD = ["model", "steps", "four_workers", "unit", "s", "wan_gb", "one_worker"]


def unit(model):
    return "bits per byte" if model == "gpt" else "accuracy, %"


def goal(model):
    return MODELS[model]["target"] if model == "gpt" else 100 * MODELS[model]["target"]


def shown(model, one):
    return f"{one['bits_per_byte']:.3f}" if model == "gpt" else f"{100 * one['final_accuracy']:.2f}"


def rows_of(model, wan, done):
    """Of HEAD, the best at the end first."""
    for one in sorted(done["runs"], key=score, reverse=True):
        value = "diverged" if score(one) == -1e9 else shown(model, one)
        yield [model, wan, one["sync"], value, unit(model), f"{goal(model):g}",
               number(reached(model, one["folder"])), number(one["time_s"]),
               number(one["wan_bytes"] / 1e9), f"{100 * one['compute_utilisation']:.0f}"]
    for skipped in done["skipped"] + done["failed"]:
        yield [model, wan, skipped["label"], "not run", unit(model), f"{goal(model):g}", *"----"]
        print(f"page: {skipped['label']} not run: {skipped['why']}", file=sys.stderr, flush=True)


def sweep(model, rates):
    """Of STEPS_HEAD."""
    own = {"diloco": rates.get("diloco", MODELS[model]["rates"][1])}
    steps = "sync.steps=" + ",".join(map(str, SWEEP))
    rows = {}
    for workers, wan in ((4, "halos-4"), (1, "one")):
        done = compare(model, wan, f"{model}-sweep-{workers}", own, "--sync", "diloco", "--sweep",
                       steps)
        for one in done["runs"]:
            rows[int(one["label"].rsplit("=", 1)[1]), workers] = one
    for count in SWEEP:
        four, one = rows.get((count, 4)), rows.get((count, 1))
        if four and one:
            yield [model, count, shown(model, four), unit(model), number(four["time_s"]),
                   number(four["wan_bytes"] / 1e9), shown(model, one)]


def value_of(text):
    """None: no number."""
    return float(text.replace(",", "")) if text[0].isdigit() else None


def lead(rows):
    """Rows of HEAD, a cell's best first."""
    cells = collections.defaultdict(dict)
    for row in rows:
        cells[row[0], row[1]][row[2]] = row
    best = collections.Counter(next(iter(cell)) for cell in cells.values())
    early = collections.Counter()
    for cell in cells.values():
        times = {name: value_of(row[6]) for name, row in cell.items() if value_of(row[6])}
        early[min(times, key=times.get) if times else "no strategy"] += 1
    pairs = [(cell["bsp"], cell["diloco"]) for cell in cells.values()
             if all(name in cell and value_of(cell[name][3]) for name in ("bsp", "diloco"))]
    longer = [value_of(bsp[7]) / value_of(other[7]) for bsp, other in pairs]
    behind = [value_of(bsp[3]) - value_of(other[3]) for bsp, other in pairs if bsp[0] != "gpt"]
    best, early = [", ".join(f"{name} in {count}" for name, count in counts.most_common())
                   for counts in (best, early)]
    text = f"To choose a strategy: best after equal samples are {best} of {len(cells)} " \
        "combinations of model and network."
    if pairs:
        text += f" bsp takes {min(longer):.1f} to {max(longer):.1f} times as long as diloco"
        text += f", which with 50 steps is {min(behind):.1f} to {max(behind):.1f} points behind " \
            "on images." if behind else "."
    goals = ", ".join(f"{model} {goal(model):g}" for model in dict.fromkeys(row[0] for row in rows))
    return f"{text} First at a target ({goals}): {early}. One seed: small differences are chance."


def tables(rows, steps):
    """The steps; then of each model its table and pictures."""
    wans, models = [list(dict.fromkeys(row[i] for row in rows)) for i in (1, 0)]
    lines = sweep_lines(rows, models, steps) if steps else []
    for model in models:
        cells = {(row[2], row[1]): row for row in rows if row[0] == model}
        lines += [f"| {model}: {unit(model)}; s | {' | '.join(wans)} |",
                  "|---" * (len(wans) + 1) + "|"]
        names = dict.fromkeys(row[2] for row in cells.values())

        def mean(name):
            found = [cells[name, wan][3] for wan in wans if (name, wan) in cells]
            if not all(map(value_of, found)):
                return float("inf")
            return statistics.mean(map(value_of, found)) * (1 if model == "gpt" else -1)

        for name in sorted(names, key=mean):
            both = [f"{cells[name, wan][3]}; {cells[name, wan][7]}" if (name, wan) in cells
                    else "" for wan in wans]
            lines.append(f"| {name} | {' | '.join(both)} |")
        lines += ["", *[f"![{model}-{wan}](../img/page-{model}-{wan}.svg)" for wan in wans], ""]
    return lines


def sweep_lines(table, models, steps):
    """The best numbers of steps; scores are in the file."""
    said, alone = [], []
    for model in models:
        rows = [row for row in steps if row[0] == model]
        order = min if model == "gpt" else max
        four, one = (order(rows, key=lambda row, column=column: float(row[column]))
                     for column in (2, 6))
        said.append(f"{model} {four[2]} ({four[1]}) and {one[6]} ({one[1]})")
        scores = [value_of(row[3]) for row in table if row[0] == model and value_of(row[3])]
        if float(one[6]) == order([float(one[6]), *scores]):
            alone.append(model)
    best = f" On {', '.join(alone)} one worker beats all below." if alone else ""
    return [fill("Best score (and steps) of diloco on halos-4 with four workers, and of one worker "
                 f"with the same samples: {'; '.join(said)} "
                 f"([page-steps.csv](../../bench/results/page-steps.csv)).{best}"), ""]


def fill(text):
    return textwrap.fill(text, 119, break_on_hyphens=False, break_long_words=False)


NOTES = "## Notes"  # this part of the page is kept


def page(rows, steps, notes=""):
    """Of rows of HEAD and of STEPS_HEAD."""
    models, wans = [list(dict.fromkeys(row[i] for row in rows)) for i in (0, 1)]
    left = [m for m in MODELS if m not in models] + [w for w in WANS if w not in wans]
    about = (
        "Simulated, rates of [page-rates.json](../../bench/page-rates.json); an "
        "hour. Every strategy uses the same samples, split by Dirichlet 0.5. lenet learns "
        "Fashion-MNIST, cnn (lenet with GroupNorm) CIFAR-10, gpt the State of the Union. Messages "
        "count 100 times. halos-4 has HALoS' rates and our delays of 40 ms. "
        "[page.csv](../../bench/results/page.csv) has times to a target (dpsgd, adpsgd: one site's "
        "model), WAN traffic and computing.")
    if left:
        about += f" Not run: {', '.join(left)}."
    lines = ["# The benchmark page", "", fill(lead(rows)), "",
             f"    bench/page.py tune --models {','.join(models)}",
             f"    bench/page.py run --models {','.join(models)} --wans {','.join(wans)} "
             "--write docs/results/page.md", "", fill(about), "", *tables(rows, steps), notes]
    return "\n".join(lines).rstrip() + "\n"


def report(name):
    """The table and its picture do without."""
    done = subprocess.run([ARGS.build / "longhaul", "report", ARGS.out / name, "--out",
                           ARGS.out / f"{name}.html"], capture_output=True, text=True)
    if done.returncode:
        print(f"page: no report of {name}: {done.stderr.strip()}", file=sys.stderr, flush=True)


def pages(models, wans, rates):
    rows, steps = [], []
    for model in models:
        own = rates.get(model, {})
        for wan in wans:
            done = compare(model, wan, f"{model}-{wan}", own, "--sync", ",".join(SYNCS))
            rows += rows_of(model, wan, done)
            folders = [ARGS.out / f"{model}-{wan}" / one["label"] for one in done["runs"]]
            (PICTURES / f"page-{model}-{wan}.svg").write_text(picture(folders))
            report(f"{model}-{wan}")
            print("\n".join(", ".join(row) for row in rows[-len(SYNCS):]), flush=True)
        if "halos-4" in wans:
            steps += sweep(model, own)
        if ARGS.write:
            notes = "".join(ARGS.write.read_text().partition(NOTES)[1:])
            ARGS.write.write_text(page(rows, steps, notes))
            write_csv("page", HEAD, rows)
            write_csv("page-steps", STEPS_HEAD, steps)


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
