#!/usr/bin/python3 -B
"""Speed of every codec on one core as a table: docs/results/codecs.md.

  cmake --build --preset bench --target codec_bench
  bench/codec_speed.py [--build build/release] [--repetitions 9]

GB/s of fp32 values read (encode) or written (decode), and that over memcpy's in the same run; the
median of the repetitions, which go around all codecs so that a busy moment hits one of each.
"""
import argparse
import json
import pathlib
import statistics
import subprocess


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--repetitions", type=int, default=9)
    args = parser.parse_args()
    rates, sizes = {}, {}
    for _ in range(args.repetitions):
        done = subprocess.run([args.build / "bench/codec_bench", "--benchmark_format=json",
                               "--benchmark_min_time=0.02"], capture_output=True, text=True,
                              check=True, timeout=600)
        for row in json.loads(done.stdout)["benchmarks"]:
            rates.setdefault(row["name"], []).append(row["bytes_per_second"] / 1e9)
            if "bytes_a_value" in row:
                sizes[row["name"]] = row["bytes_a_value"]
    # Of each run by itself: what else the machine does changes from run to run.
    def cell(name):
        if name not in rates:
            return "-"
        ratio = statistics.median(r / m for r, m in zip(rates[name], rates["memcpy"]))
        return f"{statistics.median(rates[name]):.2f} | {ratio:.3f}"

    print(f"memcpy: {statistics.median(rates['memcpy']):.1f} GB/s\n")
    print("| codec | bytes a value | encode GB/s | / memcpy | decode GB/s | / memcpy | "
          "encode with feedback GB/s | / memcpy |\n|---|---|---|---|---|---|---|---|")
    for name in (n.split("/")[1] for n in rates if n.startswith("encode/") and n.count("/") == 1):
        feedback = cell(f"encode/feedback/{name}")
        print(f"| `{name}` | {sizes[f'encode/{name}']:.3g} | {cell(f'encode/{name}')} | "
              f"{cell(f'decode/{name}')} | {feedback if feedback != '-' else '- | -'} |")


if __name__ == "__main__":
    main()
