#!/usr/bin/env python3
"""Each GPU of the table plans each entry of PyTorch's own lists of operators, modules and optimizers (op_db and
others), forward and backward.

* The short form runs one float32 sample of each entry on one GPU of each compute capability, with the newest PyTorch.
* The long form runs one sample on all GPUs, with all versions, in float32 and bfloat16. On one GPU of each compute
  capability it also runs all samples, and operators in the sizes of real training.
"""
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

LONG = os.environ.get("MEMPROF_TEST_LONG")
UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, None: 1}
# Messages of entries that need computed values, and of entries for which PyTorch has no CUDA kernel.
NEED_VALUES = {"cov": "cov(): weights sum to zero",
               "_segment_reduce.lengths": "Expected all rows of lengths along axis to sum to"}
NO_KERNEL = {"sparse.mm.reduce": "Could not run 'aten::_sparse_mm_reduce_impl'",
             "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu": "Could not run"}
# PyTorch's own refusal of a GPU that is too old.
TOO_OLD = re.compile("compute capability|only support(s|ed on)|sm80|SM ?[89]0|No available kernel|cutlassF: no kernel found")
# The library of pip's PyTorch 2.11 and 2.13 that has LU has no code for the T4, so LU fails on a T4, too.
NO_CODE = ("t4", re.compile(r"(linalg\.)?lu(_\w+)?$"), "no kernel image is available for execution on the device")


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
    def plan(self, names, *what):
        """Plans the lists on each GPU; prints and checks one result for each GPU and kind of numbers."""
        table = {name: variables(keys) for name, keys in devices().items() if name in names}
        result = subprocess.run(
            [harness.MEMPROF, "plan", "--stacks", "none", "-o", f"{self.folder}/plans/", "--force", "--", "python3",
             HERE / "programs" / "operators.py", json.dumps(table), *what],
            capture_output=True, text=True, env=bed.settings(), cwd=self.folder)
        rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        self.assertEqual({row["device"] for row in rows}, set(names), result.stderr)
        counts = dict.fromkeys(("entries", "ran", "no kernel", "needs values", "out of memory", "too old"), 0)
        defects = []
        for row in rows:
            if "no_code" in row:
                self.assertIn("no kernel image is available for execution on the device", row["no_code"])
                continue
            self.assertNotIn("died", row)
            for name, error in row["errors"].items():
                kind = next((kind for kind, known in (("no kernel", NO_KERNEL), ("needs values", NEED_VALUES))
                             if known.get(name, "\0") in error), None)
                kind = kind or ("out of memory" if error.startswith("OutOfMemoryError") and "PROGRAMS" in what else
                                "too old" if TOO_OLD.search(error) or (row["device"] == NO_CODE[0] and
                                                                       NO_CODE[1].match(name) and NO_CODE[2] in error)
                                else None)
                if kind:
                    counts[kind] += 1
                else:
                    defects.append((row["device"], row["dtype"], name, error))
            counts["entries"] += row["entries"]
            counts["ran"] += row["ran"]
        print(f"{len(names)} GPUs, {sum('no_code' in row for row in rows)} without code, {counts}", flush=True)
        self.assertEqual(defects, [])
        self.assertTrue(counts["ran"] or all("no_code" in row for row in rows))

    def capabilities(self):
        names = list({keys["cc"]: name for name, keys in devices().items()}.values())
        self.assertGreaterEqual(len(names), 10)
        return names

    def test_one_of_each_capability(self):
        self.plan(self.capabilities(), "1", "float32", *(["bfloat16"] if LONG else []))

    @unittest.skipUnless(LONG, "long")
    def test_each_device(self):
        self.plan(list(devices()), "1")

    @unittest.skipUnless(LONG, "long")
    def test_all_samples(self):
        self.plan(self.capabilities(), "0")

    @unittest.skipUnless(LONG and not bed.VERSION, "long, with the newest PyTorch")
    def test_sizes(self):
        self.plan(os.environ.get("GPUS", "").split() or self.capabilities(), "SIZES")

    @unittest.skipUnless(LONG and bed.VERSION in (None, "", "2.9.1", "2.13.0"), "long, with the newest PyTorch, 2.13 and 2.9.1")
    def test_programs(self):
        self.plan(list(devices()), "PROGRAMS")


if __name__ == "__main__":
    bed.main()
