"""When the program looks for what holds its tensors, and telling the recorder what was found: at the end of the program,
and with --holders after some of its steps (src/capture/torch/holders.c says which). Both are between two instructions of
the main thread; holders.py does the looking.
"""

import array
import atexit
import ctypes

from libmemprof_torch import TROUBLE, complain, holders, holders_names, is_of_signal

KINDS = ("none", "list", "dict", "attribute", "closure", "local", "default", "hook", "cache", "traceback", "graph",
         "thread", "native", "unknown")  # enum mp_holder_kind (src/base/words.h)
BLOCKS_MOST = 50_000  # that are told of one look


def start(api, torch):
    looks = Looks(api, torch)
    atexit.register(looks.look)
    ask = _Ask(looks)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(ask))  # the recorder has its address
    api["holder_ask"](ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p), id(ask))
    return looks


class _Ask:
    """Its truth is asked for where a look is due."""

    __slots__ = ("_looks",)

    def __init__(self, looks):
        self._looks = looks

    def __bool__(self):
        self._looks.look()
        return False


class Looks:
    def __init__(self, api, torch):
        self._api, self._torch = api, torch
        self._saved = holders_names.SavedHooks(torch)
        self._mode = getattr(torch._C, "_get_torch_function_mode", lambda: None)  # 1.13: it is not to be turned off
        self._looking = self._off = False

    def look(self):
        if self._looking or self._off or not self._api["active"]() or self._mode() is not None:
            return
        self._looking = True
        try:
            self._tell(holders.Look(self._torch, saved=self._saved))
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            self._off = True
            complain(self._api, "what holds tensors", trouble)
        finally:
            self._looking = False

    def _tell(self, look):
        tell, left = self._api["holder"], BLOCKS_MOST
        for holder in look.run():
            addresses = array.array("Q", holder.addresses[:left])
            if len(addresses) < len(holder.addresses):
                look.complete = False
                look.notes.append(f"of more than {BLOCKS_MOST} blocks no holder was told")
            left -= len(addresses)
            if addresses:
                tell(addresses.buffer_info()[0], len(addresses), KINDS.index(holder.kind), int(holder.certain),
                     _encoded(holder.path), _encoded(holder.file or ""), holder.line)
        tell(None, 0, 0, int(look.complete), _encoded("; ".join(look.notes)), b"", 0)


def _encoded(text):
    return text.encode("utf-8", "replace")
