from torch import _C


class record_function:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        _C.note_region()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        return None


class profiler:
    record_function = record_function
