"""Guesses for `memprof plan`, where sizes come from values that only a GPU would compute.

A choice among n (a router's experts, a sampled token) takes all n equally often. A condition selects a share of the
elements (--selected), in each row and column. Counts of both then add up as on a GPU. Each function gets an operator,
its arguments, and its results on the device. It returns the values of the results, None if unknown, and whether they
are conditions. LookupError: there is nothing to choose from.
"""

import functools
import os

CHOICES = {"topk": 1, "sort": 1, "argsort": 0, "max": 1, "min": 1, "argmax": 0, "argmin": 0, "kthvalue": 1, "mode": 1,
           "median": 1, "nanmedian": 1, "multinomial": 0, "searchsorted": 0, "bucketize": 0, "randint": 0,
           "randint_like": 0, "randperm": 0}  # the position of the choices among the results
ORDERS = ("sort", "argsort", "randperm")
CONDITIONS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_not", "_to_copy", "bernoulli")
HELD = {"isnan": 0, "isinf": 0, "isfinite": 1}
CHECKS = {"_is_all_true": 1, "_is_any_true": 0}  # of arguments of torch.distributions
OF_ITSELF = {"eq": 1, "le": 1, "ge": 1, "ne": 0, "lt": 0, "gt": 0}  # x != x is a test for NaN


def of(torch):
    share = float(os.environ.get("SOFTGPU_SELECTED", "0.5"))

    def argument(operator, arguments, named, name):
        for place, one in enumerate(operator._schema.arguments):
            if one.name == name:
                return arguments[place] if place < len(arguments) else named.get(name, one.default_value)
        raise LookupError

    def arange(count):
        return torch.arange(count, device="cpu")

    def choose(operator, arguments, named, results):
        name, of = operator._opname, functools.partial(argument, operator, arguments, named)
        if len(results) <= CHOICES[name]:  # max() of all elements
            raise LookupError
        chosen, dim, low = results[CHOICES[name]], None, 0
        if name in ("searchsorted", "bucketize"):
            count = of("sorted_sequence" if name == "searchsorted" else "boundaries").shape[-1] + 1
        elif name.startswith("randint"):
            low = of("low") if any(one.name == "low" for one in operator._schema.arguments) else 0
            count = of("high") - low
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
            # The middle comes first: if few are chosen of many, as tokens are, the first and the last mean something.
            values = low + (arange(chosen.numel()) + count // 2) % count
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
        if results[0].dtype is not torch.bool and name != "bernoulli":
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

    known = {"histc": counts, "bincount": counts}
    known.update(dict.fromkeys(CHOICES, choose))
    known.update(dict.fromkeys((*CONDITIONS, *HELD, *CHECKS), condition))
    return known
