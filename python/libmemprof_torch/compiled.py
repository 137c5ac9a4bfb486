"""Finds steps of optimizers within code of torch.compile, which enters no region. PyTorch increments a parameter's
version with every change, so the versions of the first parameters are compared before and after each call."""

from libmemprof_torch import replace


def start(torch, optimizers, after_import):
    """`after_import(name, then)` calls then(module) once it is imported: Dynamo is imported when it is first needed."""
    optimizer = torch.optim.Optimizer
    known = optimizers.known

    def make_patch(patch):
        def _patch_step_function(self):
            patch(self)
            known(self)
        return _patch_step_function

    def follow(eval_frame):
        enter = optimizers.enter_compiled

        def make_init(init):
            def __init__(self, *arguments, **named):
                init(self, *arguments, **named)
                hooks = getattr(self, "enter_exit_hooks", None)  # each is called before, its answer behind
                if type(hooks) is list:
                    hooks.append(enter)
            return __init__

        context = getattr(eval_frame, "OptimizeContext", None)  # what raises here fails the program's import
        if "__init__" in getattr(context, "__dict__", ()):
            replace(context, "__init__", make_init)

    if hasattr(optimizer, "_patch_step_function"):  # which every optimizer calls when it is made
        replace(optimizer, "_patch_step_function", make_patch)
        after_import("torch._dynamo.eval_frame", follow)
