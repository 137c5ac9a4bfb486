def load_jit(*arguments, **named):
    raise RuntimeError("nvcc was not found")
