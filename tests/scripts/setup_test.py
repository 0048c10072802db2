"""scripts/setup against a fake dpkg-query, apt-get and sudo: nothing is installed here."""
import os
import unittest

from scripts_case import ScriptCase


class Setup(ScriptCase):
    def fake(self, name, body):
        self.write(f"bin/{name}", f"#!/bin/sh\n{body}\n")
        os.chmod(os.path.join(self.root, "bin", name), 0o755)

    def setUp(self):
        super().setUp()
        self.env = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":" + os.environ["PATH"])
        self.calls = os.path.join(self.root, "calls")
        self.fake("apt-get", f'echo "apt-get $*" >> {self.calls}')
        self.fake("sudo", "exit 1")
        self.fake("dpkg", f'echo "dpkg $*" >> {self.calls}')

    def installed(self, all_but=""):
        self.fake("dpkg-query", 'shift 3\nfor p in "$@"; do\n'
                  f'  [ "$p" = "{all_but}" ] || echo "$p installed"\ndone')

    def called(self):
        if not os.path.exists(self.calls):
            return ""
        with open(self.calls, encoding="utf-8") as handle:
            return handle.read()

    def test_leaves_apt_alone_when_nothing_is_missing(self):
        self.installed()
        self.expect("setup", 0, "packages are installed", arguments=["--run"], env=self.env)
        self.assertEqual(self.called(), "")

    def test_check_names_what_is_missing_and_installs_nothing(self):
        self.installed(all_but="libtorch-dev")
        self.expect("setup", 1, "missing: libtorch-dev", "apt-get install",
                    arguments=["--check"], env=self.env)
        self.assertEqual(self.called(), "")

    def test_installs_only_what_is_missing_or_says_how(self):
        self.installed(all_but="libtorch-dev")
        if os.geteuid() == 0:
            self.expect("setup", 0, arguments=["--run"], env=self.env)
            self.assertIn("--no-install-recommends libtorch-dev\n", self.called())
        else:
            self.expect("setup", 1, "sudo sh -c", arguments=["--run"], env=self.env)
            self.assertEqual(self.called(), "")

    def missing(self, *options):
        """What --check names where nothing is installed."""
        self.fake("dpkg-query", "exit 1")
        said = self.expect("setup", 1, arguments=[*options, "--check"], env=self.env)
        self.assertEqual(self.called(), "")
        return set(said.split("missing: ")[1].split("\n")[0].split())

    def test_groups_hold_what_is_needed_for_what(self):
        run, build, test = (self.missing(f"--{group}") for group in ("run", "build", "test"))
        everything = self.missing("--nightly")
        self.assertLess(run, build)
        self.assertLess(run, test)
        self.assertLess(build | test, everything)
        self.assertIn("clang", run)
        self.assertIn("libtorch-dev", run)
        self.assertIn("g++", build - run)
        self.assertIn("libgtest-dev", test - run)
        self.assertIn("chromium", everything - build - test)
        self.assertEqual(self.missing(), test)
        self.assertEqual(self.missing("--all"), everything)
        self.assertEqual(run - self.missing("--run", "--without-torch"),
                         {"libtorch-dev", "libopenblas0-pthread"})

    def test_unknown_options_and_two_groups_are_refused(self):
        self.expect("setup", 2, "unknown option '--runs'", "--nightly", arguments=["--runs"],
                    env=self.env)
        self.expect("setup", 2, "--run and --test", arguments=["--run", "--test"], env=self.env)
        self.expect("setup", 0, "--without-torch", arguments=["--help"], env=self.env)
        self.assertEqual(self.called(), "")

    @unittest.skipUnless(os.geteuid() == 0, "needs root or sudo")
    def test_repairs_what_was_interrupted_and_updates_unless_told(self):
        self.installed(all_but="clang")
        for options, updates in (((), 1), (("--no-update",), 1)):
            self.expect("setup", 0, arguments=["--run", *options], env=self.env)
            self.assertEqual(self.called().count(" update"), updates)
        self.assertTrue(self.called().startswith("dpkg --configure -a\n"))


if __name__ == "__main__":
    unittest.main()
