#!/usr/bin/env python3
"""Blocks of backward carry the path that made their node, compared with PyTorch's own record: at least 95 % of the
bytes of every network."""

import collections
import json
import os
import sys

import harness

PYTHON = harness.python_with_torch()
ORACLE = harness.SOURCE / "tests" / "e2e" / "programs" / "backward_oracle.py"
NETWORKS = ("resnet50", "transformer", "custom", "twice", "several", "checkpointed", "threads", "failing")
MODELS = ("mlp", "cnn", "encoder", "lstm", "gan", "checkpointing", "collate", "contrastive", "padded", "epochs",
          "experts", "resnet", "unet", "decoder", "embeddings", "accumulation", "mixed", "multiscale", "validated",
          "autoencoder", "seq2seq", "vit", "graph", "siamese")
AT_LEAST = 0.95


class Pass:
    """A backward pass that is running on a thread."""

    def __init__(self):
        self.pending, self.last = [], None


class Reading:
    """Finds for each block allocated in backward the nodes that may have allocated it, by the program's tags."""

    def __init__(self, oracle, stacks):
        self.first, self.tag_bytes, self.stacks = oracle["first_node"], oracle["tag_bytes"], stacks
        self.passes = collections.defaultdict(list)  # by thread
        self.found = []                              # (nodes' numbers, block)

    def functions(self, block):
        return [frame["function"] for frame in self.stacks[block["stack"]] if frame["function"]]

    def nodes_of(self, block, before, after):
        """The engine itself adds up gradients of several uses, after a node has run. Without native frames, blocks of
        these additions cannot be distinguished from the next node's."""
        called = self.functions(block)
        engine = [i for i, name in enumerate(called) if name.startswith("torch::autograd::Engine::evaluate_")]
        if before is None or after is None or not engine:
            return [number for number in (before, after) if number is not None]
        adds = engine[0] > 0 and called[engine[0] - 1].startswith(("at::_ops::add_", "torch::autograd::InputBuffer::"))
        return [before if adds else after]

    def end_node(self, running, number):
        for block in running.pending:
            self.found.append((self.nodes_of(block, running.last, number), block))
        running.pending = []

    def take(self, block):
        running, tag = self.passes[block["thread"]], (block["bytes"] or 0) - self.tag_bytes
        if tag < 0:
            if running and "_make_grads" not in self.functions(block):  # before any node runs
                running[-1].pending.append(block)
        elif tag == 1:
            running.append(Pass())
        elif tag == 2:
            self.end_node(running[-1], None)
            running.pop()
        elif tag == 3:  # the node that failed has no tag
            running.pop()
        else:
            self.end_node(running[-1], tag - self.first)
            running[-1].last = tag - self.first
            self.found.append(([tag - self.first], block))


def paths_of(stack):
    """The Python frames beyond each border up to the next border: the path that made the node, the path that made the
    node running at that time, ..."""
    paths = []
    for frame in stack:
        if frame["language"] == "backward":
            assert frame["function"] == "backward of", frame
            paths.append([])
        elif frame["language"] == "python" and paths:
            paths[-1].append((frame["file"], frame["line"]))
    return paths


def is_right(stack, oracle, number):
    """True if the stack has the oracle's path. PyTorch's trace of a node made in backward continues with the callers of
    backward()."""
    for path in (paths := paths_of(stack)):
        if number is None:
            return False
        node = oracle["nodes"][number]
        truth = [(file, line) for file, line, _ in node["trace"]]
        number = None if node["parent"] is None else node["parent"] - oracle["first_node"]
        if path != (truth if number is None else truth[:len(path)]):
            return False
    return bool(paths) and number is None


def has_native_path(stack, oracle, number):
    """True if native frames are on both sides of the border: without Python frames the oracle cannot check more."""
    languages = [frame["language"] for frame in stack]
    return "backward" in languages[1:-1] and set(languages) == {"backward", "native"}


@harness.unittest.skipUnless(PYTHON, "no Python here has torch")
class Backward(harness.TestCase):
    def record(self, *networks, options=()):
        snapshot, answer, rows = self.folder / "run.mp", self.folder / "oracle.json", self.folder / "rows.jsonl"
        result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", snapshot, *options, "--", PYTHON, ORACLE, answer,
                                 *networks, env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(harness.answer("info", snapshot)["coverage"]["complete"])
        result = harness.memprof("export", "--format", "jsonl", "-o", rows, "--force", snapshot)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(answer.read_text()), [json.loads(line) for line in rows.read_text().splitlines()]

    def shares(self, oracle, rows, judge=is_right):
        """By network: bytes allocated in backward; bytes with the right path; names of the nodes with wrong paths."""
        stacks = {row["stack"]: row["frames"] for row in rows if row["type"] == "stack"}
        reading = Reading(oracle, stacks)
        for row in rows:
            if row["type"] == "block":
                reading.take(row)
        sums = collections.defaultdict(lambda: [0, 0, collections.Counter()])
        for numbers, block in reading.found:
            node = oracle["nodes"][numbers[0]]
            size = block["bytes"] if block["bytes"] < oracle["tag_bytes"] else 1  # a tag counts as one byte
            right = any(judge(stacks[block["stack"]], oracle, number) for number in numbers)
            row = sums[node["network"]]
            row[0] += size
            row[1] += size * right
            if not right:
                row[2][node["name"]] += size
        return sums

    def check(self, *networks, options=(), judge=is_right):
        sums = self.shares(*self.record(*networks, options=options), judge)
        for network in networks:
            of, right, wrong = sums[network]
            names = dict(wrong.most_common(3)) or ""
            print(f"{network:>14}: {100 * right / max(of, 1):6.2f} % of {of:,} bytes {names}")
        for network in networks:
            of, right, wrong = sums[network]
            self.assertGreater(of, 10000, network)
            self.assertGreaterEqual(right / of, AT_LEAST, (network, wrong))

    def test_what_autograd_can_do(self):
        self.check(*NETWORKS)

    def test_the_networks_of_the_size_bench(self):
        self.check(*MODELS)

    def test_modules_are_those_of_forward(self):
        oracle, rows = self.record("transformer")
        reading = Reading(oracle, {row["stack"]: row["frames"] for row in rows if row["type"] == "stack"})
        for row in rows:
            if row["type"] == "block":
                reading.take(row)
        known = [(oracle["nodes"][numbers[0]]["module"], block) for numbers, block in reading.found]
        known = [(module, block) for module, block in known if module and block["bytes"] < oracle["tag_bytes"]]
        right = sum(block["bytes"] for module, block in known if block["module"] == module)
        of = sum(block["bytes"] for _, block in known)
        self.assertGreater(of, 1 << 20)
        self.assertGreaterEqual(right / of, AT_LEAST)
        self.assertGreater(len({module for module, _ in known}), 10)

    def test_python_frames_alone(self):
        self.check("transformer", "checkpointed", "threads", options=("--stacks", "python"))

    def test_native_frames_alone(self):
        self.check("transformer", "checkpointed", options=("--stacks", "native"), judge=has_native_path)

    def test_every_way_out_shows_the_border(self):
        self.record("custom")
        snapshot, out = self.folder / "run.mp", self.folder / "out"
        flamegraph = "flamegraph", "--of", "allocated", "--format"
        for command in ((*flamegraph, "folded"), (*flamegraph, "speedscope"), ("export", "--format", "csv"),
                        ("export", "--format", "pytorch")):
            result = harness.memprof(*command, "--force", "-o", out, snapshot)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(b"backward of", out.read_bytes(), command)
        result = harness.memprof("anonymize", "-o", self.folder / "anonymous.mp", snapshot)
        self.assertEqual(result.returncode, 0, result.stderr)
        for path, name in ((snapshot, "custom"), (self.folder / "anonymous.mp", "f")):
            groups = [site["group"] for site in harness.answer("peak", path, "--group", "function", "-n", "0")["sites"]]
            self.assertTrue([group for group in groups if group and group.startswith(f"backward of {name}")], groups)

    def test_no_stacks(self):
        _, rows = self.record("custom", options=("--stacks", "none"))
        self.assertEqual([row for row in rows if row["type"] == "stack"], [])

    def test_a_forked_child_knows_its_own_nodes(self):
        script = self.folder / "forking.py"
        script.write_text(FORKING)
        result = harness.memprof("snapshot", "--follow", "all", "-o", self.folder / "run.mp", "--", PYTHON, script)
        self.assertEqual(result.returncode, 0, result.stderr)
        child, = self.folder.glob("run.*.mp")
        result = harness.memprof("export", "--format", "jsonl", "-o", self.folder / "rows.jsonl", child)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        stacks = {row["stack"]: row["frames"] for row in rows if row["type"] == "stack"}
        lines = FORKING.splitlines()
        for bytes_, text in ((4 * 1000, "parent_loss.backward()"), (4 * 2000, "child = weight")):
            found = [stacks[row["stack"]] for row in rows
                     if row["type"] == "block" and row["bytes"] == bytes_ and row["stack"]]
            paths = [[frame for frame in stack if (frame["file"] or "").endswith("forking.py")] for stack in found
                     if any("MulBackward0::apply" in (frame["function"] or "") for frame in stack)]
            self.assertTrue(paths, text)
            for path in paths:
                self.assertIn(text, lines[path[0]["line"] - 1])


class StandIn(harness.TestCase):
    """Nodes of a program in C that keep number and thread at the offsets of PyTorch's releases; unusual ways out of a
    node."""

    program = harness.program("autograd_program"), harness.program("autograd_stand_in.so")

    def stacks(self, *command, options=()):
        snapshot, rows = self.folder / "run.mp", self.folder / "rows.jsonl"
        result = harness.memprof("snapshot", "--follow", "all", "--force", "-o", snapshot, *options, "--", *command)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = harness.memprof("export", "--format", "jsonl", "--force", "-o", rows, snapshot)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [json.loads(line) for line in rows.read_text().splitlines()]
        stacks = {row["stack"]: row["frames"] for row in rows if row["type"] == "stack"}
        by_bytes = collections.defaultdict(list)
        for row in rows:
            if row["type"] == "block":
                by_bytes[row["bytes"]].append(stacks[row["stack"]])
        return by_bytes, " ".join(harness.answer("info", snapshot)["coverage"]["notes"])

    def test_nodes_of_both_layouts(self):
        makers = {1001: "forward_one", 1002: "forward_two", 1004: "forward_one", 1005: "forward_three",
                  1006: "forward_three", 1007: "forward_one", 1008: "forward_one", 1009: "forward_of_a_thread"}
        for layout in (0, 1):
            with self.subTest(layout=layout):
                by_bytes, notes = self.stacks(*self.program, layout)
                for size, maker in makers.items():
                    for stack in by_bytes[size]:
                        border = [frame["language"] for frame in stack].index("backward")
                        names = [frame["function"] for frame in stack]
                        self.assertIn("evaluate", names[border - 1] or "", size)
                        self.assertIn(maker, names[border:], size)
                        self.assertNotIn("stand_in_run", names, size)
                        self.assertFalse([name for name in names if name and name.startswith(("mp_", "run_autograd"))])
                for size in (1003, 1010):
                    for stack in by_bytes[size]:
                        self.assertNotIn("backward", [frame["language"] for frame in stack], size)
                self.assertIn("made before the recording", notes)

    def test_a_thread_of_autograd_s_own_is_named(self):
        script = self.folder / "stranger.py"
        script.write_text("import ctypes, sys, libmemprof\n"
                          "libmemprof.mark('here')\n"
                          "ctypes.CDLL(sys.argv[1]).stand_in_thread()\n")
        for stacks, inner in (("native,python", "Engine::evaluate_function"), ("python", "")):
            by_bytes, _ = self.stacks(sys.executable, script, self.program[1], options=("--stacks", stacks))
            stack, = by_bytes[1011]
            self.assertEqual((stack[-1]["language"], stack[-1]["function"]), ("backward", "autograd thread"))
            self.assertIn(inner, "".join(frame["function"] for frame in stack[-2:-1]))

    def test_an_unknown_layout_is_told(self):
        by_bytes, notes = self.stacks(*self.program, 2)
        self.assertEqual(len(by_bytes[1002]), 5000)
        self.assertEqual({frame["language"] for stacks in by_bytes.values() for stack in stacks for frame in stack},
                         {"native"})
        self.assertIn("autograd nodes are unknown", notes)


FORKING = """
import os
import torch
torch.set_num_threads(1)
parent_weight = torch.randn(1000, requires_grad=True)
parent_loss = (parent_weight * torch.rand(1000)).sum()
if os.fork() == 0:
    parent_loss.backward()
    weight = torch.randn(2000, requires_grad=True)
    child = weight * torch.rand(2000)
    child.sum().backward()
    os._exit(0)
os.wait()
"""


if __name__ == "__main__":
    harness.main()
