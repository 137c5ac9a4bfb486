#!/usr/bin/env python3
"""Programs that call a function work() again and again, in many ways: calls.py [WHAT...] [--steps N]

A line for each has its name, its process and the number of outermost calls of work() that allocated.
"""

import asyncio
import contextlib
import functools
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import forked

net = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(net.parameters())
kept = []


def plain_loop(steps, _):
    def work():
        inputs = torch.randn(8, 12)
        return net(inputs).sum().item()

    for _ in range(steps):
        work()
    return steps


def of_a_module(steps, _):
    """A script whose loop is in no function, with several allocating instructions."""
    exec(compile("def work():\n    x = torch.randn(300)\n    y = x * 2\n    kept.append(y)\n"
                 "for number in range(steps):\n    work()\n", "script.py", "exec"),
         {"torch": torch, "kept": kept, "steps": steps})
    return steps


def one_allocation(steps, _):
    """The shortest: a script's loop with one allocating instruction."""
    exec(compile("def work():\n    kept.append(torch.empty(300))\nfor number in range(steps):\n    work()\n",
                 "script.py", "exec"), {"torch": torch, "kept": kept, "steps": steps})
    return steps


def one_allocation_inside(steps, _):
    def work():
        kept.append(torch.empty(300))

    for _ in range(steps):
        work()
    return steps


def a_loop_inside(steps, _):
    """Each call allocates in a loop, so that it returns to the same place."""
    def work(rows):
        for row in rows:
            kept[:] = [torch.empty(100), torch.empty(200)]

    for _ in range(steps):
        work(range(5))
    return steps


def while_true(steps, _):
    """Nothing in the caller changes."""
    class Trainer:
        left = steps

        def work(self):
            inputs = torch.randn(8, 12)
            loss = net(inputs).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.left -= 1

    def run(trainer):
        while trainer.left:
            trainer.work()

    run(Trainer())
    return steps


def from_two_places(steps, _):
    def work(size):
        return torch.empty(size)

    for _ in range(steps // 2):
        work(10)
        work(20)
    return steps // 2 * 2


def recursion(steps, _):
    def work(depth):
        inputs = torch.randn(8, 12)
        return net(inputs).sum().item() + (work(depth - 1) if depth else 0)

    for number in range(steps):
        work(number % 4)
    return steps


def some_without(steps, _):
    """One of three calls returns without an allocation."""
    def work(number):
        if number % 3 == 0:
            return None
        return torch.empty(number + 1) + 1

    for number in range(steps):
        work(number)
    return steps - (steps + 2) // 3


def a_generator(steps, _):
    """Each allocates several times, and pauses in between."""
    def work():
        for _ in range(3):
            yield torch.empty(50)

    def consume():
        for _ in range(steps):
            for value in work():
                del value

    consume()
    return steps


def interleaved(steps, _):
    def work():
        first = torch.empty(10)
        yield first
        second = torch.empty(20)
        yield second

    for _ in range(steps // 2):
        one, other = work(), work()
        for _ in range(2):
            next(one), next(other)
    return steps // 2 * 2


def coroutines(steps, _):
    async def work(number):
        first = torch.empty(number + 1)
        await asyncio.sleep(0)
        return first + torch.empty(number + 1)

    async def main():
        for number in range(steps // 4):
            await asyncio.gather(*(work(number) for _ in range(4)))

    asyncio.run(main())
    return steps // 4 * 4


class Worker:
    def work(self, batch):
        with torch.no_grad():
            return net(batch)


def a_method(steps, _):
    worker = Worker()
    for _ in range(steps):
        worker.work(torch.ones(8, 12))
    return steps


def decorated(steps, _):
    def logged(function):
        @functools.wraps(function)
        def call(*arguments, **named):
            with contextlib.suppress(ValueError):
                return function(*arguments, **named)
        return call

    @logged
    @torch.no_grad()
    def work():
        return net(torch.ones(8, 12))

    for _ in range(steps):
        work()
    return steps


def served(steps, _):
    """Four threads that take requests from a queue."""
    requests = queue.Queue()

    @torch.no_grad()
    def work(request):
        return net(request)

    def serve():
        while True:
            request = requests.get()
            if request is None:
                return
            work(request)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(steps):
        requests.put(torch.ones(8, 12))
    for thread in threads:
        requests.put(None)
    for thread in threads:
        thread.join()
    return steps


def a_pool(steps, _):
    def work(size):
        hidden = torch.empty(size)
        return hidden + 1

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, [64] * steps))
    return steps


def once(steps, _):
    """A single call, which has the loop."""
    def work():
        for _ in range(steps):
            net(torch.randn(8, 12)).sum().backward()

    work()
    return 1


def epochs(steps, _):
    def work(batches):
        for batch in batches:
            optimizer.zero_grad()
            net(batch).sum().backward()
            optimizer.step()

    batches = [torch.randn(8, 12) for _ in range(6)]
    for _ in range(steps // 6):
        work(batches)
    return steps // 6


FUNCTIONS = {function.__name__: function
             for function in (plain_loop, of_a_module, one_allocation, one_allocation_inside, a_loop_inside, while_true,
                              from_two_places, recursion, some_without, a_generator, interleaved, coroutines, a_method,
                              decorated, served, a_pool, once, epochs)}

if __name__ == "__main__":
    forked.main(FUNCTIONS, __doc__)
