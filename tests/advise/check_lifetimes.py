#!/usr/bin/env python3
"""`memprof advise` on lifetimes, checked by doing it: trainings on the CPU with each change made. Another counter
measures them. Predictions come from a recording of the unchanged program alone.
"""
import os
import sys
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench
import harness

KINDS = ("--kind", "lifetime")
RECURRENT = """
import torch
from torch import nn
cell, head = nn.GRUCell(32, 256), nn.Linear(256, 32)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], 0.1)
for step in range(4):
    rows, state, loss = torch.randn(8, 64, 32), torch.zeros(64, 256), 0
    for row in rows:
        state = cell(row, state)
        loss = loss + nn.functional.mse_loss(head(state), row) / 8
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
"""
KEEPS_FEATURES = """
import torch
from torch import nn
body, head = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()), nn.Linear(256, 500)
optimizer, kept = torch.optim.SGD([*body.parameters(), *head.parameters()], 0.1), []
def network(rows):
    features = body(rows)
    return features, head(features)
for epoch in range(4):
    for step in range(4):
        optimizer.zero_grad()
        network(torch.randn(64, 32))[1].square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for batch in range(3):
            kept.append(network(torch.randn(64, 32)))
"""
KEEPS_GRAPHS = """
import torch
from torch import nn
model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.LayerNorm(256), nn.Tanh())])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
def evaluate():
    logits = []
    for batch in range(12):
        logits.append(model(torch.randn(64, 256)))
    return logits
result = evaluate()
"""
EVALUATES = """
import sys
import unittest.mock
import torch
from torch import nn
model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.LayerNorm(256), nn.Tanh())])
right = 0
with torch.set_grad_enabled("no_grad" not in sys.argv):
    for batch in range(12):
        logits = model(torch.randn(512, 256))
        right += int(logits.argmax(-1).sum())
"""
# Each step's logits stay for a metric at the end, whatever the loss takes.
SCORES = """
import torch
from torch import nn
body, head = nn.Linear(64, 256), nn.Linear(256, 4000)
scores = []
def learn(x, y):
    logits = head(body(x).relu())
    loss = nn.functional.cross_entropy(logits, y)
    loss.backward()
    scores.append(logits.detach())
for step in range(24):
    learn(torch.randn(64, 64), torch.randint(0, 4000, (64,)))
print(torch.cat(scores).argmax(-1).float().mean())
"""

# The reader's table is not read again; it is an attribute of a variable, and the plain one is a variable.
UNREAD = """
import torch
from torch import nn
class Reader:
    pass
def work():
    reader, head = Reader(), nn.Linear(512, 2048)
    reader.table, plain = torch.randn(1024, 512), torch.randn(1024, 512)
    index = head(reader.table) + head(plain)
    for _ in range(4):
        index = index + head(torch.randn(1024, 512))
    return index.sum()
with torch.no_grad():
    work()
"""

# Statistics of a hook: nobody detaches them, and no backward ever runs.
DRIFTS = """
import sys
import torch
from torch import nn
body = nn.Sequential(nn.Linear(128, 512), nn.Tanh(), nn.Linear(512, 64))
class Drift:
    mean = torch.zeros(64)
    def watch(self, module, inputs, output):
        mean = output.mean(0)
        self.mean = 0.9 * self.mean + 0.1 * (mean.detach() if "detach" in sys.argv else mean)
drift = Drift()
body.register_forward_hook(drift.watch)
for window in range(60):
    body(torch.randn(64, 128))
"""

GATHERS = """
import sys, torch
from torch import nn
form, reduces = sys.argv[1:3]
V = 2000
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.body, self.head = nn.Embedding(V, 64), nn.Linear(64, 64), nn.Linear(64, V)
    def forward(self, x):
        logits = self.head(torch.tanh(self.body(self.embedding(x))))
        if form == "loss":  # as transformers' models do
            nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten())
        return logits
def evaluate(model):
    model.eval()
    kept, gathered = [], None
    with torch.no_grad():
        for _ in range(10):
            x = torch.randint(0, V, (8, 32))
            logits = model(x)
            nn.functional.cross_entropy(logits.flatten(0, 1), x.flatten())
            if reduces:
                logits = logits.argmax(-1)
            if form == "list":
                kept.append(logits)
            else:
                gathered = logits if gathered is None else torch.cat((gathered, logits))
        if kept:
            gathered = torch.cat(kept)
    return gathered.shape
def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        model.train()
        x = torch.randint(0, V, (8, 32))
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss
        evaluate(model)
main()
"""


HOLDS_LOGITS = """
import sys, torch
from torch import nn
embed, head = nn.Embedding(4000, 32), nn.Linear(32, 4000, bias=False)
optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], 0.1)
for step in range(8):
    tokens = torch.randint(0, 4000, (256,))
    logits = head(torch.tanh(embed(tokens)))
    loss = nn.functional.cross_entropy(logits, tokens)
    if sys.argv[1] == "frees":
        del logits
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if sys.argv[1] == "keeps":
        del logits
"""

SKIPS = """
import sys, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down, self.fuse = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 4, 1)
    def forward(self, x):
        skip = torch.relu(self.first(x))
        low = torch.relu(self.down(skip))
        fused = torch.relu(self.fuse(torch.cat([skip, low], 1)))
        return self.out(fused)
def main():
    net, area = Net().eval(), 0
    with torch.set_grad_enabled(len(sys.argv) < 2):
        for tile in range(60):
            found = net(torch.rand(1, 3, 192, 192))
            area += int(found.argmax(1).sum())
    return area
print(main())
"""

SERVER = """
import sys, torch
def serve(kept):
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(2)])
    loaded = {"state": [{"mean": torch.rand(512, 512)} for _ in range(kept)]}
    with torch.no_grad():
        for _ in range(60):
            model(torch.rand(16, 512))
    return len(loaded["state"])
serve(int(sys.argv[1]))
"""


@harness.unittest.skipUnless(bench.PYTHON, "no Python here has torch")
class Lifetimes(harness.TestCase):
    def check(self, name, habits, changes, within=bench.WITHIN, log=False):
        bench.OPTIONS[:] = ["--operators"] if log else []
        rows = bench.compare(self.folder, name, habits, *KINDS)
        if log:  # it knows more than these programs can be told to free
            rows = [row for row in rows if row[0] in changes]
        self.assertEqual({row[0] for row in rows} - {"eight_bit"}, set(changes) - {"eight_bit"}, rows)
        self.assertLessEqual(set(changes), {row[0] for row in rows})
        for change, said, real, _ in rows:
            self.assertTrue(bench.is_within(said, real, within), (name, habits, change, said, real))

    def test_gradients_over_forward(self):
        self.check("deep", "late", ["zero_grad"])

    def test_gradients_set_to_zero(self):
        self.check("transformer", "zeroed", ["zero_grad"], log=True)

    def test_gradients_that_the_next_backward_makes(self):
        """The peak is in backward, where the later blocks exist again."""
        self.check("lumps", "zeroed", ["zero_grad"], log=True)

    def test_a_gradient_that_is_a_copy(self):
        self.check("sums", "zeroed", ["zero_grad"], log=True)

    def test_copies_by_chance(self):
        """Random programs. Cases: a transposed last gradient after earlier frees, and a gradient whose copy needs more
        memory."""
        for seed in (0, 5, 6, 8, 13, 19):
            self.check(f"chance{seed}", "zeroed", ["zero_grad"], log=True)

    def test_gradients_that_no_optimizer_uses(self):
        """Forward may keep activations for them, too, so the saving is a lower bound."""
        for name, habits in (("wide", "frozen"), ("deep", "frozen"), ("deep", "frozen,late")):
            rows = {row[0]: row[1:3] for row in bench.compare(self.folder, name, habits, *KINDS)}
            said, real = rows.pop("no_idle")
            self.assertTrue(said == real if name == "wide" else 0 < said <= real, (name, habits, said, real))
            self.assertEqual(set(rows) - {"eight_bit"}, {"zero_grad"} if "late" in habits else set())

    def test_held_variables(self):
        self.check("deep", "held", ["del"])

    def test_what_the_last_step_holds(self):
        """The peak is in an evaluation after the training."""
        self.check("large_vocabulary", "held,evaluates", ["del", "half"])

    def test_a_graph_without_a_backward(self):
        self.check("attention", "evaluates,graph", ["no_grad", "half"], 0.05)
        changes = harness.answer("advise", self.folder / "run.mp", *KINDS)["changes"]
        change, = (change for change in changes if change["pattern"] == "no_grad")
        # The line that calls the model, not one of a module.
        self.assertTrue(change["code"].endswith(", in forward)"), change)

    def test_a_graph_that_outlives_a_backward(self):
        """Of another pass. The library's scratch memory is no graph."""
        rows = {row[0]: row[1:3] for row in bench.compare(self.folder, "convolutions", "between,graph", *KINDS)}
        self.assertTrue(bench.is_within(*rows["no_grad"], 0.05), rows)

    def test_graphs_that_live_to_the_end(self):
        """One cause, one row: the graphs, not the leak of each line that they hold."""
        program, path = self.folder / "program.py", self.folder / "run.mp"
        for name, kept in (("result", KEEPS_GRAPHS), ("model.kept", KEEPS_GRAPHS.replace("result =", "model.kept ="))):
            program.write_text(kept)
            harness.record_whole(path, (bench.PYTHON, program), "--holders")
            change, *others = harness.answer("advise", path, "--kind", "lifetime")["changes"]
            self.assertEqual(change["pattern"], "no_grad")
            self.assertLessEqual({other["pattern"] for other in others}, {"gradients_kept", "evaluation_batch"}, others)
            self.assertIn(f"`{name}` keeps the graphs of 12 forwards", change["text"])

    def test_graphs_of_a_program_that_never_trains(self):
        """The graphs of all batches count, the last one, too. Two of them live at once."""
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(EVALUATES)
        peaks = []
        for change in (), ("no_grad",):
            harness.record_whole(path, (bench.PYTHON, program, *change))
            peaks.append(harness.answer("peak", path)["peak_bytes"])
            if not change:
                said = harness.answer("advise", path, *KINDS)["changes"][0]
        self.assertEqual(said["pattern"], "no_grad")
        self.assertTrue(bench.is_within(said["saved_bytes"], peaks[0] - peaks[1], 0.05), (said, peaks))

    def test_a_graph_with_few_saved_blocks(self):
        """Half of a pass's blocks are outputs that backward does not need. A look found the graph, and variables of
        forward that hold what would go."""
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(SKIPS)
        peaks = []
        for change in (), ("no_grad",):
            harness.record_whole(path, (bench.PYTHON, program, *change), "--force", "--holders")
            peaks.append(harness.answer("peak", path)["peak_bytes"])
            if not change:
                said, = (row for row in harness.answer("advise", path)["changes"] if row["pattern"] == "no_grad")
        self.assertTrue(bench.is_within(said["saved_bytes"], peaks[0] - peaks[1], 0.08), (said["saved_bytes"], peaks))

    def test_a_graph_that_grows_where_no_backward_runs(self):
        """The leak is `possible`, since a backward may follow. The advice is given all the same, and its cost says so.
        """
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(DRIFTS)
        peaks = []
        for change in (), ("detach",):
            harness.record_whole(path, (bench.PYTHON, program, *change), "--holders")
            peaks.append(harness.answer("peak", path)["peak_bytes"])
            changes = harness.answer("advise", path, *KINDS)["changes"]
            if not change:
                said = changes[0]
        self.assertNotIn("leak", [change["pattern"] for change in changes])
        self.assertEqual(said["pattern"], "leak")
        self.assertIn("drift.mean", said["text"])
        self.assertIn("only if no backward pass is to follow", said["cost"])
        self.assertTrue(bench.is_within(said["saved_bytes"], peaks[0] - peaks[1], 0.05), (said, peaks))

    def test_what_an_attribute_holds_and_nothing_reads(self):
        """An edit that can be made: there is no `del table`, and notes of a look are no part of a name."""
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(UNREAD)
        harness.record_whole(path, (bench.PYTHON, program), "--holders", "--operators", "--budget", "2s")
        told = {change["text"].split("`")[1]: change["code"] for change in harness.answer("advise", path, *KINDS)["changes"]
                if change["pattern"] == "idle_variable"}
        self.assertIn("move it to the CPU, after its last use", told["work().reader.table"])
        self.assertIn("del plain after its last use", told["work().plain"])

    def test_what_a_list_keeps_is_no_variable(self):
        """Without an optimizer, too: a variable has a new value before the next backward is over."""
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(SCORES)
        harness.record_whole(path, (bench.PYTHON, program))
        changes = harness.answer("advise", path, *KINDS)["changes"]
        self.assertNotIn("held_variables", [change["pattern"] for change in changes])

    def test_a_variable_of_steps_that_no_look_saw(self):
        """The log says of each step's block that nothing reads it again. A look saw only one of them."""
        program, peaks, path = self.folder / "program.py", {}, self.folder / "run.mp"
        program.write_text(HOLDS_LOGITS)
        for what in ("frees", "keeps"):
            harness.record_whole(path, (bench.PYTHON, program, what), "--force", "--operators")
            peaks[what] = harness.answer("peak", path)["peak_bytes"]
        row, = (row for row in harness.answer("advise", path)["changes"] if row["pattern"] == "idle_variable")
        self.assertEqual(row["text"], "free the blocks of `logits` that nothing reads again")
        self.assertTrue(bench.is_within(row["saved_bytes"], peaks["keeps"] - peaks["frees"]), (row["saved_bytes"], peaks))

    def test_the_name_that_holds_most(self):
        """No change is known, but a name of the program holds much, which is no parameter."""
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(SERVER)
        for kept, holder in ((8, {"path": "serve().loaded['state'][*]", "bytes": 8 << 20}), (0, {"path": None, "bytes": None})):
            harness.record_whole(path, (bench.PYTHON, program, kept), "--force", "--holders")
            found = harness.answer("advise", path)
            self.assertEqual((found["most_held"], found["changes"]), (holder, []))
            said = "8.00 MiB of the peak is held by serve().loaded['state'][*]" in harness.memprof("advise", path).stdout
            self.assertEqual(said, kept > 0)

    def test_features_that_an_evaluation_keeps_are_no_graph(self):
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(KEEPS_FEATURES)
        harness.record_whole(path, (bench.PYTHON, program))
        changes = harness.answer("advise", path, *KINDS)["changes"]
        self.assertNotIn("no_grad", [change["pattern"] for change in changes])

    def test_an_evaluation_that_is_the_peak(self):
        self.check("large_vocabulary", "evaluates", ["half"], 0.05)

    def test_in_the_words_of_transformers(self):
        """A Trainer of that name runs the training."""
        package = self.folder / "transformers"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "trainer.py").write_text("def train(run):\n    run()\n")
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(f"import sys\nsys.path.append({str(bench.PROGRAMS.parent)!r})\nimport programs\n"
                           "from transformers import trainer\n"
                           "trainer.train(lambda: programs.train('large_vocabulary', sys.argv[1], []))\n")
        for habits, pattern, words in (("evaluates", "evaluation_batch", "per_device_eval_batch_size=..."),
                                       ("", "chunked_loss", "use_liger_kernel=True")):
            harness.record_whole(path, (bench.PYTHON, program, habits))
            codes = {change["pattern"]: change["code"] for change in harness.answer("advise", path)["changes"]}
            self.assertIn(f"TrainingArguments({words}), or ", codes[pattern])

    def test_one_backward_of_many_losses(self):
        self.check("deep", "summed", ["backward_sooner"], 0.05)

    def test_nothing_is_promised_that_saves_nothing(self):
        """No advice here. Generation keeps keys and values without a graph. Losses of an episode are made at its end. A
        graph's nodes and a recurrent network's steps need one another. The optimizer also holds a list of parameters.
        """
        recurrent = self.folder / "recurrent.py"
        recurrent.write_text(RECURRENT)
        tests = harness.SOURCE / "tests"
        for program, patterns in (((tests / "leakbench/programs/users.py", "generation"), set()),
                                  ((tests / "leakbench/programs/guests.py", "reinforce"), {"leak"}),
                                  ((tests / "sizebench/models.py", "graph", "--batch", "8"), set()),
                                  ((tests / "sizebench/models.py", "autoencoder", "--batch", "8"), set()),
                                  ((recurrent,), set())):
            path = self.folder / "run.mp"
            harness.record_whole(path, (bench.PYTHON, *program), "--holders")
            found = harness.answer("advise", path)["changes"]
            self.assertEqual({change["pattern"] for change in found} - {"checkpoint", "eight_bit"}, patterns, program)

    def test_lists_of_tensors(self):
        self.check("recommender", "foreach", ["one_by_one"])

    def test_outputs_that_are_joined(self):
        """Outputs joined from a list, and one after the other, also if the network makes a loss behind them (then the replay
        keeps the first output). In the list, the loss in chunks or half of the batch would save nothing."""
        program, path = self.folder / "program.py", self.folder / "run.mp"
        program.write_text(GATHERS)
        for form in ("list", "grow", "loss"):
            peaks = []
            for change in "", "reduced":
                harness.record_whole(path, (bench.PYTHON, program, form, change))
                peaks.append(harness.answer("peak", path)["peak_bytes"])
                rows = {row["pattern"]: row for row in harness.answer("advise", path)["changes"]}
                self.assertEqual("gathered" in rows, not change, rows)
                said = said if change else rows["gathered"]["saved_bytes"]
                self.assertEqual({"chunked_loss", "evaluation_batch"} & rows.keys() if form == "list" and not change else set(), set())
            self.assertTrue(bench.is_within(said, peaks[0] - peaks[1], 0.12 if form == "loss" else 0.06), (form, said, peaks))

    def test_smaller_state_and_gradients(self):
        """State in 8 bits, and gradients of some rows, with Adam in lists and one by one."""
        self.check("wide", "", ["eight_bit"])
        with unittest.mock.patch.dict(os.environ, BENCH_SCALE="0.25"):
            self.check("recommender", "foreach", ["eight_bit", "one_by_one", "sparse"], 0.05)

    def test_nothing_is_promised_where_the_peak_is_elsewhere(self):
        self.check("large_vocabulary", "late", [])


if __name__ == "__main__":
    harness.main()
