"""What a page of `memtrace html` has drawn, read back from its document and from its pixels, not from the data that went in."""

import json

KINDS = "() => [...memtrace.page.current.data.kinds]"
# Each row of the stacks: bytes, blocks, category, name, module, frames innermost first. Frames are in the document once a row is opened.
ROWS = """async () => {
  document.querySelector("#view > div > button")?.click();
  const rows = [...document.querySelectorAll("#view tbody tr")];
  for (const row of rows) row.querySelector("details").open = true;
  while (rows.some((row) => !row.querySelector("ol"))) await new Promise((done) => setTimeout(done));
  return rows.map((row) => [parseInt(row.cells[0].title), Number(row.cells[1].textContent.replaceAll(",", "")), row.cells[2].textContent,
    row.querySelector("summary").textContent, row.cells[4].textContent, [...row.querySelectorAll("li")].map((e) => e.textContent)]);
}"""
# Frames of the flame graph: depth, name, left edge, width. They have their places one picture after the click.
FLAME = """async () => {
  const frames = () => [...document.querySelectorAll("#flame svg g.frame")];
  const width = (g) => Number(g.querySelector("rect").getAttribute("width"));
  while (frames().some((g) => Math.abs(width(g) - Number(g.getAttribute("width"))) > 0.01)) await new Promise((done) => setTimeout(done));
  return frames().map((g) => [...g.getAttribute("transform").match(/\\d[\\d.e-]*/g).map(Number).reverse(), g.getAttribute("name"), width(g)])
    .map(([y, x, name, w]) => [Math.round(y / 20), name, x, w]);
}"""
# Rectangles of the treemap that are drawn: depth, names from the category on, width, height.
TREEMAP = """() => {
  const chart = echarts.getInstanceByDom(document.getElementById("treemap"));
  const drawn = chart.getZr().storage.getDisplayList(true).filter((e) => e.type === "rect" && !e.invisible).map((e) => e.shape);
  const found = [];
  chart.getModel().getSeriesByIndex(0).getData().tree.root.eachNode((node) => {
    const l = node.getLayout();
    const names = node.getAncestors(true).map((n) => n.name).slice(1);
    if (l?.isInView && !l.invisible && drawn.some((s) => s.width === l.width && s.height === l.height)) found.push([node.depth, names, l.width, l.height]);
  });
  return found;
}"""
# An event as each view of it shows it: bytes and blocks that are live, rows, bytes and frames of the flame graph, bytes and rectangles of the treemap, and
# the numbers of the segments, which are still shown then.
MOMENT = """async (event) => {
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const bytesOf = (id) => Number(document.getElementById(id).dataset.bytes);
  memtrace.goTo(event);
  press("1");
  const { bytes, blocks } = document.getElementById("moment").dataset;
  const rows = await (%s)();
  press("2");
  const flame = [bytesOf("flame"), await (%s)()];
  press("3");
  const treemap = [bytesOf("treemap-root"), (%s)()];
  press("4");
  return { live: [Number(bytes), Number(blocks)], rows, flame, treemap, segments: Object.values(document.getElementById("segments-text").dataset).map(Number) };
}""" % (ROWS, FLAME, TREEMAP)
# Bars of lifetimes from the top: the label of the row, left and right edge.
LIFETIMES = """() => {
  const chart = echarts.getInstanceByDom(document.getElementById("lifetimes"));
  const shapes = chart.getZr().storage.getDisplayList(true);
  const bars = shapes.filter((e) => e.type === "rect" && e.shape.height === 10).map((e) => e.shape);
  const sizes = chart.getOption().yAxis[0].data;
  return bars.sort((a, b) => a.y - b.y).map(({ x, width }, i) => [sizes[i], x, x + width]);
}"""
# Pixels of a part of a canvas in CSS pixels, from a copy: rows of [red, green, blue, alpha].
PIXELS = """([selector, x, y, width, height]) => {
  const canvas = document.querySelector(selector), ratio = canvas.width / canvas.clientWidth;
  const c = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  c.drawImage(canvas, 0, 0);
  const part = c.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), Math.ceil((width || canvas.clientWidth) * ratio), Math.ceil((height || canvas.clientHeight) * ratio));
  return Array.from({ length: part.height }, (_, row) => Array.from({ length: part.width }, (_, i) => [...part.data.subarray(4 * (row * part.width + i), 4 * (row * part.width + i + 1))]));
}"""
# The pixels of canvases that have a colour: [red, green, blue], or with an alpha too.
COLOURED = """([selector, colour]) => [...document.querySelectorAll(selector)].reduce((sum, canvas) => {
  const c = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  c.drawImage(canvas, 0, 0);
  const { data } = c.getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < data.length; i += 4) sum += colour.every((n, k) => data[i + k] === n);
  return sum;
}, 0)"""
# Of rows with a bar: the key of each, and the part of half a cell that its bar takes; below zero to the left of the middle.
BARS = """(selector) => Object.fromEntries([...document.querySelectorAll(selector)].map((row) => {
  const cell = row.querySelector(".diff-bar").getBoundingClientRect(), bar = row.querySelector(".diff-bar span")?.getBoundingClientRect();
  const middle = cell.left + cell.width / 2;
  if (bar && Math.min(Math.abs(bar.left - middle), Math.abs(bar.right - middle)) > 1) throw new Error("a bar does not begin in the middle");
  return [row.dataset.item || row.dataset.term, !bar ? 0 : ((bar.left + bar.right) / 2 < middle ? -2 : 2) * bar.width / cell.width];
}))"""
TICKS = """([place, axis]) => [...document.querySelectorAll(`${place} svg g.axis.${axis} .tick`)].map((e) =>
  [Number(e.getAttribute("transform").match(/[\\d.]+/g)["xy".indexOf(axis)]), e.textContent])"""
MARKS = """(place) => [...document.querySelectorAll(`${place} svg line.mark`)].map((e) => [Number(e.getAttribute("x1")), e.classList.contains("oom")])"""
TEXTS = """(place) => [...document.querySelectorAll(`${place} svg text.mark-text`)].map((e) => [Number(e.getAttribute("x")), e.textContent])"""
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "µs": 1e-3, "ms": 1.0, "s": 1e3}


def read(page, function, argument=None):
    """What a function of the page returns, as one text: playwright looks at each number of a list."""
    return json.loads(page.run("async (argument) => JSON.stringify(await (%s)(argument))" % function, argument))


def column(page, selector, x):
    return [row[0] for row in read(page, PIXELS, [selector, x, 0, 1, 0])]


def number(label):
    """The value of an axis' label: bytes, milliseconds, an event or a step."""
    words = label.replace(",", "").split()
    if words[0] == "step":
        return float(words[1])
    return float(words[0]) * (UNITS[words[1]] if len(words) > 1 else 1)


class Scale:
    """An axis of the timeline, by the places of its labels."""

    def __init__(self, page, axis, place="#timeline"):
        ticks = [(at, number(text)) for at, text in read(page, TICKS, [place, axis]) if text]
        (self.at, self.value), (end, last) = ticks[0], ticks[-1]
        self.unit = (last - self.value) / (end - self.at)

    def value_at(self, pixel):
        return self.value + (pixel - self.at) * self.unit

    def pixel(self, value):
        return self.at + (value - self.value) / self.unit


def top_of_bands(column, floor):
    """The place of the highest pixel that is joined with the lower edge of the bands without a gap; `floor`: that edge."""
    y = round(floor)
    while y > 0 and column[y - 1][3] > 127:
        y -= 1
    return y


def flame_of(rows):
    """{names from the root: bytes} of the rows of the stacks"""
    found = {}
    for size, _, _, name, _, frames in rows:
        path = ["all", *reversed(frames)] + ["backward of it"] * name.startswith("backward of ")
        for depth in range(len(path)):
            key = tuple(path[:depth + 1])
            found[key] = found.get(key, 0) + size
    return found


def treemap_of(rows):
    """{(category, module or place): bytes} of the rows of the stacks"""
    found = {}
    for size, _, category, name, module, _ in rows:
        backward = name.startswith("backward of ")
        key = category, (module or name.removeprefix("backward of ")) + " (backward)" * backward
        found[key] = found.get(key, 0) + size
    return found
