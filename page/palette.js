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

// A tile of the band's colour; bands of odd number are hatched.
export function patternOf(context, i) {
  const colour = colourOf(i);
  if (i % 2 === 0) return colour;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const c = tile.getContext("2d");
  c.fillStyle = colour;
  c.fillRect(0, 0, 8, 8);
  c.strokeStyle = "rgba(255,255,255,.45)";
  c.lineWidth = 1.4;
  c.beginPath();
  for (const x of [-4, 0, 4, 8]) {
    const lean = i % 4 === 1 ? 8 : -8;
    c.moveTo(x + (lean < 0 ? 8 : 0), 0);
    c.lineTo(x + (lean < 0 ? 8 : 0) + lean, 8);
  }
  c.stroke();
  return context.createPattern(tile, "repeat");
}
