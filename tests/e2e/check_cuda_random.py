#!/usr/bin/env python3
"""Random operations from eight threads on the stand-in driver of tests/softgpu. At random moments the recording's live
blocks equal the driver's, by CUPTI and by hooks. tools/test --long: ten million operations and 1000 moments, half a
minute each way."""

import collections
import subprocess

import cuda_stand_in as stand_in
import harness


class RandomOperations(stand_in.TestCase):
    operations = 10_000_000 if harness.asserted.LONG else 100_000
    moments = max(operations // 10000, 20)

    def wanted(self, printed):
        live = collections.defaultdict(lambda: (0, 0, 0))
        for line in printed.splitlines():
            moment, kind, blocks, size, total = line.split()
            track = stand_in.track_name(-1 if kind in ("pinned", "registered") else 0, stand_in.TRACKS[kind])
            before = live[f"moment {moment}", track]
            live[f"moment {moment}", track] = (before[0] + int(blocks), before[1] + int(size),
                                               (before[2] + int(total)) % 2**64)
        return dict(live)

    def recorded(self, path):
        result = subprocess.run([stand_in.SOFTGPU / "live_at_marks", path, str(max(self.moments // 20, 1))],
                                capture_output=True, text=True, timeout=harness.TIMEOUT)
        self.assertEqual(result.returncode, 0, "the model's live blocks differ from its events: " + result.stderr)
        rows = (line.split("\t") for line in result.stdout.splitlines())
        return {(mark, track): (int(blocks), int(size), int(total)) for mark, track, blocks, size, total in rows}

    def check(self, way, **how):
        how["options"] = ("--stacks", "native", "--on-full", "wait", *how["options"])
        result = self.run_program(stand_in.program("random_operations"), way, 8, self.operations, self.moments, 1,
                                  SOFTGPU_MEMORY=1 << 40, SOFTGPU_LEDGER="", **how)
        coverage = harness.answer("info", result.recording)["coverage"]
        self.assertEqual(coverage["dropped"], 0)
        wanted, recorded = self.wanted(result.stdout), self.recorded(result.recording)
        self.assertEqual(len({mark for mark, _ in wanted}), self.moments)
        for key in sorted(set(wanted) | set(recorded)):
            self.assertEqual(recorded.get(key), wanted.get(key), key)

    def test_hooks(self):
        for way in ("linked", "dlopen", "lookup", "threads"):
            with self.subTest(way=way):
                self.check(way, options=("--capture", "hooks"))

    def test_cupti(self):
        for version in ("11.2", "13.0"):
            with self.subTest(version=version):
                self.check("lookup", options=("--capture", "cupti"), cupti=version)

    def test_cupti_going_away(self):
        self.check("lookup", options=(), cupti="13.0", SOFTCUPTI_GONE_AFTER=self.operations // 2)


if __name__ == "__main__":
    harness.main()
