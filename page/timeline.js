// The timeline: bands of categories or owners, the lines of reserved and device, marks, and the moment that is looked at.
import { reduce } from "./curves.js";
import { byId, element, size, time, count } from "./format.js";
import { patternOf } from "./palette.js";

export const MARGIN = { left: 76, right: 14, top: 22, bottom: 24 };
const LABEL_ROOM = 40; // half a label of the axis
const PRINT = { ratio: 2, ink: "#000" }; // on paper, also if the screen is dark; `ratio`: pixels of a picture for one of CSS

// The step between labels of an axis.
export function labelStep(domain, width) {
  return d3.tickStep(...domain, placesOf(width));
}

function placesOf(width) {
  return Math.max(3, width / 150);
}

export class Timeline {
  // `onZoom`: called when another part of the axis is shown.
  constructor(place, onMoment, onZoom) {
    this.place = place;
    this.onMoment = onMoment;
    this.canvas = element("canvas", { "aria-hidden": "true" });
    place.append(this.canvas);
    this.svg = d3.select(place).append("svg").attr("aria-hidden", "true");
    this.zoom = d3.zoom().on("zoom", (e) => this.zoomed(e.transform)).on("end", onZoom);
    this.svg.call(this.zoom).on("dblclick.zoom", null).on("click", (e) => this.clicked(e));
    this.svg.on("mousemove", (e) => this.hover(e)).on("mouseleave", () => (byId("tip").hidden = true));
    new ResizeObserver(() => this.resize()).observe(place);
  }

  // `data`; `axis`: of axis.js; `bands`: Curves; `lines`: [{name, curves, dash, colour}]; `marks`: [{event, text, bad}]; `domain`: of the axis, if it is
  // wider than the axis' own; `ceiling`: the level at the top, if it is not the highest one that is drawn.
  show(shown) {
    if (this.axis && this.axis.constructor !== shown.axis.constructor) this.reset();
    Object.assign(this, shown);
    this.resize();
  }

  // The whole axis again, without drawing.
  reset() {
    this.transform = d3.zoomIdentity;
    this.svg.property("__zoom", d3.zoomIdentity);
  }

  resize() {
    this.drawAt(this.place.clientWidth, this.place.clientHeight, window.devicePixelRatio || 1, getComputedStyle(this.place).color);
  }

  // As a print shows it. On paper of another width the drawing is scaled.
  drawPrint() {
    const style = getComputedStyle(this.place);
    this.drawAt(...["--print-width", "--print-height"].map((name) => parseFloat(style.getPropertyValue(name))), PRINT.ratio, PRINT.ink);
  }

  drawAt(width, height, ratio, ink) {
    if (!this.data) return;
    Object.assign(this, { width, height, ink });
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.base = d3.scaleLinear(this.domain || this.axis.domain(), [MARGIN.left, this.width - MARGIN.right]);
    this.svg.attr("viewBox", `0 0 ${this.width} ${this.height}`).attr("preserveAspectRatio", "none");
    const most = this.axis.deepest(this.base.domain());
    const extent = [[MARGIN.left, 0], [this.width - MARGIN.right, this.height]];
    this.zoom.scaleExtent([1, most]).extent(extent).translateExtent(extent);
    this.x = (this.transform || d3.zoomIdentity).rescaleX(this.base);
    this.draw();
  }

  zoomed(transform) {
    if (!this.base) return;
    this.transform = transform;
    this.x = transform.rescaleX(this.base);
    this.draw();
    if (this.partner && String(this.partner.transform) !== String(transform)) this.partner.svg.call(this.partner.zoom.transform, transform);
  }

  // The part of the axis that is shown; null: all of it.
  shownRange() {
    return !this.transform || (this.transform.k === 1 && this.transform.x === 0) ? null : this.x.domain();
  }

  whole() {
    this.svg.call(this.zoom.transform, d3.zoomIdentity);
  }

  // Shows a range of the axis.
  range(first, last) {
    const [low, high] = [this.base(first), this.base(last)];
    const k = (this.width - MARGIN.left - MARGIN.right) / Math.max(high - low, 1e-12);
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(MARGIN.left - low * k, 0).scale(k));
  }

  scaleBy(factor) {
    const centre = this.moment === undefined || this.moment === null ? (MARGIN.left + this.width - MARGIN.right) / 2 : this.x(this.axis.position(this.moment));
    const [low, high] = this.x.range();
    this.svg.call(this.zoom.scaleBy, factor, [Math.min(high, Math.max(low, centre)), 0]);
  }

  // The changes of a curve that are drawn.
  points(curves) {
    const [low, high] = this.x.domain();
    const first = this.axis.eventAt(low);
    const last = Math.min(this.data.events - 1, this.axis.eventAt(high) + 1);
    const pixels = Math.max(1, Math.round(this.width - MARGIN.left - MARGIN.right));
    const at = (pixel) => this.axis.eventAt(low + ((high - low) * pixel) / pixels);
    return reduce(curves, first, last, pixels, at);
  }

  draw() {
    if (!this.data.events) {
      this.clear();
      return;
    }
    const began = performance.now();
    const bands = this.points(this.bands);
    const lines = this.lines.map((line) => this.points(line.curves));
    const levels = bands.map((i) => this.bands.levels(i));
    const highestBand = levels.reduce((most, l) => Math.max(most, d3.sum(l)), 0);
    const totals = this.lines.map((line, k) => lines[k].map((i) => line.curves.totalAt(i)));
    const highest = Math.max(highestBand, ...totals.map((t) => t.reduce((most, n) => Math.max(most, n), 0)));
    this.drawn = { bands: bands.length, highest, highestBand };
    this.y = d3.scaleLinear([0, (this.ceiling || highest) * 1.06 || 1], [this.height - MARGIN.bottom, MARGIN.top]);
    const c = this.context;
    c.clearRect(0, 0, this.width, this.height);
    c.save();
    c.beginPath();
    c.rect(MARGIN.left, 0, this.width - MARGIN.left - MARGIN.right, this.height);
    c.clip();
    this.drawBands(c, bands, levels);
    this.lines.forEach((line, k) => this.drawLine(c, line, lines[k], totals[k]));
    c.restore();
    this.drawAxes();
    this.drawMarks();
    this.drawn.ms = performance.now() - began;
  }

  // Nothing is drawn: what was drawn before is of another rank.
  clear() {
    this.context.clearRect(0, 0, this.width, this.height);
    this.svg.selectAll("*").remove();
    this.drawn = { bands: 0, highest: 0, highestBand: 0 };
  }

  drawBands(c, points, levels) {
    const names = this.bands.names.length;
    const xs = points.map((i) => this.x(this.axis.position(this.bands.eventOf(i))));
    const end = this.width - MARGIN.right;
    const below = new Float64Array(points.length);
    const above = new Float64Array(points.length);
    for (let k = 0; k < names; k++) {
      let any = false;
      for (let p = 0; p < points.length; p++) {
        above[p] = below[p] + levels[p][k];
        any = any || levels[p][k] > 0;
      }
      if (any) {
        c.beginPath();
        c.moveTo(xs[0], this.y(below[0]));
        for (let p = 0; p < points.length; p++) {
          c.lineTo(xs[p], this.y(above[p]));
          c.lineTo(p + 1 < points.length ? xs[p + 1] : end, this.y(above[p]));
        }
        for (let p = points.length - 1; p >= 0; p--) {
          c.lineTo(p + 1 < points.length ? xs[p + 1] : end, this.y(below[p]));
          c.lineTo(xs[p], this.y(below[p]));
        }
        c.fillStyle = patternOf(c, this.bands.colours[k]);
        c.fill();
      }
      below.set(above);
    }
  }

  drawLine(c, line, points, totals) {
    c.beginPath();
    points.forEach((i, p) => {
      const x = this.x(this.axis.position(line.curves.eventOf(i)));
      const y = this.y(totals[p]);
      if (p) c.lineTo(x, this.y(totals[p - 1]));
      c[p ? "lineTo" : "moveTo"](x, y);
    });
    if (points.length) c.lineTo(this.width - MARGIN.right, this.y(totals[totals.length - 1]));
    c.strokeStyle = line.colour || this.ink;
    c.lineWidth = line.colour ? 2.4 : 1.4;
    c.setLineDash(line.dash);
    c.stroke();
    c.setLineDash([]);
  }

  drawAxes() {
    const put = (name, axis, dx, dy) =>
      this.svg.selectAll(`g.${name}`).data([0]).join("g").attr("class", `axis ${name}`).attr("transform", `translate(${dx},${dy})`).call(axis);
    const step = labelStep(this.x.domain(), this.width);
    const across = put("x", d3.axisBottom(this.x).ticks(placesOf(this.width)).tickFormat((v) => this.axis.label(v, step)), 0, this.height - MARGIN.bottom);
    // A label at the end does not leave the drawing.
    across.selectAll("text").attr("text-anchor", (v) => (this.x(v) > this.width - LABEL_ROOM ? "end" : "middle"));
    // Round numbers of the unit: 2, 4, 6 GiB.
    const top = this.y.domain()[1];
    const unit = 2 ** (10 * Math.max(0, Math.floor(Math.log2(top) / 10)));
    const ticks = d3.ticks(0, top / unit, 6).map((v) => v * unit);
    put("y", d3.axisLeft(this.y).tickValues(ticks).tickFormat((v) => (v ? size(v) : "0")), MARGIN.left, 0);
  }

  drawMarks() {
    const [low, high] = this.x.range();
    const seen = this.marks.map((m) => ({ ...m, x: this.x(this.axis.position(m.event)) })).filter((m) => m.x >= low - 1 && m.x <= high + 1);
    // Of texts that would lie upon each other, that of the weightier mark stays, then the first one. Weighty ones have both rows.
    const taken = [[], []];
    for (const m of seen.sort((p, q) => (q.weight || 0) - (p.weight || 0) || p.x - q.x)) {
      m.textX = Math.min(m.x + 3, high - m.text.length * 6.2);
      const end = m.textX + m.text.length * 6.5 + 7;
      const row = (m.weight ? [0, 1] : [1]).find((r) => taken[r].every(([from, to]) => end <= from || to <= m.textX));
      m.shown = row !== undefined;
      m.dy = (m.shown ? row : m.weight ? 0 : 1) === 0 ? 10 : 21;
      if (m.shown) taken[row].push([m.textX, end]);
    }
    const lines = this.svg.selectAll("line.mark").data(seen.filter((m) => m.weight || m.shown));
    lines.join("line").attr("class", (m) => `mark${m.bad ? " oom" : ""}`).attr("x1", (m) => m.x).attr("x2", (m) => m.x)
      .attr("y1", (m) => m.dy + 2).attr("y2", this.height - MARGIN.bottom).attr("opacity", (m) => (m.weight ? 0.9 : 0.3));
    this.svg.selectAll("text.mark-text").data(seen.filter((m) => m.shown)).join("text").attr("class", "mark-text")
      .attr("x", (m) => m.textX).attr("y", (m) => m.dy).text((m) => m.text);
    this.drawCursor("cursor", this.moment);
    this.drawCursor("fixed", this.fixed);
  }

  drawCursor(name, event) {
    const at = event === undefined || event === null ? [] : [this.x(this.axis.position(event))].filter((x) => x >= MARGIN.left - 1 && x <= this.width);
    this.svg.selectAll(`line.${name}`).data(at).join("line").attr("class", name).attr("x1", (x) => x).attr("x2", (x) => x)
      .attr("y1", MARGIN.top).attr("y2", this.height - MARGIN.bottom);
  }

  setMoment(event, fixed) {
    this.moment = event;
    this.fixed = fixed;
    if (event === null) {
      this.drawMarks();
      return;
    }
    const x = this.x(this.axis.position(event));
    const [low, high] = this.x.range();
    if (x < low || x > high) {
      const [a, b] = this.x.domain();
      const position = this.axis.position(event);
      this.range(position - (b - a) / 2, position + (b - a) / 2);
    } else {
      this.drawMarks();
    }
  }

  pointed(e) {
    const [x] = d3.pointer(e, this.place);
    const [low, high] = this.x.range();
    return this.axis.eventAt(this.x.invert(Math.max(low, Math.min(high, x))));
  }

  clicked(e) {
    if (!e.defaultPrevented && this.data?.events) this.onMoment(this.pointed(e), e.shiftKey);
  }

  hover(e) {
    if (!this.data?.events) return;
    const event = this.pointed(e);
    const change = this.bands.changeAt(event);
    const levels = this.bands.levels(change);
    const rows = this.bands.names.map((name, i) => [name, levels[i]]).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]).slice(0, 6);
    const tip = byId("tip");
    tip.textContent = `event ${count(event)}, ${time(this.data.times[event])}\n${size(change < 0 ? 0 : this.bands.totalAt(change))} in all\n` +
      rows.map(([name, n]) => `${name} ${size(n)}`).join("\n");
    tip.style.left = `${Math.min(e.clientX + 14, window.innerWidth - 260)}px`;
    tip.style.top = `${e.clientY + 14}px`;
    tip.hidden = false;
  }
}

// The bands of all timelines that are ever more than nothing, each once: [name, colour]. `bands`: of each timeline.
export function legendOf(bands) {
  const rows = new Map();
  for (const { names, colours, used } of bands)
    names.forEach((name, i) => used[i] && rows.set(`${colours[i]} ${name}`, [name, colours[i]]));
  return [...rows.values()].sort((a, b) => a[1] - b[1]);
}

export function drawLegend(place, bands, lines) {
  place.replaceChildren();
  for (const [title, colour] of legendOf(bands)) {
    const swatch = element("canvas", { class: "swatch", width: 12, height: 12, "aria-hidden": "true" });
    const c = swatch.getContext("2d");
    c.fillStyle = patternOf(c, colour);
    c.fillRect(0, 0, 12, 12);
    place.append(element("span", { role: "listitem" }, swatch, title));
  }
  for (const { name, dash, colour } of lines)
    place.append(element("span", { role: "listitem" }, element("span", { style: colour ? `color:${colour}` : null }, dash.length ? "┄┄ " : "── "), name));
}

