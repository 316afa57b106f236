// A run's clock: plays, seeks, and tells the picture, the curves and the table.

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function spread(runs, frames) {
  const values = [];
  runs.forEach(([start, value], k) => {
    const end = k + 1 < runs.length ? runs[k + 1][0] : frames;
    for (let i = start; i < end; i += 1) values.push(value);
  });
  return values;
}

class Player {
  constructor(section, run) {
    this.section = section;
    this.run = run;
    this.time = run.times[0];
    this.playing = false;
    const find = (selector) => section.querySelector(selector);
    this.button = find(".play");
    this.slider = find("input[type=range]");
    this.clock = find("output");
    this.pace = find("select");
    this.hud = find(".hud");
    const canvas = find("canvas");
    this.picture = canvas && run.scene ? new Picture(canvas, run.scene) : null;
    this.curves = new Curves(find(".curves"), run, (time) => this.seek(time));
    this.signals = this.table(find(".signals tbody"));
    this.nodes = [...section.querySelectorAll(".state")];
    this.button.addEventListener("click", () => this.toggle());
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    find(".stage").addEventListener("keydown", (event) => this.key(event));
    for (const button of section.querySelectorAll(".story button"))
      button.addEventListener("click", () => this.seek(Number(button.dataset.t)));
    const again = () => { this.curves.width = 0; this.curves.draw(); this.show(); };
    new ResizeObserver(() => { this.curves.draw(); this.show(); }).observe(find(".stage"));
    dark.addEventListener("change", again);
    this.curves.draw();
    this.seek(run.start);
  }

  key(event) {
    if (event.target.closest("button, select") && event.key === " ") return;
    const { times } = this.run;
    const step = times.length > 1 ? times[1] - times[0] : 1;
    const keys = {
      " ": () => this.toggle(), k: () => this.toggle(),
      ArrowLeft: () => this.seek(this.time - step), ArrowRight: () => this.seek(this.time + step),
      Home: () => this.seek(times[0]), End: () => this.seek(times[times.length - 1]),
    };
    if (event.key in keys && !event.target.closest("select")) {
      event.preventDefault();
      keys[event.key]();
    }
  }

  toggle() {
    this.playing = !this.playing;
    this.button.textContent = this.playing ? "Pause" : "Play";
    if (!this.playing) return;
    const { times } = this.run;
    if (this.time >= times[times.length - 1]) this.seek(times[0], true);
    this.before = null;
    requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    if (!this.playing) return;
    const { times } = this.run, end = times[times.length - 1];
    if (this.before !== null) {
      const passed = ((now - this.before) / 1000) * Number(this.pace.value);
      // Who asked for less motion sees a frame each half second.
      if (!calm.matches || passed >= 0.5 * Number(this.pace.value)) {
        this.seek(Math.min(this.time + passed, end), true);
        this.before = now;
      }
    } else this.before = now;
    if (this.time >= end) this.toggle();
    else requestAnimationFrame((next) => this.tick(next));
  }

  seek(time, going) {
    const { times } = this.run;
    this.time = Math.min(Math.max(time, times[0]), times[times.length - 1]);
    if (!going && this.playing) this.before = null;
    this.show();
  }

  frame() {
    const { times } = this.run;
    let low = 0, high = times.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle] <= this.time + 1e-9) low = middle; else high = middle - 1;
    }
    return low;
  }

  show() {
    const { run, time } = this;
    const i = this.frame();
    const next = run.times[i + 1];
    const share = next === undefined || calm.matches || run.step ? 0 : Math.min(1, (time - run.times[i]) / (next - run.times[i]));
    const broken = run.laws.some((law) => law.broken.some((moment) => moment <= time + 1e-9));
    const decision = inRuns(run.decisions, i);
    const mood = broken ? "bad" : decision === "proceed" ? "" : "warn";
    if (this.picture) this.picture.draw(i, share, mood);
    if (this.hud) this.hud.textContent = this.words(i, decision, broken);
    this.curves.place(time);
    this.slider.value = time;
    this.clock.textContent = time.toFixed(1) + " s";
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
    this.fill(i);
    const here = run.visits.length ? inRuns(run.visits, i) : null;
    for (const node of this.nodes) node.classList.toggle("here", Number(node.dataset.node) === here);
  }

  words(i, decision, broken) {
    const parts = [];
    for (const [name, unit] of this.run.told) {
      const value = this.values[name][i];
      if (value !== null && value !== undefined) parts.push(`${name.replaceAll("_", " ")} ${value}${unit ? " " + unit : ""}`);
    }
    const risks = this.run.laws.map((law) => law.point[i]).filter((risk) => risk !== null);
    if (risks.length) parts.push("risk " + Math.max(...risks).toFixed(2));
    parts.push(broken ? "law broken" : decision);
    return parts.join(" · ");
  }

  table(body) {
    const frames = this.run.times.length;
    this.values = {};
    return this.run.signals.map((signal) => {
      const values = signal.values || spread(signal.runs, frames);
      this.values[signal.name] = values;
      const row = body.insertRow();
      row.insertCell().textContent = signal.name;
      const cell = row.insertCell();
      row.insertCell().textContent = signal.unit || "";
      return { cell, values };
    });
  }

  fill(i) {
    for (const { cell, values } of this.signals) {
      const value = values[i];
      const text = value === null || value === undefined ? "–" : value === true ? "yes" : value === false ? "no" : String(value);
      if (cell.textContent !== text) cell.textContent = text;
      cell.className = (value === true ? "yes" : "") + (i > 0 && values[i - 1] !== value ? " changed" : "");
    }
  }
}

const data = JSON.parse(document.getElementById("data").textContent);
data.runs.forEach((run, k) => new Player(document.getElementById("run-" + (k + 1)), run));
document.documentElement.dataset.ready = "yes";
