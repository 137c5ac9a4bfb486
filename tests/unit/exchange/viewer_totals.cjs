/* What PyTorch's own viewer makes of snapshots: node viewer_totals.cjs FOLDER SNAPSHOT...
 * FOLDER has its scripts (torch/utils/viz of PyTorch). A line of JSON for each snapshot: what the height of each plot is
 * at every moment, as the scripts compute it, or what they threw. */
"use strict";
const crypto = require("crypto"), fs = require("fs"), path = require("path"), vm = require("vm");
const folder = process.argv[2];

/* The scripts are modules that draw with d3, from the net: only what reads and sums is asked, so that is left out. */
function source(name) {
  const file = path.join(folder, name);
  if (!fs.existsSync(file)) return "";
  return fs.readFileSync(file, "utf8").replace(/^'use strict';/, "").replace(/^import[^;]*;/gm, "")
    .replace(/^export \{[^}]*\};?/gm, "").replace(/^export /gm, "") + ";\n";
}

const anything = new Proxy(function () {}, {
  get: (_, name) => name === Symbol.toPrimitive ? () => "" : anything, apply: () => anything, set: () => true});
const context = vm.createContext({console: {log() {}, error() {}}, TextDecoder, performance, d3: anything,
                                  window: anything, document: anything});
vm.runInContext(source("process_alloc_data.js") + source("MemoryViz.js") + `
  this.read = unpickle_and_annotate;
  this.sum = (snapshot, device, segments, pools) => process_alloc_data(snapshot, device, segments, 15000, pools);`, context);

for (const file of process.argv.slice(3)) {
  const data = fs.readFileSync(file);
  const line = {file: path.basename(file), plots: []};
  try {
    const snapshot = context.read(data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength));
    for (let device = 0; device < snapshot.device_traces.length; device++)
      for (const [segments, pools] of [[false, false], [true, false], [false, true]]) {
        context.elements = []; /* one copy of the viewer keeps them outside */
        const plot = context.sum(snapshot, device, segments, pools);
        line.plots.push({device, segments, pools, max: plot.max_size, elements: plot.elements_length,
                         moments: plot.max_at_time.length, hash: crypto.createHash("sha256").update(plot.max_at_time.join()).digest("hex").slice(0, 16)});
      }
  } catch (error) {
    line.error = String(error && error.stack || error).split("\n").slice(0, 2).join(" ");
  }
  console.log(JSON.stringify(line));
}
