"""The PyTorch shim on a stand-in of torch: everything that it reports to the recorder, in order, and everything that it
must not change. LIBMEMPROF_FOLDER names the folder with its sources."""

import ctypes
import functools
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

from shim_case import FOLDER, Clock, ShimCase, PARAMETER, GRADIENT, STATE, BUFFER, shim, part  # first, as it finds the others
import asserted
import fake_torch


class Starting(ShimCase):
    def test_all_parts(self):
        told = self.start()
        self.assertEqual([call[0] for call in told], ["shim", "module_code", "module_ask"])
        self.assertEqual(told[0], ("shim", None))
        code = self.torch.nn.Module.__call__.__code__
        self.assertEqual(told[1], ("module_code", id(code)))
        self.assertEqual(set(shim.parts), {"api", "labels", "history", "names"})
        self.assertIsNone(shim.parts["history"])  # this torch is without CUDA
        self.assertEqual([name for name, _ in self.wanted], ["torch._dynamo.eval_frame", "torch.utils.data.dataloader",
                                                             "torch.distributed.distributed_c10d"])

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
        """If the recorder lacks a call, only the part that needs the call is off. No message says so."""
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
                     and (code.co_name, constant.co_name) not in (  # of a default or a table, run at the import
                         ("<module>", "<lambda>"), ("<module>", "<dictcomp>"))]
        return found

    def test_dynamo_passes_over_all_of_it(self):
        wanted = set()
        for path in (FOLDER / "libmemprof_torch").glob("*.py"):
            importlib.import_module(f"libmemprof_torch.{path.stem}".removesuffix(".__init__"))
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
        before = signal.signal(signal.SIGUSR1, functools.partial(handler))
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
        self.answers["module_name"] = ctypes.ArgumentError("why")  # of no common kind
        self.assertEqual(self.ask(), [("module_name", id(other), b"Other"),
                                      ("shim", b"memprof's PyTorch shim is without names of modules: ArgumentError: why")])
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
            # Net.weight was labelled at naming.
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
        """Which of these steps of optimizers counted as steps of the program. `order` may begin with the optimizers
        that are made first, before a colon."""
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
        """All optimizers stay alive, as if schedulers referred to them in a cycle."""
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
        """As if a class of the program calls PyTorch's step(), and both have a region."""
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

    def test_phases_of_frameworks(self):
        names = {"transformers", "lightning", "pytorch_lightning", "accelerate"}
        part["regions"].is_installed, before = names.__contains__, part["regions"].is_installed
        self.addCleanup(setattr, part["regions"], "is_installed", before)
        self.start()

        class Trainer:
            def evaluation_loop(self, batches, *, fails=False):
                """How."""
                return 1 // (not fails), batches, self.save_model()

            def save_model(self):
                return "saved"
        follow = dict(self.wanted)
        follow["transformers.trainer"](types.SimpleNamespace(Trainer=Trainer))
        for name in names - {"transformers"}:  # a version without those classes
            for each in (each for each in follow if each.startswith(name + ".")):
                follow[each](types.SimpleNamespace())
        self.assertEqual(Trainer().evaluation_loop(3), (1, 3, "saved"))
        self.assertEqual(self.take(), [("region_push", b"evaluate"), ("region_push", b"save"), ("region_pop",), ("region_pop",)])
        with self.assertRaises(ZeroDivisionError):
            Trainer().evaluation_loop(3, fails=True)
        self.assertEqual(self.take(), [("region_push", b"evaluate"), ("region_pop",)])
        self.assertEqual((Trainer.evaluation_loop.__doc__, Trainer.evaluation_loop.__name__), ("How.", "evaluation_loop"))

    def test_ranks(self):
        """Each default process group that a process joins is marked; it leaves one as before."""
        self.start()
        (name, follow), = ((name, then) for name, then in self.wanted if name.startswith("torch.distributed"))
        self.assertEqual(name, "torch.distributed.distributed_c10d")
        group, joined = types.SimpleNamespace(rank=lambda: 1, size=lambda: 4), []
        module = types.ModuleType(name)
        exec("def _update_default_pg(group):\n    joined.append(group)\n    return len(joined)\n"  # noqa: S102
             "def join(group):\n    return _update_default_pg(group)\n", vars(module))
        module.joined = joined
        follow(types.ModuleType(name))  # a version without that function
        follow(module)
        self.assertEqual((module.join(group), module.join(None)), (1, 2))
        self.assertEqual(joined, [group, None])
        self.assertEqual(self.take(), [("mark", b"torch.distributed: rank 1 of 4")])

    def compiled(self):
        """The hook that Dynamo calls before what it compiled."""
        self.start()
        follow = dict(self.wanted)["torch._dynamo.eval_frame"]

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

    def test_compiled_within_a_step(self):
        """torchao compiles the update of one parameter: the step around it is the one."""
        enter, region = self.compiled(), self.torch.autograd.profiler.record_function

        class Own(self.torch.optim.Optimizer):
            def step(*args):
                with region("Optimizer.step#Own.step"):
                    leave = enter()
                    args[0].change()
                    leave()

        own = Own(self.parameters(1))
        own.step()
        self.assertEqual([call[0] for call in self.take() if call[0] == "torch_step"], ["torch_step"])

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
                                           "then later", "['_Finder']", "False"], ""))

    def test_none_of_its_own(self):
        said, errors = self.run_with()
        self.assertEqual(said[1:], ["torch", "start True", "later", "then later", "['_Finder']", "False"])
        self.assertTrue(said[0].endswith(" False"))
        self.assertEqual(errors, "")

    def test_one_that_fails(self):
        said, errors = self.run_with("raise ValueError('own')")
        self.assertEqual(said, ["None False", "torch", "start True", "later", "then later", "['_Finder']", "False"])
        self.assertIn("ValueError: own", errors)

    def test_one_that_wants_torch(self):
        said, errors = self.run_with("import torch")
        self.assertEqual(said, ["torch", "start True", "/own/sitecustomize.py False", "later", "then later", "['_Finder']", "False"])
        self.assertEqual(errors, "")

    def test_a_plan(self):
        said, _ = self.run_with("", MEMPROF_PLAN="1")
        self.assertEqual(said[1:4], ["torch", "plan True", "start True"])

    def test_a_shim_that_fails(self):
        said, errors = self.run_with("", memprof="raise ValueError\n")
        self.assertEqual((said, errors), (["/own/sitecustomize.py False", "torch", "later", "['_Finder']", "False"], ""))


if __name__ == "__main__":
    asserted.main()
