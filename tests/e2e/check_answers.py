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

    def record(self, *programs, options=()):
        """The recordings of programs, which are children of one process."""
        rows = []
        for number, program in enumerate(programs):
            script = self.folder / f"program{number}.py"
            script.write_text(program)
            rows.append(([script], {}))
        found = harness.record_each(self.folder, rows, "--quiet", *options, python=self.python)
        self.assertEqual([status for _, status, *_ in found], [0] * len(programs), found)
        return [path for path, *_ in found]

    def test_requests_that_fail_one_after_the_other(self):
        """Each failed request is counted. The cause of a request larger than the machine's memory is capacity."""
        oom = harness.answer("frag", *self.record(HALVING))["oom"]
        self.assertEqual(oom["cause"], "capacity")
        self.assertEqual(oom["most_requested_bytes"], 256 << 40)
        self.assertEqual(oom["most_requested_bytes"] >> oom["times"] - 1, oom["requested_bytes"])

    def peaks_and_changes(self, *changes):
        """For each change of TRAIN, the peak, and advice about idle variables by the variable."""
        usual = {"made": "head(x)", "input": "logits", "delete": "pass", "backward": "loss.backward()", "read": "pass"}
        for path in self.record(*(TRAIN.format(**usual | parts) for parts in changes), options=("--holders", "--budget", "2s")):
            found = harness.answer("advise", path)
            yield found["peak_bytes"], {change["text"].split("`")[1]: change for change in found["changes"]
                                        if change["pattern"] == "idle_variable"}

    def test_a_variable_that_nothing_reads_again(self):
        """Deleting the variable saves what advice predicts. No advice if the variable is read later, or autograd's
        graph holds the tensor."""
        (before, changes), (without_logits, _), (without_state, _), (_, read), (_, held) = self.peaks_and_changes(
            {}, {"delete": "del logits"}, {"delete": "state = None"},
            {"read": "wrong += int((logits.argmax(1) != y).sum())"}, {"input": "logits.sin()"})
        logits, state = changes["train().logits"], changes["train().state"]
        self.assertIn("before backward()", logits["code"])
        self.assertTrue(logits["exact"])
        self.assertEqual(before - without_logits, logits["saved_bytes"])
        self.assertEqual(before - without_state, state["saved_bytes"])
        self.assertNotIn("train().logits", read)
        self.assertNotIn("before", held.get("train().logits", {"code": ""})["code"])

    def test_a_variable_that_only_views_lead_to(self):
        """Nodes of views save nothing. The loss of this backward may have saved more than the loss that has a name."""
        views, makers = {"input": "logits[0]"}, ("head(x[None])", "(x[None] @ head.weight.t())")
        more = ("(loss + (logits ** 2).mean()).backward()",
                "total = loss + (logits ** 2).mean(); total.backward(); total = total.item()")
        found = list(self.peaks_and_changes(
            *({**views, "made": made, "delete": delete} for made in makers for delete in ("pass", "del logits")),
            *({**views, "made": makers[-1], "backward": backward} for backward in more)))
        for (before, changes), (after, _) in (found[0:2], found[2:4]):
            logits = changes["train().logits"]
            self.assertIn("before backward()", logits["code"])
            self.assertEqual(before - after, logits["saved_bytes"])
        for _, changes in found[4:]:
            self.assertNotIn("before", changes.get("train().logits", {"code": ""})["code"])

    def test_a_leak_comes_first(self):
        """A leak that is most of the peak is the only advice. After the leak is mended, the peak falls by what advice
        predicts."""
        kept = ("net(torch.randn(256, 256)).detach()", "net(torch.randn(256, 256)).mean().item()")
        found, mended = (harness.answer("advise", path) for path in self.record(
            *(KEEPS.format(kept=each) for each in kept), options=("--holders",)))
        self.assertEqual({change["pattern"] for change in found["changes"]}, {"leak"})
        self.assertIn("kept[*]", found["changes"][0]["text"])
        saved = found["peak_bytes"] - mended["peak_bytes"]
        self.assertAlmostEqual(found["changes"][0]["saved_bytes"], saved, delta=saved / 20)


if __name__ == "__main__":
    harness.main()
