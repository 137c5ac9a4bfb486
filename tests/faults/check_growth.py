#!/usr/bin/env python3
"""Each reader takes at most 40 times the processor time for ten times the pools, streams, threads and so on. Quadratic
work would take a hundred times."""

import importlib
import json
import os
import pathlib
import pickle
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]
import check_extreme  # noqa: E402
import check_extreme_imports  # noqa: E402
import harness  # noqa: E402

SMALL, FACTOR, MOST = 5000, 10, 40
FLOOR = 0.02  # seconds: below, the clock is too coarse
RECORDINGS = ("segments", "calls", "threads", "sites", "modules", "samples")
IMPORTS = ("nsys-pools", "nsys-processes", "nsys-variables", "kineto-threads", "kineto-nested", "rmm-threads", "rmm-streams")
COMMANDS = (["report", "--json"], ["frag"])


def snapshot(count):
    """A snapshot of PyTorch's in which each segment has its own stream and pool."""
    segments, trace = [], []
    for i in range(count):
        address = (i + 1) << 21
        block = {"address": address, "size": 2 << 20, "requested_size": 2 << 20, "state": "active_allocated", "frames": []}
        segments.append({"device": 0, "address": address, "total_size": 2 << 20, "allocated_size": 2 << 20, "stream": i,
                         "active_size": 2 << 20, "requested_size": 2 << 20, "segment_type": "large",
                         "segment_pool_id": (0, i), "is_expandable": False, "frames": [], "blocks": [block]})
        for action in ("segment_alloc", "alloc"):
            trace.append({"action": action, "addr": address, "size": 2 << 20, "stream": i, "time_us": i, "frames": []})
    return {"segments": segments, "device_traces": [trace]}


def processor_time(command):
    """The command's own seconds of processor time."""
    child = subprocess.Popen([harness.MEMPROF, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1, 4):
        raise AssertionError((command, child.returncode))
    return used.ru_utime


class Growth(harness.TestCase):
    def check(self, make, commands=COMMANDS):
        """`make` writes a file with so many items, and returns its name."""
        small, large = make(SMALL), make(SMALL * FACTOR)
        for command in commands:
            with self.subTest(file=large.name, command=command[0]):
                few = max(FLOOR, *(processor_time([*command, small]) for _ in range(3)))
                grown = (processor_time([*command, large]) / few for _ in range(3))  # again, if the machine was busy
                self.assertTrue(any(times < MOST for times in grown))

    def test_recordings(self):
        for kind in RECORDINGS:
            def make(count, kind=kind):
                path = self.folder / f"{kind}-{count}.mp"
                subprocess.run([check_extreme.MAKE, kind, str(count), path], check=True)
                return path
            self.check(make)

    def test_snapshots(self):
        for suffix, write in (("pickle", pickle.dumps), ("json", lambda value: json.dumps(value).encode())):
            def make(count, suffix=suffix, write=write):
                path = self.folder / f"snapshot-{count}.{suffix}"
                path.write_bytes(write(snapshot(count)))
                return path
            self.check(make)

    def test_logs(self):
        for kind in IMPORTS:
            def make(count, kind=kind):
                check_extreme.COUNT = count * 2
                importlib.reload(check_extreme_imports)
                path = self.folder / f"{kind}-{count}"
                kinds = {**check_extreme_imports.DATABASES, **check_extreme_imports.TRACES, **check_extreme_imports.LOGS}
                kinds[kind](path)
                return path
            self.check(make, (["info"],))

    def test_a_value_longer_than_a_number(self):
        """SQLite keeps several copies of a value: four times the file would be too little."""
        path = self.folder / "long"
        check_extreme_imports.database(lambda: [check_extreme_imports.row(1, size=bytes(17 << 20))])(path)
        result = harness.memprof("info", path)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("too big", result.stderr)

    def test_more_devices_than_a_machine_has(self):
        """Each device takes a sweep over all events."""
        path = self.folder / "devices"
        for count, status in ((1024, 0), (1025, 1)):
            path.unlink(missing_ok=True)
            check_extreme_imports.database(check_extreme_imports.each(lambda i: check_extreme_imports.row(i, device=i), count))(path)
            result = harness.memprof("info", path)
            self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn("more than 1024 devices", result.stderr)


if __name__ == "__main__":
    harness.main()
