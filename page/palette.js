// Colours that people with any colour vision tell apart (Okabe and Ito, and Paul Tol's muted ones), and a pattern for each second band.

const COLOURS = ["#0072b2", "#56b4e9", "#e69f00", "#009e73", "#d55e00", "#44aa99", "#cc79a7", "#999933", "#f0e442", "#882255", "#8a8f98",
  "#332288", "#88ccee", "#ddcc77", "#aa4499"];

export const PLAIN = 10; // the grey one: of no category

export function colourOf(i) {
  return COLOURS[i % COLOURS.length];
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
