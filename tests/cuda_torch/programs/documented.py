"""Programs after PyTorch's own documents, `documented.py NAME`: examples in its notes on CUDA, tutorials and references
of torch.func and torch.cuda, combined as readers do. Each leaves live blocks at its end, in `kept`."""
import os
import subprocess
import sys
import tempfile
import threading

import torch
from torch import nn
from torch.nn.parallel import parallel_apply, replicate, scatter

MIB = 1 << 20
kept = []
torch.backends.cudnn.enabled = False
torch.manual_seed(0)

# The allocator in the note on MemPool, without NCCL: it allocates a page more than requested.
PADDED = """
#include <stddef.h>
#include <sys/types.h>
int cudaMalloc(void **, size_t);
int cudaFree(void *);
void *padded_alloc(ssize_t bytes, int device, void *stream)
{
    void *address = NULL;
    (void)device, (void)stream;
    return cudaMalloc(&address, (size_t)bytes + 4096) ? NULL : address;
}
void padded_free(void *address, ssize_t bytes, int device, void *stream)
{
    (void)bytes, (void)device, (void)stream;
    cudaFree(address);
}
"""


def fused_step():
    """"How to save memory by fusing the optimizer step into the backward pass", with accumulated norms, hooks on
    modules that keep tensors, and averaged weights."""
    model = nn.Sequential(nn.Embedding(900, 192), *[nn.TransformerEncoderLayer(192, 6, 500, 0.1, batch_first=True)
                                                    for _ in range(3)], nn.Linear(192, 900)).cuda()
    optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in model.parameters()}
    norms, seen = [], {}

    def step(parameter):
        norms.append(parameter.grad.norm())
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for name, module in model.named_children():
        module.register_forward_hook(lambda module, inputs, out, name=name: seen.__setitem__(name, out.detach().amax(1)))
        module.register_full_backward_hook(
            lambda module, inputs, outs, name=name: seen.__setitem__("of " + name, outs[0].float().square().sum()))
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    for number in range(5):
        tokens = torch.randint(0, 900, (6 + number, 40 - 3 * number), device="cuda")
        nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
        if number % 2:
            average.update_parameters(model)
    kept.extend([model, optimizers, average, seen, torch.stack(norms)])


def plugged_pool():
    """Several MemPools: one of a pluggable allocator, one in a thread, one inside another, and tensors that outlive
    theirs. They are examined from inside and outside."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "padded.c"), os.path.join(folder, "padded.so")
        with open(source, "w") as file:
            file.write(PADDED)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "padded_alloc", "padded_free")
    own, plain = torch.cuda.MemPool(allocator.allocator()), torch.cuda.MemPool()
    outside = torch.ones(3 * MIB, device="cuda")
    with torch.cuda.use_mem_pool(own):
        kept.append(torch.randn(1000, 700, device="cuda"))
        passing = [torch.empty(number * 50_000, device="cuda") for number in range(1, 20)]
        with torch.cuda.use_mem_pool(plain):
            kept.append(kept[0].t() @ kept[0])
            torch.cuda.memory_snapshot()
        kept.append(passing[4] + 1)
        del passing
        kept.append(torch.empty(130_000, device="cuda"))

    def work():
        pool = torch.cuda.MemPool()
        with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.use_mem_pool(pool):
            for number in range(12):
                found = torch.arange(number * 30_000, device="cuda").float().cumsum(0)
            kept.append(found)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    kept.append(outside.view(3, -1).sum(0))
    del outside
    torch.cuda.memory_snapshot()
    del plain
    torch.cuda.empty_cache()
    kept.append(torch.empty(5 * MIB, device="cuda"))
    kept[:0] = [allocator, own]  # a list lets go of its last first


def per_sample():
    """Per-sample gradients, ensembles, Jacobians and Hessian products by torch.func. Then a tangent in forward mode, a
    parametrized layer, and checkpointed chunks of vmap."""
    from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap

    def make():
        return nn.Sequential(nn.Linear(60, 130), nn.Tanh(), nn.Linear(130, 9)).cuda()

    model = make()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    inputs, labels = torch.randn(48, 60, device="cuda"), torch.randint(0, 9, (48,), device="cuda")

    def loss(weights, sample, label):
        return nn.functional.cross_entropy(functional_call(model, weights, (sample[None],)), label[None])

    for chunk in (None, 5, 17):
        kept.append(vmap(grad(loss), (None, 0, 0), chunk_size=chunk)(weights, inputs, labels))
        kept.pop(0) if len(kept) > 1 else None
    models = [make() for _ in range(5)]
    stacked, buffers = stack_module_state(models)
    kept.append(vmap(lambda weights, buffers, sample: functional_call(models[0], (weights, buffers), sample),
                     (0, 0, None))(stacked, buffers, inputs))
    del models
    kept.append(vmap(jacrev(lambda sample: functional_call(model, weights, sample)))(inputs))
    kept.append(hessian(lambda scale: functional_call(model, weights, inputs * scale).logsumexp(1).mean())(
        torch.ones(60, device="cuda")))
    kept.append(jvp(lambda value: functional_call(model, weights, value), (inputs,), (torch.ones_like(inputs),)))
    nn.utils.parametrizations.spectral_norm(model[0])
    nn.utils.parametrizations.weight_norm(model[2])
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=3)

    def again():
        optimizer.zero_grad()
        found = nn.functional.cross_entropy(model(inputs), labels)
        found.backward()
        return found

    for _ in range(3):
        optimizer.step(again)
    kept.extend([model, optimizer])


def prefetched():
    """Batches are copied on a second stream, and passed on by an event and record_stream(). Results are copied back on
    a third. record_stream() also gets views and an external stream. Another thread frees the blocks."""
    copying, leaving = torch.cuda.Stream(priority=-1), torch.cuda.Stream()
    outer = torch.cuda.ExternalStream(torch.cuda.Stream().cuda_stream)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 40)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, nesterov=True)
    pinned = [torch.randn(64 + 9 * number, 256).pin_memory() for number in range(14)]
    results, ready = [], None

    def fetch(number):
        with torch.cuda.stream(copying):
            batch = pinned[number].to("cuda", non_blocking=True)
            batch = torch.cat([batch, batch.flip(0)])
            return batch, copying.record_event()

    following = fetch(0)
    for number in range(len(pinned)):
        batch, event = following
        event.wait()
        batch.record_stream(torch.cuda.current_stream())
        if number + 1 < len(pinned):
            following = fetch(number + 1)
        out = model(batch)
        out.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=number % 3 == 0)
        done = torch.cuda.Event(enable_timing=True)
        done.record()
        with torch.cuda.stream(leaving):
            leaving.wait_event(done)
            half = out.detach()[::2]
            half.record_stream(leaving)
            results.append(torch.empty(half.shape, pin_memory=True).copy_(half, non_blocking=True))
        with torch.cuda.stream(outer):
            batch.narrow(0, 0, 10).record_stream(outer)
            ready = batch.sum(1) if number == 7 else ready
        letting_go = threading.Thread(target=lambda held: held.clear(), args=([out, half, batch],))
        del out, half, batch
        letting_go.start()
        letting_go.join()
        if number == 9:
            torch.cuda.synchronize()
    leaving.synchronize()
    kept.extend([model, optimizer, results, ready, following])


def moved_limits():
    """A share of the device that changes, expandable segments, and work that is divided after each out-of-memory. Raw
    memory of the allocator comes in between."""
    total = torch.cuda.get_device_properties(0).total_memory
    weight = torch.randn(2048, 2048, device="cuda")

    def work(rows, depth=0):
        try:
            out = torch.randn(rows, 2048, device="cuda") @ weight
            return out.softmax(1).argmax(1)
        except torch.cuda.OutOfMemoryError as trouble:
            assert "memory" in str(trouble) and depth < 12
        torch.cuda.empty_cache()
        return torch.cat([work(rows // 2, depth + 1), work(rows - rows // 2, depth + 1)])

    for share in (0.25, 0.6, 0.1, 0.9):
        torch.cuda.set_per_process_memory_fraction(share, 0)
        kept.append(work(int(share * total) // 2048 // 3))
        raw = torch.cuda.caching_allocator_alloc(3 * MIB + 17)
        kept.append(torch.empty(int(share * total) // 40, dtype=torch.uint8, device="cuda"))
        torch.cuda.caching_allocator_delete(raw)
    assert torch.cuda.memory_stats()["num_ooms"] > 3
    kept.append(weight)


def replicas():
    """DataParallel's parts by hand on two devices, with hooks on modules and peer copies on the other device's streams;
    channels last; half of it under autocast."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 24, 3, 2), nn.Conv2d(24, 48, 3, 2, groups=4, bias=False)
            self.norm, self.head = nn.BatchNorm2d(48), nn.Linear(48, 11)

        def forward(self, images):
            out = self.norm(self.second(self.first(images).relu())).relu()
            return self.head(nn.functional.adaptive_avg_pool2d(out, 1).flatten(1))

    model = Net().to("cuda:0", memory_format=torch.channels_last)
    saved = {}
    model.norm.register_forward_hook(
        lambda module, inputs, out: saved.setdefault(out.device.index, []).append(out.detach().mean((2, 3))))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cuda")
    side = torch.cuda.Stream(1)
    for number in range(4):
        images = torch.randn(10 + number, 3, 45, 37, device="cuda:0").contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 11, (10 + number,), device="cuda:0")
        parts = scatter((images,), [0, 1])
        copies = replicate(model, [0, 1])
        with torch.autocast("cuda", enabled=number % 2 == 0):
            outs = parallel_apply(copies, parts, devices=[0, 1])
        found = nn.functional.cross_entropy(nn.parallel.gather([out.float() for out in outs], 0), labels)
        scaler.scale(found).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        with torch.cuda.stream(side):
            there = images.to("cuda:1", non_blocking=True)
            there.record_stream(side)
            saved.setdefault("there", []).append(there.amax((2, 3)))
        del images, labels, parts, copies, outs, found, there
    torch.cuda.synchronize(1)
    kept.extend([model, optimizer, saved])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
