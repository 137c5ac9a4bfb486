"""Stands in for other ranks that would send to a rank that is planned alone: they have what this rank has itself. A sum
leaves its buffer unchanged, and each part of a gathered tensor is this rank's own. Sizes that ranks exchange therefore
add up, and the plan lists the lines that read them."""

WAITS = {"wait_tensor", "wait_tensors", "check_for_nan"}  # they transfer nothing

# Collectives with a tensor, or a list of tensors. OTHER: the result is another tensor; PART: only this rank's part
# counts.
OTHER, PART = 1, 2
WAYS = {"broadcast_": 0, "allreduce_": 0, "allreduce_coalesced_": 0, "reduce_": 0, "recv_": 0, "recv_any_source_": 0,
        "_allgather_base_": OTHER, "allgather_into_tensor_coalesced_": OTHER, "gather_into_tensor_": OTHER,
        "_reduce_scatter_base_": OTHER | PART, "reduce_scatter_tensor_coalesced_": OTHER | PART,
        "alltoall_base_": OTHER | PART}
# Functional ones return their result.
RETURNED = {"all_reduce": 0, "all_reduce_": 0, "all_reduce_coalesced": 0, "all_reduce_coalesced_": 0, "broadcast": 0,
            "all_gather_into_tensor": 0, "all_gather_into_tensor_coalesced": 0, "all_gather_into_tensor_out": 0,
            "reduce_scatter_tensor": PART, "reduce_scatter_tensor_coalesced": PART, "reduce_scatter_tensor_out": PART,
            "all_to_all_single": PART}
# With a list of tensors for each rank: pairs of a written tensor and the one whose values it gets.
LISTS = {
    "allgather_": lambda to, own, rank: [(one, mine) for ones, mine in zip(to, own) for one in ones],
    "allgather_coalesced_": lambda to, own, rank: [pair for ones in to for pair in zip(ones, own)],
    "gather_": lambda to, own, rank: [(one, mine) for ones, mine in zip(to, own) for one in ones],
    "reduce_scatter_": lambda to, own, rank: [(one, mine[rank]) for one, mine in zip(to, own)],
    "alltoall_": lambda to, own, rank: [(one, own[rank]) for one in to],
    "scatter_": lambda to, own, rank: [(one, own[0][rank] if own else one) for one in to],
}


def _each(tensors):
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def rows(name, arguments, rank):
    """The written tensors (None: the next result), for each the tensor of this rank with its values, and the number of
    the part that counts, or None. None: the collective is not known."""
    if name in LISTS:
        return [(*pair, None) for pair in LISTS[name](arguments[0], arguments[1], rank)]
    way = WAYS.get(name, RETURNED.get(name))
    if way is None:
        return None
    own = _each(arguments[1 if way & OTHER else 0])
    to = [None] * len(own) if name in RETURNED else _each(arguments[0])
    return [(*pair, rank if way & PART else None) for pair in zip(to, own)]


def filled(values, to, part, parts):
    """The values, or their part, as often as they fill `to`. LookupError: they do not, or they are None."""
    if values is None or part is not None and values.numel() % parts:
        raise LookupError
    values = values.reshape(-1) if part is None else values.reshape(parts, -1)[part]
    if not values.numel() or to.numel() % values.numel():
        raise LookupError
    return values.repeat(to.numel() // values.numel()).reshape(to.shape)
