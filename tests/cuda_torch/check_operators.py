#!/usr/bin/env python3
"""The log of operators: types and sizes of blocks as PyTorch prints them, and memory as without the log."""
import collections
import contextlib
import json
import os
import sqlite3
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

PROGRAMS = ("gpt", "checkpointed", "moe", "lora", "resnet", "unet", "lstm", "generate", "graphs", "compiled", "profiled")


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
        return shapes

    def test_shapes_are_those_of_pytorch(self):
        """At a moment in the middle: at least 99 % of the bytes of live blocks have type, sizes and operator, and those
        of every block that Python or a graph knows are among the tensors that PyTorch prints."""
        for name in PROGRAMS:
            with self.subTest(name):
                run = self.run_program(name, "--operators")
                self.assert_totals(run)
                seen = {int(address): shapes for address, shapes in json.loads(self.seen.read_text()).items()}
                moment = next(row["time_ns"] for row in run.rows() if row["type"] == "mark" and row["name"] == "look")
                live = [row for row in run.blocks() if (row["alloc_ns"] or 0) <= moment < (row["free_ns"] or 1 << 63)]
                whole = sum(row["bytes"] for row in live)
                told = sum(row["bytes"] for row in live if row["shape"] and row["operator"])
                shapes = self.shapes_by_block(run)
                known = [row for row in live if row["address"] in seen]
                compared = sum(row["bytes"] for row in known)
                right = sum(row["bytes"] for row in known if shapes[row["block"]] & set(seen[row["address"]]))
                print(f"{name}: {len(live)} blocks, {whole} bytes: {told / whole:.2%} told; {compared / whole:.2%} "
                      f"compared, of which {right / compared:.2%} as PyTorch prints them", flush=True)
                self.assertGreaterEqual(told, 0.99 * whole)
                self.assertGreaterEqual(compared, 0.95 * whole)
                self.assertGreaterEqual(right, 0.99 * compared)

    def test_memory_is_as_without_the_log(self):
        for name in PROGRAMS:
            with self.subTest(name):
                traces = []
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
                self.assertEqual(traces[0], traces[1])


if __name__ == "__main__":
    bed.main()
