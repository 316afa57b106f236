// Curves over the time of a run: risks with bounds, then signals; and where we are.

const SVG = "http://www.w3.org/2000/svg";

function element(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

class Curves {
  constructor(box, run, seek) {
    this.box = box;
    this.run = run;
    this.seek = seek;
    this.heads = [];
  }

  draw() {
    const width = Math.max(260, Math.floor(this.box.clientWidth));
    if (width === this.width) return;
    this.width = width;
    this.heads = [];
    this.box.replaceChildren();
    const style = getComputedStyle(this.box);
    this.color = (name) => style.getPropertyValue("--" + name).trim();
    for (const law of this.run.laws) this.risk(law);
    for (const curve of this.run.curves) this.signal(curve);
    if (this.run.strips.length) this.strips();
    this.place(this.last || 0);
  }

  frame(name, height, low, high, unit) {
    const times = this.run.times, width = this.width;
    const left = 40, right = 18, top = 24, bottom = 20;
    const begin = times[0], span = Math.max(times[times.length - 1] - begin, 1e-9);
    const svg = element(this.box, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img" });
    svg.setAttribute("aria-label", name);
    const plot = {
      svg, top, low: height - bottom, left, right: width - right,
      x: (t) => left + ((t - begin) / span) * (width - left - right),
      y: (v) => height - bottom - ((v - low) / Math.max(high - low, 1e-9)) * (height - bottom - top),
    };
    const limit = Math.floor((width - left) / 7.2);
    const title = element(svg, "text", { x: left, y: 14, class: "name" }, name.length > limit ? name.slice(0, limit - 1) + "…" : name);
    element(title, "title", {}, name);
    if (high > low) {
      for (const value of [low, (low + high) / 2, high]) {
        const y = plot.y(value);
        element(svg, "line", { x1: left, x2: width - right, y1: y, y2: y, stroke: this.color("rule") });
        element(svg, "text", { x: left - 5, y: y + 4, "text-anchor": "end" }, String(+value.toPrecision(3)));
      }
    }
    const step = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600].find((s) => span / s <= Math.max(4, width / 90)) || span;
    for (let t = Math.ceil(begin / step) * step; t <= begin + span + 1e-9; t += step)
      element(svg, "text", { x: plot.x(t), y: height - 5, "text-anchor": "middle" }, +t.toFixed(3) + (t + step > begin + span ? " s" : ""));
    svg.addEventListener("pointerdown", (event) => this.seekTo(plot, event, span));
    svg.addEventListener("pointermove", (event) => { if (event.buttons & 1) this.seekTo(plot, event, span); });
    return plot;
  }

  seekTo(plot, event, span) {
    const box = plot.svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * this.width;
    const share = Math.min(Math.max((x - plot.left) / (plot.right - plot.left), 0), 1);
    this.seek(this.run.times[0] + share * span);
  }

  // Consecutive frames that a test holds for, as pairs of first and last.
  spans(values, test) {
    const found = [];
    values.forEach((value, i) => {
      if (!test(value)) return;
      const last = found[found.length - 1];
      if (last && last[1] === i - 1) last[1] = i; else found.push([i, i]);
    });
    return found;
  }

  // Where frames follow actions nothing changes between two of them.
  point(before, plot, i, value) {
    const x = plot.x(this.run.times[i]).toFixed(1), y = plot.y(value).toFixed(1);
    return before ? (this.run.step ? `H${x}V${y}` : `L${x} ${y}`) : `M${x} ${y}`;
  }

  // From where to where frames a to b reach: half a frame on both sides, or onward.
  reach(plot, a, b) {
    const { times } = this.run, last = times.length - 1;
    const half = (plot.right - plot.left) / Math.max(last, 1) / 2;
    const from = plot.x(times[a]) - (this.run.step ? 0 : half);
    const to = this.run.step ? plot.x(times[Math.min(b + 1, last)]) : plot.x(times[b]) + half;
    return [Math.max(plot.left, from), Math.max(Math.min(plot.right, to), from + 2)];
  }

  line(plot, values, color, width, dash) {
    const { times } = this.run;
    for (const [a, b] of this.spans(values, (v) => v !== null)) {
      let d = "";
      for (let i = a; i <= b; i += 1) d += this.point(d, plot, i, values[i]);
      if (a === b) d += "h2";
      element(plot.svg, "path", { d, fill: "none", stroke: color, "stroke-width": width, "stroke-dasharray": dash || "none", "stroke-linejoin": "round" });
    }
  }

  risk(law) {
    const { times } = this.run;
    const plot = this.frame("risk of breaking " + law.name, this.run.laws.length > 2 ? 150 : 210, 0, 1);
    for (const [a, b] of this.spans(law.pending, (v) => v !== null)) {
      const [x, to] = this.reach(plot, a, b);
      const rect = element(plot.svg, "rect", { x, y: plot.top, width: to - x, height: plot.low - plot.top, fill: this.color("pending") });
      element(rect, "title", {}, `owed from ${times[a]} s to ${times[b]} s`);
    }
    for (const [a, b] of this.spans(law.point, (v) => v !== null)) {
      let d = "", back = "";
      for (let i = a; i <= b; i += 1) {
        const x = plot.x(times[i]).toFixed(1);
        d += this.point(d, plot, i, law.high[i]);
        const low = plot.y(law.low[i]).toFixed(1);
        back = (this.run.step && i < b ? `H${plot.x(times[i + 1]).toFixed(1)}V${low}` : "") + `L${x} ${low}` + back;
      }
      element(plot.svg, "path", { d: d + back + "Z", fill: this.color("band") });
    }
    for (const [kind, threshold] of law.steps) {
      const y = plot.y(threshold);
      element(plot.svg, "line", { x1: plot.left, x2: plot.right, y1: y, y2: y, stroke: this.color("threshold"), "stroke-dasharray": "6 4" });
      element(plot.svg, "text", { x: plot.left + 4, y: y - 3 }, `${kind} from ${threshold}`);
    }
    for (const ends of law.likely) this.line(plot, ends, this.color("risk"), 1, "2 3");
    this.line(plot, law.point, this.color("risk"), 2.2);
    law.foreseen.forEach((value, i) => {
      if (value === null) return;
      const x = plot.x(times[i]), y = plot.y(value);
      const mark = element(plot.svg, "path", { d: `M${x} ${y - 5}L${x + 5} ${y}L${x} ${y + 5}L${x - 5} ${y}Z`, fill: "none", stroke: this.color("second"), "stroke-width": 1.8 });
      element(mark, "title", {}, `foreseen: risk ${value} if the action were carried out`);
    });
    const rows = [];
    for (const [time, kind, word] of law.marks) {
      const x = plot.x(time), color = this.color({ violated: "bad", owed: "threshold" }[kind] || "warn");
      element(plot.svg, "line", { x1: x, x2: x, y1: plot.top, y2: plot.low, stroke: color, "stroke-width": kind === "owed" ? 1.2 : 2.4, "stroke-dasharray": kind === "owed" ? "2 3" : "none" });
      const wide = 7.4 * word.length, left = x + 4 + wide > plot.right;
      const from = left ? x - 4 - wide : x + 4;
      let row = 0;
      while ((rows[row] || []).some(([a, b]) => from < b && from + wide > a)) row += 1;
      (rows[row] = rows[row] || []).push([from, from + wide]);
      element(plot.svg, "text", { x: left ? x - 4 : x + 4, y: plot.top + 12 + 14 * row, "text-anchor": left ? "end" : "start", class: kind }, word);
    }
    this.head(plot);
  }

  signal(curve) {
    const known = curve.values.filter((v) => v !== null);
    const low = Math.min(0, ...known), high = Math.max(...known, low + 1e-6);
    const plot = this.frame(`${curve.name}${curve.unit ? ", " + curve.unit : ""}`, 118, low, high);
    this.line(plot, curve.values, this.color("second"), 2);
    this.head(plot);
  }

  strips() {
    const { strips } = this.run;
    const plot = this.frame("what holds", 44 + 34 * strips.length, 0, 0);
    strips.forEach((strip, row) => {
      const y = plot.top + 6 + 34 * row;
      element(plot.svg, "text", { x: plot.left, y: y + 10 }, strip.name);
      element(plot.svg, "rect", { x: plot.left, y: y + 14, width: plot.right - plot.left, height: 10, fill: this.color("rule") });
      for (const [a, b] of this.spans(strip.values, (v) => v === true)) {
        const [from, to] = this.reach(plot, a, b);
        element(plot.svg, "rect", { x: from, y: y + 14, width: to - from, height: 10, fill: this.color("second") });
      }
    });
    this.head(plot);
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
