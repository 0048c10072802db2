"""scripts/fetch-web with a fake npm-package: nothing is fetched here."""
import json
import os
import unittest

from scripts_case import CopiedCase


class FetchWeb(CopiedCase):
    copied = ("fetch-web",)

    def setUp(self):
        super().setUp()
        self.pin("1.0.0")
        self.write("package/dist/chart.js", "draw()")
        self.fake("scripts/npm-package", f"tar -C {self.root} -czf \"$2\" package")

    def pin(self, version):
        self.write("web/package-lock.json", json.dumps({"packages": {
            "": {"name": "web"},
            "node_modules/@own/chart": {"version": version, "integrity": f"sha512-{version}"}}}))

    def test_fetches_once_what_is_pinned(self):
        for version in ("1.0.0", "1.0.1"):
            self.pin(version)
            self.expect("fetch-web", 0, "@own", arguments=["--try"])
            self.expect("fetch-web", 0, "up to date", arguments=["--try"])
            self.assertEqual(self.called()[-1], f"npm-package @own/chart@{version} "
                             f"node_modules.new/.tgz --integrity sha512-{version}")
        self.assertEqual(len(self.called()), 2)
        with open(os.path.join(self.root, "web/node_modules/@own/chart/dist/chart.js"),
                  encoding="utf-8") as handle:
            self.assertEqual(handle.read(), "draw()")

    def test_what_cannot_be_fetched_leaves_what_was_there(self):
        self.expect("fetch-web", 0, arguments=["--try"])
        self.pin("2.0.0")
        self.fake("scripts/npm-package", "echo no route >&2; exit 1")
        self.expect("fetch-web", 0, "no route", "builds without it", arguments=["--try"])
        self.expect("fetch-web", 1, "no route", "could not be fetched", arguments=[""])
        self.assertEqual(sorted(os.listdir(os.path.join(self.root, "web"))),
                         ["node_modules", "package-lock.json"])


if __name__ == "__main__":
    unittest.main()
