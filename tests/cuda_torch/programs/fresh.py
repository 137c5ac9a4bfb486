"""Programs as users write them, `fresh.py NAME`. Each leaves live blocks at its end, in `kept`."""
import concurrent.futures
import gc
import io
import queue
import random
import subprocess
import sys
import tempfile
import threading
import weakref

import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MIB = 1 << 20
kept = []
torch.backends.cudnn.enabled = False
torch.manual_seed(0)


def block(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)


def retries():
    """Under its own limit: cached memory is released, partly by the allocator's own collection, until none is left."""
    torch.cuda.set_per_process_memory_fraction(0.5)
    half = torch.cuda.get_device_properties(0).total_memory // 2
    for size in (40, 90, 150, 210, 240):
        parts = [block(size * MIB // 3) for _ in range(3)]
        kept.append(parts.pop())
        del parts
        while sum(len(part) for part in kept) > half // 2:
            kept.pop(0)
    failures = 0
    for size in (half, half // 2, half // 8):
        try:
            kept.append(block(size))
        except torch.OutOfMemoryError:
            failures += 1
            kept.pop()
    assert failures


def bisect():
    """Finds the largest batch by failing, as people do."""
    weight = torch.randn(4096, 4096, device="cuda")
    low, high = 1, 1 << 20
    while high - low > 1000:
        middle = (low + high) // 2
        try:
            out = torch.relu(torch.randn(middle, 4096, device="cuda") @ weight)
            low = middle
            del out
        except RuntimeError:
            high = middle
        torch.cuda.empty_cache()
    kept.append(weight)


def two_devices():
    """A pipeline over two devices, whose halves take turns."""
    first, second = nn.Linear(300, 2000).cuda(0), nn.Linear(2000, 300).cuda(1)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    for step in range(4):
        inputs = torch.randn(50 + step, 300, device="cuda:0")
        second(first(inputs).relu().to("cuda:1", non_blocking=True)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.cuda.device(step % 2):
            kept.append(block((step + 1) * MIB, f"cuda:{step % 2}"))
            torch.cuda.empty_cache()
    kept.extend([first, second, optimizer])


def data_parallel():
    model = nn.DataParallel(nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 16)).cuda(), [0, 1])
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(4):
        model(torch.randn(65, 128, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    kept.extend([model, optimizer])


def graphs_of_sizes():
    """One graph for each batch size, largest first, all in one pool, on their own stream."""
    layers = nn.Sequential(*[nn.Linear(200, 200) for _ in range(3)]).cuda().eval()
    stream, pool = torch.cuda.Stream(), None
    with torch.no_grad(), torch.cuda.stream(stream):
        for size in (64, 32, 8):
            inputs = torch.zeros(size, 200, device="cuda")
            layers(inputs)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                out = layers(inputs)
            pool = pool or graph.pool()
            kept.append((graph, inputs, out))
        for graph, inputs, out in kept * 2:
            inputs.copy_(torch.ones_like(inputs))
            graph.replay()
            result = out.clone()
    kept.append(layers)
    kept.pop(0)[0].reset()


def captured_training():
    """make_graphed_callables: forward and backward as graphs."""
    module = nn.Sequential(nn.Linear(100, 300), nn.Tanh(), nn.Linear(300, 10)).cuda()
    graphed = torch.cuda.make_graphed_callables(module, (torch.randn(20, 100, device="cuda"),))
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for _ in range(3):
        graphed(torch.randn(20, 100, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    kept.extend([module, graphed])


def pools_and_streams():
    """Blocks of two pools, used on two streams, freed in another order than allocated."""
    streams, pools = [torch.cuda.Stream() for _ in range(2)], [torch.cuda.MemPool() for _ in range(2)]
    for number in range(12):
        stream = streams[number % 2]
        with torch.cuda.stream(stream), torch.cuda.use_mem_pool(pools[number // 2 % 2]):
            kept.append(block(((number * 7) % 5 + 1) * 700_000))
        kept[-1].record_stream(streams[(number + 1) % 2])
        if number % 3 == 2:
            del kept[0]
            kept.append(block(number * 1000 + 1))
    pools.clear()


def producers():
    """Threads pass blocks to each other; a thread without memory frees some."""
    slots, lock = [None] * 24, threading.Lock()

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for turn in range(60):
                try:
                    made = block((number * 131 + turn * 977) % 1900 * 16384 + 1)
                except torch.OutOfMemoryError:
                    with lock:
                        slots[:12] = [None] * 12
                    continue
                with lock:
                    made, slots[(turn * 5 + number) % 24] = slots[(turn * 5 + number) % 24], made
                if made is not None:
                    made.record_stream(torch.cuda.current_stream())

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    kept.extend(slots)


def generation():
    """A cache of keys and values that grows by one token per step, for requests of different lengths, without
    gradients."""
    project = nn.Linear(64, 192).cuda()
    with torch.inference_mode():
        for length in (5, 40, 17):
            cache = [torch.zeros(2, 4, 0, 64, device="cuda") for _ in range(2)]
            token = torch.randn(2, 4, 1, 64, device="cuda")
            for _ in range(length):
                query, *new = project(token).chunk(3, dim=-1)
                cache = [torch.cat((old, more), dim=2) for old, more in zip(cache, new)]
                token = nn.functional.scaled_dot_product_attention(query, *cache)
            kept.append(cache)
    kept.append(project)


def loader():
    """Pinned batches from a DataLoader's thread; the next one is copied during the work on this one."""
    data = TensorDataset(torch.randn(203, 50), torch.randint(0, 9, (203,)))
    model, side = nn.Linear(50, 9).cuda(), torch.cuda.Stream()
    optimizer, following = torch.optim.RMSprop(model.parameters()), None
    for batch in (*DataLoader(data, 32, pin_memory=True), None):
        current = following
        with torch.cuda.stream(side):
            following = [part.cuda(non_blocking=True) for part in batch] if batch else None
        if current:
            torch.cuda.current_stream().wait_stream(side)
            for part in current:
                part.record_stream(torch.cuda.current_stream())
            nn.functional.cross_entropy(model(current[0]), current[1]).backward()
            optimizer.step()
            optimizer.zero_grad()
    kept.extend([model, optimizer])


def accumulation():
    """Gradients of several parts, clipped; moving averages; a model whose state is saved and loaded."""
    model = nn.Sequential(nn.Embedding(500, 32), nn.LSTM(32, 48, 2, batch_first=True)).cuda()
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for step in range(3):
        for part in range(2):
            with torch.autocast("cuda", torch.bfloat16):
                out, _ = model(torch.randint(0, 500, (6 + part, 11), device="cuda"))
            (out.float().mean() / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    kept.extend([model, average, optimizer])


def odd_sizes():
    """Sizes around every border of the allocator's classes, each allocated twice."""
    borders = [1, 512, MIB, 10 * MIB, 20 * MIB, 32 * MIB]
    for turn in range(2):
        for border in borders:
            for more in (-1, 0, 1, 511, 512, 513):
                if border + more > 0:
                    kept.append(block(border + more))
        del kept[turn::3]
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


def grown_on_streams():
    """Blocks that grow on three streams in turn, used by the next stream and freed in the middle; then the cache is
    emptied."""
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    for turn in range(30):
        with torch.cuda.stream(streams[turn % 3]):
            kept.append(block((turn * turn * 40_000) % (17 * MIB) + 1))
            kept[-1].record_stream(streams[(turn + 1) % 3])
            kept.append(block(turn * 3000 + 7))
        if turn % 4 == 3:
            del kept[turn // 2:turn // 2 + 3]
        if turn % 11 == 10:
            torch.cuda.empty_cache()


def full_devices():
    """Two devices fill up at different rates: retries, and failures."""
    held, failed = ([], []), [0, 0]
    for turn in range(40):
        device = turn % 2
        size = (turn * 37 % 11 + 14 + 10 * device) * MIB
        try:
            held[device].append(block(size, f"cuda:{device}"))
        except torch.OutOfMemoryError:
            failed[device] += 1
            del held[device][::2]
            if turn % 3:
                held[device].append(block(size // 2, f"cuda:{device}"))
        if turn % 5 == 4:
            held[1 - device].pop(0)
    assert all(failed)
    kept.extend(held)


def shared_pools():
    """Graphs of two families, each with its own pool, captured in turn; one is reset and captured again."""
    inputs = torch.ones(700, 700, device="cuda")
    pools = [torch.cuda.graph_pool_handle() for _ in range(2)]

    def capture(family, scale):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pools[family]):
            out = inputs * scale
            for _ in range(family + 2):
                out = torch.cat((out, out[:100])).relu()
        kept.append([graph, out])

    for number in range(6):
        capture(number % 2, number)
        between = block((number + 1) * 900_000)
        for graph, _ in kept:
            graph.replay()
        del between
    kept[2][1] = None
    kept.pop(2)[0].reset()
    torch.cuda.empty_cache()
    capture(0, 9)


def compiled(backend):
    model = nn.Sequential(nn.Linear(96, 200), nn.GELU(), nn.LayerNorm(200), nn.Linear(200, 5)).cuda()
    optimizer, step = torch.optim.AdamW(model.parameters()), torch.compile(model, backend=backend)
    for size in (16, 16, 24):
        step(torch.randn(size, 96, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
    kept.extend([model, optimizer])


def compiled_eager():
    compiled("eager")


def compiled_aot_eager():
    compiled("aot_eager")


def profiled():
    """Under torch.profiler with CUDA and memory, in the windows of its schedule. (With stacks, PyTorch 2.6 itself dies
    by a signal on Python 3.13.)"""
    model = nn.Sequential(nn.Conv1d(4, 16, 5), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 60, 3)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, profile_memory=True, record_shapes=True,
                                schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)) as profiler:
        for _ in range(5):
            model(torch.randn(9, 4, 64, device="cuda")).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    kept.extend([model, optimizer])


def other_settings():
    """Settings of the allocator that change while the program runs."""
    for number, settings in enumerate(("max_split_size_mb:40", "expandable_segments:True", "expandable_segments:False",
                                       "roundup_power2_divisions:4", "expandable_segments:True")):
        torch.cuda.memory._set_allocator_settings(settings)
        for size in (3, 30, 50, 1):
            kept.append(block(size * MIB + number * 70_001))
        del kept[number::4]


def offloaded():
    """Saved activations wait in pinned memory, layers are recomputed, and hooks examine gradients."""
    layers = nn.ModuleList(nn.Linear(300, 300) for _ in range(5)).cuda()
    for layer in layers:
        layer.weight.register_hook(lambda gradient: gradient * 0.5)
    for step in range(3):
        out = torch.randn(70, 300, device="cuda")
        for number, layer in enumerate(layers):
            if number % 2:
                out = torch.utils.checkpoint.checkpoint(layer, out, use_reentrant=bool(step % 2))
            else:
                with torch.autograd.graph.save_on_cpu(pin_memory=True):
                    out = layer(out).tanh()
        out.sum().backward()
    kept.append(layers)


def jagged():
    """Nested and sparse tensors, scatter and sort, always of other sizes."""
    for turn in range(8):
        lengths = [(turn * 31 + number * 17) % 50 + 1 for number in range(6)]
        kept.append(torch.nn.utils.rnn.pad_sequence([torch.randn(length, 64, device="cuda") for length in lengths]))
        values = torch.randn(sum(lengths), 33, device="cuda")
        order = torch.argsort(values, dim=0, stable=True)
        kept.append(torch.zeros_like(values).scatter_add_(0, order * 0, values))
        kept.append(torch.stack([part.mean(0) for part in values.split(lengths)]))
        if turn % 3 == 2:
            del kept[1::2]


def raw_blocks():
    """Raw memory of PyTorch's allocator, as other libraries request it, on given streams and devices."""
    streams = [torch.cuda.Stream(device) for device in (0, 1, 1)]
    addresses = []
    for turn in range(60):
        stream = streams[turn % 3] if turn % 5 else torch.cuda.default_stream(turn % 2)
        addresses.append(torch.cuda.caching_allocator_alloc((turn * turn * 7919) % (3 * MIB) + 1, stream.device, stream))
        if turn % 3 == 2:
            torch.cuda.caching_allocator_delete(addresses.pop(turn // 6))
        if turn == 40:
            torch.cuda.empty_cache()
    kept.append(block(11, "cuda:1"))


def moving_limits():
    """The process's limits on three devices are raised and lowered while it works."""
    failed = 0
    for turn, fraction in enumerate((0.25, 0.75, 0.4, 1.0, 0.1, 0.5)):
        for device in range(3):
            torch.cuda.set_per_process_memory_fraction(fraction, device)
        for number in range(30):
            try:
                kept.append(block((number * 29 + turn * 13) % 23 * MIB // 2 + 4097, f"cuda:{(number + turn) % 3}"))
            except torch.OutOfMemoryError as error:
                failed += 1
                assert "of which" in str(error)
        del kept[turn::2]
        if turn == 3:
            torch.cuda.empty_cache()
    assert failed > 3


def side_captures():
    """Captures that fork to other streams and join again; in one of them, memory is freed on the other stream."""
    main, side = torch.cuda.Stream(), torch.cuda.Stream()
    weights = [torch.randn(500, 500, device="cuda") for _ in range(2)]
    for number in range(4):
        graph = torch.cuda.CUDAGraph()
        inputs = torch.zeros(100 * (number + 1), 500, device="cuda")
        main.wait_stream(torch.cuda.current_stream())
        with torch.cuda.graph(graph, stream=main, capture_error_mode="thread_local"):
            left = (inputs + 1).tanh()
            side.wait_stream(main)
            with torch.cuda.stream(side):
                right = (inputs * 2).sigmoid()
                wide = torch.cat([right] * (number + 2))
                right.record_stream(main)
                if number % 2:
                    del right
                    right = wide[:len(inputs)].clone()
            main.wait_stream(side)
            out = left + right + weights[0][0]
            del left, wide
        for _ in range(2):
            inputs.copy_(torch.rand_like(inputs))
            graph.replay()
        kept.append((graph, inputs, out))
        weights.append(block(number * MIB + 3))
    kept.append(weights)
    del kept[1]
    torch.cuda.empty_cache()


def broken_capture():
    """Captures in one pool that succeed and end by an exception in turn, with work in between."""
    pool = torch.cuda.graph_pool_handle()
    inputs = torch.ones(300, 1000, device="cuda")
    for number in range(5):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=pool):
                out = (inputs * number).relu()
                more = torch.cat([out] * (number + 1))
                if number % 2:
                    raise ValueError("not this time")
        except ValueError:
            del out, more
        else:
            kept.append((graph, out, more))
        kept.append(torch.randn(number + 1, 70_000, device="cuda").softmax(1))
        torch.cuda.empty_cache()


def own_pool():
    """Part of a program's memory is from its own allocator, in a pool, the rest from PyTorch's."""
    with open("own.c", "w") as source:
        source.write("""#include <sys/types.h>
int cudaMalloc(void **, unsigned long); int cudaFree(void *);
void *own_alloc(ssize_t n, int d, void *s) { void *p = 0; (void)d, (void)s; return cudaMalloc(&p, n) ? 0 : p; }
void own_free(void *p, ssize_t n, int d, void *s) { (void)n, (void)d, (void)s; cudaFree(p); }
""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "own.so", "own.c"], check=True)
    allocator = torch.cuda.memory.CUDAPluggableAllocator("./own.so", "own_alloc", "own_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    for number in range(8):
        with torch.cuda.use_mem_pool(pool):
            kept.append(torch.full((number * 60_000 + 1,), 1.0, device="cuda"))
        kept.append(kept[-1] * 2)
        if number % 3 == 1:
            del kept[-2]
    kept.append((pool, allocator))


def smaller_batches():
    """The batch is halved until forward and backward fit, as launchers do; memory may run out at any line."""
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(1000, 1000), nn.GELU())]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for first in (60_000, 9000, 30_000):
        batch, done = first, False
        while not done:
            try:
                out = model(torch.randn(batch, 1000, device="cuda"))
                (out.square().mean() + torch.linalg.vector_norm(out)).backward()
                optimizer.step()
                done = True
            except RuntimeError:
                batch //= 2
            out = None
            optimizer.zero_grad(set_to_none=True)
            gc.collect()
            if not done:
                torch.cuda.empty_cache()
        kept.append(block(batch * 100))
    kept.extend([model, optimizer])


def stages():
    """A pipeline with a thread for each device; queues pass batches on and gradients back."""
    halves = [nn.Linear(400, 600).cuda(0), nn.Linear(600, 100).cuda(1)]
    forward, backward = queue.Queue(2), queue.Queue()

    def first():
        held, waiting = {}, 6
        for number in range(6):
            inputs = torch.randn(40 + 9 * number, 400, device="cuda:0")
            held[number] = halves[0](inputs)
            forward.put((number, held[number].detach().to("cuda:1", non_blocking=True)))
            while not backward.empty():
                done, gradient = backward.get()
                held.pop(done).backward(gradient.to("cuda:0"))
                waiting -= 1
        forward.put(None)
        for _ in range(waiting):
            done, gradient = backward.get()
            held.pop(done).backward(gradient.to("cuda:0"))

    def second():
        torch.cuda.set_device(1)
        with torch.cuda.stream(torch.cuda.Stream()):
            while (item := forward.get()) is not None:
                inputs = item[1].requires_grad_()
                nn.functional.cross_entropy(halves[1](inputs), torch.zeros(len(inputs), dtype=torch.long,
                                                                           device="cuda")).backward()
                backward.put((item[0], inputs.grad))

    threads = [threading.Thread(target=stage) for stage in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept.extend(halves)


def paged():
    """An optimizer's state waits in pinned memory; each part is copied in and out on its own stream."""
    parameters = [nn.Parameter(torch.randn(size, 513, device="cuda")) for size in (1000, 40, 7000, 333)]
    states = [[torch.zeros(parameter.shape, pin_memory=True) for _ in range(2)] for parameter in parameters]
    incoming, outgoing = torch.cuda.Stream(), torch.cuda.Stream()
    for step in range(5):
        sum((parameter * torch.rand_like(parameter)).sum() for parameter in parameters).backward()
        for parameter, state in zip(parameters, states):
            with torch.cuda.stream(incoming):
                here = [part.to("cuda", non_blocking=True) for part in state]
            torch.cuda.current_stream().wait_stream(incoming)
            with torch.no_grad():
                here[0].mul_(0.9).add_(parameter.grad)
                here[1].mul_(0.99).addcmul_(parameter.grad, parameter.grad)
                parameter.sub_(here[0] / (here[1].sqrt() + 1e-8))
            outgoing.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(outgoing):
                for part, there in zip(here, state):
                    there.copy_(part, non_blocking=True)
                    part.record_stream(outgoing)
            del here, part
            parameter.grad = None
    kept.extend([parameters, states])


def experts():
    """Experts get different numbers of tokens in every step, drawn on the CPU."""
    dice = random.Random(5)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 128)) for _ in range(6)).cuda()
    optimizer = torch.optim.Adam(layers.parameters(), foreach=True)
    for step in range(6):
        tokens = torch.randn(dice.randrange(100, 2000), 128, device="cuda")
        chosen = [[] for _ in layers]
        for token in range(len(tokens)):
            chosen[dice.randrange(dice.randrange(1, 7))].append(token)
        out = torch.zeros_like(tokens)
        for layer, mine in zip(layers, chosen):
            if mine:
                index = torch.tensor(mine, device="cuda")
                out = out.index_add(0, index, layer(tokens[index]))
        out.pow(2).mean().backward()
        nn.utils.clip_grad_value_(layers.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            kept.append(out.detach())
    kept.extend([layers, optimizer])


def finalizers():
    """Cycles that only Python's collector frees, on any thread; streams that end before their blocks."""
    class Node:
        def __init__(self, size):
            self.block, self.me = block(size), self

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            nodes = [Node((number * 311 + turn * 97) % 700 * 2048 + 1) for turn in range(25)]
            for node in nodes[::2]:
                weakref.finalize(node, block, 100).atexit = False
            return nodes[number % 25]

    gc.disable()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for turn in range(3):
            kept.extend(pool.map(work, range(turn * 8, turn * 8 + 8)))
            pool.submit(gc.collect).result()
            del kept[turn::3]
    gc.enable()
    gc.collect()


def beams():
    """A search that keeps the best few: caches are reordered, shortened and joined, in blocks of all sizes."""
    layer = nn.TransformerEncoderLayer(96, 4, 384, batch_first=True).cuda().eval()
    with torch.no_grad():
        for width in (12, 3, 40):
            held = torch.randn(width, 10, 96, device="cuda")
            for step in range(20):
                out = layer(held)[:, -1:]
                order = torch.arange(width, device="cuda").flip(0)
                held = torch.cat((held, out), dim=1).index_select(0, order)
                if step % 6 == 5:
                    kept.append(held[:2].clone())
                    held = held[:, 5:].contiguous()
                if step % 10 == 9:
                    scratch = [block((step + width) * MIB + 5), block(101 * MIB), block((step * 3 + width) * MIB)]
                    del scratch[1]
            kept.append(scratch.pop())
    kept.append(layer)


def chat():
    """A language model that answers. Prompts of different lengths fill caches that grow by torch.cat; then comes one
    cache of a fixed length, written in place, whose steps are a captured graph. Half precision."""
    heads, width, layers, limit = 4, 32, 3, 96
    size = heads * width
    model = nn.ModuleDict({
        "tokens": nn.Embedding(2000, size), "head": nn.Linear(size, 2000, bias=False),
        "layers": nn.ModuleList(nn.ModuleDict({"norm": nn.LayerNorm(size), "mix": nn.Linear(size, 3 * size),
                                               "out": nn.Linear(size, size)}) for _ in range(layers))}).cuda().half()

    def answer(tokens, remember, mask=None):
        hidden = model["tokens"](tokens)
        for number, layer in enumerate(model["layers"]):
            parts = layer["mix"](layer["norm"](hidden)).unflatten(-1, (3, heads, width)).permute(2, 0, 3, 1, 4)
            keys, values = remember(number, parts[1], parts[2])
            mixed = nn.functional.scaled_dot_product_attention(parts[0], keys, values, attn_mask=mask)
            hidden = hidden + layer["out"](mixed.transpose(1, 2).flatten(2))
        return model["head"](hidden[:, -1])

    def choose(logits):
        best, where = (logits.float() / 0.7).topk(50)
        return where.gather(1, best.softmax(-1).argmax(-1, keepdim=True))

    with torch.inference_mode():
        for batch, prompt, more in ((3, 17, 12), (1, 70, 25), (8, 5, 9)):
            grown = {}

            def append(number, keys, values):
                if number in grown:
                    keys, values = (torch.cat((old, new), 2) for old, new in zip(grown[number], (keys, values)))
                grown[number] = keys, values
                return grown[number]

            token = choose(answer(torch.randint(0, 2000, (batch, prompt), device="cuda"), append))
            for _ in range(more):
                token = choose(answer(token, append))
        kept.append(grown)
    with torch.no_grad():
        fixed = [torch.zeros(2, 4, heads, limit, width, device="cuda", dtype=torch.half) for _ in range(layers)]
        place, token = torch.zeros(1, dtype=torch.long, device="cuda"), torch.zeros(4, 1, dtype=torch.long, device="cuda")

        def write(number, keys, values):
            fixed[number][0].index_copy_(2, place, keys)
            fixed[number][1].index_copy_(2, place, values)
            return fixed[number]

        def step():
            mask = (torch.arange(limit, device="cuda") <= place).expand(4, 1, 1, limit)
            token.copy_(choose(answer(token, write, mask)))
            place.add_(1)

        with torch.cuda.stream(torch.cuda.Stream()):
            step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        said = []
        for _ in range(20):
            graph.replay()
            said.append(token.clone())
        kept.extend([fixed, graph, token, place, torch.cat(said, 1)])
    kept.append(model)


def actor_and_critic():
    """Two networks, each with an optimizer and on its own device. Episodes wait in pinned memory, a target follows the
    critic, and advantages go from one device to the other."""
    actor = nn.Sequential(nn.Linear(24, 300), nn.Tanh(), nn.Linear(300, 6)).cuda(0)
    critic = nn.Sequential(nn.Linear(24, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).cuda(1)
    target = nn.Sequential(nn.Linear(24, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).cuda(1)
    target.load_state_dict(critic.state_dict())
    by_actor = torch.optim.Adam(actor.parameters(), lr=1e-3, amsgrad=True)
    by_critic = torch.optim.RMSprop(critic.parameters(), momentum=0.9, centered=True)
    dice, memory = random.Random(2), []
    for game in range(8):
        length = dice.randrange(20, 400)
        with torch.no_grad():
            seen, done = torch.randn(length, 24, device="cuda:0"), []
            for begin in range(0, length, 64):
                done.append(actor(seen[begin:begin + 64]).softmax(-1).argmax(-1))
        there = [torch.empty(part.shape, dtype=part.dtype, pin_memory=True) for part in (seen, torch.cat(done))]
        for part, to in zip((seen, torch.cat(done)), there):
            to.copy_(part, non_blocking=True)
        memory.append((*there, torch.rand(length)))
        memory = memory[-5:]
        torch.cuda.synchronize(0)
        for states, actions, rewards in dice.sample(memory, min(3, len(memory))):
            on_critic = states.to("cuda:1", non_blocking=True)
            with torch.no_grad():
                wanted = rewards.to("cuda:1").unsqueeze(1) + 0.99 * target(on_critic).roll(-1, 0)
            value = critic(on_critic)
            nn.functional.smooth_l1_loss(value, wanted).backward()
            by_critic.step()
            by_critic.zero_grad()
            advantage = (wanted - value.detach()).to("cuda:0").squeeze(1)
            logs = actor(states.to("cuda:0", non_blocking=True)).log_softmax(-1)
            chosen = logs.gather(1, actions.to("cuda:0").unsqueeze(1)).squeeze(1)
            (-(chosen * advantage).mean() + 0.01 * (logs.exp() * logs).sum(-1).mean()).backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            by_actor.step()
            by_actor.zero_grad(set_to_none=False)
            with torch.no_grad():
                torch._foreach_lerp_(list(target.parameters()), list(critic.parameters()), 0.01)
    kept.extend([actor, critic, target, by_actor, by_critic, value])


def resumed():
    """A training that is saved and resumed: through a thread's pinned copies, from a file onto the device, by mmap, and
    in place of the existing parameters."""
    def make():
        model = nn.ModuleDict({"tokens": nn.Embedding(3000, 80), "body": nn.GRU(80, 80, 2, batch_first=True),
                               "head": nn.Linear(80, 3000, bias=False)})
        model["head"].weight = model["tokens"].weight
        return model

    def train(model, optimizer, steps):
        for step in range(steps):
            tokens = torch.randint(0, 3000, (5 + step, 19), device="cuda")
            out = model["head"](model["body"](model["tokens"](tokens))[0])
            nn.functional.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()

    def staged(value):
        if isinstance(value, torch.Tensor) and value.is_cuda:
            return torch.empty(value.shape, dtype=value.dtype, pin_memory=True).copy_(value, non_blocking=True)
        if isinstance(value, dict):
            return {key: staged(each) for key, each in value.items()}
        return [staged(each) for each in value] if isinstance(value, list) else value

    def save(state, stream, file):
        with torch.cuda.stream(stream):
            pinned = staged(state)
        stream.synchronize()
        torch.save(pinned, file)

    model = make().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    train(model, optimizer, 3)
    with tempfile.NamedTemporaryFile(suffix=".pt") as file, concurrent.futures.ThreadPoolExecutor(1) as saver:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        copies = {key: value.clone() for key, value in state["model"].items()}
        done = saver.submit(save, {**state, "model": copies}, torch.cuda.Stream(), file.name)
        del copies, state
        train(model, optimizer, 2)
        done.result()
        del done, model, optimizer
        for options in ({"map_location": "cuda"}, {"map_location": "cpu", "mmap": True}):
            found = torch.load(file.name, weights_only=True, **options)
            model = make().cuda() if options.get("mmap") else make()
            model.load_state_dict(found["model"], assign=not options.get("mmap"))
            model["head"].weight = model["tokens"].weight
            optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
            optimizer.load_state_dict(found["optimizer"])
            del found
            train(model, optimizer, 2)
    held = io.BytesIO()
    torch.save(model, held)
    held.seek(0)
    kept.append(torch.load(held, weights_only=False))
    del model
    kept.append(optimizer.state_dict())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
