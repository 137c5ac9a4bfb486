"""Programs that somebody edits between two probes, as files by name; the first is run, with the batch."""

PERCEPTRON = {"train.py": """import sys, torch
from torch import nn
def main(rows, steps=3):
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(rows * 16, 32)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main(int(sys.argv[1]))
"""}

# Nothing but lines of the script itself.
RECURRENT = {"words.py": """import sys
import torch
rows = int(sys.argv[1])
embed, cell = torch.nn.Embedding(50, 16), torch.nn.LSTM(16, 32, batch_first=True)
head = torch.nn.Linear(32, 50)
parameters = [*embed.parameters(), *cell.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
for step in range(3):
    words = torch.randint(50, (rows, 21))
    out, _ = cell(embed(words[:, :-1]))
    loss = torch.nn.functional.cross_entropy(head(out).flatten(0, 1), words[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""}

# A class with hooks, called from below.
TRAINER = {"fit.py": """import sys
import torch
class Trainer:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.AdamW(model.parameters())
    def batch(self, rows):
        return torch.randn(rows, 3, 16, 16), torch.rand(rows, 4)
    def training_step(self, inputs, wanted):
        return torch.nn.functional.l1_loss(self.model(inputs), wanted)
    def fit(self, rows, steps):
        for _ in range(steps):
            loss = self.training_step(*self.batch(rows))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
def make():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                               torch.nn.Linear(8 * 14 * 14, 4))
if __name__ == "__main__":
    Trainer(make()).fit(int(sys.argv[1]), 3)
"""}

# The network is in a file of its own.
TWO_FILES = {"run.py": """import sys
import torch
import network
model = network.Mixer(24)
optimizer = torch.optim.Adagrad(model.parameters())
for _ in range(4):
    loss = model(torch.randn(int(sys.argv[1]), 12, 24)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", "network.py": """from torch import nn
class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.along, self.across = nn.LayerNorm(width), nn.Linear(12, 12), nn.Linear(width, width)
    def forward(self, x):
        x = x + self.along(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across(x).relu()
"""}

def moved(text, first, second):
    """The part from `first` to `second` behind the next method."""
    start, middle = text.index(first), text.index(second)
    end = text.index("    def ", middle + len(second))
    return text[:start] + text[middle:end] + text[start:middle] + text[end:]


def replaced(text, *changes):
    for gone, there in changes:
        assert text.count(gone) == 1, gone
        text = text.replace(gone, there)
    return text


# Of each program: its files, and edits: their name, the file, what becomes of it.
PROGRAMS = (
    (PERCEPTRON, {
        "a remark on top": ("train.py", lambda text: "# a remark\n" + text),
        "an assertion in the loop": ("train.py", lambda text: replaced(
            text, ("        loss = ", "        assert steps\n        loss = "))),
        "a call that moved": ("train.py", lambda text: replaced(text, ("main(int", "if sys:\n    main(int")))}),
    (RECURRENT, {
        "the loop moved": ("words.py", lambda text: replaced(text, ("for step", '"""Words."""\n\n\nfor step'))),
        "a line within the loop": ("words.py", lambda text: replaced(
            text, ("    loss.b", "    print(step)\n    loss.b")))}),
    (TRAINER, {
        "a method more": ("fit.py", lambda text: replaced(
            text, ("    def batch", "    def log(self, loss):\n        print(loss)\n    def batch"))),
        "methods in another order": ("fit.py", lambda text: moved(text, "    def batch", "    def training_step"))}),
    (TWO_FILES, {
        "the network's file": ("network.py", lambda text: replaced(text, ("class Mixer", "# Mixes.\n\nclass Mixer"))),
        "a name for a part": ("network.py", lambda text: replaced(
            text, ("        x = x", "        turned = self.norm(x).transpose(1, 2)\n        x = x"),
            ("along(self.norm(x).transpose(1, 2))", "along(turned)")))}),
)
