// The page: what is in view, and what pointer, wheel, keys and search do to it.

const LEAST_PX = 2; // of a piece on average, below which a picture of all of them is noise
const SEEN_PX = 24; // of a piece in the window that is shown in its place
const FEW = 4; // colours of a first view of many jobs

class Page {
  constructor(schedules, colours) {
    this.colours = colours;
    this.panels = schedules.map((raw, i) => new Panel(prepare(raw), this, document.getElementById(`panel${i}`)));
    this.shareScales();
    this.end = Math.max(...this.panels.map((panel) => panel.schedule.end)) * 1.01;
    this.t0 = 0; this.t1 = this.end;
    this.cursor = -Infinity; // nowhere yet
    this.pinned = -1; this.hovered = -1;
    this.rowsOf = "places";
    this.colourBy = this.panels[0].schedule.levels.length > 2 ? "level" : "job";
    this.found = []; this.at = -1;
    this.frames = [];
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.printing = false;
    this.least = Math.max(this.end / 2e5, 1e-3);
  }

  // Charts of the same quantity have the same scale under all policies.
  shareScales() {
    const tops = new Map();
    for (const chart of this.panels.flatMap((panel) => panel.charts)) {
      tops.set(chart.title, Math.max(tops.get(chart.title) || 0, chartTop(chart)));
    }
    this.panels.forEach((panel) => panel.charts.forEach((chart) => { chart.top = tops.get(chart.title); }));
  }

  get theme() { return this.dark.matches && !this.printing ? this.colours.dark : this.colours.light; }
  get focus() { return this.hovered >= 0 ? this.hovered : this.pinned; }

  words(schedule) {
    const fact = schedule.facts.find((one) => one.name === this.colourBy);
    return fact ? [...new Set(fact.values)].sort() : [];
  }

  wordOf(schedule, job) {
    const fact = schedule.facts.find((one) => one.name === this.colourBy);
    if (!fact) return 0;
    if (this.known !== fact) { this.known = fact; this.places = new Map(this.words(schedule).map((word, i) => [word, i])); }
    return this.places.get(fact.values[job]);
  }

  start() {
    this.fillChoices();
    this.panels.forEach((panel) => this.listen(panel));
    document.addEventListener("keydown", (event) => this.key(event));
    const resized = () => { this.layout(); this.redraw(); };
    addEventListener("resize", resized);
    this.dark.addEventListener("change", () => this.redraw());
    addEventListener("beforeprint", () => { this.printing = true; resized(); });
    addEventListener("afterprint", () => { this.printing = false; resized(); });
    this.listenControls();
    this.listenOverview();
    this.layout();
    this.beginWithJobs();
    this.redraw();
  }

  get crowded() { return Math.min(...this.panels.map((panel) => panel.room)) < LEAST_PX; }

  // Where pieces on the cluster cannot be told apart, the first view has a row for each job, in few colours.
  beginWithJobs() {
    if (!this.crowded) return;
    const few = wordFacts(this.panels[0].schedule).find((fact) => new Set(fact.values).size <= FEW);
    if (few) this.colourBy = few.name;
    this.rowsOf = "jobs";
    document.getElementById("rows").value = this.rowsOf;
    document.getElementById("colour").value = this.colourBy;
    this.layout();
  }

  // The time around the middle, or the cursor, in which single pieces can be seen; all of it if they can be there.
  showPieces() {
    const span = this.crowded ? this.end * Math.min(...this.panels.map((panel) => panel.room)) / SEEN_PX : this.end;
    const centre = this.cursor > 0 ? this.cursor : this.end / 2;
    this.show(centre - span / 2, span);
  }

  // What a panel says of pieces that cannot be told apart.
  aboutCrowd(panel) {
    if (!this.crowded) return "";
    const { tracks } = panel.schedule;
    const pieces = `${plain(tracks.n)} pieces on ${plain(tracks.count)} ${tracks.count === 1 ? "row" : "rows"}`;
    const places = document.getElementById("places").textContent;
    if (this.rowsOf === "jobs") return `Each row is a job: ${pieces} of the cluster cannot be told apart at this size. Choose rows: ${places} to see them in a shorter time.`;
    const share = (this.t1 - this.t0) / this.end;
    if (share > 0.999) return `${pieces} cannot be told apart at this size: zoom in, or choose rows: jobs.`;
    return `In view: ${clock(this.t1 - this.t0)} of ${clock(this.end)}.`;
  }

  layout() {
    this.panels.forEach((panel) => panel.layout());
    const canvas = this.overview, scale = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = canvas.clientWidth * scale; canvas.height = canvas.clientHeight * scale;
  }

  get overview() { return document.getElementById("overview"); }

  fillChoices() {
    const schedule = this.panels[0].schedule, select = document.getElementById("colour");
    const choices = [["job", "job"], ["model", "kind of job"]];
    if (schedule.levels.length > 1) choices.unshift(["level", schedule.level_title]);
    wordFacts(schedule).forEach((fact) => choices.push([fact.name, fact.name]));
    select.replaceChildren(...choices.map(([value, text]) => new Option(text, value)));
    select.value = this.colourBy;
    document.getElementById("places").textContent = { GPU: "GPUs", task: "tasks", job: "rows" }[schedule.unit] || schedule.unit;
  }

  listenControls() {
    const on = (id, kind, act) => document.getElementById(id).addEventListener(kind, act);
    on("colour", "change", (event) => { this.colourBy = event.target.value; this.redraw(); });
    on("rows", "change", (event) => {
      this.rowsOf = event.target.value;
      this.panels.forEach((panel) => { panel.rows = null; });
      this.layout();
      if (this.rowsOf === "jobs") this.show(0, this.end);
      else this.showPieces();
    });
    on("in", "click", () => this.zoom(0.6));
    on("out", "click", () => this.zoom(1 / 0.6));
    on("all", "click", () => this.showAll());
    on("print", "click", () => window.print());
    on("search", "input", (event) => this.search(event.target.value));
    on("search", "keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") { event.target.value = ""; this.search(""); event.target.blur(); }
      event.stopPropagation();
    });
  }

  // Draws once before the next frame, however much changed since the last one.
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const began = performance.now();
    this.panels.forEach((panel) => panel.draw());
    this.drawOverview();
    showLegend(document.getElementById("legend"), this);
    this.say();
    this.frames.push(performance.now() - began);
    if (this.frames.length > 200) this.frames.shift();
  }

  // What changes with the cursor alone.
  drawCursor() {
    this.panels.forEach((panel) => panel.drawOver());
    this.say();
  }

  say() {
    document.getElementById("now").textContent = this.cursor < 0 ? "" : `at ${clock(this.cursor)}`;
    if (this.said !== this.focus) showJob(document.getElementById("job"), this.panels, this.focus);
    this.said = this.focus;
    this.panels.forEach((panel, i) => {
      const place = document.getElementById(`decision${i}`);
      if (place) showDecision(place, panel, Math.max(this.cursor, 0));
    });
  }

  drawOverview() {
    const canvas = this.overview, g = canvas.getContext("2d"), scale = canvas.width / Math.max(canvas.clientWidth, 1);
    const width = canvas.clientWidth, height = canvas.clientHeight, whole = { t0: 0, t1: this.end };
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.fillStyle = this.theme.wash; g.fillRect(0, 0, width, height);
    const area = { left: 0, top: 2, width: Math.floor(width), height: height - 4, bottom: height - 2 };
    this.panels.forEach((panel, k) => {
      const chart = panel.charts.find((one) => one.title === "utilisation") || panel.charts[0];
      if (!chart) return;
      const [low, high] = columnsOf(chart.lines[0], whole, area.width);
      g.strokeStyle = this.theme.lines[k % this.theme.lines.length]; g.lineWidth = 1.2;
      g.beginPath();
      high.forEach((value, x) => { g.lineTo(x, yOf(area, value, chart.top)); g.lineTo(x, yOf(area, low[x], chart.top)); });
      g.stroke();
    });
    const from = this.t0 / this.end * width, to = Math.max(this.t1 / this.end * width, from + 3);
    g.fillStyle = this.theme.ink; g.globalAlpha = 0.13;
    g.fillRect(0, 0, from, height); g.fillRect(to, 0, width - to, height);
    g.globalAlpha = 1; g.strokeStyle = this.theme.ink; g.lineWidth = 1.5; g.strokeRect(from + 0.75, 0.75, to - from - 1.5, height - 1.5);
  }

  listenOverview() {
    const canvas = this.overview;
    const move = (event) => {
      const at = event.offsetX / Math.max(canvas.clientWidth, 1) * this.end, span = this.t1 - this.t0;
      this.show(at - span / 2, span);
      this.cursor = at;
    };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); move(event); });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(event.deltaY > 0 ? 1.25 : 0.8); }, { passive: false });
  }

  show(from, span) {
    const length = Math.min(Math.max(span, this.least), this.end);
    this.t0 = Math.min(Math.max(from, 0), this.end - length);
    this.t1 = this.t0 + length;
    this.redraw();
  }

  zoom(factor, at) {
    const span = this.t1 - this.t0;
    const inside = this.cursor > this.t0 && this.cursor < this.t1;
    const centre = at === undefined ? (inside ? this.cursor : (this.t0 + this.t1) / 2) : at;
    const length = Math.min(Math.max(span * factor, this.least), this.end);
    this.show(centre - (centre - this.t0) / span * length, length);
  }

  showAll() {
    this.panels.forEach((panel) => { panel.rows = null; });
    this.show(0, this.end);
  }

  // The time of a job under all policies, with room at both sides.
  showJob(job) {
    let from = Infinity, to = 0;
    for (const { schedule } of this.panels) {
      from = Math.min(from, schedule.submit[job]);
      to = Math.max(to, time(schedule.finish[job]), time(schedule.start[job]), schedule.submit[job]);
    }
    const span = Math.max(to - from, this.end / 200) * 1.6;
    this.pinned = job; this.hovered = -1;
    this.cursor = Math.max(time(this.panels[0].schedule.start[job]), from);
    this.panels.forEach((panel) => panel.showRows(job));
    this.show((from + to) / 2 - span / 2, span);
  }

  search(text) {
    this.found = findJobs(this.panels[0].schedule, text);
    this.at = -1;
    const place = document.getElementById("found");
    if (!text.trim()) { place.textContent = ""; return; }
    if (!this.found.length) { place.textContent = "no such job"; return; }
    this.next(1);
  }

  next(step) {
    if (!this.found.length) return;
    this.at = (this.at + step + this.found.length) % this.found.length;
    document.getElementById("found").textContent = `${this.at + 1} of ${this.found.length}: job ${this.found[this.at]}`;
    this.showJob(this.found[this.at]);
  }

  listen(panel) {
    const canvas = panel.over, tip = document.getElementById("tip");
    let dragged = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      dragged = { x: event.offsetX, y: event.offsetY, t0: this.t0, rows: panel.rows, moved: false };
    });
    canvas.addEventListener("pointerup", (event) => {
      if (dragged && !dragged.moved) this.click(panel, event);
      dragged = null;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (dragged && (dragged.moved || Math.hypot(event.offsetX - dragged.x, event.offsetY - dragged.y) > 3)) {
        dragged.moved = true;
        tip.hidden = true;
        this.drag(panel, dragged, event);
      } else this.point(panel, event, tip);
    });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; this.hovered = -1; this.drawCursor(); });
    canvas.addEventListener("dblclick", (event) => {
      const { piece } = panel.under(event.offsetX, event.offsetY);
      if (piece >= 0) this.showJob(panel.tracks.job[piece]);
    });
    canvas.addEventListener("wheel", (event) => {
      const found = panel.under(event.offsetX, event.offsetY);
      if (!found.inside && !event.ctrlKey) return; // over the charts the page scrolls
      event.preventDefault();
      const factor = Math.exp(Math.max(-60, Math.min(60, event.deltaY || event.deltaX)) * 0.005);
      if (event.altKey) { panel.zoomRows(factor, found.row); this.redraw(); }
      else if (event.shiftKey) this.show(this.t0 + (event.deltaY || event.deltaX) / 600 * (this.t1 - this.t0), this.t1 - this.t0);
      else this.zoom(factor, found.when);
    }, { passive: false });
  }

  drag(panel, dragged, event) {
    const { area, view } = panel;
    const seconds = (event.offsetX - dragged.x) / area.width * (view.t1 - view.t0);
    if (dragged.rows) {
      const rows = (event.offsetY - dragged.y) / area.height * (view.r1 - view.r0);
      panel.setRows(dragged.rows[0] - rows, view.r1 - view.r0);
    }
    this.show(dragged.t0 - seconds, this.t1 - this.t0);
  }

  click(panel, event) {
    const { piece, when } = panel.under(event.offsetX, event.offsetY);
    this.pinned = piece >= 0 ? panel.tracks.job[piece] : -1;
    this.hovered = -1;
    this.cursor = when;
    this.drawCursor();
  }

  point(panel, event, tip) {
    const found = panel.under(event.offsetX, event.offsetY);
    if (found.when < this.t0 || found.when > this.t1) { tip.hidden = true; return; }
    this.cursor = found.when;
    this.hovered = found.piece >= 0 ? panel.tracks.job[found.piece] : -1;
    this.drawCursor();
    tip.hidden = found.piece < 0;
    if (found.piece < 0) return;
    tip.replaceChildren(...tipOf(panel, found).map((text, i) => element(i ? "div" : "strong", "", text)));
    const left = event.clientX + 14 + tip.offsetWidth > innerWidth ? event.clientX - tip.offsetWidth - 10 : event.clientX + 14;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 6)}px`;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (["SELECT", "INPUT"].includes(event.target.tagName)) return;
    const span = this.t1 - this.t0, step = span * (event.shiftKey ? 0.01 : 0.1);
    const rows = (share) => this.panels.forEach((panel) => {
      const { r0, r1 } = panel.view;
      panel.setRows(r0 + share * (r1 - r0), r1 - r0);
    });
    const scale = (factor) => this.panels.forEach((panel) => panel.zoomRows(factor, (panel.view.r0 + panel.view.r1) / 2));
    const acts = {
      ArrowLeft: () => (event.shiftKey ? this.moveCursor(-step) : this.show(this.t0 - step, span)),
      ArrowRight: () => (event.shiftKey ? this.moveCursor(step) : this.show(this.t0 + step, span)),
      ArrowUp: () => rows(-0.1),
      ArrowDown: () => rows(0.1),
      "+": () => this.zoom(0.7),
      "=": () => this.zoom(0.7),
      "-": () => this.zoom(1 / 0.7),
      "[": () => scale(0.7),
      "]": () => scale(1 / 0.7),
      0: () => this.showAll(),
      Home: () => { this.cursor = 0; this.show(0, span); },
      End: () => { this.cursor = this.end; this.show(this.end - span, span); },
      ",": () => this.decision(-1),
      ".": () => this.decision(1),
      "/": () => document.getElementById("search").focus(),
      Escape: () => { this.pinned = this.hovered = -1; document.getElementById("tip").hidden = true; },
    };
    const act = acts[event.key];
    if (!act) return;
    if (event.key.startsWith("Arrow") && (event.key === "ArrowUp" || event.key === "ArrowDown") && !this.panels.some((panel) => panel.rows)) return;
    event.preventDefault();
    act();
    this.redraw();
  }

  moveCursor(by) {
    this.cursor = Math.min(Math.max(this.cursor + by, 0), this.end);
    if (this.cursor < this.t0 || this.cursor > this.t1) this.show(this.t0 + by, this.t1 - this.t0);
  }

  // To the decision before or after the cursor.
  decision(step) {
    const panel = this.panels.find((one) => one.schedule.decisions);
    if (!panel) return;
    const { times } = panel.schedule.decisions;
    const at = lastUpTo(times, Math.max(this.cursor, 0));
    let next = at + step;
    while (next > 0 && next < times.length - 1 && times[next] === times[at]) next += step;
    if (next < 0 || next >= times.length) return;
    this.cursor = times[next];
    if (this.cursor < this.t0 || this.cursor > this.t1) this.show(this.cursor - (this.t1 - this.t0) / 2, this.t1 - this.t0);
  }
}

const given = JSON.parse(document.getElementById("schedules").textContent);
window.replay = new Page(given.schedules, given.colours);
window.replay.start();
