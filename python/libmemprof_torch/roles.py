"""Roles of tensors: which blocks hold parameters, buffers, gradients and the optimizer's state.

Labels are sent when modules are named, and after steps of optimizers, when gradients and states exist. An optimizer's
first steps label all parameters, later steps take turns, within a part of the program's time (SHARE). A site needs no
more labels after a few of its blocks have one, and readers know that. Reads addresses without __torch_function__ and
modes, and runs no operation.
"""

import time
import weakref

from libmemprof_torch import TROUBLE, complain, is_of_signal

PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER = 1, 2, 3, 4  # enum mp_role (src/base/words.h)

SHARE = 1000  # one part in so many of the time
FIRST_ROUNDS = 4  # those of an optimizer are free of that,
FIRST_NS = 40_000_000  # each step of them up to so much
TURN_NS = 2_000_000  # what a later turn may take
CLOCK_EVERY = 8  # parameters between two looks at the clock
AGAIN_EVERY = 32  # rounds after which what was told is told again: a new block may be where the old one was
PARTS_MOST = 200  # tensors of one state


class _Turn:
    """How far an optimizer's parameters are labelled: the next one's index, and the number of complete rounds."""

    __slots__ = ("optimizer", "place", "rounds")

    def __init__(self, optimizer):
        self.optimizer = weakref.ref(optimizer)
        self.place = self.rounds = 0


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
        self._turns = {}  # by optimizer
        self._last = None  # the turn that was taken last, and when the next one is due, for others and for it
        self._others_ns = self._same_ns = 0
        self._off = False

    def _plain_address_of(self, tensor):
        return self._data_ptr(tensor) if type(tensor) in self._plain else 0

    def _tell(self, tensor, role, name, key=None):
        """`key`: reports only if the address differs from the last one with that key."""
        try:
            address = self._address_of(tensor)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
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

    # ---- after an optimizer's step

    def after_step(self, optimizer, names):
        now = time.perf_counter_ns()
        turn = self._turns.get(id(optimizer))
        if turn is None or turn.optimizer() is not optimizer:
            turn = self._turns[id(optimizer)] = _Turn(optimizer)
        if turn.rounds < FIRST_ROUNDS or now >= (self._same_ns if turn is self._last else self._others_ns):
            self._guarded(self._take, turn, optimizer, names, now)

    def _take(self, turn, optimizer, names, now):
        begun, allowed = time.thread_time_ns(), FIRST_NS if turn.rounds < FIRST_ROUNDS else TURN_NS
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        if len(self._turns) > 1000 or len(self._told) > 1_000_000:
            self._turns.clear()
            self._told.clear()
        for done in range(len(parameters)):
            if done % CLOCK_EVERY == 0 and time.thread_time_ns() - begun > allowed:
                break
            place = turn.place % len(parameters)
            parameter = parameters[place]
            name = names.parameters.get(id(parameter)) if names is not None else None
            name = name or b"parameter %d" % place
            self._gradient(parameter, name, turn.rounds)
            self._states(optimizer, parameter, name, turn.rounds)
            turn.place = place + 1
            turn.rounds += turn.place == len(parameters)
        if turn.rounds >= FIRST_ROUNDS:
            rest = SHARE * (time.thread_time_ns() - begun)
            self._last, self._others_ns, self._same_ns = turn, now + rest, now + 2 * rest

    def _gradient(self, parameter, name, rounds):
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
