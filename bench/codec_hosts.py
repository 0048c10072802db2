#!/usr/bin/python3 -B
"""Codecs in the simulator and over sockets: the same bits, and the bytes between sites.

  bench/codec_hosts.py [--only TEXT]

Three sites train an MLP of 13.3 kB on synthetic data, 20 rounds of fedavg with 5 steps; each row is
run by `simulate` and by `launch`. Bytes are those of all rounds with headers, in the simulator.
Ends with 1 if two runs of a row differ in a bit of their model.
"""
import argparse
import pathlib
import sys
import tempfile

from common import result, run

JOB = """\
job = {name = "codec-hosts", seed = 1}
stop = {max_rounds = 20}
report = {every_rounds = 20}
model = {kind = "mlp"}
data = {kind = "synthetic", classes = 5, features = 20}
optimizer = {kind = "sgd", rate = 0.1}
sync = {kind = "fedavg", steps = 5}
wan = {mbps = 50, delay_ms = 10}
site = [{name = "a"}, {name = "b"}, {name = "c"}]
"""
SAME = 'overlay.down_codec="same"'
ROWS = [("fp32", "hub", []), ("sparse", "direct", []), ("fp16", "direct", []), ("bf16", "ring", []),
        ("bf16", "forest", []), ("int8", "direct", []), ("ternary", "hub", []), ("sign", "hub", []),
        ("sign", "gather", []), ("qsgd", "gather", []), ("demo", "gather", ["codec.ratio=0.1"]),
        ("dgc", "gather", ["codec.ratio=0.05"]), ("bi_sparse", "hub", [SAME]),
        ("random_k", "ring", ["codec.ratio=0.1"]), ("random_k", "forest", ["codec.ratio=0.1"]),
        ("q_top_k", "direct", []), ("top_k", "hub", [SAME])]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    longhaul, differ = args.build.resolve() / "longhaul", []
    print("| codec | overlay | settings | WAN kB | accuracy |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="longhaul-codec-hosts-") as folder:
        pathlib.Path(folder, "job.toml").write_text(JOB, encoding="utf-8")
        for codec, overlay, settings in ROWS:
            if args.only not in f"{codec} {overlay}":
                continue
            words = [w for s in (f"codec.kind={codec}", f"overlay.kind={overlay}", *settings)
                     for w in ("--set", s)]
            simulated, real = (
                result(run(longhaul, command, "job.toml", "--out", command, "--force", "--quiet",
                           "--json", *words, folder=folder), f"{command} {codec} {overlay}")
                for command in ("simulate", "launch"))
            if simulated["params_hash"] != real["params_hash"]:
                differ.append(f"{codec} over {overlay}")
            said = ", ".join(f"`{s.split('.', 1)[1].replace('=', ' = ')}`" for s in settings)
            print(f"| `{codec}` | {overlay} | {said} | {simulated['wan_bytes'] / 1e3:.0f} |"
                  f" {100 * simulated['final_accuracy']:.1f} % |", flush=True)
    if differ:
        sys.exit(f"other bits over sockets than in the simulator: {'; '.join(differ)}")


if __name__ == "__main__":
    main()
