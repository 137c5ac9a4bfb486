#!/usr/bin/env python3
"""A collector is killed while a schedule opens and closes the window. The rest is recovered, and the schedule
continues."""

import os
import signal
import time

import harness

SCHEDULE = "wait=2,active=3,repeat=3,every=6"
CYCLES = ((3, 4, 5), (9, 10, 11), (15, 16, 17))  # the steps that are active, from 1


class Killed(harness.TestCase):
    """The collector is killed at each of its writes. The recovered file has every step of the schedule."""

    FAULT_POINT = harness.BUILD / "tests/faults/fault_point.so"
    SCHEDULES = ((SCHEDULE, CYCLES), ("wait=4,active=2,repeat=1", ((5, 6),)))

    def record(self, schedule, number, where):
        """Records with a kill at write `number`. Returns the file, or None if the collector made fewer writes."""
        file = self.folder / "run.mp"
        for path in self.folder.iterdir():
            path.unlink()
        environment = os.environ | {"MEMPROF_FAULT_POINT": f"main:{number}:{where}:{int(signal.SIGKILL)}",
                                    "LD_PRELOAD": str(self.FAULT_POINT)}
        result = harness.memprof("snapshot", "-o", file, "--schedule", schedule, "--", harness.program("cycles"),
                                 env=environment)
        if result.returncode == 0:
            return None
        self.assertEqual(result.returncode, -signal.SIGKILL, result.stderr)
        return file

    def steps(self, file):
        """The steps of the file, recovered once its program has ended."""
        whole, deadline = self.folder / "whole.mp", time.monotonic() + harness.TIMEOUT
        while (result := harness.memprof("recover", file, "-o", whole)).returncode and "still running" in result.stderr:
            self.assertLess(time.monotonic(), deadline, result.stderr)
            time.sleep(0.01)
        self.assertEqual(result.returncode, 0, result.stderr)
        return harness.answer("steps", whole, status=(0, 4))["steps"]

    def test_at_each_write(self):
        for schedule, cycles in self.SCHEDULES:
            wanted = [step for cycle in cycles for step in cycle]
            number = 0
            while file := self.record(schedule, number := number + 1, "half" if number % 2 else "after"):
                with self.subTest(schedule=schedule, write=number):
                    found = {step["step"]: step["allocated_bytes"] for step in self.steps(file)}
                    self.assertEqual({step: found.get(step) for step in wanted},
                                     {step: 256 + 1024 * step + 77 for step in wanted})
                    self.assertLessEqual(set(found), set(range(1, 21)))
            self.assertGreater(number, 8)


if __name__ == "__main__":
    harness.main()
