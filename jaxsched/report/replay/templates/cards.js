// What the page says in words: a job's facts, what a network saw, legends.

const element = (tag, classes, text) => {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text !== undefined) made.textContent = text;
  return made;
};

const factValue = (fact, job) => {
  const value = fact.values[job];
  if (typeof value === "string") return value;
  if (none(value)) return "–";
  if (fact.unit === "s") return clock(value);
  return fact.unit === "times" ? `${plain(value)}×` : `${plain(value)}${fact.unit ? ` ${fact.unit}` : ""}`;
};

// Names and words of all that is known of a job under one policy.
function factsOf(schedule, job) {
  const submit = schedule.submit[job], start = time(schedule.start[job]), finish = time(schedule.finish[job]);
  const facts = [["kind", schedule.models[schedule.model[job]] || "–"], ["submitted", clock(submit)]];
  facts.push(["started", clock(start)], ["waited", start < 0 ? "–" : clock(start - submit)]);
  facts.push(["finished", clock(finish)]);
  facts.push(["completion time", finish < 0 ? "–" : clock(finish - submit)]);
  if (schedule.levels.length) facts.push([schedule.level_title, levelsOf(schedule, job)]);
  if (schedule.deadline) facts.push(["deadline at", clock(schedule.deadline[job])]);
  return [...facts, ...schedule.facts.map((fact) => [fact.name, factValue(fact, job)])];
}

function levelsOf(schedule, job) {
  const pieces = schedule.tracks.ofJob.get(job) || [];
  const found = [...new Set(pieces.map((i) => schedule.tracks.level[i]))].sort();
  return found.length ? found.map((level) => schedule.levels[level]).join(", ") : "–";
}

// A table of one job under all policies.
function showJob(place, panels, job) {
  place.replaceChildren();
  if (job < 0) {
    place.append(element("p", "note", "Point at a job to see what is known of it; click to keep it, Escape to let go."));
    return;
  }
  const table = element("table"), head = table.createTHead().insertRow();
  head.append(element("th", "", `job ${job}`));
  panels.forEach((panel) => head.append(element("th", "", panel.schedule.policy)));
  const body = table.createTBody();
  const columns = panels.map((panel) => factsOf(panel.schedule, job));
  columns[0].forEach(([name], i) => {
    const row = body.insertRow();
    row.append(element("th", "", name));
    columns.forEach((facts) => row.append(element("td", "", facts[i] ? facts[i][1] : "–")));
  });
  place.append(table);
}

function tipOf(panel, found) {
  const { schedule, tracks } = panel, i = found.piece, job = tracks.job[i];
  const lines = [`job ${job} · ${schedule.models[schedule.model[job]] || ""}`];
  if (tracks.level[i] === WAITING) lines.push(`waits ${clock(tracks.start[i])} to ${clock(tracks.end[i])}`);
  else lines.push(`${clock(tracks.start[i])} to ${clock(tracks.end[i])}`);
  if (tracks.unit === "GPU") lines.push(tracks.rows[i] < 1 ? `${plain(tracks.rows[i])} of a GPU` : `${tracks.rows[i]} GPU${tracks.rows[i] > 1 ? "s" : ""} here`);
  if (tracks.unit === "task") lines.push(`${tracks.rows[i]} ${bandOf(tracks, found.row)}`);
  if (schedule.levels.length && tracks.level[i] >= 0) lines.push(`${schedule.level_title}: ${schedule.levels[tracks.level[i]]}`);
  const start = time(schedule.start[job]), finish = time(schedule.finish[job]);
  if (start >= 0) lines.push(`waited ${clock(start - schedule.submit[job])}, done after ${finish < 0 ? "–" : clock(finish - schedule.submit[job])}`);
  if (schedule.deadline) lines.push(`deadline ${clock(schedule.deadline[job])}`);
  return lines;
}

function bandOf(tracks, row) {
  let below = 0;
  for (const [name, rows] of tracks.bands) {
    below += rows;
    if (row < below) return name;
  }
  return "";
}

// The last decision up to a time: scores of the choices, and what was seen.
const MOST_CHOICES = 24;
function showDecision(place, panel, when) {
  const kept = panel.schedule.decisions;
  if (!kept) return;
  const at = lastUpTo(kept.times, when);
  if (place.dataset.at === String(at)) return;
  place.dataset.at = at;
  place.replaceChildren();
  if (at < 0) {
    place.append(element("p", "note", "No decision yet."));
    return;
  }
  const title = `${panel.schedule.policy}: decision ${at + 1} of ${kept.times.length} at ${clock(kept.times[at])}`;
  place.append(element("h3", "", title + (kept.every > 1 ? ` (1 of ${kept.every} is kept)` : "")));
  const parts = element("div", "decision");
  parts.append(choices(kept, at), inputs(kept, at));
  place.append(parts);
}

function choices(kept, at) {
  if (kept.chosen[at] < 0 && kept.choices.some((name) => name.includes("."))) {
    return tables("What it answered", kept.choices, kept.scores[at], idle(kept, at));
  }
  const scores = kept.scores[at], chosen = kept.chosen[at];
  const legal = scores.map((score, i) => [score, i]).filter(([score]) => !none(score));
  const low = Math.min(...legal.map(([score]) => score)), high = Math.max(...legal.map(([score]) => score));
  const shown = chosen < 0 ? legal : [...legal].sort((a, b) => b[0] - a[0]);
  const table = element("table", "scores");
  table.createCaption().textContent = chosen < 0 ? "What it answered" : "How it scored the choices, the best first";
  const body = table.createTBody();
  for (const [score, i] of shown.slice(0, MOST_CHOICES)) {
    const row = body.insertRow();
    if (i === chosen) row.className = "chosen";
    row.append(element("th", "", i === chosen ? `${kept.choices[i]} (chosen)` : kept.choices[i]));
    const cell = element("td", "bar"), bar = element("span");
    bar.style.width = `${high > low ? 4 + 96 * (score - low) / (high - low) : 100}%`;
    cell.append(bar);
    row.append(cell, element("td", "n", plain(score)));
  }
  const left = scores.length - legal.length, more = shown.length - MOST_CHOICES;
  const note = [left ? `${left} not legal` : "", more > 0 ? `${more} more` : ""].filter(Boolean).join(", ");
  if (note) body.insertRow().append(element("th", "note", note));
  return table;
}

const inputs = (kept, at) => tables("What it saw", kept.inputs, kept.seen[at], new Set());

const thingOf = (name) => (name.includes(".") ? name.slice(0, name.indexOf(".")) : "");

// Things of which nothing but zeros was seen, such as empty places of a window.
function idle(kept, at) {
  const all = new Set(kept.inputs.map(thingOf)), busy = new Set();
  kept.inputs.forEach((name, i) => { if (kept.seen[at][i]) busy.add(thingOf(name)); });
  return new Set([...all].filter((thing) => !busy.has(thing)));
}

// Numbers by name, entries of one thing (the part of the name before the first dot) in a row.
function tables(caption, list, values, skipped) {
  const things = new Map(), kinds = new Set();
  list.forEach((name, i) => {
    const thing = thingOf(name), entry = thing ? name.slice(thing.length + 1) : name;
    if (skipped.has(thing)) return;
    if (!things.has(thing)) things.set(thing, new Map());
    things.get(thing).set(entry, values[i]);
    kinds.add(thing.replace(/\d+/g, "*"));
  });
  const box = element("div", "inputs");
  for (const kind of kinds) {
    const rows = [...things].filter(([thing]) => thing.replace(/\d+/g, "*") === kind);
    const names = [...new Set(rows.flatMap(([, entries]) => [...entries.keys()]))];
    const scroller = element("div", "scroll");
    scroller.append(rows.length === 1 && names.length > 8
      ? column(`${caption}${kind ? `: ${rows[0][0]}` : ""}`, rows[0][1]) : grid(caption, names, rows));
    box.append(scroller);
  }
  return box;
}

function column(caption, entries) {
  const table = element("table");
  table.createCaption().textContent = caption;
  for (const [name, value] of entries) {
    const row = table.insertRow();
    row.append(element("th", "", name), element("td", value ? "n" : "n zero", plain(value)));
  }
  return table;
}

function grid(caption, names, rows) {
  const table = element("table"), head = table.createTHead().insertRow();
  head.append(element("th", "", caption), ...names.map((name) => element("th", "n", name)));
  const body = table.createTBody();
  for (const [thing, entries] of rows) {
    const row = body.insertRow();
    row.append(element("th", "", thing || "value"));
    for (const name of names) {
      const value = entries.get(name);
      row.append(element("td", value ? "n" : "n zero", value === undefined ? "" : plain(value)));
    }
  }
  return table;
}

// What the colours stand for.
function showLegend(place, page) {
  const schedule = page.panels[0].schedule, theme = page.theme, entries = [];
  const by = page.colourBy;
  if (by === "level") schedule.levels.forEach((name, i) => entries.push([theme.levels[Math.min(i, theme.levels.length - 1)], name]));
  else if (by === "model") {
    const used = new Set(page.panels.flatMap((panel) => panel.schedule.model));
    schedule.models.forEach((name, i) => used.has(i) && entries.push([theme.models[i % theme.models.length], name]));
  } else if (by !== "job") page.words(schedule).forEach((name, i) => entries.push([theme.models[i % theme.models.length], name]));
  const items = entries.map(([hex, name]) => legendItem(hex, name, "square"));
  if (by === "job") items.push(element("li", "", "each job its colour"));
  if (page.rowsOf === "jobs") items.push(legendItem(theme.waiting, "waits", "square"));
  if (by !== "level" && schedule.levels.length > 1) {
    items.push(element("li", "apart", `stripe below: ${schedule.level_title}`));
    schedule.levels.forEach((name, i) => i && items.push(legendItem(theme.levels[Math.min(i, theme.levels.length - 1)], name, "stripe")));
  }
  if (page.rowsOf !== "jobs") schedule.marks.forEach((marks) => items.push(element("li", "apart", `◆ ${marks.name}`)));
  else if (schedule.deadline) items.push(element("li", "apart", "| deadline"));
  place.replaceChildren(...items);
}

function legendItem(hex, name, shape) {
  const item = element("li"), key = element("i", shape);
  key.style.background = hex;
  item.append(key, name);
  return item;
}
