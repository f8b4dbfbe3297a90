// Colours that people with any colour vision tell apart (near Okabe and Ito's, and Paul Tol's muted ones; tests/page/test_palette.mjs computes by how
// much), and a pattern for each second band.

const COLOURS = ["#0072b2", "#56b4e9", "#e69f00", "#009e73", "#d55e00", "#67b6a0", "#ae6087", "#9ea03d", "#f7f03a", "#922f5f", "#a0b1c4",
  "#5a41b4", "#9bdaff", "#dbca74", "#bb6be2"];

export const PLAIN = 10; // the grey one: of no category

export function colourOf(i) {
  return COLOURS[i % COLOURS.length];
}

// Black or white, whichever is read better on the colour: by relative luminance, as WCAG 2 has it.
export function inkOn(i) {
  const light = [1, 3, 5].map((at) => parseInt(colourOf(i).slice(at, at + 2), 16) / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.179 ? "#000" : "#fff";
}

// Hatching of odd numbers: of two beside each other it leans to different sides. Null: none.
function hatchingOf(i) {
  return i % 2 === 0 ? null : { colour: "rgba(255,255,255,.45)", width: 1.4, period: 8, fallsToTheRight: i % 4 === 1 };
}

const tiles = new Map();

// A tile of the number's colour and hatching.
export function tileOf(i) {
  if (tiles.has(i)) return tiles.get(i);
  const { colour, width, period, fallsToTheRight } = hatchingOf(i);
  const tile = document.createElement("canvas");
  tile.width = tile.height = period;
  const c = tile.getContext("2d");
  c.fillStyle = colourOf(i);
  c.fillRect(0, 0, period, period);
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  for (const x of [-period / 2, 0, period / 2, period]) {
    c.moveTo(fallsToTheRight ? x : x + period, 0);
    c.lineTo(fallsToTheRight ? x + period : x, period);
  }
  c.stroke();
  tiles.set(i, tile);
  return tile;
}

// What fills the bands of a number: its colour, hatched if it is odd.
export function patternOf(context, i) {
  return i % 2 === 0 ? colourOf(i) : context.createPattern(tileOf(i), "repeat");
}

// The same for a fill of ECharts, and for a hatching that it draws upon a colour.
export function fillOf(i) {
  return i % 2 === 0 ? colourOf(i) : { image: tileOf(i), repeat: "repeat" };
}

export function decalOf(i) {
  const hatching = hatchingOf(i);
  if (!hatching) return null;
  const { colour, width, period, fallsToTheRight } = hatching;
  const apart = (3 * period) / 2 / Math.SQRT2; // wider than in a band, which has no text upon it
  return { color: colour, dashArrayX: [1, 0], dashArrayY: [width, apart - width], rotation: ((fallsToTheRight ? 1 : -1) * Math.PI) / 4 };
}
