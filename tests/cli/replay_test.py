#!/usr/bin/env python3
"""Records simulated runs and replays them: the same, damaged, cut off, of another job.

    LONGHAUL=build/release/longhaul tests/cli/replay_test.py
"""
import json
import pathlib
import random
import signal
import subprocess
import time
import unittest

from cli_test import JOB, LONGHAUL, PATIENCE_S, Case
from effort import light, nightly

FOUR = JOB + '[[site]]\nname = "rome"\nnodes = 2\nstep_ms = 14\n'
SITES = ("tokyo", "lima", "oslo", "rome", "rome/1")


class ReplayCase(Case):
    def record(self, *args, text=light(FOUR), out="run"):
        self.run_ok("simulate", self.write(text), "--out", out, "--quiet", *args)

    def rec(self, name="tokyo-0-1", out="run"):
        return self.folder / out / "recordings" / f"{name}.rec"

    def replay(self, site="tokyo", *args, code=0, out="run"):
        done = self.run_ok("replay", out, "--site", site, "--json", *args, code=code)
        return json.loads(done.stdout)


class Same(ReplayCase):
    @nightly
    def test_every_node_does_again_what_it_did(self):
        for mode in ("--record", "--record=full"):
            self.record(mode, "--force")
            for site in SITES:
                result = self.replay(site)
                self.assertTrue(result["same"])
                self.assertEqual(site, result["site"] + (f"/{result['node']}" if result["node"]
                                                         else ""))
                session, = result["sessions"]
                self.assertTrue(session["complete"])
                self.assertEqual(session["recomputed"], mode == "--record")
                self.assertGreater(session["actions"], 12 * 3)
        text = self.run_ok("replay", "run", "--site", "lima", "--recompute").stdout
        self.assertIn("lima-0-1.rec", text)
        self.assertIn("steps taken again", text)

    @nightly
    def test_recording_changes_nothing(self):
        self.record(out="plain")
        self.record("--record=full")
        one, two = (json.loads((self.folder / out / "summary.json").read_text())
                    for out in ("plain", "run"))
        self.assertEqual(one["params_hash"], two["params_hash"])
        self.assertEqual(one["wan_bytes"], two["wan_bytes"])
        self.assertFalse((self.folder / "plain/recordings").exists())

    @nightly
    def test_with_other_parts(self):
        text = FOUR.replace('kind = "direct"', 'kind = "hub"\n[roles]\nserver = "oslo"\n'
                            '[codec]\nkind = "int8"\nerror_feedback = true')
        self.record("--record", text=text)
        self.assertTrue(self.replay("rome/1")["same"])
        server = self.replay("oslo/1")  # it has no learner
        self.assertTrue(server["same"])
        self.assertFalse(server["sessions"][0]["recomputed"])

    @nightly
    def test_a_full_recording_needs_no_data(self):
        text = FOUR.replace('kind = "synthetic"', 'kind = "csv"\npath = "own.csv"\n'
                            'labels = ["no", "yes"]')
        rows = "\n".join(f"{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}" for i in range(200))
        data = pathlib.Path(self.write("a,b,answer\n" + rows + "\n", "own.csv"))
        self.record("--record=full", text=text)
        data.unlink()
        self.assertTrue(self.replay()["same"])
        self.bad("replay", "run", "--site", "tokyo", "--recompute", names=("own.csv",))

    def test_phantoms(self):
        text = FOUR.replace('kind = "logistic"', 'kind = "phantom"\nmbytes = 1')
        text = text.replace('kind = "synthetic"', 'kind = "none"')
        for mode in ("--record", "--record=full"):
            self.record(mode, "--force", text=text)
            self.assertTrue(self.replay("rome")["same"])


@nightly
class Sessions(ReplayCase):
    def test_a_resumed_run_is_recorded_from_where_it_goes_on(self):
        text = FOUR.replace("max_rounds = 12", "max_rounds = 100000")
        args = ["simulate", self.write(text), "--out", "run", "--quiet", "--record", "--set",
                "job.checkpoint_every=20"]
        process = subprocess.Popen([LONGHAUL, *args], cwd=self.folder, stderr=subprocess.PIPE)
        deadline = time.monotonic() + PATIENCE_S
        while len(list(self.folder.glob("run/checkpoints/*.checkpoint"))) < 2:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        killed, = self.replay("oslo")["sessions"]
        self.assertFalse(killed["complete"])
        self.assertGreater(killed["inputs"], 100)
        more = subprocess.Popen([LONGHAUL, *args, "--resume"], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        second = self.rec("oslo-0-2")
        while not second.exists() or second.stat().st_size < 20000:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)
        more.send_signal(signal.SIGINT)
        more.communicate(timeout=PATIENCE_S)
        first, resumed = self.replay("oslo")["sessions"]
        self.assertEqual(first, killed)
        self.assertTrue(resumed["same"])
        self.assertTrue(resumed["complete"])
        self.assertGreater(resumed["inputs"], 20)


class Damaged(ReplayCase):
    @nightly
    def test_a_flipped_bit_is_found_where_it_is(self):
        self.record("--record=full")
        whole = self.rec().read_bytes()
        inputs = self.replay()["sessions"][0]["inputs"]
        draw = random.Random(3)
        for _ in range(20):
            at = draw.randrange(12, len(whole))
            bytes_ = bytearray(whole)
            bytes_[at] ^= 1 << draw.randrange(8)
            self.rec().write_bytes(bytes_)
            done = self.longhaul("replay", "run", "--site", "tokyo", "--json")
            self.assertEqual(done.returncode, 2, f"byte {at}")
            if not done.stdout:  # before the first input: there is nothing to replay
                self.assertIn("byte", done.stderr)
                continue
            session, = json.loads(done.stdout)["sessions"]
            ending = session["ending"]
            self.assertEqual(ending["kind"], "damaged")
            self.assertLessEqual(ending["offset"], at)
            self.assertLess(at, ending["offset"] + ending["size"])
            self.assertLess(session["inputs"], inputs)
            self.assertIsNone(session["difference"])
        text = self.longhaul("replay", "run", "--site", "tokyo").stdout
        self.assertIn(f"bytes {ending['offset']} to", text)

    def test_a_cut_file_is_replayed_as_far_as_it_goes(self):
        self.record("--record=full")
        whole = self.rec().read_bytes()
        inputs = self.replay()["sessions"][0]["inputs"]
        self.rec().write_bytes(whole[:len(whole) * 2 // 3])
        session, = self.replay()["sessions"]
        self.assertEqual(session["ending"]["kind"], "torn")
        self.assertLess(session["inputs"], inputs)
        self.assertGreater(session["inputs"], inputs // 3)
        text = self.run_ok("replay", "run", "--site", "tokyo").stdout
        self.assertIn(f"at byte {session['ending']['offset']}", text)
        self.rec().write_bytes(whole[:5])
        self.bad("replay", "run", "--site", "tokyo", names=("tokyo-0-1.rec", "not a recording"))

    def test_a_foreign_file(self):
        self.record("--record")
        self.rec().write_text("[job]\nname = 'x'\n")
        self.bad("replay", "run", "--site", "tokyo", names=("tokyo-0-1.rec", "not a recording"))
        self.rec().write_bytes(self.rec("lima-0-1").read_bytes())
        self.bad("replay", "run", "--site", "tokyo", names=("tokyo-0-1.rec", "rank 1 (lima/0)"))


class Refused(ReplayCase):
    def test_another_job(self):
        self.record("--record")
        job = self.folder / "run/job.toml"
        text = job.read_text()
        self.assertIn("seed = 5", text)
        job.write_text(text.replace("seed = 5", "seed = 6"))
        self.bad("replay", "run", "--site", "tokyo", names=("[job] seed: was 5, is 6",))
        job.write_text(text.replace("steps = 3", "steps = 4"))
        self.bad("replay", "run", "--site", "tokyo", names=("[sync] steps: was 3, is 4",))

    def test_usage(self):
        self.record()
        self.bad("replay", "run", "--site", "tokyo", names=("tokyo-0-1.rec", "--record"))
        self.bad("replay", "run", "--site", "tokio", names=("'tokyo'",))
        self.bad("replay", "run", "--site", "rome/2", names=("nodes 0 to 1",))
        self.bad("replay", "run", "--site", "rome/x", names=("NAME/K",))
        self.bad("replay", "run", names=("--site",))
        self.bad("replay", "nowhere", "--site", "tokyo", names=("nowhere",))
        self.bad("simulate", "job.toml", "--record=some", names=("--record",))
        self.bad("simulate", "job.toml", "--record", "--dry-run", names=("--record",))
        self.assertIn("Example:", self.run_ok("replay", "--help").stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
