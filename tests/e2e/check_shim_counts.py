#!/usr/bin/env python3
"""Modules and roles at the peak, within 2 % of the programs' own count by hooks and tensors. Names and roles of single
tensors match exactly. $MEMPROF_TORCH_PYTHON names another PyTorch."""

import csv
import json
import os

import check_modules
import harness

PYTHON = harness.python_with_torch()
PROGRAM = harness.SOURCE / "tests" / "e2e" / "programs" / "counted.py"
WRAPPERS = PROGRAM.with_name("wrappers.py")
ROLES = {1: "parameter", 2: "gradient", 3: "optimizer_state", 4: "buffer"}
CATEGORIES = {"parameter": "parameters", "gradient": "gradients", "optimizer_state": "optimizer state",
              "buffer": "buffers"}
MODELS = ("cnn", "transformer", "lstm")


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Counted(harness.TestCase):
    def record(self, model, what):
        path, record = self.folder / f"{model}.mp", self.folder / f"{model}.json"
        result = harness.memprof("snapshot", "--force", "-o", path, "--", PYTHON, PROGRAM, record, model, what,
                                 env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        self.assertEqual(result.returncode, 0, result.stderr)
        return path, json.loads(record.read_text())

    def groups(self, path, by):
        peak = harness.answer("peak", path, "--group", by)
        return {site["group"]: site["bytes"] for site in peak["sites"]}

    def close(self, found, wanted, key):
        total = sum(wanted.values())
        wrong = sum(abs(found.get(name, 0) - wanted.get(name, 0)) for name in wanted)
        self.assertLessEqual(wrong, 0.02 * total, f"{key}: {found} {wanted}")

    def test_modules_at_the_peak(self):
        for model in MODELS:
            path, record = self.record(model, "modules")
            wanted = {module.partition(".")[2]: size for module, size in record["modules"]
                      if module and "." in module}  # the root is not shown
            # parameters, their gradients and optimizer state belong to their module, even if other code allocated them
            for role, tensors in record["roles"].items():
                for name, size in tensors.values():
                    path_of = name.split(".")[1:-2 if role == "optimizer_state" else -1]
                    if path_of:
                        wanted[".".join(path_of)] = wanted.get(".".join(path_of), 0) + size
            found = self.groups(path, "module")
            self.assertGreater(len(wanted), 1)
            self.close(found, wanted, model)
            beyond = sum(size for name, size in found.items() if name and name not in wanted and name.count("."))
            self.assertLessEqual(beyond, 0.02 * sum(wanted.values()), model)

    def test_roles_of_tensors(self):
        for model in MODELS:
            path, record = self.record(model, "roles")
            recording = check_modules.Recording(path)
            last = {}  # block by address: the last one there
            for block, address in recording.addresses.items():
                last[address] = max(block, last.get(address, 0))
            for role, tensors in record["roles"].items():
                for address, (name, _) in tensors.items():
                    labels = recording.labels.get(last[int(address)])
                    self.assertTrue(labels, f"{model}: nothing on {role} {name}")
                    self.assertEqual((ROLES[labels[-1][0]], labels[-1][1]), (role, name))
            # also the categories that readers derive without labels of all blocks
            wanted = {CATEGORIES[role]: sum(size for _, size in tensors.values())
                      for role, tensors in record["roles"].items()}
            self.close(self.groups(path, "category"), {name: size for name, size in wanted.items() if size}, model)

    def test_wrappers_leave_paths_as_they_are(self):
        """Covers DataParallel's replicas, DistributedDataParallel and FSDP, as well as checkpointing, parametrizations
        and torch.compile."""
        path, record = self.folder / "wrapped.mp", self.folder / "wrapped.json"
        since = {"bare": (1,), "distributed": (1,), "replicas": (1,), "checkpointed": (1,), "parametrized": (1,),
                 "sharded": (2,), "compiled": (2,), "sharded_anew": (2, 8)}
        result = harness.memprof("snapshot", "-o", path, "--", PYTHON, WRAPPERS, record, *since,
                                 env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        self.assertEqual(result.returncode, 0, result.stderr)
        record = json.loads(record.read_text())
        version = harness.torch_version(PYTHON)
        self.assertLessEqual({kind for kind in since if version >= since[kind]}, {*record["kinds"]}, result.stderr)
        found = check_modules.Recording(path).modules
        wrong = [(wanted, found[int(address)]) for address, wanted in record["modules"].items()
                 if found[int(address)] not in (wanted if isinstance(wanted, list) else [wanted])]
        self.assertFalse(wrong)
        table = self.folder / "parameters.csv"
        result = harness.memprof("export", path, "-o", table, "--format", "csv", "--filter", "category=parameters")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(table, newline="") as file:
            parameters = {int(row["address"], 16) for row in csv.DictReader(file) if not row["free_ns"]}
        self.assertLessEqual({*record["copies"]}, parameters)
        self.assertTrue(record["copies"] and record["sums"])
        self.assertFalse({*record["sums"]} & parameters)
        self.assertGreater(len(record["modules"]), 9 * len(record["kinds"]) - 1)


if __name__ == "__main__":
    harness.main()
