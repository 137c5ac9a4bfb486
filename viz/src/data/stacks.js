// Sites, their stacks as a tree of nodes, frames and strings.

import { readNumbers, readUint32s } from "./varint.js";

export const STACK_COLUMNS = ["site", "headline", "parent", "frame", "language", "module", "address", "graph", "lines", "line",
  "user", "length", "text", "library"];

const NATIVE = 0;
const PYTHON = 1;
const BACKWARD = 2;

/** @typedef {{function: string, file: string, line: number, module: string, address: number, python: boolean,
 *             user: boolean, cut: boolean, backward: boolean, graph?: number}} Frame  graph: number of the text about
 *             the graph's node that the line was compiled from; user: Python code that is neither a package's nor
 *             Python's own; backward: not a call, but the border between a backward node and the call that made the
 *             node */

function hashText(hash, text) {
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}

/** A number for a name, the same in every run. */
export function hashName(name) {
  const hash = hashText(0x811c9dc5, name);
  return (hash ^ hash >>> 15) >>> 0;
}

const NO_FRAME = { function: "", file: "", line: 0, module: "", address: 0, python: false, user: false, cut: false,
  backward: false };

export function baseName(path) {
  const windows = /^[A-Za-z]:\\[^/]*$/.test(path);
  return path.slice(path.lastIndexOf(windows ? "\\" : "/") + 1);
}

export class Stacks {
  constructor(columns) {
    const { site, headline, parent, frame, language, module, address, graph, lines, line, user, length, text,
      library } = columns;
    this.node = readUint32s(site.bytes, site.count);
    this.headline = readUint32s(headline.bytes, headline.count);
    this.libraries = readUint32s(library.bytes, library.count);
    this.parent = new Uint32Array(parent.count + 1);
    this.frame = new Uint32Array(parent.count + 1);
    const back = readUint32s(parent.bytes, parent.count);
    this.frame.set(readUint32s(frame.bytes, frame.count), 1);
    for (let i = 1; i <= parent.count; i++) this.parent[i] = i - back[i - 1];
    this.language = language.bytes;
    this.module = readUint32s(module.bytes, module.count);
    this.address = readNumbers(address.bytes, address.count);
    this.graph = readUint32s(graph.bytes, graph.count);
    const counts = readUint32s(lines.bytes, lines.count);
    this.firstLine = new Uint32Array(counts.length + 1);
    for (let i = 0; i < counts.length; i++) this.firstLine[i + 1] = this.firstLine[i] + counts[i];
    this.lines = readUint32s(line.bytes, line.count * 3);
    this.user = user.bytes;
    const lengths = readUint32s(length.bytes, length.count);
    this.textAt = new Float64Array(lengths.length + 1);
    for (let i = 0; i < lengths.length; i++) this.textAt[i + 1] = this.textAt[i] + lengths[i];
    this.text = text.bytes;
    this.decoder = new TextDecoder();
    this.strings = new Array(lengths.length);
    this.described = new Array(this.node.length);
    this.frameHashes = new Map();
  }

  get count() {
    return this.node.length;
  }

  string(id) {
    const known = this.strings[id];
    if (known !== undefined) return known;
    return this.strings[id] = this.decoder.decode(this.text.subarray(this.textAt[id], this.textAt[id + 1]));
  }

  /** The source-level frames of one frame, innermost first. */
  framesOf(frame) {
    const python = this.language[frame] === PYTHON;
    const backward = this.language[frame] === BACKWARD;
    const module = this.string(this.module[frame]);
    const address = this.address[frame];
    const graph = this.graph[frame];
    const out = [];
    for (let i = this.firstLine[frame]; i < this.firstLine[frame + 1]; i++) {
      const file = this.string(this.lines[3 * i + 1]);
      out.push({
        function: this.string(this.lines[3 * i]), file, line: this.lines[3 * i + 2], module, address, python,
        user: this.user[i] === 1, cut: false, backward, ...graph && { graph },
      });
    }
    if (!out.length) {
      out.push({ ...NO_FRAME, function: backward ? "backward of" : "", module, address, python, backward });
    }
    return out;
  }

  /** @returns {Frame[]} a site's stack, innermost first */
  stack(site) {
    const out = [];
    for (let node = this.node[site]; node !== 0; node = this.parent[node]) {
      if (this.frame[node] === 0) {
        out.push({ ...NO_FRAME, cut: true });
      } else {
        out.push(...this.framesOf(this.frame[node] - 1));
      }
    }
    return out;
  }

  /** The line that names a site; undefined if its stack has no such line. */
  head(site) {
    return this.stack(site)[this.headline[site] - 1];
  }

  /** The shared object of a site's innermost native frame outside of the allocator; "": unknown. */
  library(site) {
    const string = this.libraries[site];
    return string ? this.string(string - 1) : "";
  }

  /** Per frame, 1 if a function, file or library of the frame contains `word`, in any case of letters. */
  framesWith(word) {
    const hit = new Int8Array(this.strings.length); // 0: not checked, 1: contains it, -1: does not
    const has = (string) => {
      if (!hit[string]) hit[string] = this.string(string).toLowerCase().includes(word) ? 1 : -1;
      return hit[string] > 0;
    };
    const found = new Uint8Array(this.module.length);
    for (let frame = 0; frame < found.length; frame++) {
      let any = has(this.module[frame]);
      for (let i = this.firstLine[frame]; i < this.firstLine[frame + 1] && !any; i++) {
        any = has(this.lines[3 * i]) || has(this.lines[3 * i + 1]) ||
          `${baseName(this.string(this.lines[3 * i + 1]))}:${this.lines[3 * i + 2]}`.toLowerCase() === word;
      }
      if (any) found[frame] = 1;
    }
    return found;
  }

  /** The name of a site in a line; `inside` is the innermost Python line, if another line names the site. */
  describe(site) {
    const known = this.described[site];
    if (known) return known;
    const stack = this.stack(site);
    const head = stack[this.headline[site] - 1];
    const inner = stack.find((frame) => frame.python);
    return this.described[site] = {
      name: head ? shortName(head) : "no stack",
      place: head ? framePlace(head) : "",
      backward: this.backwardOf(stack, this.headline[site] - 1),
      inside: inner && head.python && inner !== head ? frameName(inner) + "  " + framePlace(inner) : "",
    };
  }

  /** "backward of" if the line at `head` made a node in forward whose backward allocated; else "". */
  backwardOf(stack, head) {
    return stack.slice(0, Math.max(head, 0)).find((frame) => frame.backward)?.function ?? "";
  }

  /** A number that is equal for equal source lines in every run: it leaves out addresses and modules. */
  hash(site) {
    let python = false;
    for (let node = this.node[site]; node !== 0 && !python; node = this.parent[node]) {
      python = this.frame[node] !== 0 && this.language[this.frame[node] - 1] === PYTHON;
    }
    let hash = 0x811c9dc5;
    for (let node = this.node[site]; node !== 0; node = this.parent[node]) {
      const frame = this.frame[node] - 1;
      if (frame < 0 || (python && this.language[frame] === NATIVE)) continue;
      hash = Math.imul(hash ^ this.frameHash(frame), 0x01000193);
    }
    hash ^= hash >>> 15;
    hash = Math.imul(hash, 0x2c1b3c6d);
    return (hash ^ hash >>> 13) >>> 0;
  }

  frameHash(frame) {
    const known = this.frameHashes.get(frame);
    if (known !== undefined) return known;
    let hash = 0x811c9dc5;
    for (const { function: name, file, line } of this.framesOf(frame)) {
      hash = Math.imul(hashText(hashText(hash, name), baseName(file)) ^ line, 0x01000193);
    }
    this.frameHashes.set(frame, hash);
    return hash;
  }
}

export function frameName(frame) {
  if (frame.cut) return "… stack cut here …";
  if (frame.function) return frame.function;
  return frame.address ? "0x" + frame.address.toString(16) : "unknown";
}

/** frameName() without C++'s parameters, template arguments and return types. */
export function shortName(frame) {
  const name = frameName(frame);
  if (frame.python || !/[<(]/.test(name) || /\boperator\b/.test(name)) return name;
  let depth = 0;
  let out = "";
  for (const char of name.replaceAll("(anonymous namespace)", "{anonymous}").replace(/ \[clone.*|\) const$/, "")) {
    if (char === "(" || char === "<") depth++;
    else if (char === ")" || char === ">") depth--;
    else if (!depth) out += char;
  }
  return out.trim().split(" ").at(-1) || name;
}

/** `model.py:88`, or the shared object of a native frame without a source line. */
export function framePlace(frame) {
  if (frame.file) return baseName(frame.file) + (frame.line ? ":" + frame.line : "");
  return baseName(frame.module);
}

/** A stack as text, innermost first, as a person would paste it into an issue. */
export function stackText(stack) {
  return stack.map((frame) => {
    const place = frame.file ? frame.file + (frame.line ? ":" + frame.line : "") : frame.module;
    return place ? frameName(frame) + "  (" + place + ")" : frameName(frame);
  }).join("\n");
}
