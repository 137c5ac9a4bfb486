// Which block each pixel of the plot shows. The pointer finds its block by this, too.
//
// Blocks are stacked in order of allocation. A block covers the rows between its rounded lower and upper edge, so
// blocks lower than a row share rows and nothing is left out or summarised.

export const NOTHING = -1;

const WALK_SHARE = 4; // a list is used for at most this many live blocks per event between two columns
const WALK_LEAST = 256; // a list is always used for this many live blocks

/**
 * Fills `pick`, column by column, top row first: pick[x * height + y].
 * @param {import("../data/track.js").Track} track
 * @param {{state: Int32Array}} columns
 * @param {number} low the bytes at the lower edge
 * @param {number} high the bytes at the upper edge
 */
export function layOut(track, columns, low, high, width, height, pick) {
  const { state } = columns;
  for (let x = 0; x < width;) {
    const at = x * height;
    if (x > 0 && state[x] === state[x - 1]) {
      pick.copyWithin(at, at - height, at);
      x++;
      continue;
    }
    // Also valid after walk(), which does not move the cursor: blocks born meanwhile are above all blocks of the
    // cursor's state.
    const live = track.cursor.seek(state[x]);
    layOutColumn(live, x > 0 ? track.cursor.lowest : 0, low, high, height, pick, at);
    x++;
    const most = Math.max(WALK_LEAST, WALK_SHARE * (state[width - 1] - state[x - 1]) / (width - x));
    if (x < width && live.count <= most) x = walk(track, live.ids(), most, state, x, low, high, width, height, pick);
  }
}

/**
 * Lays out columns from x on with a plain list of live blocks. A list takes a step per block in each column, a live set
 * about ten per event, so a list is faster if many events are between columns. Returns the first column not laid out:
 * the list had become longer than `most`.
 */
function walk(track, ids, most, state, x, low, high, width, height, pick) {
  const { birth, death, sizeIndex, sizes, count: blocks } = track.blocks;
  const scale = height / (high - low);
  let list = new Uint32Array(Math.max(2 * ids.length, 4096));
  list.set(ids);
  let count = ids.length;
  let next = track.bornBefore(state[x - 1]); // the first block that is not born yet
  for (; x < width && count <= most; x++) {
    const event = state[x];
    const at = x * height;
    let below = 0;
    let kept = 0;
    // Blocks below the first freed one are at the same height as in the column before.
    for (; kept < count; kept++) {
      const id = list[kept];
      if (death[id] >= 0 && death[id] <= event) break;
      below += sizes[sizeIndex[id]];
    }
    let row = Math.min(Math.max(Math.round((below - low) * scale), 0), height); // rows filled, from the lower edge
    pick.copyWithin(at + height - row, at - row, at);
    const old = count;
    count = kept;
    for (let i = kept + 1; i < old; i++) {
      const id = list[i];
      if (death[id] < 0 || death[id] > event) list[count++] = id;
    }
    for (; next < blocks && birth[next] <= event; next++) {
      if (death[next] >= 0 && death[next] <= event) continue;
      if (count === list.length) list = longer(list);
      list[count++] = next;
    }
    for (let i = kept; i < count && row < height; i++) {
      const id = list[i];
      below += sizes[sizeIndex[id]];
      const end = Math.min(Math.round((below - low) * scale), height);
      for (let to = at + height - row, y = at + height - end; y < to; y++) pick[y] = id;
      if (end > row) row = end;
    }
    pick.fill(NOTHING, at, at + height - row);
  }
  return x;
}

function longer(list) {
  const out = new Uint32Array(2 * list.length);
  out.set(list);
  return out;
}

function bytesIn(level, from, to) {
  let sum = 0;
  for (let i = from; i < to; i++) sum += level[i];
  return sum;
}

/** Lays out one column. Blocks with ids below `from` are at the same height as in the column before. */
function layOutColumn(live, from, low, high, height, pick, at) {
  const { bits, wordBytes, groupMask, groupBytes, topMask, topBytes, sizeIndex, sizes } = live;
  const scale = height / (high - low);
  const firstWord = from >>> 5;
  const firstGroup = firstWord >>> 5;
  const firstTop = firstGroup >>> 5;
  // Bytes under the next top, group and word.
  let underTop = bytesIn(topBytes, 0, firstTop);
  let underGroup = underTop + bytesIn(groupBytes, firstTop << 5, firstGroup);
  const start = underGroup + bytesIn(wordBytes, firstGroup << 5, firstWord);
  let row = Math.min(Math.max(Math.round((start - low) * scale), 0), height); // rows filled, from the lower edge
  pick.copyWithin(at + height - row, at - row, at);
  for (let top = firstTop; top < topMask.length && row < height; top++) {
    const topEnd = underTop + topBytes[top];
    const topRow = Math.min(Math.round((topEnd - low) * scale), height);
    let groups = topMask[top];
    if (top === firstTop) groups &= -1 << (firstGroup & 31);
    for (; groups !== 0 && row < topRow; groups &= groups - 1) {
      const group = (top << 5) + 31 - Math.clz32(groups & -groups);
      const groupEnd = underGroup + groupBytes[group];
      const groupRow = Math.min(Math.round((groupEnd - low) * scale), height);
      let words = groupMask[group];
      let below = underGroup;
      if (group === firstGroup) {
        words &= -1 << (firstWord & 31);
        below = start;
      }
      for (; words !== 0 && row < groupRow; words &= words - 1) {
        const word = (group << 5) + 31 - Math.clz32(words & -words);
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
      underGroup = groupEnd;
    }
    underTop = underGroup = topEnd;
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
