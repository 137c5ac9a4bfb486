"""Storages of tensors: their addresses and sizes, read past the tensors' classes, so that no code of the program runs."""

import contextlib

from libmemprof_torch.holders_names import Edge

# The parts of sparse tensors.
ROWS, COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
PARTS = {"torch.sparse_coo": ("_indices", "_values"), "torch.sparse_csr": ROWS, "torch.sparse_bsr": ROWS,
         "torch.sparse_csc": COLUMNS, "torch.sparse_bsc": COLUMNS}


class Storages:
    def __init__(self, torch, base):
        self.torch, self.base = torch, base
        self._address = getattr(torch._C, "_data_address", None)  # leaves copy-on-write as it is

    def address_of(self, tensor):
        """The address of its storage; 0: none."""
        try:
            if self._address is not None:
                return self._address(tensor)
            address = self.base.data_ptr(tensor)
            return address - self.base.storage_offset(tensor) * self.base.element_size(tensor) if address else 0
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return 0

    def addresses_of(self, found, is_storage):
        """(address, owner, the step to it) of each storage under a tensor or a storage. A sparse tensor's storages are
        under tensors that are made here and dropped again."""
        if is_storage:
            address = self._address_of_storage(found)
            return [(address, found, None)] if address else []
        address = self.address_of(found)
        return [(address, found, None)] if address else self._parts_of(found)

    def _address_of_storage(self, storage):
        """0: none. A storage on the meta device, such as a FakeTensor's, has no memory: PyTorch warns on stderr if
        somebody reads its address."""
        base = self.torch._C.StorageBase
        try:
            return 0 if base.device.__get__(storage).type == "meta" else base.data_ptr(storage)
        except (RuntimeError, NotImplementedError, AttributeError):
            return 0

    def _parts_of(self, tensor):
        with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError):
            members = PARTS.get(str(self.base.layout.__get__(tensor)), ())
            if members:
                guard = self.torch._C._DisableTorchDispatch()  # until it is dropped
                parts = [(getattr(self.base, member)(tensor), member) for member in members]
                del guard
                return [(self.address_of(part), part, Edge("attribute", f"{member}()")) for part, member in parts]
        return []

    def bytes_of(self, tensor):
        if not hasattr(self.base, "untyped_storage"):
            return self.base._storage(tensor).nbytes()
        # From PyTorch 2 on, a storage that Python has seen is not freed where the interpreter ends. PyTorch makes each
        # view that fits into the storage, so views find its size.
        fits, size = self.base.numel(tensor), self.base.element_size(tensor)
        beyond = fits + 1
        while self._has_room(tensor, beyond):
            fits, beyond = beyond, 2 * beyond
        while beyond - fits > 1:
            middle = (fits + beyond) // 2
            fits, beyond = (middle, beyond) if self._has_room(tensor, middle) else (fits, middle)
        return fits * size

    def _has_room(self, tensor, elements):
        guard = self.torch._C._DisableTorchDispatch()  # until it is dropped
        try:
            self.base.as_strided(tensor, (elements,), (1,), 0)
            return True
        except RuntimeError:
            return False
        finally:
            del guard
