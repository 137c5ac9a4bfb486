#!/usr/bin/env python3
"""Allocators other than PyTorch's native one, each compared with a source other than memprof."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import harness

BEGIN = "import json, torch\nMIB = 1 << 20\n"
# Allocates twice the requested bytes, which shows whose number is reported, and logs the driver's blocks.
PLUGGED = """
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
static void told(const char *what, void *address, size_t bytes)
{
    FILE *file = fopen(getenv("PLUGGED_LOG"), "a");
    fprintf(file, "%s %llu %zu\\n", what, (unsigned long long)address, bytes);
    fclose(file);
}
void *plugged_alloc(ssize_t bytes, int device, void *stream)
{
    void *address = NULL;
    (void)device, (void)stream;
    if (cudaMalloc(&address, 2 * (size_t)bytes)) return NULL;
    told("alloc", address, 2 * (size_t)bytes);
    return address;
}
void plugged_free(void *address, ssize_t bytes, int device, void *stream)
{
    (void)bytes, (void)device, (void)stream;
    told("free", address, 0);
    cudaFree(address);
}
"""
DECLARED = "typedef int cudaError_t;\ncudaError_t cudaMalloc(void **, unsigned long);\ncudaError_t cudaFree(void *);\n"


class Kinds(bed.TestCase):
    def test_stream_ordered(self):
        """PyTorch asks the driver's pool for its used and reserved bytes."""
        run = self.execute(BEGIN + """
kept = []
for number in range(40):
    with torch.cuda.stream(torch.cuda.Stream() if number % 3 else torch.cuda.default_stream()):
        kept.append(torch.empty((number * 37 % 11 + 1) * MIB + number, dtype=torch.uint8, device="cuda"))
    if number % 4 == 3:
        del kept[::2]
stats = torch.cuda.memory_stats()
print(json.dumps({key: stats[key] for key in ("allocated_bytes.all.current", "allocated_bytes.all.peak",
                                              "reserved_bytes.all.peak")}))
""", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        told, track = json.loads(run.output), run.tracks()["cuda:0/driver/pool"]
        self.assertEqual((track["end_bytes"], track["peak_bytes"], track["reserved_peak_bytes"]),
                         (told["allocated_bytes.all.current"], told["allocated_bytes.all.peak"],
                          told["reserved_bytes.all.peak"]))
        self.assertEqual(track["allocs"], 40)

    def test_plugged(self):
        (self.folder / "cuda_runtime_api.h").write_text(DECLARED)
        (self.folder / "plugged.c").write_text(PLUGGED)
        subprocess.run(["cc", "-shared", "-fPIC", "-I", self.folder, "-o", self.folder / "plugged.so",
                        self.folder / "plugged.c"], check=True)
        log = self.folder / "log"
        run = self.execute(BEGIN + """
torch.cuda.memory.change_current_allocator(
    torch.cuda.memory.CUDAPluggableAllocator("./plugged.so", "plugged_alloc", "plugged_free"))
kept = []
for number in range(30):
    kept.append(torch.ones(number * 1000 + 1, device="cuda"))
    if number % 3 == 2:
        kept.append(kept.pop(0) + kept.pop(0).sum())
print(torch.cuda.get_allocator_backend())
""", PLUGGED_LOG=log)
        self.assertEqual(run.output.strip(), "pluggable")
        told = [line.split() for line in log.read_text().splitlines()]
        allocs = [(int(address), int(size)) for what, address, size in told if what == "alloc"]
        blocks = run.blocks("cuda:0/driver")
        self.assertEqual([(block["address"], block["bytes"]) for block in blocks], allocs)
        self.assertEqual(sum(block["free_ns"] is not None for block in blocks), len(told) - len(allocs))
        self.assertGreater(len(told), len(allocs))

    def test_pinned(self):
        """PyTorch rounds up to powers of two, keeps freed blocks, and uses them again."""
        run = self.execute(BEGIN + """
kept, told = [], []
for number in range(24):
    size = (number * 977 % 3000 + 1) * 1000
    kept.append(torch.empty(size, dtype=torch.uint8, pin_memory=True))
    told.append([kept[-1].data_ptr(), size])
    if number % 3 == 2:
        kept.pop(0)
torch.empty(1, device="cuda")
print(json.dumps(told))
""")
        blocks, seen = {}, set()
        for address, size in json.loads(run.output):
            whole = 1 << (size - 1).bit_length()
            blocks.setdefault(address, whole)
            seen.add(address)
        found = {block["address"]: block["bytes"] for block in run.blocks("cpu/driver") if block["kind"] == "pinned"}
        self.assertEqual(found, blocks)

    def test_profiled(self):
        """torch.profiler counts the same reports of c10 with its own code."""
        run = self.execute(BEGIN + """
from torch.profiler import ProfilerActivity, profile
model = torch.nn.Sequential(torch.nn.Linear(100, 300), torch.nn.ReLU(), torch.nn.Linear(300, 7)).cuda()
optimizer = torch.optim.Adam(model.parameters())
begun = torch.cuda.memory_stats()["allocation.all.allocated"]
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as profiler:
    for _ in range(3):
        model(torch.randn(31, 100, device="cuda")).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
ended = torch.cuda.memory_stats()["allocation.all.allocated"]
profiler.export_chrome_trace("trace.json")
print(json.dumps([begun, ended]))
""")
        begun, ended = json.loads(run.output)
        events = [event for event in json.loads((self.folder / "trace.json").read_text())["traceEvents"]
                  if event.get("name") == "[memory]" and event["args"]["Device Type"] == 1]
        told = [(event["args"]["Addr"], event["args"]["Bytes"])
                for event in sorted(events, key=lambda event: event["ts"]) if event["args"]["Bytes"] > 0]
        self.assertEqual([(block["address"], block["bytes"]) for block in run.blocks()[begun:ended]], told)
        self.assertGreater(len(told), 30)


if __name__ == "__main__":
    bed.main()
