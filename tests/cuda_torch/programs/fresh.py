"""Programs as their users write them, `fresh.py NAME`: settings of the allocator, streams, retries, graphs, pools, threads,
two devices. Each leaves something alive at its end, in `kept`."""
import sys
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MIB = 1 << 20
kept = []
torch.backends.cudnn.enabled = False
torch.manual_seed(0)


def block(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)


def retries():
    """Under a limit of its own: what is cached goes, in part by the allocator's own collection, until nothing is left to
    go."""
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
    """Looks for the largest batch by failing, as people do."""
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
    """One graph for each batch size, all in one pool, the largest first; on a stream of their own."""
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
    """Blocks of two pools, used on two streams, freed in another order than made."""
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
    """Threads hand blocks to each other; whoever has no room lets go."""
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
    """A cache of keys and values that grows by a token a step, for requests of other lengths, without gradients."""
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
    """Pinned batches by a DataLoader's thread, the next copied beside the work on this one."""
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
    """Gradients of several parts, clipped, a scheduler, moving averages, a model that is saved and loaded."""
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
    """Around every border of the allocator's classes, each taken twice."""
    borders = [1, 512, MIB, 10 * MIB, 20 * MIB, 32 * MIB]
    for turn in range(2):
        for border in borders:
            for more in (-1, 0, 1, 511, 512, 513):
                if border + more > 0:
                    kept.append(block(border + more))
        del kept[turn::3]
        torch.cuda.synchronize()
    torch.cuda.empty_cache()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
