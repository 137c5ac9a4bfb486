#include "exchange/common/public_names.h"

#include <ctype.h>
#include <string.h>

#include "base/member.h"
#include "base/words.h"

/* ---- the lists ---- */

/* Folders and files of Python's library, PyTorch and NumPy. A path is public if all its parts are in this list: a
 * user's file inside of PyTorch's folder stays private. The rules of memprof's reports look for most of these names. */
static const char path_parts[] =
    " torch torchgen functorch numpy nn modules parallel optim optimizer autograd utils data cuda amp distributed"
    " fsdp fx jit quantization ao profiler functional init module linear conv container activation batchnorm"
    " instancenorm normalization dropout embedding sparse rnn loss pooling transformer padding pixelshuffle"
    " upsampling fold flatten distance lazy adaptive channelshuffle clip_grad parametrize parametrizations"
    " weight_norm spectral_norm stateless memory_format data_parallel parallel_apply replicate scatter_gather comm"
    " adam adamw adamax adadelta adagrad asgd lbfgs nadam radam rprop rmsprop sgd sparse_adam adafactor lr_scheduler"
    " swa_utils function grad_mode graph anomaly_mode variable forward_ad gradcheck grad_scaler autocast_mode memory"
    " streams graphs random nccl nvtx dataloader dataset sampler distributed_sampler fetch worker pin_memory collate"
    " signal_handling datapipes checkpoint hooks cpp_extension backend_registration hipify tensorboard _utils"
    " _contextlib _device _pytree _python_dispatch _stats _tensor _tensor_str _utils_internal _ops _compile _library"
    " _jit_internal _lowrank _linalg_utils _namedtensor_internals _storage_docs _torch_docs _vmap_internals"
    " _functorch _aot_autograd aot_autograd runtime_wrappers apis vmap eager_transforms _decomp decompositions"
    " _dynamo eval_frame convert_frame symbolic_convert bytecode_transformation output_graph guards variables"
    " builder functions _inductor output_code compile_fx graph_module interpreter node proxy experimental"
    " proxy_tensor symbolic_shapes codecache cudagraph_trees _subclasses fake_tensor fake_impls meta_utils _prims"
    " _prims_common _refs wrappers serialization storage hub overrides library types return_types attention"
    " flex_attention bias _functions _multi_tensor distributed_c10d c10d_logger rendezvous constants algorithms"
    " ddp_comm_hooks default_hooks _tensor_api api tensor fully_sharded_data_parallel flat_param _flat_param"
    " _runtime_utils _unshard_param_utils _state_dict_utils _optim_utils _init_utils _limiter_utils"
    " _exec_order_utils _traversal_utils _wrap_utils wrap _fully_shard _fsdp_api _fsdp_collectives _fsdp_common"
    " _fsdp_init _fsdp_param _fsdp_param_group _fsdp_state fully_shard _composable _composable_state contract"
    " pipeline pipelining stage schedules elastic agent server launcher run multiprocessing reductions queue spawn"
    " pool context process popen_fork popen_forkserver popen_spawn_posix forkserver connection managers synchronize"
    " shared_memory resource_tracker util heap core lib linalg fft ma polynomial numeric fromnumeric multiarray"
    " _methods shape_base threading runpy site codecs io abc os posixpath genericpath stat contextlib functools"
    " collections concurrent futures thread _base asyncio base_events events runners tasks queues selectors socket"
    " socketserver json encoder decoder scanner re sre_compile sre_parse _compiler _parser pickle copy copyreg"
    " struct enum dataclasses typing inspect ast dis tokenize token linecache traceback warnings logging handlers"
    " config importlib _bootstrap _bootstrap_external metadata machinery resources zipimport zipfile pathlib"
    " tempfile shutil glob fnmatch statistics fractions decimal numbers operator heapq bisect weakref _weakrefset gc"
    " subprocess signal atexit sched time datetime calendar locale gettext argparse optparse getopt configparser csv"
    " gzip bz2 lzma tarfile hashlib hmac secrets base64 uuid urllib request parse error http client email ssl"
    " unittest case suite loader main runner mock doctest pdb bdb cmd code codeop timeit trace cProfile profile"
    " pstats ctypes _endian curses encodings utf_8 ascii latin_1 idna html xml sqlite3 dbapi2 dbm textwrap string"
    " pprint reprlib difflib shlex fileinput platform sysconfig __init__ __main__ __future__ ";

/* Functions of those files, and their classes. */
static const char functions[] =
    " <module> <lambda> <listcomp> <dictcomp> <setcomp> <genexpr> <locals> __init__ __new__ __call__ __enter__"
    " __exit__ __del__ __iter__ __next__ __len__ __getitem__ __setitem__ __getattr__ __setattr__ __getattribute__"
    " __contains__ __repr__ __str__ __eq__ __hash__ __bool__ __add__ __sub__ __mul__ __matmul__ __truediv__ __pow__"
    " __neg__ __radd__ __rsub__ __rmul__ __rtruediv__ __rpow__ __iadd__ __isub__ __imul__ __itruediv__ __array__"
    " __deepcopy__ __reduce__ __reduce_ex__ __getstate__ __setstate__ __init_subclass__ __torch_function__"
    " __torch_dispatch__ _call_impl _wrapped_call_impl _slow_forward _call_with_frames inner forward backward apply"
    " _apply to cuda cpu half float double bfloat16 type convert wrapper wrapped decorate_context decorate_autocast"
    " decorate_fwd decorate_bwd step zero_grad add_param_group profile_hook_step _use_grad _init_group"
    " _single_tensor_adam _multi_tensor_adam adam _fused_adam _single_tensor_adamw _multi_tensor_adamw adamw"
    " _single_tensor_sgd _multi_tensor_sgd sgd _default_to_fused_or_foreach _use_grad_for_differentiable _get_value"
    " _stack_if_compiling unscale_ scale update _maybe_opt_step _unscale_grads_ closure grad _make_grads"
    " _engine_run_backward _calculate_shape no_grad enable_grad inference_mode checkpoint"
    " _checkpoint_without_reentrant recompute unpack_hook pack_hook noop_context_fn load_state_dict"
    " _load_from_state_dict state_dict _save_to_state_dict from_pretrained init_weights _init_weights init_weight"
    " reset_parameters flatten_parameters register_buffer register_parameter register_module parameters"
    " named_parameters named_modules train eval requires_grad_ uniform_ normal_ kaiming_uniform_ kaiming_normal_"
    " xavier_uniform_ xavier_normal_ trunc_normal_ constant_ zeros_ ones_ orthogonal_ _no_grad_uniform_"
    " _no_grad_normal_ _no_grad_fill_ clip_grad_norm_ clip_grad_value_ _get_total_norm _clip_grads_with_norm_ linear"
    " bilinear conv1d conv2d conv3d _conv_forward relu gelu silu elu leaky_relu softmax log_softmax sigmoid tanh"
    " softplus dropout batch_norm layer_norm group_norm instance_norm rms_norm embedding embedding_bag cross_entropy"
    " nll_loss mse_loss l1_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div max_pool1d max_pool2d"
    " _max_pool1d _max_pool2d _max_pool3d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d pad interpolate"
    " normalize one_hot unfold fold multi_head_attention_forward scaled_dot_product_attention _in_projection_packed"
    " _sa_block _ff_block einsum norm split stack cat meshgrid stft cdist tensordot clone detach numpy item tolist"
    " contiguous _next_data _next_index _get_data _try_get_data _process_data _try_put_index _worker_loop"
    " _pin_memory_loop pin_memory default_collate collate fetch _get_iterator _shutdown_workers"
    " handle_torch_function _rebuild_tensor _rebuild_tensor_v2 _rebuild_parameter _rebuild_from_type_v2 save load"
    " _save _load persistent_load load_tensor _sync_buffers _sync_params _broadcast_coalesced"
    " _broadcast_coalesced_reshape replicate scatter gather scatter_kwargs parallel_apply reduce_add_coalesced"
    " all_gather all_reduce reduce_scatter all_gather_into_tensor reduce_scatter_tensor foreach_reduce"
    " foreach_all_gather unshard reshard _unshard _reshard pre_forward post_forward pre_backward post_backward"
    " _pre_forward _post_forward _run_ddp_forward _lazy_init _fn _compile compile_wrapper compile_inner"
    " _compile_inner call_function run_node inner_compile aot_forward runtime_wrapper call_func"
    " call_func_at_runtime_with_args run _run _run_once run_forever run_until_complete _run_module_as_main _run_code"
    " _bootstrap _bootstrap_inner start join submit result get put _launch _main _find_and_load"
    " _find_and_load_unlocked _load_unlocked _call_with_frames_removed exec_module import_module _handle_fromlist"
    " main Module Sequential ModuleList ModuleDict ParameterList ParameterDict Linear Bilinear LazyLinear Identity"
    " Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d _ConvNd _ConvTransposeNd BatchNorm1d"
    " BatchNorm2d BatchNorm3d _BatchNorm _NormBase SyncBatchNorm LayerNorm GroupNorm RMSNorm InstanceNorm1d"
    " InstanceNorm2d InstanceNorm3d Dropout Dropout1d Dropout2d AlphaDropout Embedding EmbeddingBag RNN LSTM GRU"
    " RNNBase RNNCell LSTMCell GRUCell ReLU ReLU6 GELU SiLU ELU LeakyReLU Softmax LogSoftmax Sigmoid Tanh Hardswish"
    " Hardtanh MultiheadAttention Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder"
    " TransformerDecoderLayer MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d"
    " AdaptiveAvgPool2d AdaptiveMaxPool2d Flatten Unflatten Upsample PixelShuffle CrossEntropyLoss MSELoss L1Loss"
    " NLLLoss BCELoss BCEWithLogitsLoss KLDivLoss SmoothL1Loss HuberLoss CTCLoss DataParallel"
    " DistributedDataParallel FullyShardedDataParallel FSDPParam FSDPParamGroup FSDPState FlatParamHandle Optimizer"
    " Adam AdamW Adamax Adadelta Adagrad ASGD LBFGS NAdam RAdam Rprop RMSprop SGD SparseAdam Adafactor LRScheduler"
    " _LRScheduler GradScaler autocast Tensor Parameter Buffer Function BackwardCFunction FunctionCtx"
    " CheckpointFunction DataLoader _BaseDataLoaderIter _SingleProcessDataLoaderIter _MultiProcessingDataLoaderIter"
    " _MapDatasetFetcher _IterableDatasetFetcher TensorDataset OptimizedModule Interpreter GraphModule _WrappedCall"
    " OpOverload OpOverloadPacket _Ops Thread Process BaseProcess Popen ThreadPoolExecutor ProcessPoolExecutor"
    " _WorkItem Future ContextDecorator ";

/* Shared objects; a version may follow each. */
static const char libraries[] =
    " libc.so libm.so libpthread.so libdl.so librt.so ld-linux-x86-64.so ld-linux-aarch64.so libgcc_s.so"
    " libstdc++.so libgomp.so libiomp5.so libcuda.so libcudart.so libcublas.so libcublasLt.so libcufft.so"
    " libcurand.so libcusolver.so libcusparse.so libcupti.so libnccl.so libnvidia-ml.so libnvToolsExt.so"
    " libnvJitLink.so libnvrtc.so libcudnn.so libcudnn_ops_infer.so libcudnn_cnn_infer.so libcudnn_cnn_train.so"
    " libcudnn_graph.so libcudnn_ops.so libcudnn_cnn.so libcudnn_adv.so libcudnn_engines_precompiled.so"
    " libcudnn_engines_runtime_compiled.so libcudnn_heuristic.so libblas.so liblapack.so libopenblas.so"
    " libmkl_core.so libmkl_rt.so libmkl_intel_lp64.so libmkl_intel_thread.so libmkl_gnu_thread.so libtorch.so"
    " libtorch_cpu.so libtorch_cuda.so libtorch_cuda_linalg.so libtorch_python.so libc10.so libc10_cuda.so libshm.so"
    " libmemprof.so libmemprof-hooks.so libmemprof-malloc.so ";

/* Words of memprof's own sentences about a recording, of its tracks, counters, sources and devices, and of ends of
 * processes. */
static const char own_words[] =
    " a about action active ada addmm addr address addresses after again all allocate allocated allocates allocation"
    " allocations allocator amd among an and annotations another answer api append are args around as asked at aten"
    " average back backtraces base basetimenanoseconds be because become before began begin beginning begins begun"
    " beyond bits block blocks both buffer buffers bus but by byte bytes c call callback callbacks callchains calls"
    " came can cannot capture cat changed changes checked clock collecting collector comes common complete completed"
    " compress compressed container contexts copy coroutine could count counted cpu cuda cudabacktrace cupti cut"
    " cycle damaged database day deep deeper descriptor device devices dictionary did died differed difference"
    " different disagree displaytimeunit does driver dropped e each earlier else empty end ended ends enough entries"
    " entry error ev event events every exact exclusive exec executables exit export far faster file files finished"
    " first fit fitted flushing folder follow followed for format found frames free freed frees from full function"
    " functions gave gb geforce generation gib give gives go gone gpu grad graph graphics graphs gtx gunzip gzip had"
    " handed handler handlers happened has have hbm held here hidden history hold holders holds hooks how i id idx"
    " if imported in index inferred instant instinct intel interrupted into is it items its job joins json jump"
    " jumps keep keeps kept key keys kib killed kineto know known labels lack lacked lacks laptop last late later"
    " leave left length let levels libnvidia libraries like limit line lines list listed lists live lived lives log"
    " long looked looks loop lost m made main makes managed many mapped mark marks master max may memory memprof mib"
    " middle mig million missing ml mode module modules moment more most moved mp ms multicast must n name names"
    " native needs negative neither nest nested never newest no nodes none nor not note nothing nowhere nsight nsys"
    " nul number numbers nvidia nvl nvml nvtx object objects of off often old on once one only opcode open operator"
    " operators or order origin other others out outlived output outside over overflowed overlap overview own passed"
    " pattern pci pcie perhaps ph pickle pid places pointer pointers pool pools pro process processes profile"
    " profiled profiler program proportion protocol puts python pythonpath pytorch quadro question quotation radeon"
    " ran ranges reach read readable reads record recorded recorder recording recordings records recovered recovery"
    " regex regions registered regular release repeat repeats replaced reported requested reserved resident right"
    " ring rings rmm room rounded row rows rtx run runs s same sample sampled samples say says schedule scheduled"
    " seen segments sense set sets settings shared shares shim short shorter shows sigabrt sigalrm sigbus sigfpe"
    " sighup sigill sigint sigkill signal sigpipe sigquit sigsegv sigterm sigtrap sigusr sigxcpu sigxfsz sites size"
    " sizes snapshot so soft some something sort spool sqlite stack stacks stand stands start started step steps"
    " still stopped stored stores stream streams such super sxm symbol symbols synchronous system systems t table"
    " tables take taken takes tell temp tesla text than that the their them then there they this those thread"
    " threads ti tid time times titan to told too took tool torch total totalglobalmem totals trace traceevents"
    " tracename traces track true two type u ultra under unescaped unfinished unit unknown unwrap unwrapped usable"
    " usage use used uses value values variables version versions visible wait wanted warmup was went were what when"
    " where which while whose window with without work would write written wrote x ";

/* True if a list has the word (`length` bytes, without blanks). */
static bool is_listed(const char *list, const char *word, size_t length)
{
    if (!length || memchr(word, ' ', length)) return false;
    for (const char *at = list; (at = strstr(at, " ")) && at[1]; at++)
        if (!strncmp(at + 1, word, length) && at[1 + length] == ' ') return true;
    return false;
}

static bool is_one_of(const char *text, size_t length, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == length && !memcmp(*words, text, length)) return true;
    return false;
}

/* True if `text` matches `pattern`, in which # stands for one or more digits. */
static bool is_like(const char *text, const char *pattern)
{
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*text++ != *pattern) return false;
            continue;
        }
        size_t digits = strspn(text, "0123456789");
        if (!digits) return false;
        text += digits;
    }
    return !*text;
}

static bool is_like_one(const char *text, const char *const *patterns)
{
    for (; *patterns; patterns++)
        if (is_like(text, *patterns)) return true;
    return false;
}

/* ---- files and libraries ---- */

/* The part of a path after Python's version: "json/encoder.py" of "/usr/lib/python3.11/json/encoder.py". */
static const char *behind_version(const char *path)
{
    static const char *const folders[] = {"/lib/python3.", "/lib64/python3."};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]);
        if (!at) continue;
        at += strlen(folders[i]);
        size_t digits = strspn(at, "0123456789");
        if (digits && at[digits] == '/') return at + digits + 1;
    }
    return NULL;
}

/* "torch/nn/modules/module.py": parts between slashes, each of them known. */
static bool is_listed_file(const char *name)
{
    static const char ending[] = ".py";
    for (;;) {
        size_t length = strcspn(name, "/");
        bool is_last = !name[length];
        if (is_last && (length < sizeof ending || strcmp(name + length - (sizeof ending - 1), ending) != 0))
            return false;
        if (!is_listed(path_parts, name, is_last ? length - (sizeof ending - 1) : length)) return false;
        if (is_last) return true;
        name += length + 1;
    }
}

static const char *python_part(const char *path)
{
    static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
    static const char *const packages[] = {"torch/", "torchgen/", "functorch/", "numpy/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]), *name = at ? at + strlen(folders[i]) : NULL;
        for (size_t k = 0; at && k < sizeof packages / sizeof *packages; k++)
            if (!strncmp(name, packages[k], strlen(packages[k])) && is_listed_file(name)) return at;
        if (at) return NULL;
    }
    const char *name = behind_version(path);
    if (name && is_listed_file(name)) return strstr(path, "/lib64/") ? strstr(path, "/lib64/") : strstr(path, "/lib/");
    /* PyTorch's profiler writes paths of PyTorch's files without the folders before torch/. */
    return !strncmp(path, "torch/", strlen("torch/")) && is_listed_file(path) ? path : NULL;
}

/* "<frozen importlib._bootstrap>": a module of the standard library. */
static bool is_frozen(const char *path)
{
    static const char *const modules[] = {"importlib._bootstrap",
                                          "importlib._bootstrap_external",
                                          "runpy",
                                          "os",
                                          "site",
                                          "codecs",
                                          "io",
                                          "abc",
                                          "zipimport",
                                          "posixpath",
                                          "genericpath",
                                          "stat",
                                          NULL};
    static const char head[] = "<frozen ";
    size_t length = strlen(path);
    if (strncmp(path, head, sizeof head - 1) || path[length - 1] != '>') return false;
    return is_one_of(path + sizeof head - 1, length - sizeof head, modules);
}

const char *mp_public_path(const char *path)
{
    static const char *const made_up[] = {
        "<string>", "<stdin>", "<eval_with_key>", "<eval_with_key>.#", "<__array_function__ internals>", NULL};
    if (*path == '<') return is_like_one(path, made_up) || is_frozen(path) ? path : NULL;
    return python_part(path);
}

static bool is_numbered(const char *text)
{
    return strspn(text, ".-0123456789") == strlen(text);
}

/* True if the file is the extension in PyTorch's own folder. Other packages may have an extension of the same name. */
static bool is_extension_of_torch(const char *path, const char *name)
{
    static const char folder[] = "/torch/";
    static const char *const names[] = {"_C.so", "_C.cpython-#-x86_64-linux-gnu.so",
                                        "_C.cpython-#-aarch64-linux-gnu.so", NULL};
    return name - path >= (ptrdiff_t)sizeof folder - 1 &&
           !strncmp(name - (sizeof folder - 1), folder, sizeof folder - 1) && is_like_one(name, names);
}

const char *mp_public_library(const char *path)
{
    static const char *const others[] = {"linux-vdso.so.#", "memprof", "libpython#.#.so.#.#", "libpython#.so", NULL};
    static const char *const interpreters[] = {"python", "python#", "python#.#", NULL};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *ending = strstr(name, ".so");
    bool in_bin = name - path >= 5 && !strncmp(name - 5, "/bin/", 5);
    if (is_like_one(name, others) || is_extension_of_torch(path, name)) return name;
    if (in_bin && is_like_one(name, interpreters)) return name;
    bool is_versioned = ending && is_numbered(ending + 3);
    return is_versioned && is_listed(libraries, name, (size_t)(ending + 3 - name)) ? name : NULL;
}

bool mp_public_python(const char *name)
{
    for (const char *at = name;; at++) {
        size_t length = strcspn(at, ".");
        if (!is_listed(functions, at, length)) return false;
        at += length;
        if (!*at) return true;
    }
}

/* ---- memprof's own names, and the rest ---- */

bool mp_public_thread(const char *name)
{
    static const char *const known[] = {"python",
                                        "python#",
                                        "python#.#",
                                        "pt_main_thread",
                                        "pt_autograd_#",
                                        "pt_data_worker",
                                        "pt_data_pin",
                                        "pt_nccl_watchdg",
                                        "pt_nccl_heartbt",
                                        "pt_elastic",
                                        "pt_tcpstore",
                                        "pt_gloo_runloop",
                                        "cuda-EvtHandlr",
                                        "cuda#",
                                        "OpenMP",
                                        "ranges #",
                                        NULL};
    return is_like_one(name, known);
}

static bool is_own_word(const char *word, size_t length)
{
    char lower[32];
    if (length >= sizeof lower) return false;
    for (size_t i = 0; i < length; i++)
        lower[i] = (char)tolower((unsigned char)word[i]);
    return is_listed(own_words, lower, length);
}

bool mp_public_words(const char *text)
{
    for (const char *at = text; *at;) {
        size_t letters = 0, digits = strspn(at, "0123456789");
        while (isalpha((unsigned char)at[letters]))
            letters++;
        if (letters && !is_own_word(at, letters)) return false;
        if (!letters && !digits &&
            ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f || strchr("_/\\@\"`<>", *at)))
            return false;
        at += letters ? letters : digits ? digits : 1;
    }
    return true;
}

bool mp_public_setting(const char *key, size_t length)
{
    static const char *const keys[] = {
        "native",  "python",         "free_stacks", "torch",          "cpu_tensors",  "cupti",
        "hooks",   "cpu_throughout", "wait",        "follow",         "paused",       "max_events",
        "shim",    "torch_history",  "sample",      "depth",          "live_each",    "live_steps",
        "holders", "host",           "operators",   "operators_from", "operators_to", NULL};
    return is_one_of(key, length, keys);
}

bool mp_public_operator(const char *name)
{
    static const char *const names[] = {"addmm",
                                        "baddbmm",
                                        "bmm",
                                        "mm",
                                        "_to_copy",
                                        "copy_",
                                        "zeros_like",
                                        "native_layer_norm",
                                        "native_dropout",
                                        "_softmax",
                                        "_log_softmax",
                                        "convolution",
                                        "cudnn_convolution",
                                        "cudnn_batch_norm",
                                        "sum",
                                        "mean",
                                        "mul",
                                        "add",
                                        "add_",
                                        "mul_",
                                        "div",
                                        "gelu",
                                        "silu",
                                        "relu",
                                        "embedding",
                                        "index_select",
                                        "_foreach_add_",
                                        "_fused_adamw_",
                                        "threshold_backward",
                                        "gelu_backward",
                                        "native_layer_norm_backward",
                                        "_log_softmax_backward_data",
                                        NULL};
    return is_one_of(name, strlen(name), names) || (*name && mp_public_python(name));
}

bool mp_public_shape(const char *text)
{
    static const char *const types[] = {"float", "bfloat", "int", "uint", "bool", "complex", NULL};
    size_t letters = strcspn(text, " 0123456789"), rest = strspn(text + letters, "0123456789_emfnuzx");
    const char *sizes = text + letters + rest;
    if (!is_one_of(text, letters, types) || strncmp(sizes, " [", 2) != 0) return false;
    sizes += 2 + strspn(sizes + 2, "0123456789, ");
    if (!strncmp(sizes, "] strides [", 11)) sizes += 11 + strspn(sizes + 11, "0123456789, ");
    return !strcmp(sizes, "]");
}

bool mp_public_role(const char *role)
{
    static const char *const roles[] = {"",
                                        "chief",
                                        "evaluator",
                                        "master",
                                        "ps",
                                        "trainer",
                                        MP_ROLE_LOADER_WORKER,
                                        MP_ROLE_POOL_WORKER,
                                        MP_ROLE_WORKER,
                                        MP_ROLE_RAY,
                                        MP_ROLE_FORK_SERVER,
                                        MP_ROLE_TRACKER,
                                        MP_ROLE_FORKED,
                                        NULL};
    return is_one_of(role, strlen(role), roles);
}

bool mp_public_device(const char *name)
{
    for (unsigned type = 0; type < 64; type++) {
        const char *known = mp_device_type_name(type);
        size_t length = strlen(known);
        if (!strncmp(name, known, length) && (!name[length] || is_like(name + length, ":#"))) return true;
    }
    return false;
}

/* "H200", "80GB", "SXM5": a few letters, a number, a few letters. */
static bool is_type_number(const char *word, size_t length)
{
    size_t before = 0, digits = 0, after = 0;
    while (before < length && isupper((unsigned char)word[before]))
        before++;
    while (before + digits < length && isdigit((unsigned char)word[before + digits]))
        digits++;
    while (before + digits + after < length && isalpha((unsigned char)word[before + digits + after]))
        after++;
    return before + digits + after == length && before <= 3 && digits && digits <= 5 && after <= 3;
}

bool mp_public_model(const char *name)
{
    for (const char *at = name;;) {
        at += strspn(at, " -()");
        if (!*at) return true;
        size_t length = strcspn(at, " -()");
        if (!is_type_number(at, length) && !is_own_word(at, length)) return false;
        at += length;
    }
}

bool mp_public_tensor(const char *name, size_t length)
{
    static const char *const names[] = {
        "weight",         "bias",         "grad",    "running_mean", "running_var",    "num_batches_tracked",
        "in_proj_weight", "in_proj_bias", "exp_avg", "exp_avg_sq",   "max_exp_avg_sq", "momentum_buffer",
        "square_avg",     "step"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !memcmp(names[i], name, length)) return true;
    return false;
}
