#!/usr/bin/python3
"""Live metrics: read while a program runs, by prometheus_client's own parser."""

import json
import subprocess
import sys
import time
import unittest

import harness

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    print("needs python3-prometheus-client")
    sys.exit(77)

PYTHON = harness.python_with_torch()
PROGRAM = """
import sys, torch, libmemprof as mp
def keep():
    return torch.zeros(1_000_000)
kept = [keep() for _ in range(3)]
del kept[0]
mp.step(); mp.step()
print("ready", mp.stats(), flush=True)  # the collector has all of it
sys.stdin.readline()
"""


# Three layers keep their outputs. The program itself counts bytes by role and by module.
NETWORK = """
import json, sys, torch, libmemprof as mp
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(500 + 100 * i, 600 + 100 * i) for i in range(3))
        self.register_buffer("scale", torch.ones(300, 300))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            made.append(x.detach())
        return x
made = []
net = Net()
optimizer = torch.optim.Adam(net.parameters())
for step in range(6):
    del made[:]
    optimizer.zero_grad(set_to_none=True)
    net(torch.ones(200, 500)).sum().backward()
    if step < 5:  # the last gradients nobody is told of: they are like those before
        optimizer.step()
def size(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
parameters = list(net.parameters())
counts = {"parameters": size(parameters), "gradients": size(p.grad for p in parameters), "buffers": size(net.buffers()),
          "optimizer state": size(v for state in optimizer.state.values() for v in state.values())}
modules = {f"Net.layers.{i}": size([made[i], *(p.grad for p in layer.parameters())]) for i, layer in enumerate(net.layers)}
while not mp.stats():  # the collector has all of it
    pass
print(json.dumps([counts, modules]), flush=True)
sys.stdin.readline()
"""


def samples(text):
    return {(sample.name, sample.labels.get("track"), sample.labels.get("site")): sample.value
            for family in text_string_to_metric_families(text) for sample in family.samples}


@unittest.skipUnless(PYTHON, "no PyTorch")
class Metrics(harness.TestCase):
    def start(self, where, program=PROGRAM):
        run = subprocess.Popen([harness.MEMPROF, "snapshot", "--metrics", where, "-o", str(self.folder / "run.mp"),
                                "--",
                                PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd=self.folder)
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        run.first_line = run.stdout.readline()
        return run

    def finish(self, run):
        out, err = run.communicate("\n", timeout=harness.TIMEOUT)
        self.assertEqual(run.returncode, 0, err)

    def check(self, text):
        found = samples(text)
        self.assertEqual(found["memprof_live_bytes", "cpu/torch", None], 8_000_000)
        self.assertEqual(found["memprof_live_blocks", "cpu/torch", None], 2)
        self.assertEqual(found["memprof_peak_bytes", "cpu/torch", None], 12_000_000)
        self.assertEqual(found["memprof_steps_total", None, None], 2)
        self.assertEqual(found["memprof_dropped_events_total", None, None], 0)
        self.assertGreaterEqual(found["memprof_events_total", None, None], 4)
        self.assertEqual(found["memprof_site_live_bytes", "cpu/torch", "<string>:4 keep"], 8_000_000)
        self.assertNotIn(("memprof_reserved_bytes", "cpu/torch", None), found)

    def test_file(self):
        path = self.folder / "memprof.prom"
        run = self.start(str(path))
        deadline = time.monotonic() + 60
        while True:
            text = path.read_text() if path.exists() else ""
            if text and ("memprof_steps_total", None, None) in (found := samples(text)) and \
                    found["memprof_steps_total", None, None] == 2:
                break
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.check(text)
        self.finish(run)
        self.assertEqual([each.name for each in self.folder.iterdir()], ["run.mp"])

    def test_categories_and_modules(self):
        path = self.folder / "memprof.prom"
        run = self.start(str(path), NETWORK)
        counts, modules = json.loads(run.first_line)
        # The program's last change is before this time, so a text written later has the final numbers.
        ready = time.time()
        self.wait_for(lambda: path.exists() and path.stat().st_mtime > ready, "no metrics came")
        text = path.read_text()
        found = {name: {sample.labels[name]: sample.value for family in text_string_to_metric_families(text)
                        for sample in family.samples if sample.name == f"memprof_{name}_live_bytes"}
                 for name in ("category", "module")}
        live = samples(text)["memprof_live_bytes", "cpu/torch", None]
        self.assertEqual(found["category"], {**counts, "other": live - sum(counts.values())})
        self.assertEqual({name: found["module"].get(name) for name in modules}, modules)
        self.finish(run)

    def test_what_cannot_be(self):
        for where, status, word in (("9464", 2, "no port"), ("127.0.0.1:9464", 2, "no port"), ("unix:/x", 2, "no socket"),
                                    ("", 2, "give a file's path"), ("/nowhere/at/all.prom", 1, "cannot write")):
            done = harness.memprof("snapshot", "--metrics", where, "-o", self.folder / "x.mp", "--", "touch",
                                   self.folder / "started")
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(word.removeprefix("no "), done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    harness.main()
