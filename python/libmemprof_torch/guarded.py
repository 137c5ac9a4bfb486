"""A part of the shim that turns itself off if it meets something unknown."""

from libmemprof_torch import TROUBLE, complain, is_of_signal


class Guarded:
    """`what`: the part's name in the recording's coverage."""

    def __init__(self, api, what):
        self._api, self._what, self._off = api, what, False

    def _guarded(self, tell, *arguments, **named):
        """A failure in `tell` does not fail the program's call: the part stops reporting."""
        if self._off:
            return
        try:
            tell(*arguments, **named)
        except TROUBLE as trouble:
            if is_of_signal(trouble):
                raise
            self._off = True
            complain(self._api, self._what, trouble)
