"use strict";
// The page's own script. No score is computed here: all numbers come from the data in the page.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const root = document.documentElement;
  const OUTCOMES = ["true negative", "false alarm", "missed event", "hit", "unknown"];
  const [TN, FP, FN, TP] = [0, 1, 2, 3];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const printing = matchMedia("print");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const state = { model: 0, index: 0, stretch: 0 };
  let printed = false;

  // ------------------------------------------------------------------------------------------------ numbers

  // Running sums of whole numbers, over a power of ten; null stays null and adds nothing.
  function unpack(column) {
    const up = 10 ** Math.abs(column.k);
    let sum = 0;
    return column.d.map((step) => {
      if (step === null) return null;
      sum += step;
      return column.k < 0 ? sum * up : sum / up;
    });
  }

  function decimals(value, places) {
    const text = Math.abs(value).toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
    return value < 0 && /[1-9]/.test(text) ? "−" + text : text;
  }
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const score = (value) => (isNumber(value) ? decimals(value, Math.abs(value) < 100 ? 3 : 1) : "–");
  const cell = (value) => {
    if (!isNumber(value)) return "–";
    return decimals(value, Number.isInteger(value) ? 0 : Math.abs(value) < 1000 ? 2 : 1);
  };
  function threshold(value) {
    const near = Math.min(Math.abs(value), Math.abs(1 - value));
    const places = near === 0 || near >= 0.001 ? 4 : Math.min(12, 1 - Math.floor(Math.log10(near)));
    const text = decimals(value, places);
    return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
  }

  for (const model of data.models) {
    for (const kind of [model.plain, model.weighted]) {
      if (!kind) continue;
      kind.cells = kind.cells.map(unpack);
      for (const name of Object.keys(kind.scores)) kind.scores[name] = unpack(kind.scores[name]);
    }
    for (const one of model.stretches) {
      one.steps = unpack(one.steps);
      one.predictions = unpack(one.predictions);
    }
  }

  // The place of a threshold: that of the last which is not greater.
  function placeOf(thresholds, value) {
    let low = 0, high = thresholds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (thresholds[middle] <= value) low = middle + 1; else high = middle;
    }
    return Math.max(0, low - 1);
  }

  // ------------------------------------------------------------------------------------------------- plots

  // The plotting library takes some tags for its own, and fills in %{…}: a user's text is neither markup nor template.
  const plain = (text) => String(text).replace(/[&<>%]/g, (one) => `&#${one.charCodeAt(0)};`);
  const token = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const colour = (i) => token("c" + (i % 6));
  const inside = (value) => Math.min(1, Math.max(0, value));
  const narrow = () => innerWidth < 560;

  function layout(more) {
    const axis = { gridcolor: token("grid"), linecolor: token("line"), zerolinecolor: token("line"), automargin: true };
    const made = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: token("ink") },
      margin: { l: 56, r: 16, t: 12, b: 52 },
      hoverlabel: { bgcolor: token("paper"), bordercolor: token("soft"), font: { color: token("ink") }, align: "left" },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
      hovermode: "closest", dragmode: matchMedia("(pointer: fine)").matches ? "zoom" : false,
      ...more,
    };
    if (printed) made.width = 680;
    for (const name of Object.keys(made)) if (/^[xy]axis/.test(name)) made[name] = { ...axis, ...made[name] };
    return made;
  }
  const draw = (id, traces, more) =>
    Plotly.react($(id), traces, layout(more), { displayModeBar: false, responsive: !printed, doubleClick: "reset" });

  function chosenCurve() {
    const value = $("curve-score").value;
    const cut = value.indexOf(":");
    return { kind: value.slice(0, cut), name: value.slice(cut + 1) };
  }
  const line = (x) => ({ type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", layer: "below",
    line: { color: token("soft"), width: 1.5, dash: "dash" } });

  function drawCurves() {
    const { kind, name } = chosenCurve();
    const traces = [];
    data.models.forEach((model, i) => {
      const values = model[kind] && model[kind].scores[name];
      if (!values) return;
      const text = model.thresholds.map((at, k) => `${plain(model.name)}<br>${score(values[k])} at ${threshold(at)}`);
      traces.push({
        name: plain(model.name), x: [...model.thresholds.map(inside), 1], y: [...values, values[values.length - 1]],
        type: "scatter", mode: "lines", line: { shape: "hv", color: colour(i), width: 2, dash: DASHES[Math.floor(i / 6) % 5] },
        hoverinfo: "text", hovertext: [...text, text[text.length - 1]], legendgroup: "m" + i, meta: i,
      }, {
        x: [inside(model.thresholds[model.judged])], y: [values[model.judged]], type: "scatter", mode: "markers",
        marker: { color: colour(i), size: 10, line: { color: token("paper"), width: 2 } }, showlegend: false,
        hoverinfo: "text", hovertext: [text[model.judged]], legendgroup: "m" + i, meta: i,
      });
    });
    const last = data.prior.length - 1;
    traces.push({
      x: data.prior.map((_, i) => i / last), y: data.prior, yaxis: "y2", type: "scatter", mode: "lines", fill: "tozeroy",
      line: { color: token("soft"), width: 1 }, hoverinfo: "skip", showlegend: false,
    });
    const told = $("curve-score").selectedOptions[0].textContent;
    draw("plot-curves", traces, {
      xaxis: { title: { text: "threshold" }, range: [-0.01, 1.01], anchor: "y2", fixedrange: false },
      yaxis: { title: { text: plain(told) }, domain: [0.26, 1] },
      yaxis2: { title: { text: "prior" }, domain: [0, 0.16], rangemode: "tozero", showticklabels: false, fixedrange: true },
      shapes: [line(inside(data.models[state.model].thresholds[state.index]))],
      showlegend: data.models.length > 1,
    });
  }

  // Consecutive samples for which something holds, as pairs of places on the axis.
  function runs(stretch, holds) {
    const found = [];
    stretch.outcomes.forEach((outcome, i) => {
      if (!holds(outcome)) return;
      const at = stretch.steps[i], last = found[found.length - 1];
      if (last && at - last[1] === 1) last[1] = at; else found.push([at, at]);
    });
    return found;
  }

  function drawTimeline() {
    const model = data.models[state.model], stretch = model.stretches[state.stretch];
    const limit = model.threshold;
    if (!stretch) {
      Plotly.purge($("plot-timeline"));
      $("timeline-text").textContent = "There is no stretch of time of this model.";
      $("error-table").tBodies[0].replaceChildren();
      return;
    }
    const told = (i) => [plain(stretch.times[i]), isNumber(stretch.predictions[i])
      ? `${OUTCOMES[stretch.outcomes[i]]}, prediction ${score(stretch.predictions[i])}` : "unknown"].join("<br>");
    const x = [], y = [], text = [];
    stretch.steps.forEach((step, i) => {
      if (i && step - stretch.steps[i - 1] > 1) { x.push(step - 0.5); y.push(null); text.push(""); }
      x.push(step); y.push(stretch.predictions[i]); text.push(told(i));
    });
    const traces = [{ name: "prediction", x, y, type: "scatter", mode: "lines", line: { color: token("soft"), width: 1.5 },
      hoverinfo: "text", hovertext: text }];
    const top = Math.max(0, ...stretch.costs);
    for (const [outcome, name, symbol] of [[FP, "false alarm", "triangle-up"], [FN, "missed event", "x"]]) {
      const own = stretch.errors.map((at, k) => [at, k]).filter(([at]) => stretch.outcomes[at] === outcome);
      if (!own.length) continue;
      traces.push({
        name, x: own.map(([at]) => stretch.steps[at]), y: own.map(([at]) => stretch.predictions[at]),
        type: "scatter", mode: "markers", hoverinfo: "text",
        hovertext: own.map(([at, k]) => `${told(at)}<br>cost ${cell(stretch.costs[k])}<br>${wrapped(stretch.reasons[k])}`),
        marker: {
          symbol, size: 10, color: own.map(([, k]) => stretch.costs[k]), cmin: 0, cmax: top || 1,
          colorscale: [[0, token("low")], [1, token("high")]], line: { color: token("paper"), width: 1 },
          showscale: traces.length === 1,
          colorbar: { title: { text: "cost" }, thickness: 10, len: 0.7, y: 1, yanchor: "top", outlinewidth: 0 },
        },
      });
    }
    for (const [name, row, shade] of [["event", 1, "event-ink"], ["alarm", 0, "alarm"]]) {
      const spans = runs(stretch, (o) => (row ? o === FN || o === TP : o === FP || o === TP));
      traces.push({
        name, type: "bar", orientation: "h", yaxis: "y2", base: spans.map(([a]) => a - 0.5), x: spans.map(([a, b]) => b - a + 1),
        y: spans.map(() => row), width: 0.55, marker: { color: token(shade), line: { width: 0 } }, showlegend: false,
        hoverinfo: "text", hovertext: spans.map(([a, b]) => `${name}: ${plain(timeAt(stretch, a))}${a === b ? "" : " to " + plain(timeAt(stretch, b))}`),
      });
    }
    const events = runs(stretch, (o) => o === FN || o === TP).map(([a, b]) => ({
      type: "rect", x0: a - 0.5, x1: b + 0.5, y0: 0, y1: 1, yref: "y domain", layer: "below", fillcolor: token("event"), line: { width: 0 } }));
    const count = Math.min(stretch.times.length, narrow() ? 2 : 5);
    const ticks = [...new Set(Array.from({ length: count }, (_, k) =>
      Math.round(((k + 0.5) * (stretch.times.length - 1)) / count)))];
    draw("plot-timeline", traces, {
      xaxis: { tickvals: ticks.map((i) => stretch.steps[i]), ticktext: ticks.map((i) => plain(stretch.times[i]).replace(" ", "<br>")), anchor: "y2", tickangle: 0,
        range: [stretch.steps[0] - 1, stretch.steps[stretch.steps.length - 1] + 1], showgrid: false, zeroline: false },
      yaxis: { title: { text: "prediction" }, domain: [0.26, 1], zeroline: false, rangemode: "tozero" },
      yaxis2: { domain: [0, 0.18], range: [-0.5, 1.5], tickvals: [0, 1], ticktext: ["alarm", "event"], fixedrange: true, showgrid: false, zeroline: false },
      shapes: [...events, { type: "line", xref: "x domain", x0: 0, x1: 1, y0: inside(limit), y1: inside(limit),
        line: { color: token("alarm"), width: 1.5, dash: "dash" } }],
      annotations: [{ xref: "x domain", x: 0, xanchor: "left", y: inside(limit), yanchor: "bottom", showarrow: false,
        text: "threshold " + threshold(limit), font: { color: token("alarm"), size: 12 }, bgcolor: token("paper"), opacity: 0.85, borderpad: 1 }],
    });
    const many = (outcome) => stretch.errors.filter((at) => stretch.outcomes[at] === outcome).length;
    const says = `${stretch.label}. ${many(FP)} false alarms (triangles) and ${many(FN)} missed events (crosses); the darker the costlier.`
      .replace("darker", root.dataset.shade === "dark" ? "brighter" : "darker");
    $("timeline-text").textContent = says + " Shaded: events. The reasons are in the table beneath.";
    $("plot-timeline").setAttribute("aria-label", says);
    showErrors(stretch);
  }
  const timeAt = (stretch, step) => stretch.times[stretch.steps.indexOf(step)];
  const wrapped = (text) => text.split(" ").reduce((lines, word) => {
    const last = lines.length - 1;
    if ((lines[last] + " " + word).length > (narrow() ? 34 : 60)) lines.push(word); else lines[last] += " " + word;
    return lines;
  }, [""]).map((one) => plain(one.trim())).join("<br>");

  function showErrors(stretch) {
    const rows = stretch.errors.map((at, k) => {
      const row = document.createElement("tr");
      const texts = [stretch.times[at], OUTCOMES[stretch.outcomes[at]], score(stretch.predictions[at]), cell(stretch.costs[k]), stretch.reasons[k]];
      texts.forEach((text, i) => {
        const one = document.createElement(i ? "td" : "th");
        if (!i) one.scope = "row";
        one.textContent = text;
        row.append(one);
      });
      return row;
    });
    $("error-table").tBodies[0].replaceChildren(...rows);
  }

  function drawReliability() {
    const traces = [];
    let top = 0;
    data.models.forEach((model, i) => {
      const r = model.reliability;
      if (!r.rows.length) return;
      top = Math.max(top, ...r.predicted, ...r.high);
      const hovertext = r.rows.map((rows, k) => `${plain(model.name)}<br>predicted ${score(r.predicted[k])}, observed ${score(r.observed[k])}<br>${score(r.low[k])} to ${score(r.high[k])}, ${cell(rows)} rows`);
      traces.push({
        name: plain(model.name), x: r.predicted, y: r.observed, type: "scatter", mode: "lines+markers", legendgroup: "m" + i,
        line: { color: colour(i), width: 1.5, dash: DASHES[Math.floor(i / 6) % 5] }, marker: { size: 6 }, hoverinfo: "text", hovertext,
        error_y: { type: "data", symmetric: false, array: r.high.map((v, k) => v - r.observed[k]), arrayminus: r.low.map((v, k) => r.observed[k] - v), thickness: 1, width: 3, color: colour(i) },
      }, {
        x: r.predicted, y: r.rows, yaxis: "y2", type: "scatter", mode: "markers", marker: { color: colour(i), size: 5 }, showlegend: false,
        error_y: { type: "data", symmetric: false, array: r.rows.map(() => 0), arrayminus: r.rows, thickness: 2, width: 0, color: colour(i) },
        legendgroup: "m" + i, hoverinfo: "text", hovertext,
      });
    });
    top = Math.min(1, top) * 1.03;
    draw("plot-reliability", traces, {
      xaxis: { title: { text: "prediction" }, range: [-0.02 * top, top], anchor: "y2", zeroline: false },
      yaxis: { title: { text: "share of events" }, range: [-0.02 * top, top], domain: [0.28, 1], zeroline: false },
      yaxis2: { title: { text: "rows" }, domain: [0, 0.16], rangemode: "tozero", nticks: 3, fixedrange: true },
      shapes: [{ type: "line", x0: 0, y0: 0, x1: top, y1: top, layer: "below", line: { color: token("soft"), width: 1, dash: "dot" } }],
      showlegend: data.models.length > 1,
    });
  }

  function drawHistory() {
    const traces = data.history.flatMap((one, i) => {
      const name = `share ${threshold(100 * one.share)} %`;
      const own = { color: colour(i), legendgroup: "s" + i };
      const text = one.steps.map((step, k) => `${name}<br>step ${cell(step)}: ${score(one.values[k])}`);
      return [{
        name, x: one.steps, y: one.values, type: "scatter", mode: one.steps.length > 1 ? "lines" : "markers", legendgroup: own.legendgroup,
        line: { color: own.color, width: 1.5, dash: DASHES[Math.floor(i / 6) % 5] }, hoverinfo: "text", hovertext: text,
      }, {
        x: one.chosen.map((k) => one.steps[k]), y: one.chosen.map((k) => one.values[k]), type: "scatter", mode: "markers", showlegend: false,
        marker: { symbol: "diamond", size: 10, color: own.color, line: { color: token("paper"), width: 1.5 } }, legendgroup: own.legendgroup,
        hoverinfo: "text", hovertext: one.chosen.map((k) => text[k] + "<br>chosen"),
      }];
    });
    draw("plot-history", traces, { xaxis: { title: { text: "step" }, rangemode: "tozero" }, yaxis: { title: { text: "validation score" } }, showlegend: true });
  }

  const PLOTS = [["plot-curves", drawCurves], ["plot-timeline", drawTimeline], ["plot-reliability", drawReliability], ["plot-history", drawHistory]];
  const drawAll = () => { for (const [id, make] of PLOTS) if ($(id)) make(); };

  // -------------------------------------------------------------------------------------------- threshold

  let waiting = false;
  function show(index, moved) {
    const model = data.models[state.model];
    state.index = Math.min(model.thresholds.length - 1, Math.max(0, index));
    const at = model.thresholds[state.index];
    if (!moved) $("slider").value = at;
    const main = model[data.main.weighted ? "weighted" : "plain"].scores[data.main.name][state.index];
    const all = state.index === 0 && at < 0 ? " (everything is an alarm)" : "";
    $("readout").textContent = `Threshold ${threshold(at)}${all}: ${data.main.label} ${score(main)}`;
    $("slider").setAttribute("aria-valuetext", threshold(at));
    for (const kind of ["plain", "weighted"]) {
      if (!model[kind]) continue;
      for (const one of $("matrix-" + kind).querySelectorAll("[data-cell]")) {
        one.textContent = cell(model[kind].cells[Number(one.dataset.cell)][state.index]);
      }
    }
    for (const one of $("score-table").querySelectorAll("[data-score]")) {
      const column = model[one.dataset.kind].scores[one.dataset.score];
      one.textContent = column ? score(column[state.index]) : "–";
    }
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const x = inside(data.models[state.model].thresholds[state.index]);
      Plotly.relayout($("plot-curves"), { "shapes[0].x0": x, "shapes[0].x1": x });
    });
  }

  function showModel(place) {
    state.model = place;
    state.stretch = 0;
    const model = data.models[place];
    for (const one of document.querySelectorAll("select.model")) one.value = String(place);
    for (const one of document.querySelectorAll("[data-model]")) one.hidden = Number(one.dataset.model) !== place;
    if ($("stretch")) {
      $("stretch").replaceChildren(...model.stretches.map((one, i) => new Option(one.label, String(i))));
      drawTimeline();
    }
    show(model.judged);
  }

  // ------------------------------------------------------------------------------------- theme and printing

  function shade() {
    root.dataset.shade = !printed && (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark" ? "dark" : "light";
    $("theme").textContent = root.dataset.shade === "dark" ? "Light" : "Dark";
    drawAll();
  }
  function print(on) {
    if (printed === on) return;
    printed = on;
    for (const one of document.querySelectorAll("details")) {
      if (on) { one.dataset.was = String(one.open); one.open = true; } else one.open = one.dataset.was === "true";
    }
    shade();
  }

  root.classList.add("js");
  const options = [];
  for (const kind of data.main.weighted ? ["weighted", "plain"] : ["plain"]) {
    for (const { name, label } of data.scores) {
      if (data.models.some((model) => model[kind] && model[kind].scores[name])) {
        options.push(new Option(data.main.weighted ? `${kind} ${label}` : label, `${kind}:${name}`));
      }
    }
  }
  $("curve-score").replaceChildren(...options);
  $("curve-score").addEventListener("change", drawCurves);
  $("slider").addEventListener("input", (event) =>
    show(placeOf(data.models[state.model].thresholds, Number(event.target.value)), true));
  $("previous").addEventListener("click", () => show(state.index - 1));
  $("next").addEventListener("click", () => show(state.index + 1));
  for (const name of ["best", "half", "judged"]) {
    if ($(name)) $(name).addEventListener("click", () => show(data.models[state.model][name]));
  }
  for (const one of document.querySelectorAll("select.model")) {
    one.addEventListener("change", () => showModel(Number(one.value)));
  }
  if ($("stretch")) {
    $("stretch").addEventListener("change", () => { state.stretch = Number($("stretch").value); drawTimeline(); });
  }
  $("theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.shade === "dark" ? "light" : "dark";
    shade();
  });
  dark.addEventListener("change", shade);
  printing.addEventListener("change", (event) => print(event.matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  state.index = data.models[0].judged;
  shade();
  showModel(0);
  $("plot-curves").on("plotly_click", (event) => {
    const place = event.points[0].data.meta;
    if (place === undefined) return;
    const at = event.points[0].x;
    if (place !== state.model) showModel(place);
    show(placeOf(data.models[place].thresholds, at));
  });
})();
