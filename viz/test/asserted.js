// node's assert and test for the tests here: one that passes without having asserted anything fails.

import plain from "node:assert/strict";
import run from "node:test";

let asserted = 0;

export const assert = new Proxy(plain, {
  get: (from, name) => (...given) => {
    asserted++;
    return from[name](...given);
  },
  apply: (from, _, given) => {
    asserted++;
    return from(...given);
  },
});

/** One after the other in a file, as node runs them. */
export function test(name, body) {
  return run(name, async (context) => {
    const before = asserted;
    await body(context);
    if (asserted === before) throw new Error("this test has asserted nothing");
  });
}
