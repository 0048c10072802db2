"""scripts/npm-package against a registry of its own: nothing is fetched from elsewhere."""
import base64
import hashlib
import http.server
import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from scripts_case import ROOT, ScriptCase

TARBALL = os.urandom(200000)


def sri(data, algorithm="sha512"):
    return f"{algorithm}-{base64.b64encode(hashlib.new(algorithm, data).digest()).decode()}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body, status=200, length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        registry = self.server
        registry.paths.append(self.path)
        if registry.busy > 0:
            registry.busy -= 1
            self.answer(b"", 503)
        elif self.path in registry.files:
            self.answer(registry.files[self.path], length=registry.claimed)
        elif self.path in registry.names:
            name = registry.names[self.path]
            file = f"{registry.public or registry.address}/{name}/-/file-1.2.3.tgz"
            self.answer(json.dumps({"name": name, "versions": {"1.2.3": {
                "dist": {"tarball": file, **registry.hashes}}}}).encode())
        elif self.path == "/silent":
            registry.ends.wait(20)
        elif self.path == "/drops":
            self.send_response(200)
            self.end_headers()
            while not registry.ends.wait(0.05):
                self.wfile.write(b"x")
        else:
            self.answer(b"no", 404)


class Registry(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.names = {"/plain": "plain", "/@own%2Fscoped": "@own/scoped",
                      "/silent-file": "silent-file"}
        self.files = {f"/{name}/-/file-1.2.3.tgz": TARBALL for name in self.names.values()}
        self.hashes = {"integrity": sri(TARBALL)}
        self.claimed = self.public = None
        self.busy, self.paths, self.ends = 0, [], threading.Event()

    def handle_error(self, *_):
        pass  # the other side has gone


class NpmPackage(ScriptCase):
    def setUp(self):
        super().setUp()
        self.registry = Registry()
        thread = threading.Thread(target=self.registry.serve_forever, args=(0.02,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.registry.server_close)
        self.addCleanup(self.registry.shutdown)
        self.addCleanup(self.registry.ends.set)
        kept = {key: value for key, value in os.environ.items()
                if "proxy" not in key.lower() and not key.lower().startswith("npm_")}
        self.env = {**kept, "HOME": self.root, "npm_config_registry": self.registry.address + "/"}
        os.mkdir(os.path.join(self.root, "to"))
        self.file = os.path.join(self.root, "to", "file.tgz")

    def words(self, package, *more):
        return [package, self.file, "--timeout", "60", "--pause", "0.01", *more]

    def good(self, package, *more):
        self.expect("npm-package", 0, arguments=self.words(package, *more), env=self.env)
        with open(self.file, "rb") as handle:
            self.assertEqual(handle.read(), TARBALL)
        self.assertEqual(os.listdir(os.path.dirname(self.file)), ["file.tgz"])

    def bad(self, package, *said, more=()):
        output = self.expect("npm-package", 1, *said, arguments=self.words(package, *more),
                             env=self.env)
        self.assertEqual(os.listdir(os.path.dirname(self.file)), [])
        return output

    def test_fetches_a_package_and_replaces_an_older_file(self):
        self.write("to/file.tgz", "older")
        self.good("plain@1.2.3", "--integrity", sri(TARBALL))
        self.good("@own/scoped@1.2.3")

    def test_says_which_registry(self):
        self.expect("npm-package", 0, self.registry.address, arguments=["--registry"], env=self.env)
        del self.env["npm_config_registry"]
        self.write(".npmrc", "registry = http://npm.example\n")
        self.expect("npm-package", 0, "http://npm.example", arguments=["--registry"], env=self.env)

    def test_an_old_package_has_a_sha1_alone(self):
        self.registry.hashes = {"shasum": hashlib.sha1(TARBALL).hexdigest()}
        self.good("plain@1.2.3")
        self.registry.hashes = {}
        os.remove(self.file)
        self.bad("plain@1.2.3", "names no hash", "--integrity")

    def test_the_strongest_hash_holds(self):
        weak, wrong = sri(TARBALL, "sha1"), sri(b"other")
        self.bad("plain@1.2.3", wrong, more=("--integrity", f"{weak} {wrong}"))
        self.bad("plain@1.2.3", "is no hash", more=("--integrity", "md5-abc"))

    def test_a_wrong_hash_is_refused(self):
        self.registry.hashes = {"integrity": sri(b"other")}
        said = self.bad("plain@1.2.3", self.registry.address, "is not what was expected")
        self.assertEqual(said.count("once more"), 2)
        self.good("plain@1.2.3", "--integrity", sri(TARBALL))  # what is given comes first

    def test_unknown_packages_and_versions(self):
        said = self.bad("other@1.2.3", f"{self.registry.address}/other: HTTP 404",
                        "npm_config_registry")
        self.assertNotIn("once more", said)
        self.bad("plain@9.9.9", f"{self.registry.address}/plain: there is no version 9.9.9")
        for words in ("plain", "plain@latest", "../plain@1.2.3"):
            self.expect("npm-package", 2, "NAME@VERSION", arguments=self.words(words))

    def test_no_registry(self):
        self.registry.files["/plain"] = b"<html>please log in</html>"
        self.bad("plain@1.2.3", "no answer of an npm registry")

    def test_a_file_that_is_cut_off(self):
        self.registry.files["/plain/-/file-1.2.3.tgz"] = TARBALL[:5000]
        self.registry.claimed = len(TARBALL)
        self.registry.names = {}
        self.registry.files["/plain"] = json.dumps({"versions": {"1.2.3": {"dist": {
            "tarball": f"{self.registry.address}/plain/-/file-1.2.3.tgz",
            **self.registry.hashes}}}}).encode().ljust(len(TARBALL))
        self.bad("plain@1.2.3", "the connection ended after 5000 of 200000 bytes")

    def test_a_busy_registry_is_asked_three_times(self):
        self.registry.busy = 2
        self.good("plain@1.2.3")
        os.remove(self.file)
        self.registry.busy = 3
        self.bad("plain@1.2.3", "HTTP 503", "try again later")

    def test_a_registry_that_is_slow_or_away(self):
        for name in ("silent", "drops"):
            self.bad(f"{name}@1.2.3", "no answer in time", "https_proxy",
                     more=("--timeout", "0.1" if name == "silent" else "0.01"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.env["npm_config_registry"] = f"http://127.0.0.1:{port}"
        said = self.bad("plain@1.2.3", f"http://127.0.0.1:{port}/plain", "refused")
        self.assertEqual(said.count("once more"), 2)

    def test_the_registry_of_npmrc_and_a_mirror(self):
        del self.env["npm_config_registry"]
        self.env["PLACE"] = self.registry.address
        self.write(".npmrc", "; ours\nregistry = \"${PLACE}\"\n")
        self.registry.public = "https://registry.npmjs.org"  # as a mirror that repeats its words
        self.good("plain@1.2.3")
        self.write(".npmrc", "registry=http://127.0.0.1:1\n@own:registry=${PLACE}\n")
        self.good("@own/scoped@1.2.3")

    def test_a_proxy(self):
        self.env["npm_config_registry"] = "http://registry.invalid"
        self.env["http_proxy"] = self.registry.address
        self.bad("plain@1.2.3", "http://registry.invalid/plain: HTTP 404")
        self.assertEqual(self.registry.paths, ["http://registry.invalid/plain"])

    def test_a_folder_that_is_not_there(self):
        self.expect("npm-package", 1, "nowhere/file.tgz cannot be written", env=self.env,
                    arguments=["plain@1.2.3", os.path.join(self.root, "nowhere/file.tgz")])
        self.env.update(npm_config_cafile="nowhere.crt", npm_config_registry="https://127.0.0.1:1")
        self.bad("plain@1.2.3", "nowhere.crt cannot be read")

    def test_leaves_nothing_when_it_is_ended(self):
        self.registry.names["/drops-file"] = "drops-file"
        for number in (signal.SIGTERM, signal.SIGINT):
            self.registry.files["/drops-file"] = json.dumps({"versions": {"1.2.3": {"dist": {
                "tarball": f"{self.registry.address}/drops", **self.registry.hashes}}}}).encode()
            process = subprocess.Popen(
                [os.path.join(ROOT, "scripts/npm-package"), *self.words("drops-file@1.2.3")],
                env=self.env, stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + 60
            while not os.listdir(os.path.dirname(self.file)) and time.monotonic() < end:
                time.sleep(0.01)
            process.send_signal(number)
            said = process.communicate(timeout=60)[1]
            self.assertEqual((process.returncode, said), (128 + number, ""))
            self.assertEqual(os.listdir(os.path.dirname(self.file)), [])


if __name__ == "__main__":
    unittest.main()
