"""tests/cli/ports.py: what test processes that run side by side are given."""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import unittest
from unittest import mock

from scripts_case import GATE, ROOT

CLI = os.path.join(ROOT, "tests", "cli")
sys.path.insert(0, CLI)
import ports

# Says what it has been given, and lives until its input ends.
HOLDER = """\
import sys
sys.path.insert(0, sys.argv[1])
import ports
print(*ports.free_ports(int(sys.argv[2])), flush=True)
sys.stdin.read()
"""


class Ports(unittest.TestCase):
    def setUp(self):
        # This test's own: other tests run beside it. Each case begins with another block.
        if ports.own:
            ports.own.lock.close()
        ports.own = None

    def holder(self, count=3):
        process = subprocess.Popen([sys.executable, "-S", "-c", HOLDER, CLI, str(count)],
                                   text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def given(process):
        return [int(word) for word in process.stdout.readline().split()]

    @staticmethod
    def lock(first):
        """Whether the block is free, and then held by what is returned."""
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.suppress(OSError):
            one.bind(f"\0longhaul-test-ports-{first}")
            return one
        one.close()
        return None

    def test_many_processes_at_once_have_blocks_apart(self):
        count = 8 if GATE else 30
        found = [self.given(one) for one in [self.holder() for _ in range(count)]]
        self.assertTrue(all(len(one) == 3 and one[2] == one[0] + 2 for one in found), found)
        self.assertEqual(len({one[0] // ports.SIZE for one in found}), count, found)

    def test_a_killed_process_leaves_its_block_to_others(self):
        process = self.holder()
        first = self.given(process)[0]
        self.assertIsNone(self.lock(first))
        process.send_signal(signal.SIGKILL)
        process.wait()
        free = self.lock(first)
        self.assertIsNotNone(free)
        free.close()

    def test_a_process_that_it_started_keeps_nothing(self):
        ports.free_ports(1)
        first = ports.own.first
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
        self.addCleanup(child.communicate)
        ports.own.lock.close()
        with contextlib.closing(self.lock(first)):
            self.assertIsNone(child.poll())

    def test_a_copy_of_a_process_has_another_block(self):
        ports.free_ports(1)
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, str(ports.free_ports(1)[0]).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as said:
            other = int(said.read())
        os.wait()
        self.assertNotIn(other, range(ports.own.first, ports.own.first + ports.SIZE))

    def test_a_port_that_somebody_has_is_skipped(self):
        first = ports.free_ports(1)[0]
        for family, at, kind in ((socket.AF_INET, "127.0.0.1", socket.SOCK_STREAM),
                                 (socket.AF_INET, "127.0.0.1", socket.SOCK_DGRAM),
                                 (socket.AF_INET6, "::1", socket.SOCK_STREAM)):
            with self.subTest(at=at, kind=kind), contextlib.ExitStack() as stack:
                taken = ports.own.first + ports.own.given
                try:
                    foreign = stack.enter_context(socket.socket(family, kind))
                    foreign.bind((at, taken))
                except OSError:
                    self.assertEqual(family, socket.AF_INET6, "this machine has no IPv6")
                    continue
                self.assertEqual(ports.free_ports(1), [taken + 1])
                # Three in a row, none of which is taken.
                ports.own.given = taken - 2 - ports.own.first
                self.assertNotIn(taken, ports.free_ports(3))
                ports.own.given = taken + 2 - ports.own.first
        self.assertGreater(ports.own.given + ports.own.first, first)

    def test_all_are_given_before_one_is_given_again(self):
        found = [ports.free_ports(1)[0] for _ in range(ports.SIZE // 2)]
        self.assertEqual(len(set(found)), len(found))
        ports.own.given = ports.SIZE - 1
        self.assertIn(ports.free_ports(2)[0], range(ports.own.first, found[-1]))

    def test_it_says_what_to_do_when_nothing_is_left(self):
        with mock.patch.object(ports, "blocks", lambda: range(20, 20)):
            with self.assertRaisesRegex(RuntimeError, "run fewer at once"):
                ports.free_ports(1)
        with mock.patch.object(ports, "is_free", lambda port: False):
            with self.assertRaisesRegex(RuntimeError, "end the processes that an ended test"):
                ports.free_ports(2)

    def test_blocks_are_below_what_the_kernel_gives(self):
        for text, last in (("32768\t60999\n", 32_668), ("16000 65535", 15_900),
                           ("1024 65535", 32_668), ("", 32_668)):
            with self.subTest(text=text), mock.patch.object(ports, "EPHEMERAL") as file:
                file.read_text.return_value = text
                self.assertEqual(ports.blocks()[-1] // ports.SIZE, last // ports.SIZE)
                self.assertLessEqual(ports.blocks()[-1], last)


if __name__ == "__main__":
    unittest.main()
