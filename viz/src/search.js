// The search field, and the steps from match to match.

import { byId } from "./dom.js";
import { findBlocks, parseQuery } from "./data/search.js";
import { formatBytes, formatCounted } from "./format.js";

const PAUSE = 120; // ms between a key and the search

export class Search {
  constructor({ recording, store }, controls) {
    Object.assign(this, { recording, store, controls });
    this.field = byId("search");
    this.said = byId("search-said");
    this.field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.store.set({ query: this.field.value.trim() }), PAUSE);
    });
    this.field.addEventListener("keydown", (event) => this.key(event));
    store.subscribe((state, changed) => {
      if (changed.has("query")) this.look();
    });
  }

  show(track) {
    this.track = track;
    this.look();
  }

  key(event) {
    if (event.key === "Escape") {
      this.field.value = "";
      this.store.set({ query: "" });
      this.field.blur();
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(this.timer);
      this.store.set({ query: this.field.value.trim() });
      this.next(event.shiftKey ? -1 : 1);
    }
  }

  look() {
    const { query } = this.store.state;
    if (this.field.value.trim() !== query) this.field.value = query;
    if (!this.track) return;
    if (!query) {
      this.said.textContent = "";
      this.store.set({ found: null });
      return;
    }
    const found = findBlocks(this.track, this.recording, parseQuery(query));
    let peak = 0;
    for (const id of this.track.side.seek(this.track.peak.event).ids()) if (found.mask[id]) peak += this.track.bytesOf(id);
    this.said.title = this.said.textContent = found.blocks ? `${formatCounted(found.blocks, "block")}, ${formatBytes(found.bytes)} in all, ` +
      `${formatBytes(peak)} at the peak` : "nothing found";
    this.store.set({ found });
  }

  /** Pins the next match in order of allocation; after the last comes the first. */
  next(step) {
    const { found, pinned } = this.store.state;
    if (!found?.blocks) return;
    const { count } = this.track.blocks;
    let id = pinned >= 0 ? pinned : step > 0 ? -1 : count;
    do id = (id + step + count) % count; while (!found.mask[id]);
    this.controls.pin(id);
  }
}
