#!/usr/bin/env python3
"""Programs whose own heap grows by 4 MiB a step or not, in addition to tensors: heaps.py [WHAT...] [--steps N]

A line for each has its name, its process and the bytes of heap that it kept per step.
"""

import mmap
import tempfile
import time
from multiprocessing import shared_memory

import torch

import forked

SIZE = 4 << 20
net = torch.nn.Linear(16, 16)


def work(steps, keep, pause=0.04):
    for number in range(steps):
        inputs = torch.randn(8, 16)
        with torch.no_grad():
            net(inputs)
        keep(number)
        time.sleep(pause)


def bytearrays(steps, _):
    kept = []
    work(steps, lambda number: kept.append(bytearray(b"x" * SIZE)))
    return SIZE


def strings(steps, _):
    kept = {}
    work(steps, lambda number: kept.setdefault(number, "x" * SIZE))
    return SIZE


def lists(steps, _):
    kept = []
    work(steps, lambda number: kept.append([number] * (SIZE // 8)))
    return SIZE


def shared_blocks(steps, _):
    kept = []
    work(steps, lambda number: fill(kept, shared_memory.SharedMemory(create=True, size=SIZE)))
    for each in kept:
        each.unlink()
    return SIZE


def fill(kept, block):
    block.buf[:] = b"x" * SIZE
    kept.append(block)


def shared_files(steps, _):
    """Nobody maps them, and nobody unlinks them while the program works."""
    names = []

    def make(number):
        block = shared_memory.SharedMemory(create=True, size=SIZE)
        block.buf[:] = b"x" * SIZE
        block.close()
        names.append(block.name)
    work(steps, make)
    for name in names:
        shared_memory.SharedMemory(name).unlink()
    return SIZE


def a_file_s_pages(steps, _):
    """The kernel may drop them at any time."""
    with tempfile.TemporaryFile() as file:
        file.truncate(steps * SIZE)
        pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        work(steps, lambda number: sum(pages[number * SIZE:(number + 1) * SIZE:4096]))
    return 0


def a_file_that_grows(steps, _):
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        file.truncate(SIZE)
        pages = mmap.mmap(file.fileno(), 0)

        def extend(number):
            pages.resize((number + 2) * SIZE)
            pages[number * SIZE:(number + 1) * SIZE] = b"x" * SIZE
        work(steps, extend, 0.1)
    return SIZE


def a_file_that_is_filled(steps, _):
    """Its mapping stays as it is."""
    with tempfile.TemporaryFile(dir="/var/tmp") as file:
        file.truncate(steps * SIZE)
        pages = mmap.mmap(file.fileno(), 0)

        def fill_next(number):
            pages[number * SIZE:(number + 1) * SIZE] = b"x" * SIZE
        work(steps, fill_next, 0.1)
    return 0


def a_window(steps, _):
    kept = {}
    work(steps, lambda number: kept.update({number % 8: bytearray(b"x" * SIZE)}))
    return 0


def a_preload(steps, _):
    kept = []
    work(steps, lambda number: kept.append(bytearray(b"x" * SIZE)) if number < steps // 3 else None)
    return 0


FUNCTIONS = {function.__name__: function for function in (bytearrays, strings, lists, shared_blocks, shared_files,
                                                           a_file_s_pages, a_file_that_grows, a_file_that_is_filled,
                                                           a_window, a_preload)}

if __name__ == "__main__":
    forked.main(FUNCTIONS, __doc__)
