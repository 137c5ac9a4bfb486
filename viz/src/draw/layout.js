// Which block each pixel of the plot shows. The result is also how a pointer finds its block.
//
// Blocks lie on each other in order of allocation. A block covers the rows between its rounded lower and upper edge, so
// blocks lower than a row share rows and nothing is left out or summarised.

export const NOTHING = -1;

/**
 * Fills `pick`, column by column, top row first: pick[x * height + y].
 * @param {import("../data/track.js").Track} track
 * @param {{state: Int32Array}} columns
 * @param {number} low @param {number} high the bytes at the lower and upper edge
 */
export function layOut(track, columns, low, high, width, height, pick) {
  const { state } = columns;
  for (let x = 0; x < width; x++) {
    const at = x * height;
    if (x > 0 && state[x] === state[x - 1]) {
      pick.copyWithin(at, at - height, at);
    } else {
      const live = track.cursor.seek(state[x]);
      layOutColumn(live, x > 0 ? track.cursor.lowest : 0, low, high, height, pick, at);
    }
  }
}

/** Blocks below id `from` lie as in the column before. */
function layOutColumn(live, from, low, high, height, pick, at) {
  const { bits, wordBytes, groupMask, groupBytes, sizeIndex, sizes } = live;
  const scale = height / (high - low);
  const groups = groupMask.length;
  const firstWord = from >>> 5;
  const firstGroup = firstWord >>> 5;
  let below = 0; // bytes under the next block
  for (let group = 0; group < firstGroup; group++) below += groupBytes[group];
  let passed = 0; // bytes of the first group that lie in words passed over
  for (let word = firstGroup << 5; word < firstWord; word++) passed += wordBytes[word];
  below += passed;
  let ahead = -1 << (firstWord & 31); // words of the first group that are still to come
  let row = Math.min(Math.max(Math.round((below - low) * scale), 0), height); // rows filled, from the lower edge
  pick.copyWithin(at + height - row, at - row, at);
  for (let group = firstGroup; group < groups && row < height; group++) {
    const groupEnd = below + groupBytes[group] - passed;
    const words = groupMask[group] & ahead;
    passed = 0;
    ahead = -1;
    const groupRow = Math.min(Math.round((groupEnd - low) * scale), height);
    for (let mask = words; mask !== 0 && row < groupRow; mask &= mask - 1) {
      const word = (group << 5) + 31 - Math.clz32(mask & -mask);
      const wordEnd = below + wordBytes[word];
      const wordRow = Math.min(Math.round((wordEnd - low) * scale), height);
      for (let rest = bits[word]; rest !== 0 && row < wordRow; rest &= rest - 1) {
        const id = (word << 5) + 31 - Math.clz32(rest & -rest);
        below += sizes[sizeIndex[id]];
        const end = Math.min(Math.round((below - low) * scale), height);
        if (end > row) {
          const to = at + height - row;
          for (let i = at + height - end; i < to; i++) pick[i] = id;
          row = end;
        }
      }
      below = wordEnd;
    }
    below = groupEnd;
  }
  pick.fill(NOTHING, at, at + height - row);
}

/**
 * The rows of a block in the columns from..to (to not included): [x, top, bottom, x, top, bottom, ...].
 * A block that is lower than a row may have none.
 */
export function outlineOf(pick, height, id, from, to) {
  const out = [];
  for (let x = from; x < to; x++) {
    const at = x * height;
    let top = 0;
    while (top < height && pick[at + top] !== id) top++;
    if (top === height) continue;
    let bottom = top + 1;
    while (bottom < height && pick[at + bottom] === id) bottom++;
    out.push(x, top, bottom);
  }
  return out;
}
