#!/usr/bin/env python3
"""Random hostile programs show the same with memprof, and each of their events is recorded or counted as dropped.

MEMPROF_RANDOM_PROGRAMS says how many (2 000 in the long form); MEMPROF_RANDOM_FIRST is the first seed.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

PROGRAM = harness.BUILD / "tests/faults/random_hostile"
FIRST = int(os.environ.get("MEMPROF_RANDOM_FIRST", "1"))
PROGRAMS = int(os.environ.get("MEMPROF_RANDOM_PROGRAMS", "40"))


class Random(harness.TestCase):
    def recorded(self, folder):
        """Recorded and dropped events of all files."""
        coverages = [harness.answer("info", file)["coverage"] for file in sorted(folder.glob("*.mp"))]
        return sum(coverage["events"] + coverage["dropped"] for coverage in coverages)

    def test_programs(self):
        for seed in range(FIRST, FIRST + PROGRAMS):
            with self.subTest(seed=seed):
                alone = subprocess.run([PROGRAM, str(seed)], capture_output=True, text=True)
                run = self.folder / f"{seed}"
                with_memprof = harness.memprof("snapshot", "--quiet", "--follow", "all", "-o", f"{run}/", "--", PROGRAM,
                                               str(seed))
                self.assertEqual((with_memprof.returncode, with_memprof.stdout), (alone.returncode, alone.stdout))
                self.assertEqual(self.recorded(run), int(alone.stdout.split()[-1]), with_memprof.stderr)


if __name__ == "__main__":
    harness.main()
