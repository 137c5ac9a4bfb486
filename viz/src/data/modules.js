// Paths of the network's modules ("blocks.3.attn"): which layer a block was allocated in.

import { readUint32s } from "./varint.js";

export const WORD_COLUMNS = ["length", "text"];

/** Texts, modules among them. @returns {string[]} by the number that blocks have; the first one stands for "none" */
export function readWords({ length, text }) {
  const lengths = readUint32s(length.bytes, length.count);
  const decoder = new TextDecoder();
  const out = [""];
  for (let i = 0, at = 0; i < lengths.length; i++) out.push(decoder.decode(text.bytes.subarray(at, at += lengths[i])));
  return out;
}

const isNumber = (part) => /^\d+$/.test(part);

/** "blocks.*.attn": a path with every number made a star, so that a network's layers of one kind are one. */
export function moduleKind(path) {
  return path.split(".").map((part) => isNumber(part) ? "*" : part).join(".");
}

/** Paths as one: where they differ in numbers only, the numbers that differ become stars. */
function merge(path, other) {
  const [parts, others] = [path.split("."), other.split(".")];
  return parts.map((part, i) => part === others[i] ? part : "*").join(".");
}

/**
 * The name in one line for the modules of some blocks: "blocks.*.attn", "head +2". "" for none.
 * @param {Map<string, number>} bytes by path; that of "" counts for nothing
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

/** Names in a flame graph for the parts of a path, outermost first: a number stands with what it counts ("blocks.3").
 * */
export function moduleSteps(path) {
  const parts = path.split(".");
  return parts.map((part, i) => i && (isNumber(part) || part === "*") ? `${parts[i - 1]}.${part}` : part);
}
