"""Parts that the tests of the PyTorch shim share: the shim on a stand-in of torch, and its calls of the recorder.
LIBMEMPROF_FOLDER names the folder with its sources."""

import contextlib
import ctypes
import importlib
import os
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted  # noqa: F401
import fake_torch

FOLDER = pathlib.Path(os.environ["LIBMEMPROF_FOLDER"])
sys.path.insert(0, str(FOLDER))
libmemprof = importlib.import_module("libmemprof")
shim = importlib.import_module("libmemprof_torch")
FILES = ("compiled", "history", "modules", "optimizers", "regions", "roles")
part = {name: importlib.import_module("libmemprof_torch." + name) for name in FILES}
CALLS = ("shim", "label", "torch_history", "module_name", "module_code", "module_ask", "torch_step", "region_push",
         "region_pop", "mark")
PARAMETER, GRADIENT, STATE, BUFFER = 1, 2, 3, 4


class Clock:
    """Stands in for the module `time`: each look takes `tick`."""

    def __init__(self, now=10**15, tick=0):
        self.now, self.tick = now, tick

    def perf_counter_ns(self):
        self.now += self.tick
        return self.now

    thread_time_ns = monotonic_ns = perf_counter_ns

    def time_ns(self):
        return self.now + 5_000_000


class ShimCase(unittest.TestCase):
    def setUp(self):
        self.log, self.answers = [], {}
        self.torch = fake_torch.make()
        self.wanted = []  # (name, then) of what is to be told of an import
        shim.parts.clear()

    def api(self, *without):
        def call(name):
            def called(*arguments):
                self.log.append((name, *arguments))
                answer = self.answers.get(name, 0)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            return called
        return {name: call(name) for name in CALLS if name not in without}

    def start(self, *without):
        """Starts all parts that the recorder has a call for, and returns their calls."""
        files = [part[name] for name in FILES]
        for module in files:
            if hasattr(module, "time"):
                patch = unittest.mock.patch.object(module, "time", Clock())
                patch.start()
                self.addCleanup(patch.stop)
        entered = contextlib.ExitStack()
        self.addCleanup(entered.close)
        entered.enter_context(fake_torch.imported(self.torch))
        entered.enter_context(unittest.mock.patch.object(libmemprof, "_api", self.api(*without)))
        shim.start(self.torch, lambda name, then: self.wanted.append((name, then)))
        told = self.take()
        self.truth = next(((call[1].value, call[2]) for call in told if call[0] == "module_ask"), None)
        return told

    def take(self):
        told, self.log[:] = list(self.log), []
        return told

    def ask(self):
        """Asks as the recorder does, between two instructions, and returns the shim's answers."""
        function, asked = self.truth
        self.assertEqual(ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(function)(asked), 0)
        return self.take()

    def kind(self, name, **members):
        return type(name, (self.torch.nn.Module,), members)

    def optimizer(self, *parameters):
        return self.torch.optim.Optimizer(parameters)

    def parameters(self, count, first=1):
        return [self.torch.nn.Parameter(first + number) for number in range(count)]
