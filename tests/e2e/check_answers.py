#!/usr/bin/env python3
"""Answers about small programs as users write them: blocks needlessly live at the peak, holders, failures."""

import harness

HALVING = """
import torch
count = 1 << 40
while True:
    try:
        torch.empty(count, 64)
        break
    except RuntimeError:
        count //= 2
"""

TRAIN = """
import torch
head = torch.nn.Linear(64, 16384)
torch.save([torch.zeros(1 << 20), {{"weight": head.weight}}], "checkpoint.pt")
def train():
    state = torch.load("checkpoint.pt")
    head.load_state_dict(state[1], strict=False)
    optimizer, wrong = torch.optim.SGD(head.parameters(), 0.1), 0
    for step in range(12):
        x, y = torch.randn(128, 64), torch.randint(0, 16384, (128,))
        logits = {made}
        loss = torch.nn.functional.cross_entropy({input}, y)
        {delete}
        {backward}
        {read}
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
train()
"""

KEEPS = """
import torch
net = torch.nn.Linear(256, 256)
optimizer, kept = torch.optim.SGD(net.parameters(), 0.1), []
for step in range(30):
    loss = net(torch.randn(256, 256)).sin().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    kept.append({kept})
"""


class Answers(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.python = harness.python_with_torch()
        if not self.python:
            self.skipTest("no Python with PyTorch")

    def record(self, program, *options):
        script, file = self.folder / "program.py", self.folder / "run.mp"
        script.write_text(program)
        result = harness.memprof("snapshot", "--quiet", "-o", file, *options, "--", self.python, script)
        self.assertEqual(result.returncode, 0, result.stderr)
        return file

    def test_requests_that_fail_one_after_the_other(self):
        """Each failed request is counted. The cause of a request larger than the machine's memory is capacity."""
        oom = harness.answer("frag", self.record(HALVING))["oom"]
        self.assertEqual(oom["cause"], "capacity")
        self.assertEqual(oom["most_requested_bytes"], 256 << 40)
        self.assertEqual(oom["most_requested_bytes"] >> oom["times"] - 1, oom["requested_bytes"])

    def peak_and_changes(self, **parts):
        parts = {"made": "head(x)", "input": "logits", "delete": "pass", "backward": "loss.backward()", "read": "pass"} | parts
        (self.folder / "run.mp").unlink(missing_ok=True)
        found = harness.answer("advise", self.record(TRAIN.format(**parts), "--holders", "--budget", "2s"))
        return found["peak_bytes"], {change["text"].split("`")[1]: change for change in found["changes"]
                                     if change["pattern"] == "idle_variable"}

    def test_a_variable_that_nothing_reads_again(self):
        """Deleting the variable saves what advice predicts. No advice if the variable is read later, or autograd's
        graph holds the tensor."""
        before, changes = self.peak_and_changes()
        logits, state = changes["train().logits"], changes["train().state"]
        self.assertIn("before backward()", logits["code"])
        self.assertTrue(logits["exact"])
        after, _ = self.peak_and_changes(delete="del logits")
        self.assertEqual(before - after, logits["saved_bytes"])
        after, _ = self.peak_and_changes(delete="state = None")
        self.assertEqual(before - after, state["saved_bytes"])
        _, changes = self.peak_and_changes(read="wrong += int((logits.argmax(1) != y).sum())")
        self.assertNotIn("train().logits", changes)
        _, changes = self.peak_and_changes(input="logits.sin()")
        self.assertNotIn("before", changes.get("train().logits", {"code": ""})["code"])

    def test_a_variable_that_only_views_lead_to(self):
        """Nodes of views save nothing. The loss of this backward may have saved more than the loss that has a name."""
        views = {"input": "logits[0]"}
        for made in ("head(x[None])", "(x[None] @ head.weight.t())"):
            before, changes = self.peak_and_changes(made=made, **views)
            logits = changes["train().logits"]
            self.assertIn("before backward()", logits["code"])
            after, _ = self.peak_and_changes(made=made, delete="del logits", **views)
            self.assertEqual(before - after, logits["saved_bytes"])
        for backward in ("(loss + (logits ** 2).mean()).backward()",
                         "total = loss + (logits ** 2).mean(); total.backward(); total = total.item()"):
            _, changes = self.peak_and_changes(made=made, backward=backward, **views)
            self.assertNotIn("before", changes.get("train().logits", {"code": ""})["code"])

    def test_a_leak_comes_first(self):
        """A leak that is most of the peak is the only advice. After the leak is mended, the peak falls by what advice
        predicts."""
        def ask(**parts):
            (self.folder / "run.mp").unlink(missing_ok=True)
            return harness.answer("advise", self.record(KEEPS.format(**parts), "--holders"))
        found = ask(kept="net(torch.randn(256, 256)).detach()")
        self.assertEqual({change["pattern"] for change in found["changes"]}, {"leak"})
        self.assertIn("kept[*]", found["changes"][0]["text"])
        mended = ask(kept="net(torch.randn(256, 256)).mean().item()")
        saved = found["peak_bytes"] - mended["peak_bytes"]
        self.assertAlmostEqual(found["changes"][0]["saved_bytes"], saved, delta=saved / 20)


if __name__ == "__main__":
    harness.main()
