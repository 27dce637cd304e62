const leaderboard = (() => {
  "use strict";
  const {workloads, policies, loads, main, advice, columns, priorities} =
    JSON.parse(document.getElementById("data").textContent);
  const by = id => document.getElementById(id);
  const ALL = "all", CHOSEN = 6;
  const state = {workload: workloads.length > 1 ? ALL : workloads[0].name, load: main};
  const chosen = new Set();

  const make = (tag, classes, text) => {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const drawn = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const number = value => {
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return value.toLocaleString("en", {minimumFractionDigits: digits,
      maximumFractionDigits: digits});
  };
  const mean = values => Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length);
  const boardAt = (workload, load) => workload.boards.find(board => board.asked === load);
  const boardNow = () => {  // of one workload; none where all are shown or it was not played so
    const shown = workloads.find(w => w.name === state.workload);
    return shown && boardAt(shown, state.load);
  };
  const swept = loads.map(([key]) => key).filter(key => isFinite(key));
  const loadName = () => new Map(loads).get(state.load);

  const KINDS = {
    "k-learned": "learned", "k-run": "knows run times",
    "k-some": "knows estimates or predicts", "k-none": "knows nothing",
    "k-unstated": "does not say", "k-recorded": "what the log says",
  };
  const kindOf = name => {
    const {knows, learned, recorded} = policies[name];
    if (recorded) return "k-recorded";
    if (learned) return "k-learned";
    return {"run times": "k-run", "nothing": "k-none", "unstated": "k-unstated"}[knows]
      || "k-some";
  };
  const wanted = () => {
    const ticked = name => new Set([...document.querySelectorAll(`input[name=${name}]:checked`)]
      .map(box => box.value));
    const [knows, suspends, learned] = ["knows", "suspends", "learned"].map(ticked);
    const letters = by("search").value.trim().toLowerCase();
    return Object.keys(policies).filter(name => {
      const of = policies[name];
      return (of.recorded || knows.has(of.knows) && suspends.has(String(of.suspends))
        && learned.has(String(of.learned))) && name.toLowerCase().includes(letters);
    });
  };

  // Ratios to the bound: of a workload, or the geometric mean over all that were played so.
  const ratioAt = (name, load) => {
    const shown = state.workload === ALL ? workloads
      : workloads.filter(w => w.name === state.workload);
    const boards = shown.map(w => boardAt(w, load)).filter(Boolean);
    const found = boards.map(board => board.rows[name]?.ratio);
    return boards.length && found.every(value => value !== undefined)
      ? {ratio: mean(found), least: Math.min(...found), most: Math.max(...found)} : null;
  };
  const rowsNow = () => wanted().map(name => {
    const found = ratioAt(name, state.load);
    if (!found) return null;
    if (state.workload === ALL) return {name, ...found, ends: [found.least, found.most]};
    return {name, ...boardNow().rows[name]};
  }).filter(Boolean).sort((a, b) => a.ratio - b.ratio);

  const bar = (row, highest) => {
    const at = value => 100 * Math.log(Math.max(value, 1)) / Math.log(highest);
    const svg = drawn("svg", {viewBox: "0 0 100 18", preserveAspectRatio: "none",
      role: "img", "aria-label": `${number(row.ratio)} times the bound`});
    svg.append(drawn("path", {d: "M0 0V18", class: "bar-edge"}),
      drawn("rect", {x: 0, y: 3, width: at(row.ratio), height: 12, class: "bar-fill"}));
    if (row.ends) {
      const [low, high] = row.ends.map(at);
      svg.append(drawn("path", {d: `M${low} 9H${high}M${low} 5V13M${high} 5V13`,
        class: "bar-line"}));
    }
    const cell = make("td", "bar");
    cell.dataset.v = row.ratio;
    cell.append(svg);
    return cell;
  };
  const cellOf = (value, ends) => {
    const cell = make("td", "n", value === undefined ? "–" : number(value));
    cell.dataset.v = value === undefined ? "" : value;
    if (ends) cell.append(make("small", "", `[${ends.map(number).join(", ")}]`));
    return cell;
  };
  const nameOf = (row, plain) => {
    const of = policies[row.name], cell = make("th"), button = make("button");
    cell.scope = "row";
    cell.dataset.v = row.name;
    cell.className = kindOf(row.name);
    if (plain) {
      cell.append(make("span", "key"), row.name);
      return cell;
    }
    button.type = "button";
    button.setAttribute("aria-pressed", chosen.has(row.name));
    button.append(make("span", "key"), row.name);
    button.addEventListener("click", () => {
      if (!chosen.delete(row.name)) chosen.add(row.name);
      button.setAttribute("aria-pressed", chosen.has(row.name));
      lines();
    });
    const words = of.recorded ? ["what happened"] : [of.knows === "nothing" ? "" : of.knows === "unstated" ? "?" : of.knows,
      of.suspends ? "suspends" : "", of.learned ? "learned" : ""].filter(Boolean);
    cell.append(button, make("small", "", words.join(", ") || "\u00a0"));
    return cell;
  };

  const keysOf = all => {  // columns that any policy has a figure of, on one workload
    const rows = Object.values(boardNow()?.rows || {});
    return Object.keys(all).filter(key => rows.some(row => row[key] !== undefined));
  };
  const head = (text, unit, first, classes) => {  // sort.js listens to those that are there
    const cell = make("th", classes), button = make("button", "", text);
    cell.scope = "col";
    button.type = "button";
    cell.append(button);
    if (classes) cell.append(make("small", "", unit || "\u00a0"));
    cell.setAttribute("aria-sort", "none");
    cell.dataset.first = first;
    return cell;
  };
  const heads = () => {
    const of = all => Object.values(all).map(([text, unit, first]) =>
      head(text, unit, first, "n"));
    by("heads").replaceChildren(head("policy", "", "ascending", ""),
      head("distance to the bound", "logarithmic", "ascending", "bar-head"),
      head("mean completion time over the bound", "", "ascending", "n"), ...of(columns));
    by("priority-heads").replaceChildren(head("policy", "", "ascending", ""), ...of(priorities));
  };
  const label = (cells, all) => {  // headings as the workload asks: its unit, its reference
    const board = boardNow(), own = keysOf(all);
    Object.entries(all).forEach(([key, [text, unit]], k) => {
      cells[k].hidden = !own.includes(key);
      cells[k].querySelector("button").textContent =
        text.replace("- ", "\u00ad").replace("{reference}", board?.reference);
      cells[k].querySelector("small").textContent =
        (unit === "time" ? board?.unit : unit) || "\u00a0";
    });
    return own;
  };
  const figures = (row, all, own) => {
    const cells = Object.keys(all).map(key =>
      cellOf(row[key], key === "over" ? row.overEnds : null));
    cells.forEach((cell, k) => { cell.hidden = !own.includes(Object.keys(all)[k]); });
    return cells;
  };
  const lineOf = (row, cells) => {
    const kind = kindOf(row.name);
    const line = make("tr", kind === "k-learned" ? "k-learned learned" : kind);
    line.append(...cells);
    return line;
  };
  const table = () => {
    const rows = rowsNow(), own = label([...by("heads").cells].slice(3), columns);
    const highest = Math.max(1.05, ...rows.flatMap(row => [row.ratio, ...(row.ends || [])]));
    by("rows").closest("table").classList.toggle("short", !own.length);
    by("rows").replaceChildren(...rows.map(row => lineOf(row, [nameOf(row), bar(row, highest),
      cellOf(row.ratio, row.ends), ...figures(row, columns, own)])));
    sortAgain(by("heads"));
    const further = label([...by("priority-heads").cells].slice(1), priorities);
    by("priorities").hidden = !further.length;
    by("priority-rows").replaceChildren(...rows.map(row =>
      lineOf(row, [nameOf(row, true), ...figures(row, priorities, further)])));
    sortAgain(by("priority-heads"));
    const count = wanted().filter(name => !policies[name].recorded).length;
    const shown = rows.filter(row => !policies[row.name].recorded).length;
    const all = Object.values(policies).filter(of => !of.recorded).length;
    by("count").textContent = `${shown} of ${all} policies`
      + (count > shown ? `, ${count - shown} not played everywhere` : "");
  };
  const sortAgain = row => {
    const head = row.querySelector("[aria-sort=ascending],[aria-sort=descending]");
    if (!head) return;
    const order = head.getAttribute("aria-sort");
    head.setAttribute("aria-sort", "none");
    head.querySelector("button").click();
    if (head.getAttribute("aria-sort") !== order) head.querySelector("button").click();
  };

  const atLoad = () => isFinite(state.load) ? `at a load of ${loadName()}`
    : "with jobs as submitted";
  const about = () => {
    const said = state.workload === ALL ? advice[state.load] : boardNow()?.advice || [];
    by("headline").textContent = said[0] || "Not played at this load.";
    by("advice").replaceChildren(...said.slice(1).map(line => make("li", "", line)));
    const notes = [];
    if (state.workload === ALL) {
      const odd = workloads.filter(w => boardAt(w, state.load)?.stationary === false);
      by("which").textContent = `All ${workloads.length} workloads ${atLoad()}`;
      by("about").textContent = "Geometric mean of the mean completion time over the bound; "
        + "whiskers from the least to the most of any workload.";
      if (odd.length) notes.push(["Not stationary", odd.map(w => w.name).join(", ")]);
    } else {
      const board = boardNow();
      by("which").textContent = `${state.workload} ${atLoad()}`;
      by("about").textContent = !board ? "Not played at this load." : [
        board.num_draws > 1 ? `${board.num_draws} draws of ` : "",
        `${board.num_jobs.toLocaleString("en")} jobs on ${board.size} `,
        `GPUs; the window has ${board.num_measured.toLocaleString("en")}`,
        ` jobs and a load of ${number(board.load)}, ${number(100 * board.busy)} % of the GPUs are `,
        `busy and ${number(board.waiting.reduce((a, b) => a + b, 0) / board.waiting.length)} jobs `,
        `wait under ${board.reference}. Bound: ${board.bound} mean completion time, without `,
        `suspension ${board.own_bound}. `,
        board.num_draws > 1 ? "Whiskers: 95 % intervals over the draws." : ""].join("");
      if (board) {
        notes.push(...board.notes.map(text => ["", text]), ["", `trace ${board.digest}`]);
        if (!board.stationary) {
          notes.unshift(["Not stationary", `waiting by quarter of the window: ${
            board.waiting.map(number).join(", ")}`]);
        }
      }
    }
    by("notes").replaceChildren(...notes.map(([word, text]) => {
      const item = make("li");
      if (word) item.append(make("b", "", word));
      item.append(text);
      return item;
    }));
  };

  const lines = () => {
    by("sweep").hidden = swept.length < 2;
    if (swept.length < 2) return;
    const series = wanted().map(name => ({name, points: swept.map(load => {
      const found = ratioAt(name, load);
      return found && [Number(load), found.ratio];
    }).filter(Boolean)})).filter(one => one.points.length);
    const width = Math.max(320, Math.min(by("lines").clientWidth || 900, 1200));
    const height = 340, left = 46, right = Math.min(170, width * .34), top = 12, bottom = 40;
    const ends = series.flatMap(one => one.points.map(point => point[1]));
    const highest = Math.max(1.1, ...ends) * 1.05;
    const x = load => left + (load - swept[0]) / (swept.at(-1) - swept[0])
      * (width - left - right);
    const y = ratio => height - bottom - Math.log(ratio) / Math.log(highest)
      * (height - top - bottom);
    const svg = drawn("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "Mean completion time over the bound, by load"});
    const marks = [1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000]
      .filter(mark => mark <= highest);
    let last = Infinity;
    for (const mark of marks) {
      if (last - y(mark) < 16) continue;
      last = y(mark);
      svg.append(drawn("path", {d: `M${left} ${last}H${width - right}`, class: "grid"}),
        drawn("text", {x: left - 6, y: last + 4, "text-anchor": "end"}, mark));
    }
    for (const load of swept) {
      svg.append(drawn("text", {x: x(load), y: height - bottom + 18, "text-anchor": "middle"},
        load));
    }
    svg.append(drawn("text", {x: (left + width - right) / 2, y: height - 4,
      "text-anchor": "middle"}, "load"));
    const path = points => "M" + points.map(([load, ratio]) => `${x(load).toFixed(1)} ${
      y(ratio).toFixed(1)}`).join("L");
    const strong = series.filter(one => chosen.has(one.name));
    for (const one of series) {
      const group = drawn("g", {class: kindOf(one.name)});
      group.append(drawn("title", {}, one.name), drawn("path", {d: path(one.points),
        class: chosen.has(one.name) ? "strong-line" : "faint-line"}));
      if (chosen.has(one.name)) {
        for (const [load, ratio] of one.points) {
          group.append(drawn("circle", {cx: x(load), cy: y(ratio), r: 3, class: "strong-dot"}));
        }
      }
      svg.append(group);
    }
    let above = height;  // names at the lines' ends, from the lowest line up
    for (const one of strong.sort((a, b) => a.points.at(-1)[1] - b.points.at(-1)[1])) {
      const at = Math.min(y(one.points.at(-1)[1]) + 4, above - 14);
      above = at;
      svg.append(drawn("text", {x: width - right + 8, y: at, class: "end"},
        `${one.name} ${number(one.points.at(-1)[1])}`));
    }
    by("lines").replaceChildren(svg);
  };

  const matrix = () => {
    by("all").hidden = workloads.length < 2;
    if (workloads.length < 2) return;
    const names = wanted(), order = names.map(name => {
      const found = workloads.map(w => boardAt(w, state.load)?.rows[name]?.ratio);
      const played = found.filter(value => value !== undefined);
      return {name, found, mean: played.length === found.length ? mean(found) : Infinity};
    }).filter(row => row.found.some(value => value !== undefined))
      .sort((a, b) => a.mean - b.mean);
    const best = workloads.map((_, k) =>
      Math.min(...order.filter(row => !policies[row.name].recorded)
        .map(row => row.found[k] ?? Infinity)));
    const first = make("th", "", "policy");
    first.scope = "col";
    by("names").replaceChildren(first, ...workloads.map(workload => {
      const cell = make("th", "n"), board = boardAt(workload, state.load);
      const button = make("button", "", workload.name + (board?.stationary === false ? "!" : ""));
      button.type = "button";
      button.addEventListener("click", () => {
        by("workload").value = state.workload = workload.name;
        show();
        by("which").scrollIntoView({block: "start"});
        by("workload").focus({preventScroll: true});
      });
      cell.scope = "col";
      cell.append(button, make("small", "", board ? `load ${number(board.load)}` : "–"));
      if (workload.name === state.workload) cell.dataset.now = "";
      return cell;
    }), make("th", "n", "mean"));
    by("cells").replaceChildren(...order.map(row => {
      const line = make("tr", kindOf(row.name)), name = make("th");
      name.scope = "row";
      name.append(make("span", "key"), row.name);
      line.append(name, ...row.found.map((value, k) => {
        const cell = make("td", "n", value === undefined ? "–" : "");
        if (value !== undefined) {
          cell.append(make(value === best[k] ? "b" : "span", "", number(value)));
        }
        return cell;
      }), make("td", "n", isFinite(row.mean) ? number(row.mean) : "–"));
      return line;
    }));
  };

  const show = () => { about(); table(); lines(); matrix(); };

  const begin = () => {
    const option = (value, text) => Object.assign(make("option", "", text), {value});
    by("workload").append(...(workloads.length > 1 ? [option(ALL, "all")] : []),
      ...workloads.map(w => option(w.name, w.name)));
    by("load").append(...loads.map(([key, name]) => option(key, name)));
    by("load-label").hidden = loads.length < 2;
    by("load").value = state.load;
    by("learned").hidden = new Set(Object.values(policies).map(of => of.learned)).size < 2;
    const kinds = new Set(Object.keys(policies).map(kindOf));
    by("kinds").replaceChildren(...Object.keys(KINDS).filter(kind => kinds.has(kind))
      .map(kind => {
        const item = make("li", kind);
        item.append(make("span", "key"), KINDS[kind]);
        return item;
      }));
    heads();
    const rows = rowsNow().filter(row => !policies[row.name].recorded), turns = {};
    for (const row of rows) (turns[kindOf(row.name)] ||= []).push(row.name);
    for (let turn = 0; chosen.size < CHOSEN && turn < rows.length; turn++) {
      for (const names of Object.values(turns)) {
        if (names[turn] && chosen.size < CHOSEN) chosen.add(names[turn]);
      }
    }
    by("workload").addEventListener("change", event => {
      state.workload = event.target.value;
      show();
    });
    by("load").addEventListener("change", event => {
      state.load = event.target.value;
      show();
    });
    by("tools").addEventListener("input", event => {
      if (event.target.tagName === "INPUT") show();
    });
    by("tools").addEventListener("submit", event => event.preventDefault());
    addEventListener("resize", lines);
  };
  begin();
  return {state, show, rowsNow, chosen};
})();
