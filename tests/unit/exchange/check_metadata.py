#!/usr/bin/env python3
"""Metadata that programs give PyTorch about blocks (user_metadata and others), forward_frames, and the graph's node of
a line. Every form of a recording is compared with a replay that shares no code with memprof. Anonymous ones have no
name."""
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

from snapshots import START, Case, frame, without_file

BASE = 0x7f0000000000
TAG = "mallocWithAddress"  # which torch/csrc calls its own blocks


def told(entry):
    """{kind: text} of an entry."""
    text = entry.get("user_metadata")
    kinds = {"internal": entry.get("internal_metadata"),
             "annotation" if entry["action"] == "annotate" else "user":
                 text if isinstance(text, str) else None}  # PyTorch writes texts alone
    return {kind: text for kind, text in kinds.items() if text}


class Trace:
    """Allocations with changing metadata; annotations of live blocks, of blocks from before the trace, and of no
    block."""

    def __init__(self, seed):
        r = self.random = random.Random(seed)
        stacks = [[frame(s * 7 + k + 1) for k in range(1 + s % 5)] for s in range(8)]
        self.entries, live, blocks, self.truth = [], [], [], []
        older = [{"address": BASE + (1 << 30) + i * 4096, "size": 4096, "requested_size": 4000,
                  "state": "active_allocated", "frames": r.choice(stacks),
                  **({"user_metadata": f"older {i % 2}"} if i % 3 else {})} for i in range(8)]
        for block in older:
            said = [("user", block["user_metadata"])] if "user_metadata" in block else []
            self.truth.append({"address": block["address"], "bytes": 4000, "born": -1, "died": None, "said": said,
                               "stack": block["frames"]})
            live.append(self.truth[-1])
        for i in range(400):
            said = {} if r.random() < 0.2 else {"user_metadata": r.choice(
                ("", "phase 1", "phase 2", "Phase «3»", {"step": i // 50, "name": 'a "b"'}))}
            stack, at = r.choice(stacks), len(self.entries)
            if live and r.random() < 0.3:
                block = r.choice(live)
                place = r.choice((block["address"], block["address"], BASE - 4096))
                entry = self.say("annotate", place, block["bytes"], stack, {"user_metadata": f"kept by {r.randrange(4)}"})
                if place == block["address"]:
                    block["said"] += told(entry).items()
            elif live and r.random() < 0.4:
                block = live.pop(r.randrange(len(live)))
                for action in ("free_requested", "free_completed"):
                    self.say(action, block["address"], block["bytes"], block["stack"], said)
                block["died"] = len(self.entries) - 1
            else:
                address = BASE + (i % 50) * 0x10000
                if any(block["address"] == address for block in live):
                    continue
                if r.random() < 0.2:
                    said["internal_metadata"] = TAG
                entry = self.say("alloc", address, r.randrange(1, 0x8000), stack, said)
                self.truth.append({"address": address, "bytes": entry["size"], "born": at, "died": None, "stack": stack,
                                   "said": list(told(entry).items())})
                live.append(self.truth[-1])
        blocks = older + [{"address": b["address"], "size": b["bytes"], "requested_size": b["bytes"], "frames": b["stack"],
                           "state": "active_allocated"} for b in live if b["born"] >= 0]
        blocks = [b for b in blocks if any(b["address"] == one["address"] for one in live)]
        older = [b for b in older if b not in blocks]  # freed in the trace: the file says nothing of them
        for block in self.truth:
            if any(block["address"] == b["address"] and block["born"] < 0 for b in older):
                block["said"] = [(kind, text) for kind, text in block["said"] if kind == "annotation"]
        self.snapshot = {"segments": [{"device": 0, "address": b["address"], "total_size": b["size"], "stream": 0,
                                       "segment_type": "large", "blocks": [b]} for b in blocks],
                         "device_traces": [self.entries], "allocator_settings": {}, "external_annotations": []}

    def say(self, action, address, size, stack, said):
        self.entries.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": stack,
                             "time_us": START + len(self.entries), **said})
        return self.entries[-1]

    def at_peak(self):
        """{(kind, text): bytes and blocks} of the blocks that live at the peak, with all texts that they ever had."""
        def live(moment):
            return [b for b in self.truth if b["born"] <= moment and (b["died"] is None or b["died"] > moment)]
        peak = max(range(len(self.entries)), key=lambda moment: sum(b["bytes"] for b in live(moment)))
        found = {}
        for block in live(peak):
            for said in set(block["said"]):
                sums = found.setdefault(said, [0, 0])
                sums[0] += block["bytes"]
                sums[1] += 1
        return found


def sums_of(answer):
    found = {}
    for site in answer["sites"]:
        shares = [(share["bytes"], share["blocks"]) for share in site.get("metadata", [])]
        assert shares == sorted(shares, reverse=True)
        for share in site.get("metadata", []):
            sums = found.setdefault((share["kind"], share["text"]), [0, 0])
            sums[0] += share["bytes"]
            sums[1] += share["blocks"]
    return found


class Metadata(Case):
    def peak(self, path):
        return without_file(self.answer("peak", "-n", "0", path))

    def test_what_was_said_of_blocks(self):
        for seed in range(6):
            trace = Trace(seed)
            path = self.dump(trace.snapshot)
            answer, truth = self.peak(path), trace.at_peak()
            self.assertEqual(sums_of(answer), truth, seed)
            self.assertEqual({kind for kind, _ in truth}, {"user", "annotation", "internal"}, seed)
            made, again = self.folder / "made.mp", self.folder / "again.pickle"
            self.memprof("import", "--force", path, "-o", made)
            self.assertEqual(self.peak(made), answer)
            self.memprof("export", "--force", made, "-o", again, "--format", "pytorch")
            # the exported trace begins at the first entry about a block
            again = self.peak(again)
            self.assertEqual((again["peak_bytes"], again["blocks"], len(again["sites"])),
                             (answer["peak_bytes"], answer["blocks"], len(answer["sites"])))
            self.assertEqual(sums_of(again), truth, seed)
            lost = [note for note in answer["coverage"]["notes"] if note.startswith("annotations of memory of cuda:0")]
            self.assertEqual(len(lost), 1)

    def test_groups(self):
        trace = Trace(2)
        groups = self.answer("peak", "-n", "0", "--group", "metadata", self.dump(trace.snapshot))["sites"]
        whole = sum(group["bytes"] for group in self.answer("peak", "-n", "0", self.dump(trace.snapshot))["sites"])
        self.assertEqual(sum(group["bytes"] for group in groups), whole)
        self.assertIn(None, [group["group"] for group in groups])
        self.assertTrue(any(group["group"] and "; internal: " + TAG in group["group"] for group in groups))

    def test_in_words(self):
        text = self.memprof("peak", "-n", "0", self.dump(Trace(1).snapshot)).stdout
        self.assertRegex(text, r'annotation "kept by \d"')
        self.assertIn('metadata "phase', text)
        self.assertIn(f'internal "{TAG}"', text)

    def test_anonymous(self):
        trace, out = Trace(3), self.folder / "anonymous.mp"
        path = self.dump(trace.snapshot)
        self.assertEqual(self.memprof("anonymize", "--force", path, "-o", out).returncode, 0)
        names = {}
        for (kind, text), sums in trace.at_peak().items():
            names.setdefault(kind, []).append(sums)
        found = {}
        for (kind, text), sums in sums_of(self.peak(out)).items():
            self.assertEqual(text, TAG if kind == "internal" else text)
            self.assertRegex(text, rf"^metadata \d+$|^{TAG}$")
            found.setdefault(kind, []).append(sums)
        self.assertEqual({kind: sorted(sums) for kind, sums in found.items()},
                         {kind: sorted(sums) for kind, sums in names.items()})
        for name in ("json", "pickle"):
            exported = self.folder / f"anonymous.{name}"
            self.memprof("export", "--force", out, "-o", exported, "--format", "pytorch")
            for secret in (b"phase", b"Phase", b"kept by", b"older", b"step"):
                self.assertNotIn(secret, exported.read_bytes())
            self.assertEqual(sums_of(self.peak(exported)), sums_of(self.peak(out)))


class Frames(Case):
    def snapshot(self, entry):
        made = {"action": "alloc", "addr": BASE, "size": 512, "stream": 0, "time_us": START, "frames": [], **entry}
        return self.dump({"segments": [], "device_traces": [[made]], "allocator_settings": {}, "external_annotations": []})

    def stack(self, entry):
        (site,) = self.answer("peak", self.snapshot(entry))["sites"]
        return site["stack"]

    def test_backward_of(self):
        frames = [{"name": "torch::autograd::Engine", "filename": "??", "line": 0},
                  {"name": "step", "filename": "/src/train.py", "line": 50}]
        forward = ['  File "/src/train.py", line 9, in main\n    y = f(x)\n',
                   '  File "/src/model.py", line 31, in forward\n    a = self.net(x)\n'
                   '  File "/src/net.py", line 4, in <lambda>\n']
        stack = self.stack({"frames": frames, "forward_frames": forward})
        self.assertEqual([(line["function"], line["file"], line["line"], line["language"]) for line in stack],
                         [("torch::autograd::Engine", None, None, "native"), ("step", "/src/train.py", 50, "python"),
                          ("backward of", None, None, "backward"), ("<lambda>", "/src/net.py", 4, "python"),
                          ("forward", "/src/model.py", 31, "python"), ("main", "/src/train.py", 9, "python")])
        text = self.memprof("peak", self.snapshot({"frames": frames[:1], "forward_frames": forward})).stdout
        self.assertIn("backward of <lambda>", text)
        for nothing in ([], None, "a text", [1], ["no traceback"], ['  File "/src/net.py", line 4\n']):
            self.assertEqual(len(self.stack({"frames": frames, "forward_frames": nothing})), 2)

    def test_nodes_of_a_graph(self):
        node = {"name": "forward", "filename": "/tmp/cab.py", "line": 12, "fx_node_op": "call_function",
                "fx_node_name": 'relu_"1"\\', "fx_node_target": "aten.relu.default",
                "fx_original_trace": '  File "/src/model.py", line 31, in call\n    a = self.net1(x)\n'}
        (line,) = self.stack({"frames": [node]})
        self.assertEqual(line, {"function": "call", "file": "/src/model.py", "line": 31, "module": None,
                                "language": "python", "fx_node_name": 'relu_"1"\\', "fx_node_op": "call_function",
                                "fx_node_target": "aten.relu.default"})
        text = self.memprof("peak", "--full-stacks", self.snapshot({"frames": [node]})).stdout
        self.assertIn('FX node relu_"1"\\ call_function aten.relu.default', text)
        (line,) = self.stack({"frames": [{**node, "fx_node_op": {"fx_node_op": "no text"}}]})
        self.assertNotIn("fx_node_op", line)

    def test_anonymous(self):
        node = {"name": "secret_1", "filename": "/secret/a.py", "line": 12, "fx_node_op": "call_function",
                "fx_node_name": "secret_2", "fx_node_target": "secret_3.default", "secret_4": "secret_5",
                "fx_original_trace": '  File "/secret/model.py", line 31, in secret_6\n    a = secret_7(x)\n'}
        forward = ['  File "/secret/model.py", line 31, in secret_6\n    a = secret_7(x)\n']
        path = self.snapshot({"frames": [node], "forward_frames": forward, "secret_8": ["secret_9"]})
        out, exported = self.folder / "a.mp", self.folder / "a.json"
        self.memprof("anonymize", "--force", path, "-o", out)
        self.memprof("export", "--force", out, "-o", exported, "--format", "pytorch")
        self.assertNotIn("secret", exported.read_text())
        (entry,) = json.loads(exported.read_text())["device_traces"][0]
        line = entry["frames"][0]
        self.assertEqual((line["fx_node_op"], line["line"]), ("call_function", 31))
        self.assertRegex(line["fx_node_name"], r"^node \d+$")
        self.assertRegex(line["fx_node_target"], r"^node \d+$")
        for name in (path, out):
            (site,) = self.answer("peak", name)["sites"]
            self.assertEqual([line["line"] for line in site["stack"]], [31, None, 31])


if __name__ == "__main__":
    asserted.main()
