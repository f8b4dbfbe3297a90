// The keyboard in a flame graph and in a treemap: where a key leads to.
import test from "node:test";
import assert from "node:assert";
import { load } from "./modules.mjs";

const { nextNode, drawnNode } = await load("tree_focus.js");

// all: (a: (b, c), d, e); `hidden` are too small to be drawn.
function treeOf(hidden = []) {
  const node = (name, ...children) => {
    const made = { name, children, parent: null };
    for (const child of children) child.parent = made;
    return made;
  };
  const all = node("all", node("a", node("b"), node("c")), node("d"), node("e"));
  const find = (name, at = all) => (at.name === name ? at : at.children.map((c) => find(name, c)).find(Boolean));
  const picture = { root: () => all, parent: (n) => n.parent, children: (n) => n.children.filter((c) => !hidden.includes(c.name)) };
  return { picture, find };
}

test("arrows lead out of a node, into its first one and to those beside it, and nowhere at an edge", () => {
  const { picture, find } = treeOf();
  const leads = (name) => ["Up", "Down", "Left", "Right"].map((key) => nextNode(picture, find(name), `Arrow${key}`)?.name);
  assert.deepEqual(leads("all"), [undefined, "a", undefined, undefined]);
  assert.deepEqual(leads("a"), ["all", "b", undefined, "d"]);
  assert.deepEqual(leads("d"), ["all", undefined, "a", "e"]);
  assert.deepEqual(leads("c"), ["a", undefined, "b", undefined]);
});

test("what is not drawn has no focus: the node around it has", () => {
  const { picture, find } = treeOf(["b", "d"]);
  assert.equal(nextNode(picture, find("a"), "ArrowDown").name, "c");
  assert.equal(nextNode(picture, find("a"), "ArrowRight").name, "e");
  assert.deepEqual(["all", "b", "c", "d"].map((name) => drawnNode(picture, find(name)).name), ["all", "a", "c", "all"]);
  const inner = treeOf();
  const enlarged = { ...inner.picture, root: () => inner.find("a") };
  assert.deepEqual(["all", "b", "d"].map((name) => drawnNode(enlarged, inner.find(name)).name), ["a", "b", "a"]);
});
