#!/usr/bin/env python3
"""Calls of work() in a Python without torch: calls_of_any_python.py WHAT STEPS. Prints how many calls allocated."""

import asyncio
import ctypes
import queue
import sys
import threading

table = ctypes.CDLL(None).memprof_api_v1
table.restype = ctypes.c_void_p
WORD = ctypes.sizeof(ctypes.c_void_p)


def entry(place, result, *arguments):
    address = ctypes.c_void_p.from_address(table() + place * WORD).value
    return ctypes.PYFUNCTYPE(result, *arguments)(address)


NAMES = ["active", "start", "stop", "step", "region_push", "region_pop", "mark", "pool", "alloc", "free"]
make_pool = entry(1 + NAMES.index("pool"), ctypes.c_uint32, ctypes.c_char_p, ctypes.c_int)
tell_alloc = entry(1 + NAMES.index("alloc"), None, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
tell_free = entry(1 + NAMES.index("free"), None, ctypes.c_uint32, ctypes.c_void_p)
pool = make_pool(b"things", -1)
number = 0
lock = threading.Lock()


class Block:
    def __init__(self, size):
        global number
        with lock:
            number += 1
            self.address = number << 12
        tell_alloc(pool, self.address, size)

    def __del__(self):
        tell_free(pool, self.address)


def rising(steps):
    kept = []

    def work(size):
        kept.append(Block(size))
        Block(100000)

    for number in range(steps):
        work(1000 + 64 * number)
    return steps


def changing(steps):
    kept = []

    def work(size):
        kept.append(Block(size))
        Block(100000)

    for number in range(steps):
        work(1000 + number * number)
    return steps


def of_a_module(steps):
    exec(compile("def work():\n    x = Block(100)\n    y = Block(200)\nfor number in range(steps):\n    work()\n", "s.py",
                 "exec"), {"Block": Block, "steps": steps})
    return steps


def one_allocation(steps):
    def work():
        Block(100)

    for _ in range(steps):
        work()
    return steps


def a_loop_inside(steps):
    def work():
        for size in (100, 200, 300):
            Block(size)

    for _ in range(steps):
        work()
    return steps


def while_true(steps):
    class Trainer:
        left = steps

        def work(self):
            self.batch = Block(100)
            self.result = Block(200)
            self.left -= 1

    def run(trainer):
        while trainer.left:
            trainer.work()

    run(Trainer())
    return steps


def recursion(steps):
    def work(depth):
        Block(100 + depth)
        if depth:
            work(depth - 1)

    for number in range(steps):
        work(number % 3)
    return steps


def coroutines(steps):
    async def work():
        first = Block(100)
        await asyncio.sleep(0)
        return first, Block(200)

    async def main():
        for _ in range(steps // 4):
            await asyncio.gather(*(work() for _ in range(4)))

    asyncio.run(main())
    return steps // 4 * 4


def served(steps):
    requests = queue.Queue()

    def work(request):
        Block(request)

    def serve():
        while True:
            request = requests.get()
            if not request:
                return
            work(request)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for size in range(steps):
        requests.put(1000 + size)
    for thread in threads:
        requests.put(None)
    for thread in threads:
        thread.join()
    return steps


print(globals()[sys.argv[1]](int(sys.argv[2])))
