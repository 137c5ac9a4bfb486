"""Ray calls hook() with the environment of a job's workers, as $RAY_RUNTIME_ENV_HOOK says, which `memprof snapshot`
sets. Workers of a cluster that runs already thus belong to the recording, if they run on the same machine. A hook of
the program's own runs first; $MEMPROF_RAY_HOOK has its name. Needs only the standard library.
"""
import importlib
import os

import libmemprof


def _before(runtime_env):
    module, _, name = os.environ.get("MEMPROF_RAY_HOOK", "").rpartition(".")
    return getattr(importlib.import_module(module), name)(runtime_env) if module else runtime_env


def hook(runtime_env):
    env = dict(_before(runtime_env) or {})
    given = dict(env.get("env_vars") or {})
    ours = libmemprof.environment(given)
    if ours:
        env["env_vars"] = {**given, **ours}
    return env
