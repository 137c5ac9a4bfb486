// Paths of the network's modules ("blocks.3.attn"): which layer a block was allocated in.

import { readUint32s } from "./varint.js";

export const WORD_COLUMNS = ["length", "text"];

/**
 * Reads a list of texts, such as the paths of modules.
 * @returns {string[]} by the number that blocks have; the first one stands for "none"
 */
export function readWords({ length, text }) {
  const lengths = readUint32s(length.bytes, length.count);
  const decoder = new TextDecoder();
  const out = [""];
  for (let i = 0, at = 0; i < lengths.length; i++) out.push(decoder.decode(text.bytes.subarray(at, at += lengths[i])));
  return out;
}

const isNumber = (part) => /^\d+$/.test(part);

/** "blocks.*.attn": a path with a star for each number, so that layers of the same kind have one name. */
export function moduleKind(path) {
  return path.split(".").map((part) => isNumber(part) ? "*" : part).join(".");
}

/** Merges two paths that differ only in numbers: the differing numbers become stars. */
function merge(path, other) {
  const [parts, others] = [path.split("."), other.split(".")];
  return parts.map((part, i) => part === others[i] ? part : "*").join(".");
}

/**
 * A short name for the modules of some blocks: "blocks.*.attn", "head +2". "" for none.
 * @param {Map<string, number>} bytes bytes by path; those of "" are ignored
 */
export function modulePattern(bytes) {
  const kinds = new Map();
  for (const [path, value] of bytes) {
    if (!path) continue;
    const kind = moduleKind(path);
    const known = kinds.get(kind);
    const pattern = known ? merge(known.pattern, path) : path;
    kinds.set(kind, { pattern, value: value + (known?.value ?? 0) });
  }
  const [first, ...others] = [...kinds.values()].sort((a, b) => b.value - a.value);
  return first ? first.pattern + (others.length ? ` +${others.length}` : "") : "";
}

/** Names in a flame graph for the parts of a path, outermost first. A number stays with the word before it
 * ("blocks.3").
 * */
export function moduleSteps(path) {
  const parts = path.split(".");
  return parts.map((part, i) => i && (isNumber(part) || part === "*") ? `${parts[i - 1]}.${part}` : part);
}
