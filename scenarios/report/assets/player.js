// The playback clock of one or two runs: plays, seeks, and updates pictures and curves.

const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const REST_MS = 1500; // pause before automatic playback repeats

function spread(runs, frames) {
  const values = [];
  runs.forEach(([start, value], k) => {
    const end = k + 1 < runs.length ? runs[k + 1][0] : frames;
    for (let i = start; i < end; i += 1) values.push(value);
  });
  return values;
}

// The picture of a run, with the text for the current time.
class View {
  constructor(box, run) {
    this.run = run;
    const canvas = box.querySelector("canvas");
    this.hud = box.querySelector(".hud");
    this.values = Object.fromEntries(run.signals.map((signal) => [signal.name, signal.values || spread(signal.runs, run.times.length)]));
    this.stills = canvas && run.scene && run.scene.pictures && run.scene.pictures.length ? new Stills(canvas, run.scene.pictures) : null;
    this.tracks = canvas && run.scene && run.scene.things ? new Tracks(run.scene) : null;
    this.picture = this.tracks ? new Picture(canvas, this.tracks.ground) : null;
  }

  // Index of the last frame at or before a time.
  frame(time) {
    const { times } = this.run;
    let low = 0, high = times.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle] <= time + 1e-9) low = middle; else high = middle - 1;
    }
    return low;
  }

  show(time) {
    const { run } = this, i = this.frame(time), next = run.times[i + 1];
    const share = next === undefined || calm.matches || run.step ? 0 : Math.min(1, Math.max(0, (time - run.times[i]) / (next - run.times[i])));
    const broken = run.laws.some((law) => law.broken.some((moment) => moment <= time + 1e-9));
    const decision = inRuns(run.decisions, i);
    const mood = broken ? "bad" : decision === "proceed" ? "" : "warn";
    if (this.picture) this.picture.draw(this.tracks.seen(i, share), mood);
    if (this.stills) this.stills.draw(i, mood);
    if (this.hud) this.hud.textContent = this.words(i, decision, broken);
    return i;
  }

  words(i, decision, broken) {
    const parts = [];
    for (const [name, unit] of this.run.told) {
      const value = this.values[name] && this.values[name][i];
      if (value !== null && value !== undefined) parts.push(`${name.replaceAll("_", " ")} ${typeof value === "number" ? +value.toFixed(1) : value}${unit ? " " + unit : ""}`);
    }
    const risks = this.run.laws.map((law) => law.point[i]).filter((risk) => risk !== null);
    if (risks.length) parts.push("risk " + Math.max(...risks).toFixed(2));
    parts.push(broken ? "law broken" : decision);
    return parts.join(" · ");
  }
}

class Player {
  constructor(section, run) {
    this.section = section;
    this.run = run;
    this.playing = false;
    const find = (selector) => section.querySelector(selector);
    const shown = run.ghost ? [run.ghost, run] : [run];
    this.views = [...section.querySelectorAll(".stage .view")].map((box, k) => new View(box, shown[k]));
    this.begin = Math.min(...shown.map((one) => one.times[0]));
    this.end = Math.max(...shown.map((one) => one.times[one.times.length - 1]));
    this.until = Math.max(...shown.map((one) => one.until));
    this.button = find(".play");
    this.slider = find("input[type=range]");
    this.clock = find("output");
    this.pace = find("select");
    this.curves = new Curves(find(".curves"), run, (time) => { this.ours(); this.seek(time); }, run.ghost);
    const body = find(".signals tbody");
    this.signals = body ? this.table(body) : [];
    this.button.addEventListener("click", () => { this.ours(true); this.toggle(); });
    this.slider.addEventListener("input", () => { this.ours(); this.seek(Number(this.slider.value)); });
    find(".stage").addEventListener("keydown", (event) => this.key(event));
    for (const button of section.querySelectorAll(".story button"))
      button.addEventListener("click", () => { this.ours(); this.seek(Number(button.dataset.t)); });
    new ResizeObserver(() => this.again()).observe(find(".stage"));
    dark.addEventListener("change", () => this.again(true));
    this.curves.draw();
    this.seek(Math.min(...shown.map((one) => one.start)));
    this.start = this.time;
  }

  // Redraws at the current time, after a change of size or colours.
  again(colors) {
    this.curves.draw(colors);
    this.show();
  }

  // At the first input, the reader takes control, and automatic playback stops.
  ours(goes) {
    const stop = this.alone && this.playing && !goes;
    this.alone = false;
    if (stop) this.toggle();
  }

  // Repeats the most important part until the reader takes control.
  playAlone() {
    this.alone = true;
    if (!this.playing) this.toggle();
  }

  key(event) {
    if (event.target.closest("button, select") && event.key === " ") return;
    const { times } = this.run;
    const step = times.length > 1 ? times[1] - times[0] : 1;
    const keys = {
      " ": () => this.toggle(), k: () => this.toggle(),
      ArrowLeft: () => this.seek(this.time - step), ArrowRight: () => this.seek(this.time + step),
      Home: () => this.seek(this.begin), End: () => this.seek(this.end),
    };
    if (event.key in keys && !event.target.closest("select")) {
      event.preventDefault();
      this.ours(event.key === " " || event.key === "k");
      keys[event.key]();
    }
  }

  toggle() {
    this.playing = !this.playing;
    this.button.textContent = this.playing ? "Pause" : "Play";
    if (!this.playing) return;
    if (this.time >= this.end) this.seek(this.begin, true);
    this.before = null;
    requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    if (!this.playing) return;
    const end = this.alone ? Math.min(this.until, this.end) : this.end;
    if (this.before !== null) {
      const passed = ((now - this.before) / 1000) * Number(this.pace.value);
      // With the system setting for reduced motion, show a frame every half second.
      if (!calm.matches || passed >= 0.5 * Number(this.pace.value)) {
        this.seek(Math.min(this.time + passed, end), true);
        this.before = now;
      }
    } else this.before = now;
    if (this.time < end) requestAnimationFrame((next) => this.tick(next));
    else if (this.alone) setTimeout(() => this.anew(), REST_MS);
    else this.toggle();
  }

  anew() {
    if (!this.playing) return;
    if (this.alone) this.seek(this.start, true);
    this.before = null;
    requestAnimationFrame((now) => this.tick(now));
  }

  seek(time, going) {
    this.time = Math.min(Math.max(time, this.begin), this.end);
    if (!going && this.playing) this.before = null;
    this.show();
  }

  show() {
    const { run, time } = this;
    for (const view of this.views) view.show(time);
    this.curves.place(time);
    this.slider.value = time;
    this.clock.textContent = time.toFixed(1) + " s";
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
    const i = this.views[this.views.length - 1].frame(time);
    this.fill(i);
  }

  table(body) {
    const { values } = this.views[this.views.length - 1];
    return this.run.signals.map((signal) => {
      const row = body.insertRow();
      row.insertCell().textContent = signal.name;
      const cell = row.insertCell();
      row.insertCell().textContent = signal.unit || "";
      return { cell, values: values[signal.name] };
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
