"""scripts/test and scripts/nightly with a fake cmake: wrong words, exit codes, signals."""
import os
import subprocess
import unittest

from scripts_case import PATIENCE_S, ENDING, CopiedCase, hear_signals, lives

# As ninja has it: a compilation in a group of its own, which ninja ends when it is asked to end.
SLOW = "trap 'kill $child; exit 1' TERM\nsetsid sleep 71 & child=$!\necho $child > child\nwait"


class Case(CopiedCase):
    copied = ("test", "nightly", "signals.py")

    def setUp(self):
        super().setUp()
        for command in (["init", "-q"],
                        ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q",
                         "--allow-empty", "-m", "x"]):
            subprocess.run(["git", *command], cwd=self.root, check=True)
        self.write(".gitignore", "*\n")  # nothing that is not committed

    def start(self, *words, **environment):
        path = os.path.join(self.root, "bin") + ":" + os.environ["PATH"]
        return subprocess.Popen([os.path.join(self.scripts, words[0]), *words[1:]], cwd=self.root,
                                env={**os.environ, "PATH": path, **environment}, text=True,
                                preexec_fn=hear_signals, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def ended(self, process):
        said, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said


class Test(Case):
    def test_wrong_words_are_refused_before_anything_is_built(self):
        self.fake("bin/cmake", "")
        for words, jobs in (([], "08"), ([], "x"), ([], "0"), (["--fast"], "2")):
            with self.subTest(words=words, jobs=jobs):
                code, said = self.ended(self.start("test", *words, JOBS=jobs))
                self.assertEqual(code, 2, said)
                self.assertIn("expected a whole number from 1", said)
        self.assertFalse(os.path.exists(self.calls))


class Nightly(Case):
    def test_the_exit_code_is_that_of_the_parts_asked_for(self):
        self.fake("bin/cmake", "")
        code, said = self.ended(self.start("nightly", "tsan-build"))
        self.assertEqual(code, 0, said)
        self.fake("bin/cmake", "exit 1")
        code, said = self.ended(self.start("nightly", "launch-build"))
        self.assertEqual(code, 1, said)
        self.assertRegex(said, "launch-build +FAILED")

    def test_jobs_is_a_number_or_left_out(self):
        self.fake("bin/cmake", "")
        code, said = self.ended(self.start("nightly", "single", JOBS="many"))
        self.assertEqual(code, 2, said)
        code, said = self.ended(self.start("nightly", "single", JOBS=""))
        self.assertEqual(code, 0, said)
        self.assertIn(f"cmake --build --preset dev -j {os.cpu_count()} -- -k 0", self.called())

    def test_only_what_is_committed_need_not_be_run_again(self):
        self.fake("bin/cmake", "")
        for name in ("bin/ctest", "scripts/sanitize-launch", "scripts/fuzz", "scripts/wheel",
                     "scripts/test-python-2", "scripts/bench",
                     "build/nightly/tests/longhaul_conformance_test"):
            self.fake(name, "")
        for changed, runs in ((False, True), (False, False), (True, True), (True, True)):
            if changed:
                os.unlink(os.path.join(self.root, ".gitignore"))
                self.write(".gitignore", "*\n!change\n")
                self.write("change", "")
            self.write("calls", "")
            code, said = self.ended(self.start("nightly"))
            self.assertEqual(code, 0, said)
            self.assertEqual(bool(self.called()), runs, said)

    def test_a_signal_ends_what_it_started(self):
        self.fake("bin/cmake", SLOW)
        for number in ENDING:
            with self.subTest(signal=number):
                process = self.start("nightly", "single")
                child = self.numbers_in("child")[0]
                process.send_signal(number)
                code, said = self.ended(process)
                self.assertEqual(code, 128 + number, said)
                self.assertNotIn("Traceback", said)
                self.until(lambda: not lives(child), "what it started lives on")
                os.unlink(os.path.join(self.root, "child"))


if __name__ == "__main__":
    unittest.main()
