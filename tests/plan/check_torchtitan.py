#!/usr/bin/env python3
"""The memory that TorchTitan's authors and others published for real H100s and H200s, compared with plans of the same
trainings. Only in the long form: it installs TorchTitan, and a plan takes up to a minute.

Published: https://github.com/pytorch/torchtitan/tree/main/benchmarks, llama3_h100_202412_torchtitan.md (its tables are
numbered here) and llama3-8b_h200_202506_trainy-whitefiber.md. "Memory" there is the highest reserved memory, in GiB."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cuda_torch"))
sys.dont_write_bytecode = True
os.environ["MEMPROF_TORCH"] = "2.7.1"  # TorchTitan 0.1.0 needs an old one
if not os.environ.get("MEMPROF_TEST_LONG"):
    print("the short form leaves this out: plans of TorchTitan take minutes")
    sys.exit(77)
import bed  # noqa: E402  (first: it goes into the environment)
import experts  # noqa: E402
import harness  # noqa: E402

PACKAGES = "torchtitan==0.1.0 torchao==0.11.0 tyro==0.9.19 typeguard docstring-parser rich shtab pygments".split()
CACHE = pathlib.Path(os.environ.get("MEMPROF_ENVIRONMENTS", os.path.expanduser("~/.cache/memprof")), "torchtitan-0.1.0")
GIB = 1 << 30

SELECTIVE = "--activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option op"
FULL = "--activation_checkpoint.mode full"
COMPILE = "--training.compile"
FLOAT8 = ("--training.compile --model.converters float8 --float8.enable_fsdp_float8_all_gather "
          "--float8.precompute_float8_dynamic_scale_for_fsdp --float8.filter_fqns output")
SMALL = f"--model.flavor 8B --training.local_batch_size 2 --training.seq_len 8192 {SELECTIVE}"
LONG = f"--model.flavor 8B --training.local_batch_size 1 {FULL} {FLOAT8}"
LARGE = f"--model.flavor 70B --training.local_batch_size 16 --training.seq_len 8192 {FULL} {FLOAT8}"
# The trainer of 2024 made as many micro-batches as stages.
PIPELINE = (f"--model.flavor 405B --training.local_batch_size 32 --training.seq_len 8192 {FULL} {FLOAT8} "
            "--parallelism.tensor_parallel_degree 8 --parallelism.pipeline_parallel_degree 8 "
            "--parallelism.pipeline_parallel_schedule 1F1B --parallelism.pipeline_parallel_microbatch_size 4")
TRAINY = f"{SMALL} {FLOAT8} --float8.force_recompute_fp8_weight_in_bwd --compiled-loss"
# Table 2 fits only with expandable segments, which TorchTitan's script for one machine sets; tables 1 and 3 only without.
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
ROWS = {  # table and row: GPUs, arguments, published GiB, how far a plan may be off
    "1_fsdp": (8, SMALL, 82.4, 0.01),
    "1_compile": (8, f"{SMALL} {COMPILE}", 77.0, 0.01),
    "1_float8": (8, f"{SMALL} {FLOAT8}", 76.8, 0.01),
    "2_32768": (8, f"{LONG} --training.seq_len 32768", 83.9, 0.01),
    "2_65536": (8, f"{LONG} --training.seq_len 65536 --parallelism.context_parallel_degree 2", 84.2, 0.01),
    "2_262144": (8, f"{LONG} --training.seq_len 262144 --parallelism.context_parallel_degree 8", 84.5, 0.01),
    "5_first_stage": (512, PIPELINE, 82.5, 0.04),
    "3_fsdp": (128, SMALL, 67.0, 0.01),
    "3_compile": (128, f"{SMALL} {COMPILE}", 62.0, 0.01),
    "3_float8": (128, f"{SMALL} {FLOAT8}", 61.8, 0.01),
    "4_2d": (256, f"{LARGE} --parallelism.tensor_parallel_degree 8", 71.9, 0.01),
    "trainy_4_nodes": (32, TRAINY, 47.96, 0.01),
    "trainy_8_nodes": (64, TRAINY, 46.97, 0.01),
}


def packages():
    """The folder of TorchTitan without its needs for data and logs, installed once."""
    if not (CACHE / "made").exists():
        result = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                                 "--upgrade", "--target", CACHE, *PACKAGES], env=bed.settings(LD_PRELOAD=""))
        if result.returncode:
            print("pip could not install TorchTitan")
            sys.exit(77)
        (CACHE / "made").touch()
    return CACHE


class Published(bed.TestCase):
    def planned(self, gpus, arguments, **variables):
        """The highest reserved bytes of rank 0."""
        result = subprocess.run(
            [harness.MEMPROF, "plan", "--device", "95GiB", "--world-size", str(gpus), "--stacks", "none", "-o", "plan.mp", "--",
             sys.executable, HERE / "programs" / "titan.py", "--model.name", "llama3", "--optimizer.name", "AdamW",
             "--training.steps", "3", *arguments.split()],
            capture_output=True, text=True, cwd=self.folder, timeout=600,
            env=bed.settings(TMPDIR=self.folder, PYTHONPATH=packages(), OMP_NUM_THREADS=1, **variables))
        self.assertEqual(result.returncode, 0, result.stderr[-4000:])
        return next(track["reserved_peak_bytes"] for track in harness.answer("info", self.folder / "plan.mp")["tracks"]
                    if track["id"] == "cuda:0/torch")


    def test_experts(self):
        for library in ("titan", "titan_top1"):
            with self.subTest(library):
                experts.assert_near(self, library, 0.01, bed.settings(PYTHONPATH=packages(), OMP_NUM_THREADS=1))


def add(name, gpus, arguments, published, off):
    def test(self):
        planned = self.planned(gpus, arguments, **(EXPANDABLE if name.startswith("2_") else {})) / GIB
        print(f"{name}: published {published}, planned {planned:.2f} GiB, {100 * (planned / published - 1):+.2f} %", flush=True)
        self.assertLessEqual(abs(planned / published - 1), off)

    setattr(Published, f"test_{name}", test)


for each, row in ROWS.items():
    add(each, *row)

if __name__ == "__main__":
    bed.main()
