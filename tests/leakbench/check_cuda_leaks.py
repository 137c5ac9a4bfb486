#!/usr/bin/env python3
"""Leaks of CUDA programs on the stand-in driver, with CUPTI and with hooks. The answer names the guilty function, its
class and rate; the mended programs are clean."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness
import cuda_stand_in

LEAKS = harness.BUILD / "tests" / "leakbench" / "programs" / "cuda_leaks"
# function: class, track, bytes a step
TRUTH = {
    "early_return": ("native", "cuda:0/driver", 100000),
    "event_a_launch": ("handle", "cuda:0/driver/events", 0),
    "stream_a_call": ("handle", "cuda:0/driver/streams", 0),
    "pinned_buffer": ("pinned", "cpu/driver", 100000),
    "graph_a_shape": ("graph_pool", "cuda:0/driver/graph", 1 << 20),
    "handle_not_released": ("native", "cuda:0/driver", 2 << 20),
    "pool_block": ("native", "cuda:0/driver/pool", 32000),
    "module_a_kernel": ("handle", "cuda:0/driver/modules", 0),
    "texture": ("native", "cuda:0/driver", 65536),
}


class CudaLeaks(cuda_stand_in.TestCase):
    def leaks(self, *arguments, **how):
        result = self.run_program(LEAKS, *arguments, **how)
        return harness.answer("leaks", result.recording, status=(0, 4))

    def check(self, **how):
        for what, (kind, track, rate) in TRUTH.items():
            with self.subTest(what=what, **how):
                leaks = self.leaks(what, **how)
                self.assertEqual(leaks["verdict"], "leak")
                found = {finding["track"]: finding for finding in leaks["findings"]}
                self.assertIn(track, found)
                finding = found[track]
                self.assertEqual((finding["class"], finding["bytes_per_step"], finding["first_step"]), (kind, rate, 1))
                self.assertIn(what, [frame["function"] for frame in finding["stack"]])
                for other in leaks["findings"]:
                    self.assertIn(what, [frame["function"] for frame in other["stack"]], other["track"])

    def test_hooks(self):
        self.check(options=("--capture", "hooks"))

    def test_mended(self):
        for what in TRUTH:
            with self.subTest(what=what):
                leaks = self.leaks(what, "mended", options=("--capture", "hooks"))
                self.assertEqual((leaks["verdict"], leaks["findings"]), ("clean", []))

    def test_cupti(self):
        self.check(options=("--capture", "cupti"), cupti="13.0")


if __name__ == "__main__":
    harness.main()
