#!/usr/bin/env python3
"""`memprof plan` of many ranks without their GPUs: torchrun with all ranks, and a single rank of many, which needs the
same memory as among the others. Runs in the environment of tools/cuda-torch."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cuda_torch"))
sys.dont_write_bytecode = True
import bed  # noqa: E402  (first: it goes into the environment)
import harness  # noqa: E402

PROGRAM = HERE / "programs" / "ranks.py"
PIPELINE = HERE / "programs" / "pipeline.py"


class Ranks(bed.TestCase):
    def plan(self, *words, status=0):
        result = subprocess.run([harness.MEMPROF, "plan", *map(str, words)], capture_output=True, text=True, cwd=self.folder,
                                env=bed.settings(TMPDIR=self.folder), timeout=4 * harness.TIMEOUT)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def peaks(self, result):
        return {words[0]: tuple(map(int, words[2:])) for words in map(str.split, result.stdout.splitlines())}

    def test_alone_and_among_others(self):
        together = self.plan("--devices", 2, "--", "torchrun", "--nproc_per_node", 2, PROGRAM)
        peaks = self.peaks(together)
        self.assertEqual(list(peaks), ["fsdp", "zero", "tensor_parallel"])
        self.assertIn("fits, with", together.stderr)
        alone = self.plan("--world-size", 2, "--rank", 0, "--", sys.executable, PROGRAM)
        self.assertEqual(self.peaks(alone), peaks)
        self.assertIn("rank 0 of 2, alone", alone.stderr)

    def test_objects_of_others(self):
        """Python objects sent over NCCL arrive, although the plan sends no tensors."""
        program = self.folder / "objects.py"
        program.write_text("""import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
rank, all, to = dist.get_rank(), [None, None], [None]
dist.all_gather_object(object_list=all, obj={"rank": rank})
one = [f"of {rank}"]
dist.broadcast_object_list(one, src=1)
dist.scatter_object_list(to, [10, 11] if rank == 0 else None, src=0)
os.write(1, f'{rank} {[each["rank"] for each in all]} {one[0]} {to[0]}\\n'.encode())  # in one piece: ranks share the output
""")
        result = self.plan("--devices", 2, "--", "torchrun", "--nproc_per_node", 2, program)
        self.assertEqual(sorted(result.stdout.splitlines()), ["0 [0, 1] of 1 10", "1 [0, 1] of 1 11"])

    def test_small_values_are_sent(self):
        program = self.folder / "sent.py"
        program.write_text("""import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
rank, all = dist.get_rank(), [torch.zeros(2, dtype=torch.long, device="cuda") for _ in range(2)]
torch.cuda.set_device(rank)
flag, sum, most = (torch.tensor(one, device="cuda") for one in (1 - rank, [rank + 1, 5], float(rank)))
dist.broadcast(flag, 0), dist.all_reduce(sum), dist.all_reduce(most, op=dist.ReduceOp.MAX)
dist.all_gather(all, torch.tensor([rank, 10 * rank], device="cuda"))
part = torch.zeros(1, dtype=torch.long, device="cuda")
dist.reduce_scatter_tensor(part, torch.arange(2, device="cuda") + rank)
def tell(*words):  # in one piece: ranks share the output
    os.write(1, (" ".join(map(str, (rank, *words))) + "\\n").encode())
tell(flag.item(), sum.tolist(), most.item(), [one.tolist() for one in all], part.item())
near, far, swapped = (torch.zeros(2, dtype=torch.long, device="cuda") for _ in range(3))
dist.send(torch.tensor([7, 8], device="cuda"), 1) if rank == 0 else dist.recv(near, 0)
mine = torch.tensor([rank, 3], device="cuda")
for each in dist.batch_isend_irecv([dist.P2POp(dist.irecv, far, 1 - rank), dist.P2POp(dist.isend, mine, 1 - rank)]):
    each.wait()
dist.all_to_all_single(swapped, torch.tensor([10, 11], device="cuda") + 100 * rank)
tell(near.tolist(), far.tolist(), swapped.tolist())
unknown = torch.randn(4, device="cuda")
dist.all_reduce(unknown)
tell(unknown.tolist())  # line 22
""")
        result = self.plan("--devices", 2, "--", "torchrun", "--nproc_per_node", 2, program)
        expected = [f"{rank} {rest}" for rank in (0, 1) for rest in (
            f"1 [3, 10] 1.0 [[0, 0], [1, 10]] {2 * rank + 1}", "[0.0, 0.0, 0.0, 0.0]",
            f"{[7 * rank, 8 * rank]} [{1 - rank}, 3] [{10 + rank}, {110 + rank}]")]
        self.assertEqual(sorted(result.stdout.splitlines()), sorted(expected))
        self.assertIn("depends on 1 value read from the device", result.stderr)
        self.assertIn("sent.py:22", result.stderr)
        self.assertEqual([one.name for one in self.folder.iterdir() if "messages" in one.name], [])

    def test_the_worst_rank_decides(self):
        program = self.folder / "worst.py"
        program.write_text("""import os, torch
rank = int(os.environ["LOCAL_RANK"])
torch.empty((800 << 30) if rank == 1 else 10 << 30, dtype=torch.uint8, device=f"cuda:{rank}")
""")
        result = self.plan("--devices", 2, "-o", "run/", "--", "torchrun", "--nproc_per_node", 2, program, status=1)
        self.assertIn("does not fit: memory ran out 1 time on rank 1, with 0 B reserved", result.stderr)

    @unittest.skipUnless(os.environ.get("MEMPROF_TEST_LONG"), "the short form leaves this out: a rank waits for a minute")
    def test_a_rank_that_never_comes(self):
        program = self.folder / "never.py"
        program.write_text("""import torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank())
x = torch.ones(4, device="cuda")
if dist.get_rank() == 0:
    dist.all_reduce(x)
""")
        result = self.plan("--devices", 2, "-o", "run/", "--", "torchrun", "--nproc_per_node", 2, program)
        self.assertIn("unknown whether it fits: until rank 0 waited in vain for rank 1, rank 0 reserved", result.stderr)
        self.assertIn("rank 0 waited in vain for rank 1 (60 s): never.py:6  dist.all_reduce(x)", result.stderr)

    def test_what_others_send_is_not_known(self):
        """A rank trains nothing unless another one says so; groups of one rank, made by splits, cost nothing."""
        program = self.folder / "flag.py"
        program.write_text("""import torch, torch.distributed as dist
dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
groups = [dist.new_group([each]) for each in range(8)]
pairs = [dist.new_group([2 * each, 2 * each + 1]) for each in range(4)]
print(groups[3].rank(), groups[3].size(), pairs[1].rank(), pairs[1].size())
flag = torch.tensor([0], device="cuda")
dist.broadcast(flag, 0)
if flag.item():  # line 8
    torch.empty(800 << 30, dtype=torch.uint8, device="cuda")
""")
        result = self.plan("--world-size", 8, "--rank", 3, "--", sys.executable, program)
        self.assertEqual(result.stdout, "0 1 1 2\n")
        self.assertIn("at the peak; no optimizer stepped", result.stderr)
        self.assertIn("flag.py:8  1 time, a value (of another rank; taken to be this rank's own)", result.stderr)
        # With the world's communicator alone.
        self.assertIn("context and libraries take another 1.19 GiB", result.stderr)

    def test_each_way_to_hear_of_others_is_listed(self):
        """Tensors of the device and the CPU, objects, the store: counts add up, and each line is listed."""
        program = self.folder / "heard.py"
        program.write_text("""import torch, torch.distributed as dist
import torch.distributed._functional_collectives as functional
dist.init_process_group("nccl")
rank, world, cpu = dist.get_rank(), dist.get_world_size(), dist.new_group(backend="gloo")
own, got, all = torch.tensor([rank, 5], device="cuda") * 2, torch.empty(2, dtype=torch.long, device="cuda"), [None] * world
def told(*of): print(*of)
dist.all_to_all_single(got, own); told(got.tolist())  # line 7
lengths = torch.bincount(torch.randn(64, 8, device="cuda").argmax(1) % world, minlength=world)
dist.all_to_all_single(got, lengths)
rows = torch.empty(int(got.sum()), 4, device="cuda")  # line 10
dist.all_to_all_single(rows, torch.randn(64, 4, device="cuda"), got.tolist(), lengths.tolist())
x = functional.all_gather_tensor(own, 0, dist.group.WORLD); told(len(rows), x.tolist(), x.sum().item())  # line 12
dist.reduce_scatter_tensor(got[:1], own); told(got[:1].tolist())  # line 13
there = [torch.zeros(1, dtype=torch.long) for _ in range(world)]
dist.all_gather(there, torch.tensor([rank + 3]), group=cpu); told([one.item() for one in there])  # line 15
dist.all_gather_object(all, rank); told(all)  # line 16
dist.broadcast_object_list(all, src=0)  # line 17
store = dist.distributed_c10d._get_default_store()
told(int(store.get("size")))  # line 19
store.add("here", 1)  # line 20
while store.add("here", 0) < world:
    pass
alone = torch.tensor([rank], device="cuda")
dist.all_reduce(alone, group=[dist.new_group([each]) for each in range(world)][rank]); told(alone.item())
dist.barrier()
""")
        result = self.plan("--world-size", 2, "--rank", 1, "-o", "plan.mp", "--", sys.executable, program)
        self.assertEqual(result.stdout, "[10, 10]\n64 [2, 10, 2, 10] 24\n[10]\n[4, 4]\n[1, 1]\n0\n1\n")
        read = {frame["line"]: one["origin"] for one in harness.answer("info", self.folder / "plan.mp")["plan"]["read_backs"]
                for frame in one["stack"] if str(frame.get("file")).endswith("heard.py")}
        self.assertEqual({line: read.get(line) for line in (7, 10, 12, 13, 15, 16, 17, 19, 20)},
                         dict.fromkeys((7, 10, 12, 13, 15, 16, 17, 19, 20), "received"))
        self.assertNotIn(24, read)

    def test_stages_of_a_pipeline(self):
        """More ranks than one root of NCCL serves; groups of the CPU; objects that stages send each other."""
        result = self.plan("--world-size", 512, "--rank", "all", "--json", "--", sys.executable, PIPELINE)
        answer = json.loads(result.stdout)
        ranks = {one["rank"]: one["allocated_bytes"] for one in answer["ranks"]}
        self.assertEqual(list(ranks), [0, 256])
        self.assertEqual(answer["highest"], 256)
        head = 4 * 4 * (256 * 4096 + 4096)  # parameters, gradients and states of the last stage
        self.assertGreater(ranks[256], head)

    def test_a_later_stage_that_does_not_fit_decides(self):
        program = self.folder / "stages.py"
        program.write_text("""import torch, torch.distributed as dist
dist.init_process_group("nccl")
x = torch.ones(4, device="cuda")
if dist.get_rank() == 0:
    kept = torch.empty(1 << 30, device="cuda")
    torch.randn(4, device="cuda").sum().item()
    dist.send(x, 1)
else:
    torch.empty(800 << 30, dtype=torch.uint8, device="cuda")
""")
        result = self.plan("--world-size", 2, "--rank", "all", "--", sys.executable, program)
        self.assertIn("Worst: rank 1, 2.00 MiB reserved; does not fit h100-80gb\n", result.stdout)
        self.assertIn("rank 0 depends on 1 value read from the device; memprof plan --rank 0 lists it\n", result.stdout)

    def test_who_waits_for_others_is_named(self):
        result = self.plan("--world-size", 512, "--rank", 256, "--", sys.executable, PIPELINE, status=1)
        self.assertIn("rank 256 waits for an object that only rank 0 knows; memprof plan --rank all", result.stderr)

    def test_one_of_sixty_four(self):
        result = self.plan("--world-size", 64, "--rank", 0, "-o", "plan.mp", "--", sys.executable, PROGRAM)
        peaks = self.peaks(result)
        parameters = 6 * 4 * (1024 * 1024 + 1024)
        # without sharding, parameters, gradients and two states would take four times as much; cuBLAS's workspace is
        # not counted
        self.assertLess(peaks["fsdp"][0], 4 * parameters)
        self.assertLess(peaks["fsdp"][0], peaks["zero"][0])
        plan = harness.answer("info", self.folder / "plan.mp")["plan"]
        self.assertEqual((plan["rank"], plan["world_size"]), (0, 64))
        self.assertIn("NCCL", [one["name"] for one in plan["estimated"]])


if __name__ == "__main__":
    bed.main()
