#!/usr/bin/env python3
"""longhaul keys, and sites whose keys are missing, readable by others, or of another authority.

    LONGHAUL=build/release/longhaul tests/cli/keys_test.py
"""
import json
import os
import shutil
import subprocess
import unittest

from effort import nightly
from launch_test import SITES, Case
from ports import free_addresses


class Keys(Case):
    def setUp(self):
        super().setUp()
        shutil.rmtree(self.folder / "keys")

    def mode(self, name):
        return (self.folder / "keys" / name).stat().st_mode & 0o777

    def test_an_authority_and_keys_for_all_sites_of_a_job(self):
        self.run_ok("keys", "init")
        self.run_ok("keys", "issue", "--job", "job.toml", "--days", 30)
        self.assertEqual(sorted(os.listdir(self.folder / "keys")),
                         ["ca.crt", "ca.key", "lima.pem", "oslo.pem", "tokyo.pem"])
        self.assertEqual((self.folder / "keys").stat().st_mode & 0o777, 0o700)
        for name in ("ca.key", "lima.pem", "oslo.pem", "tokyo.pem"):
            self.assertEqual(self.mode(name), 0o600)
        shown = json.loads(self.run_ok("keys", "show", "--json").stdout)
        self.assertEqual([one.get("sites") for one in shown], [[], ["lima"], ["oslo"], ["tokyo"]])
        self.assertEqual(len({one["issuer"] for one in shown}), 1)
        self.assertTrue(all(one["usable"] for one in shown))
        self.assertRegex(self.run_ok("keys", "show").stdout, r"lima.pem .*\((29|30) days\)")
        first = shown[1]["serial"]
        self.run_ok("keys", "issue", "lima")
        self.assertNotEqual(json.loads(self.run_ok("keys", "show", "--json").stdout)[1]["serial"],
                            first, "renewed")

    def test_bad_usage_is_one_line_with_the_remedy(self):
        self.bad("keys", "issue", "lima", names=["keys/ca.crt", "longhaul keys init keys"])
        self.bad("keys", "show", "none", names=["none/ca.crt"])
        self.run_ok("keys", "init")
        self.bad("keys", "init", names=["keys/ca.crt", "already"])
        self.bad("keys", "issue", names=["--job JOB"])
        self.bad("keys", "issue", "../lima", names=["no name of a site"])
        self.bad("keys", "issue", "lima", "--days", 0, names=["--days"])
        os.remove(self.folder / "keys/ca.key")
        self.bad("keys", "issue", "lima", names=["keys/ca.key", "keys init"])

    def test_what_is_unusable_is_shown_and_refused(self):
        self.run_ok("keys", "init")
        self.run_ok("keys", "issue", *SITES)
        os.chmod(self.folder / "keys/lima.pem", 0o640)
        shown = self.longhaul("keys", "show")
        self.assertEqual(shown.returncode, 1, shown.stdout)
        self.assertIn("chmod 600 keys/lima.pem", shown.stdout)
        site = ["site", "job.toml", "--addresses", free_addresses(3), "--site"]
        self.bad(*site, "lima", names=["keys/lima.pem", "chmod 600", "docs/security.md"])
        shutil.copy(self.folder / "keys/tokyo.pem", self.folder / "keys/oslo.pem")
        self.bad(*site, "oslo", names=["keys/oslo.pem", "does not name oslo"])

    def openssl(self, *args):
        done = subprocess.run(["openssl", *args], cwd=self.folder / "made", capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def signed(self, name, extensions, by=None):
        """NAME.crt and NAME.key as OpenSSL's own tool makes them; `by`: the authority's name."""
        made = self.folder / "made"
        made.mkdir(exist_ok=True)
        (made / f"{name}.ext").write_text("\n".join(extensions))
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signer = ["-CA", f"{by}.crt", "-CAkey", f"{by}.key", "-CAcreateserial"] if by else [
            "-signkey", f"{name}.key"]
        self.openssl("x509", "-req", "-in", f"{name}.csr", *signer, "-days", "30", "-extfile",
                     f"{name}.ext", "-out", f"{name}.crt")

    def install(self, into, *names, mode=0o600):
        target = self.folder / "keys" / into
        target.parent.mkdir(mode=0o700, exist_ok=True)
        target.write_text("".join((self.folder / "made" / one).read_text() for one in names))
        target.chmod(mode)

    @unittest.skipUnless(shutil.which("openssl"), "needs the program openssl")
    def test_keys_of_a_companys_authority(self):
        authority = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"]
        self.signed("root", authority)
        self.signed("other", authority)
        self.signed("between", authority, by="root")
        for name in SITES:
            self.signed(name, [f"subjectAltName=DNS:{name}",
                               "extendedKeyUsage=serverAuth,clientAuth"], by="between")
            self.install(f"{name}.pem", f"{name}.key", f"{name}.crt", "between.crt")
        self.install("ca.crt", "other.crt", "root.crt", mode=0o644)
        shown = json.loads(self.run_ok("keys", "show", "--json").stdout)
        self.assertEqual([one["file"] for one in shown], ["ca.crt"] * 2 + [
            f"{name}.pem" for name in sorted(SITES)])
        self.assertTrue(all(one["usable"] for one in shown), shown)
        addresses = free_addresses(3)
        sites = [self.start("site", "job.toml", "--site", name, "--addresses", addresses, "--out",
                            f"runs/{name}", "--set", "stop.max_rounds=5") for name in SITES]
        for site in sites:
            code, said = self.end(site)
            self.assertEqual(code, 0, said)
        # For servers alone: named by `show`, and refused before anything begins.
        self.signed("lima", ["subjectAltName=DNS:lima", "extendedKeyUsage=serverAuth"],
                    by="between")
        self.install("lima.pem", "lima.key", "lima.crt", "between.crt")
        shown = self.longhaul("keys", "show")
        self.assertEqual(shown.returncode, 1, shown.stdout)
        self.assertRegex(shown.stdout, "lima.pem .*lacks clientAuth")
        self.bad("site", "job.toml", "--addresses", addresses, "--site", "lima", "--out", "runs/b",
                 names=["keys/lima.pem", "lacks clientAuth", "serverAuth and clientAuth"])

    @nightly
    def test_a_site_of_another_authority_is_refused_at_both_ends(self):
        for folder in ("keys", "others"):
            self.run_ok("keys", "init", folder)
            self.run_ok("keys", "issue", *SITES, "--keys", folder)
        common = ["site", "job.toml", "--addresses", free_addresses(3), "--set", "net.meet_s=15"]
        lima = self.start(*common, "--site", "lima", "--out", "a")
        tokyo = self.start(*common, "--site", "tokyo", "--out", "b", "--keys", "others")
        code, said = self.end(tokyo)
        self.assertEqual(code, 3, said)
        self.assertIn("cannot connect to rank 1 (lima)", said)
        self.assertRegex(said, "it shows a certificate of lima: .* another authority")
        code, said = self.end(lima)
        self.assertEqual(code, 3, said)
        self.assertIn("refuses the certificate of this site (lima)", said)


HIDDEN = ("lima", "oslo")  # nobody can dial them


class DialOut(Case):
    @nightly
    def test_a_site_that_nobody_can_dial_trains_with_the_others(self):
        expected = self.simulated_hash("--out", "runs/simulated")
        nat = "lima"  # tokyo would dial it, and it oslo
        addresses = dict(zip(SITES, free_addresses(3).split(",")))
        # Of lima the others have none.
        words = [word for name in SITES if name != nat
                 for word in ("--set", f"site.{name}.address={addresses[name]}")]
        words += ["--set", f"site.{nat}.dial_out=true"]
        sites = [self.start("site", "job.toml", "--site", name, "--out", name, *words)
                 for name in SITES]
        for name, site in zip(SITES, sites):
            code, text = self.end(site)
            self.assertEqual(code, 0, text)
            self.assertEqual(self.summary(name)["params_hash"], expected)

    def test_the_plan_says_who_relays(self):
        words = [word for name in HIDDEN for word in ("--set", f"site.{name}.dial_out=true")]
        plan = self.run_ok("explain", "job.toml", "--all", *words)
        self.assertIn("lima to oslo: through tokyo, as neither can be dialled", plan.stdout)

    @nightly
    def test_two_that_nobody_can_dial_reach_each_other_through_a_third(self):
        expected = self.simulated_hash("--out", "runs/simulated")
        addresses = dict(zip(SITES, free_addresses(3).split(",")))
        words = ["--set", f"site.tokyo.address={addresses['tokyo']}"]
        words += [word for name in HIDDEN for word in ("--set", f"site.{name}.dial_out=true")]
        sites = {name: self.start("site", "job.toml", "--site", name, "--out", name, *words)
                 for name in SITES}
        said = {}
        for name, site in sites.items():
            code, said[name] = self.end(site)
            self.assertEqual(code, 0, said[name])
            self.assertEqual(self.summary(name)["params_hash"], expected)
        for name in HIDDEN:
            self.assertRegex(said[name], r"reaches rank \d \(\w+\) through rank \d \(tokyo\)")
        self.assertRegex(said["tokyo"], r"has relayed [\d.]+ MB between rank")

    def test_one_site_must_be_dialled(self):
        self.bad("site", "job.toml", "--site", "lima",
                 *[word for name in SITES for word in ("--set", f"site.{name}.dial_out=true")],
                 names=["dial_out", "one site at least"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
