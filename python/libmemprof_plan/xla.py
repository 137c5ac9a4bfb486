"""JAX under `memprof plan`: XLA's own compiler and allocator run on the stand-in GPU, and say what they need.

Marks of the recording:

* "plan: jax VERSION"
* "plan: xla PEAK ARGUMENTS OUTPUT TEMPORARIES NAME" for each program that is larger than those before
* "plan: bfc HELD LIMIT" at the end, for the device whose allocator held most
"""

import atexit
import importlib
import os
import sys

import libmemprof

# Candidates of autotuning cannot differ on a device that computes nothing. Graphs, which the stand-in makes from captures
# alone, use the same buffers.
FLAGS = "--xla_gpu_autotune_level=0 --xla_gpu_enable_command_buffer="
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


def start(hardware, after_import):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"
    for name in ("jax_cuda13_plugin", "jax_cuda12_plugin"):
        try:  # XLA refuses a cuDNN older than the one it was built with
            os.environ["SOFTGPU_CUDNN"] = str(importlib.import_module(f"{name}._versions").cudnn_build_version())
            break
        except ImportError:
            pass
    hardware.has_visible_nvidia_gpu = lambda: True
    after_import("jax._src.compiler", follow_programs)


def follow_programs(compiler):
    load, most, hook = compiler.backend_compile_and_load, [-1], sys.excepthook

    def backend_compile_and_load(backend, module, *arguments, **named):
        executable = load(backend, module, *arguments, **named)
        if most[0] < 0:
            from jax.version import __version__
            libmemprof.mark(f"plan: jax {__version__}")
            atexit.register(tell_held, backend)  # after JAX's own, so it runs before
        try:
            needs = executable.get_compiled_memory_stats()
        except Exception:  # another platform
            return executable
        if needs.peak_memory_in_bytes > most[0]:
            most[0] = needs.peak_memory_in_bytes
            name = str(module.operation.attributes["sym_name"]).strip('"')
            libmemprof.mark(f"plan: xla {most[0]} {needs.argument_size_in_bytes} {needs.output_size_in_bytes} "
                            f"{needs.temp_size_in_bytes} {name}")
        return executable

    def excepthook(kind, error, trace):
        if OUT_OF_MEMORY in str(error):
            libmemprof.mark("plan: xla out of memory")
        hook(kind, error, trace)

    compiler.backend_compile_and_load, sys.excepthook = backend_compile_and_load, excepthook


def tell_held(backend):
    held = [one for one in (device.memory_stats() for device in backend.local_devices()) if one]
    if held:
        most = max(held, key=lambda one: one["peak_bytes_in_use"])
        libmemprof.mark(f"plan: bfc {most['peak_bytes_in_use']} {most['bytes_limit']}")
