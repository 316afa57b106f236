// Draws the scene from above: the ground, the things on it, and important names.

const SEEN_ACROSS_M = 62;
const AHEAD_M = 7;

class Picture {
  // ground: rows of kind, width and points, in metres.
  constructor(canvas, ground) {
    this.canvas = canvas;
    this.ground = new Ground(ground);
    this.room = Boolean(this.ground.floor);
    this.centre = [0, 0];
    this.small = false;
  }

  // seen: the visible things, each with x, y, heading, long, wide, kind, state, label.
  draw(seen, mood) {
    const { canvas } = this, box = canvas.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return;
    const dense = window.devicePixelRatio || 1;
    const wide = Math.round(box.width * dense), high = Math.round(box.height * dense);
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
    }
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(canvas), known = {};
    this.color = (name) => known[name] || (known[name] = style.getPropertyValue("--" + name).trim());
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = this.color(this.room ? "paper" : "ground");
    pen.fillRect(0, 0, wide, high);
    const view = this.view(seen, wide, high, dense);
    // From here on, coordinates are in metres, with y to the north.
    pen.setTransform(view.scale, 0, 0, -view.scale, wide / 2 - view.x * view.scale, high / 2 + view.y * view.scale);
    this.pixel = dense / view.scale;
    this.ground.draw(pen, this.color, this.pixel);
    const order = [...seen].sort((a, b) => this.above(a) - this.above(b));
    for (const one of order) this.body(pen, one, mood);
    if (this.small) return;
    const taken = [];
    const matters = (one) => (one.kind === "ego" || one.concern || one.state === "hit" ? 1 : 0);
    order.reverse().sort((a, b) => matters(b) - matters(a));
    for (const one of order) this.label(pen, one, mood, taken, view, wide, high);
    this.scaleBar(pen, view, wide, high, dense);
  }

  view(seen, wide, high, dense) {
    if (this.room) {
      const [left, low, right, top] = this.ground.extent;
      const [over, under] = this.words_over().map((words) => words * dense);
      const scale = 0.95 * Math.min(wide / (right - left), (high - over - under) / (top - low));
      return { x: (left + right) / 2, y: (low + top) / 2 + (over - under) / 2 / scale, scale };
    }
    const ego = seen.find((one) => one.kind === "ego");
    if (ego) {
      const turn = (ego.heading * Math.PI) / 180;
      this.centre = [ego.x + AHEAD_M * Math.sin(turn), ego.y + AHEAD_M * Math.cos(turn)];
    }
    return { x: this.centre[0], y: this.centre[1], scale: Math.max(Math.min(wide, high), 0.7 * Math.max(wide, high)) / (SEEN_ACROSS_M * (this.small ? 0.7 : 1)) };
  }

  // The height that text covers at the top and at the bottom of the picture.
  words_over() {
    const hud = this.canvas.parentElement.querySelector(".hud"), high = this.canvas.clientHeight;
    if (this.small || !hud || !hud.textContent) return [0, 0];
    const side = this.canvas.parentElement.querySelector(".side"), over = side ? side.offsetTop + side.offsetHeight : 0;
    return hud.offsetTop > high / 2 ? [over + 4, high - hud.offsetTop + 4] : [hud.offsetTop + hud.offsetHeight + 4, 16];
  }

  above(one) {
    if (one.kind === "light") return -1e9;
    // A thing named in a law is drawn above the furniture that contains it.
    return one.top + (one.concern && one.kind !== "furniture" ? 1e5 : 0) + (one.kind === "ego" ? 1e6 : 0);
  }

  body(pen, one, mood) {
    pen.save();
    pen.translate(one.x, one.y);
    pen.rotate((-one.heading * Math.PI) / 180);
    const ego = one.kind === "ego" && this.room ? robot : vehicle;
    const kinds = { ego, vehicle, pedestrian: person, light, furniture, object };
    (kinds[one.kind] || object)(pen, one, this.color, this.pixel);
    this.ring(pen, one, mood);
    pen.restore();
  }

  ring(pen, one, mood) {
    const marked = one.state === "hit" ? "bad" : one.kind === "ego" ? mood : one.concern ? "concern" : "";
    if (!marked) return;
    pen.strokeStyle = this.color(marked);
    pen.lineWidth = (marked === "bad" ? 3.5 : 2.5) * this.pixel;
    if (one.kind === "furniture") { pen.strokeRect(-one.wide / 2, -one.long / 2, one.wide, one.long); return; }
    const most = Math.max(one.long, one.wide);
    const radius = one.kind === "object" ? Math.max(most, 9 * this.pixel) : (this.room ? 0.62 : 0.7) * most + 3 * this.pixel;
    // An alarm is dashed and a violation is solid, so that they differ without colours.
    if (marked === "warn") pen.setLineDash([8 * this.pixel, 5 * this.pixel]);
    disc(pen, 0, 0, radius);
    pen.stroke();
    pen.setLineDash([]);
  }

  words(one, mood) {
    if (one.state === "hit") return "hit";
    if (one.kind === "ego" && !this.room) return mood === "bad" ? "ego: broke a law" : "ego";
    if (this.room && (one.concern || one.state.includes("held") || (one.kind === "furniture" && one.wide * one.long > 0.25)))
      return one.state ? one.label + ": " + one.state : one.label;
    return "";
  }

  label(pen, one, mood, taken, view, wide, high) {
    const text = this.words(one, mood);
    if (!text) return;
    pen.save();
    const spot = pen.getTransform().transformPoint(new DOMPoint(one.x, one.y));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    const dense = window.devicePixelRatio || 1, plain = one.kind === "furniture" && !one.concern;
    const size = (plain ? 10.5 : 12.5) * dense;
    pen.font = (plain ? "" : "600 ") + size + "px system-ui, sans-serif";
    pen.textAlign = "center";
    const width = pen.measureText(text).width + 8 * dense;
    const half = 0.5 * Math.max(one.long, one.wide) * view.scale;
    const turn = (one.heading * Math.PI) / 180, across = Math.abs(Math.cos(turn)) * one.wide + Math.abs(Math.sin(turn)) * one.long;
    if (plain && width > 1.2 * across * view.scale) { pen.restore(); return; } // it would cover other labels
    const off = plain ? 0 : one.kind === "furniture" ? -half - 4 * dense : Math.min(half, 40 * dense) + 22 * dense;
    const x = Math.min(Math.max(spot.x, width / 2 + 3), wide - width / 2 - 3);
    const y = Math.min(Math.max(spot.y + (one.state === "hit" ? -off + size : off), size), high - 6 * dense);
    const around = [x - width / 2, y - size, x + width / 2, y + 4 * dense];
    if (taken.every((other) => around[2] < other[0] || around[0] > other[2] || around[3] < other[1] || around[1] > other[3])) {
      taken.push(around);
      if (!plain) {
        pen.fillStyle = this.color("tag");
        box(pen, around[0], around[1] - 1 * dense, around[2] - around[0], around[3] - around[1] + dense, 4 * dense);
        pen.fill();
      }
      const bad = one.state === "hit" || (one.kind === "ego" && mood === "bad");
      pen.fillStyle = this.color(bad ? "bad" : one.concern ? "concern" : "ink");
      pen.fillText(text, x, y - 1 * dense);
    }
    pen.restore();
  }

  scaleBar(pen, view, wide, high, dense) {
    const metres = this.room ? 1 : 10;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    const length = metres * view.scale, x = wide - length - 12 * dense, y = high - 12 * dense;
    pen.strokeStyle = pen.fillStyle = this.color("ink");
    pen.lineWidth = 2 * dense;
    pen.beginPath();
    pen.moveTo(x, y - 4 * dense); pen.lineTo(x, y); pen.lineTo(x + length, y); pen.lineTo(x + length, y - 4 * dense);
    pen.stroke();
    pen.font = 11 * dense + "px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillText(metres + " m", x + length / 2, y - 5 * dense);
  }
}
