// Light, dark, or as the system says.

import { byId } from "./dom.js";

const KEY = "memprof-theme";

function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser may refuse storage to pages opened from disk
  }
}

export class Theme {
  constructor(store) {
    this.store = store;
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.chosen = remembered();
    this.system.addEventListener("change", () => this.apply());
    this.apply();
  }

  apply() {
    const dark = this.chosen ? this.chosen === "dark" : this.system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const words = this.chosen ? `${this.chosen}; a click changes it` : "as the system; a click changes it";
    byId("theme").title = `Light or dark: ${words}`;
    byId("theme").setAttribute("aria-label", `Light or dark: ${words}`);
    this.store.set({ dark });
  }

  /** Goes on to the next theme: system, the opposite, the system's present one fixed, and system again. */
  toggle() {
    const system = this.system.matches ? "dark" : "light";
    const other = system === "dark" ? "light" : "dark";
    this.chosen = this.chosen === null ? other : this.chosen === other ? system : null;
    try {
      if (this.chosen) localStorage.setItem(KEY, this.chosen);
      else localStorage.removeItem(KEY);
    } catch {
      // the choice is lost when the page is closed
    }
    this.apply();
  }
}
