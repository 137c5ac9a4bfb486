#!/usr/bin/env python3
"""Every kind of change of `memprof advise` is in the manual, the manual page and the reference, and its text agrees
with its JSON. The other tests here check each kind's saving by making the change."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench
import harness
import advice_text

# By the name in JSON: what docs/manual/advise.md and the manual page say about it.
KINDS = {
    "settings": ("`PYTORCH_CUDA_ALLOC_CONF`", "settings of PyTorch's caching allocator"),
    "phase_settings": ("change settings during its run", "for one phase"),
    "late_zero_grad": ("live over forward", "blocks that live longer than they are needed"),
    "gradients_kept": ("`zero_grad(set_to_none=True)`", "blocks that live longer than they are needed"),
    "gradients_idle": ("no optimizer uses", "blocks that live longer than they are needed"),
    "held_variables": ("`del` it behind `backward()`", "blocks that live longer than they are needed"),
    "garbage": ("waits for Python's collector", "blocks that live longer than they are needed"),
    "cycle": ("a cycle through C++", "blocks that live longer than they are needed"),
    "kept_graph": ("kept outputs hold graphs", "blocks that live longer than they are needed"),
    "leak": ("stop what grows", "blocks that live longer than they are needed"),
    "idle_variable": ("nothing reads again", "blocks that live longer than they are needed"),
    "no_grad": ("`with torch.no_grad():`", "blocks that live longer than they are needed"),
    "backward_sooner": ("losses of micro-batches", "blocks that live longer than they are needed"),
    "chunked_loss": ("the loss in eight chunks of tokens", "logits that a loss can take in chunks"),
    "evaluation_batch": ("the evaluation is the peak", "an evaluation's batch"),
    "one_by_one": ("`foreach=False`", "temporaries of an optimizer's step"),
    "fused": ("`fused=True`", "temporaries of an optimizer's step"),
    "eight_bit": ("Adam's state in 8 bits", "Adam's state in 8 bits"),
    "sparse": ("gradients of embeddings", "gradients of embeddings"),
    "gathered": ("joins the outputs of all batches", "outputs that are joined"),
    "one_stream": ("side streams", "side streams"),
    "checkpoint": ("`torch.utils.checkpoint`", "made again in backward"),
    "collect": ("garbage collector after each step", "the garbage collector"),
    "autocast": ("forward in bfloat16", "autocast"),
}


def read(*parts):
    return re.sub(r"\s+", " ", harness.SOURCE.joinpath(*parts).read_text())


class Kinds(harness.TestCase):
    def test_each_is_documented(self):
        names = re.search(r"names\[MP_CHANGE_PATTERNS\] = \{(.*?)\}", read("src", "analysis", "advise", "advise.c"))[1]
        self.assertEqual(set(re.findall(r'"(\w+)"', names)), set(KINDS))
        manual, page = read("docs", "manual", "advise.md"), harness.memprof("help", "--man", "advise").stdout.replace("\\", "")
        reference, = (line for line in harness.SOURCE.joinpath("docs", "manual", "reference.md").read_text().splitlines()
                      if "memprof.advise/1" in line)
        page = re.sub(r"\s+", " ", page)
        for name, (in_manual, on_page) in KINDS.items():
            self.assertIn(f"`{name}`", reference)
            self.assertIn(in_manual, manual, name)
            self.assertIn(on_page, page, name)

    @harness.unittest.skipUnless(bench.PYTHON, "no Python here has torch")
    def test_text_and_json_agree(self):
        """The advice on a training with several kinds of habits; advice_text.py notices wrong texts."""
        path = bench.record(self.folder, "decoder", "held,late,foreach")
        options = ("-n", "0", "--track", "cpu/torch")
        found = harness.answer("advise", path, *options)
        self.assertGreater(len({change["pattern"] for change in found["changes"]}), 2)
        text = harness.memprof("advise", path, *options).stdout
        self.assertEqual(advice_text.differences(found, text), [])
        for change in found["changes"]:
            for key, value in (("saved_bytes", change["saved_bytes"] // 2), ("text", "another"), ("cost", "another"),
                               ("code", "another"), ("peak_bytes", 2 * change["peak_bytes"])):
                kept, change[key] = change[key], value
                self.assertEqual(len(advice_text.differences(found, text)), 1, key)
                change[key] = kept

    def test_kinds_that_are_gone(self):
        """Before the recording is read, a sentence says which command proves such changes."""
        for kind, instead in (("precision", "memprof compare"), ("optimizer", "--kind lifetime"), ("offload", "memprof compare"),
                              ("shard", "memprof plan"), ("cheaper", "allocator, checkpoint and lifetime")):
            refused = harness.memprof("advise", "none.mp", "--kind", f"lifetime,{kind}")
            self.assertEqual(refused.returncode, 2)
            self.assertIn(instead, refused.stderr)
            self.assertIn(kind, refused.stderr)


if __name__ == "__main__":
    harness.main()
