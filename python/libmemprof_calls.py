"""Tells the recorder where calls of the function of --step-at begin: from Python 3.12 on Python itself says so.

Started by python/start/sitecustomize.py. Code that is not the function's is looked at once and costs nothing from then
on. Nothing but the standard library.
"""

import sys

TOOLS = (4, 3)  # ids that Python leaves to nobody in particular


def start(function):
    import libmemprof

    begins = libmemprof._api.get("call_begins")
    monitoring = getattr(sys, "monitoring", None)
    tool = next((tool for tool in TOOLS if monitoring and not monitoring.get_tool(tool)), None)
    if begins is None or tool is None:
        return
    monitoring.use_tool_id(tool, "memprof")
    name, other = function.encode("utf-8", "surrogateescape"), monitoring.DISABLE

    def starts(code, _):
        if not means(function, code.co_qualname, code.co_filename):
            return other
        caller = sys._getframe(1).f_back
        while caller is not None and caller.f_code is not code:
            caller = caller.f_back
        if caller is None:  # the outermost call counts
            begins(name)

    monitoring.register_callback(tool, monitoring.events.PY_START, starts)
    monitoring.set_events(tool, monitoring.events.PY_START)


def means(asked, function, file):
    """As mp_python_calls_means() in src/capture/python/calls.c."""
    if function == asked or function.endswith("." + asked):
        return True
    return (asked == "Optimizer.step" and function.endswith(".step") and "torch/optim/" in file
            and "torch/optim/lr_scheduler" not in file)
