"""Servers of language models: reports what the workers of vLLM, SGLang and lmdeploy hold, and when, from the workers themselves.

Each stage of a worker's start is a region, and tensors of the KV cache get their role. Marks "server: ..." carry what
the engine computed (src/analysis/device/server.h reads them). A few methods get wrappers; a missing method is left out,
and an engine's own error is passed on.
"""

import contextlib
import dataclasses
import functools
import inspect
import re
import sys
from importlib.machinery import PathFinder

from libmemprof_torch import TROUBLE, complain, is_of_signal

KV_CACHE = 6  # enum mp_role (src/base/words.h)
NAMES_MOST = 40  # rows of weights
PLANNERS = ("vllm.v1.core.kv_cache_planning", "vllm.v1.core.kv_cache_utils")  # the first: 0.33
OF_RANKS = 2260 << 20  # what a rank takes besides: 2.06 to 2.21 GiB in logs of H100s


def start(api, torch, after_import):
    server = Server(api, torch)
    for name, then in {"vllm.v1.worker.gpu_worker": server.of_vllm,
                       "vllm.v1.worker.gpu_model_runner": server.of_vllm_runner,
                       "vllm.v1.worker.gpu.model_runner": server.of_vllm_runner,  # the one of 0.33
                       "vllm.v1.worker.gpu.cudagraph_utils": server.of_vllm_graphs,
                       **dict.fromkeys(PLANNERS, server.of_vllm_cache),
                       "sglang.srt.model_executor.model_runner": server.of_sglang,
                       "sglang.srt.managers.scheduler": server.of_sglang_scheduler,
                       "lmdeploy.pytorch.engine.model_agent.agent": server.of_lmdeploy,
                       "lmdeploy.pytorch.engine.engine": server.of_lmdeploy_engine}.items():
        if is_installed(name.partition(".")[0]):
            after_import(name, functools.partial(server.guarded, then))


def is_installed(package):
    """Packages that are not installed are not waited for. Only Python's own finder is asked, because other finders may
    have effects."""
    return package in sys.modules or PathFinder.find_spec(package) is not None or \
        any(package in str(getattr(finder, "__module__", "")) for finder in sys.meta_path)  # installed as editable


def tensors_in(found, torch, depth=4, within=None):
    """Tensors in lists, in dictionaries, and in objects of the package `within`."""
    if isinstance(found, torch.Tensor):
        yield found
        return
    if within and type(found).__module__.startswith(within):
        found = getattr(found, "__dict__", ())
    if depth and isinstance(found, (dict, list, tuple)):
        for one in list(found.values() if isinstance(found, dict) else found):
            yield from tensors_in(one, torch, depth - 1, within)


def storage_of(tensor):
    """PyTorch 1.13 has only the typed storage."""
    return (getattr(tensor, "untyped_storage", None) or tensor.storage)()


def plain(value):
    """A word of a mark: no spaces, no commas."""
    return str(value).replace("torch.", "").replace(" ", "_") or "none"


def setting(engine, name):
    """SGLang's setting after resolution; older versions resolve it in the arguments themselves."""
    try:
        from sglang.srt.runtime_context import get_schedule
        return getattr(get_schedule(), name)
    except (AttributeError, ImportError):
        return getattr(engine.server_args, name, None)


def heads_of(model):
    """All heads of the model, and those of keys and values."""
    return getattr(model.hf_text_config, "num_attention_heads", 0), model.get_total_num_kv_heads()


class Listener:
    """Takes what a module logs."""

    def __init__(self):
        self.said = []

    def __getattr__(self, name):
        return lambda text, *arguments, **named: self.said.append(str(text) % arguments if arguments else str(text))


@contextlib.contextmanager
def heard(function):
    names, listener = inspect.unwrap(function).__globals__, Listener()
    logger = names.get("logger")
    names["logger"] = listener
    try:
        yield listener.said
    finally:
        names["logger"] = logger


def largest_prefill():
    """Tokens of the largest prefill that SGLang captured, which decides the pool's size; 0: none, or unknown."""
    try:
        from sglang.srt.runtime_context import get_exec
        prefill = get_exec().graph.cuda_graph_config.prefill
        return 0 if "disabled" in str(prefill.backend).lower() else prefill.max_bs or 0
    except (AttributeError, ImportError):
        return 0


class Cache:
    """vLLM's own function that makes a cache, asked about other settings."""

    def __init__(self, module, make, settings):
        self._module, self._make, self.settings = module, make, settings

    def fits(self, specs, available, length=None):
        model = self.settings.model_config
        kept = model.max_model_len
        try:
            model.max_model_len = length or kept
            with heard(self._make):
                self._make(self.settings, [dict(one) for one in specs], list(available))
            return True
        except ValueError:
            return False
        finally:
            model.max_model_len = kept

    def longest(self, specs, available):
        low, high = 0, self.settings.model_config.max_model_len  # low fits, high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(specs, available, middle) else (low, middle)
        return low

    def needed(self, specs):
        """The need of the worker that needs most."""
        of_groups = getattr(self._module, "_max_memory_usage_bytes_from_groups", None)
        if of_groups and len(specs) == 1:
            return of_groups(self.settings, self._module.get_kv_cache_groups(self.settings, dict(specs[0])))
        return max(self._module.max_memory_usage_bytes(self.settings, one.values()) for one in specs)

    def with_heads(self, specs, heads, ranks):
        share = max(1, heads[1] // ranks)
        return [{name: dataclasses.replace(one, num_kv_heads=min(one.num_kv_heads, share))
                 if hasattr(one, "num_kv_heads") else one for name, one in layers.items()} for layers in specs]

    def may_be_fp8(self, specs):
        from vllm.platforms import current_platform
        return current_platform.has_device_capability(89) and \
            any("float16" in str(getattr(one, "dtype", "")) for one in specs[0].values())

    def as_fp8(self, specs):
        import torch
        return [{name: dataclasses.replace(one, dtype=torch.uint8) if hasattr(one, "num_kv_heads") else one
                 for name, one in layers.items()} for layers in specs]


class Server:
    def __init__(self, api, torch):
        self._api, self._torch = api, torch
        self._captures = []  # (tokens, memory) where the capture of a size began
        self._worker = None  # vLLM's, in the engine's own process
        self._cache_bytes = 0  # of lmdeploy, in the engine's own process

    def mark(self, kind, **facts):
        said = " ".join(f"{key}={plain(value)}" for key, value in facts.items() if value is not None)
        self._api["mark"](f"server: {kind} {said}".encode("utf-8", "replace"))

    def stage(self, owner, name, region, after=None, step=None, failed=None):
        """Makes the method a region, and calls `after(self, result, before, arguments)` behind it. `before`: memory
        then. `step`: called first, if each call is a step. `failed(self, trouble)`: called after an error of the
        engine."""
        original = getattr(owner, name, None)
        if original is None:
            return
        push, pop = self._api["region_push"], self._api["region_pop"]

        @functools.wraps(original)
        def instead(this, *arguments, **named):
            before = self.memory() if after else None
            if step:
                step()
            push(region)
            try:
                result = original(this, *arguments, **named)
            except (RuntimeError, ValueError) as trouble:
                if failed:
                    self.guarded(failed, this, trouble)
                raise
            finally:
                pop()
            if after is not None:
                self.guarded(after, this, result, before, arguments)
            return result

        setattr(owner, name, instead)

    def guarded(self, function, *arguments):
        try:
            function(*arguments)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            complain(self._api, "facts of the server", trouble)

    def memory(self):
        """Reserved and allocated bytes, free and total of the device; zeros before the device's first use."""
        cuda = self._torch.cuda
        if not cuda.is_available() or not cuda.is_initialized():
            return 0, 0, 0, 0
        return (cuda.memory_reserved(), cuda.memory_allocated(), *cuda.mem_get_info())

    # ---- weights

    def weights(self, model):
        """By module, with layers and experts joined, and by type. A storage that parameters share counts once."""
        rows, seen = {}, set()
        tensors = [*model.named_parameters(), *model.named_buffers()]
        on_device = any(tensor.is_cuda for _, tensor in tensors)  # others are offloaded
        for name, tensor in tensors:
            storage = storage_of(tensor)
            if tensor.is_cuda != on_device or storage.data_ptr() in seen:
                continue
            seen.add(storage.data_ptr())
            path = ".".join("*" if part.isdigit() else part for part in name.split(".")[:-1]) or name
            key = (path, plain(tensor.dtype))
            rows[key] = rows.get(key, 0) + storage.nbytes()
        return sorted(rows.items(), key=lambda row: -row[1])

    def tell_weights(self, model, before=""):
        rows = self.weights(model)
        for (path, kind), size in rows[:NAMES_MOST]:
            self.mark("weights", bytes=size, type=kind, module=before + path)
        rest = sum(size for _, size in rows[NAMES_MOST:])
        if rest:
            self.mark("weights", bytes=rest, type="mixed", module=before + "others")

    def label_cache(self, tensors):
        """The bytes of all storages. Tensors with a common storage count once."""
        tensors, storages = list(tensors), {}
        on_device = any(tensor.is_cuda for tensor in tensors)
        for tensor in tensors:
            storage = storage_of(tensor)
            if tensor.is_cuda == on_device and storage.data_ptr() not in storages:
                storages[storage.data_ptr()] = storage.nbytes()
                self._api["label"](storage.data_ptr(), KV_CACHE, b"KV cache")
        return sum(storages.values())

    def graph_pools(self):
        """Bytes that PyTorch reserved for captured graphs, and the part in tensors."""
        pools = [segment for segment in self._torch.cuda.memory_snapshot()
                 if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)]
        return dict(pool=sum(one["total_size"] for one in pools), tensors=sum(one["allocated_size"] for one in pools))

    def tell_ready(self, **settings):
        reserved, allocated, free, total = self.memory()
        self._api["step"]()  # what came before belongs to no step: captures of graphs are no leak
        self.mark("ready", total=total, free=free, reserved=reserved, allocated=allocated, **settings)

    # ---- vLLM

    def of_vllm(self, module):
        worker = module.Worker

        def loaded(this, result, before, arguments):
            from vllm import __version__
            self.mark("engine", name="vLLM", version=__version__)
            self.tell_weights(this.model_runner.model)

        def profiled(this, result, before, arguments):
            found = [getattr(this, name, None) for name in
                     ("peak_activation_memory", "non_torch_memory", "cudagraph_memory_estimate", "requested_memory")]
            self._captures.clear()  # of graphs that were captured as a trial
            self._worker = this
            self.mark("profile", activations=found[0], libraries=found[1], graphs=found[2], requested=found[3],
                      available=int(result) if isinstance(result, (int, float)) else None)

        def cached(this, result, before, arguments):
            runner = this.model_runner
            self.mark("cache", bytes=self.label_cache(tensors_in(getattr(runner, "kv_caches", []), self._torch)),
                      **self.cache_of(this.vllm_config, arguments[0]))

        def warmed(this, result, before, arguments):
            config = this.vllm_config
            self.tell_ready(utilization=config.cache_config.gpu_memory_utilization,
                            max_num_batched_tokens=config.scheduler_config.max_num_batched_tokens,
                            max_num_seqs=config.scheduler_config.max_num_seqs,
                            kv_cache_dtype=config.cache_config.cache_dtype,
                            tensor_parallel_size=config.parallel_config.tensor_parallel_size)

        def slept(this, result, before, arguments):
            self.mark("asleep", level=arguments[0] if arguments else 1, bytes=max(0, self.memory()[2] - before[2]))

        def woken(this, result, before, arguments):
            self.mark("awake", bytes=max(0, before[2] - self.memory()[2]))

        self.stage(worker, "load_model", b"vLLM: weights", loaded, failed=self.tell_heavy)
        self.stage(worker, "determine_available_memory", b"vLLM: profile run", profiled, failed=self.tell_batch)
        self.stage(worker, "initialize_from_config", b"vLLM: KV cache", cached)
        self.stage(worker, "compile_or_warm_up_model", b"vLLM: warm-up", warmed)
        self.stage(worker, "execute_model", b"vLLM: step", step=self._api["step"])
        self.stage(worker, "sleep", b"vLLM: sleep", slept)
        self.stage(worker, "wake_up", b"vLLM: wake up", woken)

    def of_vllm_runner(self, module):
        def captured(this, result, before, arguments):
            reserved, _, free, _ = now = self.memory()
            self.tell_sizes(now)
            sizes = getattr(this.vllm_config.compilation_config, "cudagraph_capture_sizes", None) or []
            self.mark("graphs", pool=max(0, reserved - before[0]), taken=max(0, before[2] - free), sizes=len(sizes),
                      largest=max(sizes, default=0))

        runner = module.GPUModelRunner
        self.stage(runner, "capture_model", b"vLLM: graphs", captured)
        capture = getattr(runner, "_warmup_and_capture", None)
        if capture is not None:
            @functools.wraps(capture)
            def _warmup_and_capture(this, desc, *more, **named):
                self.guarded(self.begin_size, desc)
                return capture(this, desc, *more, **named)

            runner._warmup_and_capture = _warmup_and_capture

    def of_vllm_graphs(self, module):
        """Each size begins with a call of a function that is made for it."""
        original = module.CudaGraphManager.capture

        @functools.wraps(original)
        def capture(this, create, *more, **named):
            def create_forward_fn(desc, *arguments, **settings):
                self.guarded(self.begin_size, desc)
                return create(desc, *arguments, **settings)

            return original(this, create_forward_fn, *more, **named)

        module.CudaGraphManager.capture = capture

    def begin_size(self, description):
        self._captures.append((description.num_tokens, self.memory()))

    def tell_sizes(self, now):
        """By batch size: the growth of PyTorch's pool, and the driver's additional bytes."""
        rows, ends = {}, [*[memory for _, memory in self._captures[1:]], now]
        for (tokens, (reserved, _, free, _)), end in zip(self._captures, ends):
            pool, taken = rows.get(tokens, (0, 0))
            rows[tokens] = pool + end[0] - reserved, taken + free - end[2]
        for tokens, (pool, taken) in sorted(rows.items(), reverse=True):
            self.mark("graph", size=tokens, pool=max(0, pool), driver=max(0, taken - pool))
        self._captures.clear()

    def cache_of(self, settings, cache):
        """Tokens and requests as the engine itself reports them, in its version's own way."""
        groups, length = cache.kv_cache_groups, settings.model_config.max_model_len
        specs = [group.kv_cache_spec for group in groups]
        block = min(getattr(spec, "block_size", 0) for spec in specs) if specs else 0
        tokens = cache.num_blocks // len(groups) * block if groups else 0
        requests = f"{tokens / length:.2f}"
        modules = [sys.modules[name] for name in PLANNERS if name in sys.modules]
        capacity, report = (next((vars(one)[name] for one in modules if name in vars(one)), None)
                            for name in ("get_kv_cache_capacity", "_report_kv_cache_config"))  # newer versions, older
        if capacity and groups:
            tokens, requests = capacity(settings, cache)
            requests = f"{requests:.2f}"
        elif report and groups:
            with heard(report) as said:
                report(settings, cache)
            found = [re.search(pattern, " ".join(said)) for pattern in (r"size: ([\d,]+) tokens", r": ([\d.]+)x")]
            if all(found):
                tokens, requests = int(found[0][1].replace(",", "")), found[1][1]
        return dict(tokens=tokens, requests=requests, blocks=cache.num_blocks, block=block, length=length,
                    layers=sum(len(group.layer_names) for group in groups),
                    type=getattr(specs[0], "dtype", None) if specs else None)

    def of_vllm_cache(self, module):
        """If the cache is too small for one request, vLLM raises an error. The settings that would suffice are reported
        first."""
        original = getattr(module, "get_kv_cache_configs", None)
        if original is None:
            return

        @functools.wraps(original)
        def get_kv_cache_configs(settings, specs, available, *more, **named):
            try:
                return original(settings, specs, available, *more, **named)
            except ValueError as trouble:
                self.guarded(self.tell_short, Cache(module, original, settings), specs, available)
                trouble.told_by_memprof = True
                raise

        module.get_kv_cache_configs = get_kv_cache_configs
        core = sys.modules.get("vllm.v1.engine.core")
        if core is not None and hasattr(core, "get_kv_cache_configs"):
            core.get_kv_cache_configs = get_kv_cache_configs

    def tell_short(self, cache, specs, available):
        """Each setting is one with which the engine's own function makes a cache."""
        ranks, heads = cache.settings.parallel_config, heads_of(cache.settings.model_config)
        weights = sum(size for _, size in self.weights(self._worker.model_runner.model)) if self._worker else 0

        def fits_on(number):
            share = ranks.tensor_parallel_size / number
            return cache.fits(cache.with_heads(specs, heads, number),
                              [one + int(weights * (1 - share)) - OF_RANKS for one in available])

        def fits_with(**smaller):
            return self._worker and cache.fits(specs, [self.available_with(smaller)] * len(specs))

        scheduler = cache.settings.scheduler_config
        batch, requests = scheduler.max_num_batched_tokens, scheduler.max_num_seqs
        smaller = {
            "tensor_parallel": (number for number in (2, 4, 8) if number > ranks.tensor_parallel_size and weights
                                and not heads[0] % number and fits_on(number)),
            "max_num_seqs": (number for number in (requests // 4, requests // 16, 1) if 0 < number < requests
                             and fits_with(max_num_seqs=number)),
            "max_num_batched_tokens": (number for number in (batch // 4, batch // 16) if requests <= number
                                       and fits_with(max_num_batched_tokens=number)),
            "kv_cache_dtype": (kind for kind in ("fp8",) if cache.may_be_fp8(specs)
                               and cache.fits(cache.as_fp8(specs), available)),
        }
        self.mark("short", checked=1, needed=cache.needed(specs), available=min(available), longest=cache.longest(specs, available),
                  length=cache.settings.model_config.max_model_len,
                  utilization=cache.settings.cache_config.gpu_memory_utilization,
                  tensor_parallel_size=ranks.tensor_parallel_size,
                  **{f"try_{name}": self.first(found) for name, found in smaller.items()})

    def tell_heavy(self, worker, trouble):
        """The weights do not fit. On PyTorch's device without memory, the model tells how large they are."""
        if not isinstance(trouble, self._torch.cuda.OutOfMemoryError):
            return
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader.utils import initialize_model
        settings = worker.vllm_config
        ranks, heads = settings.parallel_config, heads_of(settings.model_config)
        before = self._torch.get_default_dtype()
        settings.compilation_config.static_forward_context.clear()
        self._torch.set_default_dtype(settings.model_config.dtype)
        try:
            with set_current_vllm_config(settings), self._torch.device("meta"):
                model = initialize_model(vllm_config=settings)
        finally:
            self._torch.set_default_dtype(before)
        weights = sum(one.nbytes for one in {id(one): one for one in model.parameters()}.values())
        room = int(self.memory()[3] * settings.cache_config.gpu_memory_utilization) - self.outside()
        whole = weights * ranks.tensor_parallel_size
        enough = (number for number in (2, 4, 8) if number > ranks.tensor_parallel_size and
                  not heads[0] % number and whole // number + OF_RANKS < room)
        self.mark("engine", name="vLLM", version=sys.modules["vllm"].__version__)
        self.mark("short", checked=1, what="weights", needed=weights, available=max(0, room),
                  tensor_parallel_size=ranks.tensor_parallel_size, try_tensor_parallel=self.first(enough))
        trouble.told_by_memprof = True

    def tell_batch(self, worker, trouble):
        """The profile run's batch does not fit."""
        if not isinstance(trouble, self._torch.cuda.OutOfMemoryError):
            return
        self._worker, scheduler = worker, worker.vllm_config.scheduler_config
        trouble.__traceback__ = None  # its frames hold the batch
        enough = (number for number in (scheduler.max_num_batched_tokens // 4, scheduler.max_num_batched_tokens // 16)
                  if number and self.available_with(dict(max_num_batched_tokens=number)) > 0)
        self.mark("short", checked=1, what="batch", needed=0, available=max(0, self.memory()[2]),
                  length=scheduler.max_num_batched_tokens, try_max_num_batched_tokens=self.first(enough))
        trouble.told_by_memprof = True

    def outside(self):
        """Bytes of the device that PyTorch did not reserve."""
        reserved, _, free, total = self.memory()
        return total - free - reserved

    def first(self, found):
        """None: no setting helps, or this version of the engine cannot tell."""
        try:
            return next(found, None)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            return None

    def available_with(self, smaller):
        """The bytes that a profile run with a smaller batch leaves for the cache."""
        worker, scheduler = self._worker, self._worker.vllm_config.scheduler_config
        holders = {"max_num_seqs": ((scheduler, "max_num_seqs"), (worker.model_runner, "max_num_reqs")),
                   "max_num_batched_tokens": ((scheduler, "max_num_batched_tokens"),
                                              (worker.model_runner, "max_num_tokens"))}
        kept = [(holder, name, getattr(holder, name), value) for key, value in smaller.items()
                for holder, name in holders[key]]
        try:
            for holder, name, _, value in kept:
                setattr(holder, name, value)
            profile = type(worker).determine_available_memory.__wrapped__  # without the marks
            with heard(profile):
                return profile(worker)
        finally:
            for holder, name, before, _ in kept:
                setattr(holder, name, before)

    # ---- SGLang

    def of_sglang(self, module):
        runner = module.ModelRunner

        def loaded(this, result, before, arguments):
            import sglang
            if this.is_draft_worker:
                self.tell_weights(this.model, "draft.")
                return
            self.mark("engine", name="SGLang", version=getattr(sglang, "__version__", "unknown"))
            self.tell_weights(this.model)

        def cached(this, result, before, arguments):
            tokens, length, pages = this.max_total_num_tokens, this.model_config.context_len, this.page_size or 1
            found = tensors_in(this.token_to_kv_pool, self._torch, within="sglang.srt.mem_cache")
            size = self.label_cache(one for one in found if one.numel() >= tokens // pages)  # others are addresses
            if this.is_draft_worker:
                return
            self.mark("cache", bytes=size, tokens=tokens, blocks=tokens // pages, block=pages, length=length,
                      requests=f"{tokens / length:.2f}", layers=this.token_to_kv_pool.layer_num, type=this.kv_cache_dtype)
            if tokens < length:
                self.mark("short", needed=size // tokens * length, available=size, longest=tokens, length=length,
                          utilization=setting(this, "mem_fraction_static"),
                          tensor_parallel_size=this.server_args.tp_size)

        def captured(this, result, before, arguments):
            if self._torch.cuda.is_initialized():
                _, allocated, free, _ = self.memory()
                batch = max(0, self._torch.cuda.max_memory_allocated() - allocated)
                sizes = getattr(this, "decode_cuda_graph_capture_bs", ())
                self.mark("profile", activations=batch)
                self.mark("graphs", taken=max(0, before[2] - free), sizes=len(sizes), largest=largest_prefill(),
                          **self.graph_pools())

        def lacks(this, trouble):
            """If nothing is left for the cache: reports the bytes from which on something is left, and the need of one
            request."""
            from sglang.srt.model_executor.pool_configurator import create_memory_pool_configurator
            token = create_memory_pool_configurator(this.kv_cache_configurator)._cell_size
            length = this.model_config.context_len
            self.mark("short", needed=length * token, available=0, longest=0, length=length,
                      utilization=1 - self.memory()[2] / (this.pre_model_load_memory * (1 << 30)),
                      tensor_parallel_size=this.server_args.tp_size)

        self.stage(runner, "load_model", b"SGLang: weights", loaded)
        self.stage(runner, "alloc_memory_pool", b"SGLang: KV cache", cached, failed=lacks)
        self.stage(runner, "init_cuda_graphs", b"SGLang: graphs", captured)
        self.stage(runner, "post_capture_resize_kv_pool", b"SGLang: KV cache", cached)

    def of_sglang_scheduler(self, module):
        def ready(this, result, before, arguments):
            self.tell_ready(utilization=setting(this, "mem_fraction_static"),
                            **{name: setting(this, name) for name in ("chunked_prefill_size", "kv_cache_dtype", "tp_size")},
                            max_running_requests=this.max_running_requests)

        self.stage(module.Scheduler, "init_model_worker", b"SGLang: start", ready)
        self.stage(module.Scheduler, "run_batch", b"SGLang: step", step=self._api["step"])

    # ---- lmdeploy

    def of_lmdeploy(self, module):
        """Its own engine. The other one, TurboMind, is a library that does not use PyTorch's allocator."""
        agent = module.BaseModelAgent

        def loaded(this, result, before, arguments):
            import lmdeploy
            self.mark("engine", name="lmdeploy", version=lmdeploy.__version__)
            self.tell_weights(this.patched_model)

        def cached(this, result, before, arguments):
            self._cache_bytes = self.label_cache(tensors_in(this.cache_engine.local_gpu_cache, self._torch))

        def captured(this, result, before, arguments):
            _, allocated, free, _ = self.memory()
            self.mark("profile", activations=max(0, self._torch.cuda.max_memory_allocated() - allocated))
            self.mark("graphs", taken=max(0, before[2] - free),
                      sizes=len(this.patched_model.get_capture_batch_sizes()), **self.graph_pools())

        self.stage(agent, "build_model", b"lmdeploy: weights", loaded)
        self.stage(agent, "build_cache_engine", b"lmdeploy: KV cache", cached)
        self.stage(agent, "warmup", b"lmdeploy: graphs", captured)

    def of_lmdeploy_engine(self, module):
        """The agent does not know how long requests may be."""
        def ready(this, result, before, arguments):
            cache, length = this.cache_config, this.max_session_len
            tokens = cache.num_gpu_blocks * cache.block_size
            self.mark("cache", bytes=self._cache_bytes, tokens=tokens, blocks=cache.num_gpu_blocks, block=cache.block_size,
                      length=length, requests=f"{tokens / length:.2f}", layers=this.model_config.num_layers,
                      type=this.model_config.dtype)
            self.tell_ready(utilization=cache.cache_max_entry_count, max_prefill_token_num=cache.max_prefill_token_num,
                            max_batch_size=cache.max_batches)

        self.stage(module.Engine, "__init__", b"lmdeploy: start", ready)
