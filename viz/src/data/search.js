// Search looks for words in functions and files, libraries and module paths, categories and metadata. "two words" in
// quotation marks are one word; >1MiB, <4KiB and =512 match sizes; 0x7f12 matches the blocks at an address. A block
// must match all parts of a query.

import { moduleKind } from "./modules.js";

const UNITS = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

/** @returns {{words: string[], sizes: {sign: string, bytes: number}[], addresses: number[]}} */
export function parseQuery(text) {
  const query = { words: [], sizes: [], addresses: [] };
  for (const part of text.replace(/([<>=]=?)\s+/g, "$1").match(/"[^"]+"|[^\s"]+/g) ?? []) {
    const size = /^(>=|<=|>|<|=)(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?$/i.exec(part);
    if (size) query.sizes.push({ sign: size[1], bytes: Number(size[2]) * UNITS[size[3].toLowerCase()] });
    else if (/^0x[0-9a-f]{1,14}$/i.test(part)) query.addresses.push(Number(part));
    else query.words.push(part.replaceAll('"', "").toLowerCase());
  }
  return query;
}

const TESTS = {
  ">": (a, b) => a > b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, "<=": (a, b) => a <= b, "=": (a, b) => a === b,
};

/** Per site, 1 if a function, file or library of its stack contains the word. */
export function sitesWith(stacks, word) {
  const hit = new Int8Array(stacks.parent.length); // per node: 1: its frame or a caller has it, -1: no, 0: unknown
  const frames = stacks.framesWith(word);
  hit[0] = -1;
  // Parents come before their children.
  for (let node = 1; node < hit.length; node++) {
    const frame = stacks.frame[node];
    hit[node] = hit[stacks.parent[node]] > 0 || (frame > 0 && frames[frame - 1]) ? 1 : -1;
  }
  return Uint8Array.from(stacks.node, (node) => hit[node] > 0 ? 1 : 0);
}

/** A test whether a block matches a word by its site, its module, its category or its texts. */
function wordTest(track, { stacks, modules, categories, words }, word) {
  const sites = sitesWith(stacks, word);
  const has = (name) => name.toLowerCase().includes(word) ? 1 : 0;
  const inModule = Uint8Array.from(modules, (path) => has(path) || has(moduleKind(path)));
  const inCategory = Uint8Array.from(categories, has);
  const { site } = track.blocks;
  const inWords = Uint8Array.from(words, has);
  if (![inModule, inCategory, inWords].some((hits) => hits.includes(1))) return (id) => sites[site[id]];
  return (id) => sites[site[id]] || inModule[track.module(id)] || inCategory[track.category(id)] || inWords[track.metadata(id)] || inWords[track.tensor(id)];
}

/**
 * The blocks of a track that match a query.
 * @returns {{mask: Uint8Array, blocks: number, bytes: number}} mask: 1 per block that matches
 */
export function findBlocks(track, recording, query) {
  const words = query.words.map((word) => wordTest(track, recording, word));
  const { sizeIndex, sizes, count } = track.blocks;
  const sizeFits = Uint8Array.from(sizes, (bytes, i) =>
    query.sizes.every(({ sign, bytes: wanted }) => i > 0 && TESTS[sign](bytes, wanted)) ? 1 : 0);
  const mask = new Uint8Array(count);
  let blocks = 0;
  let bytes = 0;
  for (let id = 0; id < count; id++) {
    if (!sizeFits[sizeIndex[id]] || !words.every((test) => test(id))) continue;
    if (query.addresses.length && !query.addresses.every((address) => holds(track, id, address))) continue;
    mask[id] = 1;
    blocks++;
    bytes += sizes[sizeIndex[id]];
  }
  return { mask, blocks, bytes };
}

function holds(track, id, address) {
  const from = track.address(id);
  return from > 0 && from <= address && address < from + Math.max(track.bytesOf(id), 1);
}

/** Per column of chooseColumns(), the most bytes of matching blocks that are live in it. */
export function matchCurve(track, mask, columns, along) {
  const out = new Float64Array(columns);
  const { subject, time } = track;
  let live = 0;
  for (let id = 0; id < track.baseCount; id++) if (mask[id]) live += track.bytesOf(id);
  let column = 0;
  out[0] = live;
  for (let i = 0; i < track.count; i++) {
    const block = subject[i] >= 0 ? subject[i] : ~subject[i];
    if (!mask[block]) continue;
    const at = Math.min(Math.floor((along.ofState(i) - along.low) / (along.high - along.low) * columns), columns - 1);
    while (column < at) out[++column] = live;
    live += subject[i] >= 0 ? track.bytesOf(block) : -track.bytesOf(block);
    if (live > out[column]) out[column] = live;
  }
  while (column < columns - 1) out[++column] = live;
  return out;
}
