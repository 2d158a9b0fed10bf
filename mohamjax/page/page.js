/* The report's page: unpacks the data, links charts and tables. Texts from files only become text nodes and values. */
(async () => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const SIGNS = ["●", "▲", "■", "◆", "✚", "▼", "▶", "◀"];
  const COLOURS = ["#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#eeca3b", "#b279a2", "#ff9da6", "#9d755d", "#bab0ac"];
  const PAGE = 50;
  const MANY = 1500; // number of marks from which a canvas is faster than SVG

  // ---------------------------------------------------------------- the data

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  let report;
  try {
    report = await unpack($("data").textContent);
  } catch (error) {
    $("status").textContent = "This browser cannot unpack the report (it needs DecompressionStream, 2023 or later): " + error;
    return;
  }
  const results = report.results;
  const OBJECTIVES = report.objectives.map((objective) => objective.column);
  const PLAIN = ["latency_s", "energy_J", "area_mm2"];
  const field = (k) => "objective_" + k; // of an objective in the charts, as in charts.py
  const rows = [];
  results.forEach((result, r) => {
    result.ids.forEach((id, i) => {
      const values = Object.create(null); // by column, which may have any name, also that of something else in a row
      for (const name in result.columns) values[name] = result.columns[name][i];
      const row = { key: r + ":" + i, r, i, result: result.name, id, whole: i in result.designs, values };
      OBJECTIVES.forEach((name, k) => (row[field(k)] = values[name]));
      rows.push(row);
    });
  });
  const byKey = new Map(rows.map((row) => [row.key, row]));

  // ---------------------------------------------------------------- small helpers

  function element(tag, properties, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
      if (name in made) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
    return made;
  }

  const PREFIXES = { p: 1e-12, n: 1e-9, u: 1e-6, "µ": 1e-6, "μ": 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9 };
  const UNITS = { s: "s", J: "J", W: "W", mm2: "mm²", "mm^2": "mm²", "mm²": "mm²" };

  function si(value, unit, digits = 4) {
    if (typeof value !== "number") return value === undefined ? "" : String(value);
    if (value === 0) return "0 " + unit;
    const size = Math.abs(value);
    const steps = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
    const [scale, prefix] = steps.find(([s]) => size >= s * 0.9999995) || steps[steps.length - 1];
    return plain(value / scale, digits) + " " + prefix + unit;
  }

  /** A value as text; numbers that are not whole are rounded. */
  function plain(value, digits = 5) {
    if (typeof value !== "number" || Number.isInteger(value)) return value === undefined ? "" : String(value);
    return String(Number(value.toPrecision(digits)));
  }

  /** The unit of a column; empty where it has none. */
  function unit(name) {
    if (name.startsWith("n_")) return ""; // a number of chiplets, whatever their template is called
    if (name.startsWith("latency_s") || name.endsWith("_s")) return "s";
    return new Map([["energy_J", "J"], ["power_W", "W"], ["area_mm2", "mm²"]]).get(name) || "";
  }

  const written = (name, value) => (["s", "J", "W"].includes(unit(name)) ? si(value, unit(name)) : plain(value));

  function heading(name) {
    const known = new Map([["latency_s", "latency"], ["energy_J", "energy"], ["area_mm2", "area [mm²]"], ["n_chiplets", "chiplets"], ["power_W", "power"]]);
    if (known.has(name)) return known.get(name);
    if (name.startsWith("latency_s_")) return "latency of " + name.slice(10);
    if (name.startsWith("n_")) return name.slice(2);
    const objective = report.objectives.find((one) => one.column === name);
    if (objective) return objective.label;
    return (unit(name) ? name.replace(/_[A-Za-z0-9]+$/, "") : name).replaceAll("_", " "); // each value has its unit
  }

  const sign = (r) => {
    const mark = element("span", { className: "swatch", ariaHidden: "true" }, SIGNS[r % SIGNS.length]);
    mark.style.color = COLOURS[r % COLOURS.length];
    return mark;
  };

  /** A text that may be broken after underscores and slashes. */
  const broken = (text) => String(text).split(/(?<=[_/])/).flatMap((part, at) => (at ? [element("wbr"), part] : [part]));

  function fill(table, head, body) {
    table.replaceChildren(
      element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, ...body.map((cells) => element("tr", {}, ...cells.map(cell)))),
    );
  }

  const cell = (value) => (value instanceof Node ? element("td", {}, value) : element("td", { className: typeof value === "number" ? "number" : "" }, value === null ? "" : value));

  // ---------------------------------------------------------------- charts

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function theme() {
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map(colour);
    const text = { labelColor: ink, titleColor: ink, labelFont: "system-ui, sans-serif", titleFont: "system-ui, sans-serif", labelFontSize: 11, titleFontSize: 11 };
    return {
      background: null,
      view: { stroke: line },
      axis: { ...text, labelSeparation: 6, gridColor: line, gridOpacity: 0.6, domainColor: soft, tickColor: soft },
      legend: { ...text },
      selection: { interval: { mark: { fill: soft, fillOpacity: 0.15, stroke: soft } } },
    };
  }

  /** A chart with the `$` texts of its specification filled in. */
  function filled(node, values) {
    if (typeof node === "string" && node[0] === "$" && node.slice(1) in values) return values[node.slice(1)];
    if (Array.isArray(node)) return node.map((item) => filled(item, values));
    if (node && typeof node === "object") return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, filled(value, values)]));
    return node;
  }

  const drawn = {};

  async function draw(name, values, data, renderer) {
    const turn = (drawn[name] = { ...drawn[name], turn: ((drawn[name] || {}).turn || 0) + 1 });
    const mine = turn.turn;
    const spec = filled(report.charts[name], { ink: colour("--ink"), paper: colour("--paper"), results: results.map((r) => r.name), ...values });
    const target = element("div");
    const made = await vegaEmbed(target, { ...spec, datasets: data }, {
      actions: false, ast: true, renderer, config: theme(), tooltip: { theme: dark.matches ? "dark" : "light" },
    });
    if (drawn[name].turn !== mine) return made.finalize(), null; // a later drawing has overtaken this one
    if (drawn[name].made) drawn[name].made.finalize();
    drawn[name] = { turn: mine, made };
    $(name + "-chart").replaceChildren(target);
    return made.view;
  }

  const view = (name) => (drawn[name] && drawn[name].made ? drawn[name].made.view : null);
  const room = (name) => Math.max(260, $(name + "-chart").clientWidth || 900);

  // ---------------------------------------------------------------- what is chosen

  /** A column of the table: heading, unit, value of a row, its text in the table, whether it is of numbers, and the filter with its text. */
  function column(name, heading, unit, value, shown = value, number = (one) => one === undefined || typeof one === "number") {
    return { name, heading, unit, value, shown, numeric: rows.every((row) => number(value(row))), test: null, text: "" };
  }

  const listed = new Set([...OBJECTIVES, ...PLAIN, "n_chiplets", ...results.flatMap((result) => Object.keys(result.columns))]);
  const ofFiles = [...listed].map((name) => column(name, heading(name), unit(name), (row) => row.values[name], (row) => written(name, row.values[name])));
  const columns = [
    ...(results.length > 1 ? [column("result", "results", "", (row) => row.result, (row) => element("span", {}, sign(row.r), row.result))] : []),
    column("id", "design", "", (row) => row.id, (row) => row.id, (id) => /^\d+$/.test(id)),
    ...ofFiles,
  ];

  const state = { sort: ofFiles[0], rising: true, brush: null, current: null, page: 0, shown: [], chosen: [] };

  const NUMBER = "([-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:e[-+]?\\d+)?)\\s*([pnuµμmkMG]?)(s|J|W|mm2|mm\\^2|mm²)?";
  const LIMIT = new RegExp("^(<=|>=|<|>|=)?\\s*" + NUMBER + "$"), RANGE = new RegExp("^" + NUMBER + "\\s*\\.\\.\\s*" + NUMBER + "$");

  /** Parses a filter to a test of a column's value, null if it is invalid: limits of numbers, in the column's unit; else texts. */
  function test(text, { numeric, unit }) {
    text = text.trim();
    if (!numeric) {
      const whole = text.startsWith("="), part = text.replace(/^=\s*/, "").toLowerCase();
      const lower = (value) => String(value === undefined ? "" : value).toLowerCase();
      return (value) => (whole ? lower(value) === part : lower(value).includes(part));
    }
    const amount = ([digits, prefix, own]) => (own && UNITS[own] !== unit ? NaN : Number(digits) * PREFIXES[prefix]);
    const limit = text.match(LIMIT), range = text.match(RANGE);
    const how = (limit && limit[1]) || "=";
    const low = limit ? amount(limit.slice(2)) : range ? amount(range.slice(1, 4)) : NaN, high = range ? amount(range.slice(4)) : low;
    if (Number.isNaN(low) || Number.isNaN(high)) return null;
    const least = low - Math.abs(low) * 1e-6, most = high + Math.abs(high) * 1e-6; // what is shown has fewer digits
    const kept = {
      "<": (v) => v < low, "<=": (v) => v <= most, ">": (v) => v > high, ">=": (v) => v >= least, "=": (v) => v >= least && v <= most,
    };
    return (value) => kept[how](Number(value));
  }

  function refilter() {
    const tests = columns.filter((one) => one.test).map((one) => (row) => one.test(one.value(row)));
    if ($("only-whole").checked) tests.push((row) => row.whole);
    state.shown = rows.filter((row) => tests.every((one) => one(row)));
    reselect();
  }

  function reselect() {
    const brush = Object.entries(state.brush || {}).map(([key, [a, b]]) => [key, Math.min(a, b), Math.max(a, b)]);
    const inside = (row) => brush.every(([key, low, high]) => row[key] >= low && row[key] <= high);
    const turn = state.rising ? 1 : -1, { value } = state.sort;
    state.chosen = state.shown.filter(inside).sort((a, b) => compare(value(a), value(b), turn));
    state.page = Math.max(0, Math.min(state.page, Math.ceil(state.chosen.length / PAGE) - 1));
    const selected = brush.length ? ", of them " + state.chosen.length + " selected in the front" : "";
    $("count").textContent = state.shown.length + " of " + rows.length + " designs pass the filters" + selected + ".";
    $("clear-brush").disabled = $("keep-brush").disabled = !brush.length;
    writeRows();
  }

  // ---------------------------------------------------------------- results and front

  function writeSummary() {
    const body = results.map((result, r) => {
      const last = result.history.hypervolume.length - 1;
      const facts = Object.fromEntries(result.facts);
      return [
        element("span", {}, sign(r), result.name), result.title, result.kind, result.ids.length,
        result.undominated,
        ...OBJECTIVES.map((name) => written(name, result.columns[name].reduce((a, b) => Math.min(a, b), Infinity))),
        last >= 0 ? result.history.evaluations[last] : "",
        facts["hypervolume of what is possible"] || "", facts["certified gap"] || "",
      ];
    });
    const head = ["results", "title", "kind", "designs", "undominated by other results", ...OBJECTIVES.map((name) => "least " + heading(name)), "evaluations", "hypervolume of what is possible", "certified gap"];
    const kept = head.map((_, at) => at).filter((at) => body.some((line) => line[at] !== "" && line[at] !== null));
    fill($("summary"), kept.map((at) => head[at]), body.map((line) => kept.map((at) => line[at])));
    $("front-hint").textContent = (results.length > 1 ? "Colours and signs are those of the results above. " : "") + "Drag in a projection to select designs in all three and in the table; a click shows a design below. With the keyboard, select by the filters of the table." +
      (results.some((result) => result.bounds.length) ? " Dashed: no design over the mappings found lies to the left of it or below it (bounds.json)." : "");
  }

  const boundRows = results.flatMap((result) => result.bounds.flatMap((curve, projection) => curve.x.map((x, order) => ({ result: result.name, projection, order, x, y: curve.y[order] }))));

  async function drawFront() {
    const wide = room("front");
    const columns = wide > 900 ? 3 : wide > 620 ? 2 : 1;
    const width = Math.floor((wide - 10) / columns) - 92;
    const point = rows.length > 1000 ? 16 : rows.length > 150 ? 26 : 46;
    state.front = width;
    const size = { width, height: Math.min(330, Math.max(210, width)), columns, point };
    const made = await draw("front", { ...size, ...limits() },
      { designs: state.shown, current: current(), bounds: boundRows }, rows.length * 3 > MANY ? "canvas" : "svg");
    if (!made) return;
    state.brush = null;
    made.addSignalListener("brush", (_, value) => {
      if (view("front") !== made) return;
      state.brush = value && Object.keys(value).length ? value : null;
      clearTimeout(state.waiting);
      state.waiting = setTimeout(reselect, 40);
    });
    made.addEventListener("click", (_, item) => {
      if (item && item.datum && item.datum.key) show(item.datum.key);
    });
    reselect();
  }

  const current = () => (state.current ? [byKey.get(state.current)] : []);

  const STEPS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1]];

  /** Ticks of a log axis, as many as fit, the same in every decade and its beginning first; null for Vega's own ticks. */
  function ticks(low, high) {
    const room = 46 * Math.log10(high / low) / state.front; // decades that a label takes
    const gap = (steps) => Math.min(...steps.map((step, i) => Math.log10((steps[i + 1] || 10) / step)));
    const steps = STEPS.find((steps) => gap(steps) >= room) || [1], every = Math.max(1, Math.ceil(room));
    const found = [];
    for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++)
      if (decade % every === 0) found.push(...steps.map((step) => Number(step + "e" + decade)).filter((value) => value >= low && value <= high));
    return found.length > 1 ? found : null;
  }

  /** Limits and ticks of the axes for the designs that pass the filters. */
  function limits() {
    const found = {};
    report.objectives.forEach((objective, k) => {
      const key = field(k);
      if (!objective.log) {
        const values = state.shown.map((row) => row[key]);
        const least = values.reduce((a, b) => Math.min(a, b), Infinity), most = values.reduce((a, b) => Math.max(a, b), -Infinity);
        const room = 0.06 * (most - least) || 0.05 * Math.abs(most) || 1;
        found[key + "_low"] = Number.isFinite(least) ? least - room : 0;
        found[key + "_high"] = Number.isFinite(most) ? most + room : 1;
        found[key + "_ticks"] = null;
        return;
      }
      let low = Infinity, high = 0;
      for (const row of state.shown) if (row[key] > 0) (low = Math.min(low, row[key])), (high = Math.max(high, row[key]));
      if (!(low <= high)) low = high = 1;
      const margin = Math.max(Math.pow(high / low, 0.06), 1.05);
      found[key + "_low"] = low / margin;
      found[key + "_high"] = high * margin;
      found[key + "_ticks"] = ticks(low / margin, high * margin);
    });
    return found;
  }

  function refreshFront() {
    const view_ = view("front");
    if (!view_) return;
    for (const [name, value] of Object.entries(limits())) view_.signal(name, value);
    view_.resize().data("designs", state.shown).data("current", current()).runAsync();
  }

  function drawConvergence() {
    const data = results.flatMap((result) => result.history.evaluations.map((evaluations, i) => ({ result: result.name, evaluations, hypervolume: result.history.hypervolume[i] })));
    $("convergence").hidden = !data.length;
    if (!data.length) return;
    return draw("convergence", { width: Math.min(760, room("convergence") - 80) }, { history: data }, data.length > MANY ? "canvas" : "svg");
  }

  // ---------------------------------------------------------------- the table

  /** A column heading that sorts a table; `sorted` is 1 or -1 if the table is sorted by it now. */
  function title(text, sorted, act) {
    const button = element("button", { type: "button", onclick: act }, ...broken(text));
    return element("th", { scope: "col", "aria-sort": { 1: "ascending", [-1]: "descending" }[sorted] || "none" }, button, { 1: " ▲", [-1]: " ▼" }[sorted] || "");
  }

  /** Order of two values, upward or downward; missing ones come last both ways. */
  function compare(x, y, turn) {
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
    if (typeof x === "number" && typeof y === "number") return turn * (x - y);
    return turn * String(x).localeCompare(String(y), undefined, { numeric: true });
  }

  function writeHead() {
    const titles = columns.map((one) => title(one.heading, one === state.sort && (state.rising ? 1 : -1), () => sortBy(one)));
    const filters = columns.map((one) => {
      one.input = element("input", { type: "text", "aria-label": "filter " + one.heading, value: one.text });
      one.input.dataset.column = one.name;
      one.input.addEventListener("input", () => filter(one));
      return element("th", {}, one.input);
    });
    $("designs").replaceChildren(
      element("thead", {}, element("tr", {}, ...titles, element("th", { scope: "col" }, "details")), element("tr", { className: "filters" }, ...filters, element("th"))),
      element("tbody", { id: "rows" }),
    );
  }

  /** Filters by what the input of a column says. */
  function filter(one) {
    const { input, unit } = one, found = input.value.trim() ? test(input.value, one) : undefined;
    input.setAttribute("aria-invalid", found === null ? "true" : "false");
    input.title = found === null ? "not understood: write < 40 " + unit + ", >= 2, = 3 or 1..5" : "";
    one.text = input.value;
    if (found === null) return;
    one.test = found;
    state.page = 0;
    refilter();
    refreshFront();
  }

  function sortBy(one) {
    state.rising = state.sort === one ? !state.rising : true;
    state.sort = one;
    state.page = 0;
    writeHead();
    reselect();
    $("designs").querySelectorAll("thead button")[columns.indexOf(one)].focus();
  }

  function writeRows() {
    const body = $("rows");
    if (!body) return;
    const first = state.page * PAGE;
    const shown = state.chosen.slice(first, first + PAGE);
    const reachable = shown.some((row) => row.key === state.current) ? state.current : shown.length ? shown[0].key : null;
    body.replaceChildren(...shown.map((row) => {
      const cells = columns.map((one) => element("td", { className: one.numeric ? "number" : "" }, one.shown(row)));
      const line = element("tr", { tabIndex: row.key === reachable ? 0 : -1, "aria-selected": String(row.key === state.current) }, ...cells, element("td", {}, row.whole ? "yes" : ""));
      line.dataset.key = row.key;
      return line;
    }));
    const pages = Math.max(1, Math.ceil(state.chosen.length / PAGE));
    $("page-number").textContent = "page " + (state.page + 1) + " of " + pages;
    $("page-back").disabled = state.page === 0;
    $("page-on").disabled = state.page >= pages - 1;
  }

  /** Goes to the design at a place of the table, on any page. */
  function go(place, focus) {
    if (!state.chosen.length) return;
    const row = state.chosen[Math.max(0, Math.min(place, state.chosen.length - 1))];
    show(row.key);
    if (focus) $("rows").querySelector('tr[tabindex="0"]').focus();
  }

  const place = () => state.chosen.findIndex((row) => row.key === state.current);

  $("designs").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-key]");
    if (line) show(line.dataset.key), $("rows").querySelector('tr[tabindex="0"]').focus();
  });
  $("designs").addEventListener("keydown", (event) => {
    const line = event.target.closest("tr[data-key]");
    if (!line || event.target !== line) return;
    const at = state.chosen.findIndex((row) => row.key === line.dataset.key);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: state.chosen.length - 1, PageDown: at + PAGE, PageUp: at - PAGE, " ": at };
    if (event.key === "Enter") {
      event.preventDefault();
      go(at, false);
      $("design").focus();
    } else if (event.key in steps) {
      event.preventDefault();
      go(steps[event.key], true);
    }
  });

  // ---------------------------------------------------------------- one design

  function show(key) {
    state.current = key;
    const at = place();
    if (at >= 0) state.page = Math.floor(at / PAGE);
    writeRows();
    const front = view("front");
    if (front) front.data("current", current()).runAsync();
    clearTimeout(state.drawing);
    state.drawing = setTimeout(writeDesign, 60);
  }

  function writeDesign() {
    const row = byKey.get(state.current);
    if (!row) return;
    const result = results[row.r], design = result.designs[row.i];
    const roles = Object.keys(result.roles).filter((role) => result.roles[role] === row.i);
    $("design-title").replaceChildren("Design ", row.id, roles.length ? " (" + roles.join(", ") + ")" : "", results.length > 1 ? " of " : "", ...(results.length > 1 ? [sign(row.r), result.name] : []));
    $("design-head").replaceChildren(element("p", {}, [...new Set([...OBJECTIVES, ...PLAIN])].map((name) => heading(name).replace(" [mm²]", "") + " " + written(name, row.values[name]) + (name === "area_mm2" ? " mm²" : "")).join(", ") + ", " + row.values.n_chiplets + (row.values.n_chiplets === 1 ? " chiplet" : " chiplets")));
    $("details").hidden = !design;
    $("no-details").hidden = Boolean(design);
    if (!design) {
      const near = nearest(row);
      $("no-details").replaceChildren(
        "Schedule, shares and mappings of this design are not in the page, which holds those of " + Object.keys(result.designs).length + " of " + result.ids.length + " designs. “mohamjax report --design” with its number adds them. ",
        ...(near ? [element("button", { type: "button", onclick: () => show(near.key) }, "Show the nearest design with details (" + near.id + ")")] : []),
      );
      return;
    }
    const about = tell(result, design, row);
    drawSchedule(result, design, about, row);
    drawShares(result, design, about);
    drawFloor(result, design, about);
    drawRoofs(result, design, about);
    writeChiplets(result, design, about);
    writeNetworks(result, design, about, row);
    writeTypes(design);
    writeLayers(result, design, about);
  }

  /** The design with details that is nearest in latency, energy and area on log axes, of the same results. */
  function nearest(row) {
    let best = null, least = Infinity;
    for (const other of rows) {
      if (other.r !== row.r || !other.whole) continue;
      const distance = PLAIN.reduce((sum, name) => sum + Math.log(other.values[name] / row.values[name]) ** 2, 0);
      if (distance < least) (best = other), (least = distance);
    }
    return best;
  }

  /** Data of the charts of a design. */
  function tell(result, design, row) {
    const lanes = design.chiplets.map((chip, k) => k + " " + result.templates[chip.template].name + " (M" + chip.interface + ")");
    const latency = design.start_ns.reduce((most, start, i) => Math.max(most, start + design.length_ns[i]), 0) * 1e-9 || row.values.latency_s;
    const bars = result.layers.map((layer, number) => {
      const nest = result.nests[design.nest[number]];
      return {
        number, layer: layer.name, network: result.networks[layer.network], lane: lanes[design.chiplet[number]],
        start: design.start_ns[number] * 1e-9, end: (design.start_ns[number] + design.length_ns[number]) * 1e-9,
        alone: nest.alone_s, bytes: nest.bytes, energy: design.energy_J[number], lost: 0, nest: design.nest[number],
        rate: design.macs_per_cycle[number], use: design.utilisation[number], intensity: nest.intensity, bound: design.bound[number],
      };
    });
    for (const [number, , length, rate] of design.slowed) bars[number].lost += (length * (1 - rate)) / Math.max(design.length_ns[number], 1);
    const slowed = design.slowed.map(([number, start, length, rate, cause]) => ({
      layer: bars[number].layer, lane: bars[number].lane, start: start * 1e-9, end: (start + length) * 1e-9, lost: 1 - rate, cause,
    }));
    const most = design.traffic.reduce((high, one) => Math.max(high, ...one.rate), 0);
    const traffic = design.traffic.flatMap((one, k) => one.rate.slice(0, -1).map((rate, i) => {
      const share = Math.min(1, rate / (one.bandwidth || most || 1));
      return {
        resource: one.name, start: one.from_ns[i] * 1e-9, end: one.from_ns[i + 1] * 1e-9, share, foot: k + 0.95, top: k + 0.95 - 0.85 * share,
        written: si(rate, "B/s", 3), limit: one.bandwidth ? si(one.bandwidth, "B/s", 3) : "unlimited",
      };
    })).filter((one) => one.share > 0);
    // The energies of the layers lack what leaks from the chiplets; those of the chiplets are the whole.
    const energy = sum(design.chiplets.flatMap((chip) => chip.energy));
    return { lanes, latency, bars, slowed, traffic, energy };
  }

  async function drawSchedule(result, design, about, row) {
    const wide = room("schedule") - 190;
    const lane = design.chiplets.length > 8 ? 24 : 32;
    const values = {
      width: wide, gantt: lane * design.chiplets.length, latency: about.latency, lanes: about.lanes, networks: result.networks,
      foot: lane * 0.31, resources: 26 * design.traffic.length, rows: design.traffic.length,
      middles: design.traffic.map((_, k) => k + 0.5), names: design.traffic.map((one) => one.name),
    };
    const data = { bars: about.bars, slowed: about.slowed, traffic: about.traffic };
    const many = about.bars.length + about.slowed.length + about.traffic.length > MANY;
    const view = await draw("schedule", values, data, many ? "canvas" : "svg");
    if (!view) return;
    state.latency = about.latency;
    view.addEventListener("click", (_, item) => {
      if (item && item.datum && item.datum.number !== undefined) pick(item.datum.number, true);
    });
    $("schedule-chart").dataset.design = row.key;
  }

  function zoom(factor, shift) {
    const chart = view("schedule");
    if (!chart) return;
    const whole = [0, state.latency];
    const now = chart.signal("zoom_start") || whole;
    const middle = (now[0] + now[1]) / 2 + shift * (now[1] - now[0]), half = (now[1] - now[0]) * factor * 0.5;
    let low = Math.max(0, middle - half), high = low + 2 * half;
    if (high > state.latency) (high = state.latency), (low = Math.max(0, high - 2 * half));
    chart.signal("zoom_start", factor ? [low, high] : whole).runAsync();
  }

  function drawShares(result, design, about) {
    const wide = Math.max(240, $("energy-chart").clientWidth - 190);
    const stacks = 24 * about.lanes.length + 8;
    const energy = design.chiplets.flatMap((chip, k) => chip.energy.map((value, number) => ({ lane: about.lanes[k], part: result.parts[number], number, value })));
    const names = [...new Set(design.chiplets.flatMap((chip) => chip.area.map(([name]) => name)))];
    const area = design.chiplets.flatMap((chip, k) => chip.area.map(([part, value]) => ({ lane: about.lanes[k], part, number: names.indexOf(part), value })));
    for (const data of [energy, area]) {
      const total = data.reduce((sum, one) => sum + one.value, 0) || 1;
      for (const one of data) one.share = one.value / total;
    }
    const values = { width: wide, stacks, lanes: about.lanes };
    draw("energy", { ...values, energyParts: result.parts }, { energy }, "svg");
    draw("area", { ...values, areaParts: names }, { area }, "svg");
  }

  const sum = (values) => values.reduce((a, b) => a + b, 0);

  /** The roofline of every chiplet, all on the same axes. */
  function drawRoofs(result, design, about) {
    const told = (bar) => [
      ["", plain(bar.rate, 4) + " MACs per cycle (" + percent(bar.use, 1) + " of the chiplet's)"],
      ["", plain(bar.intensity, 4) + " MACs per byte off the chiplet"],
      ["bound by ", new Map([["MACs", "the MACs"], ["mapping", "its mapping, which leaves at least half of the MACs idle"]]).get(bar.bound) ?? bar.bound],
    ];
    const panels = design.chiplets.map((chip, k) => ({
      ...chip.roof, decades: design.roof_decades,
      caption: k + " " + result.templates[chip.template].name + ": " + chip.roof.peak + (chip.roof.peak === 1 ? " MAC, " : " MACs, ") +
        (chip.roof.bandwidth === null ? "no limit off the chiplet" : plain(chip.roof.bandwidth, 3) + " B per cycle (" + chip.roof.resource + ")"),
      layers: about.bars.filter((bar) => bar.lane === about.lanes[k]).map((bar) => ({
        number: bar.number, name: bar.network + " / " + bar.layer, colour: COLOURS[result.layers[bar.number].network % COLOURS.length],
        intensity: bar.intensity, rate: bar.rate, told: told(bar),
      })),
    }));
    $("roofs").replaceChildren(...rooflines(panels, (number) => pick(number, true)));
  }

  const size = (bytes) => (bytes < 1024 ? plain(bytes, 3) + " B" : plain(bytes / 1024, 3) + " KiB");

  /** A chiplet in the units of architects: MACs, buffer bytes, TOPS, utilisation, power. */
  function figures(result, design, about, k) {
    const chip = design.chiplets[k], template = result.templates[chip.template];
    const own = about.bars.filter((bar) => bar.lane === about.lanes[k]);
    const fanouts = chip.levels.map(([, x, y]) => x * y), macs = fanouts.reduce((all, one) => all * one, 1);
    const levels = template.levels.map((name, v) => {
      const words = chip.levels[v][0], instances = fanouts.slice(v + 1).reduce((all, one) => all * one, 1);
      return { name, words, instances, bytes: words === null ? null : (words * template.bits[v]) / 8, x: chip.levels[v][1], y: chip.levels[v][2] };
    });
    const done = sum(own.map((bar) => result.layers[bar.number].macs)), energy = sum(chip.energy), area = sum(chip.area.map(([, mm2]) => mm2));
    const busy = sum(own.map((bar) => bar.end - bar.start));
    return {
      template: template.name, macs, levels, layers: own.length, energy, area, busy, done, tops: (2e-12 * macs) / report.cycle_s,
      utilisation: done / ((macs * busy) / report.cycle_s || 1), power: energy / about.latency,
    };
  }

  /** The chiplets on the mesh, to scale, with the routes of their data to the memory interfaces. */
  function drawFloor(result, design, about) {
    const { columns, chiplets, interfaces } = design.floor, side = 118, edge = 64;
    const high = Math.max(...chiplets.map(([, y]) => y)) + 1, known = chiplets.map((_, k) => figures(result, design, about, k));
    const largest = Math.max(...known.map((one) => one.area));
    const middle = ([x, y]) => [edge + (Math.min(Math.max(x, -0.77), columns - 0.23) + 0.5) * side, 8 + (y + 0.5) * side];
    const width = columns * side + 2 * edge, height = high * side + 16;
    const drawing = shape("svg", { viewBox: "0 0 " + width + " " + height, width, height, role: "img", "aria-label": known.map((one, k) => "chiplet " + k + ", " + one.template + ", " + plain(one.area, 3) + " mm², " + design.chiplets[k].hops + " hops to M" + design.chiplets[k].interface).join("; ") });
    for (let y = 0; y < high; y++) for (let x = 0; x < columns; x++) {
      const [cx, cy] = middle([x, y]);
      if (x + 1 < columns) drawing.append(shape("line", { x1: cx, y1: cy, x2: cx + side, y2: cy, class: "link" }));
      if (y + 1 < high) drawing.append(shape("line", { x1: cx, y1: cy, x2: cx, y2: cy + side, class: "link" }));
    }
    const moved = known.map((_, k) => sum(about.bars.filter((bar) => bar.lane === about.lanes[k]).map((bar) => bar.bytes)));
    const most = Math.max(...moved) || 1;
    chiplets.forEach(([x, y], k) => {
      const [ix, iy] = interfaces[design.chiplets[k].interface], corner = [middle([x, iy])[0], middle([ix, iy])[1]];
      const path = [middle([ix, iy]), corner, middle([x, y])].map((p) => p.join(",")).join(" ");
      drawing.append(shape("polyline", { points: path, class: "way", "stroke-width": 1 + 6 * moved[k] / most }));
    });
    interfaces.forEach((place, i) => {
      const [cx, cy] = middle(place), used = design.traffic.find((one) => one.name === "interface " + i);
      const flowed = used ? sum(used.rate.slice(0, -1).map((rate, n) => rate * (used.from_ns[n + 1] - used.from_ns[n]) * 1e-9)) : 0;
      const share = used && used.bandwidth ? percent(flowed, used.bandwidth * about.latency) : "";
      drawing.append(
        shape("rect", { x: cx - 26, y: cy - 20, width: 52, height: 40, class: "interface" }),
        shape("text", { x: cx, y: cy - 2 }, "M" + i), shape("text", { x: cx, y: cy + 13, class: "small" }, share),
        shape("title", {}, "memory interface " + i + (used && used.bandwidth ? ", " + si(used.bandwidth, "B/s", 3) + ", " + share + " used" : "")),
      );
    });
    known.forEach((one, k) => {
      const [cx, cy] = middle(chiplets[k]), own = Math.max(10, 0.86 * side * Math.sqrt(one.area / largest)), roomy = own > 62;
      const colour = COLOURS[design.chiplets[k].template % COLOURS.length];
      const counted = one.macs + (one.macs === 1 ? " MAC" : " MACs");
      const told = "chiplet " + k + ": " + one.template + ", " + counted + ", " + plain(one.area, 4) + " mm², " + design.chiplets[k].hops + " hops, " + si(moved[k], "B", 3);
      const group = shape("g", {},
        shape("title", {}, told),
        shape("rect", { x: cx - own / 2, y: cy - own / 2, width: own, height: own, class: "die", stroke: colour }),
        shape("rect", { x: cx - own / 2, y: cy - own / 2, width: own, height: own, fill: colour, "fill-opacity": 0.3 }),
      );
      const lines = [k + " " + one.template, counted, plain(one.area, 3) + " mm²"];
      lines.forEach((text, n) => group.append(shape("text", { x: cx, y: roomy ? cy - 10 + 15 * n : cy + own / 2 + 12 + 13 * n, class: n ? "small" : "" }, text)));
      drawing.append(group);
    });
    $("floor").replaceChildren(drawing);
  }

  function writeChiplets(result, design, about) {
    const areas = sum(design.chiplets.flatMap((chip) => chip.area.map(([, mm2]) => mm2)));
    fill($("chiplets"), ["chiplet", "template", "MACs", "peak", "utilisation", "interface", "hops", "layers", "busy", "energy", "power", "area", "buffers, innermost first"], design.chiplets.map((chip, k) => {
      const one = figures(result, design, about, k);
      const levels = one.levels.filter((level) => level.bytes !== null).map((level) => level.name + " " + (level.instances > 1 ? level.instances + " × " : "") + size(level.bytes));
      return [
        k, one.template, one.macs, plain(one.tops, 3) + " TOPS", percent(one.utilisation, 1), "M" + chip.interface, chip.hops, one.layers,
        percent(one.busy, about.latency), si(one.energy, "J") + " (" + percent(one.energy, about.energy) + ")", si(one.power, "W", 3),
        plain(one.area, 4) + " mm² (" + percent(one.area, areas) + ")", levels.join(", "),
      ];
    }));
  }

  const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(1) + " %" : "");

  function writeNetworks(result, design, about) {
    const spent = (energy) => si(energy, "J") + " (" + percent(energy, about.energy) + ")";
    const body = result.networks.map((name) => {
      const own = about.bars.filter((bar) => bar.network === name);
      const energy = sum(own.map((bar) => bar.energy)), busy = sum(own.map((bar) => bar.end - bar.start));
      return [name, own.length, si(Math.max(0, ...own.map((bar) => bar.end)), "s"), spent(energy), percent(sum(own.map((bar) => bar.lost * (bar.end - bar.start))), busy)];
    });
    const at = result.parts.indexOf("leakage"); // the chiplets leak whatever runs, so this energy is of no network
    if (at >= 0) body.push(["(leakage of the chiplets)", "", "", spent(sum(design.chiplets.map((chip) => chip.energy[at]))), ""]);
    fill($("networks"), ["network", "layers", "latency", "energy", "time lost to bandwidth"], body);
  }

  function writeTypes(design) {
    fill($("types"), ["type", "layers", "busy", "MACs per cycle", "utilisation", "computing", "waits for buffers", "waits off-chip"], design.types.map(
      ([type, layers, busy, rate, use, ...shares]) => [type, layers, si(busy, "s"), plain(rate, 4), percent(use, 1), ...shares.map((share) => percent(share, 1))],
    ));
  }

  /** Columns of the table of layers: heading, value, and format of numbers; texts have no format. */
  const LAYERS = [
    ["layer", (bar) => bar.layer], ["network", (bar) => bar.network], ["chiplet", (bar) => bar.lane],
    ["start", (bar) => bar.start, (v) => si(v, "s", 5)], ["takes", (bar) => bar.end - bar.start, (v) => si(v, "s")],
    ["lost", (bar) => bar.lost, (v) => percent(v, 1)], ["MACs per cycle", (bar) => bar.rate, (v) => plain(v, 4)],
    ["utilisation", (bar) => bar.use, (v) => percent(v, 1)], ["bound by", (bar) => bar.bound], ["energy", (bar) => bar.energy, (v) => si(v, "J", 3)],
  ];

  function writeLayers(result, design, about) {
    state.layers = { result, about, by: null, turn: 1 };
    listLayers(0);
  }

  /** Writes the table of layers, sorted by a column (at first in the order of the networks), with one layer picked. */
  function listLayers(picked) {
    const { about, by, turn } = state.layers;
    const bars = by === null ? about.bars : [...about.bars].sort((a, b) => compare(LAYERS[by][1](a), LAYERS[by][1](b), turn));
    const body = bars.map((bar) => {
      const line = element("tr", {}, ...LAYERS.map(([, value, write]) => element("td", { className: write ? "number" : "" }, ...(write ? [write(value(bar))] : broken(value(bar))))));
      line.dataset.number = bar.number;
      return line;
    });
    const sortBy = (at) => {
      Object.assign(state.layers, { by: at, turn: at === by ? -turn : 1 });
      listLayers(Number($("layers").querySelector('tr[aria-selected="true"]').dataset.number));
      $("layers").querySelectorAll("thead button")[at].focus();
    };
    $("layers").replaceChildren(
      element("thead", {}, element("tr", {}, ...LAYERS.map(([text], at) => title(text, at === by && turn, () => sortBy(at))))),
      element("tbody", {}, ...body),
    );
    pick(picked, false, true);
  }

  /** Shows the loop nest of a layer and marks it in the schedule. */
  function pick(number, scroll, quiet) {
    const { result, about } = state.layers, bar = about.bars[number];
    if (!bar) return;
    for (const line of $("layers").tBodies[0].rows) {
      const own = Number(line.dataset.number) === number;
      line.setAttribute("aria-selected", String(own));
      line.tabIndex = own ? 0 : -1;
      if (own && scroll) line.scrollIntoView({ block: "nearest" });
    }
    for (const point of $("roofs").querySelectorAll(".layer")) point.setAttribute("aria-pressed", String(Number(point.dataset.number) === number));
    const layer = result.layers[number], nest = result.nests[bar.nest];
    $("nest-title").textContent = bar.network + " / " + layer.name + " (" + layer.type + " " + layer.shape + ") on chiplet " + bar.lane + ": " +
      si(layer.macs, "MACs") + ", " + si(bar.alone, "s") + " without off-chip limits, " + si(bar.bytes, "B") + " off-chip";
    $("nest").textContent = nest.text;
    const chart = view("schedule");
    if (chart && !quiet) chart.signal("picked", number).runAsync();
  }

  $("layers").addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-number]");
    if (line) pick(Number(line.dataset.number)), line.focus();
  });
  $("layers").addEventListener("keydown", (event) => {
    const line = event.target.closest("tr[data-number]");
    if (!line) return;
    const lines = [...$("layers").tBodies[0].rows], last = lines.length - 1, at = lines.indexOf(line);
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last, PageDown: at + 15, PageUp: at - 15 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    pick(Number(lines[Math.max(0, Math.min(last, steps[event.key]))].dataset.number), true);
    $("layers").querySelector('tr[tabindex="0"]').focus();
  });

  // ---------------------------------------------------------------- provenance

  function writeProvenance() {
    $("facts").replaceChildren(...results.map((result, r) => element("article", {},
      element("h3", {}, sign(r), result.name),
      element("dl", {}, ...result.facts.flatMap(([what, value]) => [element("dt", {}, what), element("dd", {}, value)])),
      result.config ? element("details", { className: "controls" }, element("summary", {}, "all settings (config.yaml)"), element("pre", { tabIndex: 0 }, result.config)) : null,
    )), element("p", { className: "hint" }, "Page made by mohamjax " + report.mohamjax + "."));
  }

  // ---------------------------------------------------------------- joining it all

  const clicks = {
    "clear-brush": drawFront,
    "keep-brush": () => {
      const brush = state.brush || {};
      OBJECTIVES.forEach((name, k) => {
        if (!(field(k) in brush)) return;
        const [a, b] = brush[field(k)], one = ofFiles.find((own) => own.name === name);
        one.input.value = plain(Math.min(a, b), 6) + ".." + plain(Math.max(a, b), 6);
        filter(one);
      });
      drawFront();
    },
    "clear-filters": () => {
      for (const one of columns) Object.assign(one, { test: null, text: "" });
      $("only-whole").checked = false;
      writeHead();
      refilter();
      refreshFront();
    },
    "only-whole": () => (refilter(), refreshFront()),
    "page-back": () => (state.page--, writeRows()),
    "page-on": () => (state.page++, writeRows()),
    "design-back": () => go(place() - 1),
    "design-on": () => go(place() + 1),
    "zoom-in": () => zoom(0.5, 0),
    "zoom-out": () => zoom(2, 0),
    "zoom-left": () => zoom(1, -0.4),
    "zoom-right": () => zoom(1, 0.4),
    "zoom-all": () => zoom(0, 0),
  };
  for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);

  async function drawAll() {
    document.documentElement.classList.toggle("dark", dark.matches);
    await drawFront();
    drawConvergence();
    writeDesign();
  }

  dark.addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => {
    clearTimeout(state.resizing);
    state.resizing = setTimeout(() => {
      if (Math.abs(innerWidth - width) > 40) (width = innerWidth), drawAll();
    }, 200);
  });

  $("main").hidden = false;
  writeSummary();
  writeHead();
  writeProvenance();
  refilter();
  const start = byKey.get("0:" + results[0].opens) || state.chosen[0];
  state.current = (start.whole ? start : state.chosen.find((row) => row.whole) || start).key;
  state.page = Math.floor(place() / PAGE);
  reselect();
  await drawAll();
  $("designs").parentNode.scrollTop = $("rows").querySelector('tr[tabindex="0"]').offsetTop - 150;
  $("status").textContent = "";
  document.documentElement.dataset.ready = "yes";
})();
