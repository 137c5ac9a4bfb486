// The blocks that are live at one moment, with sums that let a walk step over many small ones at once.
//
// Ids are in order of allocation. Three levels of bit masks: a bit per block, per 32 blocks and per 1024 blocks; and
// the
// bytes of every 32 and of every 1024 blocks. All arithmetic is on whole numbers below 2^53, so it is exact.

export class LiveSet {
  /** @param {{count: number, bytesOf: function(number): number}} blocks */
  constructor(blocks) {
    this.sizeIndex = blocks.sizeIndex;
    this.sizes = blocks.sizes;
    const words = (blocks.count + 31) >>> 5;
    const groups = (words + 31) >>> 5;
    this.bits = new Uint32Array(words);
    this.wordBytes = new Float64Array(words);
    this.groupMask = new Uint32Array(groups);
    this.groupBytes = new Float64Array(groups);
    this.total = 0;
    this.count = 0;
  }

  clear() {
    this.bits.fill(0);
    this.wordBytes.fill(0);
    this.groupMask.fill(0);
    this.groupBytes.fill(0);
    this.total = 0;
    this.count = 0;
  }

  add(id) {
    const bytes = this.sizes[this.sizeIndex[id]];
    const word = id >>> 5;
    const group = word >>> 5;
    this.bits[word] |= 1 << (id & 31);
    this.wordBytes[word] += bytes;
    this.groupMask[group] |= 1 << (word & 31);
    this.groupBytes[group] += bytes;
    this.total += bytes;
    this.count++;
  }

  remove(id) {
    const bytes = this.sizes[this.sizeIndex[id]];
    const word = id >>> 5;
    const group = word >>> 5;
    this.bits[word] &= ~(1 << (id & 31));
    this.wordBytes[word] -= bytes;
    this.groupBytes[group] -= bytes;
    if (this.bits[word] === 0) this.groupMask[group] &= ~(1 << (word & 31));
    this.total -= bytes;
    this.count--;
  }

  /** Ids in order of allocation. */
  ids() {
    const out = new Uint32Array(this.count);
    let n = 0;
    for (let group = 0; group < this.groupMask.length; group++) {
      for (let mask = this.groupMask[group]; mask !== 0; mask &= mask - 1) {
        const word = (group << 5) + 31 - Math.clz32(mask & -mask);
        for (let bits = this.bits[word]; bits !== 0; bits &= bits - 1) {
          out[n++] = (word << 5) + 31 - Math.clz32(bits & -bits);
        }
      }
    }
    return out;
  }
}
