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
        self.fake("npm", "exit 0")

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
        self.expect("setup", 0, "packages are installed", arguments=[""], env=self.env)
        self.assertEqual(self.called(), "")

    def test_check_names_what_is_missing_and_installs_nothing(self):
        self.installed(all_but="libtorch-dev")
        self.expect("setup", 1, "missing: libtorch-dev", "apt-get install",
                    arguments=["--check"], env=self.env)
        self.assertEqual(self.called(), "")

    def test_installs_only_what_is_missing_or_says_how(self):
        self.installed(all_but="libtorch-dev")
        if os.geteuid() == 0:
            self.expect("setup", 0, arguments=[""], env=self.env)
            self.assertIn("--no-install-recommends libtorch-dev\n", self.called())
        else:
            self.expect("setup", 1, "sudo sh -c", arguments=[""], env=self.env)
            self.assertEqual(self.called(), "")


if __name__ == "__main__":
    unittest.main()
