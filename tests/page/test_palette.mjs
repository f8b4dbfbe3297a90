// The colours of the page as people with other vision see them.
import test from "node:test";
import assert from "node:assert";
import { readFileSync } from "node:fs";
import { load } from "./modules.mjs";

const { colourOf, inkOn } = await load("palette.js");
const { FOUND_COLOUR } = await load("search.js");

// Colours as people without one kind of cone see them: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
// Deficiency", IEEE TVCG 15(6), 2009, the matrices of severity 1.0, over linear RGB. Distances are of CIELAB (D65), where 2.3 is just noticed.
const VISIONS = {
  normal: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
};
const XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]];
const times = (matrix, v) => matrix.map((row) => row.reduce((sum, n, i) => sum + n * v[i], 0));

function seen(colour, vision) {
  const linear = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const xyz = times(XYZ, times(vision, linear).map((c) => Math.max(0, Math.min(1, c))));
  const [x, y, z] = xyz.map((n, i) => n / [0.95047, 1, 1.08883][i]).map((n) => (n > 216 / 24389 ? Math.cbrt(n) : ((24389 / 27) * n + 16) / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test("colours are told apart by people without red or green cones; those with the same pattern better", () => {
  const rows = (table, name) => readFileSync(new URL(`../../analyzer/attribution/${table}`, import.meta.url), "utf8").match(new RegExp(`^${name}\\(`, "gm")).length;
  const categories = rows("category.def", "CATEGORY");
  const count = Math.max(categories, rows("owner.def", "OWNER"));
  for (const [name, vision] of Object.entries(VISIONS)) {
    const colours = Array.from({ length: count }, (_, i) => seen(colourOf(i), vision));
    for (let i = 0; i < count; i++)
      for (let j = 0; j < i; j++) {
        const isAlike = (i % 2 === 0 && j % 2 === 0) || i % 4 === j % 4;
        const distance = Math.hypot(...colours[i].map((n, k) => n - colours[j][k]));
        assert.ok(distance >= (isAlike ? 15 : 10), `${name}: colours ${j} and ${i} are ${distance.toFixed(1)} apart`);
      }
  }
});

function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

test("what a search found is told apart from every other colour, and can be read on white and under black", () => {
  for (const [name, vision] of Object.entries(VISIONS))
    for (let i = 0; i < 15; i++) {
      const other = seen(colourOf(i), vision);
      const distance = Math.hypot(...seen(FOUND_COLOUR, vision).map((n, k) => n - other[k]));
      assert.ok(distance >= 15, `${name}: ${distance.toFixed(1)} from colour ${i}`);
    }
  const light = luminance(FOUND_COLOUR);
  assert.ok((light + 0.05) / 0.05 >= 4.5 && 1.05 / (light + 0.05) >= 4.5, FOUND_COLOUR);
});

test("a text on each colour has WCAG's contrast of 4.5", () => {
  for (let i = 0; i < 15; i++) {
    const [dark, light] = [luminance(colourOf(i)), inkOn(i) === "#fff" ? 1 : 0].sort((a, b) => a - b);
    assert.ok((light + 0.05) / (dark + 0.05) >= 4.5, colourOf(i));
  }
});
