#!/usr/bin/env python3
"""Memory that others measured on real GPUs and published, compared with plans of the same programs, which were written
anew (programs/published.py). The short form checks the manual's page alone. docs/manual/plan.md says where a plan differs."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path[:0] = [str(SOURCE / "tests" / "e2e"), str(SOURCE / "tests"), str(HERE)]
sys.dont_write_bytecode = True
import asserted  # noqa: E402
import harness  # noqa: E402
import published  # noqa: E402

MIB, GIB, MB = 1 << 20, 1 << 30, 1000 * 1000
RECIPE = "docs.pytorch.org/tutorials/recipes/zero_redundancy_optimizer.html"
MOSAIC = "docs.pytorch.org/tutorials/beginner/mosaic_memory_profiling_tutorial.html"
LIGER = "github.com/linkedin/Liger-Kernel/blob/main/benchmark/data/all_benchmark_data.csv"
SCRATCH = "github.com/rasbt/LLMs-from-scratch/tree/main/ch05/10_llm-training-speed"
OLD = ["--torch", "2.7.1"]
WITH = sum((["--with", each] for each in "transformers accelerate peft trl lightning torchvision timm diffusers torchao "
            "bitsandbytes deepspeed".split()), [])  # the environment of check_frameworks.py
# By program: source, environment, device, published bytes and relative error.
# The error says how far a plan may be off. With 0 it equals the published digits.
ROWS = {
    "zero": (RECIPE, OLD, "a100-80gb", 1361 * MB, 0.02),
    "no_zero": (RECIPE, OLD, "a100-80gb", 1697 * MB, 0.02),
    "mosaic": (MOSAIC, WITH, "a100-40gb", 4.62 * GIB, 0.04),
    "mosaic_checkpointed": (MOSAIC, WITH, "a100-40gb", 2.55 * GIB, 0.04),
    "cross_entropy": (LIGER, OLD, "a100-80gb", 40960.125 * MIB, 0),
    "head_4096": (LIGER, OLD, "a100-80gb", 6092.2822265625 * MIB, 0),
    "head_32768": (LIGER, OLD, "a100-80gb", 27582.5 * MIB, 0),
    "swiglu": (LIGER, WITH, "a100-80gb", 6372.25 * MIB, 0.01),
    "geglu": (LIGER, WITH, "a100-80gb", 12212.25 * MIB, 0.01),
    "scratch": (SCRATCH, OLD, "a100-40gb", 5.9004 * GIB, 0.01),
    "scratch_round": (SCRATCH, OLD, "a100-40gb", 5.8906 * GIB, 0.01),
    "scratch_large": (SCRATCH, OLD, "a100-40gb", 22.5078 * GIB, 0.01),
}


class Published(harness.TestCase):
    def test_the_page_is_of_the_table(self):
        self.assertEqual(published.PAGE.read_text(), published.page(published.rows()), "run tests/plan/published.py")

    def planned(self, name):
        """The number that the program prints."""
        _, environment, device, _, _ = ROWS[name]
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTORCH", "SOFTGPU"))}
        variables.update(MEMPROF_BUILD=str(harness.BUILD), OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", DS_BUILD_OPS="0",
                         TMPDIR=str(self.folder))
        result = subprocess.run(
            [SOURCE / "tools" / "cuda-torch", *environment, "memprof", "plan", "--device", device, "--devices",
             "2" if "zero" in name else "1", "--stacks", "none", "-o", f"{self.folder}/", "--", "python3",
             HERE / "programs" / "published.py", name],
            capture_output=True, text=True, cwd=self.folder, timeout=600, env=variables)
        self.assertEqual(result.returncode, 0, result.stderr[-4000:])
        return int(result.stdout.split("MEASURED ")[1].split()[0])


def add(name, source, _environment, _device, published, off):
    def test(self):
        planned = self.planned(name)
        print(f"{name}: published {published / MIB:.1f} MiB, planned {planned / MIB:.1f}, "
              f"{100 * (planned / published - 1):+.2f} %, {source}", flush=True)
        # The published digits have float32's precision.
        self.assertLessEqual(abs(planned - published), max(off * published, 512 * 8))

    setattr(Published, f"test_{name}", test)


for each, row in ROWS.items() if asserted.LONG else ():
    add(each, *row)

if __name__ == "__main__":
    if not asserted.LONG:
        print("the short form leaves out a dozen plans, which take minutes")
    harness.main()
