// The keyboard in a picture of a tree: of the frames of a flame graph or the modules of a treemap one has the focus, arrows lead to others.
import { byId, element } from "./format.js";

const TIP_ROOM = 60; // pixels of a tip at the lower edge of the window

// A picture has `root()`, the node that takes all of its room; `enlarged()`, the one that is enlarged; `parent(node)`, null of the first node of all;
// `children(node)`, those that are drawn; `box(node)`, its place in pixels; `title(node)`; `enlarge(node)`.

// The node that an arrow key leads to; null: none. Up and down are out of a node and into it, left and right to those beside it.
export function nextNode(picture, node, key) {
  if (key === "ArrowDown") return picture.children(node)[0] ?? null;
  if (node === picture.root()) return null;
  const parent = picture.parent(node);
  if (key === "ArrowUp") return parent;
  const beside = picture.children(parent);
  return beside[beside.indexOf(node) + (key === "ArrowLeft" ? -1 : 1)] ?? null;
}

// The node itself if it is drawn, else the nearest one around it that is.
export function drawnNode(picture, node) {
  let drawn = picture.root();
  const path = [];
  for (let n = node; n && n !== drawn; n = picture.parent(n)) path.unshift(n);
  for (const n of path) {
    if (picture.parent(n) !== drawn || !picture.children(drawn).includes(n)) break;
    drawn = n;
  }
  return drawn;
}

// The node with the focus is an element upon its place in the picture, and the only one: what reads the page aloud knows the others by their number.
export class TreeFocus {
  constructor(place, picture) {
    this.place = place;
    this.picture = picture;
    place.addEventListener("keydown", (e) => this.onKey(e));
    this.show(picture.root());
  }

  // The node that has the focus, or that would have it. A new element is read aloud once it has the focus.
  show(node, hasFocus = this.place.contains(document.activeElement)) {
    const { picture } = this;
    const before = this.item;
    this.node = drawnNode(picture, node);
    const beside = this.node === picture.root() ? [this.node] : picture.children(picture.parent(this.node));
    let level = 1;
    for (let n = picture.parent(this.node); n; n = picture.parent(n)) level++;
    const { x, y, width, height } = picture.box(this.node);
    this.item = element("div", { class: "tree-focus", role: "treeitem", tabindex: 0, "aria-label": picture.title(this.node), "aria-level": level,
      "aria-posinset": 1 + beside.indexOf(this.node), "aria-setsize": beside.length, "aria-selected": "true",
      style: `left:${x}px;top:${y}px;width:${width}px;height:${height}px`, onfocus: () => this.showTip(), onblur: () => (byId("tip").hidden = true) });
    this.place.append(this.item);
    if (hasFocus) this.item.focus();
    before?.remove();
    if (hasFocus) this.showTip();
  }

  // The mouse has enlarged a node.
  follow(node) {
    if (!this.isActing) this.show(node);
  }

  // A narrow frame has no text of its own.
  showTip() {
    const tip = byId("tip");
    const { left, bottom } = this.item.getBoundingClientRect();
    tip.textContent = this.picture.title(this.node);
    tip.style.left = `${Math.max(0, Math.min(left, window.innerWidth - 260))}px`;
    tip.style.top = `${Math.min(bottom + 4, window.innerHeight - TIP_ROOM)}px`;
    tip.hidden = false;
  }

  onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    this.isActing = true;
    const isOurs = this.act(e.key);
    this.isActing = false;
    if (!isOurs) return;
    e.preventDefault();
    e.stopPropagation();
  }

  // Is it a key of the picture?
  act(key) {
    const { picture } = this;
    if (key.startsWith("Arrow")) {
      const next = nextNode(picture, this.node, key);
      if (next) this.show(next);
    } else if (key === "Enter") {
      picture.enlarge(this.node);
      this.show(this.node);
    } else if (key === "Escape" || key === "Backspace") {
      const enlarged = picture.enlarged();
      const back = picture.parent(enlarged);
      if (back) picture.enlarge(back);
      this.show(back ? enlarged : this.node);
    } else {
      return false;
    }
    return true;
  }
}
