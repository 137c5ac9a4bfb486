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

/** How many blocks of a site there are in all, and what they hold while they live. */
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
