"""A server that sleeps: sleeping.py DRIVER C10, the driver's library and the stand-in of libc10.

Virtual memory below blocks that PyTorch's allocator counts is unmapped and mapped again. The program counts unbacked
bytes MiB by MiB. It prints the most, those at the allocated peak, and those at the end."""
import ctypes
import json
import random
import sys

MIB = 1 << 20
DEVICE = 1  # c10's type of CUDA

driver = ctypes.CDLL(sys.argv[1])
c10 = ctypes.CDLL(sys.argv[2])
c10.stand_in_report.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t,
                                ctypes.c_int, ctypes.c_int]


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location_type", ctypes.c_int),
                ("location_id", ctypes.c_int), ("windows", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, (name, status)


def number(value):
    return ctypes.c_uint64(value)


call("cuInit", 0)
context = ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)


class Segment:
    def __init__(self, mebibytes):
        self.size, self.address = mebibytes * MIB, ctypes.c_uint64()
        call("cuMemAddressReserve", ctypes.byref(self.address), number(self.size), number(0), number(0), number(0))
        self.backed = False
        self.wake()

    def wake(self):
        handle, wanted = ctypes.c_uint64(), Properties(1, 0, 1, 0)
        call("cuMemCreate", ctypes.byref(handle), number(self.size), ctypes.byref(wanted), number(0))
        call("cuMemMap", self.address, number(self.size), number(0), handle, number(0))
        call("cuMemRelease", handle)
        self.backed = True

    def sleep(self):
        call("cuMemUnmap", self.address, number(self.size))
        self.backed = False


class Server:
    def __init__(self):
        self.segments, self.blocks, self.allocated, self.peak = [], {}, 0, 0
        self.most = self.at_peak = 0

    def unbacked(self):
        return sum(MIB for segment, first, count in self.blocks.values() for _ in range(count) if not segment.backed)

    def note(self):
        self.most = max(self.most, self.unbacked())
        if self.allocated > self.peak:
            self.peak, self.at_peak = self.allocated, self.unbacked()

    def report(self, address, bytes_):
        self.allocated += bytes_
        c10.stand_in_report(0, address, bytes_, self.allocated, sum(segment.size for segment in self.segments), DEVICE, 0)
        self.note()

    def take(self, segment, first, count):
        address = segment.address.value + first * MIB
        self.blocks[address] = (segment, first, count)
        self.report(address, count * MIB)

    def give(self, address):
        count = self.blocks.pop(address)[2]
        self.report(address, -count * MIB)


server, rng = Server(), random.Random(int(sys.argv[3]))
server.segments = [Segment(size) for size in (20, 40, 64)]
for segment in server.segments:  # a hole of 1 MiB after each block
    for first in range(0, segment.size // MIB - 3, 4):
        server.take(segment, first, 3)
for step in range(60):
    segment, what = rng.choice(server.segments), rng.random()
    hole = segment.address.value + (first := rng.randrange(segment.size // MIB // 4) * 4) * MIB
    if what < 0.3:
        segment.sleep() if segment.backed else segment.wake()
        server.note()
    elif hole + 3 * MIB not in server.blocks and what < 0.7:
        server.take(segment, first + 3, 1)  # also of a segment that sleeps
    elif server.blocks:
        server.give(rng.choice(sorted(server.blocks)))
print(json.dumps({"most": server.most, "at_peak": server.at_peak, "end": server.unbacked()}))
