// Plots over the time of a run: events, risks with their bounds, and signals.

const SVG = "http://www.w3.org/2000/svg";
const CHARACTER = 7.1; // maximum width of a character in pixels, at our font size

function element(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

const cut = (text, limit) => (text.length > limit ? text.slice(0, Math.max(1, limit - 1)) + "…" : text);

// Spans of consecutive frames that pass a test, as pairs of first and last index.
function spans(values, test) {
  const found = [];
  values.forEach((value, i) => {
    if (!test(value)) return;
    const last = found[found.length - 1];
    if (last && last[1] === i - 1) last[1] = i; else found.push([i, i]);
  });
  return found;
}

const MARKS = {
  alarm: ["warn", "M-5 4L0 -5L5 4Z"],
  owed: ["threshold", "M0 -5L5 0L0 5L-5 0Z"],
  violated: ["bad", "M-4 -4L4 4M4 -4L-4 4"],
};
// A ring around the marks of the other run, so that marks differ in shape.
const RING = "M-7.5 0a7.5 7.5 0 1 0 15 0a7.5 7.5 0 1 0 -15 0";

class Curves {
  // run: the run that is shown; ghost: a second run to compare, such as without a guard.
  constructor(box, run, seek, ghost) {
    Object.assign(this, { box, run, seek, ghost, heads: [] });
  }

  draw(again) {
    const width = Math.max(260, Math.floor(this.box.clientWidth));
    if (width === this.width && !again) return;
    this.width = width;
    this.heads = [];
    this.box.replaceChildren();
    const style = getComputedStyle(this.box), known = {};
    this.color = (name) => known[name] || (known[name] = style.getPropertyValue("--" + name).trim());
    const { run, ghost } = this;
    const ends = [run, ghost].filter(Boolean).map((one) => one.times);
    [this.begin, this.end] = run.window || [Math.min(...ends.map((t) => t[0])), Math.max(...ends.map((t) => t[t.length - 1]))];
    const marks = this.marks();
    if (marks.length) this.happened(marks);
    run.laws.forEach((law) => this.risk(law, ghost && ghost.laws.find((other) => other.name === law.name)));
    for (const curve of run.curves) this.signal(curve);
    if (run.strips.length) this.strips();
    this.place(this.last === undefined ? this.begin : this.last);
  }

  // -- axes ---------------------------------------------------------------------------

  frame(name, height, low, high, more, ticks) {
    const { width, begin, end } = this, left = 40, right = 18, bottom = ticks === false ? 6 : 20;
    // If the name and the extra text do not fit on one line, the text gets a second line.
    const lower = more && CHARACTER * (name.length + more.length) + 30 > width - left - right ? 16 : 0, top = 24 + lower;
    height += lower;
    const span = Math.max(end - begin, 1e-9);
    const svg = element(this.box, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
    svg.setAttribute("aria-label", more ? `${name}, ${more}` : name);
    const plot = {
      svg, top, low: height - bottom, left, right: width - right,
      x: (t) => left + ((Math.min(Math.max(t, begin), end) - begin) / span) * (width - left - right),
      y: (v) => height - bottom - ((v - low) / Math.max(high - low, 1e-9)) * (height - bottom - top),
    };
    const title = element(svg, "text", { x: left, y: 14, class: "name" }, cut(name, Math.floor((width - left - right) / CHARACTER)));
    element(title, "title", {}, name);
    if (more) {
      element(svg, "text", { x: width - right, y: 14 + lower, "text-anchor": "end", class: "owed" }, more);
      const from = width - right - CHARACTER * more.length - 20;
      element(svg, "line", { x1: from, x2: from + 18, y1: 10 + lower, y2: 10 + lower, stroke: this.color("threshold"), "stroke-dasharray": "6 4", "stroke-width": 1.6 });
    }
    if (high > low) {
      for (const value of [low, (low + high) / 2, high]) {
        const y = plot.y(value);
        element(svg, "line", { x1: left, x2: width - right, y1: y, y2: y, stroke: this.color("rule") });
        element(svg, "text", { x: left - 5, y: y + 4, "text-anchor": "end" }, String(+value.toPrecision(value < 0 ? 2 : 3)));
      }
    }
    const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600].find((s) => span / s <= Math.max(4, width / 90)) || span;
    for (let t = Math.ceil(begin / step) * step; ticks !== false && t <= end + 1e-9; t += step)
      element(svg, "text", { x: plot.x(t), y: height - 5, "text-anchor": "middle" }, +t.toFixed(3) + (t + step > end ? " s" : ""));
    if (this.seek) {
      svg.addEventListener("pointerdown", (event) => this.seekTo(plot, event, span));
      svg.addEventListener("pointermove", (event) => { if (event.buttons & 1) this.seekTo(plot, event, span); });
    }
    return plot;
  }

  seekTo(plot, event, span) {
    const box = plot.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.width;
    const share = Math.min(Math.max((x - plot.left) / (plot.right - plot.left), 0), 1);
    this.seek(this.begin + share * span);
  }

  // With one frame per action, the curve is a step function.
  point(run, before, plot, i, value) {
    const x = plot.x(run.times[i]).toFixed(1), y = plot.y(value).toFixed(1);
    return before ? (run.step ? `H${x}V${y}` : `L${x} ${y}`) : `M${x} ${y}`;
  }

  // The x range of frames a to b: half a frame more on both sides, or up to the next frame.
  reach(plot, a, b) {
    const { times } = this.run, last = times.length - 1;
    const half = (plot.right - plot.left) / Math.max(last, 1) / 2;
    const from = plot.x(times[a]) - (this.run.step ? 0 : half);
    const to = this.run.step ? plot.x(times[Math.min(b + 1, last)]) : plot.x(times[b]) + half;
    return [Math.max(plot.left, from), Math.max(Math.min(plot.right, to), from + 2)];
  }

  line(plot, run, values, attributes) {
    for (const [a, b] of spans(values, (v) => v !== null && v !== undefined)) {
      let d = "";
      for (let i = a; i <= b; i += 1) d += this.point(run, d, plot, i, values[i]);
      if (a === b) d += "h2";
      element(plot.svg, "path", { d, fill: "none", "stroke-linejoin": "round", ...attributes });
    }
  }

  // -- events -------------------------------------------------------------------------

  marks() {
    const found = [];
    const take = (run, before, ringed) => {
      for (const law of run.laws)
        for (const [time, kind, word] of law.marks)
          found.push({ time, kind, ringed, word: before + word + (run.laws.length > 1 ? ": " + law.name.replaceAll("_", " ") : "") });
    };
    take(this.run, this.ghost ? "with: " : "", false);
    if (this.ghost) take(this.ghost, "without: ", true);
    return found.filter(({ time }) => time >= this.begin && time <= this.end).sort((a, b) => a.time - b.time);
  }

  // Labels beside their marks, each in the first row with enough space.
  happened(marks) {
    const left = 40, right = this.width - 18, rows = [];
    const x = (t) => left + ((t - this.begin) / Math.max(this.end - this.begin, 1e-9)) * (right - left);
    for (const mark of marks) {
      const text = cut(mark.word, Math.floor((right - left - 20) / CHARACTER)), wide = CHARACTER * text.length + 18;
      const flip = x(mark.time) + wide > right;
      mark.from = flip ? Math.max(left - 10, x(mark.time) - wide + 8) : x(mark.time) - 8;
      mark.text = text;
      mark.flip = flip;
      mark.row = rows.findIndex((row) => row.every(([a, b]) => mark.from > b + 4 || mark.from + wide < a - 4));
      if (mark.row < 0) mark.row = rows.push([]) - 1;
      rows[mark.row].push([mark.from, mark.from + wide]);
    }
    const height = 24 + 18 * rows.length;
    const plot = this.frame("events", height + 4, 0, 0, "", false);
    plot.svg.classList.add("happened");
    for (const mark of marks) {
      const y = 32 + 18 * mark.row, [name, d] = MARKS[mark.kind] || MARKS.alarm, color = this.color(name);
      element(plot.svg, "line", { x1: x(mark.time), x2: x(mark.time), y1: y, y2: plot.low, stroke: color, "stroke-width": 1.2 });
      element(plot.svg, "path", { d: mark.ringed ? RING + d : d, transform: `translate(${x(mark.time)} ${y})`, fill: mark.ringed ? this.color("paper") : color, stroke: color, "stroke-width": mark.kind === "violated" ? 2.6 : 1.4 });
      const told = element(plot.svg, "text", { x: x(mark.time) + (mark.flip ? -10 : 10), y: y + 4, "text-anchor": mark.flip ? "end" : "start", class: "mark " + mark.kind }, mark.text);
      element(told, "title", {}, `${mark.word}, ${+mark.time.toFixed(2)} s`);
    }
    this.head(plot);
  }

  // -- risks --------------------------------------------------------------------------

  risk(law, ghost) {
    const { run } = this, { times } = run;
    const from = law.steps.map(([kind, threshold]) => `${kind} from ${+threshold.toPrecision(3)}`).join(", ");
    const plot = this.frame("risk of violating " + law.name.replaceAll("_", " "), run.laws.length > 2 ? 130 : 190, 0, 1, from);
    for (const [a, b] of spans(law.pending, (v) => v !== null && v !== undefined)) {
      const [x, to] = this.reach(plot, a, b);
      const rect = element(plot.svg, "rect", { x, y: plot.top, width: to - x, height: plot.low - plot.top, fill: this.color("pending") });
      element(rect, "title", {}, `obligation pending from ${times[a]} s to ${times[b]} s`);
    }
    for (const [a, b] of spans(law.point, (v) => v !== null)) {
      let d = "", back = "";
      for (let i = a; i <= b; i += 1) {
        const x = plot.x(times[i]).toFixed(1);
        d += this.point(run, d, plot, i, law.high[i]);
        const low = plot.y(law.low[i]).toFixed(1);
        back = (run.step && i < b ? `H${plot.x(times[i + 1]).toFixed(1)}V${low}` : "") + `L${x} ${low}` + back;
      }
      element(plot.svg, "path", { d: d + back + "Z", fill: this.color("band") });
    }
    for (const [, threshold] of law.steps) {
      const y = plot.y(threshold);
      element(plot.svg, "line", { x1: plot.left, x2: plot.right, y1: y, y2: y, stroke: this.color("threshold"), "stroke-dasharray": "6 4", "stroke-width": 1.4 });
    }
    const risk = this.color("risk");
    for (const ends of law.likely) this.line(plot, run, ends, { stroke: risk, "stroke-width": 1, "stroke-dasharray": "2 3" });
    if (ghost) this.line(plot, this.ghost, ghost.point, { stroke: this.color("soft"), "stroke-width": 1.8, "stroke-dasharray": "5 3" });
    this.line(plot, run, law.point, { stroke: risk, "stroke-width": 2.2 });
    law.foreseen.forEach((value, i) => {
      if (value === null) return;
      const x = plot.x(times[i]), y = plot.y(value);
      const mark = element(plot.svg, "circle", { cx: x, cy: y, r: 4.5, fill: "none", stroke: this.color("second"), "stroke-width": 1.8 });
      element(mark, "title", {}, `predicted risk ${value} if the action is carried out`);
    });
    const marks = [...law.marks, ...(ghost ? ghost.marks : [])];
    for (const [time, kind] of marks.filter(([time]) => time >= this.begin && time <= this.end)) {
      const [name] = MARKS[kind] || MARKS.alarm, x = plot.x(time);
      element(plot.svg, "line", { x1: x, x2: x, y1: plot.top, y2: plot.low, stroke: this.color(name), "stroke-width": kind === "violated" ? 2 : 1.2, "stroke-dasharray": kind === "owed" ? "2 3" : "none" });
    }
    this.head(plot);
  }

  // -- signals ------------------------------------------------------------------------

  signal(curve) {
    const ghost = this.ghost && this.ghost.curves.find((other) => other.name === curve.name);
    const known = [...curve.values, ...(ghost ? ghost.values : [])].filter((v) => typeof v === "number");
    const low = Math.min(0, ...known), high = Math.max(...known, low + 1e-6);
    const plot = this.frame(`${curve.name.replaceAll("_", " ")}${curve.unit ? ", " + curve.unit : ""}`, 104, low, high);
    if (ghost) this.line(plot, this.ghost, ghost.values, { stroke: this.color("soft"), "stroke-width": 1.6, "stroke-dasharray": "5 3" });
    this.line(plot, this.run, curve.values, { stroke: this.color("second"), "stroke-width": 2 });
    this.head(plot);
  }

  strips() {
    const { strips } = this.run;
    const plot = this.frame("predicates", 44 + 30 * strips.length, 0, 0);
    this.head(plot); // drawn below the names, so that they stay readable
    strips.forEach((strip, row) => {
      const y = plot.top + 6 + 30 * row;
      element(plot.svg, "text", { x: plot.left, y: y + 8, class: "over" }, cut(strip.name.replaceAll("_", " "), Math.floor((plot.right - plot.left) / CHARACTER)));
      element(plot.svg, "rect", { x: plot.left, y: y + 12, width: plot.right - plot.left, height: 8, rx: 2, fill: this.color("rule") });
      for (const [a, b] of spans(strip.values, (v) => v === true)) {
        const [from, to] = this.reach(plot, a, b);
        element(plot.svg, "rect", { x: from, y: y + 12, width: to - from, height: 8, rx: 2, fill: this.color("second") });
      }
    });
  }

  head(plot) {
    const line = element(plot.svg, "line", { y1: plot.top, y2: plot.low, stroke: this.color("ink"), "stroke-width": 1.2 });
    this.heads.push([line, plot]);
  }

  place(time) {
    this.last = time;
    for (const [line, plot] of this.heads) {
      const x = plot.x(time);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  }
}
