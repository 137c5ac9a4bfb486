#!/usr/bin/env python3
"""Memory that the stand-in driver itself takes for what a program loads: cuMemGetInfo() shows it, in this order and
amount."""

import ctypes
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import asserted  # noqa: E402
from asserted import held  # noqa: E402

MIB = 1 << 20
NODE, BLAS, SMS, THREADS, MULTICAST = 100_000, 30 * MIB, 100, 1000, 16 * MIB


def elf_of(kernels):
    """A file as NVIDIA's compilers make it, from {name: (bytes of code, bytes of a thread's stack)}."""
    strings, sections, bodies = b"\0", [], []

    def text(of):
        nonlocal strings
        strings += of.encode() + b"\0"
        return len(strings) - len(of) - 1

    symbols, info = b"\0" * 24, b""
    for number, (name, (code, stack)) in enumerate(kernels.items(), 1):
        sections.append((text(f".text.{name}"), 1, code, 0, 0))
        bodies.append(b"\0" * code)
        symbols += struct.pack("<IBBHQQ", text(name), 2, 0, number, 0, code)
        info += struct.pack("<BBHII", 4, 0x11, 8, number, stack + 64)  # another attribute
        info += struct.pack("<BBHII", 4, 0x12, 8, number, stack)
    strings_at = len(sections) + 3
    for name, kind, body, link in ((".nv.info", 0x70000000, info, 0), (".symtab", 2, symbols, strings_at)):
        sections.append((text(name), kind, len(body), link, 24 if kind == 2 else 0))
        bodies.append(body)
    own = text(".strtab")
    sections.append((own, 3, len(strings), 0, 0))
    bodies.append(strings)
    offset, headers, whole = 64, b"\0" * 64, b""
    for (name, kind, length, link, entry), body in zip(sections, bodies):
        headers += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, length, link, 0, 1, entry)
        padded = body + b"\0" * (-len(body) % 8)
        whole += padded
        offset += len(padded)
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, offset, 0, 64, 0, 0, 64, len(sections) + 1, len(sections))
    return header + whole + headers


class Driver:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        held(not result, f"{name}() answered {result}")

    def used(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return total.value - free.value

    def kernel_of(self, image):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"any")
        return function

    def launch(self, kernel, stream=None):
        self.call("cuLaunchKernel", kernel, 1, 1, 1, 32, 1, 1, 0, stream, None, None)


def taken(driver, act):
    before = driver.used()
    act()
    return driver.used() - before


def graph_of(driver, kernel, launches):
    stream, graph, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
    driver.call("cuStreamBeginCapture_v2", stream, 0)
    for _ in range(launches):
        driver.launch(kernel, stream)
    held(not driver.library.softgpu_cublas_launch(stream))
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    return executable


class Property(ctypes.Structure):
    """CUmemAllocationProp with the members that are read: pinned memory of device 0."""
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("place", ctypes.c_int), ("device", ctypes.c_int),
                ("rest", ctypes.c_byte * 64)]


def memory_of_several(driver):
    """Memory behind a descriptor that may be sent to another process, and a multicast object over it."""
    supported, recommended, least = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuDeviceGetAttribute", ctypes.byref(supported), 132, 0)
    driver.call("cuMulticastGetGranularity", ctypes.byref(recommended), None, 1)
    driver.call("cuMulticastGetGranularity", ctypes.byref(least), None, 0)
    held((supported.value, recommended.value, least.value) == (1, MULTICAST, 2 * MIB), "granularities")
    own, theirs, descriptor = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int()
    driver.call("cuMemCreate", ctypes.byref(own), ctypes.c_size_t(MULTICAST), ctypes.byref(Property(1, 1, 1, 0)),
                ctypes.c_uint64(0))
    driver.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), own, 1, ctypes.c_uint64(0))
    os.fstat(descriptor.value)
    before = driver.used()
    driver.call("cuMemImportFromShareableHandle", ctypes.byref(theirs), ctypes.c_void_p(descriptor.value), 1)
    held(driver.used() == before, "imported memory is its maker's")
    os.close(descriptor.value)
    held(driver.library.cuMemImportFromShareableHandle(ctypes.byref(theirs), ctypes.c_void_p(descriptor.value), 1) == 1)
    driver.call("cuMemRelease", own)
    held(driver.used() == before - MULTICAST)


def program(path):
    driver = Driver(path)
    memory_of_several(driver)
    small, deep = driver.kernel_of(elf_of({"small": (3000, 0)})), driver.kernel_of(elf_of({"deep": (5 * MIB, 700)}))
    deeper = driver.kernel_of(elf_of({"one": (100, 40), "deeper": (200, 900)}))

    def whole(of):
        return -(-of // (2 * MIB)) * 2 * MIB

    held(taken(driver, lambda: driver.launch(small)) == 2 * MIB, "a kernel's code in a granule")
    held(taken(driver, lambda: driver.launch(small)) == 0, "the same kernel again")
    local = whole(700 * SMS * THREADS)
    held(taken(driver, lambda: driver.launch(deep)) == 4 * MIB + local, "code and local memory")
    held(taken(driver, lambda: driver.launch(deeper)) == whole(900 * SMS * THREADS) - local, "what a deeper one lacks")
    held(taken(driver, lambda: driver.launch(deep)) == 0, "local memory that is there")
    held(taken(driver, lambda: driver.library.softgpu_cublas_launch(None)) == BLAS, "the library's share")
    held(taken(driver, lambda: driver.library.softgpu_cublas_launch(None)) == 0, "the library again")
    local = whole(1024 * SMS * THREADS) - whole(900 * SMS * THREADS)
    held(taken(driver, lambda: driver.library.softgpu_nccl_launch(True, None)) == MULTICAST + local, "a communicator")
    held(taken(driver, lambda: driver.library.softgpu_nccl_launch(True, None)) == MULTICAST, "another one")
    held(taken(driver, lambda: driver.library.softgpu_nccl_launch(False, None)) == 0, "its next collective")
    made = []
    held(taken(driver, lambda: made.append(graph_of(driver, small, 99))) == whole(100 * NODE), "a graph's kernels")
    driver.call("cuGraphExecDestroy", made[0])
    held(taken(driver, lambda: graph_of(driver, small, 99)) == 0, "what the first graph left")
    held(taken(driver, lambda: graph_of(driver, small, 99)) == whole(200 * NODE) - whole(100 * NODE), "a second graph")
    driver.call("cuDevicePrimaryCtxReset_v2", 0)
    driver = Driver(path)
    held(driver.used() == 64 * MIB, f"a new context: {driver.used()}")
    held(taken(driver, lambda: driver.launch(driver.kernel_of(elf_of({"small": (3000, 0)})))) == 2 * MIB, "loaded anew")


def main():
    library = os.path.abspath("src/softgpu/lib/libcuda.so.1")
    profile = f"cc=90;sms={SMS};kernels=1;local_threads={THREADS};graph_node={NODE};cublas={BLAS};nccl={10 * MIB};" \
        f"multicast={MULTICAST}"
    if len(sys.argv) > 1:
        return program(sys.argv[1])
    for shape in (profile, f"cc=90;multicast={MULTICAST}"):
        environment = dict(os.environ, SOFTGPU_ON="1", SOFTGPU_PROFILE=shape, SOFTGPU_MEMORY=str(8 << 30))
        run = subprocess.run([sys.executable, __file__, library], env=environment, capture_output=True, text=True)
        # Without the keys the driver takes nothing, so the first amount is missing.
        whole = "a kernel's code in a granule" in run.stderr if shape != profile else not run.returncode
        held(whole, run.stderr)


asserted.script(main)
