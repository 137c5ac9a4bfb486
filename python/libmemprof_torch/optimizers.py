"""Steps of optimizers. They are seen in the region that torch.optim.Optimizer puts around each step. If that was
compiled away, changes of the parameters show them (compiled.py). One optimizer is the loop's: a step of the program
ends with each of its steps."""

import sys
import weakref

from libmemprof_torch import TROUBLE, complain, is_of_signal

FIRST = 4  # parameters of an optimizer that are looked at
# The loop's optimizer has stopped if other optimizers step several times more often than they ever did between two of
# its steps. If it was the only one for SURE steps, a few steps of others suffice.
PATIENCE, PATIENCE_LEAST, PATIENCE_SURE, SURE = 4, 16, 2, 8
# An optimizer made since the loop's last step belongs to the next task, fold or phase. It becomes the loop's optimizer
# after some steps of its own without a new optimizer in between. If each step comes with a new optimizer (the inner
# loop of a meta-learner), the older one becomes the loop's again.
STEPS_BEFORE = 2


def _nothing():
    pass


def _is_wrapped_once(kind, wrapper):
    """True if a class is PyTorch's own, with the wrapper around PyTorch's own function. In this usual case, callers
    need not be searched in every step."""
    inner = getattr(getattr(kind.step, "__wrapped__", None), "__code__", None)
    folder, _, _ = wrapper.co_filename.rpartition("/optim/")
    return (kind.__module__.startswith("torch.optim.") and getattr(kind.step, "__code__", None) is wrapper and
            inner not in (None, wrapper) and folder != "" and inner.co_filename.startswith(folder))


class _Made:
    __slots__ = ("reference", "born", "turn", "others")

    def __init__(self, optimizer, born):
        self.reference, self.born = weakref.ref(optimizer), born
        self.turn = None  # the turn of the loop's optimizers in which it stepped last
        self.others = 0  # steps of any until then


class Optimizers:
    def __init__(self, api, torch, labels, names):
        self._api, self._step = api, api["torch_step"]
        self._without_overrides = torch._C.DisableTorchFunction
        self._labels = labels
        self._names = names
        self._main, self._turn = None, 0  # the loop's, of type _Made; how many there have been
        self._steps = 0  # of the main one
        self._others, self._others_most = 0, 0  # steps of others since the last of the main one's; the most so far
        self._all, self._born = {}, 0  # by id; how many were made
        self._born_before, self._makes = 0, False  # so many when the main one stepped last; some between its steps
        self._ended = 0  # steps, of any
        self._looked_at = 0  # the same, of which it was asked whether they are the main one's
        self._outer = None  # one made before the main one, whose first step came since the main one's last
        self._is_blind = False  # for compiled ones

    def _optimizer_of(self, frame):
        """The frame of the wrapper in torch.optim.Optimizer, whose first argument is the optimizer."""
        arguments = frame.f_locals.get("args")
        module = sys.modules.get("torch.optim.optimizer")
        found = arguments[0] if type(arguments) is tuple and arguments else None
        return found if module is not None and isinstance(found, module.Optimizer) else None

    def _is_within(self, frame, optimizer, code):
        """True if a step of the same optimizer runs around this one: the step ends there. The program's own optimizer
        class may call PyTorch's, or code that was compiled for one parameter (torchao). PyTorch wraps a class twice if
        two threads make its first objects."""
        outer = frame.f_back
        if _is_wrapped_once(type(optimizer), frame.f_code):
            return False
        while outer is not None:
            if outer.f_code is code and self._optimizer_of(outer) is optimizer:
                return True
            outer = outer.f_back
        return False

    def stepped(self, frame):
        try:
            optimizer = self._optimizer_of(frame)
            if optimizer is not None and self._is_within(frame, optimizer, frame.f_code):
                return
            is_main = optimizer is not None and self._is_main(optimizer)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            return
        if optimizer is not None:
            self._end(optimizer, is_main)

    def _end(self, optimizer, is_main):
        self._ended += 1
        if self._labels is not None:
            self._labels.after_step(optimizer, self._names)
        if is_main:
            self._step()

    def known(self, optimizer):
        """An optimizer was made."""
        try:
            self._made_of(optimizer)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise

    def _made_of(self, optimizer):
        made = self._all.get(id(optimizer))
        if made is None or made.reference() is not optimizer:
            self._all = {key: other for key, other in self._all.items() if other.reference() is not None}
            self._born += 1
            made = self._all[id(optimizer)] = _Made(optimizer, self._born)
        return made

    def _versions(self):
        """For each optimizer: how often its first parameters were changed."""
        found = {}
        with self._without_overrides():
            for made in self._all.values():
                groups = getattr(made.reference(), "param_groups", None)  # which one in the making has not yet
                if groups:
                    changes = sum(parameter._version for parameter in groups[0]["params"][:FIRST])
                    found[made] = changes
        return found

    def enter_compiled(self):
        """Call it before compiled code. Call its result after the compiled code."""
        if self._is_blind:
            return _nothing
        try:
            before, ended = self._versions(), self._ended
        except TROUBLE as trouble:
            self._meet(trouble)
            return _nothing

        def leave():
            if self._ended == ended:  # else a region told of it, or a call within this one
                self._leave_compiled(before)
        return leave

    def _meet(self, trouble):
        if is_of_signal(trouble):
            raise trouble
        self._is_blind = True
        complain(self._api, "steps of compiled optimizers", trouble)

    def _leave_compiled(self, before):
        try:
            after = self._versions()
            for made, was in before.items():
                optimizer = made.reference()
                if optimizer is None or after.get(made, was) == was:
                    continue
                step = getattr(type(optimizer).step, "__code__", None)
                if not self._is_within(sys._getframe(), optimizer, step):
                    self._end(optimizer, self._is_main(optimizer))
        except TROUBLE as trouble:
            self._meet(trouble)

    def _follows(self, made):
        return self._steps >= STEPS_BEFORE and not self._makes and made.born > self._born_before

    def _has_outer(self, made):
        """True if this is the next inner optimizer of a meta-learner whose outer one has just made its first step."""
        outer = self._outer
        return (outer is not None and outer.reference() is not None and outer is not made and
                made.born == self._born == self._born_before + 1)

    def _ends_its_last_round(self, made):
        """True if the main optimizer is gone, and this one still makes the steps that it made after each of the main
        one's."""
        return self._main.reference() is None and made.turn == self._turn and self._others < self._others_most

    def _is_main(self, optimizer):
        made, main = self._made_of(optimizer), self._main
        if self._has_outer(made):
            self._main, self._turn, self._makes = self._outer, self._turn + 1, False
            self._steps, self._others, self._others_most = 1, 0, self._outer.others
            self._outer.turn, self._outer = self._turn, None
            main = self._main
        if main is not None and main.reference() is None:
            main = None
        comes_back = made is not self._main and made.turn is not None and made.turn < self._turn and made.born < self._main.born
        between, made.others = self._looked_at - made.others, self._looked_at + 1
        self._looked_at += 1
        if made.turn is None and main is not None and made.born < main.born:
            self._outer = made
        if self._main is not None and self._ends_its_last_round(made):
            self._others += 1
            return False
        made.turn = self._turn
        if main is not None and main is not made and not comes_back and not self._follows(made):
            self._others += 1
            least = PATIENCE_SURE if self._steps >= SURE else PATIENCE_LEAST
            if self._others <= max(least, PATIENCE * self._others_most):
                return False
        if main is not made:
            self._main, self._turn, self._makes = made, self._turn + 1, False
            self._steps = self._others = 0
            self._others_most = between if comes_back else 0  # so many inner steps has a round of its
            made.turn = self._turn
        elif self._born > self._born_before:
            self._makes = True
        self._outer = None
        self._born_before = self._born
        self._others_most = max(self._others_most, self._others)
        self._others = 0
        self._steps += 1
        return not comes_back  # whose turn it took has ended this step already
