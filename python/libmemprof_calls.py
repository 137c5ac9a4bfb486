"""Tells the recorder when calls of the function of --step-at begin: from Python 3.12 on, Python itself reports them.

Started by python/start/sitecustomize.py. Other code is checked once, and costs nothing afterwards. Needs only the
standard library.
"""

import sys
import weakref

TOOLS = (4, 3)  # ids that Python leaves to nobody in particular


def start(function):
    import libmemprof

    begins = libmemprof._api.get("call_begins")
    monitoring = getattr(sys, "monitoring", None)
    tool = next((tool for tool in TOOLS if monitoring and not monitoring.get_tool(tool)), None)
    if begins is None or tool is None:
        return
    monitoring.use_tool_id(tool, "memprof")
    other = monitoring.DISABLE
    file, _, asked = function.rpartition(":")
    end, of_optimizers = "." + asked, asked == "Optimizer.step"  # as mp_step_function_means() in step_function.c
    codes = {}  # the functions that were called, by id: all that the name means

    def starts(code, _):
        # Calls no Python function, so that it needs only one frame near the limit of recursion.
        named, path = code.co_qualname, code.co_filename
        if not ("." + named).endswith(end) and not (
                of_optimizers and named.endswith(".step") and "torch/optim/" in path
                and "torch/optim/lr_scheduler" not in path):
            return other
        if file and not ("/" + path).endswith("/" + file):
            return other
        codes[id(code)] = weakref.ref(code)
        caller = sys._getframe(1).f_back
        while caller is not None and (id(caller.f_code) not in codes or codes[id(caller.f_code)]() is not caller.f_code):
            caller = caller.f_back
        if caller is None:  # the outermost call counts
            begins((path + ":" + named).encode("utf-8", "surrogateescape"))

    monitoring.register_callback(tool, monitoring.events.PY_START, starts)
    monitoring.set_events(tool, monitoring.events.PY_START)
