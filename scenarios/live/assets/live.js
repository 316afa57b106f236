// The live page: streams runs from its server, keeps the last minute, and draws.

const MINUTE_S = 60;
const MOST_EVENTS = 200;
const CURVES_MS = 100; // minimum time between two drawings of the curves
const AGAIN_MS = 1000; // pause before reconnecting to the server

const find = (selector) => document.querySelector(selector);
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
const runs = new Map();
let chosen = null; // the run that the viewer selected; if null, the newest is shown

function put(parent, name, text, kind) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  parent.appendChild(made);
  return made;
}

class Run {
  constructor(number, about) {
    Object.assign(this, { number, about, told: [], frames: [], events: [], scenes: [], end: null, fresh: true });
    this.concern = new Set(about.concern);
  }

  take(kind, content) {
    this.fresh = true;
    if (kind === "told") [this.told] = content;
    else if (kind === "ground") [this.ground] = content;
    else if (kind === "frame") this.frame(content);
    else if (kind === "scene") this.scene(content);
    else if (kind === "event") this.event(content);
    else if (kind === "end") this.end = content[0];
  }

  frame([time, , decision, law, left, risks, bits, unknown, shown]) {
    const last = this.frames[this.frames.length - 1];
    const at = time === null ? (last ? last.time : 0) : time;
    this.frames.push({ time: at, decision, law, left, risks, bits, unknown, shown });
    let old = 0;
    while (this.frames[old].time < at - MINUTE_S) old += 1;
    if (old) this.frames.splice(0, old);
  }

  scene([time, rows]) {
    const things = rows.map(([name, kind, x, y, heading, long, wide, state, top, label]) => ({
      name, kind, x, y, heading, long, wide, state, top, label: label || name, concern: Boolean(label) && this.concern.has(label),
    }));
    this.scenes = [...this.scenes.slice(-1), { time, things, came: performance.now() }];
  }

  event([time, kind, text]) {
    this.events.push({ time, kind, text });
    this.events.splice(0, this.events.length - MOST_EVENTS);
    if (kind === "violated") this.broken = true;
  }

  // Interpolates between the last two scenes.
  seen(now) {
    const [one, next] = this.scenes.length > 1 ? this.scenes : [this.scenes[0], this.scenes[0]];
    const apart = next.came - one.came;
    const share = calm.matches || apart <= 0 || apart > 400 ? 1 : Math.min(1, (now - next.came) / apart);
    const before = new Map(one.things.map((thing) => [thing.name, thing]));
    return next.things.map((thing) => {
      const from = before.get(thing.name);
      if (!from || share >= 1) return thing;
      const turn = ((((thing.heading - from.heading) % 360) + 540) % 360) - 180;
      return { ...thing, x: from.x + (thing.x - from.x) * share, y: from.y + (thing.y - from.y) * share, heading: from.heading + turn * share };
    });
  }

  get last() { return this.frames[this.frames.length - 1]; }

  get mood() { return this.broken ? "bad" : !this.last || this.last.decision === "proceed" ? "" : "warn"; }

  // The data in the format that Curves needs.
  get film() {
    const { frames, about } = this, times = frames.map((frame) => frame.time);
    const part = (k, j) => frames.map(({ risks }) => (risks[k] === null ? null : risks[k][j]));
    const marks = this.events.filter(({ kind }) => kind === "violated").map(({ time, text }) => [time, "violated", text.replace(/\.$/, "")]);
    return {
      times, step: false, curves: this.curves(), strips: [],
      window: [times[0], Math.max(times[times.length - 1], times[0] + 10)],
      laws: about.laws.map((law, k) => ({
        name: law.name, steps: law.steps, low: part(k, 0), point: part(k, 1), high: part(k, 2),
        likely: frames.some(({ risks }) => risks[k] && risks[k][3] !== null) ? [part(k, 3), part(k, 4)] : [],
        pending: part(k, 5), foreseen: [], marks: k ? [] : [...this.alarms(), ...marks],
      })),
    };
  }

  alarms() {
    return this.frames.filter((frame, i) => i && frame.decision !== "proceed" && this.frames[i - 1].decision === "proceed")
      .map((frame) => [frame.time, "alarm", frame.decision]);
  }

  curves() {
    const k = this.told.indexOf("speed");
    return k < 0 ? [] : [{ name: "speed", unit: this.about.units.speed || "", values: this.frames.map(({ shown }) => (typeof shown[k] === "number" ? shown[k] : null)) }];
  }
}

// -- drawing --------------------------------------------------------------------------

class Focus {
  constructor() {
    this.section = find("#focus");
    this.drawn = 0;
  }

  show(run) {
    if (this.run === run) return;
    this.run = run;
    this.section.hidden = false;
    find("#name").textContent = run.about.name + (run.about.shadow ? ", shadow mode" : "");
    find(".curves").replaceChildren();
    this.picture = null;
    find("#owed").replaceChildren();
    find("#holds").replaceChildren();
    find("#events").replaceChildren();
    run.fresh = true;
  }

  draw(now) {
    const { run } = this;
    if (!run || !run.last) return;
    const view = find("#focus .view");
    view.hidden = !run.ground;
    view.parentElement.classList.toggle("alone", !run.ground);
    if (run.ground && !this.picture) this.picture = new Picture(find("#focus canvas"), run.ground);
    if (this.picture && run.scenes.length) this.picture.draw(run.seen(now), run.mood);
    if (!run.fresh || now - this.drawn < CURVES_MS) return;
    this.drawn = now;
    run.fresh = false;
    if (run.frames.length > 1) {
      const curves = new Curves(find("#focus .curves"), run.film, null);
      curves.last = run.last.time;
      curves.draw();
    }
    this.words(run);
  }

  words(run) {
    const { last, about } = run, verdict = find("#verdict");
    const worst = last.law && about.laws.findIndex((law) => law.name === last.law);
    const risk = worst >= 0 && last.risks[worst];
    const told = risk ? `${last.law}: risk ${risk[1].toFixed(2)}, bounds ${risk[0].toFixed(2)} to ${risk[2].toFixed(2)}` : last.law;
    verdict.className = "verdict " + (run.mood || "calm");
    const words = run.end ? run.end : [last.decision, told].filter(Boolean).join(" · ");
    if (verdict.textContent !== words) verdict.textContent = words;
    const shown = run.told.map((name, k) => {
      const value = last.shown[k], unit = about.units[name];
      if (value === null) return "";
      return `${name.replaceAll("_", " ")} ${typeof value === "number" ? +value.toFixed(1) : value}${unit ? " " + unit : ""}`;
    });
    find("#focus .hud").textContent = [last.time.toFixed(1) + " s", ...shown.filter(Boolean)].join(" · ");
    this.owed(run);
    const bits = BigInt("0x" + (last.bits || "0"));
    const holds = about.predicates.filter((_, k) => (bits >> BigInt(k)) & 1n);
    if (last.unknown) holds.unshift("a state that was never seen in training");
    this.list(find("#holds"), holds.length ? holds : ["none"]);
    this.events(run);
  }

  owed(run) {
    const list = find("#owed");
    const owed = run.about.laws.map((law, k) => [law.name, run.last.risks[k] && run.last.risks[k][5]]).filter(([, left]) => left !== null && left !== undefined);
    this.list(list, owed.length ? owed.map(([name, left]) => `${name.replaceAll("_", " ")}: ${left.toFixed(1)} s left`) : ["none"]);
    owed.forEach(([, left], k) => {
      const meter = put(list.children[k], "meter");
      meter.max = Math.max(left, run.most || 0);
      run.most = meter.max;
      meter.value = left;
      meter.setAttribute("aria-hidden", "true");
    });
  }

  list(list, words) {
    list.replaceChildren();
    for (const text of words) put(list, "li", text);
  }

  events(run) {
    const list = find("#events"), newest = run.events[run.events.length - 1];
    if (list.dataset.last === String(run.events.length) + (newest && newest.time) + run.number) return;
    list.dataset.last = String(run.events.length) + (newest && newest.time) + run.number;
    list.replaceChildren();
    for (const { time, kind, text } of [...run.events].reverse()) {
      const item = put(list, "li");
      put(item, "time", (time === null ? 0 : time).toFixed(1) + " s");
      put(item, "span", text, kind);
    }
  }
}

class Tile {
  constructor(run) {
    this.run = run;
    this.button = put(find("#tiles"), "button", "", "tile");
    this.button.type = "button";
    this.canvas = put(this.button, "canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.name = put(this.button, "span", run.about.name, "name");
    this.state = put(this.button, "span", "", "state");
    this.button.addEventListener("click", () => { chosen = run; focus.show(run); });
  }

  draw(now, stale) {
    const { run } = this, { last } = run;
    if (!last) return;
    const worst = Math.max(0, ...last.risks.map((risk) => (risk ? risk[1] : 0)));
    const words = run.broken ? "broke a law" : run.end ? (run.events.some(({ kind }) => kind !== "end" && kind !== "violated") ? "warned, no violation" : "clean") : `${last.decision}, risk ${worst.toFixed(2)}`;
    if (this.state.textContent !== words) this.state.textContent = words;
    this.button.className = `tile ${run.mood || "calm"}${run.end ? " over" : ""}`;
    this.button.setAttribute("aria-pressed", String(focus.run === run));
    this.canvas.hidden = !run.ground;
    if (!run.ground || !run.scenes.length || (!stale && run.end)) return;
    if (!this.picture) {
      this.picture = new Picture(this.canvas, run.ground);
      this.picture.small = true;
    }
    this.picture.draw(run.seen(now), run.mood);
  }
}

const focus = new Focus();
const tiles = new Map();
let tiled = 0;

function draw(now) {
  const all = [...runs.values()].filter((run) => run.last);
  if (all.length) {
    const current = all.filter((run) => !run.end).pop() || all[all.length - 1];
    focus.show(chosen && runs.get(chosen.number) === chosen ? chosen : !focus.run || focus.run.end || !runs.has(focus.run.number) ? current : focus.run);
  }
  focus.draw(now);
  const strip = find("#tiles");
  strip.hidden = all.length < 2;
  for (const [number, tile] of tiles) if (runs.get(number) !== tile.run) { tile.button.remove(); tiles.delete(number); }
  if (!strip.hidden && now - tiled > CURVES_MS) {
    tiled = now;
    for (const run of all) {
      const fresh = !tiles.has(run.number);
      if (fresh) tiles.set(run.number, new Tile(run));
      tiles.get(run.number).draw(now, fresh || !tiles.get(run.number).over);
      tiles.get(run.number).over = Boolean(run.end);
    }
  }
  document.documentElement.dataset.frames = String(all.reduce((sum, run) => sum + run.frames.length, 0));
  requestAnimationFrame(draw);
}

// -- the server -----------------------------------------------------------------------

function take(line) {
  const [number, kind, ...content] = JSON.parse(line);
  if (number === undefined) return;
  if (kind === "gone") runs.delete(number);
  else if (kind === "drift") drifted(...content);
  else if (kind === "begin") runs.set(number, new Run(number, content[0]));
  else if (runs.has(number)) runs.get(number).take(kind, content);
}

function drifted(found, sentence, lines) {
  find("#drift").hidden = false;
  find("#drift").className = found ? "fold found" : "fold";
  find("#drift summary").textContent = sentence;
  focus.list(find("#drift ul"), lines);
}

async function listen(token) {
  const answer = await fetch("/stream", { headers: { Authorization: "Bearer " + token }, cache: "no-store" });
  if (answer.status === 401) throw new TypeError("token");
  if (!answer.ok) throw new Error(answer.statusText);
  runs.clear();
  chosen = null;
  let waiting = true;
  say("Connected. Waiting for the first frame …", "live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line);
    if (waiting && [...runs.values()].some((run) => run.last)) {
      waiting = false;
      say("Connected.", "live");
    }
  }
}

function say(words, kind) {
  const status = find("#status");
  status.textContent = words;
  document.documentElement.dataset.state = kind;
}

async function watch() {
  const token = window.location.hash.slice(1);
  if (!token) { say("The URL contains no token: open the whole URL that the command printed.", "refused"); return; }
  for (;;) {
    try {
      await listen(token);
    } catch (error) {
      if (error instanceof TypeError && error.message === "token") {
        say("The token is not valid: open the URL from the last run of the command.", "refused");
        return;
      }
    }
    say(runs.size ? "The run has ended, or the connection was lost: this page shows the data received so far." : "Waiting for the server …", "lost");
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

requestAnimationFrame(draw);
watch();
document.documentElement.dataset.ready = "yes";
