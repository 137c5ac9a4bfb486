// The positions of an allocator's blocks in the memory that it got from the layer below.

/** Views of segments by their names in the page's address. */
export const SEGMENT_LOOKS = { map: { name: "at a moment" }, time: { name: "over time" } };

/**
 * The live segments of `lower` at a time, each with its blocks of `upper`. Both are in order of address.
 * @returns {{address, bytes, used, largest, blocks: {id, address, bytes}[]}[]} used: bytes of blocks; largest: hole
 */
export function addressMap(lower, upper, time) {
  const place = (track) => (id) => ({ id, address: track.address(id), bytes: track.bytesOf(id) });
  const known = (block) => block.address > 0 && block.bytes > 0;
  const live = (track) => [...track.side.seek(track.stateAt(time)).ids()].map(place(track)).filter(known)
    .sort((a, b) => a.address - b.address);
  const blocks = live(upper);
  let next = 0;
  const out = [];
  for (const segment of live(lower)) {
    const end = segment.address + segment.bytes;
    while (next < blocks.length && blocks[next].address < segment.address) next++;
    const inside = [];
    for (; next < blocks.length && blocks[next].address < end; next++) inside.push(blocks[next]);
    if (inside.length) out.push({ ...segment, blocks: inside, ...holes(segment, inside) });
    else out.push({ ...segment, blocks: inside, used: 0, largest: segment.bytes });
  }
  return out;
}

function holes(segment, blocks) {
  let at = segment.address;
  let used = 0;
  let largest = 0;
  for (const block of blocks) {
    largest = Math.max(largest, block.address - at);
    at = Math.max(at, block.address + block.bytes);
    used += block.bytes;
  }
  return { used, largest: Math.max(largest, segment.address + segment.bytes - at) };
}

/** The track below one on the same device whose blocks are its segments: its index, or -1. */
export function trackBelow(header, index) {
  const [device, layer] = header.tracks[index].id.split("/");
  if (layer === "driver" || !device.startsWith("cuda")) return -1;
  return header.tracks.findIndex((track) => track.id === device + "/driver" && track.blocks > 0);
}
