#!/usr/bin/env python3
"""--tensorboard: event files, read back here record by record, checksums included.

    LONGHAUL=build/release/longhaul tests/cli/tensorboard_test.py
"""
import json
import struct
import time
import unittest

from cli_test import PATIENCE_S
from effort import light
from launch_test import SITES, Case, job_of


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of a protocol buffer: numbers, and bytes where a length is given."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value = data[at:at + size]
            at += size
            if kind != 2:
                (value,) = struct.unpack({1: "<d", 5: "<f"}[kind], value)
            yield key >> 3, value


def events(path):
    data = path.read_bytes()
    while data:
        head, (size, head_crc) = data[:8], struct.unpack("<QI", data[:12])
        assert masked(head) == head_crc
        event, (event_crc,) = data[12:12 + size], struct.unpack("<I", data[12 + size:16 + size])
        assert masked(event) == event_crc
        data = data[16 + size:]
        yield dict(fields(event))


class TensorBoard(Case):
    def test_checksum_of_the_standard(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)  # RFC 3720, B.4

    def test_the_figures_of_metrics_are_there(self):
        self.run_ok("simulate", "job.toml", "--out", "run", "--tensorboard")
        (path,) = (self.folder / "run/tensorboard").glob("events.out.tfevents.*")
        first, *rest = events(path)
        self.assertEqual(first[3], b"brain.Event:2")
        found = [(event[2], event[1] - first[1], tag.decode(), value)
                 for event in rest for number, part in fields(event[5]) if number == 1
                 for tag, value in [(dict(fields(part))[1], dict(fields(part))[2])]]
        text = (self.folder / "run/metrics.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        expected = [(line["round"], line["time_s"],
                     f"{line['kind']}/{line['site'] if name == 'value' else name}", value)
                    for line in lines for name, value in line["values"].items()]
        self.assertEqual(len(found), len(expected))
        self.assertIn("score/accuracy", {tag for _, _, tag, _ in found})
        self.assertIn("train_loss/lima", {tag for _, _, tag, _ in found})
        for one, other in zip(sorted(found), sorted(expected)):
            self.assertEqual((one[0], one[2]), (other[0], other[2]))
            self.assertAlmostEqual(one[1], other[1], places=4)
            self.assertAlmostEqual(one[3], other[3], delta=1e-6 * max(1, abs(other[3])))

    def test_what_a_resumed_run_repeats_is_void(self):
        """By TensorBoard's rule for a session that starts: older events of its step and later."""
        self.write(light(job_of(SITES)))
        args = ["simulate", "job.toml", "--out", "run", "--tensorboard", "--set"]
        run = self.start(*args, "stop.max_rounds=100000")
        folder = self.folder / "run/tensorboard"
        end = time.monotonic() + PATIENCE_S
        while len(list((self.folder / "run/checkpoints").glob("*"))) < 2:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        run.kill()
        run.wait()
        newest = max((self.folder / "run/checkpoints").glob("*.checkpoint"))
        self.run_ok(*args, f"stop.max_rounds={int(newest.stem) + 20}", "--resume")
        valid = []
        for path in sorted(folder.glob("*"), key=lambda path: path.stat().st_mtime_ns):
            for event in events(path):
                if 7 in event:
                    self.assertEqual(event[7], b"\x08\x01")
                    valid = [one for one in valid if one[0] < event[2]]
                if 5 in event:
                    valid += [(event[2], dict(fields(part))[1].decode())
                              for number, part in fields(event[5]) if number == 1]
        lines = map(json.loads, (self.folder / "run/metrics.jsonl").read_text().splitlines())
        self.assertEqual(sorted(valid), sorted(
            (line["round"], f"{line['kind']}/{line['site'] if name == 'value' else name}")
            for line in lines for name in line["values"]))

    def test_without_it_there_is_none(self):
        self.write(light(job_of(SITES)))
        self.run_ok("simulate", "job.toml", "--out", "run")
        self.assertFalse((self.folder / "run/tensorboard").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
