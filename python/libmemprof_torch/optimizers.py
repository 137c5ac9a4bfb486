"""Steps of optimizers: seen in the region that torch.optim.Optimizer puts around each. One optimizer is the loop's; a
step of the program ends where one of its steps does."""

import sys
import weakref

from libmemprof_torch import TROUBLE

# The loop's optimizer has stopped where others stepped so many times as often as they ever did between two of its steps;
# soon, where it was the only one for SURE steps.
PATIENCE, PATIENCE_LEAST, PATIENCE_SURE, SURE = 4, 16, 2, 8


class Optimizers:
    def __init__(self, step, labels, names):
        self._step = step
        self._labels = labels
        self._names = names
        self._main = None  # a weak reference
        self._steps = 0  # of the main one
        self._others, self._others_most = 0, 0  # steps of others since the last of the main one's; the most so far

    def _optimizer_of(self, frame):
        """The frame is that of the wrapper in torch.optim.Optimizer, whose first argument it is."""
        arguments = frame.f_locals.get("args")
        module = sys.modules.get("torch.optim.optimizer")
        found = arguments[0] if type(arguments) is tuple and arguments else None
        return found if module is not None and isinstance(found, module.Optimizer) else None

    def begin(self, frame):
        try:
            optimizer = self._optimizer_of(frame)
        except TROUBLE:
            return
        if optimizer is not None and self._labels is not None:
            self._labels.before_step(optimizer, self._names)

    def end(self, frame):
        try:
            optimizer = self._optimizer_of(frame)
            is_main = optimizer is not None and self._is_main(optimizer)
        except TROUBLE:
            return
        if optimizer is not None and self._labels is not None:
            self._labels.after_step(optimizer, self._names)
        if is_main:
            self._step()

    def _is_main(self, optimizer):
        main = self._main and self._main()
        if main is not None and main is not optimizer:
            self._others += 1
            least = PATIENCE_SURE if self._steps >= SURE else PATIENCE_LEAST
            if self._others <= max(least, PATIENCE * self._others_most):
                return False
            main = None
        if main is None:
            self._main = weakref.ref(optimizer)
            self._steps = self._others = self._others_most = 0
        self._others_most = max(self._others_most, self._others)
        self._others = 0
        self._steps += 1
        return True
