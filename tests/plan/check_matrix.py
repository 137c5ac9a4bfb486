#!/usr/bin/env python3
"""Each GPU of the table runs each operator, module and optimizer of PyTorch's own lists (op_db, module_db, optim_db),
forward and backward, in float32 and bfloat16. All GPUs run one sample for each entry; one GPU of each compute capability
runs all samples."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cuda_torch")]
sys.dont_write_bytecode = True
import bed  # noqa: E402  (first: it goes into the environment)
import harness  # noqa: E402

UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, None: 1}
RNN = "cuDNN error: not imitated by the stand-in of cuDNN"
# What an entry says that cannot run where nothing is computed; `memprof plan` knows the values that the host made, and
# takes PyTorch's own recurrent layers in place of cuDNN's.
NEED_VALUES = {"_segment_reduce.lengths": "Expected all rows of lengths along axis to sum to",
               **{f"module nn.{name} {mode}": RNN for name in ("RNN", "GRU", "LSTM") for mode in ("train", "eval")}}
# Open: an assertion of BatchLinearAlgebra.cpp fails; the missing answer of the stand-in of cuSOLVER is not known.
DEFECTS = {name: "INTERNAL ASSERT FAILED" for name in ("linalg.eig", "linalg.eigvals")}
NO_KERNEL = {"sparse.mm.reduce": "Could not run 'aten::_sparse_mm_reduce_impl'",
             "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "Could not run"}


def devices():
    """{name: keys} of the table, with numbers in bytes."""
    found, common = {}, {}
    for part in re.split(r"^\[", (bed.SOURCE / "src" / "softgpu" / "devices").read_text(), flags=re.M)[1:]:
        name, lines = part.split("]", 1)
        keys = {key: re.sub(r"^([\d.]+)([GMK]iB)$", lambda at: str(int(float(at[1]) * UNITS[at[2]])), value)
                for key, value in re.findall(r"^(\w+) = (.*)$", lines, re.M)}
        if name == "any":
            common = keys
        else:
            found[name] = common | keys
    return found


def variables(keys):
    profile = ["kernels=1", *(f"{key}={keys[key]}" for key in ("name", "cc", "sms", "l2", "graph_node", "cublas", "nccl"))]
    return {"SOFTGPU_MEMORY": keys["total"], "SOFTGPU_CONTEXT": keys["context"], "SOFTGPU_PROFILE": ";".join(profile)}


class Matrix(bed.TestCase):
    def run_on(self, names, samples, command=()):
        """One result for each device and kind of numbers."""
        table = {name: variables(keys) for name, keys in devices().items()}
        result = subprocess.run(
            [*command, "python3", HERE / "programs" / "operators.py", json.dumps({name: table[name] for name in names}), str(samples)],
            capture_output=True, text=True, env=bed.settings(SOFTGPU_CUDNN=os.environ.get("SOFTGPU_CUDNN", "")), cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]

    def hold(self, rows, names):
        cells = 0
        self.assertEqual({row["device"] for row in rows}, set(names))
        for row in rows:
            if "no_code" in row:
                self.assertIn("no kernel image is available for execution on the device", row["no_code"])
                continue
            self.assertNotIn("died", row)
            for name, error in row["errors"].items():
                known = {**NEED_VALUES, **NO_KERNEL, **DEFECTS}.get(name)
                self.assertTrue(known and known in error, (row["device"], row["dtype"], name, error))
            self.assertGreater(row["ran"], 500)
            cells += row["entries"]
        print(f"{len(names)} GPUs, {sum('no_code' in row for row in rows)} without code, {cells} cells, "
              f"{sum(row.get('ran', 0) for row in rows)} samples, {sum(row.get('seconds', 0) for row in rows):.0f} s", flush=True)

    def test_one_of_each_capability(self):
        names = list({keys["cc"]: name for name, keys in devices().items()}.values())
        self.assertGreaterEqual(len(names), 10)
        self.hold(self.run_on(names, 0), names)

    def test_ada(self):
        self.hold(self.run_on(["rtx4090"], 1), ["rtx4090"])

    def test_each_device(self):
        names = list(devices())
        self.hold(self.run_on(names, 1), names)

    def test_planned(self):
        plan = [harness.MEMPROF, "plan", "--stacks", "none", "-o", f"{self.folder}/plans/", "--force", "--"]
        rows = self.run_on(["rtx4090"], 1, plan)
        self.hold(rows, ["rtx4090"])
        self.assertEqual([name for row in rows for name, error in row["errors"].items() if error == RNN], [])


if __name__ == "__main__":
    bed.main()
