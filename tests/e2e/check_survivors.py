#!/usr/bin/env python3
"""Processes that outlive the command are counted, named, and not called complete; with --wait they are recorded to
their end."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import harness

# Starts servers, and ends when each that begins at once has begun. A server with `begin` later has no events before the
# command ends. One with `end` 0 ends with its parent.
PROGRAM = """
import os, sys, time
import libmemprof as mp
children, begin, end, flag = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
mp.mark("parent")
sys.stdout.flush()
parent = os.getpid()
begun, has_begun = os.pipe()
for i in range(children):
    if not os.fork():
        os.close(1)
        os.close(2)
        start = time.monotonic()
        if not begin:
            mp.mark("child")
            os.write(has_begun, b"x")
        while (time.monotonic() - start < end or not end and os.getppid() == parent) and not os.path.exists(flag):
            if time.monotonic() - start >= begin:
                mp.mark("child")
            time.sleep(0.02)
        mp.mark("last")
        os._exit(0)
for i in range(0 if begin else children):
    os.read(begun, 1)
"""
FOREVER = 100

# Its children, or a child's children, cannot be recorded; `way` is the cause.
UNRECORDED = """
import ctypes, os, resource, sys
import libmemprof as mp
children, way, depth = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
mp.mark("parent")
if depth and not os.fork():
    mp.mark("between")
elif depth:
    os.wait()
    sys.exit()
for i in range(children):
    if not os.fork():
        ctypes.CDLL(None).prctl(15, b"kid/%d\033[m" % i)
        if way == "descriptors":
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        elif way == "root":
            os.chroot("/proc/self/fdinfo")
        elif way == "user":
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        mp.mark("child")
        if i == 1 and not os.fork():
            mp.mark("grandchild")
        elif i == 1:
            os.wait()
        os._exit(0)
    os.wait()
"""


class Survivors(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.script = self.folder / "program.py"
        self.script.write_text(PROGRAM)
        self.flag = self.folder / "flag"
        self.addCleanup(self.flag.touch)  # ends what still runs

    def command(self, *options, children=1, begin=0, end=FOREVER):
        return ("snapshot", *options, "-o", self.folder / "run.mp", "--force", "--follow", "all", "--", sys.executable,
                self.script, children, begin, end, self.flag)

    def coverages(self):
        return [harness.answer("info", path)["coverage"] for path in sorted(self.folder.glob("run*.mp"))]

    def test_each_is_counted_and_named(self):
        for children, begin in ((1, 0), (3, 0), (6, FOREVER), (2, FOREVER)):
            with self.subTest(children=children, begin=begin):
                for path in self.folder.glob("run*.mp"):
                    path.unlink()
                self.flag.unlink(missing_ok=True)
                result = harness.memprof(*self.command("--strict", children=children, begin=begin))
                self.flag.touch()
                self.assertEqual(result.returncode, 4, result.stderr)
                count = "1 process was" if children == 1 else f"{children} processes were"
                self.assertIn(f"{count} still running (pid ", result.stderr)
                self.assertEqual(len(re.findall(r"pid \d+ python", result.stderr)), min(children, 4))
                self.assertNotIn("memprof: complete", result.stderr)
                coverages = self.coverages()
                self.assertEqual(len(coverages), 1 if begin else 1 + children)
                for coverage in coverages:
                    self.assertFalse(coverage["complete"])
                    self.assertIn("still running (pid ", " ".join(coverage["notes"]))

    def test_who_ends_in_time_is_none(self):
        result = harness.memprof(*self.command("--strict", children=2, end=0))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("complete; 0 dropped", result.stderr)
        self.assertEqual([c["complete"] for c in self.coverages()], [True] * 3)
        self.assertIn("2 forked children", harness.memprof("report", self.folder).stdout)

    def test_wait_records_to_the_end(self):
        result = harness.memprof(*self.command("--strict", "--wait", children=2, begin=1.5, end=2))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([c["complete"] for c in self.coverages()], [True] * 3)

    def test_waiting_ends_at_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                command = [str(word) for word in (harness.MEMPROF, *self.command("--wait", children=1))]
                running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
                children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")
                self.wait_for(lambda: len(list(self.folder.glob("run*.mp"))) == 2 and not children.read_text())
                running.send_signal(number)
                said = running.communicate(timeout=60)[1]
                self.assertEqual(running.returncode, 0, said)
                self.assertIn("1 process was still running", said)
                self.flag.touch()
                for path in self.folder.glob("run*.mp"):
                    path.unlink()
                self.flag.unlink()

    def test_who_could_not_be_recorded_is_named(self):
        """The process is named in the file of the process that started it, and in the report of the job."""
        self.script.write_text(UNRECORDED)
        ways = ("descriptors", "root", "user") if os.geteuid() == 0 else ("descriptors",)
        for way in ways:
            for children, depth in ((1, 0), (6, 0), (1, 1)):
                with self.subTest(way=way, children=children, depth=depth):
                    for path in self.folder.glob("run*.mp"):
                        path.unlink()
                    result = harness.memprof(*self.command("--strict", children=children, begin=way, end=depth))
                    self.assertEqual(result.returncode, 4, result.stderr)
                    said = "1 process could" if children == 1 else "7 processes could"
                    first = r" not be recorded \(pid \d+ kid.\d..m"
                    others = r", pid \d+ kid.\d..m, pid \d+ kid.\d..m, pid \d+ kid.\d..m and 3 more\): "
                    self.assertRegex(result.stderr, said + first + (r"\): " if children == 1 else others))
                    self.assertNotIn("memprof: complete", result.stderr)
                    self.assertNotIn("\033", result.stderr)
                    coverages = self.coverages()
                    self.assertEqual(len(coverages), 1 + depth)
                    lacking = [c for c in coverages if re.search(said + first, " ".join(c["notes"]))]
                    self.assertEqual([c["complete"] for c in lacking], [False])
                    report = harness.memprof("report", *sorted(self.folder.glob("run*.mp")))
                    self.assertRegex(report.stdout + report.stderr, said + first)


if __name__ == "__main__":
    harness.main()
