from types import SimpleNamespace


def get_schedule():
    return SimpleNamespace(mem_fraction_static=0.75, chunked_prefill_size=64)


def get_exec():
    prefill = SimpleNamespace(backend="breakable", max_bs=32)
    return SimpleNamespace(graph=SimpleNamespace(cuda_graph_config=SimpleNamespace(prefill=prefill)))
