"""The PyTorch shim on a stand-in of torch: everything that it tells the recorder, in order, and what it leaves as it was.
LIBMEMPROF_FOLDER names the folder with its sources."""

import array
import contextlib
import ctypes
import gc
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted
import fake_torch

FOLDER = pathlib.Path(os.environ["LIBMEMPROF_FOLDER"])
sys.path.insert(0, str(FOLDER))
libmemprof = importlib.import_module("libmemprof")
shim = importlib.import_module("libmemprof_torch")
FILES = ("compiled", "history", "modules", "optimizers", "regions", "roles")
pools = importlib.import_module("libmemprof_torch.pools")
loaders = importlib.import_module("libmemprof_torch.loaders")
part = {name: importlib.import_module("libmemprof_torch." + name) for name in FILES}
CALLS = ("shim", "label", "torch_history", "module_name", "module_code", "module_ask", "torch_step", "region_push",
         "region_pop")
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
        """Starts all but what the recorder has no call for; what it told by that."""
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
        """As the recorder asks, between two instructions; what it was told."""
        function, asked = self.truth
        self.assertEqual(ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(function)(asked), 0)
        return self.take()

    def kind(self, name, **members):
        return type(name, (self.torch.nn.Module,), members)

    def optimizer(self, *parameters):
        return self.torch.optim.Optimizer(parameters)

    def parameters(self, count, first=1):
        return [self.torch.nn.Parameter(first + number) for number in range(count)]


class Starting(ShimCase):
    def test_all_parts(self):
        told = self.start()
        self.assertEqual([call[0] for call in told], ["shim", "module_code", "module_ask"])
        self.assertEqual(told[0], ("shim", None))
        code = self.torch.nn.Module.__call__.__code__
        self.assertEqual(told[1], ("module_code", id(code)))
        self.assertEqual(set(shim.parts), {"api", "labels", "history", "names"})
        self.assertIsNone(shim.parts["history"])  # this torch is without CUDA
        self.assertEqual([name for name, _ in self.wanted], ["torch._dynamo.eval_frame"])

    def test_once_in_a_process(self):
        self.start()
        init = self.torch.nn.Module.__init__
        shim.start(self.torch)
        self.assertEqual(self.take(), [])
        self.assertIs(self.torch.nn.Module.__init__, init)

    def test_without_a_recorder(self):
        self.assertEqual(self.start("shim"), [])
        self.assertEqual((shim.parts, self.wanted), ({}, []))

    def test_an_older_recorder(self):
        """Each part alone is off where its call is not there; nobody is told, and the rest goes on."""
        for call, off in (("label", "labels"), ("module_ask", "names"), ("torch_history", "history")):
            self.setUp()
            told = self.start(call)
            self.assertIsNone(shim.parts[off])
            self.assertEqual([name for name, *_ in told if name == "shim"], ["shim"])
            net = self.kind("Net")()
            if self.truth:
                self.assertEqual(self.ask(), [("module_name", id(net), b"Net")])
            self.optimizer(*self.parameters(1)).step()
            self.assertIn(("torch_step",), self.take())
        self.setUp()
        self.start("torch_step")
        with self.torch.autograd.profiler.record_function("own"):
            pass
        self.assertEqual(self.take(), [("region_push", b"own"), ("region_pop",)])
        self.setUp()
        self.start("region_push")
        self.optimizer(*self.parameters(1)).step()
        self.assertEqual(self.take(), [])

    def test_a_part_that_meets_what_it_does_not_know(self):
        del self.torch._C.DisableTorchFunction
        self.answers["module_code"] = RuntimeError("no \u00e9")
        told = [call[1] for call in self.start() if call[0] == "shim"]
        lacks = ": AttributeError: 'types.SimpleNamespace' object has no attribute 'DisableTorchFunction'"
        self.assertEqual([text and text.decode() for text in told], [
            None,
            "memprof's PyTorch shim is without roles of tensors" + lacks,
            "memprof's PyTorch shim is without names of modules: RuntimeError: no \u00e9",
            "memprof's PyTorch shim is without steps" + lacks,
            "memprof's PyTorch shim is without compiled steps: AttributeError: 'NoneType' object has no attribute 'known'",
        ])

    def codes_of(self, path):
        """All code of functions that a file has, by name and line."""
        found, todo = set(), [compile(path.read_text(), str(path), "exec")]
        while todo:
            code = todo.pop()
            if code.co_flags & 1:  # CO_OPTIMIZED: neither a module nor a class
                found.add((path.name, code.co_name, code.co_firstlineno))
            todo += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)
                     and (code.co_name, constant.co_name) != ("<module>", "<lambda>")]  # of a default, never called there
        return found

    def test_dynamo_passes_over_all_of_it(self):
        wanted = set()
        for path in (FOLDER / "libmemprof_torch").glob("*.py"):
            wanted |= self.codes_of(path)
        self.assertGreater(len(wanted), 80)
        for new in (True, False):
            self.setUp()
            found = []
            if new:
                frames = types.SimpleNamespace(skip_code=found.append)
            else:
                made = types.SimpleNamespace(SKIP="skip")
                frames = types.SimpleNamespace(_FrameAction=made, _FrameExecStrategy=lambda *actions: actions,
                                               set_code_exec_strategy=lambda code, how: found.append((code, how)))
            self.torch._C._dynamo = types.SimpleNamespace(eval_frame=frames)
            self.start()
            if not new:
                self.assertEqual({how for _, how in found}, {("skip", "skip")})
                found = [code for code, _ in found]
            self.assertEqual({(pathlib.Path(code.co_filename).name, code.co_name, code.co_firstlineno) for code in found},
                             wanted)

    def test_what_is_replaced_looks_the_same(self):
        plain = fake_torch.make()
        self.start()
        for owner, name in (("Module", "__init__"), ("Module", "__setstate__"), ("Module", "_replicate_for_data_parallel")):
            made, was = (vars(getattr(torch.nn, owner))[name] for torch in (self.torch, plain))
            self.assertEqual((made.__name__, made.__qualname__, made.__defaults__), (was.__name__, was.__qualname__, was.__defaults__))
            self.assertEqual(made.__wrapped__.__code__, was.__code__)
            self.assertIs(made.__globals__, made.__wrapped__.__globals__)


class Naming(ShimCase):
    def test_names_and_labels_in_order(self):
        self.start()
        weight, bias, running = self.torch.nn.Parameter(10), self.torch.nn.Parameter(0), self.torch.Tensor(30)
        bias._local_tensor = self.torch.Tensor(20)  # of a DTensor
        layer = self.kind("Linear")(weight=weight, bias=bias)
        norm = self.kind("Norm")(odd=object(), mean=running)  # one is no tensor
        net = self.kind("Net")(first=layer, none=None, last=norm)
        self.assertEqual(self.ask(), [
            ("module_name", id(net), b"Net"),
            ("module_name", id(layer), b"Net.first"),
            ("label", 10, PARAMETER, b"Net.first.weight"), ("label", 20, PARAMETER, b"Net.first.bias"),
            ("module_name", id(norm), b"Net.last"), ("label", 30, BUFFER, b"Net.last.mean")])
        self.assertEqual(self.ask(), [])
        other = self.kind("Net")(tied=layer)
        self.assertEqual(self.ask(), [  # it has two parents: the newest says it
            ("module_name", id(other), b"Net#2"),
            ("module_name", id(layer), b"Net#2.tied"),
            ("label", 10, PARAMETER, b"Net#2.tied.weight"), ("label", 20, PARAMETER, b"Net#2.tied.bias")])

    def test_what_wraps_has_no_name_in_paths(self):
        self.start()
        parallel, inner = self.kind("DistributedDataParallel"), self.kind("Inner")
        own = inner()
        net = self.kind("Net")(_orig_mod=self.kind("Own")(a=own))
        wrapped = type("Mine", (parallel,), {})(module=self.kind("Model")(module=inner()))
        made = type("Parametrized", (self.kind("Linear", __module__="program"),), {"__module__": "torch.nn.utils.parametrize"})()
        self.assertEqual([(address, path.decode()) for _, address, path in self.ask()], [
            (id(net), "Own"), (id(net._modules["_orig_mod"]), "Own"), (id(own), "Own.a"),
            (id(wrapped), "Model"), (id(wrapped._modules["module"]), "Model"),
            (id(wrapped._modules["module"]._modules["module"]), "Model.module"),
            (id(made), "Linear")])

    def test_wrappers_of_wrappers(self):
        self.start()
        for depth in (8, 9):  # more wrappers than that are not looked through
            inner = self.kind("Deep")()
            for _ in range(depth):
                inner = self.kind("Wrapper")(_orig_mod=inner)
            self.assertEqual(self.ask()[-1][2], b"Deep" if depth == 8 else b"Wrapper")

    def test_rings_have_names_too(self):
        self.start()
        first, second = self.kind("Ring")(), self.kind("Ring")()
        first._modules["next"], second._modules["next"] = second, first
        self.assertEqual(self.ask(), [("module_name", id(first), b"Ring"), ("module_name", id(second), b"Ring.next")])

    def test_copies_and_what_is_compiled(self):
        self.start()
        net = self.kind("Net")()
        copy = type(net).__new__(type(net))
        copy.__setstate__(vars(net))
        self.torch.compiling = True
        unseen = self.kind("Net")()
        again = type(net).__new__(type(net))
        again.__setstate__(vars(unseen))
        self.assertEqual(vars(copy), vars(net))
        self.assertEqual(self.ask(), [("module_name", id(net), b"Net"), ("module_name", id(copy), b"Net#2")])

    def test_replicas_have_the_name_of_their_original(self):
        self.start()
        net = self.kind("Net")()
        replica = net._replicate_for_data_parallel()  # nobody has asked yet
        self.assertEqual(self.take(), [("module_name", id(net), b"Net"), ("module_name", id(replica), b"Net")])
        replica._parameters["weight"] = self.torch.nn.Parameter(1)
        shim.parts["names"]._next_full_ns = 0
        self.assertEqual(self.ask(), [])
        other, made = self.kind("Other")(), []
        thread = threading.Thread(target=lambda: made.append(other._replicate_for_data_parallel()))
        thread.start()
        thread.join()
        self.assertEqual(self.take(), [])
        self.assertEqual(self.ask(), [("module_name", id(other), b"Other")])

    def test_what_dies_is_forgotten_before_what_may_lie_there(self):
        self.start()
        kind = self.kind("Net")
        first, second = kind(), kind()
        gone = id(first)
        self.ask()
        del first
        third = kind()
        self.assertEqual(self.take(), [("module_name", gone, None)])
        self.assertEqual(self.ask(), [("module_name", id(third), b"Net")])
        shim.parts["names"]._next_full_ns = 0
        self.assertEqual(self.ask(), [])
        self.assertEqual({id(second), id(third)}, set(shim.parts["names"]._known))

    def test_a_look_at_all_is_followed_by_rest(self):
        self.start()
        clock = part["modules"].time = Clock(tick=1000)
        net, block = self.kind("Net")(), self.kind("Block")()
        begun = clock.now + 1000
        self.ask()
        net._modules["late"] = block
        clock.now = begun + 100 * 1000 - 1001
        self.assertEqual(self.ask(), [])
        clock.now = begun + 100 * 1000 - 1000
        self.assertEqual(self.ask(), [("module_name", id(block), b"Net.late")])

    def test_what_nobody_asks_about_takes_no_room(self):
        self.start()
        kind = self.kind("Net")
        kept, most = [kind() for _ in range(900)], 0
        for _ in range(5000):
            kind()
            most = max(most, len(shim.parts["names"]._fresh))
        self.assertEqual(most, 1800)  # twice as many as live
        self.assertEqual([call[1] for call in self.ask()], [id(net) for net in kept])

    def test_trouble_ends_it_and_a_signals_does_not(self):
        self.start()
        net = self.kind("Net")()

        def handler(number, frame):
            raise RuntimeError("of the program")
        before = signal.signal(signal.SIGUSR1, handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        names = shim.parts["names"]
        with unittest.mock.patch.object(names, "_tell", lambda *told: signal.raise_signal(signal.SIGUSR1)):
            function, asked = self.truth
            with self.assertRaisesRegex(RuntimeError, "of the program"):
                ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(function)(asked)
            with self.assertRaisesRegex(RuntimeError, "of the program"):
                net._replicate_for_data_parallel()
        names._known.clear()
        with unittest.mock.patch.object(names, "_forget", lambda: signal.raise_signal(signal.SIGUSR1)):
            names._dead.append(None)
            with self.assertRaisesRegex(RuntimeError, "of the program"):
                self.kind("Net")()
            names._dead.clear()
        self.assertEqual(self.ask(), [("module_name", id(net), b"Net")])  # it goes on, and has forgotten nothing
        names._looking = True
        other = self.kind("Other")()
        self.assertEqual(self.ask(), [])  # in the midst of a look
        names._looking = False
        self.answers["module_name"] = ValueError("why")
        self.assertEqual(self.ask(), [("module_name", id(other), b"Other"),
                                      ("shim", b"memprof's PyTorch shim is without names of modules: ValueError: why")])
        self.assertEqual(self.ask(), [])


class Roles(ShimCase):
    def trained(self):
        """A net with a name, an optimizer with states, after one step."""
        self.start()
        self.weight, self.bias = self.parameters(2, 100)
        self.net = self.kind("Net")(weight=self.weight)
        self.ask()
        self.optim = self.optimizer(self.weight, self.bias)
        self.weight.grad = self.torch.Tensor(200)
        self.optim.state[self.weight] = {"average": self.torch.Tensor(300), "step": 3, "several": [self.torch.Tensor(301), 7]}

    def labels(self):
        return [call[1:] for call in self.take() if call[0] == "label"]

    def test_after_a_step(self):
        self.trained()
        self.optim.step()
        self.assertEqual(self.take(), [
            ("region_push", b"Optimizer.step#Own.step"),
            # Net.weight was told at naming.
            ("label", 200, GRADIENT, b"Net.weight"), ("label", 300, STATE, b"Net.weight.average"),
            ("label", 301, STATE, b"Net.weight.several"), ("label", 101, PARAMETER, b"parameter 1"),
            ("torch_step",), ("region_pop",)])
        self.optim.state[self.weight]["average"].address = 310  # another block
        self.weight.grad = None
        self.optim.step()
        self.assertEqual(self.labels(), [(310, STATE, b"Net.weight.average")])

    def test_all_is_told_again_now_and_then(self):
        self.trained()
        clock = part["roles"].time
        rounds = []
        for _ in range(70):
            clock.now += 10**9
            self.optim.step()
            rounds.append(self.labels())
        always = (200, GRADIENT, b"Net.weight")
        every = [(100, PARAMETER, b"Net.weight"), always, (300, STATE, b"Net.weight.average"),
                 (301, STATE, b"Net.weight.several"), (101, PARAMETER, b"parameter 1")]
        self.assertEqual(rounds[0], every[1:])
        for number, told in enumerate(rounds[1:], 1):
            self.assertEqual(told, every if number % 32 == 31 else [always], number)

    def test_a_turn_ends_in_time_and_the_next_goes_on(self):
        self.start()
        clock = part["roles"].time = Clock(tick=1_000_000)
        optim = self.optimizer(*self.parameters(1000))
        told = []
        for _ in range(4):
            optim.step()
            told.append([address for address, *_ in self.labels()])
        self.assertEqual([address for step in told for address in step], list(range(1, 1001)))
        self.assertEqual([len(step) for step in told], [320, 320, 320, 40])  # one look in eight, for 40 ms
        clock.now += 10**12
        for _ in range(30):  # the first four rounds have the time of the program
            optim.step()
        turn = shim.parts["labels"]._turns[id(optim)]
        self.assertEqual(turn.rounds, 4)
        self.take()
        for parameter in optim.param_groups[0]["params"]:
            parameter.address += 5000
        place = turn.place % 1000
        clock.now += 10**13
        optim.step()
        self.assertEqual([address - 5001 for address, *_ in self.labels()], [place + more for more in range(16)])

    def test_turns_are_a_thousandth_of_the_time(self):
        self.start()
        clock = part["roles"].time = Clock()
        one, other = self.optimizer(*self.parameters(1)), self.optimizer(*self.parameters(1, 50))
        looks = []
        spend = self.torch._C._data_address

        def address(tensor):
            clock.now += 7
            looks.append((clock.now, tensor.address))
            return spend(tensor)
        shim.parts["labels"]._address_of = address
        for _ in range(4):
            one.step(), other.step()
        looks.clear()
        first = clock.now
        one.step()  # takes 7, so others wait for 7000, and itself for 14000
        self.assertEqual(looks, [])
        shim.parts["labels"]._others_ns = shim.parts["labels"]._same_ns = 0
        one.step()
        self.assertEqual(looks, [(first + 7, 1)])
        for at, optim, taken in ((6999, other, 0), (7000, one, 0), (13999, one, 0), (7000, other, 1), (6999, one, 0),
                                 (13999, other, 0), (7000, one, 1), (13999, one, 0), (14000, one, 1)):
            looks.clear()
            clock.now = first + at
            optim.step()
            self.assertEqual(len(looks), taken, at)
            if taken:
                first = looks[0][0] - 7

    def test_optimizers_that_are_gone_take_no_room(self):
        self.start()
        for _ in range(1500):
            self.optimizer(*self.parameters(1)).step()
        self.assertLessEqual(len(shim.parts["labels"]._turns), 1001)

    def test_nothing_under_a_mode_of_the_program(self):
        self.trained()
        self.torch.mode = object()
        self.optim.step()
        self.assertEqual(self.labels(), [])
        self.torch.mode = None
        self.optim.step()
        self.assertEqual(len(self.labels()), 4)

    def test_a_torch_without_that_address(self):
        del self.torch._C._data_address
        self.start()
        mine = type("Mine", (self.torch.Tensor,), {"data_ptr": lambda self: 1 // 0})(4)
        net = self.kind("Net")(weight=self.torch.nn.Parameter(3), mine=mine)
        self.assertEqual(self.ask(), [("module_name", id(net), b"Net"), ("label", 3, PARAMETER, b"Net.weight")])

    def test_trouble_ends_it(self):
        self.trained()
        self.optim.param_groups = None
        self.optim.step = types.MethodType(lambda own: type(own).step(own), self.optim)
        self.optim.change = lambda: None
        self.optim.step()
        self.assertIn(("shim", b"memprof's PyTorch shim is without roles of tensors: TypeError: 'NoneType' object is not iterable"),
                      self.take())
        self.optim.param_groups = [{"params": [self.bias]}]
        self.optim.step()
        self.assertEqual([call[0] for call in self.take()], ["region_push", "torch_step", "region_pop"])


class Steps(ShimCase):
    def steps_of(self, order):
        """Which of these steps of optimizers were steps of the program. Before a colon: those that are made first."""
        self.setUp()
        self.start()
        first, _, order = order.rpartition(":")
        made, told = {name: self.optimizer(*self.parameters(1)) for name in first}, ""
        for name in order:
            if name.islower():
                made.pop(name.upper())  # its last reference
                gc.collect()
                continue
            if name not in made:
                made[name] = self.optimizer(*self.parameters(1))
            made[name].step()
            if ("torch_step",) in self.take():
                told += name
        return told

    def test_one_optimizer_is_the_loops(self):
        for order, told in (
                ("A" * 4, "A" * 4),
                ("AB:" + "ABAB" * 5, "AA" * 5),
                ("ABAB" * 5, "AA" * 5),
                ("AB:" + "ABBBBB" * 10, "A" * 10),
                ("ABBBBB" * 10, "A" * 10),
                ("AB:AAA" + "B" * 20, "AAA" + "B" * 4),  # 16 are waited for
                ("AB:" + "A" * 7 + "B" * 20, "A" * 7 + "B" * 4),
                ("AB:" + "A" * 8 + "B" * 5, "A" * 8 + "B" * 3),  # it was alone for long
                ("AB:" + "ABBBBBB" * 3 + "B" * 30, "AAA" + "B" * 12),  # four times six, of which six are in the pattern
                ("AB:AAAaBBB", "AAABBB"),  # it is gone
                ("AB:" + "ABB" * 3 + "AaBB" + "B" * 5, "AAAA" + "B" * 5),  # the other one still ends the last round
                ("AB:" + "ABB" * 3 + "AaBb" + "C" * 5, "AAAA" + "C" * 5),  # both are gone before it is ended
                ("AB:" + "A" * 8 + "BBABBABBBBB", "A" * 8 + "AA"),
                ("A" + "B" * 17 + "A" * 17, "AB" + "A" * 16),  # it comes back
        ):
            self.assertEqual(self.steps_of(order), told, order)

    def test_one_that_was_made_since_follows(self):
        """All are kept, as by schedulers that refer to them in a circle."""
        for order, told in (
                ("AAABBBCCC", "AAABBBCCC"),
                ("A" * 20 + "BB" + "C" * 20, "A" * 20 + "BB" + "C" * 20),
                ("AB:" + "AB" * 5 + "CD" * 5, "A" * 5 + "C" * 5),  # two networks a fold
                ("AAA" + "AB" * 5, "AAA" + "AB" + "A" * 3),  # a second one joins: its first step stands for one of the other's
                ("E:" + "AE" * 5 + "BE" * 5, "A" * 5 + "B" + "E" * 4),  # what all tasks share, too
                ("O:" + "AAAO" + "BBBO" + "CCCO" + "DDDO", "AAA" + "OOO"),  # meta-learning: from the second inner one on
                ("O:" + "AAAO" + "aBBBO" + "bCCCO" + "cDDDO", "AAA" + "OOO"),  # by the same variable
                ("O:" + "AAAaO" + "BBBbO" + "CCCcO", "AAA" + "OOO"),  # in a function
        ):
            self.assertEqual(self.steps_of(order), told, order)

    def test_only_its_own_wrapper_is_an_optimizers(self):
        self.start()
        region = self.torch.autograd.profiler.record_function

        def wrapper(*args):
            with region("Optimizer.step#Own.step"):
                pass
        optim = self.optimizer(*self.parameters(1))
        for arguments in ((), (3,), (object(), optim)):
            wrapper(*arguments)
            self.assertEqual([call[0] for call in self.take()], ["region_push", "region_pop"])

        def other(first):
            with region("Optimizer.step#Own.step"):
                pass
        other(optim)
        self.assertNotIn(("torch_step",), self.take())
        optim.step()
        for _ in range(20):
            wrapper(3)
        self.take()
        self.optimizer(*self.parameters(1)).step()
        self.assertNotIn(("torch_step",), self.take())  # those were nobody's steps
        del sys.modules["torch.optim.optimizer"]
        wrapper(optim)
        self.assertNotIn(("torch_step",), self.take())

    def test_a_step_within_a_step_of_the_same_optimizer(self):
        """As where a class of the program's calls the step of PyTorch's, both of which have a region."""
        self.start()
        optim, other = self.optimizer(*self.parameters(1)), self.optimizer(*self.parameters(1))

        def inner():
            del optim.change
            optim.step()

        def calls(change):
            optim.change = change
            optim.step()
            return [call[0][-4:] for call in self.take() if call[0] != "label"]
        self.assertEqual(calls(inner), ["push", "push", "_pop", "step", "_pop"])
        self.assertEqual(calls(other.step), ["push", "push", "_pop", "step", "_pop"])  # another one's, which is not the loop's
        del optim.change
        other.step()
        self.assertEqual([call[0] for call in self.take()], ["region_push", "region_pop"])

    def test_regions(self):
        self.start()
        region = self.torch.autograd.profiler.record_function
        with region("outer"), region("in\udcffner"), region(7):
            pass
        self.assertEqual(self.take(), [("region_push", b"outer"), ("region_push", b"in?ner"), ("region_pop",), ("region_pop",)])
        optim = self.optimizer(*self.parameters(1))
        optim.change = lambda: 1 // 0
        with self.assertRaises(ZeroDivisionError) as raised:
            optim.step()
        kind, error, trace = region.left[-1]
        self.assertEqual((kind, error), (ZeroDivisionError, raised.exception))
        self.assertIs(type(trace), types.TracebackType)
        self.assertEqual([call[0] for call in self.take()], ["region_push", "region_pop"])  # it did not step

    def compiled(self):
        """The hook that Dynamo calls before what it compiled."""
        self.start()
        (_, follow), = self.wanted

        class OptimizeContext:
            def __init__(self, how, hooks):
                self.how, self.enter_exit_hooks = how, hooks
        follow(types.SimpleNamespace())
        follow(types.SimpleNamespace(OptimizeContext=OptimizeContext))
        self.assertIsNone(OptimizeContext("how", hooks=None).enter_exit_hooks)
        (enter,) = OptimizeContext("how", hooks=[]).enter_exit_hooks
        return enter

    def test_compiled_steps(self):
        enter = self.compiled()
        optim, other = self.optimizer(*self.parameters(6)), self.optimizer(*self.parameters(1, 50))
        in_the_making = self.torch.optim.Optimizer.__new__(self.torch.optim.Optimizer)
        in_the_making._patch_step_function()
        leave = enter()
        leave()
        self.assertEqual(self.take(), [])
        leave = enter()
        optim.change()
        leave()
        self.assertEqual(self.take(), [*(("label", 1 + at, PARAMETER, b"parameter %d" % at) for at in range(6)), ("torch_step",)])
        leave = enter()
        other.change()
        leave()
        self.assertEqual(self.take(), [("label", 50, PARAMETER, b"parameter 0")])  # it is not the loop's
        leave = enter()
        optim.param_groups[0]["params"][4]._version += 1  # the first four are looked at
        leave()
        self.assertEqual(self.take(), [])
        leave = enter()
        optim.step()  # a region told of it
        self.take()
        leave()
        self.assertEqual(self.take(), [])
        optim._patch_step_function()  # once is enough
        leave = enter()
        optim.change()
        leave()
        self.assertEqual(self.take(), [("torch_step",)])

    def test_trouble_with_compiled_ones_leaves_the_others(self):
        enter = self.compiled()
        optim = self.optimizer(*self.parameters(1))
        optim.param_groups[0]["params"].append(None)
        enter()()
        self.assertEqual(self.take(), [("shim", b"memprof's PyTorch shim is without steps of compiled optimizers: AttributeError: "
                                                b"'NoneType' object has no attribute '_version'")])
        optim.param_groups[0]["params"].pop()
        leave = enter()
        optim.change()
        leave()
        self.assertEqual(self.take(), [])
        optim.step()
        self.assertIn(("torch_step",), self.take())


class History(ShimCase):
    def snapshot(self):
        return {
            "device_traces": [[], [
                {"action": "alloc", "addr": 100, "size": 11, "stream": 5, "time_us": 9, "pool_id": (1, 2)},
                {"action": "free_completed", "addr": 100, "size": 11, "stream": 5, "time_us": 10},
                {"action": "alloc", "addr": -1, "size": 12, "stream": 0, "time_us": 11, "segment_pool_id": (0, 3)},
                {"action": "alloc", "addr": 300, "size": 13, "stream": 0, "time_us": 12},
                {"action": "alloc", "addr": 400, "size": 14, "stream": 0}]],
            "segments": [
                {"device": 1, "address": 1 << 40, "total_size": 2048, "stream": 6, "segment_type": "small", "segment_pool_id": (2, 1),
                 "blocks": [{"state": "active_allocated", "requested_size": 1000, "size": 1024},
                            {"state": "active_pending_free", "requested_size": 9, "size": 512},
                            {"state": "inactive", "size": 512}]},
                {"device": 0, "address": 1 << 41, "total_size": 4096, "stream": 0, "segment_type": "large", "is_expandable": True,
                 "blocks": [{"state": "active_awaiting_free", "requested_size": 3, "size": 4096}]}],
            "external_annotations": ["one"],
            "allocator_settings": {"trace_alloc_max_entries": len(self.torch.asked), "other": 1}}

    def rows(self):
        """What is to be told of that: kind, device, facts; five numbers."""
        unknown, offset = (1 << 64) - 1, -5_000_000
        rows = [(1 | 1 << 8, 100, 11, 5, 1 << 32 | 2, 9000), (1 | 1 << 8, unknown, 12, 0, 3, 11000),
                (1 | 1 << 8, 300, 13, 0, unknown, 12000)]
        rows = [(*row[:5], row[5] + offset & unknown) for row in rows]
        rows += [(2 | 1 << 8 | 1 << 16, 1 << 40, 2048, 6, 2 << 32 | 1, 0), (3 | 1 << 8 | 1 << 16, 1000, 1024, 0, 0, 0),
                 (3 | 1 << 8 | 2 << 16, 9, 512, 0, 0, 0), (3 | 1 << 8, 0, 512, 0, 0, 0),
                 (2 | 2 << 16, 1 << 41, 4096, 0, 0, 0), (3 | 2 << 16, 3, 4096, 0, 0, 0)]
        return [*rows, (4 | 1 << 16, 0, len(rows), 0, 0, self.clock.now)]

    def start(self, *without, tell=0, **torch):
        fake_torch.add_cuda(self.torch, self.snapshot, **torch)
        self.told, plain = [], self.api

        def api(*without):
            calls = plain(*without)

            def torch_history(address, what):
                if address is None:
                    self.told.append(what)
                    return tell
                words = (ctypes.c_uint64 * (6 * what)).from_address(address)
                self.told.append([tuple(words[at:at + 6]) for at in range(0, 6 * what, 6)])
                return tell
            calls["torch_history"] = torch_history
            return calls
        self.api = api
        told = super().start(*without)
        self.clock = part["history"].time
        self.addCleanup(self.stop, shim.parts["history"])
        return told

    def stop(self, history):
        if history is not None:
            history._stop()
            libmemprof._before_snapshot[:] = [tell for tell in libmemprof._before_snapshot if tell != history.read]

    def taken(self):
        asked, told = list(self.torch.asked), list(self.told)
        self.torch.asked.clear()
        self.told.clear()
        return asked, told

    MORE = {"skip_actions": ["free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot"],
            "clear_history": True, "global_record_annotations": True}

    def on(self, entries=32768, **more):
        return "all", {"context": None, "stacks": "python", "max_entries": entries, **(more or self.MORE)}

    def test_it_begins_with_cuda(self):
        self.start()
        self.assertEqual(self.taken(), (["snapshot", self.on()], [0, 1, 2]))
        self.setUp()
        fake_torch.add_cuda(self.torch, self.snapshot)
        with unittest.mock.patch.object(fake_torch, "add_cuda", lambda *given, **more: None):
            self.torch.cuda.initialized = False
            self.start()
        self.assertEqual(self.taken(), ([], []))
        ((begin, arguments),) = self.torch.cuda._queued_calls
        begin(*arguments)
        self.assertEqual(self.taken(), (["snapshot", self.on()], [0, 1, 2]))
        begin()  # once
        self.assertEqual(self.taken(), ([], []))

    def test_a_recorder_that_wants_none(self):
        self.start(tell=-1)
        self.assertEqual(self.taken(), ([], [0]))
        shim.parts["history"].read()
        self.assertEqual(self.taken(), ([], []))

    def test_what_is_read(self):
        self.start()
        self.taken()
        for read in (shim.parts["history"].read, libmemprof._before_snapshot[-1], self.ask):
            self.clock.now += 10**9
            read()
            asked, told = self.taken()
            self.assertEqual(asked, ["snapshot", self.on()])
            self.assertEqual(told, [1, 2, self.rows()])

    def test_after_a_region_a_part_in_two_hundred(self):
        self.start()
        self.taken()
        history = shim.parts["history"]
        history._asked, history._entries, self.clock.tick = False, 5000, 1000
        with unittest.mock.patch.object(part["history"], "ENTRIES_LEAST", 1):
            self.ask()
        self.assertEqual(history._entries, 20_000_000 * 10 // 11_000)
        due = history._next_ns
        self.assertEqual(due - self.clock.now, 200 * 14_000)  # it looked at the clocks fourteen times after it began
        self.taken()
        region = self.torch.autograd.profiler.record_function
        self.clock.tick = 0
        for now, reads in ((due - 1, 0), (due, 1)):
            self.clock.now = now
            with region("any"):
                pass
            self.assertEqual(self.taken()[0].count("snapshot"), reads)

    def test_where_it_was_asked_for_before_the_ring_runs_over_for_a_tenth_of_the_time(self):
        self.start()
        history, took = shim.parts["history"], 14_000
        history._entries, self.clock.tick = 100, 1000
        for filled_in, pause in ((10**9, 200 * took), (100_000, 100_000 * 100 // 5 // 2), (1000, 10 * took)):
            history._emptied_ns = self.clock.now + 1000 - filled_in  # with five entries of a hundred
            history.read()
            self.assertEqual(history._next_ns - self.clock.now, pause)
        history._asked, history._emptied_ns = False, self.clock.now
        history.read()
        self.assertEqual(history._next_ns - self.clock.now, 200 * took)

    def test_whole_segments_within_a_pool(self):
        pools, seen, plain = [None], [], self.snapshot
        self.snapshot = lambda: seen.append(pools[-1]) or plain()
        self.start()

        class Context:
            """PyTorch's own: as long as it lives, its pool is the one that this thread uses."""
            active_pool = staticmethod(lambda: pools[-1])

            def __init__(self, pool):
                pools.append(pool)

            def __del__(self):
                pools.pop()

        self.torch._C._MemPoolContext = Context
        for pool in (None, "the program's"):
            pools.append(pool)
            self.taken()
            seen.clear()
            shim.parts["history"].read()
            self.assertEqual(self.taken()[1], [1, 2, self.rows()])
            self.torch._C._cuda_memorySnapshot(None)  # the program's own look, before which there is one of ours
            self.assertEqual((seen, pools[-1]), ([None, None, pool], pool))

    def test_ends_of_pools_are_followed_by_readings_for_a_part_of_the_time(self):
        self.start()
        self.taken()
        history, region = shim.parts["history"], self.torch.autograd.profiler.record_function
        self.clock.tick = 10**8  # each look at the clock: a reading takes more than a second
        for reads in (1, 0, 0):
            history.pool_ended()
            history.before_loss()
            with region("any"):
                pass
            self.assertEqual(self.taken()[0].count("snapshot"), reads)
        self.clock.now += 10**11
        for reads in (1, 0):
            history.before_loss()
            self.assertEqual(self.taken()[0].count("snapshot"), reads)
        history.pool_ended()
        history._end()
        self.taken()
        with unittest.mock.patch.object(part["history"], "time", None):  # as the interpreter's end leaves it
            history.before_loss()
        self.assertEqual(self.taken(), ([], []))

    def test_the_ring_gets_room_for_what_can_be_read(self):
        self.start()
        history, things = shim.parts["history"], {"device_traces": [[None] * 1500], "segments": [{"blocks": [None] * 400}],
                                                  "external_annotations": [None] * 100}
        for took, entries in ((40_000_000, 1024), (10_000_000, 4000), (20_000_000, 4000), (20_000_001, 1999), (1000, 32768),
                              (10_000_000, 32768), (0, 32768)):
            history._fit(things, took)
            self.assertEqual(history._entries, entries)
        for things, entries in ((1024, 1024), (1023, 1024)):
            history._fit({"device_traces": [[None] * things], "segments": []}, 10**9 if things == 1024 else 1)
            self.assertEqual(history._entries, entries)
        history._entries = 32768
        self.taken()
        history.read()
        self.assertEqual(self.taken()[0], ["snapshot", self.on(32768)])

    def test_hidden_from_the_program(self):
        self.start()
        self.taken()
        self.assertIs(self.torch._C._cuda_isHistoryEnabled(), False)
        seen = self.torch._C._cuda_memorySnapshot(None)
        asked, told = self.taken()
        self.assertEqual(asked, ["snapshot", self.on(), self.on(), "snapshot"])
        self.assertEqual(told, [1, 2, self.rows(), 1, 2])
        self.assertEqual(seen, {**self.snapshot(), "device_traces": [[], []], "external_annotations": [],
                                "allocator_settings": {"trace_alloc_max_entries": 1, "other": 1}})

    def test_one_of_the_programs_takes_its_place(self):
        self.start()
        self.taken()
        record = self.torch.cuda.memory._record_memory_history
        record("state")
        asked, told = self.taken()
        self.assertEqual([call[0] for call in asked], [None, "state"])
        self.assertEqual(told, [1, 2, 3])
        self.assertIs(self.torch._C._cuda_isHistoryEnabled(), True)
        self.assertEqual(len(self.torch._C._cuda_memorySnapshot()["device_traces"][1]), 5)
        self.taken()
        self.ask()
        asked, told = self.taken()
        self.assertEqual((asked, told), ([], []))
        self.assertEqual(self.take(), [])  # told in ask()
        record(None)
        self.taken()
        self.clock.now += 10**9
        self.ask()
        self.assertEqual(self.taken(), ([self.on(), "snapshot", self.on()], [1, 2, 1, 2, self.rows()]))

    def test_one_that_the_program_had_before(self):
        fake_torch.add_cuda(self.torch, self.snapshot)
        self.torch.recording = True
        with unittest.mock.patch.object(fake_torch, "add_cuda", lambda *given, **more: None):
            said = [call for call in self.start() if call[0] == "shim"]
        self.assertEqual(len(said), 2)
        self.assertIn(b"the program records PyTorch's own history itself", said[1][1])
        self.assertEqual(self.taken(), ([], [0]))
        shim.parts["history"].read()
        self.assertEqual(self.taken(), ([], []))
        self.torch.cuda.memory._record_memory_history(None)
        self.taken()
        self.clock.now += 10**9
        self.ask()
        self.assertEqual(self.taken(), ([self.on(), "snapshot", self.on()], [1, 2, 1, 2, self.rows()]))

    def test_one_of_the_programs_that_torch_does_not_tell_of(self):
        self.start()
        self.torch.cuda.memory._record_memory_history("state")
        self.torch.recording = False
        self.taken()
        shim.parts["history"].read()
        self.assertEqual(self.taken(), ([], []))

    def test_the_end_of_the_program(self):
        with unittest.mock.patch.object(part["history"].atexit, "register") as register:
            self.start()
        self.taken()
        ((end,), _), = register.call_args_list
        end()
        asked, told = self.taken()
        self.assertEqual([call if call == "snapshot" else call[0] for call in asked], ["snapshot", "all", None])
        self.assertEqual(told, [1, 2, self.rows(), 1, 2])
        shim.parts["history"].read()
        self.assertEqual(self.taken(), ([], []))

    def test_one_reading_at_a_time(self):
        self.start()
        self.taken()
        history, held, done = shim.parts["history"], threading.Event(), threading.Event()

        def hold():
            with history._lock:
                held.set()
                done.wait(20)
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(20)
        history.read()
        self.assertFalse(done.is_set())
        self.assertEqual(self.taken(), ([], []))
        done.set()
        thread.join()
        history._reading = True  # in the midst of one, by a finalizer
        history.read()
        self.assertEqual(self.taken(), ([], []))
        history._reading = False
        history.read()
        self.assertEqual(len(self.taken()[0]), 2)

    def test_a_torch_with_fewer_ways(self):
        self.start(parameters=())
        snapshot = shim.parts["history"]._originals["_cuda_memorySnapshot"]
        shim.parts["history"]._originals["_cuda_memorySnapshot"] = lambda: snapshot()  # which takes no argument
        plain = ("all", {"context": None, "stacks": "python", "max_entries": 32768})
        self.assertEqual(self.taken()[0], ["snapshot", plain])
        shim.parts["history"].read()  # what it has is emptied by turning it off
        asked, _ = self.taken()
        self.assertEqual([call[0] if call != "snapshot" else call for call in asked], ["snapshot", None, "all"])

    def test_one_that_cannot_do_without_stacks(self):
        fake_torch.add_cuda(self.torch, self.snapshot)
        self.torch.cuda.memory._record_memory_history = lambda enabled=True, record_context=True: None
        with unittest.mock.patch.object(fake_torch, "add_cuda", lambda *given, **more: None):
            said = [call[1] for call in self.start() if call[0] == "shim"]
        self.assertEqual(said[1:], [b"memprof's PyTorch shim is without PyTorch's own history (requested sizes, streams, pools): "
                                    b"RuntimeError: torch 9.9 records none without stacks"])

    def test_what_does_not_fit_the_recorder_ends_it(self):
        self.start()
        self.taken()
        with unittest.mock.patch.object(shim.parts["history"], "_tell", lambda address, what: -1 if address else 0):
            shim.parts["history"].read()
        self.assertEqual([call if call == "snapshot" else call[0] for call in self.taken()[0]], ["snapshot", "all", None])
        self.clock.now += 10**9
        shim.parts["history"].read()
        self.assertEqual(self.taken(), ([], []))

    def test_a_forked_child_touches_nothing(self):
        self.start()
        self.taken()
        self.clock.now += 10**9
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            self.torch.asked.clear()
            history = shim.parts["history"]
            history.read(), history._end(), history._before_fork(), history._after_fork()
            mine = self.torch._C._cuda_memorySnapshot()
            self.torch.cuda.memory._record_memory_history(None)
            seen = [call if call == "snapshot" else call[0] for call in self.torch.asked], len(mine["device_traces"][1])
            os.write(write, repr(seen).encode())
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(read, 1000).decode(), "(['snapshot', None], 5)")
        os.close(read)
        os.close(write)
        asked = [call if call == "snapshot" else call[0] for call in self.taken()[0]]
        self.assertEqual(asked, ["snapshot", "all", None, "all"])  # read, off while it forks, on again


class Pools(unittest.TestCase):
    """Calls that allocate nothing, on a stand-in of torch.cuda."""

    def setUp(self):
        self.told, self.calls = [], []
        calls = self.calls

        class CUDAGraph:
            def capture_begin(self, pool=None, capture_error_mode="global"):
                calls.append(("capture_begin", pool, capture_error_mode))

            def capture_end(self):
                calls.append("capture_end")
                if calls[0] == "fail":
                    raise OSError("capture")

            def reset(self):
                calls.append("reset")

            def pool(self):
                return 0, 7

        class Native:
            id = (0, 9)

            def use_count(self):
                return 1

        class MemPool(Native):
            def __init__(self, allocator=None):
                calls.append(("MemPool", allocator))

        def native(name, answer=None):
            def call(*arguments):
                calls.append((name, *arguments))
                return answer
            return call

        names = ("_cuda_emptyCache", "_cuda_setMemoryFraction", "_cuda_beginAllocateCurrentStreamToPool",
                 "_cuda_endAllocateCurrentStreamToPool", "_cuda_endAllocateToPool", "_cuda_releasePool",
                 "_cuda_cudaCachingAllocator_set_allocator_settings")
        self.native = types.SimpleNamespace(**{name: native(name, "answer of " + name) for name in names})
        self.memory = types.SimpleNamespace(_cuda_releasePool=self.native._cuda_releasePool)
        self.cuda = types.SimpleNamespace(CUDAGraph=CUDAGraph, MemPool=MemPool, memory=self.memory,
                                          current_device=lambda: 1, is_initialized=lambda: True)
        history = types.SimpleNamespace(pool_ended=lambda: self.told.append("ended"),
                                        before_loss=lambda: self.told.append("loss"))
        api = {"torch_mark": lambda text: self.told.append(text.decode()), "shim": self.told.append}
        pools.start(api, types.SimpleNamespace(_C=self.native, cuda=self.cuda), history)

    def take(self):
        told, self.told[:] = list(self.told), []
        return told

    def test_calls_of_the_allocator(self):
        self.assertEqual(self.native._cuda_emptyCache(), "answer of _cuda_emptyCache")
        self.assertEqual(self.native._cuda_setMemoryFraction(0.5, 2), "answer of _cuda_setMemoryFraction")
        self.assertEqual(self.native._cuda_endAllocateToPool(2, (0, 4)), "answer of _cuda_endAllocateToPool")
        self.assertEqual(self.memory._cuda_releasePool(2, (0, 4)), "answer of _cuda_releasePool")
        self.assertEqual(self.take(), ["loss", "torch: empty_cache", "torch: memory fraction 0.5 on cuda:2",
                                       "torch: pool 0:4 ends on cuda:2", "ended", "torch: pool 0:4 released on cuda:2"])

    def test_settings_that_change(self):
        """With what PyTorch had read from the environment before the first change."""
        change = self.native._cuda_cudaCachingAllocator_set_allocator_settings
        with unittest.mock.patch.dict(os.environ, {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}):
            self.assertIn("answer of", change("expandable_segments:True"))
            change("")
        self.assertEqual(self.take(), ["torch: began with settings:max_split_size_mb:64",
                                       "torch: settings:expandable_segments:True", "torch: settings:"])

    def test_ends_up_to_2_1_name_no_pool(self):
        end = self.native._cuda_endAllocateCurrentStreamToPool
        self.assertEqual(end(3), "answer of _cuda_endAllocateCurrentStreamToPool")
        self.assertEqual(self.take(), [])
        self.native._cuda_beginAllocateCurrentStreamToPool(3, (0, 5))
        end(3)
        self.assertEqual(self.take(), ["torch: pool 0:5 begins on cuda:3", "torch: pool 0:5 ends on cuda:3", "ended"])
        self.assertEqual(self.calls[-1], ("_cuda_endAllocateCurrentStreamToPool", 3))

    def test_graphs_and_pools(self):
        graph = self.cuda.CUDAGraph()
        graph.capture_begin(pool=(0, 7), capture_error_mode="relaxed")
        graph.capture_end()
        begun, captured = "torch: capture begins on cuda:1", "torch: pool 0:7 captured on cuda:1"
        self.assertEqual(self.take(), [begun, captured, "ended"])
        graph.reset()
        self.assertEqual(self.take(), ["torch: pool 0:7 released on cuda:1"])
        self.assertEqual(self.calls, [("capture_begin", (0, 7), "relaxed"), "capture_end", "reset"])
        graph.capture_begin()
        self.calls.insert(0, "fail")
        self.assertRaises(OSError, graph.capture_end)
        del graph
        self.assertEqual(self.take(), [begun, "torch: capture fails on cuda:1"])
        pool = self.cuda.MemPool(allocator="own")
        del pool
        self.assertEqual(self.take(), ["torch: pool 0:9 made on cuda:1", "loss", "torch: pool 0:9 deleted on cuda:1"])

    def test_trouble_is_none_of_the_programs(self):
        self.cuda.current_device = None
        self.cuda.CUDAGraph().capture_begin()
        self.assertEqual(self.native._cuda_emptyCache(), "answer of _cuda_emptyCache")
        self.assertEqual(self.take(), [b"memprof's PyTorch shim is without emptied caches and private pools: TypeError: "
                                       b"'NoneType' object is not callable"])


class Loaders(unittest.TestCase):
    """Batches that may be ready before their turn, on a stand-in of a DataLoader's iterator."""

    def setUp(self):
        self.told = []

        class Iterator:
            def __init__(self, loader):
                self._num_workers, self._prefetch_factor, self._pin_memory, self._dataset_kind = loader

        self.iterator = Iterator
        dataloader = types.SimpleNamespace(_MultiProcessingDataLoaderIter=Iterator)
        self.torch = types.SimpleNamespace(utils=types.SimpleNamespace(data=types.SimpleNamespace(dataloader=dataloader)))
        self.api = {"torch_mark": lambda text: self.told.append(text.decode()), "shim": self.told.append}

    def take(self):
        told, self.told[:] = list(self.told), []
        return told

    def test_all_that_are_there_together(self):
        loaders.start(self.api, self.torch)
        first = self.iterator((4, 2, False, 0))
        self.assertEqual(self.take(), ["torch: DataLoader 6 ahead"])
        second = self.iterator(loader=(3, 5, True, 0))  # a thread pins: all of its batches may wait
        self.assertEqual(self.take(), ["torch: DataLoader 21 ahead"])
        del first
        third = self.iterator((2, 2, False, 1))  # a dataset that is iterated
        self.assertEqual(self.take(), ["torch: DataLoader 19 ahead"])
        del second, third
        one = self.iterator((1, 7, False, 0))
        self.assertEqual(self.take(), ["torch: DataLoader 0 ahead"])
        self.assertEqual(one._num_workers, 1)

    def test_trouble_is_none_of_the_programs(self):
        loaders.start(self.api, self.torch)
        self.iterator((None, 2, False, 0))
        self.iterator((4, 2, False, 0))
        self.assertEqual(len(self.take()), 1)
        self.assertRaises(TypeError, self.iterator, 1)

    def test_a_torch_without_workers(self):
        loaders.start(self.api, types.SimpleNamespace(utils=types.SimpleNamespace(data=types.SimpleNamespace(
            dataloader=types.SimpleNamespace()))))
        self.assertEqual(self.take(), [])


START = """
import sys
print(sys.modules["sitecustomize"].__file__ if "sitecustomize" in sys.modules else None, "START" in str(sys.path))
import torch, later
import torch
import json
print(sorted(type(each).__name__ for each in sys.meta_path if type(each).__name__ == "_Finder"))
print("exec_module" in vars(torch.__spec__.loader))
"""


class Start(unittest.TestCase):
    """python/start/sitecustomize.py in a Python of its own."""

    def run_with(self, own=None, memprof="def start(torch, after_import):\n    print('start', torch.ready)\n"
                                        "    after_import('later', lambda module: print('then', module.__name__))\n",
                 **environment):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "START").mkdir()
            (folder / "START/sitecustomize.py").write_bytes((FOLDER / "start/sitecustomize.py").read_bytes())
            (folder / "own").mkdir()
            (folder / "own/torch.py").write_text("print('torch')\nready = True\n")
            (folder / "own/later.py").write_text("print('later')\n")
            (folder / "own/libmemprof_torch.py").write_text(memprof)
            (folder / "own/libmemprof_plan.py").write_text("def start(torch, after_import): print('plan', torch.ready)\n")
            if own is not None:
                (folder / "own/sitecustomize.py").write_text(own)
            path = f"{folder / 'START'}:{folder / 'own'}"
            result = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=False,
                                    env={**os.environ, "PYTHONPATH": path, **environment})
            return result.stdout.replace(name, "").splitlines(), result.stderr

    def test_the_programs_own(self):
        said, errors = self.run_with("print('own', __file__.rpartition('/')[2])")
        self.assertEqual((said, errors), (["own sitecustomize.py", "/own/sitecustomize.py False", "torch", "start True", "later",
                                           "then later", "[]", "False"], ""))

    def test_none_of_its_own(self):
        said, errors = self.run_with()
        self.assertEqual(said[1:], ["torch", "start True", "later", "then later", "[]", "False"])
        self.assertTrue(said[0].endswith(" False"))
        self.assertEqual(errors, "")

    def test_one_that_fails(self):
        said, errors = self.run_with("raise ValueError('own')")
        self.assertEqual(said, ["None False", "torch", "start True", "later", "then later", "[]", "False"])
        self.assertIn("ValueError: own", errors)

    def test_one_that_wants_torch(self):
        said, errors = self.run_with("import torch")
        self.assertEqual(said, ["torch", "start True", "/own/sitecustomize.py False", "later", "then later", "[]", "False"])
        self.assertEqual(errors, "")

    def test_a_plan(self):
        said, _ = self.run_with("", MEMPROF_PLAN="1")
        self.assertEqual(said[1:4], ["torch", "plan True", "start True"])

    def test_a_shim_that_fails(self):
        said, errors = self.run_with("", memprof="raise ValueError\n")
        self.assertEqual((said, errors), (["/own/sitecustomize.py False", "torch", "later", "[]", "False"], ""))


if __name__ == "__main__":
    asserted.main()
