"""Decides when the program looks for holders of its tensors, and passes the results to the recorder. A look comes at
the end of the program, and when the recorder says that one is due (src/capture/torch/holders.c). With --holders, one
also comes when the collector wakes a waiting program. All looks run between two instructions of the main thread;
holders.py does the work.
"""

import array
import atexit
import contextlib
import ctypes
import gc
import multiprocessing.util
import os
import signal
import sys
import threading
import time
import weakref

from libmemprof_torch import (TROUBLE, complain, holders, holders_census, holders_graphs, holders_last, holders_names,
                              is_of_signal, loaders)

KINDS = ("none", "list", "dict", "attribute", "closure", "local", "default", "hook", "cache", "traceback", "graph",
         "thread", "native", "unknown")  # enum mp_holder_kind (src/base/words.h)
END_OF_PLAN_NS = 60_000_000_000  # a plan's last look should see everything
END_NS = 2_000_000_000  # with --holders without --budget: nobody waits for the end of a program as for one of its steps
END_PERCENT = 5  # of the time that the program ran: its last look without --holders, from BUDGET_NS to END_NS
SHORT, GIVEN = 1 << 31, 1 << 30  # MP_HOLDERS_SHORT and MP_HOLDERS_GIVEN (src/wire/config.h)
BLOCKS_MOST = 50_000  # that are told of one look
CHILD_OBJECTS_MOST = 300_000  # that a look in a forked child visits: they are the parent's until they are touched
PUT_OFF_MOST = 8
ASK_MOST = 10  # times that a recorder which is late is asked how much lives

without_torch = []  # looks that began when NumPy was imported (holders_host.py)


def start(api, torch):
    for before in without_torch:
        before.end()
    looks = Looks(api, torch)
    atexit.register(looks.look_at_the_end)
    with contextlib.suppress(AttributeError, RuntimeError):
        threading._register_atexit(looks.look_where_threads_go_on)
    looks.look_where_a_child_ends()
    multiprocessing.util.register_after_fork(looks, Looks.look_where_a_child_ends)
    budget = ask_by(api, looks)
    if budget:
        looks.budget_ns, looks.at_steps, looks.is_usual = (budget & ~GIVEN) * 1_000_000, True, not budget & GIVEN
        wake_by_signal(api, looks)
    return looks


def wake_by_signal(api, looks):
    """A program that sleeps, or only computes, passes no hook. The collector then sends SIGURG, as long as it knows
    that this handler is installed; system calls go on afterwards."""
    if "holder_wakes" not in api or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGURG) == signal.SIG_DFL:
        handler = _Woken(looks)
        weakref.finalize(handler, api["holder_wakes"], 0)  # the program has put its own there, or ends
        signal.signal(signal.SIGURG, handler)
        signal.siginterrupt(signal.SIGURG, False)
        looks.woken_by = weakref.ref(handler)
        looks.see_who_is_woken()


class _Woken:
    """The signal's handler. Nothing here refers to the handler, so it is freed when another handler
    replaces it, unless the program holds it. see_who_is_woken() finds that out."""

    __slots__ = ("_looks", "__weakref__")

    def __init__(self, looks):
        self._looks = looks

    def __call__(self, number, frame):
        self._looks.look_if_due()


class Ask:
    """The recorder reads the object's truth value when a look is due."""

    __slots__ = ("_looks",)

    def __init__(self, looks):
        self._looks = looks

    def __bool__(self):
        self._looks.look_if_due()
        return False


class Waking:
    """Looks that SIGURG wakes. Subclasses have look_if_due()."""

    def __init__(self, api):
        self._api, self._wakes, self.woken_by = api, False, lambda: None

    def see_who_is_woken(self):
        """A program that replaced the handler may have kept it, and may install it again."""
        handler = self.woken_by()
        wakes = handler is not None and signal.getsignal(signal.SIGURG) is handler
        if wakes != self._wakes:
            self._wakes = wakes
            self._api["holder_wakes"](int(wakes))


def ask_by(api, looks):
    """Lets the recorder ask; its answer, 0 without --holders."""
    ask = Ask(looks)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(ask))  # the recorder has its address
    return api["holder_ask"](ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p), id(ask))


class Looks(Waking):
    def __init__(self, api, torch):
        super().__init__(api)
        self._torch = torch
        self._saved, self._census = holders_graphs.SavedHooks(torch), holders_census.Census()
        self._mode = getattr(torch._C, "_get_torch_function_mode", lambda: None)  # 1.13: it is not to be turned off
        self._looking = self._off = self._ended = False
        self._began_in = os.getpid()
        self._began_ns, self._was_short = (time.monotonic_ns(), time.process_time_ns()), False  # the last look lacked time
        self._puts = 0  # times in a row that a look was put off
        self.budget_ns, self.at_steps = holders.BUDGET_NS, False  # --holders was given
        self.is_usual = True  # --budget was not given
        self._in_plan, self._last = "MEMPROF_PLAN" in os.environ, holders_last.LastFrames()

    def look_if_due(self):
        self.see_who_is_woken()
        self._note_last_frames()
        if self._may_look() and not self._puts_off() and self._has_reason():
            due = self._api["holder_due"]()
            is_short, budget_ns = bool(due & SHORT), (due & ~SHORT) * 1_000_000
            if budget_ns:  # less than usual: whoever asks has said so
                self._look(max(budget_ns, self._more_ns() if budget_ns >= holders.BUDGET_NS and not is_short else 0), is_short)

    def _more_ns(self):
        """After a look without enough time, the next one may take 1 % of the time that the program has run."""
        return min(END_NS, self._ran_ns() // 100) if self._was_short and self.is_usual else 0

    def _ran_ns(self):
        """As long as the program has computed, and not longer than by the clock."""
        return min(time.monotonic_ns() - self._began_ns[0], time.process_time_ns() - self._began_ns[1])

    def look_where_threads_go_on(self):
        """Python waits for threads before it calls atexit. A thread may wait until an object that main() made is freed,
        so the frames of the last calls must not keep it then."""
        if self._last.frames() and any(each.is_alive() and not each.daemon for each in threading.enumerate()
                                       if each is not threading.main_thread()):
            if not self._is_forked() and self._may_look():
                self._look(self._end_ns())
            self._last.forget()

    def _note_last_frames(self):
        if not self._is_forked() and threading.current_thread() is threading.main_thread():
            self._last.note(sys._getframe())

    def _puts_off(self):
        """Within backward(), graphs cannot be read. The recorder asks again after 100 ms or more."""
        amid = self._puts < PUT_OFF_MOST and holders_names.is_amid_backward(sys._getframe())
        self._puts = self._puts + 1 if amid else 0
        return amid

    def look_where_a_child_ends(self):
        """Children that multiprocessing forks, such as a DataLoader's workers, end without atexit. The functions that
        multiprocessing runs at their end were forgotten at their begin."""
        self._ended = False
        multiprocessing.util.Finalize(None, self.look_at_the_end, exitpriority=1)

    def look_at_the_end(self):
        if not self._ended and self._may_look():
            self._ended = True
            if self._has_reason():
                self._look(self._end_ns())
                self._last.forget()
            loaders.end()

    def _end_ns(self):
        due_ns = (self._api["holder_due"]() & ~SHORT) * 1_000_000
        if self._in_plan and not self._is_forked():
            return END_OF_PLAN_NS
        if self.at_steps or self._is_forked():
            return max(due_ns, END_NS) if self.at_steps and self.is_usual else due_ns or self.budget_ns
        return max(self.budget_ns, min(END_NS, self._ran_ns() * END_PERCENT // 100))

    def _is_forked(self):
        return os.getpid() != self._began_in

    def _has_reason(self):
        """In a forked child, a look counts references to all of the parent's objects, and so copies their memory. A
        look is made only if the child computes tensors, or if one was requested, and only if tensors of its own are
        live."""
        if not self._is_forked():
            return True
        asked = self.at_steps or any(holders_names.of_a_worker())
        return asked and self._own_bytes() > 0

    def _own_bytes(self):
        """Live bytes that this process has allocated, as its recording began empty. 0: unknown."""
        if "stats" not in self._api:
            return 0
        stats = self._api["new_stats"]()
        for _ in range(ASK_MOST):
            if self._api["stats"](None, stats) == 0:
                return stats.live_bytes
        return 0

    def _may_look(self):
        return not self._looking and not self._off and self._api["active"]() and self._mode() is None

    def _look(self, budget_ns, is_short=False):
        self._looking = True
        was_on = gc.isenabled()
        gc.disable()  # what the look found lives until the recorder has been told
        interval = sys.getswitchinterval()
        try:
            stopped = self._stop_other_threads(budget_ns / 1e9, 2 * interval)
            most = CHILD_OBJECTS_MOST if self._is_forked() else holders.OBJECTS_MOST
            under = list(holders_names.of_a_worker()) if self._is_forked() and not self.at_steps else None
            census = None if under or is_short and not self.at_steps else self._census
            last = self._ended and holders_last.frames_of_the_last_error() or self._last.frames()
            self._tell(holders.Look(self._torch, budget_ns=budget_ns, saved=self._saved, objects_most=most,
                                    last=last, sees_views=not stopped, census=census, under=under, is_short=is_short,
                                    collects=was_on))
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            self._off = True
            complain(self._api, "what holds tensors", trouble)
        finally:
            self._looking, last = False, ()
            sys.setswitchinterval(interval)
            if was_on:
                gc.enable()

    def _stop_other_threads(self, seconds, soon):
        """In a plan. A look refers to all objects; if another thread dropped a tensor meanwhile, its memory would stay.
        A thread that already waits for the interpreter asks for it `soon`, and so before the look."""
        if not self._in_plan or len(sys._current_frames()) == 1:
            return False
        sys.setswitchinterval(max(seconds, soon))
        until = time.perf_counter() + soon
        while time.perf_counter() < until:
            pass
        return True

    def _tell(self, look):
        tell, left = self._api["holder"], BLOCKS_MOST
        for holder in look.run():
            addresses = array.array("Q", holder.addresses[:left])
            if len(addresses) < len(holder.addresses):
                look.complete = False
                look.notes.append(f"only the holders of {BLOCKS_MOST} blocks were reported")
            left -= len(addresses)
            if addresses:
                tell(addresses.buffer_info()[0], len(addresses), KINDS.index(holder.kind), int(holder.certain),
                     encoded(holder.path), encoded(holder.file or ""), holder.line)
        for name, value in look.counted:
            tell(None, 0, KINDS.index("unknown"), 0, encoded(name), b"", value)
        self._was_short = not look.complete and not look.is_short
        tell(None, 0, 0, int(look.complete), encoded("; ".join(look.notes)), b"", 0)


def encoded(text):
    return text.encode("utf-8", "replace")
