// Light, dark, or as the system says.

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
    this.store.set({ dark });
  }

  toggle() {
    this.chosen = this.store.state.dark ? "light" : "dark";
    try {
      localStorage.setItem(KEY, this.chosen);
    } catch {
      // then it holds until the page is closed
    }
    this.apply();
  }
}
