"""The stand-in of SGLang, set up as its scheduler does: serve_sglang.py FOLDER LENGTH TOKENS; then three steps."""

import sys

import torch  # noqa: F401
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.server_args import ServerArgs

settings = ServerArgs(sys.argv[1], int(sys.argv[2]))
settings.resolve_once()
settings.resolve_once()  # as launchers do, once it is read-only
scheduler = Scheduler(settings, int(sys.argv[3]))
scheduler.init_model_worker()
for step in range(3):
    scheduler.run_batch(1 << 16)
