// The modules and the categories of blocks.

import { modulePattern } from "./modules.js";

/** By key of `keyOf`: the main module and category of the key's blocks, {module: "blocks.*.attn", category:
 * "activations"}; "" for none. */
export function naturesOf(track, { modules, categories }, ids, keyOf) {
  const out = new Map();
  if (modules.length === 1 && categories.length === 1) return out;
  const numbers = new Map(); // of keys
  const sums = new Map(); // bytes by key, and module and category as one number
  for (const id of ids) {
    const key = keyOf(id);
    let number = numbers.get(key);
    if (number === undefined) numbers.set(key, number = numbers.size);
    const module = track.module(id);
    const category = track.category(id);
    const at = (number * modules.length + module) * categories.length + category;
    const sum = sums.get(at);
    if (sum) sum.bytes += track.bytesOf(id);
    else sums.set(at, { key, module: modules[module], category: categories[category], bytes: track.bytesOf(id) });
  }
  for (const { key, module, category, bytes } of sums.values()) {
    let of = out.get(key);
    if (!of) out.set(key, of = { modules: new Map(), categories: new Map() });
    of.modules.set(module, (of.modules.get(module) ?? 0) + bytes);
    of.categories.set(category, (of.categories.get(category) ?? 0) + bytes);
  }
  for (const [key, of] of out) out.set(key, { module: modulePattern(of.modules), category: most(of.categories) });
  return out;
}

/** "gradients", "activations +1" */
function most(bytes) {
  const [first, ...others] = [...bytes].filter(([name]) => name).sort((a, b) => b[1] - a[1]);
  return first ? first[0] + (others.length ? ` +${others.length}` : "") : "";
}
