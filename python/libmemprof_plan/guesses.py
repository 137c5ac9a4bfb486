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
    """`known(tensor)`: its values in the host's memory, or None."""
    share = float(os.environ.get("SOFTGPU_SELECTED", "0.5"))

    def argument(operator, arguments, named, name):
        for place, one in enumerate(operator._schema.arguments):
            if one.name == name:
                return arguments[place] if place < len(arguments) else named.get(name, one.default_value)
        raise LookupError

    def arange(count):
        return torch.arange(count, device="cpu")

    drawn = [0]  # numbers of small draws

    def turn(count):
        before = drawn[0]
        drawn[0] += count if count <= SMALL else 0
        return before if count <= SMALL else 0

    def steps(dimensions):
        """Multiples of these numbers, less their whole parts, are spread evenly in that many dimensions, however many
        there are. One dimension: the golden ratio, 0.618."""
        root = 2.0
        for _ in range(64):
            root = (1 + root) ** (1 / (dimensions + 1))
        return [root ** -(place + 1) for place in range(dimensions)]

    def is_of_points(shape, place):
        return len(shape) > 1 and 1 < shape[place] <= FEW

    def uniform(result):
        if result.numel() > MOST_DRAWN:
            raise LookupError
        shape, start = result.shape, turn(result.numel())
        place = next((place for place in (-1, 0) if is_of_points(shape, place)), None)
        if place is None:
            return (0.5 + (arange(result.numel()).double() + start) * steps(1)[0]).frac().reshape(shape)
        at = arange(result.numel() // shape[place]).double() + start
        points = [(0.5 + at * step).frac() for step in steps(shape[place])]
        return torch.stack(points, place).reshape(shape)

    def draw(operator, arguments, named, results):
        return [uniform(results[0])], False

    def choose(operator, arguments, named, results):
        name, of = operator._opname, functools.partial(argument, operator, arguments, named)
        if len(results) <= CHOICES[name]:  # max() of all elements
            raise LookupError
        chosen, dim, low = results[CHOICES[name]], None, 0
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
        if name in ORDERS:
            values = arange(count).expand(chosen.movedim(dim, -1).shape).movedim(-1, dim) if chosen.dim() else arange(1)[0]
        else:
            taken = chosen.numel()
            if taken >= count and not (name in DRAWS and any(is_of_points(chosen.shape, place) for place in (-1, 0))):
                values = low + (arange(taken) + count // 2 + (turn(taken) if name in DRAWS else 0)) % count
            elif name in DRAWS:
                values = low + (uniform(chosen) * count).long().reshape(-1)
            else:  # neither the first nor the last: of tokens, these mean something
                values = low + (arange(taken) * 2 + 1) * count // (2 * max(taken, 1))
            if name in ("topk", "multinomial") and chosen.dim():
                values = values.reshape(chosen.movedim(dim, -1).shape).movedim(-1, dim)
            values = values.reshape(chosen.shape)
        return [values if one is chosen else None for one in results], False

    @functools.lru_cache(64)
    def selected(shape):
        at = torch.zeros((), dtype=torch.float64, device="cpu")
        for place, size in enumerate(shape):
            at = at + arange(size).double().reshape([-1] + [1] * (len(shape) - 1 - place))
        values = torch.floor((at + 1) * share + 1e-9) > torch.floor(at * share + 1e-9)
        if share > 0 and values.numel() and not values.any():
            values.view(-1)[0] = True
        return values

    def condition(operator, arguments, named, results):
        name = operator._opname
        if name.startswith("bernoulli"):
            try:
                chances = argument(operator, arguments, named, "p")
            except LookupError:
                chances = arguments[0]
            chances = known(chances) if isinstance(chances, torch.Tensor) else chances
            if chances is not None:
                return [uniform(results[0]) < chances], False
            return [selected(tuple(results[0].shape))], True
        if results[0].dtype is not torch.bool:
            raise LookupError
        if name in CHECKS:
            return [CHECKS[name]], False
        if name in HELD:
            return [HELD[name]], True
        other = arguments[1] if len(arguments) > 1 else None
        if name in OF_ITSELF and other is arguments[0]:
            return [OF_ITSELF[name]], True
        if name in ("eq", "ne") and not arguments[0].is_floating_point() and not isinstance(other, torch.Tensor) and \
                other not in (0, 1):
            return [int(name == "ne")], True  # a number is rarely that one (src/softgpu/runtime/truths.c)
        return [selected(tuple(results[0].shape))], True

    def counts(operator, arguments, named, results):
        """Each of the unknown values is as frequent."""
        if operator._opname == "bincount" and argument(operator, arguments, named, "weights") is not None:
            raise LookupError
        of, bins = arguments[0].numel(), results[0].numel()
        return [of // bins + (arange(bins) < of % bins)], False

    guesses = {"histc": counts, "bincount": counts, "rand": draw, "rand_like": draw}
    guesses.update(dict.fromkeys(CHOICES, choose))
    guesses.update(dict.fromkeys((*CONDITIONS, *HELD, *CHECKS), condition))
    return guesses
