from types import SimpleNamespace


def get_schedule():
    return SimpleNamespace(mem_fraction_static=0.75, chunked_prefill_size=64)
