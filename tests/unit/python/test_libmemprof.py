"""libmemprof against a fake recorder (FAKE_RECORDER names the library), and without any recorder."""

import ast
import asyncio
import ctypes
import importlib
import inspect
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import asserted

FOLDER = os.environ["LIBMEMPROF_FOLDER"]
sys.path.insert(0, FOLDER)
fake = ctypes.CDLL(os.environ["FAKE_RECORDER"], mode=ctypes.RTLD_GLOBAL)
fake.fake_log.restype = ctypes.c_char_p
mp = importlib.import_module("libmemprof")


class Numbers(unittest.TestCase):
    """Python and C have the same numbers for what passes between them."""
    SAME = (
        ("libmemprof_engines.py", "src/collect/session/unreached.h",
         {"ASKS": "MP_UNREACHED_ENGINE", "WORKS": "MP_REACHED_WORKER"}),
        ("libmemprof_torch/history.py", "src/wire/record.h",
         {name: "MP_READING_" + name for name in ("ALLOC", "SEGMENT", "PART", "END")}),
        ("libmemprof_torch/history.py", "src/base/words.h", {"SETTINGS": "MP_ASIDE_SETTINGS"}),
        ("libmemprof_torch/history.py", "src/capture/torch/torch_history.h", {"KEEP_BACK": "MP_ANNOTATIONS_KEEP_BACK"}),
        ("libmemprof_torch/roles.py", "src/base/words.h",
         {name: "MP_ROLE_" + name for name in ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "BUFFER")}),
        ("libmemprof_torch/servers.py", "src/base/words.h", {"KV_CACHE": "MP_ROLE_KV_CACHE"}),
        ("libmemprof_torch/holders.py", "src/collect/session/looks.c", {"WALL": "WALL"}))

    def test_each(self):
        top = pathlib.Path(__file__).resolve().parents[3]
        for source, header, names in self.SAME:
            ours = {}
            for statement in ast.parse((top / "python" / source).read_text()).body:
                if isinstance(statement, ast.Assign):
                    try:
                        values = ast.literal_eval(statement.value)
                    except ValueError:
                        continue
                    target = statement.targets[0]
                    ours.update(zip((one.id for one in target.elts), values) if isinstance(target, ast.Tuple)
                                else {getattr(target, "id", None): values}.items())
            for name, theirs in names.items():
                found = re.findall(rf"\b{theirs} *(?:=| )? *(-?\d+)\b", (top / header).read_text())
                self.assertEqual([str(ours[name])], found[:1], f"{source}: {name}")


class Recorded(unittest.TestCase):
    def setUp(self):
        fake.fake_clear()

    def told(self):
        return fake.fake_log().decode().splitlines()

    def test_simple_calls(self):
        self.assertTrue(mp.active())
        mp.stop()
        self.assertIs(mp.active(), False)
        mp.start()
        mp.step()
        mp.mark("half way \u00e9")
        mp.mark("\udcff")
        self.assertEqual(self.told(), ["stop", "start", "step", "mark half way \u00e9", "mark ?"])

    def test_region_as_context_manager(self):
        with self.assertRaises(KeyError), mp.region("outer"):
            with mp.region("inner"):
                pass
            raise KeyError
        self.assertEqual(self.told(), ["push outer", "push inner", "pop", "pop"])

    def test_region_is_reusable_and_needs_no_name(self):
        again = mp.region("again")
        with again, again, mp.region():
            pass
        self.assertEqual(self.told(), ["push again", "push again", "push ", "pop", "pop", "pop"])

    def test_region_as_decorator(self):
        @mp.region()
        def work(value, *, more):
            """Doc."""
            mp.mark("in")
            return value + more

        @mp.region("named")
        def fail():
            raise KeyError

        self.assertEqual((work.__name__, work.__doc__), ("work", "Doc."))
        self.assertEqual(work(1, more=2), 3)
        self.assertRaises(KeyError, fail)
        name = "push Recorded.test_region_as_decorator.<locals>.work"
        self.assertEqual(self.told(), [name, "mark in", "pop", "push named", "pop"])

    def test_a_decorator_needs_its_parentheses(self):
        with self.assertRaises(TypeError):
            @mp.region
            def work():
                pass

    def test_generators_are_in_the_region_only_while_they_run(self):
        @mp.region("g")
        def numbers(limit):
            mp.mark("first")
            sent = yield 1
            mp.mark(str(sent))
            try:
                yield 2
            except KeyError:
                mp.mark("caught")
            yield 3
            return limit

        def drive():
            result = yield from numbers(9)
            mp.mark("result " + str(result))

        generator = drive()
        self.assertEqual(self.told(), [])
        self.assertEqual(next(generator), 1)
        mp.mark("outside")
        self.assertEqual(generator.send("sent"), 2)
        self.assertEqual(generator.throw(KeyError()), 3)
        self.assertEqual(list(generator), [])
        self.assertEqual(self.told(), ["push g", "mark first", "pop", "mark outside", "push g", "mark sent", "pop",
                                       "push g", "mark caught", "pop", "push g", "pop", "mark result 9"])

    def test_closed_generators_clean_up_in_the_region(self):
        @mp.region("g")
        def numbers():
            try:
                yield 1
            finally:
                mp.mark("cleanup")

        generator = numbers()
        next(generator)
        generator.close()
        self.assertEqual(self.told(), ["push g", "pop", "push g", "mark cleanup", "pop"])

    def test_async_functions_do_not_mix_their_regions(self):
        @mp.region("task")
        async def task(name):
            for turn in range(2):
                mp.mark(name + str(turn))
                await asyncio.sleep(0)
            return name

        async def main():
            return await asyncio.gather(task("a"), task("b"))

        self.assertTrue(inspect.iscoroutinefunction(task))
        self.assertEqual(asyncio.run(main()), ["a", "b"])
        slices = "|".join(self.told()).split("push task|")[1:]
        self.assertEqual([part.strip("|") for part in slices],
                         ["mark a0|pop", "mark b0|pop", "mark a1|pop", "mark b1|pop", "pop", "pop"])

    def test_async_functions_can_fail_and_be_cancelled(self):
        @mp.region("task")
        async def wait():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                mp.mark("cancelled")
                raise

        async def main():
            running = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            running.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await running

        asyncio.run(main())
        self.assertEqual(self.told(), ["push task", "pop", "push task", "mark cancelled", "pop"])

    def test_async_generators(self):
        @mp.region("stream")
        async def stream():
            try:
                for number in range(9):
                    await asyncio.sleep(0)
                    sent = yield number
                    if sent:
                        mp.mark(sent)
            finally:
                mp.mark("end")

        async def main():
            items = []
            numbers = stream()
            items.append(await numbers.asend(None))
            items.append(await numbers.asend("sent"))
            await numbers.aclose()
            return items

        self.assertEqual(asyncio.run(main()), [0, 1])
        told = self.told()
        self.assertEqual([line for line in told if line.startswith("mark")], ["mark sent", "mark end"])
        depth = 0
        for line in told:
            depth += {"push": 1, "pop": -1}.get(line.split()[0], 0)
            self.assertEqual(depth, 1 if line.startswith(("push", "mark")) else 0)

    def test_threads(self):
        def work():
            for _ in range(50):
                with mp.region("thread"):
                    mp.step()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = self.told()
        self.assertEqual({line: told.count(line) for line in told}, {"push thread": 200, "step": 200, "pop": 200})

    def test_statistics(self):
        self.assertEqual(mp.stats(), mp.Stats(live_bytes=1 << 40, peak_bytes=3 << 40, live_blocks=7))
        self.assertEqual(mp.peak("cuda:0/torch"), 3 << 40)
        self.assertIsNone(mp.stats("unknown"))
        self.assertIsNone(mp.peak("unknown"))
        mp.reset_peak()
        mp.reset_peak("cpu/torch")
        self.assertEqual(self.told(), ["stats (default)", "stats cuda:0/torch", "stats unknown", "stats unknown",
                                       "reset_peak (default)", "reset_peak cpu/torch"])

    def test_snapshot(self):
        import pathlib
        self.assertIs(mp.snapshot(), True)
        self.assertIs(mp.snapshot(pathlib.Path("now.mp")), True)
        self.assertIs(mp.snapshot("refused.mp"), False)
        self.assertEqual(self.told(), ["snapshot (default)", "snapshot now.mp", "snapshot refused.mp"])

    def test_release_of_cupti(self):
        self.assertIs(mp.release_cupti(), True)
        self.assertIs(mp.release_cupti(), False)
        self.assertEqual(self.told(), ["release_cupti", "release_cupti"])


NOT_RECORDED = """
import sys
sys.path.insert(0, sys.argv[1])
import libmemprof as mp
def work(): return 1
assert mp.region()(work) is work
with mp.region("r"): pass
mp.start(); mp.stop(); mp.step(); mp.mark("m"); mp.reset_peak(); mp.reset_peak("t")
assert (mp.active(), mp.snapshot(), mp.snapshot("x"), mp.stats(), mp.peak()) == (False, False, False, None, None)
assert mp.release_cupti() is False
for name in mp.__all__: getattr(mp, name)
"""


class NotRecorded(unittest.TestCase):
    def run_python(self, code, *options):
        command = [sys.executable, *options, "-c", code, FOLDER]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_everything_does_nothing(self):
        self.run_python(NOT_RECORDED, "-W", "error")

    def test_python_without_ctypes(self):
        self.run_python("import sys; sys.modules['ctypes'] = None" + NOT_RECORDED)


class Tables(unittest.TestCase):
    def test_a_recorders_table_is_taken_to_its_end(self):
        """A table that ends anywhere yields the members that its header lists, in order, and nothing after its end."""
        header = (pathlib.Path(FOLDER).parent / "include/memprof.h").read_text()
        members = header[header.index("struct memprof_api_v1 {"):header.index("memprof_api_(void)")]
        names = re.findall(r"^    \w+ \(\*(\w+)\)\(", members, re.MULTILINE)
        self.assertGreater(len(names), 20)
        table = (ctypes.c_void_p * 100)(*[ctypes.cast(fake.fake_clear, ctypes.c_void_p).value] * 100)
        library = unittest.mock.Mock(memprof_api_v1=lambda: ctypes.addressof(table))
        unbound = {"pool", "alloc", "free"}  # Python's blocks are announced by nobody
        for count in range(len(names) + 1):
            table[0] = (count + 1) * ctypes.sizeof(ctypes.c_void_p)
            with unittest.mock.patch("ctypes.CDLL", lambda _: library):
                bound = set(mp._bind()) - {"new_stats"}
            self.assertEqual(bound, set(names[:count]) - unbound, count)


class ModuleNames(unittest.TestCase):
    """The names that the PyTorch shim gives modules, compared with a plain list of live modules."""

    class Module:
        def __init__(self, **children):
            self._modules = children

    def setUp(self):
        modules = importlib.import_module("libmemprof_torch.modules")
        self.told = {}
        self.names = modules.Names(self.tell, None)
        self.kinds = [type(name, (self.Module,), {}) for name in ("Net", "Head", "Block")]

    def tell(self, address, path):
        if path is None:
            del self.told[address]
        else:
            self.told[address] = path.decode()

    def born(self, kind, **children):
        module = kind(**children)
        self.names.born(module)
        return module

    def test_roots_are_numbered_by_class_and_numbers_come_back(self):
        dice, live = random.Random(3), []  # (module, name)
        for _ in range(300):
            for _ in range(dice.randrange(3)):
                if live:
                    live.pop(dice.randrange(len(live)))
            fresh = [self.born(dice.choice(self.kinds)) for _ in range(dice.randrange(4))]
            self.names.look()
            for module in fresh:
                taken = {name for _, name in live}
                kind = type(module).__name__
                numbered = (kind if number == 1 else f"{kind}#{number}" for number in itertools.count(1))
                live.append((module, next(name for name in numbered if name not in taken)))
            module = fresh = None
            self.names.look()
            self.assertEqual(self.told, {id(module): name for module, name in live})
            module = None
        self.assertGreater(len({name for _, name in live}), 1)

    def test_children_have_paths(self):
        net, head, block = self.kinds
        first, second = self.born(block), self.born(block)
        inner = self.born(head, left=first, right=second, none=None)
        root = self.born(net, body=inner)
        self.names.look()
        self.assertEqual({id(root): "Net", id(inner): "Net.body", id(first): "Net.body.left",
                          id(second): "Net.body.right"}, self.told)
        outer = self.born(net, inner=root)  # a parent comes later: at a full look all are named anew
        self.names._next_full_ns = 0
        self.names.look()
        self.assertEqual(self.told[id(outer)], "Net#2")
        self.assertEqual(self.told[id(second)], "Net#2.inner.body.right")


if __name__ == "__main__":
    asserted.main()
