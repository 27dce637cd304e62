// Pictures: pieces into pixels, lines into charts, axes and words. No state of the page in here.

const MARGIN = { left: 74, right: 10, top: 4, axis: 24 };
const GAP_PX = 4; // a piece this wide or high keeps a pixel free, so that neighbours can be told apart

// "#rrggbb" as a pixel of an ImageData seen as 32-bit words (little endian: alpha, blue, green, red).
const pixel = (hex) => {
  const value = parseInt(hex.slice(1), 16);
  return (0xff000000 | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
};
const isLight = (hex) => {
  const value = parseInt(hex.slice(1), 16);
  return 0.299 * (value >> 16) + 0.587 * ((value >> 8) & 255) + 0.114 * (value & 255) > 140;
};

// Paints the pieces that are in view into a pixel buffer; returns how many were painted.
// Below one pixel a row, the row in the middle of each pixel is shown and the others are passed over.
function paintPieces(buffer, width, height, tracks, view, colour) {
  const perS = width / (view.t1 - view.t0), perRow = height / (view.r1 - view.r0);
  const fine = perRow < 1;
  let painted = 0;
  for (const box of tracks.boxes) {
    if (box.start >= view.t1) break;
    if (box.end <= view.t0 || box.top >= view.r1 || box.bottom <= view.r0) continue;
    for (let i = box.from; i < box.to; i++) {
      const start = tracks.start[i], end = tracks.end[i];
      if (start >= view.t1) break;
      if (end <= view.t0) continue;
      const y0 = (tracks.row[i] - view.r0) * perRow, y1 = (tracks.row[i] + tracks.rows[i] - view.r0) * perRow;
      let top = Math.ceil(y0 - 0.5), bottom = Math.ceil(y1 - 0.5);
      if (top < 0) top = 0;
      if (bottom > height) bottom = height;
      if (bottom <= top) {
        if (fine || top >= height || y1 <= 0) continue;
        bottom = top + 1;
      }
      if (bottom - top >= GAP_PX) bottom -= 1;
      let left = Math.round((start - view.t0) * perS), right = Math.round((end - view.t0) * perS);
      if (right - left >= GAP_PX) right -= 1;
      if (left < 0) left = 0;
      if (right <= left) right = left + 1;
      if (right > width) right = width;
      if (left >= width) continue;
      painted += 1;
      const word = colour.of(i);
      const stripe = colour.stripe(i), from = stripe && bottom - top >= 6 ? bottom - 3 : bottom;
      if (right - left === 1) {
        for (let y = top; y < bottom; y++) buffer[y * width + left] = y < from ? word : stripe;
      } else {
        for (let y = top; y < bottom; y++) buffer.fill(y < from ? word : stripe, y * width + left, y * width + right);
      }
    }
  }
  return painted;
}

// Round values within a range, about so many.
function ticksOf(low, high, count) {
  const raw = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw) || raw || 1;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

const UNITS = [[86400, "d", 3], [3600, "h", 3], [60, "min", 3], [1, "s", 0]];
function unitOf(span) {
  return UNITS.find(([seconds, , least]) => span >= least * seconds) || UNITS[3];
}
const plain = (value) => {
  if (none(value) || Number.isNaN(value)) return "–";
  const size = Math.abs(value), digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  const [whole, rest] = value.toFixed(digits).split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+(?!\d))/g, " ");
  return rest && Number(rest) ? `${spaced}.${rest.replace(/0+$/, "")}` : spaced;
};
// A time in the largest units that say it to the second, or to a tenth below a minute.
function clock(seconds) {
  if (none(seconds) || seconds < 0) return "never";
  if (seconds < 60) return `${Math.round(seconds * 10) / 10} s`;
  const s = Math.round(seconds), parts = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "min"], [s % 60, "s"]];
  const first = parts.findIndex(([amount]) => amount);
  return parts.slice(first, first + 3).filter(([amount]) => amount).map(([amount, unit]) => `${amount} ${unit}`).join(" ");
}

function drawTimeAxis(g, area, view, colours) {
  const [seconds, unit] = unitOf(view.t1 - view.t0);
  const marks = ticksOf(view.t0 / seconds, view.t1 / seconds, area.width / 90);
  g.fillStyle = colours.soft; g.strokeStyle = colours.faint; g.textAlign = "center"; g.textBaseline = "top";
  g.beginPath();
  for (const mark of marks) {
    const x = area.left + (mark * seconds - view.t0) / (view.t1 - view.t0) * area.width;
    if (x < area.left - 1 || x > area.left + area.width + 1) continue;
    g.moveTo(x, area.bottom); g.lineTo(x, area.bottom + 4);
    g.fillText(plain(mark), Math.min(x, area.left + area.width - 12), area.bottom + 6);
  }
  g.stroke();
  g.textAlign = "right";
  g.fillText(unit, area.left - 26, area.bottom + 6);
}

// Names of the bands at the left, as many as there is room for, and lines between them.
function drawBands(g, area, tracks, view, colours) {
  const perRow = area.height / (view.r1 - view.r0);
  g.font = "11px system-ui, sans-serif"; g.textAlign = "right"; g.textBaseline = "middle";
  if (tracks.unit === "job" && tracks.bands.length === 1) {
    g.fillStyle = colours.soft;
    for (const mark of ticksOf(view.r0, view.r1 - 1, area.height / 40).filter(Number.isInteger)) {
      g.fillText(plain(mark), area.left - 6, area.top + (mark + 0.5 - view.r0) * perRow);
    }
    return;
  }
  let row = 0, free = -Infinity;
  for (const [name, rows] of tracks.bands) {
    const top = area.top + (row - view.r0) * perRow, bottom = top + rows * perRow;
    row += rows;
    if (bottom < area.top || top > area.top + area.height) continue;
    const shown = [Math.max(top, area.top), Math.min(bottom, area.top + area.height)];
    if (rows * perRow >= 6 && top > area.top) {
      g.fillStyle = colours.faint; g.fillRect(area.left, Math.round(top) - 1, area.width, 1);
    }
    const middle = (shown[0] + shown[1]) / 2;
    if (middle - free < 13) continue;
    free = middle;
    g.fillStyle = colours.soft;
    const words = tracks.bands.length === 1 || rows * perRow > 60 ? wrapped(name) : [name];
    words.forEach((word, i) => g.fillText(word, area.left - 6, middle + (i - (words.length - 1) / 2) * 12, area.left - 8));
  }
}
const wrapped = (name) => (name.length > 10 ? name.split(" ") : [name]);

// Numbers of jobs on pieces that have room for them.
function drawLabels(g, area, tracks, view, hexOf) {
  const perS = area.width / (view.t1 - view.t0), perRow = area.height / (view.r1 - view.r0);
  g.font = "10px system-ui, sans-serif"; g.textAlign = "left"; g.textBaseline = "middle";
  let drawn = 0;
  for (const box of tracks.boxes) {
    if (box.start >= view.t1 || drawn > 500) break;
    if (box.end <= view.t0 || box.top >= view.r1 || box.bottom <= view.r0) continue;
    for (let i = box.from; i < box.to && drawn <= 500; i++) {
      const high = tracks.rows[i] * perRow;
      if (high < 11 || tracks.level[i] === WAITING) continue;
      const left = Math.max((tracks.start[i] - view.t0) * perS, 0), right = Math.min((tracks.end[i] - view.t0) * perS, area.width);
      const text = String(tracks.job[i]), y = (tracks.row[i] + tracks.rows[i] / 2 - view.r0) * perRow;
      if (right - left < 7 * text.length + 6 || y < 5 || y > area.height - 5) continue;
      g.fillStyle = isLight(hexOf(i)) ? "#111" : "#fff";
      g.fillText(text, area.left + left + 4, area.top + y);
      drawn += 1;
    }
  }
}

const yOf = (area, value, top) => area.bottom - (value / top) * area.height;

// A chart of lines that hold their values, or of areas on top of each other.
function drawChart(g, area, chart, view, top, hexes, colours) {
  g.strokeStyle = colours.faint; g.fillStyle = colours.soft; g.lineWidth = 1;
  g.font = "11px system-ui, sans-serif"; g.textAlign = "right"; g.textBaseline = "middle";
  for (const mark of ticksOf(0, top, 2)) {
    const y = Math.round(yOf(area, mark, top)) + 0.5;
    g.beginPath(); g.moveTo(area.left, y); g.lineTo(area.left + area.width, y); g.stroke();
    g.fillText(plain(mark), area.left - 6, y);
  }
  let below = new Float64Array(area.width + 1);
  chart.lines.forEach((line, k) => {
    const [low, high] = columnsOf(line, view, area.width);
    g.fillStyle = g.strokeStyle = hexes[k % hexes.length];
    g.beginPath();
    if (chart.stacked) {
      for (let x = 0; x <= area.width; x++) g.lineTo(area.left + x, yOf(area, below[x] + high[x], top));
      for (let x = area.width; x >= 0; x--) g.lineTo(area.left + x, yOf(area, below[x], top));
      g.fill();
      below = below.map((value, x) => value + high[x]);
    } else {
      g.lineWidth = 1.4;
      for (let x = 0; x <= area.width; x++) {
        g.lineTo(area.left + x, yOf(area, high[x], top));
        if (low[x] !== high[x]) g.lineTo(area.left + x, yOf(area, low[x], top));
      }
      g.stroke();
    }
  });
}

// Least and largest value of a line in each column of pixels.
function columnsOf(line, view, width) {
  const low = new Float64Array(width + 1), high = new Float64Array(width + 1);
  const step = (view.t1 - view.t0) / width;
  let i = lastUpTo(line.times, view.t0);
  let value = i < 0 ? 0 : line.values[i];
  for (let x = 0; x <= width; x++) {
    let least = value, most = value;
    while (i + 1 < line.times.length && line.times[i + 1] <= view.t0 + (x + 0.5) * step) {
      i += 1;
      value = line.values[i];
      if (value < least) least = value;
      if (value > most) most = value;
    }
    low[x] = least; high[x] = most;
  }
  return [low, high];
}

// The largest value that a chart has to show, over all of the time.
function chartTop(chart) {
  if (!chart.stacked) return Math.max(...chart.lines.map((line) => largest(line.values))) * 1.05 || 1;
  const times = [...new Set(chart.lines.flatMap((line) => Array.from(line.times)))];
  return largest(times.map((when) => chart.lines.reduce((sum, line) => sum + valueAt(line, when), 0))) * 1.05 || 1;
}
