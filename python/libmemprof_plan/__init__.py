"""The changes of `memprof plan` in a PyTorch program. The program runs on the stand-in GPU.

Tensors on the CPU get no random values: nobody reads them, and making them would take minutes and much memory. With one
rank of many (MEMPROF_PLAN_WORLD), collectives return at once. Started by python/start/sitecustomize.py.

The recorder leaves frames of these files out of stacks (src/capture/stack/stack.c).
"""

import os

from libmemprof_torch import hide_from_dynamo

SMALLEST_LEFT_OUT = 1 << 16  # elements: smaller tensors cost nothing, and programs look at them


def start(torch, after_import):
    settings = dict(pair.split("=", 1) for pair in os.environ["MEMPROF_PLAN"].split(";") if "=" in pair)
    _say(f"plan: torch {torch.__version__} cuda {torch.version.cuda or 'none'}")
    if settings.get("random") != "made":
        _leave_out_random_values(torch)
    from libmemprof_plan import autotuning, serving
    autotuning.start(after_import)
    if torch.version.cuda:
        _tell_version_of_cudnn(torch)
        _let_recurrent_layers_do_without_cudnn(torch)
        # A server decides nothing by these values, and its compiled code calls operators behind the fallback.
        if settings.get("values") == "zeros" and not serving.is_engine():
            from libmemprof_plan import values
            values.start(torch, after_import)
    serving.start(after_import, int(settings.get("ready", "900")))
    if torch.distributed.is_available():
        from libmemprof_plan import ranks
        ranks.do_without_libuv(torch.distributed)
        ranks.tell_sizes_of_splits(torch.distributed)
        ranks.answer_objects(torch.distributed, int(settings.get("world", "0")) > 1)
        if int(settings.get("world", "0")) > 1:
            ranks.be_alone(torch.distributed, int(settings["rank"]), int(settings["world"]))
            ranks.report_messages(torch.distributed)
            after_import("torch.distributed.pipelining.stage", ranks.follow_stages)
    hide_from_dynamo(torch, __name__)


def _say(text):
    import libmemprof
    libmemprof.mark(text)


def _is_left_out(tensor):
    return tensor.device.type == "cpu" and tensor.numel() >= SMALLEST_LEFT_OUT and tensor.is_floating_point()


def _tell_version_of_cudnn(torch):
    """PyTorch refuses a cuDNN older than the one it was built with, so the stand-in has that version."""
    compiled = torch._C._cudnn.getCompileVersion()  # (9, 26, 0)
    os.environ["SOFTGPU_CUDNN"] = str(compiled[0] * 10000 + compiled[1] * 100 + compiled[2])


def _let_recurrent_layers_do_without_cudnn(torch):
    """The stand-in of cuDNN lacks these functions: PyTorch's own kernels take their place, and the plan says so."""
    rnn, told = torch.nn.modules.rnn, []

    def wrap(function):
        def instead(*arguments):
            tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
            if not tensors or not tensors[0].is_cuda or not torch._C._get_cudnn_enabled():
                return function(*arguments)
            if not told:
                told.append(_say("plan: recurrent"))
            torch._C._set_cudnn_enabled(False)
            try:
                return function(*arguments)
            finally:
                torch._C._set_cudnn_enabled(True)

        return instead

    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        setattr(torch._VF, name, wrap(getattr(torch._VF, name)))
        if name.upper() in rnn._rnn_impls:
            rnn._rnn_impls[name.upper()] = getattr(torch._VF, name)
    rnn.RNNBase.flatten_parameters = lambda self: None


def _leave_out_random_values(torch):
    """Large tensors in the host's memory: nothing touches their pages, so they take no memory."""
    def wrap(owner, name, position=0):
        function = getattr(owner, name, None)
        if function is None:
            return

        def instead(*arguments, **named):
            tensor = arguments[position] if len(arguments) > position else named.get("tensor")
            if isinstance(tensor, torch.Tensor) and _is_left_out(tensor):
                return tensor
            return function(*arguments, **named)

        instead.__name__, instead.__doc__ = name, function.__doc__
        setattr(owner, name, instead)

    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_"):
            wrap(torch.nn.init, name)
    for name in ("normal_", "uniform_", "trunc_normal_", "log_normal_", "cauchy_", "exponential_", "erfinv_"):
        wrap(torch.Tensor, name)
