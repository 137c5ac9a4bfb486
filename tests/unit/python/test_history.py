"""The part of the PyTorch shim that reads PyTorch's own history, and the one that follows its pools, on stand-ins.
LIBMEMPROF_FOLDER names the folder with their sources."""

import ctypes
import importlib
import os
import threading
import types
import unittest
import unittest.mock

from shim_case import ShimCase, libmemprof, shim, part  # first, as it finds the others
import asserted
import fake_torch

pools = importlib.import_module("libmemprof_torch.pools")


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
        """The expected row: kind, device, facts; five numbers."""
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
        self.assertEqual([call if call == "snapshot" else call[0] for call in asked], ["snapshot", "all", None, "state"])
        self.assertEqual(told, [1, 2, self.rows(), 1, 2, 3])
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
        self.assertEqual(self.taken(), (["snapshot", self.on()], [1, 2, self.rows()]))

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
        self.assertEqual(self.taken(), (["snapshot", self.on()], [1, 2, self.rows()]))

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
        """Includes settings that PyTorch had read from the environment before the first change."""
        change = self.native._cuda_cudaCachingAllocator_set_allocator_settings
        with unittest.mock.patch.dict(os.environ, {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
                                                   "PYTORCH_ALLOC_CONF": "max_split_size_mb:32"}):
            self.assertIn("answer of", change("expandable_segments:True"))
            change("")
        self.assertEqual(self.take(), ["torch: began with settings:max_split_size_mb:64",
                                       "torch: settings:expandable_segments:True", "torch: settings:"])

    def test_variables(self):
        """PyTorch's own precedence; up to 2.8 it does not know PYTORCH_ALLOC_CONF."""
        for is_new, variables, began in ((True, {"PYTORCH_ALLOC_CONF": "a:1"}, "a:1"), (False, {"PYTORCH_ALLOC_CONF": "a:1"}, ""),
                                         (True, {"PYTORCH_ALLOC_CONF": "a:1", "PYTORCH_CUDA_ALLOC_CONF": ""}, ""),
                                         (True, {}, "")):
            self.setUp()
            if is_new:
                self.native._accelerator_emptyCache = None
            with unittest.mock.patch.dict(os.environ, variables):
                self.native._cuda_cudaCachingAllocator_set_allocator_settings("b:1")
            self.assertEqual(self.take()[0], "torch: began with settings:" + began)

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


if __name__ == "__main__":
    asserted.main()
