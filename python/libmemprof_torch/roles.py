"""Roles of tensors: which blocks hold parameters, buffers, gradients and the optimizer's state.

Told when modules are named, and around the steps of optimizers, where gradients and states are all there: of all
parameters in an optimizer's first steps, then in turns, so that it takes no more than a part of the program's time (SHARE).
A site whose blocks were told a few times needs no more, and readers know that. Reads addresses, past __torch_function__ and modes; nothing here is an operation.
"""

import time

from libmemprof_torch import TROUBLE, complain, is_of_signal

PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER = 1, 2, 3, 4  # enum mp_role (src/base/words.h)

SHARE = 200  # one part in so many of the time
FIRST_ROUNDS = 4  # those of an optimizer are free of that,
FIRST_NS = 20_000_000  # each step of them up to so much
LEAST_NS, MOST_NS = 100_000, 2_000_000  # of the share, what is worth a turn, and what may be used at once
CLOCK_EVERY = 8  # parameters between two looks at the clock
AGAIN_EVERY = 32  # rounds after which what was told is told again: a new block may be where the old one was
PARTS_MOST = 200  # tensors of one state


class Roles:
    def __init__(self, api, torch):
        self._api, self._label = api, api["label"]
        self._tensor = torch.Tensor
        self._plain = (torch.Tensor, torch.nn.Parameter)
        self._address_of = getattr(torch._C, "_data_address", None)  # leaves copy-on-write as it is
        if self._address_of is None:
            self._address_of = self._plain_address_of
            self._data_ptr = (getattr(torch._C, "TensorBase", None) or torch._C._TensorBase).data_ptr
        self._without_overrides = torch._C.DisableTorchFunction
        self._mode = getattr(torch._C, "_get_torch_function_mode", lambda: None)  # 1.13, where that leaves modes on
        self._told = {}  # addresses by the object's and what of it
        self._turn = {}  # by optimizer and part: where the next round begins, and how many there were
        self._time = time.perf_counter_ns()
        self._left_ns = 0
        self._off = False

    def _plain_address_of(self, tensor):
        return self._data_ptr(tensor) if type(tensor) in self._plain else 0

    def _tell(self, tensor, role, name, key=None):
        """`key`: tell it only where the address is another than the last of that key."""
        try:
            address = self._address_of(tensor)
        except TROUBLE:
            address = 0
        if not address:
            local = getattr(tensor, "_local_tensor", None)  # of a DTensor
            address = self._address_of(local) if local is not None else 0
        if not address or (key is not None and self._told.get(key) == address):
            return
        if key is not None:
            self._told[key] = address
        self._label(address, role, name)

    def _guarded(self, tell, *arguments):
        if self._off or self._mode() is not None:
            return
        try:
            with self._without_overrides():
                tell(*arguments)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            self._off = True
            complain(self._api, "roles of tensors", trouble)

    # ---- at naming

    def of_module(self, module, path, names, is_new):
        self._guarded(self._of_module, module, path, names, is_new)

    def _of_module(self, module, path, names, is_new):
        for tensors, role in (("_parameters", PARAMETER), ("_buffers", BUFFER)):
            for name, tensor in (vars(module).get(tensors) or {}).items():
                if not isinstance(tensor, self._tensor):
                    continue
                name = f"{path}.{name}".encode("utf-8", "replace")
                names[id(tensor)] = name
                if is_new:
                    self._told.pop((id(tensor), role), None)
                    self._tell(tensor, role, name, (id(tensor), role))

    # ---- around an optimizer's step

    def before_step(self, optimizer, names):
        if self._is_due((id(optimizer), "gradients")):
            self._guarded(self._in_turn, optimizer, names, "gradients", self._gradient)

    def after_step(self, optimizer, names):
        if self._is_due((id(optimizer), "states")):
            self._guarded(self._in_turn, optimizer, names, "states", self._states)

    def _is_due(self, key):
        now = time.perf_counter_ns()
        self._left_ns = min(MOST_NS, self._left_ns + (now - self._time) // SHARE)
        self._time = now
        return self._left_ns >= LEAST_NS or self._turn.get(key, (0, 0))[1] < FIRST_ROUNDS

    def _in_turn(self, optimizer, names, part, tell):
        place, rounds = self._turn.get((id(optimizer), part), (0, 0))
        begun, allowed = time.thread_time_ns(), FIRST_NS if rounds < FIRST_ROUNDS else self._left_ns
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if len(self._turn) > 1000 or len(self._told) > 1_000_000:
            self._turn.clear()
            self._told.clear()
        for done in range(len(parameters)):
            if done % CLOCK_EVERY == 0 and time.thread_time_ns() - begun > allowed:
                break
            parameter = parameters[place % len(parameters)]
            name = names.parameters.get(id(parameter)) if names is not None else None
            tell(optimizer, parameter, name or b"parameter %d" % (place % len(parameters)), rounds)
            place += 1
            if place % len(parameters) == 0:
                rounds += 1
        self._turn[(id(optimizer), part)] = (place, rounds)
        if rounds > FIRST_ROUNDS:
            self._left_ns -= time.thread_time_ns() - begun

    def _gradient(self, optimizer, parameter, name, rounds):
        self._tell(parameter, PARAMETER, name, self._key(parameter, PARAMETER, rounds))
        gradient = parameter.grad
        if gradient is not None:
            self._tell(gradient, GRADIENT, name)

    def _states(self, optimizer, parameter, name, rounds):
        state = optimizer.state.get(parameter)
        if not state:
            return
        for key, value in list(state.items()):
            full = name + b"." + str(key).encode("utf-8", "replace")
            if isinstance(value, self._tensor):
                self._tell(value, OPTIMIZER_STATE, full, self._key(parameter, key, rounds))
            elif isinstance(value, (list, tuple)):
                for number, part in enumerate(value[:PARTS_MOST]):
                    if isinstance(part, self._tensor):
                        self._tell(part, OPTIMIZER_STATE, full, self._key(parameter, (key, number), rounds))

    def _key(self, parameter, what, rounds):
        key = (id(parameter), what)
        if rounds % AGAIN_EVERY == AGAIN_EVERY - 1:
            self._told.pop(key, None)
        return key
