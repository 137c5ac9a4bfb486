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
  const out = { blocks: 0, bytes: 0 };
  const { site: sites } = track.blocks;
  for (let id = 0; id < sites.length; id++) {
    if (sites[id] !== site) continue;
    out.blocks++;
    out.bytes += track.bytesOf(id);
  }
  return out;
}
