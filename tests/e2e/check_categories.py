#!/usr/bin/env python3
"""The categories of blocks at a peak, compared with the program's own count by role: within 2 % of the peak for each
category. Peaks are right before backward, or in the middle of it. Each case runs with PyTorch's facts about its tensors
and without (stacks and lifetimes alone)."""

import collections
import csv
import json

import harness

PYTHON = harness.python_with_torch()
ORACLE = harness.SOURCE / "tests" / "e2e" / "programs" / "category_oracle.py"
PHASES = harness.SOURCE / "tests" / "e2e" / "programs" / "phases.py"
OWNED = harness.SOURCE / "tests" / "e2e" / "programs" / "owned_by_modules.py"
NETWORKS = ("perceptron", "transformer", "residual", "recurrent", "competing", "checkpointed",
            "checkpointed without reentry", "adding gradients up", "half precision")
BALLAST = 96 << 20
WITHIN = 0.02


@harness.unittest.skipUnless(PYTHON, "no interpreter with torch")
class Categories(harness.TestCase):
    def check(self, when, *options):
        recording, counts = self.folder / "run.mp", self.folder / "counts.json"
        done = harness.memprof("snapshot", "-o", recording, "--force", *options, "--", PYTHON, ORACLE, counts,
                                when)
        self.assertEqual(done.returncode, 0, done.stderr)
        for i, want in enumerate(json.loads(counts.read_text(encoding="utf-8"))):
            step = f"step:{2 * i + 1}"
            peak = harness.answer("peak", recording, "--from", step, "--to", step)
            found = {row["category"]: row["bytes"] for row in peak["categories"]}
            temporary = found.pop("temporary") - BALLAST
            whole = peak["peak_bytes"] - BALLAST
            self.assertEqual(peak["phase"], "backward" if when == "inside" else None)
            if when == "before":
                # Not compared in backward, where it is all that nobody counts.
                want["temporary"], found["temporary"] = 0, temporary
            self.assertGreater(whole, 4 << 20)
            for role in {*want, *found}:
                with self.subTest(NETWORKS[i], when=when, options=options, role=role, want=want, found=found):
                    self.assertLess(abs(found.get(role, 0) - want.get(role, 0)), WITHIN * whole)

    def test_as_recorded_by_default(self):
        self.check("before")
        self.check("inside")

    def test_by_stacks_and_lifetimes_alone(self):
        self.check("before", "--no-shim")
        self.check("inside", "--no-shim")


@harness.unittest.skipUnless(PYTHON, "no interpreter with torch")
class Owned(harness.TestCase):
    """Parameters, gradients and optimizer state of each module equal the program's count, to the byte."""

    def check(self, name):
        recording, counts = self.folder / "run.mp", self.folder / "counts.json"
        done = harness.memprof("snapshot", "-o", recording, "--", PYTHON, OWNED, name, counts)
        self.assertEqual(done.returncode, 0, done.stderr)
        owned = json.loads(counts.read_text(encoding="utf-8"))
        for role, want in owned.items():
            found = harness.answer("peak", recording, "--group", "module", "-n", 0, "--filter", f"role={role}")["sites"]
            found = {row["group"]: row["bytes"] for row in found}
            self.assertEqual(found, want, role)

    def test_a_language_model(self):
        self.check("language")

    def test_a_convolution(self):
        self.check("images")

    def test_a_recurrent_network(self):
        self.check("recurrent")


@harness.unittest.skipUnless(PYTHON, "no interpreter with torch")
class Phases(harness.TestCase):
    """Validation inside of training is inference: its blocks are working memory, or kept over calls. Training's blocks
    are neither. The running functions show which is which."""

    KEPT = {"working memory", "kept over calls"}

    def blocks(self, recording, category):
        rows = self.folder / "blocks.csv"
        rows.unlink(missing_ok=True)
        done = harness.memprof("export", recording, "--format", "csv", "-o", rows, "--filter", f"category={category}")
        self.assertTrue(rows.exists() or "picks none" in done.stderr, done.stderr)
        if not rows.exists():
            return []
        with open(rows, newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))

    def check(self, name):
        recording = self.folder / "run.mp"
        done = harness.memprof("snapshot", "--force", "-o", recording, "--", PYTHON, PHASES, name)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = collections.Counter()
        for category in (*self.KEPT, "activations", "temporary"):
            for row in self.blocks(recording, category):
                called = "Module._call_impl" in row["stack"] and "backward of" not in row["stack"]
                function = "validate" if "validate (" in row["stack"] else "train" if called else "-"
                made[function, category in self.KEPT] += called
        self.assertGreater(made["validate", True], 20)
        self.assertGreater(made["train", False], 100)
        self.assertEqual((made["validate", False], made["train", True]), (0, 0), made)
        peak = harness.answer("peak", recording, "-n", "0")  # batches of validation are the largest
        self.assertTrue(any("validate" in (line["function"] or "") for line in peak["sites"][0]["stack"]))
        self.assertEqual(peak["phase"], "inference")
        self.assertIn("in inference", harness.memprof("report", recording).stdout.split("\n\n")[1])
        first = harness.answer("peak", recording, "--from", "step:2", "--to", "step:3")
        self.assertNotEqual(first["phase"], "inference")
        self.assertFalse(self.KEPT & {row["category"] for row in first["categories"]}, first["categories"])

    def test_few_blocks(self):
        self.check("perceptron")

    def test_predictions_that_are_kept(self):
        self.check("images")

    def test_a_trainer(self):
        self.check("words")

    def check_server(self, name):
        recording = self.folder / "run.mp"
        done = harness.memprof("snapshot", "--force", "-o", recording, "--", PYTHON, PHASES, name)
        self.assertEqual(done.returncode, 0, done.stderr)
        peak = harness.answer("peak", recording)
        found = {row["category"]: row["bytes"] for row in peak["categories"]}
        self.assertEqual(peak["phase"], "inference")
        self.assertFalse({"activations", "gradients", "previous graph"} & found.keys(), found)
        kept = sum(int(row["bytes"]) for row in self.blocks(recording, "kept over calls"))
        self.assertEqual(kept, int(done.stdout))
        requests = [row for row in self.blocks(recording, "input") if int(row["bytes"]) == 16 * 64 * 4]
        self.assertGreater(len(requests), 290)

    def test_servers_that_keep_much_little_and_nothing(self):
        for name in ("server", "server_of_few", "forgetful_server"):
            with self.subTest(name):
                self.check_server(name)


KEYS = """
import sys, torch
from torch import nn
class KVCache:
    def __init__(self): self.tensors = {}
    def update(self, at, new):
        old = self.tensors.get(at)
        self.tensors[at] = torch.cat([old, new], 1) if old is not None else new
        return self.tensors[at]
def joined(kept, at, new):
    kept[at] = torch.cat([kept[at], new], 1) if kept[at] is not None else new
    return kept[at]
layers, head = nn.ModuleList(nn.Linear(64, 64) for _ in range(3)), nn.Linear(64, 100)
embed = nn.Embedding(100, 64)
with torch.no_grad():
    for request in range(2):
        cache, plain, tokens = KVCache(), [None] * 3, torch.zeros((2, 40), dtype=torch.long)
        for step in range(20):
            x = embed(tokens)
            for at, layer in enumerate(layers):
                x = layer(x)
                keys = cache.update(at, x) if sys.argv[1] == "class" else joined(plain, at, x)
                x = x + keys.mean(1, keepdim=True)
            tokens = head(x[:, -1:]).argmax(-1)
"""
LENGTHS = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
for step in range(40):
    batch = torch.cat([torch.ones(int(torch.randint(50, 400, ())), 64) for _ in range(2)])
    model(batch).sum().backward()
    model.zero_grad()
"""


@harness.unittest.skipUnless(PYTHON, "no interpreter with torch")
class Joined(harness.TestCase):
    """A tensor that each call joins with a new one is no call's input. The stack may show that it is a cache of keys."""

    blocks = Phases.blocks

    def made(self, program, *arguments):
        path, recording = self.folder / "program.py", self.folder / "run.mp"
        path.write_text(program)
        done = harness.memprof("snapshot", "--force", "-o", recording, "--", PYTHON, path, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = {}
        for category in ("KV cache", "kept over calls", "input"):
            rows = [row for row in self.blocks(recording, category) if "_ops::cat" in row["stack"]]
            if rows:
                made[category] = len(rows)
        return made

    def test_keys_and_values(self):
        made = 2 * 3 * 19
        self.assertEqual(self.made(KEYS, "list"), {"kept over calls": made})
        self.assertEqual(self.made(KEYS, "class"), {"KV cache": made})

    def test_batches_of_random_lengths(self):
        found = self.made(LENGTHS)
        self.assertEqual(list(found), ["input"])
        self.assertGreater(found["input"], 30)


CLOSURE = """
import torch
from torch import nn
class Normalized(torch.optim.Optimizer):
    def __init__(self, parameters): super().__init__(parameters, {})
    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]: self.update(parameter)
    @torch.no_grad()
    def update(self, parameter):
        state = self.state[parameter]
        if not state: state["mean"] = parameter.grad.clone()
        parameter.sub_(self.scaled(state["mean"].lerp_(parameter.grad, 0.1)))
    def scaled(self, mean): return 1e-3 * mean / mean.norm()
first, second = nn.Linear(64, 256), nn.Linear(256, 8)
inner, outer, kept = torch.optim.SGD(first.parameters(), 0.1, momentum=0.9), Normalized(second.parameters()), []
def closure():
    features = torch.relu(first(torch.randn(500, 64)))
    kept.append(features.detach())
    loss = second(features).square().mean()
    loss.backward()
    return loss
for step in range(15):
    inner.step(closure)
    outer.step()
    inner.zero_grad()
    outer.zero_grad()
"""


@harness.unittest.skipUnless(PYTHON, "no interpreter with torch")
class Closures(harness.TestCase):
    """An optimizer's step runs the training if that is its closure. What the training keeps is no optimizer state."""

    def test_a_closure_and_an_optimizer_of_the_program(self):
        program, recording = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(CLOSURE)
        done = harness.memprof("snapshot", "--no-shim", "-o", recording, "--", PYTHON, program)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {row["category"]: row["bytes"] for row in harness.answer("peak", recording)["categories"]}
        self.assertEqual(found["optimizer state"], 4 * (64 * 256 + 256 + 256 * 8 + 8), found)


if __name__ == "__main__":
    harness.main()
