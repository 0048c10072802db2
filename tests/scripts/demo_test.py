"""scripts/demo with a fake setup, build and program: what runs beside what, and how it ends."""
import itertools
import os
import re
import signal
import subprocess
import unittest

from scripts_case import PATIENCE_S, CopiedCase, hear_signals, lives

# A compilation as cmake --build has it: a process that starts another one.
SLOW = "sleep 60 & echo $! $$ > pids; wait"


class Demo(CopiedCase):
    copied = ("demo",)

    def setUp(self):
        super().setUp()
        self.env = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":" + os.environ["PATH"])
        self.fake("scripts/setup", '[[ "$*" != *--check* ]]')
        for name in ("scripts/fetch-data", "scripts/fetch-web", "bin/cmake"):
            self.fake(name, "")
        self.fake("build/demo/longhaul", "echo the table")

    def demo(self, status, *said):
        return self.expect("demo", status, *said, arguments=[""], env=self.env)

    def test_installs_libtorch_while_it_compiles_the_rest(self):
        self.fake("scripts/setup", '[[ "$*" != *--check* ]] || exit 1\n'
                  '[[ "$*" != *--no-update* ]] || until [[ -f compiled ]]; do sleep 0.01; done')
        self.fake("bin/cmake", '[[ "$1" != --build ]] || touch compiled')
        said = self.demo(0, "the table\n", "real time: ")
        self.assertRegex(said, r"install \d+\.\d s, libtorch \d+\.\d s beside \d+\.\d s of comp")
        calls = [re.sub(r" -j \d+", "", call) for call in self.called()]
        calls = [call for call in calls if not call.startswith("fetch-")]
        self.assertEqual(calls[:2], ["setup --run --check", "setup --run --without-torch"])
        self.assertEqual(sorted(calls[2:5]), ["cmake --build --preset demo",
                                              "cmake --preset demo -DLONGHAUL_TORCH=OFF",
                                              "setup --run --no-update"])
        self.assertEqual(calls[5:], [
            "cmake --preset demo -DLONGHAUL_TORCH=ON",
            "cmake --build --preset demo --target longhaul",
            "longhaul compare examples/mnist-4-sites.toml --sync bsp,fedavg,diloco --seeds 3 "
            "--jobs 2 --require-target --force"])

    def test_builds_at_once_where_all_is_installed(self):
        self.fake("scripts/setup", "")
        self.demo(0, "install 0 s")
        self.assertEqual([call for call in self.called() if call.startswith(("setup", "cmake"))][1],
                         "cmake --preset demo -DLONGHAUL_TORCH=ON")

    def gone(self):
        """No process of the build is left."""
        pids = self.numbers_in("pids")
        self.assertEqual(len(pids), 2)
        for pid in pids:
            self.assertFalse(lives(pid))

    def test_a_fetch_that_fails_ends_the_build(self):
        self.fake("bin/cmake", f'[[ "$1" != --build ]] || {{ {SLOW}; }}')
        self.fake("scripts/fetch-data", "until [[ -s pids ]]; do sleep 0.01; done\n"
                  "echo no route >&2; exit 7")
        said = self.demo(7, "no route\n", "demo: data failed")
        self.assertNotIn("the table", said)
        self.gone()

    def test_a_build_that_fails(self):
        self.fake("bin/cmake", "echo no compiler >&2; exit 3")
        self.demo(3, "no compiler", "demo: parts failed")

    def test_a_target_that_is_missed(self):
        self.fake("build/demo/longhaul", "echo the table; exit 1")
        self.demo(1, "the table\n", "real time: ")

    def test_ended_by_a_signal_it_leaves_nothing(self):
        building = ("bin/cmake", f'[[ "$1" != --build ]] || {{ {SLOW}; }}')
        training = ("build/demo/longhaul", SLOW)
        for slow, number in itertools.product((training, building),
                                              (signal.SIGINT, signal.SIGTERM)):
            self.fake(*slow)
            process = subprocess.Popen([os.path.join(self.scripts, "demo")], env=self.env,
                                       preexec_fn=hear_signals,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.numbers_in("pids")
            process.send_signal(number)
            self.assertEqual(process.wait(PATIENCE_S), 128 + number)
            self.gone()
            os.remove(os.path.join(self.root, "pids"))


if __name__ == "__main__":
    unittest.main()
