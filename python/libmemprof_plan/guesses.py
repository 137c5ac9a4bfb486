"""Guesses for `memprof plan`, where sizes come from values that only a GPU would compute.

A choice among n (a router's experts, a sampled token) takes all n equally often. A number drawn from an interval lies
evenly spread in it. A condition selects a share of the elements (--selected), in each row and column. Counts then add
up as on a GPU. Each function gets an operator, its arguments, and its results on the device. It returns the values of
the results, None if unknown, and whether they are conditions. LookupError: there is nothing to choose from.
"""

import functools
import os

CHOICES = {"topk": 1, "sort": 1, "argsort": 0, "max": 1, "min": 1, "argmax": 0, "argmin": 0, "kthvalue": 1, "mode": 1,
           "median": 1, "nanmedian": 1, "multinomial": 0, "searchsorted": 0, "bucketize": 0, "randint": 0,
           "randint_like": 0, "random_": 0, "randperm": 0}  # the position of the choices among the results
ORDERS = ("sort", "argsort", "randperm")
CONDITIONS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_not", "_to_copy", "bernoulli", "bernoulli_")
HELD = {"isnan": 0, "isinf": 0, "isfinite": 1}
CHECKS = {"_is_all_true": 1, "_is_any_true": 0}  # of arguments of torch.distributions
OF_ITSELF = {"eq": 1, "le": 1, "ge": 1, "ne": 0, "lt": 0, "gt": 0}  # x != x is a test for NaN
DRAWS = ("randint", "randint_like", "random_")
FEW = 8  # coordinates of points, or ends of edges, which are drawn together
SMALL = 64  # numbers in a draw: the next small draw has others, as a loop may wait for one
MOST_DRAWN = 1 << 21  # numbers: more are data


def of(torch, known):
    """Functions by the names of operators. `known(tensor)`: its values in the host's memory, or None."""
    return Guesses(torch, known).by_operator()


def argument(operator, arguments, named, name):
    for place, one in enumerate(operator._schema.arguments):
        if one.name == name:
            return arguments[place] if place < len(arguments) else named.get(name, one.default_value)
    raise LookupError


def steps(dimensions):
    """Multiples of these numbers, less their whole parts, are spread evenly in that many dimensions, however many there
    are. One dimension: the golden ratio, 0.618."""
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (dimensions + 1))
    return [root ** -(place + 1) for place in range(dimensions)]


def points_in(shape):
    """The dimension whose numbers are one point's coordinates, or one edge's ends; None: numbers of their own."""
    return next((place for place in (-1, 0) if len(shape) > 1 and 1 < shape[place] <= FEW), None)


class Guesses:
    def __init__(self, torch, known):
        self.torch, self.known = torch, known
        self.share = float(os.environ.get("SOFTGPU_SELECTED", "0.5"))
        self.drawn = 0  # numbers of small draws

    def by_operator(self):
        guesses = {"histc": self.counts, "bincount": self.counts, "rand": self.draw, "rand_like": self.draw}
        guesses.update(dict.fromkeys(CHOICES, self.choose))
        guesses.update(dict.fromkeys((*CONDITIONS, *HELD, *CHECKS), self.condition))
        return guesses

    def arange(self, count):
        return self.torch.arange(count, device="cpu")

    def turn(self, count):
        before = self.drawn if count <= SMALL else 0
        self.drawn += count if count <= SMALL else 0
        return before

    def uniform(self, result):
        if result.numel() > MOST_DRAWN:
            raise LookupError
        shape, start = result.shape, self.turn(result.numel())
        place = points_in(shape)
        if place is None:
            return (0.5 + (self.arange(result.numel()).double() + start) * steps(1)[0]).frac().reshape(shape)
        at = self.arange(result.numel() // shape[place]).double() + start
        points = [(0.5 + at * step).frac() for step in steps(shape[place])]
        return self.torch.stack(points, place).reshape(shape)

    def draw(self, operator, arguments, named, results):
        return [self.uniform(results[0])], False

    def choices(self, name, operator, of):
        """(their number, the first of them, the dimension in which they lie)."""
        dim, low = None, 0
        if name in ("searchsorted", "bucketize"):
            count = of("sorted_sequence" if name == "searchsorted" else "boundaries").shape[-1] + 1
        elif name in DRAWS:
            names = [one.name for one in operator._schema.arguments]
            low = next((of(one) for one in ("low", "from") if one in names), 0)
            count = of("high" if "high" in names else "to") - low
        elif name == "randperm":
            count, dim = of("n"), 0
        else:
            dim = -1 if name == "multinomial" else of("dim")
            count = of("self").numel() if dim is None else of("self").shape[dim] if of("self").dim() else 1
        if count <= 0:
            raise LookupError
        return count, low, dim

    def choose(self, operator, arguments, named, results):
        name, of = operator._opname, functools.partial(argument, operator, arguments, named)
        if len(results) <= CHOICES[name]:  # max() of all elements
            raise LookupError
        chosen = results[CHOICES[name]]
        count, low, dim = self.choices(name, operator, of)
        if name in ORDERS and chosen.dim():
            values = self.arange(count).expand(chosen.movedim(dim, -1).shape).movedim(-1, dim)
        elif name in ORDERS:
            values = self.arange(1)[0]
        else:
            values = low + self.chosen_of(count, chosen, name in DRAWS)
            if name in ("topk", "multinomial") and chosen.dim():
                values = values.reshape(chosen.movedim(dim, -1).shape).movedim(-1, dim)
            values = values.reshape(chosen.shape)
        return [values if one is chosen else None for one in results], False

    def chosen_of(self, count, chosen, is_draw):
        """So many numbers below `count`, as `chosen` has, each equally often."""
        taken = chosen.numel()
        if taken >= count and not (is_draw and points_in(chosen.shape) is not None):
            return (self.arange(taken) + count // 2 + (self.turn(taken) if is_draw else 0)) % count
        if is_draw:
            return (self.uniform(chosen) * count).long().reshape(-1)
        # neither the first nor the last: of tokens, these mean something
        return (self.arange(taken) * 2 + 1) * count // (2 * max(taken, 1))

    @functools.lru_cache(64)
    def selected(self, shape):
        at = self.torch.zeros((), dtype=self.torch.float64, device="cpu")
        for place, size in enumerate(shape):
            at = at + self.arange(size).double().reshape([-1] + [1] * (len(shape) - 1 - place))
        values = self.torch.floor((at + 1) * self.share + 1e-9) > self.torch.floor(at * self.share + 1e-9)
        if self.share > 0 and values.numel() and not values.any():
            values.view(-1)[0] = True
        return values

    def condition(self, operator, arguments, named, results):
        name = operator._opname
        if name.startswith("bernoulli"):
            return self.by_chances(operator, arguments, named, results[0])
        if results[0].dtype is not self.torch.bool:
            raise LookupError
        if name in CHECKS:
            return [CHECKS[name]], False
        if name in HELD:
            return [HELD[name]], True
        other = arguments[1] if len(arguments) > 1 else None
        if name in OF_ITSELF and other is arguments[0]:
            return [OF_ITSELF[name]], True
        if name in ("eq", "ne") and not arguments[0].is_floating_point() and \
                not isinstance(other, self.torch.Tensor) and other not in (0, 1):
            return [int(name == "ne")], True  # a number is rarely that one (src/softgpu/runtime/truths.c)
        return [self.selected(tuple(results[0].shape))], True

    def by_chances(self, operator, arguments, named, result):
        try:
            chances = argument(operator, arguments, named, "p")
        except LookupError:
            chances = arguments[0]
        chances = self.known(chances) if isinstance(chances, self.torch.Tensor) else chances
        if chances is not None:
            return [self.uniform(result) < chances], False
        return [self.selected(tuple(result.shape))], True

    def counts(self, operator, arguments, named, results):
        """Each of the unknown values is as frequent."""
        if operator._opname == "bincount" and argument(operator, arguments, named, "weights") is not None:
            raise LookupError
        of, bins = arguments[0].numel(), results[0].numel()
        return [of // bins + (self.arange(bins) < of % bins)], False
