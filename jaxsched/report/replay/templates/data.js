// A recorded schedule as typed arrays, and what is asked of it: who is where, which job, when.

const BOX = 256; // pieces that are passed over together

const none = (value) => value === null || value === undefined;
const time = (value) => (none(value) ? -1 : value);

// Rows with pieces of jobs: sorted by start, in boxes that can be skipped.
function makeTracks(columns, bands, unit) {
  const order = columns.start.map((_, i) => i).sort((a, b) => columns.start[a] - columns.start[b]);
  const take = (Type, values) => Type.from(order, (i) => values[i]);
  const tracks = {
    bands, unit,
    n: order.length,
    job: take(Int32Array, columns.job),
    row: take(Float32Array, columns.row),
    rows: take(Float32Array, columns.rows),
    start: take(Float64Array, columns.start),
    end: take(Float64Array, columns.end),
    level: take(Int8Array, columns.level),
    count: bands.reduce((sum, band) => sum + band[1], 0),
  };
  tracks.boxes = boxesOf(tracks);
  tracks.ofJob = grouped(tracks.n, (i) => [tracks.job[i]]);
  tracks.ofRow = grouped(tracks.n, (i) => {
    const last = Math.ceil(tracks.row[i] + tracks.rows[i] - 1e-6), rows = [];
    for (let r = Math.floor(tracks.row[i] + 1e-6); r < last; r++) rows.push(r);
    return rows;
  });
  return tracks;
}

function boxesOf(tracks) {
  const boxes = [];
  for (let from = 0; from < tracks.n; from += BOX) {
    const box = { from, to: Math.min(from + BOX, tracks.n), end: -Infinity, top: Infinity, bottom: 0 };
    box.start = tracks.start[from];
    for (let i = box.from; i < box.to; i++) {
      box.end = Math.max(box.end, tracks.end[i]);
      box.top = Math.min(box.top, tracks.row[i]);
      box.bottom = Math.max(box.bottom, tracks.row[i] + tracks.rows[i]);
    }
    boxes.push(box);
  }
  return boxes;
}

// Indices of pieces under each of their keys, in order.
function grouped(n, keysOf) {
  const found = new Map();
  for (let i = 0; i < n; i++) {
    for (const key of keysOf(i)) {
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(i);
    }
  }
  return found;
}

// The piece that holds a place at a time, or -1.
function pieceAt(tracks, row, when) {
  let found = -1;
  for (const i of tracks.ofRow.get(Math.floor(row)) || []) {
    if (tracks.start[i] > when) break;
    if (tracks.end[i] > when && tracks.row[i] <= row && row < tracks.row[i] + tracks.rows[i]) found = i;
  }
  return found;
}

const WAITING = -1; // in place of a level

// A row for each job: how long it waits, and how long it takes from its start to its finish.
function jobTracks(schedule, end) {
  const columns = { job: [], row: [], rows: [], start: [], end: [], level: [] };
  const add = (job, start, stop, level) => {
    columns.job.push(job); columns.row.push(job); columns.rows.push(1);
    columns.start.push(start); columns.end.push(stop); columns.level.push(level);
  };
  const levels = new Map();
  for (let i = 0; i < schedule.tracks.n; i++) {
    if (!levels.has(schedule.tracks.job[i])) levels.set(schedule.tracks.job[i], schedule.tracks.level[i]);
  }
  schedule.submit.forEach((submit, job) => {
    const start = time(schedule.start[job]), finish = time(schedule.finish[job]);
    const begun = start < 0 ? end : start;
    if (begun > submit) add(job, submit, begun, WAITING);
    if (start >= 0) add(job, start, finish < 0 ? end : finish, levels.get(job) || 0);
  });
  return makeTracks(columns, [["jobs", Math.max(schedule.submit.length, 1)]], "job");
}

function prepare(raw) {
  const schedule = { ...raw, tracks: makeTracks(raw.pieces, raw.bands, raw.unit) };
  schedule.lines = raw.lines.map((line) => ({
    ...line, times: Float64Array.from(line.times), values: Float64Array.from(line.values, (v) => (none(v) ? NaN : v)),
  }));
  schedule.charts = [...new Set(raw.lines.map((line) => line.chart))].map((title) => {
    const lines = schedule.lines.filter((line) => line.chart === title);
    return { title, lines, stacked: lines.length > 1 && lines.every((line) => line.stacked), unit: lines[0].unit };
  });
  schedule.end = Math.max(
    0, ...[raw.submit, raw.finish, raw.pieces.end].map(largest), ...schedule.lines.map((line) => largest(line.times)),
  ) || 1;
  schedule.byJob = jobTracks(schedule, schedule.end);
  return schedule;
}

function largest(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

// Index of the last of sorted values that is not above one; -1 if all are.
function lastUpTo(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

const valueAt = (line, when) => {
  const i = lastUpTo(line.times, when);
  return i < 0 ? 0 : line.values[i];
};

// Words of few kinds that can colour the jobs.
const wordFacts = (schedule) => schedule.facts.filter((fact) =>
  fact.values.length && typeof fact.values[0] === "string" && new Set(fact.values).size <= 8);

// Jobs that a search finds: by number, or by any word that is known of them.
function findJobs(schedule, text) {
  const wanted = text.trim().toLowerCase().replace(/^#|^job\s+/, "");
  if (!wanted) return [];
  const jobs = schedule.submit.map((_, job) => job);
  if (/^\d+$/.test(wanted)) return jobs.filter((job) => job === Number(wanted));
  const words = schedule.facts.filter((fact) => typeof fact.values[0] === "string");
  return jobs.filter((job) =>
    (schedule.models[schedule.model[job]] || "").toLowerCase().includes(wanted) ||
    words.some((fact) => `${fact.name} ${fact.values[job]}`.toLowerCase().includes(wanted)));
}
