"""Whole programs in their users' style, `daily.py NAME`: servers, trainers, and others that reload or shrink.
Each leaves live blocks at its end, in `kept`."""
import collections
import concurrent.futures
import contextlib
import gc
import logging
import queue
import sys
import threading

import torch
import torch.nn.functional as F
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("daily")
MIB = 1 << 20
kept = []
torch.backends.cudnn.enabled = False
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Transformer(nn.Module):
    def __init__(self, words=1500, width=192, heads=6, layers=3, length=128):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


# ---------------------------------------------------------------------------------------------------------------------

class Engine:
    """A model with a captured graph for each batch size, on its own stream."""

    def __init__(self, model, sizes, length):
        self.model, self.stream = model.half().eval(), torch.cuda.Stream()
        self.pool, self.graphs = torch.cuda.graph_pool_handle(), {}
        self.lock = threading.Lock()
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            for size in sorted(sizes, reverse=True):
                tokens = torch.zeros(size, length, dtype=torch.long, device="cuda")
                for _ in range(2):
                    self.model(tokens)
                self.stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                # Other threads serve, and allocate, while this thread captures.
                with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                    logits = self.model(tokens)[:, -1].float().topk(5)
                self.graphs[size] = graph, tokens, logits

    @torch.inference_mode()
    def __call__(self, tokens):
        size = min((size for size in self.graphs if size >= len(tokens)), default=None)
        with self.lock, torch.cuda.stream(self.stream):
            if size is None:  # larger than any graph
                return self.model(tokens.to("cuda", non_blocking=True))[:, -1].float().topk(5).values.cpu()
            graph, inputs, outputs = self.graphs[size]
            inputs[:len(tokens)].copy_(tokens, non_blocking=True)
            graph.replay()
            answer = outputs.values[:len(tokens)].clone()
            host = torch.empty(answer.shape, pin_memory=True)
            host.copy_(answer, non_blocking=True)
            self.stream.synchronize()
            return host


def server():
    """An inference server: threads serve batches by graphs. Meanwhile a second model is loaded and captured, takes
    over, and the first is dropped."""
    engines = {"live": Engine(Transformer().cuda(), (1, 4, 16), 48)}
    requests, answers = queue.Queue(), queue.Queue()

    def serve():
        while True:
            request = requests.get()
            if request is None:
                return
            answers.put(engines["live"](request))

    def batches(count, largest):
        for number in range(count):
            requests.put(torch.randint(0, 1500, (number * 5 % largest + 1, 48)).pin_memory())

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    batches(40, 20)
    following = Engine(Transformer(layers=5).cuda(), (2, 8, 24), 48)
    batches(20, 30)
    engines["live"] = following
    batches(40, 30)
    for _ in threads:
        requests.put(None)
    for thread in threads:
        thread.join()
    gc.collect()
    torch.cuda.empty_cache()
    log.info("%d answers", answers.qsize())
    kept.extend([engines, torch.zeros(3 * MIB, device="cuda")])


def taken_over():
    """Segments that the default pool returns are given to a graph. At the end the graph returns them, and later
    requests would fit."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        early = [torch.ones(60_000, device="cuda") for _ in range(30)], torch.ones(3 * MIB, device="cuda")
        del early
        side.synchronize()
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            inside = [torch.ones(60_000, device="cuda") for _ in range(30)], torch.ones(3 * MIB, device="cuda")
    graph.replay()
    torch.cuda.synchronize()
    del inside
    graph.reset()
    torch.cuda.empty_cache()
    kept.append(torch.zeros(8 * MIB, device="cuda"))


# ---------------------------------------------------------------------------------------------------------------------

def trainer():
    """A training under a share of the device. It finds its micro-batch by running out of memory: in forward, in
    backward and in the optimizer's first step. It uses mixed precision, accumulates and clips gradients, validates,
    and keeps checkpoints."""
    torch.cuda.set_per_process_memory_fraction(0.35)
    model = Transformer(layers=4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
    scaler, micro, failures = torch.amp.GradScaler("cuda"), 256, 0
    best = None
    for step in range(6):
        tokens = torch.randint(0, 1500, (64, 100 - 7 * step), device="cuda")
        while True:
            out = loss = None
            try:
                for part in tokens.split(micro):
                    with torch.autocast("cuda", torch.float16):
                        out = model(part[:, :-1])
                        loss = F.cross_entropy(out.flatten(0, 1).float(), part[:, 1:].flatten())
                    scaler.scale(loss * len(part) / len(tokens)).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                break
            except torch.cuda.OutOfMemoryError as error:
                failures += 1
                micro //= 2
                log.info("step %d: %s; now %d", step, str(error).split(".")[0], micro)
                scaler = torch.amp.GradScaler("cuda")
            finally:
                optimizer.zero_grad(set_to_none=True)
            out = loss = None
            gc.collect()
            torch.cuda.empty_cache()
        if step % 2:
            with torch.inference_mode():
                for _ in range(3):
                    held = model(torch.randint(0, 1500, (5, 127), device="cuda")).log_softmax(-1).sum((1, 2))
            best = {name: value.cpu() for name, value in model.state_dict().items()}
            kept.append(held)
    assert failures > 1, "memory never ran out"
    kept.extend([model, optimizer, best])


# ---------------------------------------------------------------------------------------------------------------------

def sleeping():
    """A rollout engine between two trainings of reinforcement learning: its weights go to pinned memory, its cache's
    storages are emptied, the training uses the device, and all returns. Uses pools and expandable segments."""
    weights_pool, training = torch.cuda.MemPool(), Transformer(layers=2).cuda()
    with torch.cuda.use_mem_pool(weights_pool):
        weights = [torch.randn(900 + 70 * number, 512, device="cuda") for number in range(9)]
    cache = [torch.zeros(2, 64, 8, 700, device="cuda") for _ in range(6)]
    sizes = [part.untyped_storage().size() for part in cache]
    optimizer, side = torch.optim.Adam(training.parameters(), fused=True), torch.cuda.Stream()
    for turn in range(4):
        # generate
        for step in range(10):
            with torch.no_grad(), torch.cuda.stream(side if step % 3 == 0 else torch.cuda.current_stream()):
                hidden = torch.randn(64, 512, device="cuda")
                for weight in weights:
                    hidden = (hidden @ weight.t())[:, :512].relu() if weight.shape[0] >= 512 else hidden
                cache[step % 6][0, :, :, step].copy_(hidden[:, :8])
        # sleep
        torch.cuda.synchronize()
        host = [torch.empty(weight.shape, pin_memory=True).copy_(weight, non_blocking=True) for weight in weights]
        torch.cuda.synchronize()
        weights.clear()
        del weight, hidden
        for part in cache:
            part.untyped_storage().resize_(0)
        torch.cuda.empty_cache()
        # train
        for _ in range(2):
            tokens = torch.randint(0, 1500, (6 + turn, 90), device="cuda")
            F.cross_entropy(training(tokens).flatten(0, 1), tokens.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad()
        del tokens
        # wake
        torch.cuda.empty_cache()
        with torch.cuda.use_mem_pool(weights_pool):
            weights.extend(part.to("cuda", non_blocking=True) for part in host)
        for part, size in zip(cache, sizes):
            part.untyped_storage().resize_(size)
    kept.extend([weights_pool, weights, cache, training, optimizer])


# ---------------------------------------------------------------------------------------------------------------------

def workers():
    """Two devices with two threads each, with a share of each device and their own streams. Blocks are passed between
    devices and threads and averaged by hand; after an out-of-memory the oldest is evicted."""
    for device in range(2):
        torch.cuda.set_per_process_memory_fraction(0.8 - 0.2 * device, device)
    exchange = [queue.Queue(), queue.Queue()]
    evicted = collections.Counter()
    turns, barrier = threading.Semaphore(1), threading.Barrier(4)

    def work(device, number):
        torch.cuda.set_device(device)
        stream, cached = torch.cuda.Stream(priority=-number), collections.OrderedDict()

        def evicting(make):
            while True:
                try:
                    return make()
                except torch.cuda.OutOfMemoryError:
                    evicted[device] += 1
                    if not cached:
                        return None
                    cached.popitem(last=False)

        with torch.cuda.stream(stream):
            mine = torch.randn(600 + 100 * number, 700, device="cuda")
            barrier.wait()  # all have theirs
            for turn in range(30):
                with turns:
                    size = ((turn * 13 + number * 7) % 23 + 1) * MIB // 2 + turn * 513
                    cached[turn] = evicting(lambda: torch.empty(size, dtype=torch.uint8, device="cuda"))
                    if turn % 4 == 0:
                        exchange[1 - device].put((evicting(lambda: mine * 0.5), stream.record_event()))
                    with contextlib.suppress(queue.Empty):
                        theirs, event = exchange[device].get_nowait()
                        stream.wait_event(event)
                        local = evicting(lambda: theirs.to(f"cuda:{device}", non_blocking=True))
                        if local is not None:
                            rows = min(len(local), len(mine))
                            mine[:rows] += local[:rows]
                        del theirs, local
            kept.append((mine, list(cached.values())[-3:]))
        return number

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        done = [threads.submit(work, device, number) for device in range(2) for number in range(2)]
        assert sorted(future.result() for future in done) == [0, 0, 1, 1]
    del done
    assert evicted[0] or evicted[1], "memory never ran out"
    for device in range(2):
        torch.cuda.synchronize(device)


# ---------------------------------------------------------------------------------------------------------------------

def trees():
    """torch.compile's graph trees, training and inference, batches of several sizes, results kept over calls."""
    model = nn.Sequential(nn.Linear(300, 500), nn.SiLU(), nn.Linear(500, 300)).cuda()
    head = nn.Linear(300, 12).cuda()
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)
    body = torch.compile(model, backend="cudagraphs", dynamic=False)
    second = torch.compile(head, backend="cudagraphs", dynamic=False)
    for size in (32, 32, 32, 20, 20, 20, 32):
        torch.compiler.cudagraph_mark_step_begin()
        loss = second(body(torch.randn(size, 300, device="cuda"))).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    with torch.no_grad():
        for turn in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            out = body(torch.randn(48, 300, device="cuda"))
            kept.append(out.clone())
            kept.append(second(out).clone())
    kept.extend([model, head, optimizer])


# ---------------------------------------------------------------------------------------------------------------------

def notebook():
    """A notebook's afternoon: models made again in one cell, an exception whose traceback keeps a failed model, the
    cache emptied by hand between cells, and a GAN at the end."""
    results = {}

    def cell(name, make, fail=False):
        torch.cuda.synchronize()
        model = make().cuda()
        optimizer = torch.optim.NAdam(model.parameters())
        for size in (10, 40, 25):
            x = torch.randn(size, 3, 40, 40, device="cuda", requires_grad=True)
            y = model(x)
            if fail and size == 40:
                raise ValueError("a shape that nobody checked")
            gradient, = torch.autograd.grad(y.sum(), x, create_graph=True)
            (y.square().mean() + gradient.flatten(1).norm(2, 1).sub(1).square().mean()).backward()
            optimizer.step()
            optimizer.zero_grad()
        results[name] = y.detach(), [parameter.detach().flatten() for parameter in model.parameters()]

    def small(width=16):
        return nn.Sequential(nn.Conv2d(3, width, 3), nn.Softplus(), nn.Conv2d(width, width, 3, stride=2), nn.Softplus(),
                             nn.Flatten(), nn.LazyLinear(5))

    def last():
        try:
            cell("third", lambda: small(40), fail=True)
        except ValueError as error:
            return error

    for _ in range(2):
        cell("first", small)
    cell("second", lambda: small(70))
    error = last()
    cell("fourth", lambda: small(24))
    torch.cuda.empty_cache()
    del error
    gc.collect()
    torch.cuda.empty_cache()
    generator = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 784)).cuda()
    critic = nn.Sequential(nn.Linear(784, 200), nn.LeakyReLU(0.2), nn.Linear(200, 1)).cuda()
    optimizers = [torch.optim.RMSprop(net.parameters(), centered=True, momentum=0.5) for net in (generator, critic)]
    for step in range(6):
        fake = generator(torch.randn(100, 20, device="cuda"))
        if step % 3:
            (critic(fake.detach()).mean() - critic(torch.randn(100, 784, device="cuda")).mean()).backward()
            optimizers[1].step()
        else:
            critic(fake).mean().neg().backward()
            optimizers[0].step()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=step % 2 == 0)
    kept.extend([results, generator, critic, optimizers, fake])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
