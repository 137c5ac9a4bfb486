"""Kernels that an engine compiles at their first call. A plan leaves them out, as it computes nothing.

CuTe DSL's kernels run on a copy of NVIDIA's runtime, which asks NVIDIA's driver for undocumented tables. Kernels of
SGLang, FlashInfer and DeepGEMM need nvcc, and minutes. Their callers own all tensors, so each launch can launch a
kernel of PyTorch's instead. Captured graphs then have the same number of nodes.
"""

import functools


def start(after_import, guarded):
    left_out = LeftOut()
    for name, then in {"cutlass.base_dsl.compiler": left_out.of_cute, "deep_gemm": left_out.of_deep_gemm,
                       "flashinfer.jit.core": left_out.of_flashinfer,
                       "sglang.kernels.jit.utils.compile.loader": left_out.of_sglang}.items():
        after_import(name, functools.partial(guarded, name, then))


class LeftOut:
    def __init__(self):
        self._scratch = None

    def launch(self, *arguments, **named):
        import torch
        if self._scratch is None:
            self._scratch = torch.zeros(1, device="cuda")
        self._scratch.add_(1)

    def of_cute(self, module):
        module.CompileCallable.__call__ = lambda callable, *arguments, **named: self.launch

    def of_deep_gemm(self, module):
        for name in [name for name, value in vars(module).items() if "_gemm_" in name and callable(value)]:
            setattr(module, name, self.launch)

    def of_flashinfer(self, module):
        module.JitSpec.build_and_load = lambda spec, *arguments, **named: Module(self.launch)

    def of_sglang(self, module):
        module.load_jit = lambda *arguments, **named: Module(self.launch)


class Module:
    """A compiled module whose functions all launch one kernel. FlashInfer's `plan` divides the work of the next launch
    on the host; its callers only pass on the list of numbers that it answers."""

    def __init__(self, launch):
        self._launch = launch

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Function(lambda *_, **__: [0]) if name == "plan" else Function(self._launch)

    def __getitem__(self, name):
        return Function(self._launch)


class Function:
    """FlashInfer 0.3 calls its functions as operators of PyTorch: function.default(...)."""

    def __init__(self, call):
        self._call = call

    def __call__(self, *arguments, **named):
        return self._call(*arguments, **named)

    @property
    def default(self):
        return self
