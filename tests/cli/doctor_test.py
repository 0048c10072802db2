#!/usr/bin/env python3
"""doctor as a user runs it: on the loopback, at sites of which one is missing, and with input that
is wrong.

    LONGHAUL=build/release/longhaul tests/cli/doctor_test.py
"""
import json
import socket
import unittest

import launch_test
from cli_test import PATIENCE_S
from effort import light, nightly
from ports import free_addresses

QUICK = ["--seconds", "0.3", "--mbytes", "5", "--datagrams", "40"]
SITES = ["tokyo", "lima", "oslo", "bonn"]


class Case(launch_test.Case):
    def examined(self, *args, code=0):
        """The JSON of a doctor; what it says beside it goes to the log of the failure."""
        done = self.longhaul("doctor", "job.toml", "--json", *args)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def site(self, name, addresses, *args):
        return self.start("doctor", "job.toml", "--site", name, "--addresses", addresses, *QUICK,
                          *args)


class Loopback(Case):
    def test_all_sites_as_processes(self):
        report = self.examined(*QUICK)
        self.assertEqual([site["site"] for site in report["sites"]], launch_test.SITES)
        self.assertEqual(len(report["pairs"]), 6)
        for pair in report["pairs"]:
            self.assertTrue(pair["reached"])
            self.assertEqual(pair["failure"], "")
            # All on one machine, which may be busy: what holds of any measurement there.
            self.assertGreater(pair["rtt_ms"], 0)
            self.assertLess(pair["loss"], 1)
            self.assertTrue(pair["dscp_kept"])
            self.assertGreater(pair["goodput_mbps"], 0)
            self.assertGreater(pair["mbps"], pair["goodput_mbps"])
            self.assertLessEqual(abs(pair["clock_offset_ms"]), pair["rtt_ms"])  # one clock
        for site in report["sites"]:
            self.assertTrue(site["came"])
            self.assertGreater(site["disk_free_bytes"], 0)
            self.assertGreater(site["memory_available_bytes"], 0)

    def test_the_table(self):
        done = self.run_ok("doctor", "job.toml", "--quiet", *QUICK)
        self.assertRegex(done.stdout, r"from +to +rtt ms +least +loss +Mbit/s")
        self.assertRegex(done.stdout, r"\ntokyo +lima +\d")
        self.assertEqual(done.stderr, "")
        self.assertFalse((self.folder / "runs").exists())

    def test_what_it_writes_is_a_network_that_simulate_takes(self):
        self.run_ok("doctor", "job.toml", *QUICK, "--write-wan", "wan.toml", "--force")
        written = (self.folder / "wan.toml").read_text()
        self.assertEqual(written.count("\n[[wan.link]]\n"), 6)
        self.write(light(launch_test.job_of(launch_test.SITES)) + written, "measured.toml")
        done = self.run_ok("simulate", "measured.toml", "--quiet", "--json", "--set",
                           "stop.max_rounds=2")
        self.assertGreater(json.loads(done.stdout)["time_s"], 0)

    def test_sites_started_one_by_one_the_first_reports(self):
        addresses = free_addresses(3)
        others = [self.site(name, addresses) for name in launch_test.SITES[1:]]
        code, said = self.end(self.site("tokyo", addresses))
        self.assertEqual(code, 0, said)
        self.assertIn("Nothing is wrong.", said)
        for other in others:
            code, said = self.end(other)
            self.assertEqual(code, 0, said)
            self.assertIn("tokyo has the report", said)

    def test_a_site_that_does_not_come_is_named_and_the_rest_goes_on(self):
        addresses = free_addresses(3)
        other = self.site("oslo", addresses)
        self.until_listens(other, addresses.split(",")[2])
        code, said = self.end(self.site("tokyo", addresses, "--patience", "6"))
        self.assertEqual(code, 3, said)
        self.assertRegex(said, "! lima: no site reaches it; tried by tokyo, oslo: .*cannot connect")
        self.assertRegex(said, r"tokyo +oslo +\d")
        self.assertEqual(self.end(other)[0], 0)

    def test_without_the_first_site_the_others_end_and_name_it(self):
        code, said = self.end(self.site("oslo", free_addresses(3), "--patience", "1"))
        self.assertEqual(code, 3, said)
        self.assertIn("tokyo (127.0.0.1:", said)
        self.assertIn("did not connect within 2 s", said)

    @nightly
    def test_another_job_is_refused_with_the_reason(self):
        addresses = free_addresses(3)
        others = [self.site("lima", addresses, "--patience", "20"),
                  self.site("oslo", addresses, "--set", "job.seed=99", "--patience", "20")]
        for other, address in zip(others, addresses.split(",")[1:]):
            self.until_listens(other, address)
        code, said = self.end(self.site("tokyo", addresses, "--patience", "8"))
        self.assertEqual(code, 3, said)
        self.assertRegex(said, "! oslo: .*another job .*same job file")
        self.assertRegex(said, r"tokyo +lima +\d")
        for other in others:
            self.end(other)

    def test_another_program_at_the_port_is_named(self):
        addresses = free_addresses(3).split(",")
        with socket.create_server(("127.0.0.1", 0)) as stranger:
            addresses[2] = f"127.0.0.1:{stranger.getsockname()[1]}"
            other = self.site("lima", ",".join(addresses))
            self.until_listens(other, addresses[1])
            first = self.site("tokyo", ",".join(addresses), "--patience", "6")
            stranger.settimeout(PATIENCE_S)
            heard, _ = stranger.accept()
            heard.recv(100)
            heard.sendall(b"220 mail.example.org ESMTP\r\n")
            heard.close()
            stranger.close()
            code, said = self.end(first)
        self.assertEqual(code, 3, said)
        self.assertIn("does not speak TLS: another program has this port", said)
        self.assertEqual(self.end(other)[0], 0)

    def test_ctrl_c(self):
        process = self.start("doctor", "job.toml", "--seconds", "60", "--mbytes", "100000")
        self.until(process, "slot 1 of 3")
        process.terminate()
        code, said = self.end(process, 55)  # in less than a measurement
        self.assertEqual(code, 130, said)


class BadInput(Case):
    def test_each_is_one_line_with_the_remedy(self):
        self.bad("doctor", "nowhere.toml", names=["nowhere.toml"])
        self.bad("doctor", "job.toml", "--site", "tokio", names=["--site tokio", "'tokyo'"])
        self.bad("doctor", "job.toml", "--site", "tokyo", names=["[site.tokyo] address: missing"])
        self.bad("doctor", "job.toml", "--site", "tokyo", "--addresses", "a:1,b:2",
                 names=["--addresses: 2 given", "3 sites"])
        self.bad("doctor", "job.toml", "--site", "tokyo", "--addresses", "a:1,b:x,c:2",
                 names=["lima", "HOST:PORT"])
        self.bad("doctor", "job.toml", "--addresses", "a:1", names=["--site"])
        self.bad("doctor", "job.toml", "--seconds", "0", names=["--seconds"])
        self.bad("doctor", "job.toml", "--lab", "--site", "tokyo", names=["--lab", "--site"])
        self.bad("doctor", "job.toml", "--write-wan", "no/such/wan.toml", "--force",
                 names=["--write-wan no/such/wan.toml", "folder"])
        self.bad("doctor", "job.toml", "--write-wan", "wan.toml",
                 names=["--write-wan wan.toml", "loopback", "--site NAME", "--lab", "--force"])
        self.write("kept", "wan.toml")
        self.bad("doctor", "job.toml", "--site", "tokyo", "--write-wan", "wan.toml",
                 names=["--write-wan wan.toml: exists already; --force replaces it"])
        self.assertEqual((self.folder / "wan.toml").read_text(), "kept")
        self.write(launch_test.job_of(["tokyo"]), "one.toml")
        self.bad("doctor", "one.toml", "--site", "tokyo", "--addresses", "a:1",
                 names=["one.toml", "one site"])
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.bad("doctor", "job.toml", "--quiet", "--site", "lima", "--addresses",
                     f"127.0.0.1:1,127.0.0.1:{port},127.0.0.1:2", code=3,
                     names=[str(port), "another process has this port"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
