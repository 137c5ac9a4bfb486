#!/usr/bin/env python3
"""Values that the host itself put on the device, under `memprof plan`. Programs decide by them as on a GPU. Values that
kernels would compute stay guessed. Memory is the same whether values are followed or not."""
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cuda_torch"))
sys.dont_write_bytecode = True
import bed  # noqa: E402  (first: it goes into the environment)
import harness  # noqa: E402

# Prints the MiB by which the process grows in 90 of 150 steps that take their data from the CPU.
FED = """
import torch
from torch.nn.functional import cross_entropy, interpolate
def resident(): return int(open("/proc/self/statm").read().split()[1]) >> 8
net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(16, 21, 1)).cuda()
optimizer, rows = torch.optim.Adam(net.parameters()), [(torch.zeros(3, 128, 128), torch.zeros(128, 128).long())] * 1200
for step, (x, y) in enumerate(torch.utils.data.DataLoader(rows, batch_size=8)):
    weight = torch.ones(1 << 15, device="cuda").mean()
    cross_entropy(interpolate(net(x.cuda()), scale_factor=2), y.cuda()).mul(weight).backward()
    optimizer.step(), optimizer.zero_grad()
    before = resident() if step == 60 else before if step > 60 else 0
print(resident() - before)
"""

# Prints the MiB by which the process grows with 1 600 MiB of zeros, as an optimizer's first moments are.
ZEROS = """
import torch
def resident(): return int(open("/proc/self/statm").read().split()[1]) >> 8
kept = [torch.zeros(1 << 21, device="cuda")]
before = resident()
kept += [torch.zeros_like(kept[0]) for _ in range(200)]
kept[0].add_(1)
print(resident() - before, int(kept[0].sum().item() == 1 << 21 and not kept[1].any()))
"""

# Each line is true on a GPU.
KNOWN = """
import threading, torch
def cuda(*values, **named): return torch.tensor(values, device="cuda", **named)
mask, ragged = torch.ones(4, 64, dtype=torch.long, device="cuda"), torch.tensor([[1, 1, 0], [1, 0, 0]]).cuda()
data = torch.randn(2, 3, device="cuda")
told = []
def line(true): told.append(bool(true))

line(mask.sum() == mask.numel())
line((mask == 1).all() and not (mask == 0).any())
line(ragged.sum(1).tolist() == [2, 1] and ragged.sum(-1).max().item() == 2)
line(ragged[0, :2].sum() == 2 and ragged.t().cpu().tolist() == [[1, 1], [1, 0], [0, 0]])
ragged[1, 1:] = 1
line(ragged.sum() == 5 and ragged.nonzero().shape == (5, 2))
line(data[ragged.bool()].shape[0] == 5 and data.masked_select(ragged.bool()).shape[0] == 5)
line(torch.unique(cuda(1, 2, 2, 9)).shape[0] == 3 and torch.where(ragged == 1)[0].shape[0] == 5)
line(torch.equal(ragged, ragged.clone()) and not torch.equal(ragged, ragged + 1))
line((ragged.cumsum(-1) - 1).clamp(0).cpu().numpy().sum() == 5)
line(torch.arange(3, device="cuda").repeat_interleave(cuda(1, 2, 3)).shape[0] == 6)
line(torch.arange(2, device="cuda").repeat_interleave(cuda(128, 128)).shape[0] == 256)  # its low byte is 0
line(torch.full((3,), 2.5, device="cuda").mean().item() == 2.5 and int(cuda(7)) == 7)
line((torch.ones(9, device="cuda", dtype=torch.bfloat16) * 2).sum().item() == 18)
line(torch.nn.functional.one_hot(cuda(0, 2)).shape == (2, 3))
line(torch.distributions.Uniform(*cuda(0.0, 1.0)).rsample().shape == ())
line(torch.distributions.Categorical(torch.rand(5, device="cuda")).log_prob(torch.randn((), device="cuda").long()).shape == ())
line(torch.cat([ragged, ragged.new_zeros(2, 1)], -1).sum() == 5 and ragged.new_full((2,), 6).sum() == 12)
with torch.inference_mode():
    unfinished = torch.ones(2, dtype=torch.long, device="cuda")
    for count in range(1, 100):
        unfinished = unfinished & ~torch.full((2,), count >= 8, device="cuda")
        if unfinished.max() == 0:
            break
line(count == 8)
running, drawn = torch.ones(2, dtype=torch.long, device="cuda"), torch.ones(2, dtype=torch.long, device="cuda").random_()
for count in range(1, 100):  # an unknown operand does not matter where the other decides
    running = running & ~(torch.full((2,), count >= 5, device="cuda") | torch.isin(drawn, 3))
    if running.max() == 0:
        break
line(count == 5)
thread = threading.Thread(target=lambda: line(torch.ones(3, device="cuda").sum() == 3))
thread.start(), thread.join()
print([number for number, true in enumerate(told) if not true], len(told))

drawn = torch.ones(3, dtype=torch.long, device="cuda").random_(1, 4)
count, graph = torch.ones(1, device="cuda"), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    count.add_(1)
graph.replay()
ours = torch.ones(3, device="cuda")
ours.data_ptr()  # a kernel of somebody else's may write there
print([one.max().item() for one in (drawn, count, ours, torch.randn(9, device="cuda"))])
"""

TRAINED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 9)).cuda()
optimizer, scaler = torch.optim.AdamW(model.parameters(), fused=True), torch.amp.GradScaler("cuda")
for _ in range(3):
    with torch.autocast("cuda", torch.float16):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64, device="cuda")), torch.zeros(32, device="cuda").long())
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer), scaler.update(), optimizer.zero_grad()
"""


# Unusual tensors, modes and a compiler: following values must not disturb them.
STRANGE = """
import torch
from torch.utils.flop_counter import FlopCounterMode
x = torch.ones(8, 16, device="cuda")
ragged = torch.nested.nested_tensor([x[:3], x[:5]], layout=torch.jagged)
print((ragged + 1).sum().shape, torch.func.vmap(lambda row: row * 2)(x).shape)
with FlopCounterMode(display=False) as flops:
    x.add_(1)
    x @ x.t()
print(flops.get_total_flops(), torch.compile(lambda y: (y * 2).relu() + y.sum(), backend="aot_eager")(x).shape)
with torch.inference_mode():
    kept = torch.ones(2, device="cuda").fill_(0)
    print(kept.max().item(), kept.add_(4).sum().item())
"""

# bfloat16 uses cuDNN for convolutions, and on the newest PyTorch for attention.
DNN = """
import torch
for kind in (torch.float32, torch.bfloat16):
    for size, stride in ((1, 1), (3, 1), (7, 2)):
        x, w = (torch.zeros(2, 8, n, n, device="cuda", dtype=kind) for n in (32, size))
        print(str(torch._C._select_conv_backend(x, w, None, (stride,) * 2, (size // 2,) * 2, (1, 1), False, (0, 0), 1)))
    layer = torch.nn.Conv2d(8, 8, 3).to("cuda", kind)
    layer(x.requires_grad_()).sum().backward()
q = torch.zeros(2, 8, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
"""


# Operators that take functions, old and new ones, and numbers from 2**63 on.
HIGHER = """
import torch
from torch._ops import HigherOrderOperator
from torch._prims.rng_prims import run_and_save_rng_state
x = torch.ones(4, 4, device="cuda")
state, drawn = run_and_save_rng_state(torch.ops.aten.bernoulli.default, x)

class Twice(HigherOrderOperator):
    def __init__(self):
        super().__init__("twice_of_a_test")
    def __call__(self, function, tensor):
        return super().__call__(function, tensor)

twice = Twice()
twice.py_impl(torch._C.DispatchKey.CompositeImplicitAutograd)(lambda function, tensor: function(function(tensor)))
print(drawn.shape, twice(lambda each: each + 1, x).sum().item())
seed = torch.tensor([2**63 + 5], dtype=torch.uint64)
print(seed.item(), seed[0].cuda().item(), float(seed), torch.tensor(7, dtype=torch.uint64).cuda().item())
"""


# A value computed on the device decides a size.
RAGGED = """
import sys, torch
count = int(sys.argv[1])
longest = int(torch.randn(count, device="cuda").exp().long().max())
x = torch.zeros(count * max(longest, 1), 1 << 20, device="cuda")
"""

# Each line is true on a GPU, or nearly always: guesses agree with each other, and are spread over their interval.
GUESSED = """
import torch
def draw(*of, **named): return torch.randint(*of, device="cuda", **named)
told, x = [], torch.randn(64, 16, device="cuda")
def line(true): told.append(bool(true))

line(1500 < draw(5, 2000, (16,)).max().item() < 2000 and draw(5, 2000, (16,)).min().item() < 500)
line(1500 < torch.empty(16, device="cuda", dtype=torch.long).random_(5, 2000).max().item() < 2000)
line(1500 < (torch.rand(16, device="cuda") * 2000).long().max().item() < 2000)
line(abs(x[torch.rand(64, device="cuda") < 0.25].shape[0] - 16) < 3)
line(abs(x[torch.empty(64, device="cuda").bernoulli_(0.9).bool()].shape[0] - 58) < 3)
line(abs(x[torch.bernoulli(torch.full((64,), 0.15, device="cuda")).bool()].shape[0] - 10) < 3)
lengths = draw(1, 30, (64,))
line(torch.repeat_interleave(x, lengths, dim=0).shape[0] == lengths.sum())
expert = x.argmax(1)
line(len(x.split(torch.unique(expert, return_counts=True)[1].tolist())) == 16)
held = torch.rand(8, 64, device="cuda").mul(x.view(8, -1)[:, :64]) > 0
lengths = held.sum(-1, dtype=torch.int32)
line(0 < lengths.max().item() < 64 and x.new_zeros(512)[held.flatten().nonzero()].shape[0] == lengths.cumsum(0)[-1])
chosen = torch.nn.functional.one_hot(torch.randn(16384, 8, device="cuda").argmax(1), 8).float()
line(chosen.sum(0).max().item() == 2048)
done, rounds = torch.zeros(4, dtype=torch.bool, device="cuda"), 0
while not done.all() and rounds < 200:
    done, rounds = done | (draw(0, 3, (4,)) == 2), rounds + 1
line(rounds < 200)
points = (torch.rand(1000, 3, device="cuda") * 10).long()
line(torch.unique(points, dim=0).shape[0] > 500 and torch.unique(draw(0, 50, (2, 400)), dim=1).shape[1] > 300)
index = x[:, :2].long()  # as a compiled router returns: only the device knows it
line(torch.nn.functional.one_hot(index.flatten(), 8).sum(0).tolist() == [16] * 8)
line(x.new_zeros(64, 8).scatter(1, index, 1.0).bool().sum() == torch.bincount(index.flatten(), minlength=8).sum())
for rounds in range(200):
    if torch.rand(1, device="cuda").item() < 0.2:
        break
line(rounds < 199)
print([number for number, true in enumerate(told) if not true], len(told))
"""


class Values(bed.TestCase):
    def test_a_size_that_hangs_on_values_is_searched_to_the_end(self):
        program = self.folder / "ragged.py"
        program.write_text(RAGGED)
        # The text form needs no long search.
        for device, batch, options in (("1GiB", 126, ["--json"]), ("544MiB", 7, [])):
            result = subprocess.run([bed.harness.MEMPROF, "plan", "--device", device, "--size", f"batch={batch}", *options, "--", "python3", program, "{batch}"],
                                    capture_output=True, text=True, timeout=bed.harness.TIMEOUT, cwd=self.folder,
                                    env=bed.settings(SOFTGPU_STATE=self.folder / "state"))
            self.assertEqual(result.returncode, 0, result.stderr)
            if options:
                answer = json.loads(result.stdout)
                self.assertTrue(answer["depends_on_values"])
                fits = {probe["batch"]: probe["fits"] for probe in answer["probes"]}
                self.assertEqual((fits[answer["max_batch"]], fits[answer["max_batch"] + 1]), ("yes", "no"))
            else:
                self.assertIn("if real values are as small as the planned ones: 7\n", result.stdout)

    def test_functions_as_operands_and_large_numbers(self):
        run = self.execute(HIGHER, how="plan")
        self.assertEqual(run.output, "torch.Size([4, 4]) 48.0\n"
                         "9223372036854775813 9223372036854775813 9.223372036854776e+18 7\n")

    def test_others_are_left_alone(self):
        run = self.execute(STRANGE, how="plan")
        self.assertEqual(run.output, "torch.Size([]) torch.Size([8, 16])\n2048 torch.Size([8, 16])\n0.0 8.0\n")

    def test_bfloat16_takes_cudnn(self):
        run = self.execute(DNN, how="plan")
        self.assertEqual(run.output, "_ConvBackend.Cudnn\n" * 6)
        self.assertIn("not known: cuDNN's workspaces", run.said)

    def test_known_values_come_out_and_others_are_guessed(self):
        run = self.execute(KNOWN, how="plan")
        self.assertEqual(run.output, "[] 20\n[3, 0.0, 0.0, 0.0]\n")
        self.assertEqual([one["count"] for one in run.info()["plan"]["read_backs"]], [4, 2, 4])

    def test_guesses_agree(self):
        run = self.execute(GUESSED, how="plan")
        self.assertEqual(run.output, "[] 15\n")
        self.assertTrue(all(one["origin"] == "spread" for one in run.info()["plan"]["read_backs"]))

    def test_a_loop_that_asks_for_ever_is_named(self):
        run = self.execute("import torch\nx = torch.randn(3, device='cuda')\nfor _ in range(1200):\n    x.sum().item()\n",
                           how="plan")
        self.assertEqual(run.said.count("program.py:4 has read 1000 values that plan can only guess"), 1)

    def test_a_library_s_line_is_named(self):
        library = self.folder / "site-packages" / "reader.py"
        library.parent.mkdir()
        library.write_text("def read(x):\n    return x.sum().item()\n")
        run = self.execute(f"import sys, torch\nsys.path.append({str(library.parent)!r})\nimport reader\n"
                           "print(reader.read(torch.randn(3, device='cuda')))\n", how="plan")
        self.assertIn("program.py:4, in reader.py:2  1 time, a value", run.said)

    def test_memory_that_never_was(self):
        run = self.execute("import torch\ntry:\n    torch.empty(9 << 40, dtype=torch.uint8, device='cuda')\n"
                           "except torch.OutOfMemoryError:\n    pass\n", how="plan")
        self.assertIn("memory ran out 1 time (the command went on), with 0 B reserved and 0 B allocated", run.said)
        self.assertNotIn("at the peak (", run.said)

    def test_a_limit_of_the_program_is_the_cause(self):
        for held, cause in ((0, "limit"), (2, "limit"), (38, "capacity")):
            run = self.execute(f"import torch\ntorch.cuda.set_per_process_memory_fraction({0.5 if held < 38 else 1.0})\n"
                               f"kept = torch.empty({held} << 30, dtype=torch.uint8, device='cuda')\n"
                               "torch.empty(30 << 30, dtype=torch.uint8, device='cuda')\n", how="plan", status=1,
                               options=["--device", "50GiB"])
            self.assertIn(f"cause: {cause}: ", run.said)

    def test_offloaded_activations_decide_no_size(self):
        run = self.execute("import torch\nw = torch.ones(64, 64, device='cuda', requires_grad=True)\n"
                           "with torch.autograd.graph.save_on_cpu():\n    loss = (w @ torch.randn(64, 64, device='cuda')).exp().sum()\n"
                           "loss.backward()\n", how="plan")
        self.assertEqual({one["use"] for one in run.info()["plan"]["read_backs"]}, {"value"})

    def test_memory_is_the_same(self):
        rows = {}
        for values in ("zeros", "host"):  # "host": nothing is followed
            run = self.execute(TRAINED, how="plan", options=["--values", values])
            self.assert_totals(run)
            rows[values] = [(row["bytes"], row["free_ns"] is None) for row in run.blocks()]
        self.assertGreater(len(rows["zeros"]), 100)
        self.assertEqual(rows["zeros"], rows["host"])

    def test_the_plan_s_own_memory_does_not_grow(self):
        run = self.execute(FED, how="plan")  # 60 to 210 MiB, if shadows or the ring of PyTorch's history pile up
        self.assertLess(int(run.output), 24)
        self.assertEqual(harness.answer("leaks", run.path)["verdict"], "clean")

    def test_zeros_take_no_memory_of_the_host(self):
        run = self.execute(ZEROS, how="plan")
        grown, touched = map(int, run.output.split())
        self.assertLess(grown, 64)
        self.assertEqual(touched, 1)

    def test_a_plan_of_nothing_is_not_clean(self):
        run = self.execute("import torch, libmemprof\nfor kept in [[]] * 40:\n    kept.append(torch.ones(1000))\n"
                           "    libmemprof.step()\n", how="plan")
        leaks = harness.answer("leaks", run.path)
        self.assertEqual(leaks["verdict"], "unknown")
        self.assertIn("the program used no GPU", leaks["reason"])

    def test_failures_are_the_program_s(self):
        run = self.execute("import torch\nmask = torch.ones(3, device='cuda')\ntry:\n    mask[7]\nexcept IndexError as "
                           "error:\n    print(error)\nprint(mask.sum().item())\n", how="plan")
        self.assertEqual(run.output, "index 7 is out of bounds for dimension 0 with size 3\n3.0\n")


if __name__ == "__main__":
    bed.main()
