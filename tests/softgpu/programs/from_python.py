"""A Python program on the CUDA runtime: weights that stay, a buffer that is freed. argv[1]: the runtime's library."""
import ctypes
import sys

runtime = ctypes.CDLL(sys.argv[1])


def allocate(size):
    address = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    return address


def make_weights():
    return [allocate(size) for size in (1000000, 2000000)]


def make_buffer():
    return allocate(500000)


weights = make_weights()
buffer = make_buffer()
assert runtime.cudaFree(buffer) == 0
