"""A second model of PyTorch's CUDA caching allocator, with plain lists and full scans. It shares no code with the model
in C, which is compared with it. Rules by c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.10."""

MIB = 1 << 20
ANY_STREAM = (1 << 64) - 1


class OutOfMemory(Exception):
    pass


class Block:
    def __init__(self, address, size, state, age=0):
        self.address, self.size, self.state, self.age = address, size, state, age
        self.requested = 0
        self.uses = {}    # stream: whether it was noted inside a capture
        self.waits = []   # events not done: [stream, number]


class Segment:
    def __init__(self, address, size, stream, pool, small, page=0):
        self.address, self.size, self.stream, self.pool, self.small, self.page = address, size, stream, pool, small, page
        self.blocks = [Block(address, size, "unmapped" if page else "free")]


class Pool:
    def __init__(self):
        self.users, self.freeable, self.no_split, self.use_on_oom = 0, False, False, False
        self.searches = {True: 0, False: 0}


class Allocator:
    """Settings: max_split, max_non_split_rounding, large_segment, gc_threshold, fraction, divisions, expandable,
    reserve."""

    def __init__(self, capacity, total, settings):
        self.capacity, self.total = capacity, total
        self.set(settings)
        self.segments, self.pools, self.contexts, self.freeable = [], {0: Pool()}, [], []
        self.trace, self.deferred = [], []
        self.events, self.done = {}, {}  # by stream: events made, events done
        self.next_segment, self.next_reservation = 1 << 60, 1 << 40
        self.retries = self.ooms = self.peak_reserved = self.peak_allocated = 0

    def set(self, settings):
        self.max_split = settings.get("max_split_size", 1 << 64)
        self.max_rounding = settings.get("max_non_split_rounding", 20 * MIB)
        self.large = settings.get("large_segment_size", 20 * MIB)
        self.gc = settings.get("gc_threshold", 0)
        fraction = settings.get("fraction", 0)
        self.limit = int(fraction * self.total) if fraction else None
        divisions = settings.get("roundup", 0)
        self.divisions = [divisions] * 16 if isinstance(divisions, int) else divisions
        self.expandable = settings.get("expandable_segments", False)
        self.oldest_first = settings.get("oldest_first", False)  # as PyTorch 2.15
        self.downwards = settings.get("downwards", False)  # each segment lies below the one before
        self.reserve = min(int(settings["reserve"] * self.total) if "reserve" in settings else 1 << 64,
                           self.total + self.total // 8)

    # Totals are plain sums over the segments.
    def mapped(self, segment):
        return sum(b.size for b in segment.blocks if b.state != "unmapped")

    def reserved(self):
        return sum(self.mapped(s) for s in self.segments)

    def allocated(self):
        return sum(b.size for s in self.segments for b in s.blocks if b.state == "allocated")

    def active(self):
        return sum(b.size for s in self.segments for b in s.blocks if b.state in ("allocated", "pending"))

    def requested(self):
        return sum(b.requested for s in self.segments for b in s.blocks if b.state in ("allocated", "pending"))

    def inactive_split(self):
        return sum(b.size for s in self.segments for b in s.blocks
                   if b.state == "free" and len(s.blocks) > 1 and not s.page)

    def tell(self, action, address, size, segment):
        self.trace.append((action, address, size, segment.stream, segment.pool))
        self.peak_reserved = max(self.peak_reserved, self.reserved())
        self.peak_allocated = max(self.peak_allocated, self.allocated())

    def round(self, size):
        if size < 512:
            return 512
        divisions = self.divisions[min(max(size.bit_length() - 1 - 20, 0), 15)]
        if divisions > 1 and size > 512 * divisions:
            power = 1 << (size.bit_length() - 1)
            if power == size:
                return size
            step = power >> (divisions.bit_length() - 1)
            return -(-size // step) * step if step else 2 * power
        return -(-size // 512) * 512

    def segment_size(self, size):
        if size <= MIB:
            return 2 * MIB
        return self.large if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB

    def side(self, pool, small):
        return [s for s in self.segments if s.pool == pool and s.small == small]

    def free_blocks(self, pool, small, stream=None):
        found = [(s.stream, b.size, b.address, s, b) for s in self.side(pool, small) for b in s.blocks
                 if b.state == "free" and stream in (None, s.stream)]
        age = {id(segment): at for at, segment in enumerate(self.segments)} if self.oldest_first else {}
        return sorted(found, key=lambda entry: (*entry[:2], age.get(id(entry[3]), 0), entry[2]))

    def counts_ages(self):
        return self.limit is not None and self.gc > 0

    def room(self, segment, block):
        at = segment.blocks.index(block) + 1
        behind = segment.blocks[at] if at < len(segment.blocks) else None
        return block.size + (behind.size if behind and behind.state == "unmapped" else 0)

    def search(self, pool, size, stream, expandable):
        small = size <= MIB
        if self.counts_ages():
            self.pools[pool].searches[small] += 1
        fitting = [(s, b) for _, _, _, s, b in self.free_blocks(pool, small, stream) if b.size >= size]
        at = 0
        if expandable:
            while (at + 1 < len(fitting) and fitting[at][0].page
                   and self.room(*fitting[at + 1]) < self.room(*fitting[at])):
                at += 1
        else:
            while at < len(fitting) and fitting[at][0].page:
                at += 1
        if at >= len(fitting):
            return None
        segment, block = fitting[at]
        if size < self.max_split <= block.size:
            return None
        if size >= self.max_split and block.size >= size + self.max_rounding:
            return None
        return segment, block

    def cut(self, segment, block, size):
        """Leaves `size` bytes in block; the rest becomes a block after it, in the same state."""
        rest = Block(block.address + size, block.size - size, block.state, block.age)
        block.size = size
        segment.blocks.insert(segment.blocks.index(block) + 1, rest)
        return rest

    def join(self, segment, block):
        """Joins the block with neighbours in the same state into a new block."""
        at = segment.blocks.index(block)
        first = at - 1 if at and segment.blocks[at - 1].state == block.state else at
        last = at + 1 if at + 1 < len(segment.blocks) and segment.blocks[at + 1].state == block.state else at
        joined = Block(segment.blocks[first].address, sum(b.size for b in segment.blocks[first:last + 1]), block.state,
                       self.pools[segment.pool].searches[segment.small])
        segment.blocks[first:last + 1] = [joined]
        return joined

    # Takes memory from the device, and gives it back.
    def get_memory(self, pool, size, stream):
        asked = self.segment_size(size)
        if self.limit is not None and self.reserved() + asked > self.limit:
            return None
        if self.expandable:
            return self.expand(pool, size, stream)
        if self.reserved() + asked > self.capacity:
            return None
        self.next_segment -= asked if self.downwards else 0
        segment = Segment(self.next_segment, asked, stream, pool, size <= MIB)
        self.next_segment += 0 if self.downwards else asked
        self.segments.append(segment)
        self.tell("segment_alloc", segment.address, asked, segment)
        return segment, segment.blocks[0]

    def expand(self, pool, size, stream):
        found = None
        for segment in sorted(self.side(pool, size <= MIB), key=lambda s: s.address):
            if not segment.page or segment.stream != stream or found:
                continue
            for at, block in enumerate(segment.blocks):
                if block.state != "unmapped" or found:
                    continue
                first = at - 1 if at and segment.blocks[at - 1].state == "free" else at
                room = 0
                for candidate in segment.blocks[first:]:
                    if candidate.state not in ("free", "unmapped"):
                        break
                    room += candidate.size
                if room >= size:
                    found = segment, segment.blocks[first]
        if not found:
            page = 2 * MIB if size <= MIB else self.large
            whole = -(-self.reserve // page) * page
            if whole < size:
                return None
            segment = Segment(self.next_reservation, whole, stream, pool, size <= MIB, page)
            self.next_reservation += whole
            self.segments.append(segment)
            found = segment, segment.blocks[0]
        segment, block = found
        if block.state == "unmapped":
            block = self.map(segment, block, min(block.size, size))
        while block and block.size < size:
            behind = segment.blocks[segment.blocks.index(block) + 1]
            block = self.map(segment, behind, min(behind.size, size - block.size))
        return (segment, block) if block else None

    def map(self, segment, block, size):
        pages = -(-size // segment.page) * segment.page
        if self.reserved() + pages > self.capacity:
            return None
        if pages < block.size:
            self.cut(segment, block, pages)
        block.state = "free"
        address = block.address
        block = self.join(segment, block)
        self.tell("segment_map", address, pages, segment)
        return block

    def give_back(self, segment):
        self.tell("segment_free", segment.address, segment.size, segment)
        self.segments.remove(segment)

    def unmap(self, segment, block):
        first = -(-(block.address - segment.address) // segment.page) * segment.page + segment.address
        last = (block.address + block.size - segment.address) // segment.page * segment.page + segment.address
        if first >= last:
            return
        now = self.pools[segment.pool].searches[segment.small]
        block.age = now
        if block.address < first:
            block = self.cut(segment, block, first - block.address)
        if block.address + block.size > last:
            self.cut(segment, block, last - block.address)
        block.state = "unmapped"
        self.join(segment, block)
        self.tell("segment_unmap", first, last - first, segment)
        if len(segment.blocks) == 1:
            self.segments.remove(segment)

    def release_side(self, pool, small):
        blocks = self.free_blocks(pool, small)
        for _, _, _, segment, _ in [entry for entry in blocks if not entry[3].page and len(entry[3].blocks) == 1]:
            self.give_back(segment)
        for _, _, _, segment, block in [entry for entry in blocks if entry[3].page]:
            self.unmap(segment, block)

    def release_all(self):
        if not self.contexts:
            self.end_deferral()
            for stream in self.events:
                self.done[stream] = self.events[stream]
            self.take_done()
            self.release_side(0, False)
            self.release_side(0, True)
        for pool in list(self.freeable):
            self.release_side(pool, True)
            self.release_side(pool, False)
            if not any(s.pool == pool for s in self.segments):
                self.freeable.remove(pool)
                self.pools[pool] = Pool()

    def release_available(self, pool, size, stream):
        if self.max_split == 1 << 64:
            return False
        need = max(size, self.max_split)
        blocks = self.free_blocks(pool, size <= MIB)
        at = next((i for i, entry in enumerate(blocks) if entry[:2] >= (stream, need)), len(blocks))
        if at < len(blocks) and blocks[at][0] == stream and not blocks[at][3].page and len(blocks[at][3].blocks) == 1:
            self.give_back(blocks[at][3])
            return True
        released = 0
        for of, size_of, _, segment, _ in reversed(blocks[:at]):
            if released >= need or of != stream or size_of < self.max_split:
                break
            if not segment.page and len(segment.blocks) == 1:
                self.give_back(segment)
                released += size_of
        return released >= need

    def collect(self):
        keep = int(self.gc * self.limit)
        if self.reserved() <= keep:
            return
        target, reclaimed = self.reserved() - keep, 0
        now = self.pools[0].searches[False]
        left = [(s, b) for _, _, _, s, b in self.free_blocks(0, False) if len(s.blocks) == 1]
        ages, any_freed = sum(now - b.age for _, b in left), True
        count = len(left)
        while any_freed and reclaimed < target and count:
            threshold, any_freed = ages / count, False
            for segment, block in list(left):
                if segment.page or now - block.age < threshold:
                    continue
                reclaimed += block.size
                ages -= now - block.age
                count -= 1
                any_freed = True
                left.remove((segment, block))
                self.give_back(segment)

    # The calls of the program.
    def pool_for(self, stream):
        for pool, of in reversed(self.contexts):
            if of in (ANY_STREAM, stream):
                return pool
        return 0

    def malloc(self, requested, stream):
        if not requested:
            return None
        pool = self.pool_for(stream)
        if not self.contexts:
            self.end_deferral()
            self.take_done()
        size = self.round(requested)
        found = self.search(pool, size, stream, self.expandable)
        if not found:
            if self.counts_ages():
                self.collect()
            found = self.get_memory(pool, size, stream)
            if not found and not pool:
                for other in sorted(self.pools):
                    if not found and self.pools[other].use_on_oom:
                        found = self.search(other, size, stream, False)
            if not found and self.release_available(pool, size, stream):
                found = self.get_memory(pool, size, stream)
            if not found and not self.contexts:
                self.release_all()
                self.retries += 1
                found = self.get_memory(pool, size, stream)
        if not found:
            self.ooms += 1
            self.trace.append(("oom", self.capacity - self.reserved(), size, stream, pool))
            raise OutOfMemory
        segment, block = found
        rest = block.size - size
        if self.pools[segment.pool].no_split:
            split = False
        elif segment.small or self.expandable:
            split = rest >= 512
        else:
            split = size < self.max_split and rest > MIB
        if split:
            self.cut(segment, block, size).age = self.pools[segment.pool].searches[segment.small]
        block.state, block.requested, block.uses, block.waits = "allocated", requested, {}, []
        self.tell("alloc", block.address, requested, segment)
        return segment, block

    def free(self, handle):
        segment, block = handle
        self.tell("free_requested", block.address, block.requested, segment)
        if not block.uses:
            self.free_now(segment, block)
            return
        block.state = "pending"
        if self.contexts:
            self.deferred.append(handle)
        else:
            self.wait(block, False)

    def free_now(self, segment, block):
        self.tell("free_completed", block.address, block.requested, segment)
        block.state, block.requested = "free", 0
        self.join(segment, block)

    def wait(self, block, but_in_capture):
        for stream, in_capture in block.uses.items():
            if not (but_in_capture and in_capture):
                self.events[stream] = self.events.get(stream, 0) + 1
                block.waits.append((stream, self.events[stream]))
        block.uses = {}

    def end_deferral(self):
        for segment, block in self.deferred:
            self.wait(block, True)
            if not block.waits:
                self.free_now(segment, block)
        self.deferred = []

    def take_done(self):
        pending = [(s, b) for s in self.segments for b in s.blocks if b.state == "pending" and b.waits]
        for segment, block in sorted(pending, key=lambda entry: max(entry[1].waits)):
            block.waits = [w for w in block.waits if self.done.get(w[0], 0) < w[1]]
            if not block.waits:
                self.free_now(segment, block)

    def record_stream(self, handle, stream):
        segment, block = handle
        if stream != segment.stream:
            block.uses.setdefault(stream, bool(self.contexts))

    def stream_done(self, stream):
        self.done[stream] = self.events.get(stream, 0)

    def begin(self, pool, stream):
        self.pools.setdefault(pool, Pool())
        self.contexts.append((pool, stream))
        self.pools[pool].users += 1
        if self.pools[pool].freeable:
            self.pools[pool].freeable = False
            self.freeable.remove(pool)

    def end(self, pool):
        at = max(i for i, context in enumerate(self.contexts) if context[0] == pool)
        del self.contexts[at]

    def release(self, pool):
        self.pools[pool].users -= 1
        if not self.pools[pool].users:
            self.pools[pool].freeable = True
            self.freeable.append(pool)

    def listing(self):
        """Segments as a snapshot has them: of an expandable one each run of mapped pages."""
        runs = []
        for segment in sorted(self.segments, key=lambda s: s.address):
            run = None
            for block in segment.blocks:
                if block.state == "unmapped":
                    run = None
                    continue
                if run is None:
                    run = {"address": block.address, "size": 0, "stream": segment.stream, "pool_id": segment.pool,
                           "pool": "small" if segment.small else "large", "expandable": bool(segment.page), "blocks": []}
                    runs.append(run)
                run["blocks"].append([run["size"], block.size, block.state[0] if block.state != "free" else "i",
                                      block.requested])
                run["size"] += block.size
        return runs
