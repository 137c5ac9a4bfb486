"""How many batches the workers of DataLoaders may have got ready before they are wanted. Batches come in whatever order the
workers end them in, and those that come too early wait in the program: how many do is a matter of chance, how many can is
not. Each loader that begins is a mark with the sum of all that are there, which src/analysis/sizing/size_chance.c reads."""

import functools
import weakref

from libmemprof_torch import replace
from libmemprof_torch.guarded import Guarded


def start(api, torch):
    """Nothing where this torch has no loader with workers."""
    iterator = getattr(torch.utils.data.dataloader, "_MultiProcessingDataLoaderIter", None)
    if isinstance(iterator, type) and "__init__" in vars(iterator):
        Loaders(api, iterator)


class Loaders(Guarded):
    def __init__(self, api, iterator):
        super().__init__(api, "batches of DataLoaders")
        self._all = []  # weak references, each with its batches
        begin = functools.partial(self._guarded, self._begin)

        def make(init):
            def __init__(self, *arguments, **named):
                init(self, *arguments, **named)
                begin(self, *arguments, **named)
            return __init__
        replace(iterator, "__init__", make)

    def _begin(self, iterator, loader=None, *more, **named):
        self._all = [each for each in self._all if each[0]() is not None]
        self._all.append((weakref.ref(iterator), ahead_of(iterator, loader)))
        self._api["torch_mark"](f"torch: DataLoader {sum(ahead for _, ahead in self._all)} ahead".encode())


def ahead_of(iterator, loader):
    """Each worker is asked for so many batches at once. The one whose turn it is has them all before it, the others may be
    done with theirs. Where a thread pins them, or workers end early (a dataset that is iterated), all but one may be."""
    workers, each = iterator._num_workers, getattr(iterator, "_prefetch_factor", None) or loader.prefetch_factor
    in_turn = not iterator._pin_memory and iterator._dataset_kind == 0
    return (workers - 1) * each if in_turn else workers * each
