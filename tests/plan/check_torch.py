#!/usr/bin/env python3
"""`memprof plan` of real CUDA PyTorch equals a run on the stand-in to the byte, and two recordings of compare.py from
real GPUs. It reports programs that read values back. Runs in the environment of tools/cuda-torch."""
import os
import pathlib
import pickle
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cuda_torch")]
sys.dont_write_bytecode = True
import bed  # noqa: E402  (first: it goes into the environment)
import compare  # noqa: E402
import harness  # noqa: E402

PROGRAMS = [["graph"], ["mempool"], ["stress", "1", "1", "800"], ["train", "transformer"], ["train", "amp"],
            ["train", "conv"], ["train", "streams"], ["train", "checkpoint"], ["train", "double"]]
ALL = bed.together(*PROGRAMS)
# The stand-in's values without a profile.
DEVICE = "[as the stand-in]\ntotal = 8GiB\ncontext = 64MiB\ncc = 86\nsms = 80\nl2 = 6291456\n"


class Equal(bed.TestCase):
    def test_plan_equals_a_run(self):
        (self.folder / "device").write_text(DEVICE)
        run = self.execute(ALL, history=True)
        self.assert_totals(run)
        rows, tracks = [self.shape_of(row) for row in run.blocks()], run.tracks()
        plan = self.execute(ALL, how="plan", history=True, options=["--device", self.folder / "device"])
        self.assert_totals(plan)
        self.assertGreater(len(rows), 2000)
        self.assertEqual([self.shape_of(row) for row in plan.blocks()], rows)
        for track in ("cuda:0/torch", "cuda:0/driver"):
            for key in ("allocs", "peak_bytes", "reserved_peak_bytes", "end_bytes", "ooms"):
                self.assertEqual(plan.tracks()[track][key], tracks[track][key], (track, key))
        of_run, of_plan = (each.truth["devices"][0] for each in (run, plan))
        self.assertEqual(self.unaddressed(of_plan["segments"]), self.unaddressed(of_run["segments"]))
        self.assertEqual(self.totals(of_plan), self.totals(of_run))
        calls = [[(entry["action"], entry["size"]) for entry in of["trace"] if not entry["action"].startswith("free")]
                 for of in (of_plan, of_run)]
        self.assertEqual(*calls)

    @staticmethod
    def shape_of(row):
        return row["bytes"], row["free_ns"] is None

    @staticmethod
    def totals(device):
        """Totals only: autocast empties its cache in a varying order, so free blocks are split differently in each
        run."""
        return {key: value for key, value in device["stats"].items() if "inactive_split" not in key}

    @staticmethod
    def unaddressed(value):
        """The value without addresses and handles, which differ between two runs of a program."""
        if isinstance(value, list):
            return [Equal.unaddressed(one) for one in value]
        if isinstance(value, dict):
            return {key: Equal.unaddressed(one) for key, one in value.items() 
                    if key not in ("address", "stream", "addr", "time_us")}
        return value


class Recorded(bed.TestCase):
    """The cases of compare.py, shortened."""

    def test_recordings_from_real_gpus(self):
        if bed.VERSION != "2.7.1":
            self.skipTest("they are of PyTorch 2.4 to 2.7, and newer ones allocate otherwise")
        data = pathlib.Path(os.environ.get("MEMPROF_TEST_DATA", "/nowhere"))
        for case in ("silmont_small", "niu_fb_200_mixed"):
            if not (data / f"{case}.pickle").exists():
                self.skipTest("$MEMPROF_TEST_DATA has no recordings from real GPUs")
            planned, _ = compare.plan_case(case, self.folder)
            result = compare.difference(case, planned, pickle.loads((data / f"{case}.pickle").read_bytes()))
            self.assertEqual({key: result[key] for key in ("requested_difference", "reserved_difference", "allocs_equal",
                                                           "segments_equal")},
                             {"requested_difference": 0, "reserved_difference": 0, "allocs_equal": True,
                              "segments_equal": True}, result)


READS = """
import math, torch
from torch import nn

def early_stop():
    model = nn.Linear(64, 1).cuda()
    for step in range(3):
        loss = model(torch.randn(32, 64, device="cuda")).square().mean()
        if torch.isnan(loss) or torch.isinf(loss).any():  # line: nan
            return "stopped"
        if not torch.isfinite(loss):  # line: finite
            return "stopped"
        if not math.isfinite(loss.item()):  # line: item
            return "stopped"
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # line: clip
    return step

def scaled():
    model = nn.Linear(64, 64).cuda()
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler("cuda")
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(32, 64, device="cuda")).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)  # line: scaler
        scaler.update()
    return len(optimizer.state)

def sampled():
    head, ids = nn.Linear(64, 100).cuda(), torch.zeros(1, 4, dtype=torch.long, device="cuda")
    embedding = nn.Embedding(100, 64).cuda()
    with torch.no_grad():
        for _ in range(12):
            token = torch.multinomial(head(embedding(ids))[:, -1].softmax(-1), 1)
            ids = torch.cat([ids, token], 1)
            if token.item() == 2:  # line: token
                break
    return ids.shape[1]

def experts():
    parts, gate = nn.ModuleList(nn.Linear(64, 64) for _ in range(4)).cuda(), nn.Linear(64, 4).cuda()
    x, rows_of = torch.randn(256, 64, device="cuda"), []
    weights, chosen = torch.topk(gate(x).softmax(-1), 2)
    out = torch.zeros_like(x)
    for number, expert in enumerate(parts):
        rows, which = torch.where(chosen == number)  # line: expert
        rows_of.append(len(rows))
        if len(rows):
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, which, None])
    out.sum().backward()
    return rows_of

def sizes():
    x = torch.randn(1000, device="cuda")
    big = torch.empty(1 << 22, device="cuda")
    found = [x.nonzero().shape[0], big.nonzero().shape[0]]  # line: nonzero
    found += [torch.unique(x).numel(), torch.unique(x, return_inverse=True, return_counts=True)[2].numel()]  # line: unique
    found += [torch.unique(x.view(100, 10), dim=0).shape[0], torch.unique_consecutive(x).numel()]
    return found + [x[x > 0].numel(), torch.masked_select(x, x < 0).numel(), torch.argwhere(x).shape[0]]  # line: mask

def checked():
    normal = torch.distributions.Normal(torch.zeros(3, device="cuda"), torch.ones(3, device="cuda"))
    action = torch.distributions.Categorical(logits=torch.zeros(5, 4, device="cuda")).sample()
    start = torch.randint(9, (2,), device="cuda")
    assert len(range(1000)[start[1] : start[1] + 7]) == 7
    spread = torch.repeat_interleave(torch.ones(9, dtype=torch.long, device="cuda"), output_size=9)
    assert (spread >= 0).all() and not (spread < 0).any() and spread.min() >= 0
    return [normal.log_prob(normal.sample()).numel(), action.numel()]

def recurrent():
    lstm, gru = nn.LSTM(16, 32, 2, batch_first=True, bidirectional=True).cuda(), nn.GRU(64, 8).cuda()
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(4, 9, 16, device="cuda"), torch.tensor([9, 8, 7, 5]),
                                               batch_first=True)
    out = gru(nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)[0])[0]
    out.sum().backward()
    return list(out.shape)

print(early_stop(), scaled(), sampled(), experts(), sizes(), checked(), recurrent(), sep="\\n")
"""


# Ways in which programs end their generation. Each must go on to the sixth token, since values are unknown.
LOOPS = """
import torch

def made(ids, token, done, running, scores, end):
    yield (done.logical_or(token[:, 0] == 2)).all()
    done |= token[:, 0] == 2
    yield done.all()
    yield torch.all(done | (ids[:, -1] == 2))
    yield (token == 2).all()
    yield ids[:, -1].eq(2).all()
    running &= token.squeeze(1) != 2
    yield not running.any()
    yield not (~done).any()
    yield torch.logical_or(done, token.squeeze(-1).eq(end)).all().item()
    yield (ids == 2).any(dim=1).all()
    yield (done | torch.isin(token[:, 0], end)).all()
    yield scores.mul_(token.ne(2).squeeze(1).long()).max() == 0
    yield done.sum() == 4
    yield not (~done.masked_fill(token[:, 0] == 2, True)).any()
    yield ids[0, -1] == 2
    done[token[:, 0] == 2] = True
    yield all(done)
    yield running.sum() == 0
    yield done.clone().all()

def generate(which):
    ids, done = torch.zeros(4, 3, dtype=torch.long, device="cuda"), torch.zeros(4, dtype=torch.bool, device="cuda")
    running, scores, end = ~done, torch.ones(4, dtype=torch.long, device="cuda"), torch.tensor([2], device="cuda")
    for count in range(1, 7):
        token = torch.multinomial(torch.randn(4, 50, device="cuda").softmax(-1), 1)
        ids = torch.cat([ids, token], 1)
        for number, ended in enumerate(made(ids, token, done, running, scores, end)):
            if number == which:
                break
        if ended:
            break
    return count

print([generate(which) for which in range(17)])
x = torch.randn(100, device="cuda")
assert torch.isfinite(x).all() and not torch.isnan(x).any() and (x >= 0).all() and (x > 0).all()
assert torch.equal(x, x) and torch.allclose(x, x + 1)
labels, whole = torch.randint(0, 5, (4, 5), device="cuda"), torch.ones(4, 5, dtype=torch.long, device="cuda")
assert (labels != -100).any() and (labels >= 0).all() and (labels < 5).all()
assert (whole == 1).all() and not (whole == 0).any()
torch.distributions.Categorical(logits=x[:8]).log_prob(torch.tensor([3, 1], device="cuda"))
torch.distributions.Beta(x, x).sample()
"""


class Values(bed.TestCase):
    def test_loops_that_generate_go_on(self):
        self.assertEqual(self.execute(LOOPS, how="plan").output, f"{[6] * 17}\n")

    def places(self, run):
        """use and count of each marked line of the program."""
        marked = {number: line.partition("# line: ")[2] for number, line in enumerate(READS.split("\n"), 1)}
        found = {}
        for one in run.info()["plan"]["read_backs"]:
            line = next(frame["line"] for frame in one["stack"] if str(frame["file"]).endswith("program.py"))
            if marked[line]:
                found[marked[line]] = (one["use"], one["count"])
        return found

    def test_programs_end_and_say_what_they_read(self):
        run = self.execute(READS, how="plan")
        self.assertEqual(run.output.split("\n")[:-1],
                         ["2", "2", "16", "[128, 128, 128, 128]", f"[500, {1 << 21}, 500, 500, 50, 500, 500, 500, 500]",
                          "[3, 5]", "[4, 9, 8]"])
        self.assertIn("not known: cuDNN's recurrent layers", run.said)
        self.assertEqual(self.places(run), {
            "nan": ("way", 6), "finite": ("way", 3), "item": ("value", 3), "clip": ("way", 3), "scaler": ("value", 3),
            "token": ("value", 12), "expert": ("size", 4), "nonzero": ("size", 2), "unique": ("size", 2),
            "mask": ("size", 3)})
        self.assertIn("values read from the device, which were zeros or guessed; conditions selected 50 % of the elements, "
                      "a guess (--selected):", run.said)
        line = 1 + [line.endswith("# line: expert") for line in READS.split("\n")].index(True)
        self.assertIn(f"program.py:{line}  4 times, decides how much there is (choices spread evenly)  rows, which = torch",
                      run.said)

    def test_no_warning_names_our_line(self):
        run = self.execute("import torch\nloss = torch.ones(2, device='cuda', requires_grad=True).sum()\n"
                           "print(float(loss), int(loss), loss.item())\n", how="plan")
        self.assertNotIn("libmemprof_plan", run.said)

    def test_what_a_condition_selects(self):
        for share, rows in (("0", 0), ("0.25", 256), ("1", 1024)):
            run = self.execute("import torch\nx = torch.randn(256, 4, device='cuda')\nrows = torch.where(x > 0.5)[0]\n"
                               "x[rows].max(), print(len(rows))\n", how="plan", options=["--selected", share],
                               status=1 if share == "0" else 0)
            if share == "0":  # nothing has no maximum
                self.assertIn("the command failed, with status 1: the plan is of what it did until then", run.said)
                self.assertIn("unknown whether it fits: until it failed, it reserved ", run.said)
                self.assertNotIn(" fits, ", run.said)
            else:
                self.assertEqual(run.output, f"{rows}\n")


LIBRARIES = """
import torch
def made(*shape):
    return torch.randn(*shape, device="cuda", requires_grad=True)
one, many, places = made(64, 64), made(4, 64, 64), torch.randint(0, 100, (2, 500))
coo = torch.sparse_coo_tensor(places, torch.randn(500), (100, 100)).coalesce()
csr, coo, dense = coo.to_sparse_csr().cuda(), coo.cuda(), made(100, 32)
torch.fft.rfft(made(64, 250)).abs().sum().backward()
torch.fft.irfftn(torch.fft.fftn(made(4, 8, 8).double()))
torch.stft(made(2, 8000), 400, return_complex=True, window=torch.hann_window(400, device="cuda"))
for function in ("cholesky", "qr", "svd", "eigh", "inv", "det", "pinv", "matrix_rank", "lu", "lu_factor", "ldl_factor"):
    getattr(torch.linalg, function)(one.detach())
    getattr(torch.linalg, function)(many.detach().double())
torch.linalg.solve(one, one), torch.linalg.lstsq(many, many), torch.linalg.eigh(torch.complex(one, one))
torch.linalg.svd(one)[1].sum().backward()
sums = torch.sparse.mm(coo, dense) + csr @ dense
sums.sum().backward()
csr @ csr, torch.sparse.mm(coo, coo), csr + csr, torch.bmm(torch.stack([coo, coo]), made(2, 100, 8)), csr @ made(100)
torch.sparse.sampled_addmm(csr, made(100, 32), made(32, 100)), torch.triangular_solve(dense, csr)
print("to the end", torch.cuda.max_memory_allocated() < 100 << 20)
"""


class Libraries(bed.TestCase):
    def test_fft_linalg_and_sparse(self):
        run = self.execute(LIBRARIES, how="plan")
        self.assertEqual(run.output, "to the end True\n")
        self.assert_totals(run)
        self.assertIn("not known: workspaces of cuFFT, cuSOLVER and cuSPARSE", run.said)
        self.assertNotIn("does not imitate", run.said)


# CUB chooses how to sort and scan by the version of the code that the driver loads.
CANDIDATES = """
import torch, triton
from torch._inductor.runtime.benchmarking import benchmarker
launches, x = [], torch.zeros(4, device="cuda")
for measure in (benchmarker.benchmark_gpu, triton.testing.do_bench):
    print(measure.__name__, measure(lambda: launches.append(x.add_(1))), len(launches))
    launches.clear()
from torch._inductor.runtime.coordinate_descent_tuner import CoordescTuner
first, tried = triton.Config({"XBLOCK": 64}), []
tuner = CoordescTuner(size_hints={"x": 4096}, inductor_meta={"warp_size": 32, "max_threads_per_block": 1024})
print(tuner.autotune(lambda config: tried.append(config) or 1.0, first, None) is first, len(tried))
import os
print(os.environ["TORCHINDUCTOR_CACHE_DIR"].endswith(f"torchinductor_plan_{os.getuid()}"))
"""
SORTED = """
import torch
x = torch.rand(5000, device="cuda")
rows = torch.nn.Embedding(100, 8, device="cuda")
rows(torch.zeros(5000, dtype=torch.long, device="cuda")).sum().backward()
x.sort(), x.cumsum(0), x.nonzero()
torch.cuda.synchronize()
print("to the end")
"""


class Code(bed.TestCase):
    def test_a_device_runs_code_of_a_lower_minor_version(self):
        run = self.execute(SORTED, how="plan", options=["--device", "rtx4090"])
        self.assertEqual(run.output, "to the end\n")

    def test_candidates_are_launched_once(self):
        run = self.execute(CANDIDATES, how="plan")
        self.assertEqual(run.output, "benchmark_gpu 1.0 1\ndo_bench 1.0 1\nTrue 1\nTrue\n")

    def test_no_code_for_the_device(self):
        old = "b200-180gb" if bed.VERSION == "2.7.1" else "v100-16gb"
        if bed.VERSION == "2.9.1":
            self.skipTest("it has code for each device of the table")
        run = self.execute(SORTED, how="plan", options=["--device", old], status=1)
        self.assertIn("no kernel image is available for execution on the device", run.said)
        self.assertEqual(run.said.count("libtorch_cuda.so has no code for"), 1, run.said)
        self.assertRegex(run.said, "PyTorch 2.10.0 is the last on PyPI that has it" if old.startswith("v100") else
                         "PyTorch 2.8.0 is the first on PyPI that has it")


class OutOfMemory(bed.TestCase):
    def test_the_first_of_all(self):
        run = self.execute("import torch\ntry:\n    torch.empty(9 << 30, dtype=torch.uint8, device='cuda')\n"
                           "except torch.OutOfMemoryError:\n    pass\n", how="plan", options=["--device", "8GiB"])
        self.assertIn("does not fit: memory ran out 1 time (the command went on), with 0 B reserved", run.said)

    def test_where_it_would(self):
        run = self.execute("import torch\nkept = [torch.empty(1 << 30, dtype=torch.uint8, device='cuda') for _ in range(9)]\n",
                           how="plan", options=["--device", "8GiB"], status=1)
        self.assertEqual(run.truth["failure"], "OutOfMemoryError")
        self.assertIn("OUT OF MEMORY on cuda:0/torch: asked for 1.00 GiB", run.said)
        self.assertIn("does not fit: memory ran out 1 time, with 7.00 GiB reserved and 7.00 GiB allocated", run.said)
        self.assertNotIn("capacity: parameters", run.said)

    def test_weights_that_do_not_fit(self):
        run = self.execute("import torch\nlayers = [torch.nn.Linear(8192, 8192, bias=False, device='cuda', "
                           "dtype=torch.float16) for _ in range(40)]\n",
                           how="plan", options=["--device", "2GiB"], status=1)
        self.assertIn("cause: capacity", run.said)
        self.assertNotIn("fragmentation", run.said.replace("to avoid fragmentation", ""))
        self.assertRegex(run.said, "capacity: parameters alone took 1.38 GiB of 1.50 GiB")
        self.assertIn("weights of fewer bits, or on several devices", run.said)
        self.assertIn("Next: the same command with a larger --device", run.said)
        self.assertNotIn("plan --advise", run.said)

    def test_layers_that_do_not_fit_are_no_leak(self):
        """Each layer is a step, as memprof infers it."""
        run = self.execute("import torch\nclass Layer(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                           "        k = dict(bias=False, device='cuda', dtype=torch.bfloat16)\n"
                           "        self.q = torch.nn.Linear(8192, 8192, **k)\n        self.k = torch.nn.Linear(8192, 1024, **k)\n"
                           "        self.up = torch.nn.Linear(8192, 29568, **k)\n"
                           "        self.down = torch.nn.Linear(29568, 8192, **k)\n"
                           "model = torch.nn.ModuleList([Layer() for _ in range(80)])\n",
                           how="plan", options=["--device", "l4"], status=1)
        self.assertIn("cause: capacity", run.said)
        self.assertNotIn("leak", run.said)
        leaks = harness.answer("leaks", run.path)
        self.assertEqual((leaks["steps"]["source"], leaks["verdict"]), ("inferred", "unknown"))
        self.assertIn("no module ran yet", leaks["reason"])

    def test_no_checkpoints_for_forwards_that_no_backward_follows(self):
        """An evaluation collects outputs, and so their graphs, until memory is full."""
        text = ("import torch\nfrom torch import nn\n"
                "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                "        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)\n"
                "    def forward(self, x):\n        y = torch.relu(self.up(x))\n        return x + self.down(y.square())\n"
                "net = nn.Sequential(*[Block() for _ in range(8)]).cuda()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
                "def rows():\n    return torch.rand(2048, 256).cuda()\n"
                "for step in range(6):\n    net(rows()).mean().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
                "def evaluate():\n    outputs = []\n    for _ in range(100):\n        outputs.append(net(rows()))\n"
                "    return torch.cat(outputs)\nevaluate()\n")
        run = self.execute(text, how="plan", options=["--device", "4GiB"], status=1)
        self.assertEqual(harness.answer("frag", run.path)["oom"]["cause"], "capacity")
        change, *others = harness.answer("advise", run.path)["changes"]
        self.assertEqual(change["pattern"], "no_grad")
        self.assertNotIn("checkpoint", {other["pattern"] for other in others})

    def test_checkpoints_for_a_forward_that_does_not_fit(self):
        """No backward was recorded. The changed program ends, and its forward alone needs what the row says."""
        text = ("import sys, torch\nfrom torch import nn\nfrom torch.utils.checkpoint import checkpoint\n"
                "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                "        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)\n"
                "    def forward(self, x):\n        return x + self.down(torch.relu(self.up(x)).square())\n"
                "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                "        self.blocks = nn.ModuleList(Block() for _ in range(12))\n"
                "    def forward(self, x):\n        for block in self.blocks:\n"
                "            x = checkpoint(block, x, use_reentrant=False) if MADE else block(x)\n        return x\n"
                "net = Net().cuda()\nloss = net(torch.rand(16384, 256).cuda()).mean()\n"
                "print('forward', torch.cuda.max_memory_allocated())\nloss.backward()\n")
        run = self.execute(f"MADE = False\n{text}", how="plan", options=["--device", "2GiB"], status=1)
        self.assertIn("OUT OF MEMORY", run.said)
        found = harness.answer("advise", run.path)
        row, = (row for row in found["changes"] if row["pattern"] == "checkpoint")
        self.assertEqual(row["module"], "blocks.*")
        self.assertIn("backward and the optimizer need more", harness.memprof("advise", run.path).stdout)
        changed = self.execute(f"MADE = True\n{text}", how="plan", options=["--device", "2GiB"])
        forward = int(changed.output.split("forward ")[1].split()[0])
        self.assertLess(abs(row["peak_bytes"] - forward), 0.1 * forward)


if __name__ == "__main__":
    bed.main()
