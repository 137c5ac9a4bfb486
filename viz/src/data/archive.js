// The recording inside the page: a JSON header and columns. They are unpacked here, or, if there are many events, in a
// worker.

import { Unpacker } from "./unpack.js";
import { parseVisible } from "./visible.js";
import { startWorker } from "./worker.js";

const MANY_EVENTS = 2e6; // with fewer events, starting a worker takes longer than it saves

export class Archive {
  /** @param {Document} document holds the elements `header` and `d0`, `d1`, ... */
  constructor(document) {
    this.document = document;
    this.header = parseVisible(document.getElementById("header").textContent);
  }

  unpacker() {
    return this.opened ??= this.unpack();
  }

  async unpack() {
    const { header } = this;
    const texts = Array.from({ length: header.scripts }, (_, i) => {
      const element = this.document.getElementById("d" + i);
      const text = element.textContent;
      element.remove(); // the text is not needed twice
      return text;
    });
    const events = header.tracks.reduce((sum, track) => sum + track.events, 0);
    this.inWorker = events >= MANY_EVENTS;
    if (this.inWorker) {
      try {
        return await startWorker(header, texts);
      } catch {
        this.inWorker = false; // a browser may refuse workers for pages opened from disk
      }
    }
    return new Unpacker(header, texts);
  }

  async group(prefix, names) {
    return (await this.unpacker()).group(prefix, names);
  }

  async track(index, sizes, end) {
    return (await this.unpacker()).track(index, sizes, end);
  }
}
