"""Allocates from several kinds of Python functions on two threads: frames.py LIBRARY FILE. LIBRARY (c10.c) has c10's
functions. FILE gets the stack that Python itself gives for each block. The last hundred rounds begin when standard
input has a line."""

import ctypes
import json
import os
import select
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])
take, report = library["_ZN3c109alloc_cpuEm"], library["_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm"]
give = library["_ZN3c108free_cpuEPv"]
take.restype = report.restype = ctypes.c_void_p
take.argtypes = [ctypes.c_size_t]
report.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
give.argtypes = [ctypes.c_void_p]
truth = []


def block(size):
    frame, stack = sys._getframe(1), []
    while frame:
        stack.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    address = take(size)
    truth.append((address, size, stack))
    return report(1, address, size)


def in_list(i):
    return [block(100 + j)
            for j in range(2)]


class Model:
    def __call__(self, i):
        return self.forward(i)

    def forward(self, i):
        return in_list(i)


def generate(count):
    for _ in range(count):
        address = block(500)
        yield address
        give(address)


def deep(depth):
    if depth:
        return deep(depth - 1)
    return sorted([3, 1], key=lambda size: block(900 + size) and size)


def serve():
    model, i, left = Model(), 0, 100
    while left:
        left -= bool(select.select([sys.stdin], [], [], 0)[0])
        i += 1
        for address in model(i):
            give(address)
        for address in generate(2):
            give(block(300))
        deep(i % 40)
        time.sleep(0.02)


print("ready", os.getpid(), flush=True)
other = threading.Thread(target=serve)
other.start()
serve()
other.join()
if os.fork() == 0:
    give(block(7))
    os._exit(0)
os.wait()
with open(sys.argv[2], "w") as file:
    json.dump(truth, file)
