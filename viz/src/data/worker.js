// A worker that unpacks large recordings, so that the page stays responsive. It runs the page's own script.

import { Unpacker } from "./unpack.js";

/** All buffers in an answer, which are transferred instead of copied. */
function buffersIn(value, found = new Set()) {
  if (ArrayBuffer.isView(value)) found.add(value.buffer);
  else if (value && typeof value === "object") for (const one of Object.values(value)) buffersIn(one, found);
  return found;
}

/** In the worker: answers {id, call, values} with {id, answer} or {id, error, short}. */
export function serve() {
  let unpacker;
  self.onmessage = async ({ data: { id, call, values } }) => {
    try {
      if (call === "open") unpacker = new Unpacker(...values);
      const answer = call === "open" ? null : await unpacker[call](...values);
      self.postMessage({ id, answer }, [...buffersIn(answer)]);
    } catch (error) {
      self.postMessage({ id, error: error.message, short: error instanceof RangeError });
    }
  };
}

/** In the page: a promise of an Unpacker in a worker, with the same methods; rejected if the browser makes none. */
export async function startWorker(header, texts) {
  const { textContent } = document.querySelector("script:not([id])");
  const url = URL.createObjectURL(new Blob([textContent], { type: "text/javascript" }));
  const waiting = new Map();
  let next = 0;
  const worker = new Worker(url);
  const ask = (call, ...values) => new Promise((resolve, reject) => {
    waiting.set(next, { resolve, reject });
    worker.postMessage({ id: next++, call, values });
  });
  worker.onmessage = ({ data: { id, answer, error, short } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) resolve(answer);
    else reject(short ? new RangeError(error) : new Error(error));
  };
  worker.onerror = (event) => {
    event.preventDefault();
    for (const { reject } of waiting.values()) reject(new Error(event.message || "the browser starts no worker"));
    waiting.clear();
  };
  await ask("open", header, texts);
  URL.revokeObjectURL(url);
  return { group: (...values) => ask("group", ...values), track: (...values) => ask("track", ...values) };
}
