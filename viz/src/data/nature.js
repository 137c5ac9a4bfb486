// What blocks are, beside who allocated them: their modules and their categories.

import { modulePattern } from "./modules.js";

function add(sums, key, bytes) {
  sums.set(key, (sums.get(key) ?? 0) + bytes);
}

/** By key of `keyOf`: what its blocks are, {module: "blocks.*.attn", category: "activations"}; "" for none. */
export function naturesOf(track, { modules, categories }, ids, keyOf) {
  const sums = new Map();
  for (const id of ids) {
    const key = keyOf(id);
    let of = sums.get(key);
    if (!of) sums.set(key, of = { modules: new Map(), categories: new Map() });
    const bytes = track.bytesOf(id);
    if (modules.length > 1) add(of.modules, modules[track.module(id)], bytes);
    if (categories.length > 1) add(of.categories, categories[track.category(id)], bytes);
  }
  for (const [key, of] of sums) sums.set(key, { module: modulePattern(of.modules), category: most(of.categories) });
  return sums;
}

/** "gradients", "activations +1" */
function most(bytes) {
  const [first, ...others] = [...bytes].filter(([name]) => name).sort((a, b) => b[1] - a[1]);
  return first ? first[0] + (others.length ? ` +${others.length}` : "") : "";
}
