"""Servers under `memprof plan` have dummy weights, need no tokenizer, and end once they are ready.

vLLM and SGLang ask NVIDIA's runtime some questions through another library; the stand-in answers them."""

import functools
import os
import re
import signal
import sys
import textwrap
import threading
import traceback

from libmemprof_plan import kernels

# Wheels give copies names such as libcudart.e8e8b82a.so.12.
BUNDLED = re.compile(r"^(lib[a-zA-Z]+)[.-][0-9a-f]{8}(?=\.so)")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "tekken.json")
TRIED = {"vllm": ("0.10.", "0.19.", "0.33."), "sglang": ("0.5.",), "lmdeploy": ("0.18.",)}  # beginnings of versions
SERVER = "MEMPROF_PLAN_SERVER"  # the process that the user started
SERVERS = ("vllm.entrypoints.openai.api_server", "sglang.launch_server", "vllm.entrypoints.cli.main")


def start(after_import, bound_s):
    def vllm(module):
        _set_up(module.EngineArgs, "vllm", "model")

    def sglang(module):
        _set_up(module.ServerArgs, "sglang", "model_path", "resolve_once")

    for name, then in {"vllm.engine.arg_utils": vllm, "sglang.srt.server_args": sglang,
                       "vllm.v1.executor.abstract": _run_one_rank, "vllm.v1.engine.core": _end_when_short,
                       "sglang.srt.managers.scheduler": _say_why,
                       "lmdeploy.pytorch.weight_loader.model_weight_loader": _leave_weights_out, "uvicorn.server": _end_when_ready,
                       "cuda.bindings.runtime": _answer_by_stand_in,
                       "flashinfer.comm.mnnvl": _wait_for_ranks}.items():
        after_import(name, functools.partial(_guarded, name, then))
    kernels.start(after_import, _guarded)
    _take_stand_ins()
    if _is_server():
        _bound(bound_s)


def is_engine():
    """An engine is being imported, or its process was started."""
    return any(name in sys.modules for name in TRIED)


def _guarded(name, then, module):
    """In an unknown version, the program runs without the change."""
    try:
        then(module)
    except (AttributeError, OSError, TypeError) as trouble:
        _say(f"{name} is not as known ({trouble}): planned without what plan sets there")


def _say(text):
    print(f"memprof: {text}", file=sys.stderr, flush=True)


def _is_server():
    words = getattr(sys, "orig_argv", sys.argv)
    return any(word in SERVERS for word in words) or \
        any(os.path.basename(word) in TRIED for word in words[:3]) and "serve" in words


def _bound(bound_s):
    """A server that never becomes ready must not run for ever. One whose engine has said that it does not fit ends
    without a traceback: the plan's last line is the answer."""
    shown = f"{bound_s // 60} minutes" if bound_s >= 120 else f"{bound_s} seconds"

    def end():
        _say(f"the server was not ready after {shown}: the plan ends here (--ready-within)")
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(bound_s, end)
    timer.daemon = True
    timer.start()
    if threading.current_thread() is threading.main_thread():
        os.environ[SERVER] = str(os.getpid())
        signal.signal(signal.SIGUSR2, lambda *_: _leave(1))
    _say(f"plans until the server is ready, at most {shown}; weights are left out")


def _take_stand_ins():
    """Python loads NVIDIA's libraries by path from PyTorch's folder. This loads the stand-in of the same name
    instead."""
    import ctypes

    ours = {os.path.basename(path): path for path in os.environ.get("LD_PRELOAD", "").split(":") if "softgpu" in path}
    original = ctypes.CDLL.__init__

    def __init__(self, name, *more, **named):
        if isinstance(name, str) and "/" in name:
            base = BUNDLED.sub(r"\1", os.path.basename(name))
            name = next((path for known, path in ours.items() if base == known or base.startswith(known + ".")), name)
        original(self, name, *more, **named)

    ctypes.CDLL.__init__ = __init__


def _set_up(arguments, engine, model, method="__post_init__"):
    """Wraps the class of the settings itself, so that it does not matter who makes them."""
    method = method if hasattr(arguments, method) else "__post_init__"
    original = getattr(arguments, method)
    tried = [pair.partition("=") for pair in os.environ.get("MEMPROF_TRY", "").split(",") if pair]

    def set_up(self, *more):
        if getattr(self, "_resolution_finished", False):  # SGLang's settings are read-only from then on
            return original(self, *more)
        for key, _, value in tried:
            if not hasattr(self, key):
                raise SystemExit(f"memprof: --try {key}: {engine} has no such setting")
            setattr(self, key, _value(value))
        folder = getattr(self, model, None)
        if getattr(self, "load_format", None) == "auto":
            self.load_format = "dummy"
        if folder and os.path.isdir(folder):
            if not os.path.exists(os.path.join(folder, "config.json")) and \
                    not os.path.exists(os.path.join(folder, "params.json")):
                raise SystemExit(f"memprof: {folder} has no config.json: copy the model's own there; "
                                 "weights are not needed")
            if not any(os.path.exists(os.path.join(folder, name)) for name in TOKENIZERS):
                self.skip_tokenizer_init = True
        if hasattr(self, "skip_server_warmup"):  # a request to itself, which would outlive the end of the plan
            self.skip_server_warmup = True
        return original(self, *more)

    setattr(arguments, method, set_up)
    _explain()
    _tell_version(engine)


def _leave_weights_out(module):
    """lmdeploy's dummy weights would leave out the cache, too. Quantized weights still get their form on the GPU."""
    loader = module.ModelWeightLoader
    loader.__init__ = lambda self, *more, **named: None
    loader.load_model_weights = lambda self, model, device=None: model.to(device) and None
    _explain()
    _tell_version("lmdeploy")


# One sentence in place of a page from vLLM, with advice.
EXPLAINED = (
    (r"recognize this architecture|Model architectures .* not supported",
     "the engine does not know the architecture that the model's config.json names; a newer version may"),
    (r"World size \((\d+)\).* larger than the number of available GPUs",
     "the server wants {0} GPUs: memprof plan --devices {0} plays as many, up to 8"),
    (r"couldn't connect to 'https://huggingface.co'",
     "the model is no folder here, and huggingface.co is out of reach: a folder with its config.json is enough"),
    (r"model_file or model_proto must be specified",
     "the engine needs the model's tokenizer files, too; copy them beside config.json"),
    (r"requires a tokenizer|preprocessor_config\.json|[Cc]an't load (image |feature |video )?processor",
     "a model of images needs its tokenizer and processor files, too; copy them beside config.json, or plan it without "
     "images: --language-model-only"),
)


def _explain():
    """An error that ends the program with such a text is one sentence. Errors that the engine handles stay."""
    original = sys.excepthook

    def hook(kind, trouble, *more):
        if isinstance(trouble, (OSError, ValueError)):
            for pattern, sentence in EXPLAINED:
                found = re.search(pattern, str(trouble))
                if found:
                    return _say(sentence.format(*found.groups()))
        return original(kind, trouble, *more)

    sys.excepthook = hook


def _value(text):
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _wait_for_ranks(module):
    """Makes the barrier wait for all ranks. Afterwards, ranks send each other descriptors, but the barrier of the
    stand-in of NCCL does not wait."""
    module.TorchDistBackend.barrier = lambda self: self.allgather(None) and None


def _tell_version(engine):
    import importlib.metadata

    try:
        version = importlib.metadata.version(engine)
    except importlib.metadata.PackageNotFoundError:
        return
    if not version.startswith(TRIED[engine]):
        _say(f"{engine} {version} was never tried under plan; {', '.join(one + 'x' for one in TRIED[engine])} were")


def _say_why(module):
    """SGLang's scheduler logs a failure in many lines, and then its processes are killed."""
    original = module.Scheduler.__init__

    @functools.wraps(original)
    def __init__(self, *arguments, **named):
        try:
            original(self, *arguments, **named)
        except Exception as trouble:
            said = str(trouble).strip().splitlines() or [repr(trouble)]
            _say(f"SGLang did not start: {textwrap.shorten(said[0], 200, placeholder=' ...')}")
            raise

    module.Scheduler.__init__ = __init__


def _end_when_ready(module):
    """uvicorn's server is up once its engine is."""
    original = module.Server.startup

    async def startup(self, *arguments, **named):
        await original(self, *arguments, **named)
        if _is_server() and getattr(self, "started", True):
            _say("the server is ready: the plan ends here")
            _end()

    module.Server.startup = startup


def _end():
    """At an interrupt, SGLang kills its processes, and then itself, since its watchdog sees them die."""
    if "sglang" not in sys.modules:
        os.kill(os.getpid(), signal.SIGINT)
        return
    _leave(0)


def _leave(status):
    import multiprocessing
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    os._exit(status)


def _end_when_short(module):
    """The engine's process has reported what lacks (libmemprof_torch/servers.py)."""
    original = module.EngineCore.__init__

    @functools.wraps(original)
    def __init__(self, *arguments, **named):
        try:
            original(self, *arguments, **named)
        except Exception as trouble:
            server, told = os.environ.get(SERVER), getattr(trouble, "told_by_memprof", False)
            if "backends/flashinfer.py" in traceback.format_exc():
                _say("FlashInfer's kernels, which the engine chose for this GPU, cannot be planned: "
                     "--attention-backend TRITON_ATTN can")
                told = True
            if server and told:
                os.kill(int(server), signal.SIGUSR2)
                _leave(1)
            raise

    module.EngineCore.__init__ = __init__


def _run_one_rank(module):
    original = module.Executor.get_class

    def get_class(settings):
        found = original(settings)
        if found.__name__ != "MultiprocExecutor":
            return found
        from libmemprof_plan import one_rank
        if not one_rank.fits(settings):
            return found
        _say(f"one of {settings.parallel_config.world_size} equal ranks is planned, and answers for the others")
        return one_rank.OneRankExecutor

    module.Executor.get_class = staticmethod(get_class)


def _answer_by_stand_in(module):
    """cuda.bindings contains NVIDIA's runtime, which asks the driver for undocumented tables."""
    import ctypes

    runtime = ctypes.CDLL(f"libcudart.so.{12 if module.CUDART_VERSION < 13000 else 13}")

    def forward(name, results):
        function = getattr(runtime, name)

        def instead(*arguments):
            made = [kind() for kind in results]
            error = function(*[ctypes.byref(one) for one in made], *[ctypes.c_int(int(one)) for one in arguments])
            return (module.cudaError_t(error), *[one.value for one in made])

        setattr(module, name, instead)

    for name, results in {"cudaSetDevice": (), "cudaGetDevice": (ctypes.c_int,), "cudaGetDeviceCount": (ctypes.c_int,),
                          "cudaDeviceSynchronize": (), "cudaMemGetInfo": (ctypes.c_size_t, ctypes.c_size_t)}.items():
        if hasattr(module, name) and hasattr(runtime, name):
            forward(name, results)
