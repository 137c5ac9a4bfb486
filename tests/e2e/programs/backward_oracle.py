#!/usr/bin/env python3
"""Runs small trainings and keeps PyTorch's own record of which lines made each node of their graphs (anomaly mode).

    backward_oracle.py ANSWER.json NETWORK...

Tags show which node allocates: after a node has run, a hook allocates an empty tensor whose size is the node's number.
Tags also mark the beginning and end of each backward pass. NETWORK: a function of networks.py here or of
tests/sizebench/models.py.
"""

import ctypes
import json
import pathlib
import re
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "sizebench")]
import models
import networks

TAG_BYTES = 1 << 32  # no tensor of these networks is that large; the memory is not touched
MODULE_CODE, MODULE_NAME = 15, 16  # their places in struct memprof_api_v1
BEGIN, END, FAILED, FIRST_NODE = 1, 2, 3, 16
nodes = []
network = None


def tag(number):
    torch.empty(TAG_BYTES + number, dtype=torch.uint8)


def trace_of(node):
    """A node's trace without the frames that take it: [[file, line, function]], innermost first."""
    lines = [re.match(r' *File "(.*)", line (\d+), in (.*)', text) for text in node.metadata.get("traceback_") or []]
    frames = [[line[1], int(line[2]), line[3]] for line in reversed(lines)]
    while frames and frames[0][0].endswith("fx/traceback.py"):
        del frames[0]
    return frames


def watch(roots):
    found, todo = set(), [root.grad_fn for root in roots if root.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node is None or node in found:
            continue
        found.add(node)
        todo.extend(following for following, _ in node.next_functions)
        number = FIRST_NODE + len(nodes)
        parent = node.metadata.get("parent_")  # the node that ran when this one was made
        nodes.append({"network": network, "name": node.name(), "trace": trace_of(node),
                      "module": node.metadata.get("module"),
                      "parent": parent.metadata.get("number") if parent is not None else None})
        node.metadata["number"] = number
        node.register_hook(lambda *_, number=number: tag(number))


def name_modules():
    """Reports modules to the recorder as the PyTorch shim does, and notes for each node the module that made it."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "memprof_api_v1"):
        return
    library.memprof_api_v1.restype = ctypes.c_void_p
    table = library.memprof_api_v1()
    code, name = (ctypes.PYFUNCTYPE(None, ctypes.c_void_p, *rest)(ctypes.c_void_p.from_address(table + 8 * place).value)
                  for place, rest in ((MODULE_CODE, ()), (MODULE_NAME, (ctypes.c_char_p,))))
    call = getattr(torch.nn.Module, "_wrapped_call_impl", torch.nn.Module._call_impl)
    code(id(call.__code__))
    paths = {}

    def enter(module, _):
        if module not in paths:
            for path, inner in module.named_modules():
                paths[inner] = path
                name(id(inner), f"{type(module).__name__}.{path}".rstrip(".").encode())

    def leave(module, _, output):
        if torch.is_tensor(output) and output.grad_fn is not None:
            output.grad_fn.metadata.setdefault("module", paths[module])

    torch.nn.modules.module.register_module_forward_pre_hook(enter)
    torch.nn.modules.module.register_module_forward_hook(leave)


def watched(function):
    def run(tensors, *arguments, **options):
        watch([tensors] if torch.is_tensor(tensors) else tensors)
        tag(BEGIN)
        try:
            result = function(tensors, *arguments, **options)
        except Exception:
            tag(FAILED)
            raise
        tag(END)
        return result
    return run


def main():
    global network
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    torch.autograd.backward = watched(torch.autograd.backward)
    torch.autograd.grad = watched(torch.autograd.grad)
    name_modules()
    answer, *names = sys.argv[1:]
    for network in names:
        if hasattr(networks, network):
            getattr(networks, network)()
        else:
            getattr(models, network)(4, 2, 16)
    pathlib.Path(answer).write_text(json.dumps({"tag_bytes": TAG_BYTES, "first_node": FIRST_NODE, "nodes": nodes}))


if __name__ == "__main__":
    main()
