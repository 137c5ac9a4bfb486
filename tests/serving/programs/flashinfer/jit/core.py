class JitSpec:
    def build_and_load(self):
        raise RuntimeError("nvcc was not found")
