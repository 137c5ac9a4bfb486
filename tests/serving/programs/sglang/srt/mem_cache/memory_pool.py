import torch


class Half:
    def __init__(self, tokens):
        self.k_buffer, self.v_buffer = (list(torch.zeros(2, tokens + 1, 128, dtype=torch.int8)) for _ in range(2))
        self.k_data_ptrs = torch.zeros(2, dtype=torch.int64)


class Pool:
    """With a row that belongs to no request, as in SGLang."""

    def __init__(self, tokens):
        self.layer_num, self.full_kv_pool = 2, Half(tokens)
