"""A headless Chromium, driven over its DevTools pipe: no package is needed but chromium itself."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_S = 60


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="longhaul-browser-")
        to_child, our_write = os.pipe()
        our_read, from_child = os.pipe()

        def connect():  # Chromium reads descriptor 3 and writes 4
            os.dup2(to_child, 200)
            os.dup2(from_child, 201)
            os.dup2(200, 3)
            os.dup2(201, 4)

        # As root it starts only without its own protection of processes from each other.
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless", *as_root, "--disable-gpu", "--disable-dev-shm-usage",
             "--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={self.profile}",
             "about:blank"], preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.write, self.read = our_write, our_read
        self.number, self.buffer, self.errors, self.events = 0, b"", [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.buffer:
            if not select.select([self.read], [], [], PATIENCE_S)[0]:
                raise RuntimeError(f"chromium has said nothing for {PATIENCE_S} s")
            more = os.read(self.read, 1 << 20)
            if not more:
                raise RuntimeError("chromium has ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description")
                               or params["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
        elif method:
            self.events.append(method)
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url, width, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self.message()

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def screenshot(self, path, full=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=full)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        for descriptor in (self.write, self.read):
            os.close(descriptor)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)
