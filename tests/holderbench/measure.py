#!/usr/bin/env python3
"""Time and memory of a look among 10⁴, 10⁵ and 10⁶ Python objects and 10⁵ nodes of graphs, each in its own process. For
comparison, objgraph looks for one tensor (find_backref_chain; Debian: python3-objgraph). Milliseconds of the thread's
own time, and by the clock.

    measure.py [OBJECTS...]
"""
import gc
import os
import resource
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
SECONDS = 60  # of the rival


class Node:
    def __init__(self, value):
        self.value = value


class TooLong(Exception):
    pass


def too_long(number, frame):
    raise TooLong


def chain_to_module(start):
    """Seconds of objgraph's own find_backref_chain; None after SECONDS."""
    import objgraph

    begun = time.thread_time()
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    try:
        chain = objgraph.find_backref_chain(start, objgraph.is_proper_module)
    except TooLong:
        return None
    signal.alarm(0)
    return time.thread_time() - begun if len(chain) > 1 else None


def main():
    import torch
    from libmemprof_torch import holders, holders_graphs

    objects, nodes = int(sys.argv[2]), int(sys.argv[3])
    here = sys.modules["__main__"]
    here.filler = [Node([number]) for number in range(objects // 2)]
    here.trainer = Node([torch.zeros(10) for _ in range(1000)])
    here.losses = []
    weight = torch.ones(3, requires_grad=True)
    for _ in range(nodes // 100):
        value = weight
        for _ in range(50):
            value = (value * 1.5).tanh()
        here.losses.append(value.sum())
    value = None
    gc.collect()
    saved = holders_graphs.SavedHooks(torch)
    rows = []
    for budget, wanted in ((200_000_000, None), (60_000_000_000, None)):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        look = holders.Look(torch, wanted, budget, saved)
        begun = time.thread_time()
        found = look.run()
        own = time.thread_time() - begun
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        named = sum(len(each.addresses) for each in found if each.kind != "unknown")
        rows.append(f"{own * 1000:.0f} ms ({look.seconds * 1000:.0f} by the clock), {more / 1024:.0f} MiB, {named} named"
                    f"{'' if look.complete else ', not all looked at'}")
    took = chain_to_module(here.trainer.value[500])
    print(f"| {len(gc.get_objects())} objects, {nodes} nodes | {rows[0]} | {rows[1]} | "
          f"{f'{took * 1000:.0f} ms for one tensor' if took else f'none in {SECONDS} s'} |")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "alone":
        main()
    else:
        print("| program | 200 ms | no limit | objgraph |\n|---|---|---|---|", flush=True)
        for objects, nodes in ((10_000, 0), (100_000, 0), (1_000_000, 0), (10_000, 100_000)):
            subprocess.run([sys.executable, __file__, "alone", str(objects), str(nodes)], check=True)
