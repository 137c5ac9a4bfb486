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
import tempfile

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
# Programs of packages, in an environment that has them: MEMPROF_CUDA_TORCH="--with lightning", "--engine vllm".
OF_PACKAGES = {"lightning": "lightning", "trainer": "peft", "diffusion": "diffusers", "generation": "transformers",
               "vllm": "vllm"}
PROGRAMS = [name for name, package in OF_PACKAGES.items() if importlib.util.find_spec(package)] or [
    "gpt", "checkpointed", "moe", "lora", "resnet", "unet", "lstm", "generate", "graphs", "compiled", "inductor",
    "profiled", "sharded"]
AGAIN = 4  # runs without the log that look for the order of frees with it
CATEGORIES = ("parameters", "gradients", "optimizer state", "buffers", "activations", "input", "temporary", "workspace",
              "previous graph", "working memory", "kept over calls")
# Categories of PyTorch's memory profiler. It calls a forward's temporary an activation, and has none of what is no tensor.
PROFILER = {"GRADIENT": {"gradients"}, "PARAMETER": {"parameters"}, "OPTIMIZER_STATE": {"optimizer state"},
            "INPUT": {"input"}, "ACTIVATION": {"activations"}, "AUTOGRAD_DETAIL": {"temporary"},
            "TEMPORARY": {"temporary"}, None: {"temporary", "workspace", ""}}


def plain(shape):
    return shape.split(" strides ")[0] if shape else None


class Operators(bed.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.compiled = tempfile.TemporaryDirectory(prefix="memprof-test-")
        cls.addClassCleanup(cls.compiled.cleanup)

    def run_programs(self, *names, options=()):
        """Yields each name, its run, and what look() of programs/tensors.py saw by address."""
        more = {"TORCHINDUCTOR_CACHE_DIR": self.compiled.name, "TORCHINDUCTOR_COMPILE_THREADS": 1}
        seen = {name: self.folder / f"{name}.json" for name in names}
        if "inductor" in names and not os.listdir(self.compiled.name):  # it measures kernels, and allocates for that
            self.execute("tensors", "inductor", seen["inductor"], recorded=False, **more)
        runs = self.execute_each(*(("tensors", each, more) for each in seen.items()), options=options, history=True)
        for run, (name, path) in zip(runs, seen.items()):
            yield name, run, {int(address): shapes for address, shapes in json.loads(path.read_text()).items()}

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
        """At the peak and at a moment in the middle: at least 99 % of the bytes of live blocks have an operator, and type
        and sizes if a tensor lies in them. In the middle, they are as PyTorch prints them for every block that Python
        or a graph knows."""
        for name, run, seen in self.run_programs(*PROGRAMS, options=("--operators",)):
            with self.subTest(name):
                self.assert_totals(run)
                moment = next(row["time_ns"] for row in run.rows() if row["type"] == "mark" and row["name"] == "look")
                blocks = run.blocks()
                live = self.live(blocks, moment)
                whole = sum(row["bytes"] for row in live)
                peak = harness.answer("peak", run.path, "--track", "cuda:0/torch", "--limit", "0", status=(0, 4))
                at_peak = self.live(blocks, peak["peak_ns"])
                self.assertEqual(sum(row["bytes"] for row in at_peak), peak["peak_bytes"])
                rooms = self.of_category(run, "workspace")
                told_then = sum(row["bytes"] for row in at_peak
                                if row["operator"] and (row["shape"] or row["block"] in rooms))
                # cuBLAS works in blocks of the allocator in which no tensor lies.
                told = sum(row["bytes"] for row in live
                           if row["operator"] and (row["shape"] or row["address"] not in seen))
                shapes = self.shapes_by_block(run)
                known = [row for row in live if row["address"] in seen]
                compared = sum(row["bytes"] for row in known)
                right = sum(row["bytes"] for row in known if shapes[row["block"]] & set(seen[row["address"]][0]))
                print(f"{name}: {told_then / peak['peak_bytes']:.2%} of {peak['peak_bytes']} bytes at the peak told; in the "
                      f"middle {len(live)} blocks, {whole} bytes: {told / whole:.2%} told; {compared / whole:.2%} "
                      f"compared, of which {right / compared:.2%} as PyTorch prints them", flush=True)
                self.assertGreaterEqual(told_then, 0.99 * peak["peak_bytes"])
                self.assertGreaterEqual(told, 0.99 * whole)
                shaped = sum(row["bytes"] for row in live if row["shape"])
                self.assertGreaterEqual(compared, 0.95 * shaped)
                self.assertGreaterEqual(right, 0.99 * compared)
                self.check_saved(name, known, seen)

    def live(self, blocks, moment):
        return [row for row in blocks if (row["alloc_ns"] or 0) <= moment < (row["free_ns"] or 1 << 63)]

    def check_saved(self, name, known, seen):
        """A block that is said to be saved for a node is one of the tensors that PyTorch's node keeps."""
        said = [row for row in known if row["saved_for"] and seen[row["address"]][1]]
        right = [row for row in said if row["saved_for"] in seen[row["address"]][1]]
        print(f"{name}: {len(said)} blocks saved for a node, {len(right)} of them as PyTorch's graph has it", flush=True)
        if name == "gpt":
            self.assertGreater(len(said), 20)
        self.assertEqual(len(right), len(said), [row for row in said if row not in right])

    def of_category(self, run, category):
        path = self.folder / "category.csv"
        path.unlink(missing_ok=True)
        harness.memprof("export", run.path, "--force", "--format", "csv", "-o", path, "--filter", f"category={category}")
        if not path.exists():
            return set()
        with open(path, newline="") as lines:
            return {int(row["block"]) for row in csv.DictReader(lines)}

    def categories(self, run):
        """By block of the GPU, in order of allocation."""
        found = {block: category for category in CATEGORIES for block in self.of_category(run, category)}
        return [(row, found.get(row["block"], "")) for row in run.blocks()]

    def test_categories_are_those_of_pytorchs_profiler(self):
        """Blocks of small trainings have the category that PyTorch's memory profiler gives them: 95 % with the log."""
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
        """Each of the 40 blocks reported as never read again is deleted in a changed program: the result is the same,
        and the peak falls by the block's bytes. A program without one of the blocks that are read again fails."""
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
        """Weights and gradients of a first step that runs out of memory would have been read. Blocks that three
        steps did not read are reported as idle, even though the fourth step fails."""
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
        """Calls that a log may fail at: the program computes and allocates the same with the log and without memprof.
        """
        seen = []
        for options in (None, ("--operators",)):
            out = self.folder / "odd.json"
            run = self.execute("odd_operators", out, options=options or (), recorded=options is not None, history=True)
            device = run.truth["devices"][0]
            sizes = sorted((entry["action"], entry["size"]) for entry in device["trace"]
                           # Segments depend on the order in which threads free.
                           if not entry["action"].startswith("segment"))
            seen.append((json.loads(out.read_text()), sizes, device["stats"]["allocation.all.freed"],
                         device["stats"]["requested_bytes.all.allocated"]))
        self.assertEqual(seen[0], seen[1])
        self.assertEqual([name for name, result in seen[0][0].items() if str(result).endswith("Error")],
                         [name for name in ("torchao",) if importlib.util.find_spec(name) is None])
        self.assert_totals(run)
        self.assertLessEqual({"cat", "mm", "_foreach_add", "clone"}, {row["operator"] for row in run.blocks()})
        path = self.folder / "odd.sqlite"
        harness.memprof("export", run.path, "--force", "--format", "sqlite", "-o", path)
        with contextlib.closing(sqlite3.connect(path)) as database:
            uses = database.execute("SELECT shape, how FROM uses WHERE operator = 'doubled'").fetchall()
        self.assertEqual(uses, [("float32 [1024]", "r")] * 2)

    def test_memory_is_as_without_the_log(self):
        """Allocations, in order, and totals are as without the log. The tensors at each address are as PyTorch prints
        them in the run without the log. Frees are in the same order, too, unless runs without the log already differ:
        autograd's threads free while the main thread goes on."""
        agreed, in_order, options = collections.defaultdict(collections.Counter), {}, [(), ("--operators",)]
        for name in PROGRAMS:
            with self.subTest(name):
                traces, orders, categories, seen = [], [], [], []
                for each in options + [()] * AGAIN:
                    if len(orders) > 1 and (orders[1] in (orders[0], orders[-1]) or orders[0] != orders[-1]):
                        break
                    (_, run, found), = self.run_programs(name, options=each)
                    device = run.truth["devices"][0]
                    sizes = collections.defaultdict(list)
                    for entry in device["trace"]:
                        sizes[entry["action"]].append(entry["size"])
                    traces.append((sizes.pop("alloc"), {action: sorted(each) for action, each in sizes.items()},
                                   {key: device["stats"][key] for key in (
                                       "allocation.all.allocated", "allocation.all.freed", "allocated_bytes.all.peak",
                                       "reserved_bytes.all.peak", "requested_bytes.all.peak")}, run.output))
                    orders.append([(entry["action"], entry["size"]) for entry in device["trace"]])
                    seen.append({address - min(found): shapes for address, shapes in found.items()})  # runs begin at other ones
                    if len(orders) <= 2:
                        categories.append(self.categories(run))
                self.assertEqual(traces[0], traces[1])
                in_order[name] = ("as without the log" if orders[1] in (orders[0], *orders[2:]) else
                                  "differs without the log" if orders[0] != orders[-1] else "differs")
                self.assertNotEqual(in_order[name], "differs")
                if orders[0] == orders[1]:
                    self.assertEqual(seen[0], seen[1])
                for (_, guess), (row, known) in zip(*categories):
                    agreed[known]["blocks"] += 1
                    agreed[known]["alike"] += guess == known
                    agreed[known]["bytes"] += row["bytes"]
                    agreed[known]["bytes alike"] += row["bytes"] * (guess == known)
                    agreed[known, guess, name]["blocks"] += guess != known
        print("order of allocations and frees:", in_order)
        print("category from the log: blocks, of which patterns agree; bytes, of which patterns agree")
        for category, of in sorted((each for each in agreed.items() if isinstance(each[0], str))):
            print(f"{category or '(none)':16} {of['blocks']:7} {of['alike'] / of['blocks']:7.1%} "
                  f"{of['bytes']:12} {of['bytes alike'] / of['bytes']:7.1%}", flush=True)
        print("others (log, patterns, program):",
              {each: of["blocks"] for each, of in agreed.items() if not isinstance(each, str) and of["blocks"]})


if __name__ == "__main__":
    bed.main()
