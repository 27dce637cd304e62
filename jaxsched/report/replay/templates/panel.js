// One policy's pictures: its rows, its charts, and what lies over them.

const CHART = { height: 58, gap: 26 };
const TALLEST = { places: 460, jobs: 640 }, LOWEST = 130, ROW = 15;

class Panel {
  constructor(schedule, page, section) {
    this.schedule = schedule;
    this.page = page;
    this.rows = null; // [first, last] in view; null: all
    this.base = section.querySelector("canvas.base");
    this.over = section.querySelector("canvas.over");
    this.note = section.querySelector(".lod");
    this.charts = schedule.charts;
    this.painted = 0;
  }

  get tracks() { return this.page.rowsOf === "jobs" ? this.schedule.byJob : this.schedule.tracks; }

  // What is in view: seconds t0 to t1, rows r0 to r1.
  get view() {
    const [r0, r1] = this.rows || [0, Math.max(this.tracks.count, 1)];
    return { t0: this.page.t0, t1: this.page.t1, r0, r1 };
  }

  layout() {
    const width = Math.max(this.base.parentElement.clientWidth, 240), scale = Math.min(window.devicePixelRatio || 1, 2);
    const tracks = Math.round(Math.min(TALLEST[this.page.rowsOf], Math.max(LOWEST, Math.max(this.tracks.count, 1) * ROW)));
    const height = MARGIN.top + tracks + MARGIN.axis + this.charts.length * (CHART.height + CHART.gap) + 4;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
    }
    this.base.parentElement.style.height = `${height}px`;
    this.scale = scale;
    const inner = Math.max(Math.round(width - MARGIN.left - MARGIN.right), 50);
    this.area = { left: MARGIN.left, top: MARGIN.top, width: inner, height: tracks, bottom: MARGIN.top + tracks };
    const below = this.area.bottom + MARGIN.axis;
    this.areas = this.charts.map((_, i) => {
      const top = below + i * (CHART.height + CHART.gap) + 18;
      return { left: MARGIN.left, top, width: inner, height: CHART.height, bottom: top + CHART.height };
    });
    const cells = [Math.round(inner * scale), Math.round(tracks * scale)];
    if (!this.image || this.image.width !== cells[0] || this.image.height !== cells[1]) {
      this.image = new ImageData(cells[0], cells[1]);
      this.words = new Uint32Array(this.image.data.buffer);
    }
  }

  // Pixels that a piece on the cluster has on average, with all of the time in view.
  get room() {
    const { tracks } = this.schedule;
    return this.area.width * Math.max(tracks.count, 1) / Math.max(tracks.n, 1);
  }

  // The colour of each piece as the page colours them, and the stripe that marks its level.
  colour() {
    const { tracks, schedule, page } = this, theme = page.theme;
    const hexOf = (i) => {
      if (tracks.level[i] === WAITING) return theme.waiting;
      const job = tracks.job[i];
      if (page.colourBy === "level") return theme.levels[Math.min(tracks.level[i], theme.levels.length - 1)];
      if (page.colourBy === "model") return theme.models[schedule.model[job] % theme.models.length];
      if (page.colourBy === "job") return theme.jobs[job % theme.jobs.length];
      return theme.models[page.wordOf(schedule, job) % theme.models.length];
    };
    const words = new Map();
    const wordOf = (hex) => {
      if (!words.has(hex)) words.set(hex, pixel(hex));
      return words.get(hex);
    };
    const marks = schedule.levels.length > 0 && page.colourBy !== "level";
    return {
      hexOf,
      of: (i) => wordOf(hexOf(i)),
      stripe: (i) => (marks && tracks.level[i] > 0 ? wordOf(theme.levels[Math.min(tracks.level[i], theme.levels.length - 1)]) : 0),
    };
  }

  draw() {
    const g = this.base.getContext("2d"), { area, tracks, view, page } = this, theme = page.theme;
    g.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    g.fillStyle = theme.page; g.fillRect(0, 0, this.base.width, this.base.height);
    this.words.fill(pixel(theme.wash));
    const colour = this.colour();
    this.painted = paintPieces(this.words, this.image.width, this.image.height, tracks, view, colour);
    g.putImageData(this.image, Math.round(area.left * this.scale), Math.round(area.top * this.scale));
    drawBands(g, area, tracks, view, theme);
    drawLabels(g, area, tracks, view, colour.hexOf);
    this.drawMarks(g);
    g.font = "11px system-ui, sans-serif";
    drawTimeAxis(g, area, view, theme);
    this.charts.forEach((chart, i) => this.drawChart(g, chart, this.areas[i]));
    const perRow = area.height * this.scale / (view.r1 - view.r0);
    this.note.textContent = [page.aboutCrowd(this), perRow < 0.75
      ? `At this size 1 of ${Math.round(1 / perRow)} rows is drawn: zoom in (up and down: Alt and wheel, or [ and ]) to see each.` : ""].join(" ").trim();
    this.drawOver();
  }

  drawChart(g, chart, area) {
    const { page } = this, hexes = page.theme.lines;
    g.textAlign = "left"; g.textBaseline = "alphabetic"; g.font = "600 11px system-ui, sans-serif"; g.fillStyle = page.theme.ink;
    const title = chart.unit ? `${chart.title} (${chart.unit})` : chart.title;
    g.fillText(title, area.left, area.top - 6);
    let x = area.left + g.measureText(title).width + 14;
    g.font = "11px system-ui, sans-serif";
    if (chart.lines.length > 1 || chart.lines[0].name !== chart.title) {
      chart.lines.forEach((line, k) => {
        g.fillStyle = hexes[k % hexes.length]; g.fillRect(x, area.top - 14, 9, 9);
        g.fillStyle = page.theme.soft; g.fillText(line.name, x + 13, area.top - 6);
        x += 13 + g.measureText(line.name).width + 12;
      });
    }
    drawChart(g, area, chart, this.view, chart.top, hexes, page.theme);
  }

  drawMarks(g) {
    if (this.page.rowsOf === "jobs") return this.drawDeadlines(g);
    const { area, view } = this, seen = new Set();
    g.fillStyle = this.page.theme.ink;
    for (const marks of this.schedule.marks) {
      marks.times.forEach((when, i) => {
        const x = Math.round(area.left + (when - view.t0) / (view.t1 - view.t0) * area.width);
        const y = Math.round(area.top + (marks.row[i] - view.r0) / (view.r1 - view.r0) * area.height);
        const key = x * 65536 + y;
        if (x < area.left || x > area.left + area.width || y < area.top || y > area.bottom || seen.has(key)) return;
        seen.add(key);
        g.beginPath(); g.moveTo(x - 3, y); g.lineTo(x, y - 3.5); g.lineTo(x + 3, y); g.lineTo(x, y + 3.5); g.fill();
      });
    }
    return undefined;
  }

  drawDeadlines(g) {
    const { area, view, schedule } = this;
    const perRow = area.height / (view.r1 - view.r0);
    if (!schedule.deadline || perRow < 2) return;
    g.fillStyle = this.page.theme.ink;
    for (let job = Math.floor(view.r0); job < Math.min(view.r1, schedule.submit.length); job++) {
      const x = area.left + (schedule.deadline[job] - view.t0) / (view.t1 - view.t0) * area.width;
      if (x >= area.left && x <= area.left + area.width) g.fillRect(x - 0.75, area.top + (job - view.r0) * perRow, 1.5, Math.max(perRow - 1, 1));
    }
  }

  // The cursor, the job that is pointed at or chosen, and values at the cursor.
  drawOver() {
    const g = this.over.getContext("2d"), { area, view, page } = this, theme = page.theme;
    g.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    g.clearRect(0, 0, this.over.width, this.over.height);
    const job = page.focus;
    if (job >= 0) this.outline(g, job);
    const x = area.left + (page.cursor - view.t0) / (view.t1 - view.t0) * area.width;
    if (x < area.left - 1 || x > area.left + area.width + 1) return;
    g.strokeStyle = theme.ink; g.lineWidth = 1; g.setLineDash([3, 3]);
    g.beginPath(); g.moveTo(Math.round(x) + 0.5, area.top); g.lineTo(Math.round(x) + 0.5, this.over.height / this.scale); g.stroke();
    g.setLineDash([]);
    g.font = "11px system-ui, sans-serif"; g.textBaseline = "alphabetic";
    this.charts.forEach((chart, i) => {
      const place = this.areas[i], left = x < area.left + area.width / 2;
      const text = chart.lines.map((line) => plain(valueAt(line, page.cursor))).join(" · ");
      const width = g.measureText(text).width + 8, at = left ? x + 4 : x - 4 - width;
      g.fillStyle = theme.panel; g.globalAlpha = 0.85; g.fillRect(at, place.top, width, 15); g.globalAlpha = 1;
      g.fillStyle = theme.ink; g.textAlign = "left"; g.fillText(text, at + 4, place.top + 11.5);
    });
  }

  outline(g, job) {
    const { area, view, tracks } = this;
    const perS = area.width / (view.t1 - view.t0), perRow = area.height / (view.r1 - view.r0);
    g.save();
    g.beginPath(); g.rect(area.left, area.top, area.width, area.height); g.clip();
    g.strokeStyle = this.page.theme.ink; g.lineWidth = 2;
    let drawn = 0;
    for (const i of tracks.ofJob.get(job) || []) {
      if (tracks.end[i] < view.t0 || tracks.start[i] > view.t1 || ++drawn > 3000) continue;
      const x = area.left + (tracks.start[i] - view.t0) * perS, y = area.top + (tracks.row[i] - view.r0) * perRow;
      const width = Math.max((tracks.end[i] - tracks.start[i]) * perS, 1), height = Math.max(tracks.rows[i] * perRow, 1);
      if (width > 5 && height > 5) g.strokeRect(x + 1, y + 1, width - 2, height - 2);
      else { g.fillStyle = this.page.theme.ink; g.fillRect(x, y - 0.5, Math.max(width, 2), Math.max(height, 2)); }
    }
    g.restore();
  }

  // What is under a point of the canvas: seconds, row, the piece there or -1.
  under(x, y) {
    const { area, view, tracks } = this;
    const when = view.t0 + (x - area.left) / area.width * (view.t1 - view.t0);
    const row = view.r0 + (y - area.top) / area.height * (view.r1 - view.r0);
    const inside = y >= area.top && y < area.bottom && x >= area.left;
    return { when, row, inside, piece: inside ? pieceAt(tracks, row, when) : -1 };
  }

  zoomRows(factor, centre) {
    const { r0, r1 } = this.view, all = Math.max(this.tracks.count, 1);
    const span = Math.min(Math.max((r1 - r0) * factor, Math.min(all, 4)), all);
    const share = (centre - r0) / (r1 - r0);
    this.setRows(centre - share * span, span);
  }

  setRows(first, span) {
    const all = Math.max(this.tracks.count, 1);
    const r0 = Math.min(Math.max(first, 0), Math.max(all - span, 0));
    this.rows = span >= all - 1e-6 ? null : [r0, r0 + span];
  }

  // Brings a job's rows into view, where not all rows are.
  showRows(job) {
    const pieces = this.tracks.ofJob.get(job);
    const { r0, r1 } = this.view;
    if (!pieces || !this.rows) return;
    const row = this.tracks.row[pieces[0]];
    if (row < r0 || row >= r1) this.setRows(row - (r1 - r0) / 2, r1 - r0);
  }
}
