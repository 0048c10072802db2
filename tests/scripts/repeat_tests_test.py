"""scripts/repeat-tests on a build folder that holds nothing but a list of tests."""
import os
import re
import shutil
import subprocess
import unittest

from scripts_case import PATIENCE_S, ENDING, ScriptCase, hear_signals, lives

TESTS = """\
add_test(good "sh" "-c" "echo $WORD >> {root}/started; test $WORD = said")
set_tests_properties(good PROPERTIES ENVIRONMENT "WORD=said" WORKING_DIRECTORY "{root}")
add_test(folder/bad "sh" "-c" "echo bad >> {root}/started; echo a word; mkdir {root}/only-once")
add_test(alone "sh" "-c" "exit 1")
set_tests_properties(alone PROPERTIES RUN_SERIAL "ON")
add_test(waits "sh" "-c" "echo $$ > {root}/child; exec sleep 61")
add_test(slow "sleep" "60")
set_tests_properties(slow PROPERTIES TIMEOUT "0.2")
"""


class RepeatTests(ScriptCase):
    def setUp(self):
        super().setUp()
        self.write("CTestTestfile.cmake", TESTS.format(root=self.root))
        # It keeps what failures print beside itself.
        scripts = os.path.join(self.root, "scripts")
        os.mkdir(scripts)
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts")
        for name in ("repeat-tests", "signals.py"):
            shutil.copy(os.path.join(here, name), scripts)
        self.script = os.path.join(scripts, "repeat-tests")

    def repeat(self, status, *words):
        code, said = self.run_script(self.script, "--build", self.root, "--busy", "1", *words)
        self.assertEqual(code, status, said)
        return said

    def started(self):
        path = os.path.join(self.root, "started")
        with open(path, encoding="utf-8") as handle:
            words = handle.read().split()
        os.unlink(path)
        return words

    def test_runs_failures_and_what_they_printed(self):
        said = self.repeat(1, "--times", "3", "-R", "good|bad|alone")
        self.assertIn("alone must run alone", said)
        self.assertRegex(said, r"(?m)^good +3 +0 +\d+\.\d$")
        self.assertRegex(said, r"(?m)^folder/bad +3 +2 ")
        logs = os.path.join(self.root, "build/repeat-tests")
        self.assertEqual(len(os.listdir(logs)), 2)
        for name in os.listdir(logs):
            self.assertRegex(name, r"^folder-bad\.[123]\.log$")
            with open(os.path.join(logs, name), encoding="utf-8") as handle:
                self.assertIn("a word\n", handle.read())

    def test_all_passed(self):
        self.repeat(0, "--times", "2", "-R", "^good$")
        self.assertEqual(os.listdir(os.path.join(self.root, "build/repeat-tests")), [])

    def test_a_seed_repeats_the_order(self):
        said = self.repeat(1, "--times", "6", "-R", "good|bad", "--jobs", "1")
        first, seed = self.started(), re.search(r"--seed (\d+)", said)[1]
        self.repeat(1, "--times", "6", "-R", "good|bad", "--jobs", "1", "--seed", seed)
        self.assertEqual(self.started(), first)

    def test_what_takes_too_long_is_killed(self):
        self.assertRegex(self.repeat(1, "--times", "1", "-R", "slow"), r"(?m)^slow +1 +1 ")

    def test_a_signal_ends_what_it_started(self):
        for number in ENDING:
            process = subprocess.Popen([self.script, "--build", self.root, "--busy", "1", "--times",
                                        "1", "-R", "waits"], preexec_fn=hear_signals,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            child = self.numbers_in("child")[0]
            process.send_signal(number)
            self.assertEqual(process.wait(PATIENCE_S), 128 + number)
            self.until(lambda: not lives(child), "the test lives on")
            os.unlink(os.path.join(self.root, "child"))

    def test_wrong_numbers_are_refused(self):
        for word in ("--times", "--jobs"):
            self.assertIn("expected a number from 1", self.repeat(2, word, "0"))

    def test_a_name_of_no_test_is_refused(self):
        self.assertIn("no test", self.repeat(1, "-R", "nonsense"))


if __name__ == "__main__":
    unittest.main()
