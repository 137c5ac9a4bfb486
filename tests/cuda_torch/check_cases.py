#!/usr/bin/env python3
"""Errors that PyTorch's real CUDA allocator has shown, one case each."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import bed
import cuda_stand_in
import harness

GIB = 1 << 30
TENSOR = 'def tensor(size):\n    return torch.empty(size, dtype=torch.uint8, device="cuda")\n'
BEGIN = f"import json, threading, time, torch\nMIB = 1 << 20\n{TENSOR}{cuda_stand_in.WAIT_FOR_A_READING}"


class OutOfMemory(bed.TestCase):
    def test_survived_refusals_are_not_told(self):
        run = self.execute(BEGIN + """
for size in (600, 700, 800):  # each is cached, and given back when the next does not fit
    kept = tensor(size * MIB)
    del kept
""", SOFTGPU_MEMORY=GIB)
        self.assertEqual(run.truth["devices"][0]["stats"]["num_alloc_retries"], 2)
        self.assertNotIn("OUT OF MEMORY", run.said)
        self.assertEqual(list(self.folder.glob("*.oom*.mp")), [])
        self.assert_totals(run)

    def after_refusals(self, first, options=()):
        run = self.execute(BEGIN + first + """
tensor(400 * MIB)
""", status=1, options=options, SOFTGPU_MEMORY=GIB)
        self.assertEqual(run.truth["failure"], "OutOfMemoryError")
        self.assertIn("OUT OF MEMORY on cuda:0/torch: asked for 400 MiB", run.said)
        self.assertIn("cause: capacity", run.said)
        self.assertEqual(run.said.count("OUT OF MEMORY"), 1)
        self.assertEqual(len(list(self.folder.glob("run.oom*.mp"))), 1)
        return run

    def test_the_real_one_is_told(self):
        for options in ((), ("--no-torch-history",)):  # without the history, only the driver's blocks show the segments
            with self.subTest(options=options):
                for left in self.folder.glob("*.mp"):
                    left.unlink()
                run = self.after_refusals("""
kept = [tensor(100 * MIB) for _ in range(8)]
for size in (110, 120, 130):
    more = tensor(size * MIB)
    del more
time.sleep(0.06)
""", options)
                frag = harness.answer("frag", run.path)
                segments = {segment["address"] for segment in run.truth["devices"][0]["segments"]}
                self.assertEqual({int(segment["address"], 16) for segment in frag["segments"]}, segments)
                self.assertEqual((frag["oom"]["requested_bytes"], frag["oom"]["cause"]), (400 * bed.MIB, "capacity"))

    def test_the_last_after_others(self):
        """A program that searches for the largest batch survives some failures: the one that ends it is reported,
        too."""
        run = self.execute(BEGIN + """
for size in (4, 3, 2):
    try:
        tensor(size << 30)
    except torch.OutOfMemoryError:
        pass
kept = [tensor(300 * MIB) for _ in range(2)]
tensor(500 * MIB)
""", status=1, SOFTGPU_MEMORY=GIB)
        self.assertEqual(run.said.count("OUT OF MEMORY"), 2, run.said)
        self.assertIn("asked for 4.00 GiB", run.said)
        self.assertEqual(run.said.count("the request alone is larger than the device's memory"), 1, run.said)
        self.assertIn("asked for 500 MiB", run.said)
        self.assertEqual(len(list(self.folder.glob("run.oom*.mp"))), 2)

    def test_the_first_of_all(self):
        run = self.execute(BEGIN + "\ntensor(4 << 30)\n", status=1, SOFTGPU_MEMORY=GIB)
        self.assertIn("OUT OF MEMORY on cuda:0/torch: asked for 4.00 GiB", run.said)

    def test_the_first_of_all_on_a_slow_machine(self):
        """The machine may take any time between the driver's refusal and PyTorch's own report."""
        (self.folder / "slow.c").write_text("""#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int cudaMemGetInfo(unsigned long *left, unsigned long *total)
{
    int (*next)(unsigned long *, unsigned long *) = (int (*)(unsigned long *, unsigned long *))dlsym(RTLD_NEXT, "cudaMemGetInfo");
    write(2, "slow\\n", 5);
    usleep(2500000);
    return next(left, total);
}
""")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.folder / "slow.so", self.folder / "slow.c"], check=True)
        for settings in ("expandable_segments:False", "expandable_segments:True"):
            with self.subTest(settings=settings):
                run = self.execute(BEGIN + "\ntensor(4 << 30)\n", status=1, SOFTGPU_MEMORY=GIB,
                                   PYTORCH_CUDA_ALLOC_CONF=settings,
                                   LD_PRELOAD=f"{self.folder / 'slow.so'}:{os.environ.get('LD_PRELOAD', '')}")
                self.assertIn("slow", run.said)
                self.assertEqual(run.said.count("OUT OF MEMORY"), 1, run.said)
                self.assertIn("OUT OF MEMORY on cuda:0/torch: asked for 4.00 GiB", run.said)
                self.assertIn("cause: capacity", run.said)

    def test_expandable(self):
        run = self.execute(BEGIN + """
kept = [tensor(300 * MIB) for _ in range(2)]
tensor(600 * MIB)
""", status=1, SOFTGPU_MEMORY=GIB, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        self.assertIn("OUT OF MEMORY on cuda:0/torch", run.said)
        self.assertEqual(run.said.count("OUT OF MEMORY"), 1)


class Segments(bed.TestCase):
    def test_given_back_after_the_last_free(self):
        for options in ((), ("--capture", "torch")):  # the second records no blocks of the driver
            with self.subTest(options=options):
                self.given_back(options)

    def given_back(self, options):
        self.assert_end(self.execute(BEGIN + """
def work():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(1000, device="cuda")
    outside = torch.empty(1000, device="cuda")
    del inside, outside
work()
kept = tensor(5 * MIB)
more = tensor(30 * MIB)
del more
torch.cuda.empty_cache()
""", options=options))

    def test_all_given_back(self):
        run = self.execute(BEGIN + "\nkept = tensor(5 * MIB)\ndel kept\ntorch.cuda.empty_cache()\n")
        self.assertEqual(run.truth["devices"][0]["segments"], [])
        frag = harness.answer("frag", run.path, "--track", "cuda:0/torch")
        # At the end there is nothing, so the peak is shown.
        self.assertEqual((frag["moment"], frag["reserved_bytes"]), ("peak", 20 * bed.MIB))

    def test_streams_keep_their_segments(self):
        """Two side streams keep their blocks. Compares the sum for each stream, the line of text about it, and the
        bytes that the program really reserves on one stream."""
        program = BEGIN + """
def prefetch(stream):
    with torch.cuda.stream(stream):
        return tensor(30 * MIB)  # the line
for number in range(2):
    left = prefetch(SIDE)
    del left
kept = tensor(5 * MIB)
more = tensor(28 * MIB)
"""
        one = self.execute(program.replace("SIDE", "torch.cuda.current_stream()"))
        alone = harness.memprof("frag", one.path, "--track", "cuda:0/torch").stdout
        self.assertNotIn("STREAMS", alone)
        several = self.execute(program.replace("SIDE", "torch.cuda.Stream()"))
        line = several.path.with_name("program.py").read_text().split("# the line")[0].count("\n") + 1
        frag = harness.answer("frag", several.path, "--track", "cuda:0/torch")
        segments = several.truth["devices"][0]["segments"]
        for row in frag["streams"]:
            mine = [each for each in segments if each["stream"] == row["stream"]]
            self.assertEqual((row["segments"], row["reserved_bytes"], row["free_bytes"]),
                             (len(mine), sum(each["total_size"] for each in mine),
                              sum(each["total_size"] - each["active_size"] for each in mine)))
        self.assertEqual([row["free_bytes"] // bed.MIB for row in frag["streams"]][:2], [30, 30])
        self.assertEqual(frag["one_stream_reserved_peak_bytes"],
                         one.truth["devices"][0]["stats"]["reserved_bytes.all.peak"])
        self.assertEqual(frag["streams_reserved_peak_bytes"],
                         several.truth["devices"][0]["stats"]["reserved_bytes.all.peak"])
        text = harness.memprof("frag", several.path, "--track", "cuda:0/torch").stdout
        self.assertIn(f"program.py:{line} prefetch", text.split("STREAMS")[1].split("replayed")[0])

    def test_emptied_and_replayed(self):
        program = BEGIN + """
kept = tensor(500 * MIB)
del kept
torch.cuda.empty_cache()
kept = tensor(600 * MIB)
"""
        for options in ((), ("--capture", "torch")):
            run = self.execute(program, options=options).path.rename(self.folder / "own.mp")
            for settings in ("", "roundup_power2_divisions:4"):
                with self.subTest(options=options, settings=settings):
                    real = self.execute(program, PYTORCH_CUDA_ALLOC_CONF=settings)
                    replay = harness.answer("frag", run, "--track", "cuda:0/torch", "--replay", settings)["replay"]
                    self.assertEqual(replay["reserved_peak_bytes"],
                                     real.truth["devices"][0]["stats"]["reserved_bytes.all.peak"])


class MemPools(bed.TestCase):
    def test_that_are_never_divided(self):
        """Other requests may use it once memory runs out; a replay with the recorded settings knows that."""
        run = self.execute(BEGIN + """
limit = 100 * MIB / torch.cuda.get_device_properties(0).total_memory
torch.cuda.set_per_process_memory_fraction(limit)
pool = torch.cuda.MemPool(no_split=True, use_on_oom=True)
with torch.cuda.use_mem_pool(pool):
    inside = [tensor(12 * MIB), tensor(4 * MIB), tensor(4 * MIB)]
del inside
outside = [tensor(40 * MIB), tensor(12 * MIB)]
""")
        self.assert_totals(run)
        reserved = run.truth["devices"][0]["stats"]["reserved_bytes.all.peak"]
        self.assertEqual(reserved, 92 * bed.MIB)
        replay = harness.answer("frag", run.path, "--track", "cuda:0/torch", "--replay", "recorded")["replay"]
        self.assertEqual((replay["reserved_peak_bytes"], replay["oom"]), (reserved, False))


REUSED = """
side, beside, graph = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
with torch.cuda.stream(side):
    graph.capture_begin()
    kept, freed = tensor(512), tensor(512)
    address = freed.data_ptr()
    beside.wait_stream(side)
    with torch.cuda.stream(beside):
        freed.fill_(1)
        freed.record_stream(beside)
    del freed
    early = tensor(512)
    side.wait_stream(beside)
    kept.fill_(1)
    print(early.data_ptr() == address, tensor(512).data_ptr() == address)
    graph.capture_end()
"""


class Captures(bed.TestCase):
    def test_reused_after_the_streams_joined(self):
        """PyTorch asks the capture for each stream's dependencies, but only if it was set to."""
        for settings, said in ((None, "False False"), ("graph_capture_record_stream_reuse:True", "False True")):
            with self.subTest(settings=settings):
                run = self.execute(BEGIN + REUSED, **({"PYTORCH_CUDA_ALLOC_CONF": settings} if settings else {}))
                self.assertEqual(run.output.strip(), said)
                self.assert_totals(run)


    def test_an_empty_one_is_warned_of(self):
        """PyTorch asks for a graph's number of nodes, which includes calls of libraries, copies and fills."""
        run = self.execute(BEGIN + """
import warnings
ones, other = (torch.ones(64, 64, device="cuda") for _ in range(2))
image, weights = torch.ones(1, 3, 8, 8, device="cuda"), torch.ones(4, 3, 3, 3, device="cuda")
torch.nn.functional.conv2d(image, weights), ones @ other
for work in (lambda: None, lambda: tensor(1), lambda: torch.mm(ones, other, out=ones), lambda: ones.copy_(other),
             lambda: ones.zero_(), lambda: torch.nn.functional.conv2d(image, weights)):
    with warnings.catch_warnings(record=True) as caught, torch.cuda.stream(torch.cuda.Stream()):
        warnings.simplefilter("always")
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        work()
        graph.capture_end()
        print(any("is empty" in str(each.message) for each in caught))
""")
        self.assertEqual(run.output.split(), ["True"] * 2 + ["False"] * 4)


class History(bed.TestCase):
    def test_more_than_is_read(self):
        """A replay says what it does not know: of 50 000 allocations in a row, the ring has only the last."""
        run = self.execute("""
import torch
kept = []
for number in range(50_000):
    kept.append(torch.empty(1000 + number % 977 * 37, dtype=torch.uint8, device="cuda"))
    if len(kept) > 500:
        del kept[:250]
""")
        entries = len(run.truth["devices"][0]["trace"])
        asked = harness.answer("frag", run.path, "--replay", "max_split_size_mb:32")["replay"]["asked"]
        self.assertEqual(asked["allocations"], run.truth["devices"][0]["stats"]["allocation.all.allocated"])
        self.assertTrue(10_000 < entries <= asked["told"] <= entries + 500 < 50_000, (entries, asked))
        self.assertEqual(asked["told"], sum(block["requested_bytes"] is not None for block in run.blocks()))

    def test_the_program_s_snapshot_loses_nothing(self):
        run = self.execute(BEGIN + """
kept = tensor(40)
torch.cuda.memory._snapshot()
for size in range(100):
    kept = tensor(1000 + 4 * size)
torch.cuda.memory._snapshot()
""")
        asked = [block["requested_bytes"] for block in run.blocks()]
        self.assertEqual(asked, [40, *range(1000, 1400, 4)])

    def test_what_ends_it_loses_nothing(self):
        """The history goes on after a fork, and after the program switches PyTorch's history off: the shim then starts
        it again."""
        for end in ("if os.fork() == 0: os._exit(0)", "torch.cuda.memory._record_memory_history(None)"):
            with self.subTest(end=end):
                run = self.execute(BEGIN + f"""import os
for size in range(1000, 1012, 4):
    tensor(size)
    {end}
""")
                self.assertEqual([block["requested_bytes"] for block in run.blocks()], [1000, 1004, 1008])

    def test_own_history_on_another_thread(self):
        """PyTorch up to 2.6 sends annotations only to the first thread that begins a history: not to the shim's."""
        program = BEGIN + """
from torch.profiler import record_function
kept = tensor(10)
def work():
    torch.cuda.memory._record_memory_history(context=None)
    with record_function("region"):
        tensor(1000)
    print([[entry["name"], entry["stage"]] for entry in torch.cuda.memory._snapshot()["external_annotations"]])
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
        bare = self.execute(program, recorded=False)
        self.assertIn("region", bare.output)
        self.assertEqual(self.execute(program).output, bare.output)

    def test_pending_frees(self):
        run = self.execute(BEGIN + """
other = torch.cuda.Stream()
for number in range(40):
    kept = tensor(MIB + 4096 * number)
    kept.record_stream(other)
    del kept
""", SOFTGPU_EVENT_MS=5000)
        stats = run.truth["devices"][0]["stats"]
        self.assert_totals(run)
        text = harness.memprof("frag", run.path, "--track", "cuda:0/torch").stdout
        self.assertNotIn("instead of", text)
        # No recording has the moment at which a stream had finished with a block. The replay therefore reserves less,
        # and the answer has the recorded bytes, too.
        replayed = harness.memprof("frag", run.path, "--track", "cuda:0/torch", "--replay", "").stdout
        self.assertNotIn("MiB as recorded", replayed)
        self.assertIn(f"recorded were {stats['reserved_bytes.all.peak'] / bed.MIB:.1f} MiB", replayed)
        self.assertNotIn("in 0 blocks", text)
        pending = stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"]
        self.assertGreater(pending, 30 * bed.MIB)
        self.assertIn(f"{pending / bed.MIB:.1f} MiB", text)


class Categories(bed.TestCase):
    def test_workspace_of_cublas(self):
        """The program chooses its size. PyTorch 2.15 takes one workspace for each product; older versions keep one per
        thread."""
        for kib, config in ((8192 + 128, None), (3 * 1024, ":1024:3"), (16 * 4096, ":4096:16")):
            with self.subTest(config=config):
                variables = {"CUBLAS_WORKSPACE_CONFIG": config} if config else {}
                run = self.execute("train", "mlp", **variables)
                sizes = [entry["size"] for entry in run.truth["devices"][0]["trace"]]
                self.assertIn(kib << 10, sizes)
                peak = harness.answer("peak", run.path, "--track", "cuda:0/torch")
                found = {row["category"]: row["bytes"] for row in peak["categories"]}
                self.assertIn(found["workspace"], (kib << 10, 2 * (kib << 10)), found)
                self.assertLess(found["activations"], kib << 10)


class Leaks(bed.TestCase):
    def test_of_a_running_program(self):
        """Only the tensors are live: their segments are not counted in addition."""
        run = self.execute(BEGIN + """
import libmemprof, os, subprocess
kept = [tensor(3 * MIB + 512 * number) for number in range(20)]
while not libmemprof.stats("cuda:0/torch"):  # memprof has all of them
    pass
out = subprocess.run(["memprof", "leaks", "--json", "--pid", str(os.getpid())], capture_output=True, text=True)
answer = json.loads(out.stdout)
print(json.dumps([torch.cuda.memory_allocated(), answer["outstanding"]["bytes"]]))
""")
        allocated, outstanding = json.loads(run.output)
        self.assertEqual(outstanding, allocated)


class Collector(bed.TestCase):
    def assert_no_difference(self, run):
        """No note says that CUPTI's records and callbacks differ."""
        self.assertIn("cupti", run.info()["coverage"]["sources"])
        notes = [note for note in run.info()["coverage"]["notes"] if "of CUPTI" in note or "by CUPTI" in note]
        self.assertEqual(notes, [])

    def test_addresses_that_come_back(self):
        run = self.execute(BEGIN + """
for number in range(40):
    kept = tensor(11 * MIB + (number << 16))
    del kept
    torch.cuda.empty_cache()
""", options=("--capture", "torch,cupti"))
        self.assert_no_difference(run)

    def test_addresses_that_come_back_from_a_pool(self):
        run = self.execute(BEGIN + """
for number in range(40):
    kept = tensor(1000 + 512 * number)
    del kept
""", options=("--capture", "torch,cupti"), PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        self.assert_no_difference(run)

    def test_context_in_windows(self):
        program = BEGIN + """
import libmemprof
kept = tensor(30 * MIB)
time.sleep(0.3)
START
with torch.profiler.record_function("now"):
    for number in range(300):
        more = tensor(MIB)
    wait_for_a_reading()
"""
        for options in ((), ("--paused",), ("--max-events", "200"),
                        ("--schedule", "wait=0,active=1,unit=now")):
            with self.subTest(options=options):
                started = program.replace("START", "libmemprof.start()" if "--paused" in options else "")
                use = self.execute(started, options=options, SOFTGPU_CONTEXT=100 * bed.MIB).info()["device_use"][0]
                self.assertEqual(use["unattributed_bytes"], 0, use)

    def test_snapshot_of_a_running_program(self):
        run = self.execute(BEGIN + """
import libmemprof
kept = tensor(10 * MIB)
time.sleep(0.3)
libmemprof.snapshot("now.mp")
time.sleep(0.1)
""", options=("--capture", "torch,cupti"))
        notes = " ".join(harness.answer("info", self.folder / "now.mp", status=(0, 4))["coverage"]["notes"])
        self.assertNotIn("flush", notes)


class Holders(bed.TestCase):
    """Objects of Python are named; a graph, a library or a stream is native code, with its site."""

    def test_of_graphs_pools_and_streams(self):
        run = self.execute("""
import torch
ones = torch.ones(512, 512, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    product = ones @ ones + 1
side = torch.cuda.Stream()
print("stream", hex(side.cuda_stream))
with torch.cuda.stream(side):
    held = [torch.empty(3 << 20, device="cuda") for _ in range(2)]
    product = ones @ ones
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    in_pool = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
    raw = torch.cuda.caching_allocator_alloc(3000)
more = torch.cuda.caching_allocator_alloc(3000, stream=side)
""", options=("--holders",))
        stream = run.output.split("stream ")[1].split()[0]
        found = {}
        for site in harness.answer("holders", run.path, "-n", "0")["sites"]:
            for holder in site["holders"]:
                found[holder["path"]] = found.get(holder["path"], 0) + holder["bytes"]
                self.assertEqual(holder["certain"], not holder["path"].startswith("native code"), holder)
        # A look during the run may have seen the captured product, "(not read from line 2 on)".
        self.assertEqual({path: held for path, held in found.items() if not path.startswith(("native code", "product"))},
                         {"module['ones']": bed.MIB, "module['product']": bed.MIB, "module['held'][*]": 24 * bed.MIB,
                          "module['in_pool']": 5 * bed.MIB})  # truth.py has the program's names in `module`
        native = [path for path in found if path.startswith("native code")]
        self.assertTrue(any(", private pool " in path for path in native), native)
        self.assertIn(f"native code, stream {stream}", native)


if __name__ == "__main__":
    bed.main()
