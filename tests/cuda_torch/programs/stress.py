"""Random blocks on several threads and streams, `stress.py SEED THREADS STEPS [DEVICES]`, with record_stream and
empty_cache. Half of the blocks are freed after an out-of-memory."""
import random
import sys
import threading

import torch

seed, threads, steps, devices = *map(int, sys.argv[1:4]), int(sys.argv[4]) if len(sys.argv) > 4 else 1
live = []


def work(number):
    r = random.Random(1000 * seed + number)
    device = number % devices
    torch.cuda.set_device(device)
    stream, keep = torch.cuda.Stream(), []
    for _ in range(steps):
        what = r.random()
        try:
            if what < 0.45:
                keep.append(torch.empty(int(2 ** r.uniform(4, 26)), dtype=torch.uint8, device="cuda"))
            elif what < 0.6:
                with torch.cuda.stream(stream):
                    keep.append(torch.empty(int(2 ** r.uniform(4, 24)), dtype=torch.uint8, device="cuda"))
            elif what < 0.65 and keep:
                keep[r.randrange(len(keep))].record_stream(stream)
            elif what < 0.995 and keep:
                keep.pop(r.randrange(len(keep)))
            elif what < 0.998:
                torch.cuda.empty_cache()
            else:
                keep = keep[len(keep) // 2:]
        except torch.OutOfMemoryError:
            keep = keep[len(keep) // 2:]
    live.append(keep)


workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
