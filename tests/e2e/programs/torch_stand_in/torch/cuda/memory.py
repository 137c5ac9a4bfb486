"""torch.cuda.memory with the signatures of each version; the names are PyTorch's."""
import inspect
import sys

from torch import _C

VERSION = _C.VERSION

if VERSION < (2,):
    def _record_memory_history(enabled, device=None):
        _C._cuda_recordMemoryHistory(enabled)
elif VERSION < (2, 1):
    def _record_memory_history(enabled, record_context=True, trace_alloc_max_entries=1, trace_alloc_record_context=False,
                               device=None, record_context_cpp=False):
        _C._cuda_recordMemoryHistory(enabled, record_context, record_context_cpp, trace_alloc_max_entries,
                                     trace_alloc_record_context)
else:
    def _record_memory_history(enabled="all", *args, **kwargs):
        if isinstance(enabled, bool):
            return _C._cuda_record_memory_history_legacy(enabled, *args, **kwargs)
        return _record_memory_history_impl(enabled, *args, **kwargs)

    if VERSION < (2, 8):
        def _record_memory_history_impl(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None):
            _C._cuda_record_memory_history(enabled, context, stacks, max_entries)
    elif VERSION < (2, 10):
        def _record_memory_history_impl(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None,
                                        clear_history=False, compile_context=False, global_record_annotations=False):
            _C._cuda_record_memory_history(enabled, context, stacks, max_entries, clear_history, compile_context,
                                           global_record_annotations)
    elif VERSION < (2, 13):
        def _record_memory_history_impl(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None,
                                        clear_history=False, compile_context=False, global_record_annotations=False,
                                        skip_actions=None):
            _C._cuda_record_memory_history(enabled, context, stacks, max_entries, clear_history, compile_context,
                                           global_record_annotations, skip_actions or [])
    else:
        def _record_memory_history_impl(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None,
                                        clear_history=False, compile_context=False, global_record_annotations=False,
                                        skip_actions=None, record_pinned_host_memory=False, record_cuda=True):
            _C._cuda_record_memory_history(enabled, context, stacks, max_entries, clear_history, compile_context,
                                           global_record_annotations, skip_actions or [], record_pinned_host_memory,
                                           record_cuda)
    _record_memory_history.__signature__ = inspect.signature(_record_memory_history_impl)


def _snapshot(device=None):
    return _C._cuda_memorySnapshot(*([] if VERSION < (2, 7) else [None]))


if VERSION < (2, 11):
    def memory_snapshot():
        found = _C._cuda_memorySnapshot()
        return found if isinstance(found, list) else found["segments"]
else:
    def memory_snapshot(mempool_id=None, include_traces=True):
        return _C._cuda_memorySnapshot((0, 0, include_traces))["segments"]
