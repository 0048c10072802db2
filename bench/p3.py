#!/usr/bin/python3 -B
"""Layers in order of their depth against the order in which they are done, simulated.

  bench/p3.py [--build build/release] [--rounds 12] [--write docs/results/p3.md]

A phantom of 12 equal layers, steps of 1 s of which the backward pass takes two thirds, four workers
whose ports carry the model in `transfer` steps, a server whose port is no limit. Figure: seconds a
round, without the first two, over the step.
"""
import argparse
import json
import pathlib
import tempfile

from common import result, run

LAYERS, MBYTES = 12, 48
JOB = """\
[job]
name = "p3"
checkpoint_every = 0
[stop]
max_rounds = {rounds}
[report]
every_rounds = 1000
[model]
kind = "phantom"
shapes = {shapes}
[data]
kind = "none"
[sync]
{sync}
[overlay]
kind = "{overlay}"
{server}
[wan]
model = "fair"
slow_start = false
delay_ms = {delay}
"""
WAYS = {
    "bsp": 'kind = "bsp"',
    "p3, fifo": 'kind = "p3"\norder = "fifo"',
    "p3": 'kind = "p3"',
}
OVERLAYS = ("hub", "tsengine", "forest", "direct", "ring")
TRANSFERS = (0.25, 0.5, 1, 2, 4)


def job(sync, overlay, transfer, delay, rounds):
    mbps = MBYTES * 8 / transfer
    shapes = [str(MBYTES * 250000 // LAYERS)] * LAYERS
    served = overlay in ("hub", "tsengine")
    text = JOB.format(rounds=rounds, shapes=json.dumps(shapes), sync=sync, overlay=overlay,
                      server='[roles]\nserver = "middle"' if served else "", delay=delay)
    for i in range(4):
        text += f'[[site]]\nname = "s{i}"\nup_mbps = {mbps}\ndown_mbps = {mbps}\nstep_ms = 1000\n'
    if served:
        text += '[[site]]\nname = "middle"\nroles = ["server"]\nup_mbps = 1e6\ndown_mbps = 1e6\n'
    return text


def steps_a_round(program, name, text, rounds):
    """Of the rounds after the first two, by a second run that ends with these."""
    def time_of(count):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "job.toml"
            path.write_text(text.replace(f"max_rounds = {rounds}", f"max_rounds = {count}"))
            return result(run(program, "simulate", path, "--json", "--quiet", "--out",
                              pathlib.Path(folder) / "run", folder=folder), name)["time_s"]
    return (time_of(rounds) - time_of(2)) / (rounds - 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write")
    options = parser.parse_args()
    program = pathlib.Path(options.build).resolve() / "longhaul"

    def row(name, cells):
        return f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |"

    lines = ["| hub, transfer of the model in steps = | " + " | ".join(map(str, TRANSFERS)) + " |",
             "|---" * (len(TRANSFERS) + 1) + "|"]
    for name, sync in WAYS.items():
        lines.append(row(name, [steps_a_round(program, f"{name}, {transfer}",
                                              job(sync, "hub", transfer, 0, options.rounds),
                                              options.rounds) for transfer in TRANSFERS]))
        print(lines[-1], flush=True)
    lines += ["", "| transfer of one step, 30 ms one way | " + " | ".join(OVERLAYS) + " |",
              "|---" * (len(OVERLAYS) + 1) + "|"]
    for name, sync in WAYS.items():
        lines.append(row(name, [steps_a_round(program, f"{name}, {overlay}",
                                              job(sync, overlay, 1, 30, options.rounds),
                                              options.rounds) for overlay in OVERLAYS]))
        print(lines[-1], flush=True)

    if options.write:
        path = pathlib.Path(options.write)
        head = path.read_text().split("<!-- table -->")[0] if path.exists() else ""
        tail = path.read_text().split("<!-- end -->")[-1] if path.exists() else ""
        path.write_text(f"{head}<!-- table -->\n\n" + "\n".join(lines) + f"\n<!-- end -->{tail}")


if __name__ == "__main__":
    main()
