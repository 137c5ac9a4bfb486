#!/usr/bin/env python3
"""Allocators of PyTorch since 2.7: two variables with settings, new settings of devices and pinned memory, pools within
a graph. memprof's totals equal PyTorch's own in that run. Replays and plans have the same peaks."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

BEGIN = """
import json, random, sys, warnings
import torch
MIB = 1 << 20
warnings.simplefilter("ignore")
def tensor(size, **more):
    return torch.empty(size, dtype=torch.uint8, **(more or {"device": "cuda"}))
"""
# The change marks the settings with which the program began.
MIXED = BEGIN + """
r, kept = random.Random(5), []
for number in range(400):
    if r.random() < 0.55 or not kept:
        kept.append(tensor(int(2 ** r.uniform(10, 25.5))))
    else:
        kept.pop(r.randrange(len(kept)))
    if number == 200:
        torch.cuda.memory._set_allocator_settings("max_split_size_mb:100")
"""
CUDA, ANY = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
RESERVE = "expandable_segments:True,expandable_segments_reserve:"
# PyTorch's documents say that ANY takes precedence. In each version CUDA does.
SETTINGS = {
    "both": ((2, 7), {ANY: "expandable_segments:True", CUDA: "roundup_power2_divisions:4"}),
    "emptied": ((2, 7), {ANY: "expandable_segments:True", CUDA: ""}),
    "large_segments": ((2, 11), {ANY: "large_segment_size_mb:64"}),
    "reserve": ((2, 15), {ANY: "max_split_size_mb:32", CUDA: RESERVE + "0.125G,pinned_free_catch_all:True"}),
    "reserved_share": ((2, 15), {ANY: RESERVE + "0.015,large_segment_size_mb:40"}),
}
PINNED = BEGIN + """
kept = []
for number in range(40):
    kept.append(tensor((number * 977 % 3000 + 1) * 1000, pin_memory=True))
    if number % 3 == 2:
        kept.pop(0)
tensor(1)
print(json.dumps(torch.cuda.host_memory_stats()))
"""
CACHES = {
    "registered": ((2, 7), "pinned_use_cuda_host_register:True,pinned_num_register_threads:4"),
    "background": ((2, 9), "pinned_use_background_threads:True"),  # ends 2.7.1 by SIGSEGV without memprof, too
    "cached": ((2, 15), "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:2"),
}
POOLS = """
graph, pools = torch.cuda.CUDAGraph(), [torch.cuda.MemPool() for _ in range(2)]
with torch.cuda.graph(graph):
    first = tensor(3 * MIB)
    with torch.cuda.use_mem_pool(pools[0]):
        kept = [tensor(5 * MIB), tensor(300)]
        with torch.cuda.use_mem_pool(pools[1]):
            kept.append(tensor(15 * MIB))
        kept.append(tensor(3 * MIB))
    last = tensor(2 * MIB)
del pools
outside = tensor(30 * MIB)
torch.accelerator.empty_cache()
del kept, first, last
graph.reset()
del graph
outside = [outside, tensor(12 * MIB)]
"""
CHANGED = """
kept = [tensor(30 * MIB) for _ in range(5)]
torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
kept += [tensor(33 * MIB) for _ in range(5)]
torch._C._accelerator_setAllocatorSettings("expandable_segments:False,max_split_size_mb:40")
del kept[::2]
kept += [tensor(13 * MIB) for _ in range(5)]
"""
HISTORY = """
kept = [tensor(1000)]
torch.cuda.memory._record_memory_history(record_cuda=False, record_pinned_host_memory=True, context=None)
kept += [tensor(2000), tensor(3000, pin_memory=True)]
torch.cuda.memory._record_memory_history(None)
kept += [tensor(4000)]
"""
SHORT = ("both", "reserve", "reserved_share", "registered", "cached")
LONG = harness.asserted.LONG
DEVICE = "[as the stand-in]\ntotal = 8192MiB\ncontext = 64MiB\ncc = 86\nsms = 80\nl2 = 6291456\n"
VERSION = tuple(int(part) for part in bed.VERSION.split(".")[:2]) if bed.VERSION else (99, 0)


def since(*first):
    return harness.unittest.skipIf(VERSION < first, f"PyTorch has it from {first[0]}.{first[1]} on")


class Newer(bed.TestCase):
    def replayed(self, run, settings="recorded"):
        return harness.answer("frag", run.path, "--track", "cuda:0/torch", "--replay", settings)["replay"]

    def peak(self, run):
        self.assert_totals(run)
        return run.truth["devices"][0]["stats"]["reserved_bytes.all.peak"]

    def check_settings(self, variables):
        run = self.execute(MIXED, SOFTGPU_MEMORY=8 << 30, **variables)
        self.assertEqual(self.replayed(run)["reserved_peak_bytes"], self.peak(run))
        if not LONG and "large_segment_size_mb" not in str(variables):
            return
        (self.folder / "device").write_text(DEVICE)
        plan = self.execute(MIXED, how="plan", options=["--device", self.folder / "device"], **variables)
        self.assertEqual(self.peak(plan), self.peak(run))

    def check_pinned(self, settings):
        run = self.execute(PINNED, **{CUDA: settings})
        stats = json.loads(run.output)
        track = run.tracks()["cpu/driver/registered" if "register" in settings else "cpu/driver"]
        self.assertEqual((track["allocs"], track["peak_bytes"]),
                         (stats["num_host_alloc"], stats["allocated_bytes.peak"]))
        cache = harness.answer("leaks", run.path, status=(0, 3, 4))["pinned_cache"]
        self.assertEqual((cache["blocks"], cache["bytes"]), (track["allocs"] - track["frees"], track["end_bytes"]))

    def check_program(self, program, others):
        """As recorded, and replayed as in real runs under other settings."""
        run = self.execute(BEGIN + program)
        self.assert_requests(run)
        self.assertEqual(self.replayed(run)["reserved_peak_bytes"], self.peak(run))
        run.path = run.path.rename(self.folder / "own.mp")
        for settings in others:
            with self.subTest(settings=settings):
                real = self.peak(self.execute(BEGIN + program, **{CUDA: settings}))
                self.assertEqual(self.replayed(run, settings)["reserved_peak_bytes"], real)

    @since(2, 9)
    def test_pools_in_a_graph(self):
        self.check_program(POOLS, ("expandable_segments:True",))

    @since(2, 11)
    def test_settings_of_accelerators(self):
        self.check_program(CHANGED, ())

    @since(2, 15)
    def test_more_than_a_segment_may_have(self):
        run = self.execute(BEGIN + "kept = tensor(90 * MIB)\ntensor(300 * MIB)\n", status=1, SOFTGPU_MEMORY=8 << 30,
                           **{CUDA: RESERVE + "0.25G"})
        self.assert_totals(run)
        self.assertIn("cause: limit", run.said)

    @since(2, 15)
    def test_history_of_pinned_memory_alone(self):
        """memprof's history of PyTorch's devices stays, even if the program records the history of pinned memory."""
        run = self.execute(BEGIN + HISTORY)
        self.assertEqual([block["requested_bytes"] for block in run.blocks()], [1000, 2000, 4000])


for name_, (first_, variables_) in SETTINGS.items():
    if LONG or name_ in SHORT:
        setattr(Newer, f"test_{name_}", since(*first_)(lambda self, given=variables_: self.check_settings(given)))
for name_, (first_, settings_) in CACHES.items():
    if LONG or name_ in SHORT:
        setattr(Newer, f"test_pinned_{name_}", since(*first_)(lambda self, given=settings_: self.check_pinned(given)))

if __name__ == "__main__":
    bed.main()
