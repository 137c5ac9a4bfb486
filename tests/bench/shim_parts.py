"""Cost of each part of the PyTorch shim, in one run under the recorder: each call with the shim's function and with
PyTorch's own, by turns. For tools/bench.

    shim_parts.py COUNT

Prints nanoseconds of processor time: medians of many small rounds.
"""

import array
import json
import statistics
import sys
import time

import torch
from torch import nn

import libmemprof_torch

ROUNDS = 21
PARAMETERS = 200


def each(work, count):
    begun = time.thread_time_ns()
    for _ in range(count):
        work()
    return (time.thread_time_ns() - begun) / count


def difference(with_, without, count):
    """Cost of one call: medians over rounds that follow each other."""
    return statistics.median(each(with_, count) - each(without, count) for _ in range(ROUNDS))


def region(record_function, enter, leave):
    def work():
        one = record_function("part")
        enter(one)
        leave(one, None, None, None)
    return work


def main():
    count = int(sys.argv[1])
    answer = {}

    whole, bare = nn.Module.__init__, nn.Module.__init__.__wrapped__
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(PARAMETERS // 2)))

    def make():
        nn.Identity()

    def without():
        nn.Module.__init__ = bare
        try:
            return each(make, count)
        finally:
            nn.Module.__init__ = whole

    answer["module_ns"] = statistics.median(each(make, count) - without() for _ in range(ROUNDS))

    record_function = torch.profiler.record_function
    enter, leave = record_function.__enter__, record_function.__exit__
    answer["region_ns"] = difference(region(record_function, enter, leave),
                                     region(record_function, enter.__wrapped__, leave.__wrapped__), count)

    names, labels = libmemprof_torch.parts["names"], libmemprof_torch.parts["labels"]
    names.look()
    answer["name_ns"] = statistics.median(name_fresh(names) for _ in range(ROUNDS))

    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()

    def sweep():
        labels._turns.clear()
        labels.after_step(optimizer, names)

    answer["parameter_ns"] = statistics.median(each(sweep, 3) for _ in range(ROUNDS)) / PARAMETERS
    answer["entry_ns"], answer["block_ns"] = read_history()
    print(json.dumps(answer))


def read_history():
    """Cost of an entry and of a block of PyTorch's history as torch 2.10 gives them: rows are made and handed over. The
    cost of torch itself is not in it: that needs a GPU (tools/gpu-test)."""
    from libmemprof_torch import history

    def made_entry(i):
        return {"action": "alloc", "addr": 0x7f0000000000 + 512 * i, "size": 500, "stream": 0, "time_us": 1795189414509429,
                "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0)}

    trace = [made_entry(i) for i in range(4000)]
    segment = {"device": 0, "address": 0x7f0000000000, "total_size": 4000 * 512, "allocated_size": 0, "active_size": 0,
               "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False,
               "blocks": [{"address": 0, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": []}
                          for _ in range(4000)]}
    tell = libmemprof_torch.parts["api"]["torch_history"]

    def hand_over(rows):
        tell(rows.buffer_info()[0], len(rows) // history.NUMBERS)

    def read_entries():
        rows = array.array("Q")
        history._add_trace(rows, 0, trace, 0)
        hand_over(rows)

    def read_blocks():
        rows = array.array("Q")
        history._add_segment(rows, segment)
        hand_over(rows)

    return [statistics.median(each(work, 1) for _ in range(ROUNDS)) / 4000 for work in (read_entries, read_blocks)]


def name_fresh(names):
    """Cost of each module of a new model."""
    fresh = nn.Sequential(*(nn.Identity() for _ in range(999)))
    begun = time.thread_time_ns()
    names.look()
    return (time.thread_time_ns() - begun) / len(list(fresh.modules()))


if __name__ == "__main__":
    main()
