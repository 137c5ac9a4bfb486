#!/usr/bin/env python3
"""The torch front end on a stand-in of libc10, with every signature of its reports. Among the cases are reserved
totals, totals that disagree, CPU tensors until the first CUDA block, and PyTorch's own profiler after the recorder."""

import harness

MIB = 1 << 20


class StandIn(harness.TestCase):
    def record(self, signature, drift=0, options=()):
        snapshot = self.folder / "run.mp"
        result = harness.memprof("snapshot", "--force", "-o", snapshot, *options, "--", harness.program("c10_program"),
                                 harness.program("c10_stand_in.so"), signature, drift)
        self.assertEqual(result.returncode, 0, result.stderr)
        reports, seen = map(int, result.stdout.split())
        self.assertEqual(seen, reports, "the profiler behind the recorder missed reports")
        return snapshot

    def test_every_signature(self):
        for signature in (0, 1, 2):
            with self.subTest(signature=signature):
                snapshot = self.record(signature)
                first = self.track(snapshot, "cuda:0/torch")
                self.assertEqual((first["allocs"], first["frees"]), (100, 50))
                self.assertEqual(first["peak_bytes"], 100 * MIB)
                self.assertEqual(first["end_bytes"], 50 * MIB)
                self.assertEqual(first["size_basis"], "block")
                self.assertEqual(first["reserved_peak_bytes"], 128 * MIB)  # of signature 2, the out-of-memory report's
                second = self.track(snapshot, "cuda:1/torch")
                self.assertEqual(second["peak_bytes"], 5 * MIB)
                self.assertEqual(second["reserved_peak_bytes"], None if signature == 2 else 20 * MIB)

    def test_cpu_until_the_first_cuda_block(self):
        snapshot = self.record(0)
        track = self.track(snapshot, "cpu/torch")
        self.assertEqual((track["allocs"], track["frees"], track["peak_bytes"]), (1, 1, 4096))
        self.assertIn("CPU tensors", " ".join(harness.answer("info", snapshot)["coverage"]["notes"]))

    def test_cpu_throughout(self):
        track = self.track(self.record(0, options=("--capture", "torch,cpu")), "cpu/torch")
        self.assertEqual((track["allocs"], track["frees"], track["peak_bytes"]), (2, 2, 12288))

    def test_no_cpu(self):
        info = harness.answer("info", self.record(0, options=("--capture", "torch")))
        self.assertEqual([track["id"] for track in info["tracks"]], ["cuda:0/torch", "cuda:1/torch"])

    def test_the_default_track_is_the_device_with_the_highest_peak(self):
        self.assertEqual(harness.answer("peak", self.record(0))["track"], "cuda:0/torch")

    def test_where_blocks_were_freed(self):
        """Half of the bytes at the peak were freed later, by one site."""
        for options, blocks in (((), 0), (("--free-stacks",), 50)):
            sites = harness.answer("peak", self.record(0, options=options))["sites"]
            freed = [share for site in sites for share in site.get("freed_at", [])]
            self.assertEqual(sum(share["blocks"] for share in freed), blocks)
            self.assertEqual(sum(share["bytes"] for share in freed), blocks * MIB)
            for share in freed:
                self.assertIn("main", [line["function"] for line in share["stack"]])
                self.assertNotIn(share["stack"], [site["stack"] for site in sites])

    def test_totals_that_disagree_are_told(self):
        notes = " ".join(harness.answer("info", self.record(0))["coverage"]["notes"])
        self.assertNotIn("own total", notes)
        notes = " ".join(harness.answer("info", self.record(0, drift=512))["coverage"]["notes"])
        self.assertIn("own total", notes)


if __name__ == "__main__":
    harness.main()
