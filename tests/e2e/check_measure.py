#!/usr/bin/env python3
"""`memprof measure` returns every figure with which the stand-in GPU was set up. `memprof plan --device` takes its
file."""

import os
import re

import harness

MIB = 1 << 20
ODD = {"name": "Odd GPU", "total": 43 * 1024 * MIB + 7 * MIB, "context": 377 * MIB, "cc": 89, "sms": 77, "l2": 12345678,
       "local_threads": 1120, "graph_node": 19072, "cublas": 74 * MIB, "cudnn": 12_582_912, "multicast": 6 * MIB}
# Old and small; and a GPU with more stack for its threads than memory to spare.
SMALL = ODD | {"total": 3 * 1024 * MIB + MIB, "context": 131 * MIB, "cc": 70, "sms": 20, "local_threads": 2048,
               "graph_node": 6400, "cublas": 2 * MIB, "cudnn": 0, "multicast": 0}
LARGE = ODD | {"total": 277 * 1024 * MIB, "cc": 103, "sms": 148, "local_threads": 992, "graph_node": 31104}


class Measure(harness.TestCase):
    def measure(self, told, devices=1):
        device, found = self.folder / "told.dev", self.folder / "found.dev"
        device.write_text("[odd]\n" + "".join(f"{key} = {value}\n" for key, value in told.items()))
        result = harness.memprof("plan", "--force", "--device", device, "--devices", str(devices), "-o",
                                 self.folder / "plan.mp", "--", harness.MEMPROF, "measure", "--force", "-o", found)
        self.assertEqual(result.returncode, 0, result.stderr)
        text = found.read_text()
        keys = dict(re.findall(r"^(\w+) = (.*)$", text, re.M))
        self.assertIn("driver", keys.pop("source"))
        self.assertEqual(keys, {key: str(value) for key, value in told.items()})
        for key in keys.keys() - {"name"}:
            self.assertRegex(text, rf"(?m)^# {key}: (measured|read)")
        return found, text

    def test_figures(self):
        for told in (SMALL, LARGE, ODD):
            found, text = self.measure(told)
        self.assertRegex(text, "# estimated: nccl")
        again = harness.memprof("plan", "--force", "--device", found, "-o", self.folder / "again.mp", "--",
                                harness.MEMPROF, "measure")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(f"total = {ODD['total']}\n", again.stdout)

    def test_two_gpus(self):
        """NCCL's share is a multiple of 2 MiB, and of what GPUs share by a switch."""
        for multicast, nccl in ((6 * MIB, 138 * MIB), (0, 112 * MIB)):
            self.measure(ODD | {"multicast": multicast, "nccl": nccl}, devices=2)

    def test_no_libraries(self):
        driver = str(harness.BUILD / "src" / "softgpu" / "lib")
        result = harness.memprof("measure", env=dict(os.environ, SOFTGPU_ON="1", LD_LIBRARY_PATH=driver))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, "# estimated: (libcublas was not found|cuBLAS refused)")
        self.assertNotIn("\ncublas =", result.stdout)

    def test_problems(self):
        driver = str(harness.BUILD / "src" / "softgpu" / "lib")
        small = dict(os.environ, SOFTGPU_ON="1", LD_LIBRARY_PATH=driver)
        for change, words in (({"SOFTGPU_NO_DEVICE": "100"}, "cuInit() failed with the driver's error 100"),
                              ({"SOFTGPU_FAIL": "cuMemAlloc_v2:1"}, "2, out of memory: run it while nobody else"),
                              ({"LD_LIBRARY_PATH": "/nowhere"}, "libcuda.so.1, NVIDIA's driver, cannot be loaded")):
            if "LD_LIBRARY_PATH" in change and os.path.exists("/usr/lib/x86_64-linux-gnu/libcuda.so.1"):
                continue
            output = self.folder / "none.dev"
            result = harness.memprof("measure", "-o", output, env=small | change)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(words, result.stderr)
            self.assertFalse(output.exists())


if __name__ == "__main__":
    harness.main()
