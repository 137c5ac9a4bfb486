"""Looks for what holds host memory in programs without PyTorch (`snapshot --host --holders`). If PyTorch is imported
later, its looks take over. A look comes at marked steps, when the recorder sees blocks of the C allocator
(mp_holders_host() in src/capture/torch/holders.c), and at the end.
"""

import atexit
import collections
import gc
import signal
import sys
import threading

import libmemprof
from libmemprof_torch import TROUBLE, complain, holders_arrays, holders_census, holders_last, holders_looks, is_of_signal
from libmemprof_torch import holders_names as naming

UNKNOWN = holders_looks.KINDS.index("unknown")


def start():
    api = libmemprof._api
    looks = HostLooks(api) if "holder_due" in api else None
    if looks and holders_looks.ask_by(api, looks):
        holders_looks.without_torch.append(looks)
        atexit.register(looks.look_at_the_end)
        holders_looks.wake_by_signal(api, looks)


class HostLooks(holders_looks.Waking):
    def __init__(self, api):
        super().__init__(api)
        self._census, self._last = holders_census.Census(), holders_last.LastFrames()
        self._looking = self._off = False

    def end(self):
        """PyTorch's looks take over."""
        self._off = True
        atexit.unregister(self.look_at_the_end)
        self.see_who_is_woken()  # the program may have put a handler of its own there
        if self._wakes and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGURG, signal.SIG_DFL)

    def look_if_due(self):
        self.see_who_is_woken()
        if threading.current_thread() is threading.main_thread():
            self._last.note(sys._getframe())
        if self._may_look():
            due = self._api["holder_due"]()
            if due & ~holders_looks.SHORT:
                self._look((due & ~holders_looks.SHORT) * 1_000_000, bool(due & holders_looks.SHORT))

    def look_at_the_end(self):
        if self._may_look():
            self._api["holder_due"]()
            self._look(holders_looks.END_NS, False)
            self._off = True

    def _may_look(self):
        """While PyTorch is imported, its own looks are near."""
        return not self._looking and not self._off and "torch" not in sys.modules and self._api["active"]()

    def _look(self, budget_ns, is_short):
        self._looking, was_on = True, gc.isenabled()
        gc.disable()
        try:
            arrays = holders_arrays.Arrays(naming.Frames(self._last.frames()), budget_ns)
            kinds = None if is_short and not self._census.is_new() else collections.Counter(map(type, gc.get_objects()))
            for name, value in self._census.take(arrays, kinds, arrays.held):
                self._api["holder"](None, 0, UNKNOWN, 0, holders_looks.encoded(name), b"", value)
            arrays.forget()
            note = b"" if arrays.complete else b"the look was out of time"
            self._api["holder"](None, 0, 0, int(arrays.complete), note, b"", 0)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            self._off = True
            complain(self._api, "what holds host memory", trouble)
        finally:
            self._looking = False
            if was_on:
                gc.enable()
