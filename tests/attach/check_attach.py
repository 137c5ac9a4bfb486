#!/usr/bin/env python3
"""memprof attach, on programs that already run: what it records is what they did and what hooks saw of them, stacks are
those that hooks see, it leaves a program as it was, and it says in a sentence where it cannot attach."""

import csv
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

csv.field_size_limit(1 << 30)
HERE = pathlib.Path(__file__).resolve().parent
CUDA = harness.BUILD / "src/softgpu/lib/libcuda.so.1"
ROUNDS, RATE = 2000, 500
TRAIN = """
import os, sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(3)])
kept = []
def answer(i):
    loss = model(torch.randn(4, 16)).pow(2).mean()
    if i % 5 == 0:
        kept.append(loss.detach().clone())  # the leak
def serve():
    begun = time.time()
    for i in range(300):
        answer(i)
        time.sleep(max(0, begun + i / 50 - time.time()))
print("ready", os.getpid(), flush=True)
serve()
"""


def why_not():
    """Why nothing can be attached to here; None where it can."""
    if harness.SANITIZED:
        return "a sanitized memprof"
    said = subprocess.run([harness.MEMPROF, "attach", str(os.getpid())], capture_output=True, text=True).stderr
    return None if "has loaded neither" in said else said.strip()


class Attached(harness.TestCase):
    def setUp(self):
        super().setUp()
        compiler = os.environ.get("CC", "cc").split()
        self.c10, self.service = self.folder / "libc10.so", self.folder / "service"
        subprocess.run([*compiler, "-g", "-O1", "-shared", "-fPIC", "-o", self.c10, HERE / "c10.c"], check=True)
        subprocess.run([*compiler, "-g", "-O1", "-o", self.service, HERE / "service.c", "-ldl", "-lpthread"], check=True)
        self.recording = self.folder / "now.mp"

    def start(self, *words):
        started = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        return started, started.stdout.readline().split()

    def serve(self, kind="c10", rounds=ROUNDS, rate=RATE):
        return self.start(self.service, self.c10 if kind == "c10" else CUDA, kind, rounds, rate)[0]

    def attach(self, pid, *options):
        started = subprocess.Popen([harness.MEMPROF, "attach", str(pid), "-o", self.recording, "--force", *options],
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(started.stderr.close)
        self.addCleanup(started.wait)
        self.addCleanup(started.kill)
        self.assertIn("attached to process", started.stderr.readline())
        return started

    def blocks(self, path):
        """(address, bytes, whether it was freed, stack from the outside) of each block, as they were allocated."""
        table = self.folder / "blocks.csv"
        harness.memprof("export", path, "--format", "csv", "-o", table, "--force")
        with open(table, newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["alloc_ns"] and row["bytes"]]
        rows.sort(key=lambda row: int(row["alloc_ns"]))
        return [(row["address"], row["bytes"], bool(row["free_ns"]), row["stack"].split(";")) for row in rows]

    def test_events_are_those_of_the_program(self):
        service = self.serve()
        attached = self.attach(service.pid)
        said = service.communicate()[0]
        self.assertEqual(attached.wait(harness.TIMEOUT), 0)
        blocks = self.blocks(self.recording)
        answer = harness.answer("info", self.recording)
        self.assertEqual(answer["coverage"]["dropped"], 0)
        self.assertFalse(answer["coverage"]["complete"])
        self.assertEqual(answer["coverage"]["missed_frees"], 0)
        self.assertIn(f"{2 * ROUNDS * 11 // 10} taken, {2 * ROUNDS} freed", said)
        # Each thread keeps a block of each ten, so what was seen of both says when memprof came.
        kept = [block for block in blocks if not block[2]]
        self.assertGreater(len(blocks), ROUNDS)
        self.assertLess(abs(len(blocks) - 11 * len(kept)), 24)
        self.assertEqual({"keep_request"}, {block[3][-1].partition(" (")[0] for block in kept})
        self.assertEqual({"answer_request"}, {block[3][-1].partition(" (")[0] for block in blocks if block[2]})
        self.assertTrue(all("serve" in " ".join(block[3]) for block in blocks))

    def test_detached_in_the_middle(self):
        service = self.serve()
        self.assertEqual(self.attach(service.pid, "--for", "1s").wait(harness.TIMEOUT), 0)
        answer = harness.answer("info", self.recording)
        self.assertEqual(answer["coverage"]["missed_frees"], 0)
        self.assertEqual(answer["coverage"]["dropped"], 0)
        self.assertEqual(service.communicate()[0], f"{2 * ROUNDS * 11 // 10} taken, {2 * ROUNDS} freed, sum "
                         f"{2 * sum(i % 256 for i in range(ROUNDS))}\n")
        self.assertEqual(service.returncode, 0)

    def test_killed_and_detached_under_load(self):
        """The program does not notice: what it prints is what it prints without."""
        times = 100 if os.environ.get("MEMPROF_TEST_LONG") else 10
        service, done = self.serve(rounds=30000, rate=2000), 0
        whole = f"66000 taken, 60000 freed, sum {2 * sum(i % 256 for i in range(30000))}\n"
        while done < times:
            attached = subprocess.Popen([harness.MEMPROF, "attach", str(service.pid), "-o", self.recording, "--force"],
                                        stderr=subprocess.PIPE, text=True)
            if "attached to process" in attached.stderr.readline():
                attached.send_signal(signal.SIGKILL if done % 2 else signal.SIGINT)
                done += 1
            attached.communicate()
            if service.poll() is not None:  # its rounds are over
                self.assertEqual((service.stdout.read(), service.returncode), (whole, 0))
                service = self.serve(rounds=30000, rate=2000)
        self.assertEqual(service.stdout.read(), whole)
        self.assertEqual(service.wait(), 0)

    def test_a_leak_of_the_driver(self):
        service = self.serve("cuda", rounds=600, rate=200)
        self.assertEqual(self.attach(service.pid).wait(harness.TIMEOUT), 0)
        service.communicate()
        site = harness.answer("leaks", self.recording, "--track", "cuda:0/driver")["findings"][0]
        named = [frame for frame in site["stack"] if frame["function"] == "forget_buffer"]
        self.assertTrue(named)
        text = (HERE / "service.c").read_text().splitlines()
        self.assertIn("/* the leak */", text[named[0]["line"] - 1])

    def test_as_hooks_see_it(self):
        python = harness.python_with_torch()
        script, hooked = self.folder / "train.py", self.folder / "hooked.mp"
        script.write_text(TRAIN)
        started, (_, pid) = self.start(harness.MEMPROF, "snapshot", "--quiet", "-o", hooked,
                                       "--capture", "torch,cpu", "--", python, script)
        attached = self.attach(pid)
        started.communicate()
        self.assertEqual(attached.wait(harness.TIMEOUT), 0)
        by_hooks, by_probes = self.blocks(hooked), self.blocks(self.recording)
        self.assertGreater(len(by_probes), 500)
        facts = [block[:3] for block in by_hooks]
        begin = next(i for i in range(len(facts)) if facts[i:i + 50] == [block[:3] for block in by_probes[:50]])
        both = list(zip(by_hooks[begin:], by_probes, strict=True))
        self.assertTrue(all(one[:3] == other[:3] for one, other in both))

        def python_of(stack):
            return [frame for frame in stack if ".py:" in frame]

        def native_of(stack):
            # Hooks stand in another function of c10 than the probes, and know its libraries by the links' names.
            stack = [re.sub(r"\.so[.\d]*\+", ".so+", frame) for frame in stack]
            return [frame for frame in stack if not frame.startswith(("c10::", "libc10"))]
        same_python = sum(python_of(one[3]) == python_of(other[3]) for one, other in both)
        same = sum(native_of(one[3]) == native_of(other[3]) for one, other in both)
        self.assertGreaterEqual(same_python, 0.95 * len(both))
        self.assertGreaterEqual(same, 0.99 * len(both))
        leak = harness.answer("leaks", self.recording)["findings"][0]
        self.assertIn("answer", [frame["function"] for frame in leak["stack"]])


class Refused(harness.TestCase):
    def say(self, *words):
        done = subprocess.run([harness.MEMPROF, "attach", *[str(word) for word in words]], capture_output=True, text=True,
                              cwd=self.folder)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(list(self.folder.glob("*.mp")), [])
        return done.returncode, done.stderr

    def test_what_cannot_be_attached_to(self):
        gone = subprocess.Popen(["true"])
        while pathlib.Path(f"/proc/{gone.pid}/status").read_text().split("State:")[1].split()[0] != "Z":
            time.sleep(0.01)
        status, said = self.say(gone.pid)
        self.assertEqual(status, 1)
        self.assertIn("has ended", said)
        gone.wait()
        self.assertIn("there is no process", self.say(gone.pid)[1])
        sleeps = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeps.wait)
        self.addCleanup(sleeps.kill)
        self.assertIn("neither PyTorch", self.say(sleeps.pid)[1])
        self.assertEqual(sleeps.poll(), None)
        if pathlib.Path("/proc/2/comm").exists() and not os.path.exists("/proc/2/exe"):
            self.assertIn("thread of the kernel", self.say(2)[1])
        self.assertEqual(self.say(1)[0], 1)

    def test_words_that_are_not_understood(self):
        for words in (["soon"], ["0"], ["-1"], ["99999999999"], ["1", "--for", "soon"], ["1", "--stacks", "deep"]):
            with self.subTest(words=words):
                self.assertEqual(subprocess.run([harness.MEMPROF, "attach", *words], capture_output=True).returncode, 2)
        there = self.folder / "there.txt"
        there.write_text("work")
        self.assertIn("already there", self.say(1, "-o", there)[1])
        self.assertEqual(there.read_text(), "work")


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}", file=sys.stderr)
        Attached = unittest.skip(reason)(Attached)
        Refused = unittest.skip(reason)(Refused)
    harness.main()
