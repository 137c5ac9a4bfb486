"""PyTorch's own history of its CUDA allocator, without stacks, and its segments: requested bytes, stream and pool. The
collector joins them to the recorded blocks.

It begins when the program has initialized CUDA, unless the program records its own history. It is hidden from the
program: torch answers as if it were off, and the program's own history replaces it. The shim reads and empties
PyTorch's ring after regions and steps, at the program's end, and for a snapshot that the program asks for. Readings
take at most a part of the time (SHARE). On request the part is larger, if the ring would overflow otherwise. If the
ring has lost an allocation by the next reading, the request is known only for a block that still lives.
"""

import array
import atexit
import os
import threading
import time

import libmemprof
from libmemprof_torch import TROUBLE, complain, is_of_signal

# One part in so many of the time. A plan's time is not the user's. Strings in a ring that is emptied seldom leave holes in
# the heap, up to 0.6 MiB a step of a program with a CPU feed. They look like the program's growth.
ASKED_SHARE = 10
SHARE = ASKED_SHARE if "MEMPROF_PLAN" in os.environ else 200
LOSS_SHARE, LOSS_NS = 20, 500_000_000  # of readings after a pool's end: a part of the time, and so much at once
READ_NS = 20_000_000  # what one reading should take: PyTorch keeps the GIL meanwhile
ENTRIES_LEAST, ENTRIES_MOST = 1024, 32768  # in PyTorch's ring; up to 2.6 an allocation and its free are three
WITHOUT = ["free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot"]
ALLOC, SEGMENT, PART, END = 1, 2, 3, 4  # enum mp_reading_kind (src/wire/record.h)
SETTINGS = 3  # enum mp_aside_kind (src/base/words.h)
KEEP_BACK, LET_BE, ADD = 1, 2, 3  # enum mp_torch_annotations (src/capture/torch/torch_history.h)
SMALL, EXPANDABLE, WHOLE = 1, 2, 1
PROVEN = ("2.6", "2.7", "2.9", "2.11", "2.13", "2.15")  # where tests/cuda_torch/check_allocations.py passes; on others where it was asked for
ASKED, WHERE_PROVEN = 0, 1  # the recorder's answers (include/memprof.h)
STATES = {"inactive": 0, "active_allocated": 1, "active_pending_free": 2, "active_awaiting_free": 2}
NUMBERS = 6  # in a row
MASK = UNKNOWN = (1 << 64) - 1
IS_ON, SNAPSHOT = "_cuda_isHistoryEnabled", "_cuda_memorySnapshot"
RECORD = ("_cuda_record_memory_history", "_cuda_record_memory_history_legacy", "_cuda_recordMemoryHistory")


def start(api, torch):
    """None: this torch was built without CUDA."""
    if not hasattr(torch._C, SNAPSHOT):
        return None
    history = History(api, torch)
    if torch.cuda.is_initialized():
        history.begin()
    else:
        torch.cuda._queued_calls.append((history.begin, []))  # run when the program initializes CUDA
    return history


class History:
    def __init__(self, api, torch):
        self._api, self._tell = api, api["torch_history"]
        self._torch, self._C = torch, torch._C
        self._pid = 0  # in which it runs
        self._lock = threading.RLock()
        self._reading = self._off = False
        self._asked = False  # by --torch-history
        self._on = False  # PyTorch records for us,
        self._theirs = self._told = False  # for the program, which was said
        self._own = 0  # the thread in which we turn it on or off
        self._originals, self._settings = {}, {}
        self._entries, self._next_ns, self._emptied_ns = ENTRIES_MOST, 0, 0
        self._due = False  # a pool ended: its segments say whose their blocks are, as long as they are there
        self._spent_ns, self._begun_ns = 0, 0  # on such readings
        self._told_settings = None

    # ---- on and off

    def begin(self):
        self._guarded(self._begin)

    def _begin(self):
        wanted = -1 if self._pid else self._tell(None, 0)
        if wanted == WHERE_PROVEN and not self._is_proven():
            self._api["shim"](f"PyTorch's own history (requested sizes, streams, pools) was not read: with torch "
                              f"{self._torch.__version__} that was never run on CUDA, only with {', '.join(PROVEN)}; "
                              f"--torch-history reads it".encode())
        elif wanted >= 0:
            self._asked = wanted == ASKED
            self._start()

    def _is_proven(self):
        return ".".join(str(self._torch.__version__).split(".")[:2]) in PROVEN

    def _start(self):
        # Imported when the history begins: not at the start of every program, and not at the first use, which may come
        # in a weak reference's callback, in the middle of an import.
        import json
        self._json = json.dumps
        # Only functions of torch that select no device: selecting one would make a context on a device that the program
        # does not use.
        memory = self._torch.cuda.memory
        self._record, parameters = memory._record_memory_history, _parameters(memory._record_memory_history)
        if "context" not in parameters or not hasattr(self._C, IS_ON):
            raise RuntimeError(f"torch {self._torch.__version__} records none without stacks")
        self._named = {"context": None, "stacks": "python"}
        # The callback that PyTorch runs at each record_function belongs to the thread that first turned it on. No other
        # thread can remove it, so it stays. Callbacks for all threads are different: any thread can remove them.
        more = {"skip_actions": WITHOUT, "clear_history": True, "global_record_annotations": True}
        self._named.update((name, value) for name, value in more.items() if name in parameters)
        self._hide()
        if not self._is_theirs():  # what is to be seen while it is off
            settings = self._snapshot().get("allocator_settings", {})
            self._settings = {key: value for key, value in settings.items() if key.startswith("trace_")}
            self._tell_settings(settings)  # memory may run out before anything is read
        self._turn_on()

    def _snapshot(self):
        snapshot = self._originals[SNAPSHOT]
        try:
            return snapshot(None)
        except TypeError:  # up to 2.6 it takes nothing
            return snapshot()

    def _turn_on(self):
        if not self._on and self._is_theirs():
            return
        self._on = True
        self._call_record("all", max_entries=self._entries, **self._named)
        self._emptied_ns = time.perf_counter_ns()

    def _is_theirs(self):
        if not self._theirs and not self._originals[IS_ON]():
            return False
        if not self._told:
            self._told = True
            self._api["shim"](b"the program records PyTorch's own history itself: while it does, memprof's PyTorch "
                              b"shim does not read it (requested sizes, streams, pools)")
        return True

    def _turn_off(self):
        if self._on:
            self._call_record(None)
            self._on = False

    def _empty(self):
        if "clear_history" not in self._named:
            self._turn_off()
        self._turn_on()

    def _call_record(self, *arguments, **named):
        self._own = threading.get_ident()
        self._tell(None, KEEP_BACK)
        try:
            self._record(*arguments, **named)
        finally:
            self._tell(None, LET_BE)
            self._own = 0

    def _guarded(self, function):
        try:
            function()
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            self._stop()
            complain(self._api, "PyTorch's own history (requested sizes, streams, pools)", trouble)

    def _stop(self):
        self._off = True
        try:
            self._turn_off()
        except TROUBLE as trouble:
            self._on = False
            if is_of_signal(trouble):
                raise

    # ---- hiding from the program

    def _hide(self):
        self._pid = os.getpid()
        for name in (*RECORD, IS_ON, SNAPSHOT):
            if hasattr(self._C, name):
                self._originals[name] = getattr(self._C, name)
        for name in RECORD:
            if name in self._originals:
                setattr(self._C, name, self._giving_way(self._originals[name]))
        is_on, snapshot = self._originals[IS_ON], self._originals[SNAPSHOT]
        setattr(self._C, IS_ON, lambda: not self._on and is_on())
        setattr(self._C, SNAPSHOT, lambda *arguments: self._without_ours(snapshot, arguments))
        atexit.register(self._end)
        os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork)
        libmemprof._before_snapshot.append(self.read)

    def _giving_way(self, record):
        def record_memory_history(*arguments, **named):
            if self._own == threading.get_ident() or self._pid != os.getpid():
                return record(*arguments, **named)
            with self._lock:
                self._read_before_loss()
                self._guarded(self._turn_off)
                self._tell(None, ADD)
                answer = record(*arguments, **named)
                self._theirs = bool(arguments[0] if arguments else named.get("enabled"))
                if not self._theirs and not self._off:
                    self._guarded(self._turn_on)
                return answer
        return record_memory_history

    def _without_ours(self, snapshot, arguments):
        """The program's own snapshot must not have the shim's entries, so these are read first."""
        if not self._on:
            return snapshot(*arguments)
        if self._pid != os.getpid():  # a forked child, in which nothing of CUDA is to be touched
            return self._stripped(snapshot(*arguments))
        with self._lock:
            self.read()
            self._guarded(self._empty)
            return self._stripped(snapshot(*arguments))

    def _stripped(self, snapshot):
        if "device_traces" in snapshot:
            snapshot["device_traces"] = [[] for _ in snapshot["device_traces"]]
        if "external_annotations" in snapshot:
            snapshot["external_annotations"] = []
        if "allocator_settings" in snapshot:
            snapshot["allocator_settings"].update(self._settings)
        return snapshot

    # ---- reading

    def look(self):
        """Called wherever the shim runs."""
        if self._pid and time.perf_counter_ns() >= self._next_ns:
            self.read()

    def read(self):
        if self._pid != os.getpid() or self._off or self._reading or not self._lock.acquire(blocking=False):
            return
        self._reading = True
        try:
            self._guarded(self._read)
        finally:
            self._reading = False
            self._lock.release()

    def pool_ended(self):
        """The next check reads the ring, as long as early readings take at most a part of the time."""
        self._due = True
        if self._may_be_early():
            self._next_ns = 0

    def before_loss(self):
        """Segments of an ended pool may go, so this also asks for a reading."""
        if self._due:
            self._read_before_loss()

    def _read_before_loss(self):
        self._due = True
        if self._on and not self._off and self._may_be_early():
            self.read()

    def _may_be_early(self):
        now = time.perf_counter_ns()
        self._begun_ns = self._begun_ns or now
        return self._spent_ns <= LOSS_NS + (now - self._begun_ns) // LOSS_SHARE

    def _before_fork(self):
        """A child has no history: PyTorch's callback at record_function would use CUDA there, and write that it
        failed."""
        if self._pid == os.getpid():
            self._read_before_loss()
        self._locked(self._turn_off)

    def _after_fork(self):
        if not self._off:
            self._locked(self._turn_on)

    def _end(self):
        """Later parts of the program's end must not see the shim."""
        self.read()
        self._locked(self._stop)

    def _locked(self, function):
        if self._pid == os.getpid() and self._lock.acquire(timeout=1):
            try:
                self._guarded(function)
            finally:
                self._lock.release()

    def _read(self):
        begun, begun_own = time.perf_counter_ns(), time.thread_time_ns()
        moment, offset = _clocks()
        if not self._on:
            self._turn_on()
        # Each reading of the segments would add an entry to the program's own history.
        if not self._on:
            self._next_ns = begun + READ_NS
            return
        snapshot = self._whole_snapshot()
        early, self._due = self._due, False
        self._tell_settings(snapshot.get("allocator_settings"))
        runs_over_ns = self._runs_over_in(snapshot, begun)
        self._fit(snapshot, time.thread_time_ns() - begun_own)
        self._empty()
        rows = array.array("Q")
        for device, trace in enumerate(snapshot["device_traces"]):
            _add_trace(rows, device, trace, offset)
        for segment in snapshot["segments"]:
            _add_segment(rows, segment)
        rows.extend((END | WHOLE << 16, 0, len(rows) // NUMBERS, 0, 0, moment))
        if self._tell(rows.buffer_info()[0], len(rows) // NUMBERS) < 0:
            self._stop()
        now = time.perf_counter_ns()
        self._spent_ns += now - begun if early else 0
        pause = SHARE * (now - begun)
        if self._asked:
            pause = min(pause, max(ASKED_SHARE * (now - begun), runs_over_ns // 2))
        self._next_ns = now + pause

    def _runs_over_in(self, snapshot, now):
        """Reads when the ring has filled since it was emptied, or sooner: lost entries are not counted."""
        fullest = max(map(len, snapshot["device_traces"]), default=0)
        return (now - self._emptied_ns) * self._entries // max(fullest, 1)

    def _whole_snapshot(self):
        """If this thread uses a MemPool, PyTorch 2.6 would list only that pool's segments."""
        context = getattr(self._C, "_MemPoolContext", None)
        if context is None or context.active_pool() is None:
            return self._snapshot()
        outside = context(None)  # as long as it lives
        try:
            return self._snapshot()
        finally:
            del outside

    def _tell_settings(self, settings):
        """The allocator's settings, without those of the shim's history."""
        if not settings or "aside" not in self._api:
            return
        settings = {key: value for key, value in settings.items() if not key.startswith("trace_")}
        if settings == self._told_settings:
            return
        self._told_settings = settings
        text = ",".join(_setting(key, value) for key, value in settings.items())
        self._api["aside"](SETTINGS, text.encode("utf-8", "replace"))

    def _fit(self, snapshot, took):
        """The ring gets as many entries as can be read in READ_NS of a processor. A busy machine needs no more
        processor time, and a smaller ring would only lose more. One slow reading does not shrink the ring either,
        because the first readings are several times slower."""
        things = sum(len(trace) for trace in snapshot["device_traces"]) + len(snapshot.get("external_annotations", ()))
        things += sum(len(segment["blocks"]) for segment in snapshot["segments"])
        if things >= ENTRIES_LEAST:
            room = max(ENTRIES_LEAST, min(ENTRIES_MOST, READ_NS * things // max(took, 1)))
            self._entries = room if took > READ_NS else max(room, self._entries)


def _setting(key, value):
    """The form that an import of a snapshot keeps (mp_pytorch_settings() in
    src/exchange/pytorch/pytorch_model.c)."""
    if isinstance(value, dict):  # roundup_power2_divisions
        value = f"[{','.join(f'{size}:{divisions}' for size, divisions in value.items())}]"
    return f"{key}={str(value).lower() if isinstance(value, bool) else value}"


def _clocks():
    """The current time, and the difference to PyTorch's times. The closest of several pairs of readings counts, since
    the thread may lose its processor between two clocks."""
    looks = []
    for _ in range(5):
        before, theirs, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        looks.append((after - before, before - theirs))
    return after, min(looks)[1]


def _parameters(function):
    import inspect

    return inspect.signature(function).parameters


def _add_trace(rows, device, trace, offset):
    what, add = ALLOC | device << 8, rows.extend
    for entry in trace:
        if entry["action"] == "alloc" and "time_us" in entry:  # since 2.2; before, of what lives alone
            pool = entry.get("pool_id") or entry.get("segment_pool_id")
            add((what, entry["addr"] & MASK, entry["size"], entry["stream"] & MASK,
                 (pool[0] << 32 | pool[1]) & MASK if type(pool) is tuple else UNKNOWN,
                 entry["time_us"] * 1000 + offset & MASK))


def _add_segment(rows, segment):
    device, add = segment["device"] << 8, rows.extend
    flags = (SMALL if segment["segment_type"] == "small" else 0) | (EXPANDABLE if segment.get("is_expandable") else 0)
    pool = segment.get("segment_pool_id", (0, 0))
    add((SEGMENT | device | flags << 16, segment["address"] & MASK, segment["total_size"], segment["stream"] & MASK,
         (pool[0] << 32 | pool[1]) & MASK, 0))
    part = {state: PART | device | number << 16 for state, number in STATES.items()}
    for block in segment["blocks"]:
        add((part[block["state"]], block.get("requested_size", 0), block["size"], 0, 0, 0))
