"""Requests to PyTorch's caching allocator on a GPU, `history.py MODE`, as one line of JSON. MODE:

    blocks  tensors of odd sizes on two streams, in a graph's private pool and in a MemPool: each with its address, and
            what PyTorch's own snapshot says of those that live at the end
    own     what a history of the program's own has, begun after regions in several threads, in one more
    train   a training with a fixed seed: a digest of the parameters
    cost    nanoseconds for a tensor's allocation and free, and for reading the history

Exit status 77 where there is no GPU."""
import hashlib
import json
import os
import random
import sys
import threading
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs to be deterministic

import torch  # noqa: E402

if not torch.cuda.is_available():
    print("history.py: no GPU", file=sys.stderr)
    sys.exit(77)
mode, device = sys.argv[1], torch.device("cuda:0")


def blocks():
    r = random.Random(3)
    side = torch.cuda.Stream()
    kept, told = [], []

    def allocate(stream):
        size = r.choice((r.randrange(1, 5000), r.randrange(1, 3 << 20), r.randrange(1, 30 << 20)))
        tensor = torch.empty(size, dtype=torch.uint8, device=device)
        told.append([tensor.data_ptr(), size, stream])
        return tensor

    for step in range(30):
        with torch.autograd.profiler.record_function(f"step {step}"):
            temporary = []
            for _ in range(60):
                on_side = r.random() < 0.3
                with torch.cuda.stream(side if on_side else torch.cuda.current_stream()):
                    temporary.append(allocate(side.cuda_stream if on_side else 0))
                if r.random() < 0.5:
                    temporary.pop(r.randrange(len(temporary)))
            kept += temporary[:2]
            del temporary
    static = torch.zeros(1000, device=device)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        kept.append(static * 2)
    if hasattr(torch.cuda, "MemPool"):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            kept.append(torch.empty(123_457, dtype=torch.uint8, device=device))
    torch.cuda.synchronize()
    held = []
    for segment in torch.cuda.memory._snapshot()["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                held.append([at, block["size"], block["requested_size"], segment["stream"],
                             list(segment["segment_pool_id"])])
            at += block["size"]
    print(json.dumps({"told": told, "held": held, "traces": [len(trace) for trace in
                                                             torch.cuda.memory._snapshot()["device_traces"]],
                      "on": torch._C._cuda_isHistoryEnabled()}))
    sys.stdout.flush()
    graph.reset()


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def own():
    def region():
        with torch.autograd.profiler.record_function("region"):
            torch.empty(1000, device=device)

    found = {}

    def record():
        torch.cuda.memory._record_memory_history(context=None, max_entries=1000)
        region()
        in_thread(region)
        snapshot = torch.cuda.memory._snapshot()
        found["entries"] = [[entry["action"], entry["size"]] for entry in snapshot["device_traces"][0]]
        found["regions"] = [entry.get("name") for entry in snapshot.get("external_annotations", ())]
        torch.cuda.memory._record_memory_history(None)

    region()
    for _ in range(5):
        in_thread(region)
        time.sleep(0.1)
    in_thread(record)
    print(json.dumps(found))


def train():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(257, 513), torch.nn.GELU(), torch.nn.Linear(513, 31)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(50):
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(33, 257, device=device)).square().mean().backward()
        optimizer.step()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    print(json.dumps({"digest": digest.hexdigest()}))


def cost():
    times = []
    for _ in range(7):
        begin = time.perf_counter_ns()
        for _ in range(20_000):
            torch.empty(1000, device=device)
        times.append((time.perf_counter_ns() - begin) / 20_000)
    answer = {"pair_ns": sorted(times)[3]}
    shim = sys.modules.get("libmemprof_torch")
    history = shim and shim.parts.get("history")
    if history is not None and history._on:
        begin = time.perf_counter_ns()
        history.read()
        answer.update(read_ns=time.perf_counter_ns() - begin, entries=history._entries)
    print(json.dumps(answer))


{"blocks": blocks, "own": own, "train": train, "cost": cost}[mode]()
