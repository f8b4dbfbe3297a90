// Estimate, simulation and observation of a rank side by side, term by term: what `memtrace match` found.
import { element, headRow, size, change } from "./format.js";

const MATCH_ROWS = 12; // of unexplained stacks

function rowsOf(columns, find) {
  return columns.map(({ match, which }) => {
    const found = match && find(match);
    return found ? found[which] : null;
  });
}

// The bar of a gap: what was observed beyond the estimate is to the right.
function gapCells(values, most) {
  const estimated = values[0] || 0;
  const gap = (values[values.length - 1] || 0) - estimated;
  const part = most ? (50 * Math.abs(gap)) / most : 0;
  const inner = gap ? element("span", { class: gap < 0 ? "less" : "more", style: `width:${Math.min(50, part).toFixed(2)}%` }) : null;
  return [element("td", { class: "n" }, gap ? change(gap) : "="), element("td", { class: "diff-bar", "aria-hidden": "true" }, inner)];
}

function line(kind, key, title, values, most) {
  return element("tr", { class: kind, "data-term": key, "data-values": values.map((v) => v ?? "").join(" ") }, element("th", { scope: "row" }, title),
    ...values.map((v) => element("td", { class: "n" }, v === null ? "–" : size(v))), ...gapCells(values, most));
}

function unexplainedTable(match) {
  const rows = match.unexplained.slice(0, MATCH_ROWS).map((u) => element("tr", {}, element("td", { class: "n" }, size(u.bytes)),
    element("td", { class: "n" }, String(u.blocks)), element("td", {}, u.category), element("td", {}, u.stack.split(";").pop())));
  const missing = match.missing.slice(0, MATCH_ROWS).map((m) => element("tr", {}, element("td", { class: "n" }, size(m.bytes)),
    element("td", { class: "n" }, String(m.blocks)), element("td", { colspan: 2 }, `${m.id}, blocks of ${size(m.block_bytes)}`)));
  const table = (title, body) => body.length > 0 && element("table", {}, element("caption", {}, title), element("tbody", {}, ...body));
  return [table(`Observed, and of no term: the largest of ${match.unexplained.length}`, rows),
    table(`Estimated, and not observed: the largest of ${match.missing.length}`, missing)].filter(Boolean);
}

// Single values of the configuration that would explain the gap, the best first.
function causesTable(match) {
  if (!match.causes.length) return [];
  const rows = match.causes.map((c) => element("tr", { "data-cause": c.key, "data-values": `${c.gap_bytes} ${c.off_bytes}` }, element("th", { scope: "row" }, c.key),
    element("td", {}, c.declared ?? "nowhere"), element("td", {}, c.value ?? "not set"), element("td", {}, c.meaning),
    element("td", { class: "n" }, size(c.gap_bytes)), element("td", { class: "n" }, size(c.off_bytes))));
  const caption = element("caption", {}, `What would explain the gap of ${size(match.gap_bytes)}, each value by itself`);
  return [element("table", { id: "match-causes" }, caption, headRow("value", "declared", "would be", "meaning", ["gap then", "n"], ["missed by then", "n"]),
    element("tbody", {}, ...rows))];
}

// `matches`: of the traces; `simulated`: of the same job on the simulated device, or null. Both as `match --json`.
export function showMatch(place, rank, matches, simulated, titles) {
  // A process without a rank is rank 0 of the report.
  const ofRank = (list) => (list?.ranks || []).filter((m) => (m.rank ?? 0) === rank.rank);
  const of = (list) => ofRank(list).find((m) => m.device === rank.device) || ofRank(list)[0];
  const match = of(matches);
  place.replaceChildren();
  if (!match) {
    place.append(element("p", {}, "There is no estimate for this rank."));
    return;
  }
  const other = of(simulated);
  const columns = [{ title: "estimate", match, which: "estimated_bytes" }];
  if (other) columns.push({ title: "simulation", match: other, which: "observed_bytes" });
  columns.push({ title: !match.simulated ? "observation" : other ? "this run, simulated too" : "simulation", match, which: "observed_bytes" });
  const ofWhat = match.simulated && !other ? "the simulation" : match.simulated ? "this run, which is simulated too" : "this run";
  const share = `${Math.abs(100 * match.error).toFixed(1)} % ${match.error < 0 ? "below" : "above"}`;
  place.append(element("p", { id: "match-text" },
    `The estimate (${match.system}) is ${match.error ? share : "equal to"} the peak of ${ofWhat}: ${size(match.estimated_bytes)} and ${size(match.observed_bytes)}. ` +
    `${match.verdict === "match" ? "It matches" : "It does not match"} within ${(100 * matches.tolerance).toFixed(0)} %.` +
    `${matches.inferred ? " The configuration is inferred from the trace." : ""}`));
  const head = headRow("term", ...columns.map((c) => [c.title, "n"]), ["gap", "n"], [`less │ more ${match.simulated ? "simulated" : "observed"}`, "middle"]);
  const most = Math.max(1, ...match.components.map((c) => Math.abs(c.observed_bytes - c.estimated_bytes)), ...match.terms.map((t) => Math.abs(t.observed_bytes - t.estimated_bytes)));
  const body = element("tbody", {}, line("total", "total", "all", rowsOf(columns, (m) => m), most));
  for (const component of match.components) {
    const title = titles.categories[titles.categoryKeys.indexOf(component.component)] || component.component;
    body.append(line("component", component.component, title, rowsOf(columns, (m) => m.components.find((c) => c.component === component.component)), most));
    for (const term of match.terms.filter((t) => t.component === component.component))
      body.append(line("term", `term.${term.id}`, term.id, rowsOf(columns, (m) => m.terms.find((t) => t.id === term.id)), most));
  }
  place.append(...causesTable(match), element("table", { class: "diff match" }, head, body), ...unexplainedTable(match));
}
