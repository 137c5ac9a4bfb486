// node's assert and test for these tests. A test that passes without any assertion fails.

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

/** Tests of a file run one after the other, as in node. */
export function test(name, body) {
  return run(name, async (context) => {
    const before = asserted;
    await body(context);
    if (asserted === before) throw new Error("this test has asserted nothing");
  });
}
