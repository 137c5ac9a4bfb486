// The blocks that are live at one moment, with sums that let a walk step over many small ones at once.
//
// Ids are in order of allocation. The set has four levels of bit masks: a bit per block, per 32 blocks (a word), per
// 1024 (a group) and per 32 768 (a top), with the bytes of each. All arithmetic is on whole numbers below 2^53, so it
// is exact.

export class LiveSet {
  /** @param {{count: number, sizeIndex: ArrayLike<number>, sizes: Float64Array}} blocks */
  constructor(blocks) {
    this.sizeIndex = blocks.sizeIndex;
    this.sizes = blocks.sizes;
    const words = (blocks.count + 31) >>> 5;
    const groups = (words + 31) >>> 5;
    const tops = (groups + 31) >>> 5;
    this.bits = new Uint32Array(words);
    this.wordBytes = new Float64Array(words);
    this.groupMask = new Uint32Array(groups);
    this.groupBytes = new Float64Array(groups);
    this.topMask = new Uint32Array(tops);
    this.topBytes = new Float64Array(tops);
    this.total = 0;
    this.count = 0;
  }

  clear() {
    for (const level of [this.bits, this.wordBytes, this.groupMask, this.groupBytes, this.topMask, this.topBytes]) {
      level.fill(0);
    }
    this.total = 0;
    this.count = 0;
  }

  add(id) {
    const bytes = this.sizes[this.sizeIndex[id]];
    const word = id >>> 5;
    const group = word >>> 5;
    const top = group >>> 5;
    this.bits[word] |= 1 << (id & 31);
    this.wordBytes[word] += bytes;
    this.groupMask[group] |= 1 << (word & 31);
    this.groupBytes[group] += bytes;
    this.topMask[top] |= 1 << (group & 31);
    this.topBytes[top] += bytes;
    this.total += bytes;
    this.count++;
  }

  remove(id) {
    const bytes = this.sizes[this.sizeIndex[id]];
    const word = id >>> 5;
    const group = word >>> 5;
    const top = group >>> 5;
    this.bits[word] &= ~(1 << (id & 31));
    this.wordBytes[word] -= bytes;
    this.groupBytes[group] -= bytes;
    this.topBytes[top] -= bytes;
    if (this.bits[word] === 0) {
      this.groupMask[group] &= ~(1 << (word & 31));
      if (this.groupMask[group] === 0) this.topMask[top] &= ~(1 << (group & 31));
    }
    this.total -= bytes;
    this.count--;
  }

  /** Ids in order of allocation. */
  ids() {
    const out = new Uint32Array(this.count);
    let n = 0;
    for (let top = 0; top < this.topMask.length; top++) {
      for (let groups = this.topMask[top]; groups !== 0; groups &= groups - 1) {
        const group = (top << 5) + 31 - Math.clz32(groups & -groups);
        for (let words = this.groupMask[group]; words !== 0; words &= words - 1) {
          const word = (group << 5) + 31 - Math.clz32(words & -words);
          for (let bits = this.bits[word]; bits !== 0; bits &= bits - 1) {
            out[n++] = (word << 5) + 31 - Math.clz32(bits & -bits);
          }
        }
      }
    }
    return out;
  }
}
