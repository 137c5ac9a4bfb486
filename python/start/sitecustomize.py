"""Starts memprof's PyTorch shim. `memprof snapshot` puts this folder first on PYTHONPATH, so that every Python of the
program finds it; `--no-shim` leaves it out. Any Python may run it: nothing here is newer than 2.7, and nothing is
imported.

The program's own sitecustomize runs, is missing or fails as if this one did not exist. Then a finder waits for `import
torch`, leaves it to the usual finder, and starts libmemprof_torch afterwards.
"""
import sys


def _start(torch):
    try:
        import os
        if os.environ.get("MEMPROF_PLAN"):
            import libmemprof_plan
            libmemprof_plan.start(torch, _after_import)
        if os.environ.get("MEMPROF_APPLY"):
            from libmemprof_torch import apply
            apply.start(torch, _after_import)
    except Exception:
        pass
    try:
        import libmemprof_torch
        libmemprof_torch.start(torch, _after_import)
    except Exception:  # not recorded, or not as this version knows it: the program goes on without
        pass


def _start_host():
    """With --host --holders. Where torch is imported later, its own looks take over."""
    try:
        import os
        if os.environ.get("MEMPROF_HOST_HOLDERS") and "torch" not in sys.modules:
            from libmemprof_torch import holders_host
            holders_host.start()
    except Exception:  # not recorded, or another version of Python
        pass


def _start_jax(hardware):
    try:
        from libmemprof_plan import xla
        xla.start(hardware, _after_import)
    except Exception:
        pass


class _Finder(object):
    """Sees imports of modules. One finder waits for all, so that none asks another for ever."""
    followers = {}  # by module: what to call afterwards

    def find_spec(self, name, path=None, target=None):
        if name not in self.followers:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self._follow(spec.loader, name)
                return spec
        return None

    def _follow(self, loader, name):
        """During the import, the loader has an additional attribute, which removes itself again."""
        def exec_module(module):
            del loader.exec_module
            loader.exec_module(module)
            followers = self.followers.pop(name, ())
            if not self.followers and self in sys.meta_path:
                sys.meta_path.remove(self)
            for then in followers:
                then(module)

        try:
            if "exec_module" not in vars(loader):
                loader.exec_module = exec_module
        except (AttributeError, TypeError):  # a loader without attributes of its own
            pass


_finder = _Finder()


def _after_import(name, then):
    if name in sys.modules:  # torch: the program's own sitecustomize wanted it
        then(sys.modules[name])
        return
    _finder.followers.setdefault(name, []).append(then)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _load_lazily():
    """Under `memprof plan`, a library may link a function that the stand-in GPU lacks. Then only a call of that
    function fails, and the loader's message names the function."""
    try:
        import os
        if os.environ.get("MEMPROF_PLAN"):
            sys.setdlopenflags(os.RTLD_LAZY)
            _after_import("jax._src.hardware_utils", _start_jax)
    except Exception:  # a system without such flags
        pass


def _tell_calls():
    try:
        import os
        if sys.version_info >= (3, 12) and os.environ.get("MEMPROF_STEP_AT"):
            import libmemprof_calls
            libmemprof_calls.start(os.environ["MEMPROF_STEP_AT"])
    except Exception:  # the recorder looks for calls itself
        pass


ENGINES = ("ray._private.worker", "ray.util.client.worker", "distributed.client", "distributed.worker", "celery.signals")


def _follow_engine(module):
    try:
        import libmemprof_engines
        libmemprof_engines.start(module)
    except Exception:  # another version of the engine
        pass


def _tell_worker():
    """An engine gave this process the variables of libmemprof.environment()."""
    try:
        import os
        if os.environ.pop("MEMPROF_WORKER", None):
            import libmemprof_engines
            libmemprof_engines.works()
    except Exception:
        pass


def _hand_over():
    """Imports the program's own sitecustomize in place of this one. Returns its error, if any."""
    folder = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    del sys.modules[__name__]
    try:
        import sitecustomize
    finally:
        _tell_calls()
        _tell_worker()
        for name in ENGINES:
            _after_import(name, _follow_engine)
        _after_import("torch", _start)
        _start_host()


_load_lazily()
_hand_over()
