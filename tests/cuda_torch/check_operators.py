#!/usr/bin/env python3
"""The log of operators: types and sizes of blocks as PyTorch prints them, and memory as without the log."""
import collections
import contextlib
import csv
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

DIES = """
import sys, torch
old = torch.ones(4 << 20, device="cuda")
old.sum()
net = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(5))).cuda()
plain, adam = torch.optim.SGD(net.parameters()), torch.optim.Adam(net.parameters())
for optimizer in [plain] * int(sys.argv[1]) + [adam]:
    net(torch.ones(8, 2048, device="cuda")).sum().backward()
    optimizer.step()
"""
PROGRAMS = ("gpt", "checkpointed", "moe", "lora", "resnet", "unet", "lstm", "generate", "graphs", "compiled", "profiled",
            "sharded", *(("lightning",) if importlib.util.find_spec("lightning") else ()))
CATEGORIES = ("parameters", "gradients", "optimizer state", "buffers", "activations", "input", "temporary", "workspace",
              "previous graph", "working memory", "kept over calls")
# Categories of PyTorch's memory profiler. It calls a forward's temporary an activation, and has none of what is no tensor.
PROFILER = {"GRADIENT": {"gradients"}, "PARAMETER": {"parameters"}, "OPTIMIZER_STATE": {"optimizer state"},
            "INPUT": {"input"}, "ACTIVATION": {"activations"}, "AUTOGRAD_DETAIL": {"temporary"},
            "TEMPORARY": {"temporary"}, None: {"temporary", "workspace", ""}}


def plain(shape):
    return shape.split(" strides ")[0] if shape else None


class Operators(bed.TestCase):
    def run_program(self, name, *options, **more):
        self.seen = self.folder / "seen.json"
        return self.execute("tensors", name, self.seen, options=options, history=True, **more)

    def shapes_by_block(self, run):
        """Every shape that an operator saw in a block: a graph may keep a view of the operator's result."""
        path, shapes = self.folder / "run.sqlite", collections.defaultdict(set)
        self.assertEqual(harness.memprof("export", run.path, "--force", "--format", "sqlite", "-o", path).returncode, 0)
        with contextlib.closing(sqlite3.connect(path)) as database:
            for block, shape in database.execute("SELECT block_id, shape FROM uses WHERE shape IS NOT NULL"):
                shapes[block].add(plain(shape))
            # The operator's end tells the same module as the allocation did. A block's own row repeats that one.
            within, alike = database.execute(
                "SELECT COUNT(*), SUM(u.module IS b.module) FROM uses u JOIN blocks b ON b.id = u.block_id "
                "WHERE u.how LIKE '%m%' AND u.time_ns > b.alloc_ns").fetchone()
        self.assertGreaterEqual(alike or 0, 0.99 * within)
        return shapes

    def test_shapes_are_those_of_pytorch(self):
        """At a moment in the middle: at least 99 % of the bytes of live blocks have an operator, and type and sizes if a
        tensor lies in them. Those of every block that Python or a graph knows are as PyTorch prints them."""
        for name in PROGRAMS:
            with self.subTest(name):
                run = self.run_program(name, "--operators")
                self.assert_totals(run)
                seen = {int(address): shapes for address, shapes in json.loads(self.seen.read_text()).items()}
                moment = next(row["time_ns"] for row in run.rows() if row["type"] == "mark" and row["name"] == "look")
                live = [row for row in run.blocks() if (row["alloc_ns"] or 0) <= moment < (row["free_ns"] or 1 << 63)]
                whole = sum(row["bytes"] for row in live)
                # Before 2.8 or so, cuBLAS works in blocks of the allocator in which no tensor lies.
                told = sum(row["bytes"] for row in live
                           if row["operator"] and (row["shape"] or row["address"] not in seen))
                shapes = self.shapes_by_block(run)
                known = [row for row in live if row["address"] in seen]
                compared = sum(row["bytes"] for row in known)
                right = sum(row["bytes"] for row in known if shapes[row["block"]] & set(seen[row["address"]][0]))
                print(f"{name}: {len(live)} blocks, {whole} bytes: {told / whole:.2%} told; {compared / whole:.2%} "
                      f"compared, of which {right / compared:.2%} as PyTorch prints them", flush=True)
                self.assertGreaterEqual(told, 0.99 * whole)
                shaped = sum(row["bytes"] for row in live if row["shape"])
                self.assertGreaterEqual(compared, 0.95 * shaped)
                self.assertGreaterEqual(right, 0.99 * compared)
                self.check_saved(name, known, seen)

    def check_saved(self, name, known, seen):
        """A block that is said to be saved for a node is one of the tensors that PyTorch's node keeps."""
        said = [row for row in known if row["saved_for"] and seen[row["address"]][1]]
        right = [row for row in said if row["saved_for"] in seen[row["address"]][1]]
        print(f"{name}: {len(said)} blocks saved for a node, {len(right)} of them as PyTorch's graph has it", flush=True)
        if name == "gpt":
            self.assertGreater(len(said), 20)
        self.assertEqual(len(right), len(said), [row for row in said if row not in right])

    def categories(self, run):
        """By block of the GPU, in order of allocation."""
        found, path = {}, self.folder / "category.csv"
        for category in CATEGORIES:
            path.unlink(missing_ok=True)
            harness.memprof("export", run.path, "--force", "--format", "csv", "-o", path, "--filter",
                            f"category={category}")
            if path.exists():
                with open(path, newline="") as lines:
                    found.update((int(row["block"]), category) for row in csv.DictReader(lines))
        return [(row, found.get(row["block"], "")) for row in run.blocks()]

    def test_categories_are_those_of_pytorchs_profiler(self):
        """Of each block that small trainings make, the category in which PyTorch's memory profiler has it."""
        shares = {}
        for options in ((), ("--operators",)):
            run, right, wrong = self.execute("profiled_categories", self.folder / "seen.json", options=options), 0, []
            said = json.loads((self.folder / "seen.json").read_text())
            begins = [(row["time_ns"], row["name"]) for row in run.rows()
                      if row["type"] == "mark" and row["name"] in {"over", *(name for name, _, _ in said)}]
            mine = [(name, *one) for one in self.categories(run)
                    for name in [[name for time, name in begins if time <= (one[0]["alloc_ns"] or 0)][-1:]]]
            mine = [(name[0], row, category) for name, row, category in mine if name and name != ["over"]]
            self.assertEqual([(name, row["bytes"]) for name, row, _ in mine], [(name, size) for name, size, _ in said])
            backward = {}
            for (name, row, _), (_, _, theirs) in zip(mine, said):
                if theirs == "AUTOGRAD_DETAIL" or theirs == "GRADIENT":
                    backward.setdefault(name, row["alloc_ns"])
            for (name, row, category), (_, _, theirs) in zip(mine, said):
                passing = theirs == "ACTIVATION" and (row["free_ns"] or 1 << 63) < backward[name]
                fits = category in (PROFILER[theirs] | ({"temporary"} if passing else set()))
                right += fits
                if not fits:
                    wrong.append((name, theirs, category, row["bytes"]))
            shares[options] = right / len(said)
            print(f"{right} of {len(said)} {'from the log' if options else 'by patterns'}; others: {wrong}", flush=True)
        self.assertGreaterEqual(len(said), 185)
        self.assertGreaterEqual(shares["--operators",], 0.95)

    def test_idle_blocks_may_go(self):
        """Every block that is said to be never read again is freed by a `del` at the peak in a changed program, with the
        same result, and the peak falls by it; a program without one that is read again fails."""
        out = self.folder / "out.json"
        run = self.execute("idle", out, options=("--operators", "--holders"))
        (result, peak), = json.loads(out.read_text())
        answer = harness.answer("peak", run.path, "--track", "cuda:0/torch", "--limit", "0")
        self.assertEqual(answer["peak_bytes"], peak)
        moment = next(row["time_ns"] for row in run.rows() if row["type"] == "mark" and row["name"] == "moment")
        held = [row for row in run.blocks() if row["alloc_ns"] <= moment < (row["free_ns"] or 1 << 63)
                and row["operator"] == "repeat"]
        never, again = held[0::2], held[1::2]
        self.assertEqual((len(never), len(again)), (40, 40))
        self.assertEqual(answer["never_read_again_bytes"], sum(row["bytes"] for row in never))
        idle = {group["group"]: group for group in harness.answer(
            "peak", run.path, "--track", "cuda:0/torch", "--group", "idle", "--filter", "operator=repeat")["sites"]}
        self.assertEqual((idle["never read again"]["blocks"], idle["read again"]["blocks"]), (40, 40))
        # Its holder says what frees them, with the saving of a replay; the changed program saves as much.
        told = [row for row in harness.answer("advise", run.path, "--track", "cuda:0/torch", status=(0, 4))["changes"]
                if row["pattern"] == "idle_variable"]
        self.assertEqual([row["text"] for row in told], ["free the blocks of `module['never']` that nothing reads again"])
        self.assertIn("move it to the CPU", told[0]["code"])  # `del never` names nothing
        pairs = [("never", -1), *((kind, number) for kind in ("never", "again") for number in range(40))]
        self.execute("idle", out, *(word for pair in pairs for word in pair), recorded=False)
        whole, *each = json.loads(out.read_text())
        self.assertEqual((whole[0], peak - whole[1]), (result, told[0]["saved_bytes"]))
        self.assertEqual([peak - lower for _, lower in each], [row["bytes"] for row in (*never, *again)])
        self.assertEqual([found for found, _ in each], [result] * 40 + ["AttributeError"] * 40)

    def test_what_a_program_died_before_it_used(self):
        """Weights and gradients of a first step that runs out of memory would have been read. What three steps left
        alone is said to be idle, even though the fourth one fails."""
        said = {}
        (self.folder / "device").write_text("[small]\ntotal = 420MiB\ncontext = 64MiB\ncc = 86\nsms = 80\n")
        (self.folder / "dies.py").write_text(DIES)
        for steps in (0, 3):
            run = self.folder / f"{steps}.mp"
            done = subprocess.run([harness.MEMPROF, "plan", "--device", self.folder / "device", "-o", run, "--", "python3",
                                   self.folder / "dies.py", str(steps)], env=bed.settings(), capture_output=True, text=True,
                                  timeout=harness.TIMEOUT)
            self.assertIn("OutOfMemoryError", done.stderr)
            idle = harness.answer("peak", run, "--track", "cuda:0/torch", "--limit", "0")["never_read_again_bytes"]
            told = [row["text"] for row in harness.answer("advise", run, status=(0, 4))["changes"]
                    if row["pattern"] == "idle_variable"]
            said[steps] = idle, told
        self.assertEqual(said[0], (0, []))
        self.assertEqual(said[3][0], 16 << 20)

    def test_odd_calls(self):
        """What a log may fail at: the program computes and allocates the same with the log and without memprof."""
        seen = []
        for options in (None, ("--operators",)):
            out = self.folder / "odd.json"
            run = self.execute("odd_operators", out, options=options or (), recorded=options is not None, history=True)
            device = run.truth["devices"][0]
            sizes = sorted((entry["action"], entry["size"]) for entry in device["trace"]
                           if not entry["action"].startswith("segment"))  # hang on the order in which threads free
            seen.append((json.loads(out.read_text()), sizes, device["stats"]["allocation.all.freed"],
                         device["stats"]["requested_bytes.all.allocated"]))
        self.assertEqual(seen[0], seen[1])
        self.assertEqual([name for name, result in seen[0][0].items() if str(result).endswith("Error")],
                         [name for name in ("torchao",) if importlib.util.find_spec(name) is None])
        self.assert_totals(run)
        self.assertLessEqual({"cat", "mm", "_foreach_add", "clone"}, {row["operator"] for row in run.blocks()})

    def test_memory_is_as_without_the_log(self):
        agreed, in_order = collections.defaultdict(collections.Counter), {}
        for name in PROGRAMS:
            with self.subTest(name):
                traces, categories, orders = [], [], []
                for options in ((), ("--operators",)):
                    run = self.run_program(name, *options)
                    device = run.truth["devices"][0]
                    sizes = collections.defaultdict(list)
                    for entry in device["trace"]:
                        sizes[entry["action"]].append(entry["size"])
                    # Threads of autograd free while the main thread goes on, so the order of frees differs by itself.
                    traces.append((sizes.pop("alloc"), {action: sorted(each) for action, each in sizes.items()},
                                   {key: device["stats"][key] for key in (
                                       "allocation.all.allocated", "allocation.all.freed", "allocated_bytes.all.peak",
                                       "reserved_bytes.all.peak", "requested_bytes.all.peak")}, run.output))
                    categories.append(self.categories(run))
                    orders.append([(entry["action"], entry["size"]) for entry in device["trace"]])
                self.assertEqual(traces[0], traces[1])
                in_order[name] = orders[0] == orders[1]
                for (_, guess), (row, known) in zip(*categories):
                    agreed[known]["blocks"] += 1
                    agreed[known]["alike"] += guess == known
                    agreed[known]["bytes"] += row["bytes"]
                    agreed[known]["bytes alike"] += row["bytes"] * (guess == known)
        print("allocations and frees in one order:", in_order)
        print("category from the log: blocks, of which patterns agree; bytes, of which patterns agree")
        for category, of in sorted(agreed.items()):
            print(f"{category or '(none)':16} {of['blocks']:7} {of['alike'] / of['blocks']:7.1%} "
                  f"{of['bytes']:12} {of['bytes alike'] / of['bytes']:7.1%}", flush=True)


if __name__ == "__main__":
    bed.main()
