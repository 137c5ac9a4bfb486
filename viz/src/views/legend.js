// Meaning of the colours.

import { byId, element, option } from "../dom.js";
import { COLOURS } from "../draw/colour_by.js";
import { css } from "../draw/palette.js";

const MOST = 12; // names

export class Legend {
  constructor({ recording, store }, timeline) {
    Object.assign(this, { store, timeline, box: byId("legend") });
    const select = byId("colour");
    byId("hatched").hidden = !recording.header.tensors;
    select.replaceChildren(...Object.entries(COLOURS).filter(([, { fits }]) => !fits || fits(recording))
      .map(([value, { name }]) => option(value, "colour: " + name)));
    select.addEventListener("change", () => store.set({ colour: select.value }));
    store.subscribe((state, changed) => {
      if (changed.has("frame")) this.draw();
    });
  }

  draw() {
    const { colour } = this.store.state;
    const { classes } = this.timeline;
    byId("colour").value = colour;
    if (this.of === classes) return;
    this.of = classes;
    this.box.replaceChildren();
    if (!classes?.names) {
      this.box.append(element("span", {}, "a colour: one call stack"));
      return;
    }
    const order = classes.order ?? [...classes.names.keys()];
    const used = order.map((i) => [classes.names[i], classes.colours[i]]);
    for (const [name, rgb] of used.slice(0, MOST)) {
      const swatch = element("span", { class: "swatch" });
      swatch.style.background = css(rgb);
      this.box.append(element("span", { class: "entry" }, swatch, name));
    }
    if (used.length > MOST) this.box.append(element("span", {}, `and ${used.length - MOST} more`));
  }
}
