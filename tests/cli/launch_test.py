#!/usr/bin/env python3
"""Real processes over sockets: launch and site as a user runs them, and what befalls them.

    LONGHAUL=build/release/longhaul tests/cli/launch_test.py
    LONGHAUL_ALL=1 ...     every strategy with every overlay, every site lost in turn
"""
import atexit
import contextlib
import functools
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import cli_test
from cli_test import LONGHAUL, PATIENCE_S
from effort import GATE, nightly
from ports import free_addresses, free_ports

ALL = bool(os.environ.get("LONGHAUL_ALL"))

JOB = """\
[job]
name = "small"
seed = 5
checkpoint_every = 20
[stop]
max_rounds = 40
[report]
every_rounds = 10
[model]
kind = "logistic"
[data]
kind = "synthetic"
batch = 8
[optimizer]
kind = "sgd"
rate = 0.1
momentum = 0.9
[sync]
kind = "fedavg"
[for.fedavg.sync]
steps = 3
[for.diloco.sync]
steps = 3
[overlay]
kind = "hub"
[net]
silence_s = 20
meet_s = 120
"""
SITES = ["tokyo", "lima", "oslo"]
SYNCS, OVERLAYS = ["bsp", "fedavg", "diloco"], ["direct", "hub", "ring"]


def job_of(sites):
    return JOB + "".join(f'[[site]]\nname = "{name}"\nstep_ms = {10 + 5 * i}\n'
                         for i, name in enumerate(sites))


@functools.lru_cache(maxsize=1)
def test_keys():
    """A folder of keys for all sites of the tests, made once."""
    folder = tempfile.mkdtemp(prefix="longhaul-test-keys-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for words in (["init", folder], ["issue", *SITES, "bonn", "cairo", "paris", "--keys", folder]):
        subprocess.run([LONGHAUL, "keys", *words], check=True, stdout=subprocess.DEVNULL)
    return folder


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Case(cli_test.Case):
    def setUp(self):
        super().setUp()
        self.write(job_of(SITES))
        shutil.copytree(test_keys(), self.folder / "keys")  # where [net] keys looks

    def start(self, *args, env=None, inside=()):
        """A process whose output goes to the file `log` of the returned object. `inside`: what
        starts it in a network namespace."""
        log = open(self.folder / f"log-{time.monotonic_ns()}", "w+")
        process = subprocess.Popen([*inside, LONGHAUL, *map(str, args)], cwd=self.folder,
                                   stdout=log, stderr=subprocess.STDOUT,
                                   env={**os.environ, **(env or {})})
        process.log = log
        self.addCleanup(log.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def said(process):
        process.log.seek(0)
        return process.log.read()

    def end(self, process, timeout=PATIENCE_S):
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.fail("it hangs:\n" + self.said(process)[-3000:])
        return code, self.said(process)

    def all_end(self, launch, sites):
        """Of a launch, and of its sites (name -> pid) first: its code, and what it said."""
        begin = time.monotonic()
        while any(map(alive, sites.values())):
            self.assertLess(time.monotonic() - begin, PATIENCE_S,
                            "hangs:\n" + self.said(launch)[-3000:])
            time.sleep(0.05)
        return self.end(launch)

    def says(self, *args, code=0):
        got, text = self.end(self.start(*args))
        self.assertEqual(got, code, text)
        return text

    def until(self, process, text, timeout=PATIENCE_S):
        end = time.monotonic() + timeout
        while text not in self.said(process):
            self.assertIsNone(process.poll(), self.said(process))
            if time.monotonic() > end:
                self.fail(f"no '{text}' in:\n" + self.said(process)[-3000:])
            time.sleep(0.05)

    def until_checkpoints(self, launch, names, folder="runs/small"):
        """Until each of these nodes has a checkpoint: the run is on, and was `checkpoint_every`
        rounds from its beginning a moment ago, however quick the machine is."""
        end = time.monotonic() + PATIENCE_S
        folders = [self.folder / folder / name / "checkpoints" for name in names]
        while not all(folder.exists() and any(folder.glob("*.checkpoint")) for folder in folders):
            self.assertIsNone(launch.poll(), self.said(launch))
            self.assertLess(time.monotonic(), end, self.said(launch)[-3000:])
            time.sleep(0.005)

    def until_gone_on(self, launch, names, folder="runs/small"):
        """Until each of these nodes has written a checkpoint after this call."""
        newest = {name: self.newest(f"{folder}/{name}") for name in names}
        end = time.monotonic() + PATIENCE_S
        while any(self.newest(f"{folder}/{name}") <= newest[name] for name in names):
            self.assertIsNone(launch.poll(), self.said(launch))
            self.assertLess(time.monotonic(), end, self.said(launch)[-3000:])
            time.sleep(0.02)

    def newest(self, node):
        """The round of the newest checkpoint in this folder."""
        return max((int(path.stem) for path in
                    (self.folder / node / "checkpoints").glob("*.checkpoint")), default=0)

    def until_listens(self, process, address):
        """Until a process takes connections at HOST:PORT; this one says nothing."""
        host, port = address.rsplit(":", 1)
        end = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), PATIENCE_S).close()
                return
            self.assertIsNone(process.poll(), self.said(process))
            self.assertLess(time.monotonic(), end, self.said(process)[-3000:])
            time.sleep(0.05)

    def sites_of(self, launch):
        """name -> pid of the processes that a launch has started."""
        pids = {}
        for pid in subprocess.run(["pgrep", "-P", str(launch.pid)], capture_output=True,
                                  text=True).stdout.split():
            with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"--site" in words:
                    pids[words[words.index(b"--site") + 1].decode()] = int(pid)
        return pids

    def summary(self, run="runs/small"):
        return json.loads((self.folder / run / "summary.json").read_text())

    def simulated_hash(self, *sets):
        done = self.run_ok("simulate", "job.toml", "--json", "--quiet", "--force", *sets)
        return json.loads(done.stdout)["params_hash"]


LONG = ["--set", "stop.max_rounds=3000", "--set", "report.every_rounds=100"]
PACED = ["--set", "net.pace=true", "--set", "site.*.step_ms=1"]  # 3 ms a round, at least
# So that 600 rounds last for seconds, in which a signal meets them.
SLOWER = ["--set", "net.pace=true", "--set", "site.*.step_ms=4"]
# A pause of the machine does not make a live site a lost one in less than `silence_s`: 20 s where
# none is lost on purpose; where one is, the others wait for it.
LOSE = ["--set", "net.silence_s=6"]
GONE = ["--max-restarts", "0"]  # one that is killed stays away


class Same(Case):
    def test_launch_gives_the_bits_of_simulate(self):
        codecs = ["fp32", "fp16", "int8"]
        combinations = list(itertools.product(SYNCS, OVERLAYS, codecs, [2, 3, 4, 7]))
        if not ALL:  # the combinations over sockets in one process are in the conformance tests
            combinations = [("bsp", "ring", "fp16", 3), ("fedavg", "hub", "int8", 4),
                            ("diloco", "direct", "fp32", 2), ("ds_sync", "direct", "fp32", 7),
                            ("selmcast", "direct", "fp16", 4), ("gadmm", "direct", "fp32", 4),
                            ("lag", "hub", "fp32", 3)]
        if GATE:
            combinations = [("fedavg", "hub", "int8", 3)]
        for sync, overlay, codec, count in combinations:
            names = ["tokyo", "lima", "oslo", "cairo", "quito", "perth", "turin"]
            self.write(job_of(names[:count]))
            sets = ["--set", f"sync.kind={sync}", "--set", f"overlay.kind={overlay}", "--set",
                    f"codec.kind={codec}", "--set", "stop.max_rounds=12"]
            with self.subTest(sync=sync, overlay=overlay, codec=codec, sites=count):
                check = subprocess.run([LONGHAUL, "explain", "job.toml", *sets], cwd=self.folder,
                                       capture_output=True, text=True)
                if check.returncode == 2 and ("ring" in check.stderr or "codec" in check.stderr):
                    continue  # not a legal combination
                expected = self.simulated_hash(*sets, "--out", "runs/simulated")
                self.says("launch", "job.toml", "--quiet", "--force", *sets)
                self.assertEqual(self.summary()["params_hash"], expected)
                if ALL or sync == "bsp":
                    said = self.says("launch", "job.toml", "--quiet", "--force", "--insecure",
                                     *sets)
                    self.assertIn("WARNING: --insecure", said)
                    self.assertEqual(self.summary()["params_hash"], expected, "in plain text")
                if ALL:
                    print(f"{sync} {overlay} {codec} {count} sites: {expected}", flush=True)

    @nightly
    def test_gaia_in_lock_step_gives_the_bits_of_simulate(self):
        cases = [("direct", "fp16"), ("gaia_hubs", "fp32"), ("peer_hubs", "int8")]
        for exchange, codec in cases if ALL else cases[:1]:
            self.write(job_of(["tokyo", "lima", "oslo", "cairo", "quito"]))
            sets = [word for key in ("sync.kind=gaia", "sync.staleness=0", "sync.significance=0.1",
                                     f"sync.exchange={exchange}", f"codec.kind={codec}",
                                     "overlay.kind=direct", "stop.max_rounds=12")
                    for word in ("--set", key)]
            with self.subTest(exchange=exchange, codec=codec):
                expected = self.simulated_hash(*sets, "--out", "runs/simulated")
                self.says("launch", "job.toml", "--quiet", "--force", *sets)
                self.assertEqual(self.summary()["params_hash"], expected)

    @nightly
    def test_all_processes_of_a_launch_are_on_the_network_that_it_names(self):
        self.says("launch", "job.toml", "--quiet", "--wan", "lan")
        self.assertEqual(self.summary()["params_hash"],
                         self.simulated_hash("--wan", "lan", "--out", "runs/simulated"))
        for folder in ("small", "small/tokyo", "small/oslo"):
            self.assertIn('preset = "lan"', (self.folder / f"runs/{folder}/job.toml").read_text())

    @nightly
    def test_two_nodes_a_site_parallel_streams_and_a_server_give_the_same_bits(self):
        self.write(job_of(SITES).replace('name = "lima"', 'name = "lima"\nnodes = 2') +
                   '[roles]\nserver = "oslo"\n')
        self.says("launch", "job.toml", "--quiet", "--set", "net.streams=3")
        self.assertEqual(self.summary()["params_hash"], self.simulated_hash(
            "--set", "net.streams=3", "--out", "runs/simulated"))
        self.assertTrue((self.folder / "runs/small/lima-1/summary.json").exists())

    @nightly
    def test_a_server_without_a_learner_has_its_model_scored_and_ends_the_run(self):
        self.write(job_of(SITES) + '[roles]\nserver = "oslo"\n')
        for sync in ("asp", "ssp", "fedasync", "easgd"):
            with self.subTest(sync=sync):
                self.says("launch", "job.toml", "--quiet", "--force", *LONG,
                          "--set", f"sync.kind={sync}", "--set", "stop.target_accuracy=0.4",
                          "--set", "report.every_rounds=1")
                self.assertEqual(self.summary()["stop_reason"], "target")
                self.assertGreater(self.summary()["time_to_target_s"], 0)
                self.assertGreaterEqual(self.summary()["final_accuracy"], 0.3)


@nightly
class Paced(Case):
    """[net] pace: steps that take what the simulator has them take."""

    def test_steps_take_as_long_as_in_the_simulator(self):
        sets = ["--set", "site.*.step_ms=40", "--set", "site.*.jitter=0.5", "--set",
                "stop.max_rounds=6", "--set", "net.pace=true"]
        simulated = json.loads(self.run_ok("simulate", "job.toml", "--json", "--quiet", "--out",
                                           "runs/simulated", *sets).stdout)
        text = self.says("launch", "job.toml", *sets)
        real = self.summary()
        self.assertEqual(real["params_hash"], simulated["params_hash"])
        self.assertEqual(real["paced_steps"], 3 * 6 * 3)
        self.assertEqual(real["overrun_share"], real["overruns"] / real["paced_steps"])
        self.assertEqual(real["void_for_comparison"], real["overrun_share"] > 0.01)
        self.assertIn(f"{real['overruns']} of 54 steps took longer", text)
        computing = [run["compute_utilisation"] * run["time_s"] for run in (simulated, real)]
        self.assertGreater(computing[0], 0.6)
        self.assertGreater(computing[1], 0.95 * computing[0])
        if ALL and real["overruns"] == 0:  # how late a step ends depends on the machine
            self.assertLess(computing[1], 1.05 * computing[0])
        self.assertNotIn("overruns", simulated)

    def test_also_while_step_times_change(self):
        sets = [word for key in (
            "site.*.step_ms=20", "site.*.step_at_s=[0,0.1]", "site.*.step_values=[20,80]",
            "hetero.drift=0.05", "hetero.drift_every_s=0.2", "site.*.jitter=0", "stop.max_rounds=6",
            "net.pace=true") for word in ("--set", key)]
        simulated = json.loads(self.run_ok("simulate", "job.toml", "--json", "--quiet", "--out",
                                           "runs/simulated", *sets).stdout)
        self.says("launch", "job.toml", *sets)
        real = self.summary()
        self.assertEqual(real["params_hash"], simulated["params_hash"])
        computing = [run["compute_utilisation"] * run["time_s"] for run in (simulated, real)]
        for found in computing:  # 18 steps, of which 5 or so begin in the first 0.1 s
            self.assertGreater(found, 18 * 0.04)
        if ALL and real["overruns"] == 0:
            self.assertAlmostEqual(computing[1], computing[0], delta=0.15 * computing[0])

    def test_a_run_whose_steps_take_longer_is_void(self):
        text = self.says("launch", "job.toml", "--set", "site.*.step_ms=0.0001", "--set",
                         "net.pace=true", "--set", "stop.max_rounds=5")
        self.assertIn("(100.00 %): VOID for comparison with it", text)
        self.assertTrue(self.summary()["void_for_comparison"])
        self.assertEqual(self.summary()["overrun_share"], 1)

    def test_ctrl_c_does_not_wait_for_a_step(self):
        launch = self.start("launch", "job.toml", "--set", "site.*.step_ms=1000000", "--set",
                            "net.pace=true")
        folders = [self.folder / f"runs/small/{name}/metrics.jsonl" for name in SITES]
        end = time.monotonic() + PATIENCE_S
        while not all(file.exists() for file in folders):
            self.assertLess(time.monotonic(), end, self.said(launch))
            time.sleep(0.05)
        time.sleep(1)  # the first step is done, and held back
        launch.send_signal(signal.SIGINT)
        code, text = self.end(launch)  # in less than a step, of 1000 s
        self.assertEqual(code, 130, text)
        for file in folders:
            self.assertTrue(list((file.parent / "checkpoints").glob("*.checkpoint")), text)


class Lost(Case):
    """A site that is killed or stopped: the others go on or end with code 3, and say who it was."""

    def lose(self, number, victim, *sets):
        shutil.rmtree(self.folder / "runs", ignore_errors=True)  # checkpoints of the run before
        rounds = 60 if GATE else 3000
        launch = self.start("launch", "job.toml", *LONG, *PACED, *LOSE, *GONE, "--set",
                            f"stop.max_rounds={rounds}", *sets)
        self.until_checkpoints(launch, SITES)
        sites = self.sites_of(launch)
        self.assertEqual(sorted(sites), sorted(SITES))
        begin = time.monotonic()
        os.kill(sites[victim], number)
        others = [pid for name, pid in sites.items() if name != victim]
        self.until(launch, f"({victim})")
        noticed = time.monotonic() - begin
        if ALL:
            self.assertLess(noticed, 6 + 8.5, self.said(launch))
        while any(map(alive, others)):
            self.assertLess(time.monotonic() - begin, PATIENCE_S,
                            "hangs:\n" + self.said(launch)[-3000:])
            time.sleep(0.1)
        if number == signal.SIGSTOP:
            with contextlib.suppress(ProcessLookupError):  # launch kills what is left stopped
                os.kill(sites[victim], signal.SIGKILL)
        code, text = self.end(launch)
        self.assertFalse(any(map(alive, sites.values())), "a process is left")
        self.assertIn(code, (0, 3), text)
        if code == 0:
            done = [json.loads((self.folder / f"runs/small/{name}/summary.json").read_text())
                    for name in SITES if name != victim]
            self.assertEqual({one["rounds"] for one in done}, {rounds})
            self.assertEqual(len({one["params_hash"] for one in done}), 1)
        return code, noticed

    def test_each_site_killed_or_stopped(self):
        cases = list(itertools.product(SYNCS, OVERLAYS, SITES, [signal.SIGKILL, signal.SIGSTOP]))
        if not ALL:
            cases = [("bsp", "ring", "oslo", signal.SIGKILL),
                     ("fedavg", "hub", "tokyo", signal.SIGSTOP)][:1 if GATE else 2]
        # Fewer rounds than in nightly, and each takes longer.
        slower = ["--set", "site.*.step_ms=100", "--set", "job.checkpoint_every=5"] if GATE else []
        for sync, overlay, victim, number in cases:
            with self.subTest(sync=sync, overlay=overlay, victim=victim, number=number):
                code, noticed = self.lose(number, victim, "--set", f"sync.kind={sync}", "--set",
                                          f"overlay.kind={overlay}", *slower)
                if ALL:
                    print(f"{sync} {overlay} {victim} {number.name}: code {code}, named after "
                          f"{noticed:.1f} s", flush=True)

    @nightly
    def test_one_of_two_is_no_majority_and_ends_with_code_3(self):
        self.write(job_of(SITES[:2]))
        launch = self.start("launch", "job.toml", *LONG, *PACED, *LOSE, *GONE, "--set",
                            "net.majority_wait_s=5")
        self.until_checkpoints(launch, SITES[:2])
        os.kill(self.sites_of(launch)["lima"], signal.SIGKILL)
        code, text = self.end(launch)
        self.assertEqual(code, 3, text)
        self.assertIn("lost rank 1 (lima) for 5 s; agreement needs 2 of the 2 members", text)

    def test_a_launch_that_is_told_to_end_ends_its_sites(self):
        launch = self.start("launch", "job.toml", *LONG, *SLOWER)
        self.until_checkpoints(launch, SITES)
        sites = self.sites_of(launch)
        launch.terminate()
        code, text = self.all_end(launch, sites)
        self.assertEqual(code, 130, text)
        self.assertIn("--resume", text)
        self.assertEqual(self.summary()["stop_reason"], "interrupted")
        self.assertLess(self.summary()["rounds"], 3000)

    @nightly
    def test_a_killed_launch_leaves_no_process(self):
        launch = self.start("launch", "job.toml", *LONG, *PACED)
        self.until_checkpoints(launch, SITES)
        sites = self.sites_of(launch)
        self.assertEqual(len(sites), 3)
        # Each site is a copy of launch: a lock that another thread holds would stay held in it.
        self.assertEqual(len(os.listdir(f"/proc/{launch.pid}/task")), 1)
        launch.kill()
        end = time.monotonic() + PATIENCE_S
        while any(map(alive, sites.values())):
            self.assertLess(time.monotonic(), end, "a process is left")
            time.sleep(0.05)


@nightly
class Resumed(Case):
    def setUp(self):
        super().setUp()
        self.sets = ["--set", "stop.max_rounds=600", "--set", "report.every_rounds=50", *SLOWER]
        self.expected = self.simulated_hash(*self.sets, "--out", "runs/simulated")

    def interrupted(self, stop, code):
        launch = self.start("launch", "job.toml", *self.sets)
        self.until_checkpoints(launch, SITES)
        stop(launch)
        self.assertEqual(launch.wait(PATIENCE_S), code, self.said(launch))
        return self.said(launch)

    def resumed(self):
        text = self.says("launch", "job.toml", "--resume", *self.sets)
        self.assertIn("resumes from checkpoint", text)
        self.assertEqual(self.summary()["params_hash"], self.expected)
        self.assertEqual(self.summary()["rounds"], 600)
        first = self.summary()
        self.assertGreater(first["time_s"], 0.01)
        self.assertGreater(first["compute_utilisation"], 0)
        text = self.says("launch", "job.toml", "--resume", *self.sets)  # nothing is left to do
        self.assertNotIn("resumes from", text)
        self.assertIn("600 rounds", text)
        self.assertEqual(self.summary(), first)

    def test_after_ctrl_c(self):
        text = self.interrupted(lambda launch: launch.send_signal(signal.SIGINT), 130)
        self.assertIn("--resume", text)
        self.assertLess(self.summary()["rounds"], 600)
        self.resumed()

    def test_after_kill_9_of_everything(self):
        self.interrupted(lambda launch: launch.kill(), -signal.SIGKILL)
        self.resumed()


class Cuts:
    """Cuts connections after every `every` bytes that pass, `most` times: however quick the run
    is, it cannot end before its bytes have passed."""

    def __init__(self, every, most):
        self.every, self.left, self.passed, self.lock = every, most, 0, threading.Lock()

    def count(self, proxy, size):
        with self.lock:
            self.passed += size
            if self.left and self.passed >= self.every and proxy.cut():
                self.passed = 0
                self.left -= 1


class Proxy:
    """Passes bytes on between the nodes; `cuts` says when its connections are cut."""

    def __init__(self, target, cuts):
        self.target, self.cuts, self.pairs, self.lock = target, cuts, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for one in (near, far):  # what is small goes on at once, as at the nodes
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.pairs.append((near, far))
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    def copy(self, a, b):
        try:
            while data := a.recv(random.choice([50, 500, 5000])):
                b.sendall(data)
                self.cuts.count(self, len(data))
        except OSError:
            pass
        for one in (a, b):
            one.close()

    def cut(self):
        """Whether a connection was there to be cut."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        done = 0
        for one in itertools.chain(*pairs):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
                done += 1
        return done > 0


@nightly
class Cut(Case):
    def test_fifty_connections_cut_in_the_middle_of_frames_change_no_bit(self):
        sets = ["--set", "stop.max_rounds=400", "--set", "sync.kind=bsp", "--set",
                "overlay.kind=direct", "--set", "report.every_rounds=200", "--set",
                "net.streams=2"]
        expected = self.simulated_hash(*sets, "--out", "runs/simulated")
        # A third of the run's bytes is left for cuts that find their connection closed already.
        cuts = Cuts(self.summary("runs/simulated")["wan_bytes"] // 75, 50)
        ports = free_ports(3)
        proxies = [Proxy(port, cuts) for port in ports]
        for proxy in proxies:
            self.addCleanup(proxy.listener.close)
        sites = []
        for i, name in enumerate(SITES):
            addresses = [f"127.0.0.1:{ports[j] if i == j else proxies[j].port}" for j in range(3)]
            sites.append(self.start("site", "job.toml", "--site", name, "--addresses",
                                    ",".join(addresses), "--out", name, *sets))
        for name, site in zip(SITES, sites):
            code, text = self.end(site)
            self.assertEqual(code, 0, text)
            self.assertEqual(self.summary(name)["params_hash"], expected)
        self.assertEqual(cuts.left, 0)


@nightly
class Recorded(Case):
    def test_four_sites_are_replayed_and_a_flipped_bit_is_located(self):
        self.write(job_of(["tokyo", "lima", "oslo", "cairo"]))
        self.says("launch", "job.toml", "--quiet", "--record=full")
        for name in ["tokyo", "lima", "oslo", "cairo"]:
            text = self.says("replay", "runs/small", "--site", name)
            self.assertIn("answered by the same", text)
        file = self.folder / "runs/small/lima/recordings/lima-0-1.rec"
        data = bytearray(file.read_bytes())
        at = len(data) // 2
        data[at] ^= 4
        file.write_bytes(data)
        text = self.says("replay", "runs/small", "--site", "lima", code=2)
        found = re.search(r"bytes (\d+)(?: to | ?\.\. ?|-)(\d+)", text)
        self.assertIsNotNone(found, text)
        self.assertLessEqual(int(found.group(1)), at)
        self.assertLess(at, int(found.group(2)) + 1)

    def test_a_resumed_run_is_recorded_in_two_sessions(self):
        sets = ["--set", "stop.max_rounds=600", "--set", "report.every_rounds=20", *SLOWER]
        launch = self.start("launch", "job.toml", "--record", *sets)
        self.until_checkpoints(launch, SITES)
        launch.send_signal(signal.SIGINT)
        self.assertEqual(launch.wait(PATIENCE_S), 130, self.said(launch))
        self.says("launch", "job.toml", "--resume", "--quiet", "--record", *sets)
        text = self.says("replay", "runs/small", "--site", "oslo", "--json")
        result = json.loads(text[text.index("{"):])  # behind the progress
        self.assertTrue(result["same"])
        self.assertEqual(len(result["sessions"]), 2)


class Alone(Case):
    """`longhaul site` and what it says when something is wrong."""

    def site(self, *args, env=None):
        return self.start("site", "job.toml", *args, env=env)

    def test_bad_usage_is_one_line_and_code_2(self):
        def with_address(address):
            return [word for name in SITES for word in ("--set", f"site.{name}.address={address}")]
        for args, expected in [
                ([], "--site"),
                (["--site", "limaa"], "did you mean 'lima'?"),
                (["--site", "lima"], "[site.tokyo] address: missing"),
                (["--site", "lima", "--keys", "none", *with_address("10.0.0.1:7000")],
                 "none/ca.crt: there is no such file"),
                (["--site", "lima", "--keys", "keys", "--insecure",
                  *with_address("10.0.0.1:7000")], "--insecure"),
                (["--site", "lima", *with_address("nowhere")], "is no address"),
                (["--site", "lima", "--addresses", "127.0.0.1:7000"], "1 given"),
                (["--site", "lima", "--base-port", "65535"], "--base-port")]:
            code, text = self.end(self.site(*args))
            self.assertEqual(code, 2, text)
            self.assertIn(expected, text)
            self.assertEqual(len(text.strip().splitlines()), 1, text)

    def test_a_launch_that_the_sites_refuse_leaves_no_folder(self):
        for words in [("data.kind=mnist", "data.path=none"),
                      ("model.kind=script", "model.path=none.pt")]:
            sets = [word for pair in words for word in ("--set", pair)]
            code, text = self.end(self.start("launch", "job.toml", "--out", "refused", *sets))
            self.assertEqual(code, 2, text)
            self.assertIn("none", text)
            self.assertFalse((self.folder / "refused").exists(), text)

    @nightly
    def test_who_is_missing_is_named(self):
        process = self.site("--site", "tokyo", "--addresses", free_addresses(3), "--set",
                            "net.meet_s=1")
        code, text = self.end(process)
        self.assertEqual(code, 3, text)
        self.assertIn("not all nodes connected within 1 s", text)
        self.assertIn("rank 1 (lima)", text)
        self.assertIn("refused", text)

    @nightly
    def test_a_port_in_use_is_named(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            own = f"127.0.0.1:{other.getsockname()[1]}"
            code, text = self.end(self.site("--site", "tokyo", "--addresses",
                                            own + ",127.0.0.1:1,127.0.0.1:2"))
        self.assertEqual(code, 3, text)
        self.assertIn(f"{own}: cannot listen: another process has this port", text)

    def test_a_site_that_cannot_listen_leaves_nothing(self):
        # 192.0.2.1 is of no machine. What is read before and after sites meet must not matter.
        (self.folder / "d.csv").write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(60)))
        own = ["--set", "data.path=d.csv", "--set", "data.target=y"]
        for sets in ([], ["--set", "data.kind=csv", *own]):
            code, text = self.end(self.site("--site", "tokyo", "--addresses", free_addresses(3),
                                            "--set", "site.tokyo.bind=192.0.2.1:7000", "--set",
                                            "net.meet_s=1", *sets))
            self.assertIn("[[site]] bind", text)
            self.assertIn(code, (2, 3), text)
            self.assertFalse([path for path in (self.folder / "runs").rglob("*")
                              if not path.is_dir()])
        self.run_ok("simulate", "job.toml", "--force", "--quiet", "--set", "stop.max_rounds=1")

    @nightly
    def test_a_name_that_does_not_resolve_is_named(self):
        code, text = self.end(self.site(
            "--site", "tokyo", "--set", "net.meet_s=2", "--addresses",
            free_addresses(1) + ",no-such-host.invalid:7000,127.0.0.1:2"))
        self.assertEqual(code, 3, text)
        self.assertIn("no-such-host.invalid:7000", text)

    @nightly
    def test_another_job_and_a_second_process_of_a_site_are_refused_on_both_sides(self):
        addresses = free_addresses(3)
        first = self.site("--site", "tokyo", "--addresses", addresses, "--out", "a")
        other = self.site("--site", "lima", "--addresses", addresses, "--out", "b", "--set",
                          "job.seed=6")
        # tokyo dials lima, which runs another job: both say so, and tokyo does not go on.
        for site in (first, other):
            code, text = self.end(site)
            self.assertEqual(code, 2, text)
            self.assertIn("site lima runs another job than site tokyo: [job] seed is 5 at tokyo "
                          "and 6 at lima", text)

    @nightly
    def test_sites_on_different_networks_refuse_one_another(self):
        for own, others in (("lan", "dynamic"), ("", "lan")):
            addresses = free_addresses(3)
            first = self.site("--site", "tokyo", "--addresses", addresses, "--out", "a", "--force",
                              *(["--wan", own] if own else []))
            other = self.site("--site", "lima", "--addresses", addresses, "--out", "b", "--force",
                              "--wan", others)
            for site in (first, other):
                code, text = self.end(site)
                self.assertEqual(code, 2, text)
                self.assertIn("site lima runs another job than site tokyo", text)
                self.assertIn("start all sites with the same job file, --set and --wan", text)

    def test_a_network_that_is_none_is_named(self):
        for command in (["launch", "job.toml"], ["site", "job.toml", "--site", "lima"],
                        ["lab", "job.toml"]):
            code, text = self.end(self.start(*command, "--wan", "lann"))
            self.assertEqual(code, 2, text)
            self.assertIn("--wan: [wan] preset", text)
            self.assertIn("did you mean 'lan'?", text)

    @nightly
    def test_a_killed_site_comes_back(self):
        addresses = free_addresses(4)
        names = [*SITES, "bonn"]
        self.write(job_of(names))

        def start(name, *more, rounds=100000):
            return self.site("--site", name, "--addresses", addresses, "--out", name, *PACED,
                             *LOSE, "--set", f"stop.max_rounds={rounds}", *more)
        sites = {name: start(name) for name in names}
        self.until_checkpoints(sites["tokyo"], names, folder=".")
        sites["lima"].kill()
        sites["lima"].wait()
        self.run_ok("keys", "issue", *names)  # the others read theirs when it connects
        sites["lima"] = start("lima", "--rejoin")
        self.until(sites["tokyo"], "rank 1 (lima) is back")
        self.until(sites["tokyo"], "has read new keys")
        self.until_gone_on(sites["tokyo"], names, ".")
        for site in sites.values():
            site.send_signal(signal.SIGINT)
        for site in sites.values():
            self.assertEqual(self.end(site)[0], 130, self.said(site))
        # The end is set now: however fast the machine, it is not over before the return.
        rounds = self.summary("tokyo")["rounds"] + 50
        for name, site in {name: start(name, rounds=rounds) for name in names}.items():
            code, text = self.end(site)
            self.assertEqual(code, 0, f"{name}: {text}")
        results = [self.summary(name) for name in names]
        self.assertEqual(len({one["params_hash"] for one in results}), 1, results)
        self.assertEqual({one["rounds"] for one in results}, {rounds})
        lines = (self.folder / "lima" / "metrics.jsonl").read_text().splitlines()
        done = [one["round"] for one in map(json.loads, lines) if one["kind"] == "train_loss"]
        self.assertLess(len(set(done)), rounds, "some were missed")
        self.assertEqual(max(done), rounds - 1)

    @nightly
    def test_a_site_cannot_come_back_to_skewscout_or_to_a_run_that_has_not_begun(self):
        code, text = self.end(self.site("--site", "lima", "--addresses", free_addresses(3),
                                        "--rejoin", "--set", "sync.kind=skewscout"))
        self.assertEqual(code, 2, text)
        self.assertIn("does not let a lost site return", text)
        addresses = free_addresses(3)
        waits = self.site("--site", "tokyo", "--addresses", addresses, "--out", "a")
        self.until_listens(waits, addresses.split(",")[0])
        code, text = self.end(self.site("--site", "lima", "--addresses", addresses, "--rejoin",
                                        "--set", "net.meet_s=10"))
        self.assertEqual(code, 3, text)
        self.assertIn("the run has not begun yet", text)
        waits.kill()

    @nightly
    def test_two_processes_that_claim_one_site(self):
        addresses = free_addresses(3)
        sites = [self.site("--site", name, "--addresses", addresses, "--out", name, *LONG)
                 for name in SITES]
        self.until(sites[0], "round")
        ports = addresses.split(",")
        ports[2] = free_addresses(1)  # oslo once more, from another port
        twin = self.site("--site", "oslo", "--addresses", ",".join(ports), "--out", "twin", "--set",
                         "net.meet_s=5")
        code, text = self.end(twin)
        self.assertEqual(code, 3, text)
        for site in sites:
            self.assertEqual(self.end(site)[0], 0, self.said(site))

    @nightly
    def test_mpirun_gives_every_process_its_node(self):
        self.launched(["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", LONGHAUL])

    @nightly
    def test_torchrun_gives_every_process_its_node(self):
        # -r and -t: their default, 0, is not understood by torch 1.13 under Python 3.11.
        self.launched(["/usr/bin/python3", "-m", "torch.distributed.run", "--nproc_per_node", "3",
                       "--master_port", str(free_ports(1)[0]), "-r", "1", "-t", "1",
                       "--no_python", LONGHAUL])

    def launched(self, command):
        first = free_ports(len(SITES))[0]
        done = subprocess.run([*map(str, command), "site", "job.toml", "--base-port", str(first)],
                              cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        hashes = {json.loads((self.folder / f"runs/small/{name}/summary.json").read_text())
                  ["params_hash"] for name in SITES}
        self.assertEqual(hashes, {self.simulated_hash("--out", "runs/simulated")})

if __name__ == "__main__":
    unittest.main(verbosity=2)
