"""The program's last frames: functions after whose return nothing more of the program runs, such as a script's main().
Their locals would be gone when the look at the end comes. A reference to a frame keeps its locals beyond the return, so
these frames are kept for that look, and only these: in any other frame this would change the program's memory.
"""

import dis
import sys
import types

from libmemprof_torch.holders_names import OPTIMIZED, dict_of_module, tier_of

# Instructions and names that may follow a last call: its result is stored, or is the process's exit status.
MAY_FOLLOW = {"POP_TOP", "NOP", "CACHE", "RESUME", "PRECALL", "CALL", "CALL_FUNCTION", "CALL_METHOD", "PUSH_NULL", "COPY",
              "SWAP", "ROT_TWO", "LOAD_CONST", "LOAD_SMALL_INT", "NOT_TAKEN", "POP_BLOCK"}
WITH_NAME = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_FAST")
ENDING = {"sys", "exit", "quit", "print"}
ENDS = {"RETURN_VALUE", "RETURN_CONST"}
STARTERS = {"_run_module_as_main", "_run_code"}  # of runpy, for python -m


def _is_last_call(code, at):
    """True if the code only ends after the instruction at an offset."""
    stored = set()
    for step in dis.get_instructions(code):
        if step.offset <= at:
            continue
        if step.opname in ENDS:
            return True
        if step.opname.startswith("STORE_"):
            stored.add(step.argval)
        if not (step.opname in MAY_FOLLOW or step.opname in WITH_NAME and step.argval in ENDING | stored or
                step.opname.startswith("STORE_") and step.opname in WITH_NAME):
            return False
    return False


def frames_of_the_last_error():
    """The frames, callers first, that were left by the error which ends the program: its functions still hold what they
    held. An interactive interpreter goes on after an error, which holds its frames."""
    trace, frames = sys.__dict__.get("last_traceback"), []
    while type(trace) is types.TracebackType:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    while frames and frames[0].f_code.co_name in STARTERS:
        del frames[0]
    return frames if frames and not sys.flags.interactive and _is_script(frames[0]) else []


def _is_script(frame):
    main = sys.modules.get("__main__")
    namespace = dict_of_module(main) if type(main) is types.ModuleType else None
    return frame.f_code.co_name == "<module>" and frame.f_globals is namespace


class LastFrames:
    def __init__(self):
        self._frames, self._known = [], {}

    def note(self, frame):
        """`frame`: the innermost one of the main thread. Callers first, the last calls are a chain that begins with the
        script's own code."""
        chain = []
        while frame is not None:
            chain.append(frame)
            frame = frame.f_back
        at = len(chain) - 1
        while at > 0 and chain[at].f_code.co_name in STARTERS:
            at -= 1
        if not _is_script(chain[at]):
            return
        kept = []
        while at > 0 and self._is_last(chain[at]):
            at -= 1
            if tier_of(chain[at]) or not chain[at].f_code.co_flags & OPTIMIZED:
                break
            kept.append(chain[at])
        if kept:
            self._frames = kept

    def _is_last(self, frame):
        key = frame.f_code, frame.f_lasti
        if key not in self._known:
            self._known[key] = _is_last_call(*key)
        return self._known[key]

    def frames(self):
        return list(self._frames)

    def forget(self):
        self._frames, self._known = [], {}
