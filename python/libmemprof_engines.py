"""Tells memprof that this process gives work to an engine (Ray, Dask, Celery) that memprof did not start, or that it is
an engine's worker. Each row of ENGINES uses a place that the engine has for it. Needs only the standard library.
"""
import os
import socket
import sys

ASKS, WORKS = -4, -5  # src/collect/session/unreached.h


def _tell(reason, text):
    """Makes a folder in the session's folder, as a process does that cannot be recorded (src/wire/config.h)."""
    path = os.environ.get("MEMPROF_SESSION", "").partition(";")[2]
    try:
        if path:
            os.mkdir("%s.refused.%03d.%010d.%010d.%s" % (path, reason, os.getpid(), os.getpid(),
                                                         text.replace("/", "")[:60]))
    except OSError:  # told before, or the session is over
        pass


def works():
    _tell(WORKS, "")


def _is_here(host):
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
        return True
    except OSError:
        return False


def _sockets_at(port):
    """The inodes of the sockets that listen on the port."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        found.update("socket:[%s]" % row[9] for row in rows
                     if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port)
    return found


def _has(pid, sockets, session):
    try:
        with open("/proc/%s/environ" % pid, "rb") as file:
            if session not in file.read().split(b"\0"):
                return False
        folder = "/proc/%s/fd" % pid
        return any(os.readlink(os.path.join(folder, each)) in sockets for each in os.listdir(folder))
    except OSError:
        return False


def _is_ours(host, port):
    """True if a process of this session listens there."""
    session = b"MEMPROF_SESSION=" + os.environb.get(b"MEMPROF_SESSION", b"")
    if not _is_here(host):
        return False
    sockets = _sockets_at(port)
    return any(pid.isdigit() and _has(pid, sockets, session) for pid in os.listdir("/proc"))


def asks(engine, address):
    """`address`: as "127.0.0.1:6379" or "tcp://127.0.0.1:8786". Without a port, the engine is this process's own."""
    try:
        place = address.rpartition("://")[2].strip("/")
        host, _, port = place.rpartition(":")
        if port.isdigit() and not _is_ours(host.strip("[]"), int(port)):
            _tell(ASKS, "%s at %s" % (engine, place))
    except Exception:  # not known here: the program goes on
        pass


def _afterwards(kind, name, then):
    """Calls then(object) after the object's method."""
    import functools
    method = getattr(kind, name)

    @functools.wraps(method)
    def call(self, *arguments, **named):
        result = method(self, *arguments, **named)
        try:
            then(self)
        except Exception:
            pass
        return result

    setattr(kind, name, call)


def _ray(module):
    module._post_init_hooks.append(
        lambda: asks("ray", sys.modules["ray"].get_runtime_context().gcs_address))


def _ray_client(module):
    _afterwards(module.Worker, "__init__", lambda worker: asks("ray", worker._conn_str))


def _celery(module):
    module.before_task_publish.connect(_celery_sends, weak=False)
    module.worker_ready.connect(lambda **named: works(), weak=False)


def _celery_sends(**named):
    from celery import current_app
    with current_app.connection_for_write() as broker:
        if broker.transport_cls != "memory":  # whose workers are threads
            _tell(ASKS, "celery at %s:%s" % (broker.hostname, broker.port))


ENGINES = {
    "ray._private.worker": _ray,
    "ray.util.client.worker": _ray_client,
    "distributed.client": lambda module: _afterwards(
        module.Client, "__init__", lambda client: asks("dask", getattr(client.scheduler, "address", None) or
                                                       str(client._start_arg))),
    "distributed.worker": lambda module: _afterwards(module.Worker, "__init__", lambda worker: works()),
    "celery.signals": _celery,
}


def start(module):
    """The module was imported."""
    ENGINES[module.__name__](module)
