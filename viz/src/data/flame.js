// A flame graph: the stacks of some sites as one tree of calls, with what each call holds.

/** Which frames of a stack are drawn. A stack without any of the wanted kind keeps all its frames. */
export const FRAMES = {
  user: { name: "your code", keep: (frame) => frame.user },
  python: { name: "Python", keep: (frame) => frame.python },
  all: { name: "all, native too", keep: () => true },
};

/** A site's frames that are drawn, outermost first; without your own code, Python's, and without Python, all. */
export function framesShown(stacks, site, which) {
  const stack = stacks.stack(site).reverse();
  const order = ["user", "python", "all"];
  for (let i = order.indexOf(which); i < order.length; i++) {
    const kept = stack.filter((frame) => frame.cut || FRAMES[order[i]].keep(frame));
    if (kept.some((frame) => !frame.cut)) return kept;
  }
  return stack;
}

function newNode(frame, parent) {
  return { frame, parent, value: 0, own: 0, site: -1, children: new Map() };
}

/** Calls are one where function, file and line are. */
export function frameKey(frame) {
  if (frame.cut) return "cut";
  return frame.function || frame.file ? `${frame.function}\n${frame.file}\n${frame.line}`
    : `${frame.module}\n${frame.address}`;
}

/**
 * @param {{site: number, value: number}[]} rows
 * @param {{frames: string, inverted: boolean}} look inverted: from the innermost call outwards
 * @returns the root; a node's `value` is its children's and its `own`; `site` is the heaviest that passes through it
 */
export function flameTree(stacks, rows, { frames, inverted }) {
  const root = newNode(null, null);
  for (const { site, value } of [...rows].sort((a, b) => b.value - a.value)) {
    const path = framesShown(stacks, site, frames);
    if (inverted) path.reverse();
    let node = root;
    root.value += value;
    for (const frame of path) {
      const key = frameKey(frame);
      let child = node.children.get(key);
      if (!child) node.children.set(key, child = newNode(frame, node));
      child.value += value;
      if (child.site < 0) child.site = site;
      node = child;
    }
    node.own += value;
    if (node.site < 0) node.site = site;
  }
  return root;
}

/**
 * Boxes of a tree, as shares of the root's width: {node, left, width, depth}. Boxes narrower than `least` are left out;
 * `hidden` counts them.
 */
export function flameBoxes(root, least) {
  const boxes = [];
  let hidden = 0;
  const place = (node, left, depth) => {
    boxes.push({ node, left, width: node.value / root.value, depth });
    let at = left;
    for (const child of [...node.children.values()].sort((a, b) => b.value - a.value)) {
      const width = child.value / root.value;
      if (width < least) hidden += 1;
      else place(child, at, depth + 1);
      at += width;
    }
  };
  if (root.value > 0) place(root, 0, 0);
  return { boxes, hidden };
}

/** `outer;inner;innermost value` a line, as flame graph tools read it. */
export function foldedText(stacks, rows, name) {
  const sums = new Map();
  for (const { site, value } of rows) {
    const line = stacks.stack(site).reverse().map((frame) => name(frame).replace(/[;\n\r]/g, "_")).join(";") ||
      "no stack";
    sums.set(line, (sums.get(line) ?? 0) + value);
  }
  return [...sums].map(([line, value]) => `${line} ${value}\n`).join("");
}
