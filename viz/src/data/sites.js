// Blocks grouped by site.

/**
 * Live bytes and blocks by site in one state, most bytes first.
 * @param {import("./track.js").Track} track
 */
export function sitesAt(track, event) {
  const live = track.side.seek(event);
  const bytes = new Float64Array(track.siteCount);
  const blocks = new Uint32Array(track.siteCount);
  for (const id of live.ids()) {
    const site = track.blocks.site[id];
    bytes[site] += track.bytesOf(id);
    blocks[site]++;
  }
  const rows = [];
  for (let site = 0; site < track.siteCount; site++) {
    if (blocks[site]) rows.push({ site, bytes: bytes[site], blocks: blocks[site] });
  }
  rows.sort((a, b) => b.bytes - a.bytes || a.site - b.site);
  return { rows, bytes: live.total, blocks: live.count };
}

/** The number of a site's blocks over all time, and their bytes. */
export function siteTotals(track, site) {
  const totals = track.siteTotals ??= sumSites(track);
  return { blocks: totals.blocks[site] ?? 0, bytes: totals.bytes[site] ?? 0 };
}

function sumSites(track) {
  const { site, sizeIndex, sizes, count } = track.blocks;
  const totals = { blocks: new Uint32Array(track.siteCount), bytes: new Float64Array(track.siteCount) };
  for (let id = 0; id < count; id++) {
    totals.blocks[site[id]]++;
    totals.bytes[site[id]] += sizes[sizeIndex[id]];
  }
  return totals;
}

/**
 * Distinguishes sites with the same name: Map of site to a frame in which its stack differs from the others'. Frames
 * are searched from the line that names the site outwards, then inwards.
 */
export function apart(stacks, sites) {
  const same = new Map();
  for (const site of sites) {
    const { name, place, inside, backward } = stacks.describe(site);
    const key = [name, place, inside, backward].join("\n");
    if (!same.has(key)) same.set(key, []);
    same.get(key).push(site);
  }
  const out = new Map();
  for (const group of same.values()) {
    if (group.length > 1) for (const [site, frame] of differing(stacks, group)) out.set(site, frame);
  }
  return out;
}

const INTERPRETER = /\/(lib)?python[^/]*$/;

/** For each site of a group the first frame that not all stacks have; the user's frames are preferred, then
 * Python's. */
function differing(stacks, group) {
  const paths = group.map((site) => {
    const stack = stacks.stack(site);
    const head = Math.max(stacks.headline[site] - 1, 0);
    return [...stack.slice(head + 1), ...stack.slice(0, head).reverse()].filter((frame) => frame.function &&
      (frame.python || !INTERPRETER.test(frame.module)));
  });
  for (const keep of [(frame) => frame.user, (frame) => frame.python, () => true]) {
    const kept = paths.map((path) => path.filter(keep));
    const most = Math.max(...kept.map((path) => path.length));
    for (let i = 0; i < most; i++) {
      const keys = kept.map((path) => path[i] ? `${path[i].function} ${path[i].file} ${path[i].line}` : "");
      if (new Set(keys).size > 1) return group.flatMap((site, j) => kept[j][i] ? [[site, kept[j][i]]] : []);
    }
  }
  return [];
}
