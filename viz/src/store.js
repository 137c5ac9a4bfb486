// The page's state: one object that views read and change. Views subscribe to changes.

export class Store {
  constructor(state) {
    this.state = state;
    this.listeners = [];
  }

  /** @param {function(object, Set<string>): void} listener gets the state and the names of what changed */
  subscribe(listener) {
    this.listeners.push(listener);
  }

  set(patch) {
    const changed = new Set(Object.keys(patch).filter((key) => this.state[key] !== patch[key]));
    if (!changed.size) return;
    Object.assign(this.state, patch);
    for (const listener of this.listeners) listener(this.state, changed);
  }
}
