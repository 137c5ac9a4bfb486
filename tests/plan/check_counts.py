#!/usr/bin/env python3
"""Counts that the device makes under `memprof plan`, as routers of experts make them. Random programs combine ways to
choose, ways to count, and ways to bring the counts to the host. Sizes equal those of a run on the CPU, or the plan
lists the line that read the value. A program that runs on the CPU never fails in a plan."""
import json
import os
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cuda_torch"))
sys.dont_write_bytecode = True
import bed  # noqa: E402  (first: it goes into the environment)
import harness  # noqa: E402

SCORES = ["torch.randn(T, E, device=d)", "torch.rand(T, E, generator=g).to(d)", "torch.randn(T, 16, device=d) @ torch.randn(16, E, device=d)",
          "nn.Linear(16, E).to(d)(torch.randn(T, 16, device=d)).softmax(-1)", "torch.randn(T, E, generator=g).to(d).sigmoid()",
          "F.conv1d(torch.randn(1, 4, T, device=d), torch.randn(E, 4, 1, device=d))[0].t()",
          "(torch.arange(T * E, device=d) * 7 % 13).view(T, E).float()", "torch.fft.fft(torch.randn(T, E, device=d)).abs()"]
CHOICES = ["s.topk(K, dim=-1)[1]", "s.argmax(1)", "s.max(1)[1]", "s.argsort(dim=1, descending=True)[:, :K]",
           "s.sort(dim=1, stable=True)[1][:, -K:]", "torch.multinomial(s.softmax(-1), K)", "torch.randint(E, (T, K), device=d)",
           "torch.randint(0, E, (T,), generator=g).to(d)", "(torch.arange(T, device=d) % E)", "s.min(dim=1).indices", "s.t().argmin(0)",
           "torch.randint(E, (T, K), generator=g).to(d, non_blocking=True)", "torch.randperm(T, device=d) % E",
           "torch.empty(T, dtype=torch.long, device=d).random_(0, E)", "(torch.rand(T, K, device=d) * E).long()",
           "torch.bucketize(s[:, 0], torch.linspace(-1, 1, E - 1, device=d))", "s.kthvalue(2, dim=1)[1]"]
COUNTS = ["torch.bincount(c.reshape(-1), minlength=E)", "torch.histc(c.float(), bins=E, min=0, max=E)",
          "torch.histc(c.reshape(-1).float(), E, 0, E - 1).int()", "F.one_hot(c.reshape(-1), E).sum(0)",
          "(c.reshape(-1, 1) == torch.arange(E, device=d)).sum(0)", "F.one_hot(c, E).reshape(-1, E).bool().sum(dim=0)",
          "torch.zeros(E, dtype=torch.long, device=d).scatter_add_(0, c.reshape(-1), torch.ones_like(c.reshape(-1)))",
          "torch.zeros(T, E, dtype=torch.int, device=d).scatter(1, c.reshape(T, -1), 1).bool().sum(0)",
          "torch.zeros(E, device=d).index_add_(0, c.reshape(-1), torch.ones(c.numel(), device=d)).long()",
          "F.one_hot(c.reshape(-1), E).cumsum(0)[-1]", "torch.stack([(c == e).sum() for e in range(E)])",
          "torch.unique(c, return_counts=True)[1]", "torch.stack([torch.count_nonzero(c == e) for e in range(E)])",
          "torch.cat([(c == e).nonzero()[:, :1].new_tensor([len((c == e).nonzero())]) for e in range(E)])",
          "torch.searchsorted(c.reshape(-1).sort()[0], torch.arange(E + 1, device=d)).diff()", "(s > 0.5).sum(0)",
          "(s > s.mean()).long().sum(1)", "(c.reshape(-1) == 1).sum().reshape(1)", "c.reshape(-1).unique_consecutive(return_counts=True)[1]",
          "torch.bincount(c.reshape(-1))", "(~(s > 0)).count_nonzero(dim=0)", "torch.isfinite(s).sum(0)"]
WAYS = ["n.tolist()", "[int(v) for v in n]", "[v.item() for v in n]", "n.cpu().tolist()", "n.to('cpu').numpy().tolist()",
        "torch.empty(n.shape, dtype=n.dtype).copy_(n).tolist()", "n.long().to('cpu', non_blocking=True).tolist()",
        "[len(range(v)) for v in n.long()]", "n.long().cumsum(0).diff(prepend=n.new_zeros(1).long()).tolist()",
        "n.clone().double().cpu().int().tolist()", "[t.shape[0] for t in torch.arange(int(n.sum()), device=d).split(n.long().tolist())]",
        "[torch.repeat_interleave(torch.arange(len(n), device=d), n.long()).numel()]", "[len(torch.arange(4096, device=d)[: n.long().max()])]",
        "[torch.zeros(int(n.max()), 2, device=d).shape[0]]", "list(torch.zeros(int(n.long().sum()), device=d).shape)",
        "[torch.zeros(64, device=d)[(n > 0).nonzero().reshape(-1).clamp(max=63)].numel()]", "n.long().view(-1)[:1].tolist()",
        "[torch.masked_select(n, n > 0).numel()]", "[len([0 for v in n if v > 3])]", "[torch.where(n > 2)[0].numel()]",
        "[torch.repeat_interleave(torch.randn(len(n), 2, device=d), n.long(), dim=0).shape[0]]",
        "[t.shape[0] for t in torch.zeros(n.numel(), device=d).split(torch.unique(n, return_counts=True)[1].tolist())]"]

HEAD = """import json, sys, torch
from torch import nn
import torch.nn.functional as F
d = sys.argv[1]
g = torch.Generator()  # of the host
told = {}
def run(number, program):
    g.manual_seed(number)
    try:
        told[number] = [int(one) for one in program()]
    except Exception as error:
        told[number] = str(error)[:200]
"""


def make(count, seed):
    """A program of `count` programs, and the lines of each."""
    of, lines, text = random.Random(seed), {}, HEAD
    for number in range(count):
        parts = [of.choice(each) for each in (SCORES, CHOICES, COUNTS, WAYS)]
        first = text.count("\n") + 1
        text += "".join(f"{line}\n" for line in (
            f"def program{number}():", f"    T, E, K = {of.choice((32, 64, 96))}, {of.choice((4, 8))}, {of.choice((1, 2))}",
            f"    s = {parts[0]}", f"    c = {parts[1]}", f"    n = {parts[2]}", f"    return {parts[3]}",
            f"run({number}, program{number})"))
        lines[number] = (first, text.count("\n"))
    return text + "print(json.dumps(told))\n", lines


# Each result takes the block of a freed tensor that the host filled with 3, and some operators write to such a tensor.
LIBRARIES = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
def made(*shape): return torch.randn(*shape, device="cuda")
a, v, many, image, signal = made(64, 64), made(64), made(4, 64, 64), made(2, 4, 16, 16), made(2, 4, 64)
coo = torch.sparse_coo_tensor(torch.randint(0, 64, (2, 99)), torch.randn(99), (64, 64)).coalesce()
csr, coo, q = coo.to_sparse_csr().cuda(), coo.cuda(), made(1, 4, 128, 64).half()
ways = dict(
    dot=lambda: torch.dot(v, v), vdot=lambda: torch.vdot(v, v), mv=lambda: a.mv(v), mm=lambda: a @ a, outer=lambda: a.addmm(a, a),
    addmv=lambda: v.addmv(a, v), bmm=lambda: many @ many, baddbmm=lambda: many.baddbmm(many, many), double=lambda: a.double() @ a.double(),
    linear=lambda: F.linear(a, a), bias=lambda: F.linear(a, a, v), one=lambda: F.linear(v[None], v[None]), half=lambda: a.half() @ a.half(),
    inner=lambda: torch.inner(v, v), tensordot=lambda: torch.tensordot(a, a), vecdot=lambda: torch.linalg.vecdot(a, a),
    einsum=lambda: torch.einsum("ij,jk->ik", a, a), addr=lambda: a.addr(v, v), addbmm=lambda: a.addbmm(many, many),
    complex=lambda: torch.complex(a, a) @ torch.complex(a, a), multi=lambda: torch.linalg.multi_dot([a, a, a]),
    conv1d=lambda: F.conv1d(signal, made(4, 4, 3)), conv2d=lambda: F.conv2d(image, made(8, 4, 3, 3)),
    conv3d=lambda: F.conv3d(made(1, 2, 8, 8, 8), made(2, 2, 3, 3, 3)), transposed=lambda: F.conv_transpose2d(image, made(4, 4, 2, 2)),
    depthwise=lambda: F.conv2d(image, made(4, 1, 3, 3), groups=4), norm=lambda: F.batch_norm(image, None, None, training=True),
    rfft=lambda: torch.fft.rfft(a).real.contiguous(), fft2=lambda: torch.fft.fft2(a).abs(), irfft=lambda: torch.fft.irfft(torch.complex(a, a)),
    cholesky=lambda: torch.linalg.cholesky(a), qr=lambda: torch.linalg.qr(a)[1], svd=lambda: torch.linalg.svdvals(a),
    eigh=lambda: torch.linalg.eigvalsh(a), solve=lambda: torch.linalg.solve(a, a), inverse=lambda: torch.linalg.inv(many),
    lu=lambda: torch.linalg.lu_factor(a)[0], sparse=lambda: torch.sparse.mm(coo, a), rows=lambda: csr @ a, rowed=lambda: csr @ v,
    attention=lambda: F.scaled_dot_product_attention(q, q, q))
def read(tensor): return tensor.detach().reshape(-1)[:1].abs().double().item()
stale, same = [], 0
for name, way in ways.items():
    shape, kind = (lambda out: (out.shape, out.dtype))(way())
    for _ in range(2):
        before = torch.full(shape, 3.0, dtype=kind).cuda()
        address = before.data_ptr()
        del before
        out = way()
        same += out.data_ptr() == address
        if read(out) == 3:
            stale.append(name)
for name, module in dict(norm1=nn.BatchNorm1d(4), norm2=nn.BatchNorm2d(4), instance=nn.InstanceNorm2d(4, track_running_stats=True),
                         sync=nn.SyncBatchNorm(4)).items():
    module.cuda().running_mean.copy_(torch.full((4,), 3.0))
    module(signal if name == "norm1" else image)
    if read(module.running_mean) == 3:
        stale.append(name)
graph, kept = torch.cuda.CUDAGraph(), torch.full((64,), 3.0).cuda()
with torch.cuda.graph(graph):
    kept.add_(v)
kept.copy_(torch.full((64,), 3.0))
graph.replay()
print(stale, read(kept) == 3, same > len(ways))
"""


GRAPHS = """
import sys, torch
net, kept = torch.nn.Linear(64, 64).cuda(), {}
pool = torch.cuda.graph_pool_handle() if sys.argv[1] == "one" else None
with torch.no_grad():
    net(torch.zeros(8, 64, device="cuda"))
    for length in range(8, 88, 8):
        given, graph = torch.zeros(length, 64, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            kept[length] = graph, given, net(given)
"""


class Counts(bed.TestCase):
    def test_graphs_of_one_place_and_their_pools(self):
        for pools in ("many", "one"):
            said = harness.memprof("report", self.execute(GRAPHS, pools, how="plan").path).stdout
            self.assertIn("  10 CUDA graphs were captured at one place", said)
            self.assertEqual("their memory is in 10 private pools" in said, pools == "many", said)

    def test_what_libraries_computed_is_not_known(self):
        run = self.execute(LIBRARIES, how="plan")
        self.assertEqual(run.output, "[] False True\n")

    def test_random_programs(self):
        count = 300
        text, lines = make(count, int(os.environ.get("SEED", "1")))
        run = self.execute(text, "cuda", how="plan")
        planned = json.loads(run.output)
        (self.folder / "counts.py").write_text(text)
        real = json.loads(subprocess.run([sys.executable, self.folder / "counts.py", "cpu"], check=True, text=True,
                                         capture_output=True).stdout)
        read = {frame["line"] for one in run.info()["plan"]["read_backs"] for frame in one["stack"]
                if str(frame.get("file")).endswith("program.py")}
        source, wrong, equal = text.split("\n"), [], 0
        for number in range(count):
            first, last = lines[number]
            mine, true = planned[str(number)], real[str(number)]
            equal += mine == true
            if mine != true and (isinstance(mine, str) or not read & set(range(first, last))) and not isinstance(true, str):
                wrong.append([mine, true, *source[first:last - 1]])
        self.assertEqual(wrong, [], "\n".join(map(str, wrong)))
        # Counts of the host's values, and sums that the guessed shares have right.
        self.assertGreater(equal, count // 5)


if __name__ == "__main__":
    bed.main()
