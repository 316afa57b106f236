// The run from above: a canvas that draws one moment of a scene.
"use strict";

// A track holds one number if it never changed.
const at = (list, i) => (list.length === 1 ? list[0] : list[i]);

function inRuns(runs, i) {
  let low = 0, high = runs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (runs[middle][0] <= i) low = middle; else high = middle - 1;
  }
  return runs[low][1];
}

function between(a, b, share) { return a + (b - a) * share; }

function turned(a, b, share) {
  const apart = ((((b - a) % 360) + 540) % 360) - 180;
  return a + apart * share;
}

class Picture {
  constructor(canvas, scene) {
    this.canvas = canvas;
    this.scene = scene;
    this.moving = scene.things.filter((thing) => thing.kind !== "light");
    this.lights = scene.things.filter((thing) => thing.kind === "light");
    this.ego = scene.things.filter((thing) => thing.kind === "ego");
    this.centre = [0, 0];
  }

  // share: how far the time is on its way from frame i to the next.
  draw(i, share, mood) {
    const box = this.canvas.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return;
    const dense = window.devicePixelRatio || 1;
    const wide = Math.round(box.width * dense), high = Math.round(box.height * dense);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    const pen = this.canvas.getContext("2d");
    const style = getComputedStyle(this.canvas);
    this.color = (name) => style.getPropertyValue("--" + name).trim();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = this.color("ground");
    pen.fillRect(0, 0, wide, high);
    const view = this.view(i, share, wide, high);
    // Metres from here on, y to the north.
    pen.setTransform(view.scale, 0, 0, -view.scale, wide / 2 - view.x * view.scale, high / 2 + view.y * view.scale);
    this.pixel = dense / view.scale;
    this.ground(pen);
    for (const light of this.lights) this.light(pen, light, i);
    const seen = this.moving.map((thing) => this.pose(thing, i, share)).filter(Boolean);
    seen.sort((a, b) => a.over - b.over);
    for (const one of seen) this.thing(pen, one, mood);
    const labels = [];
    const matters = (one) => (one.thing.kind === "ego" || one.thing.concern || one.state === "hit" ? 1 : 0);
    seen.reverse().sort((a, b) => matters(b) - matters(a));
    for (const one of seen) this.label(pen, one, mood, labels, view, wide, high);
    this.scaleBar(pen, view, wide, high, dense);
  }

  view(i, share, wide, high) {
    if (this.scene.room) {
      const floor = this.scene.ground.find((shape) => shape[0] === "floor")[2];
      const xs = floor.filter((_, k) => k % 2 === 0), ys = floor.filter((_, k) => k % 2);
      const low = [Math.min(...xs) / 100, Math.min(...ys) / 100];
      const far = [Math.max(...xs) / 100, Math.max(...ys) / 100];
      const words = 42 * (window.devicePixelRatio || 1); // the line at the top
      const scale = 0.96 * Math.min(wide / (far[0] - low[0]), (high - words) / (far[1] - low[1]));
      return { x: (low[0] + far[0]) / 2, y: (low[1] + far[1]) / 2 + words / 2 / scale, scale };
    }
    const ego = this.ego.map((thing) => this.pose(thing, i, share)).find(Boolean);
    if (ego) this.centre = [ego.x, ego.y];
    return { x: this.centre[0], y: this.centre[1], scale: Math.min(wide, high) / 64 };
  }

  pose(thing, i, share) {
    const k = i - thing.first;
    if (k < 0 || k >= thing.frames) return null;
    const next = Math.min(k + 1, thing.frames - 1);
    return {
      thing,
      x: between(at(thing.x, k), at(thing.x, next), share) / 100,
      y: between(at(thing.y, k), at(thing.y, next), share) / 100,
      heading: turned(at(thing.h, k), at(thing.h, next), share),
      state: inRuns(thing.states, k),
      // What a law speaks of is not hidden by what it lies in.
      over: at(thing.top, k) + (thing.concern && thing.kind !== "furniture" ? 1e5 : 0) + (thing.kind === "ego" ? 1e6 : 0),
    };
  }

  ground(pen) {
    const order = ["floor", "sidewalk", "lane", "junction", "crosswalk", "line"];
    for (const kind of order) {
      const shapes = this.scene.ground.filter((shape) => shape[0] === kind);
      if (kind === "lane") {
        // Lines between lanes: the road a little wider below.
        for (const [, width, points] of shapes) this.stroke(pen, points, width / 100, this.color("mark"), 0.3);
      }
      for (const [, width, points] of shapes) {
        if (kind === "crosswalk") {
          this.stroke(pen, points, width / 100, this.color("road"), 0);
          pen.setLineDash([0.5, 0.5]);
          this.stroke(pen, points, width / 100, this.color("mark"), 0);
          pen.setLineDash([]);
        } else if (width) {
          const colors = { lane: "road", sidewalk: "walk", line: "mark" };
          this.stroke(pen, points, width / 100, this.color(colors[kind] || "road"), kind === "lane" ? -0.12 : 0);
        } else {
          const colors = { floor: "floor", sidewalk: "walk", junction: "road" };
          this.path(pen, points);
          pen.closePath();
          pen.fillStyle = this.color(colors[kind] || "road");
          pen.fill();
        }
      }
    }
  }

  path(pen, points) {
    pen.beginPath();
    for (let k = 0; k < points.length; k += 2) pen.lineTo(points[k] / 100, points[k + 1] / 100);
  }

  stroke(pen, points, width, color, more) {
    this.path(pen, points);
    pen.lineWidth = Math.max(width + more, this.pixel);
    pen.strokeStyle = color;
    pen.stroke();
  }

  light(pen, light, i) {
    const k = i - light.first;
    if (k < 0 || k >= light.frames) return;
    const colors = { green: "#1fa347", yellow: "#f2b705", red: "#e5372b" };
    this.placed(pen, at(light.x, k) / 100, at(light.y, k) / 100, at(light.h, k), () => {
      const long = Math.max(light.l / 100, 3 * this.pixel), wide = light.w / 100;
      pen.fillStyle = colors[inRuns(light.states, k)] || "#777777";
      pen.fillRect(-wide / 2, -long / 2, wide, long);
    });
  }

  placed(pen, x, y, heading, draw) {
    pen.save();
    pen.translate(x, y);
    pen.rotate((-heading * Math.PI) / 180);
    draw();
    pen.restore();
  }

  thing(pen, one, mood) {
    const { thing } = one;
    const room = this.scene.room;
    let long = thing.l / 100, wide = thing.w / 100;
    if (thing.kind === "pedestrian") { long = Math.max(long, 5 * this.pixel); wide = Math.max(wide, 5 * this.pixel); }
    if (thing.kind === "object") { long = Math.max(long, 4 * this.pixel); wide = Math.max(wide, 4 * this.pixel); }
    const colors = { ego: "ego", vehicle: "other", pedestrian: "person", furniture: "thing", object: "other" };
    this.placed(pen, one.x, one.y, one.heading, () => {
      pen.fillStyle = this.color(thing.concern && thing.kind !== "furniture" ? "concern" : colors[thing.kind] || "other");
      pen.strokeStyle = this.color("paper");
      pen.lineWidth = 1.2 * this.pixel;
      pen.beginPath();
      if (thing.kind === "pedestrian" || (thing.kind === "ego" && room)) pen.ellipse(0, 0, wide / 2, long / 2, 0, 0, 7);
      else if (pen.roundRect) pen.roundRect(-wide / 2, -long / 2, wide, long, thing.kind === "furniture" || thing.kind === "object" ? 0.03 : 0.5);
      else pen.rect(-wide / 2, -long / 2, wide, long);
      pen.fill();
      pen.stroke();
      if (thing.kind === "ego" || thing.kind === "vehicle") {
        pen.fillStyle = this.color("paper");
        if (room) { pen.beginPath(); pen.moveTo(0, long / 2); pen.lineTo(-wide / 4, 0); pen.lineTo(wide / 4, 0); pen.fill(); }
        else pen.fillRect(-wide * 0.36, long * 0.12, wide * 0.72, long * 0.14);
      }
      const marked = one.state === "hit" ? "bad" : thing.kind === "ego" ? mood : thing.concern ? "concern" : "";
      if (marked) {
        pen.strokeStyle = this.color(marked);
        pen.lineWidth = (marked === "bad" ? 3.5 : 2.5) * this.pixel;
        if (thing.kind === "furniture") pen.strokeRect(-wide / 2, -long / 2, wide, long);
        else {
          pen.beginPath();
          const radius = (room ? 0.62 : 0.72) * Math.max(long, wide) + 3 * this.pixel;
          pen.arc(0, 0, thing.kind === "object" ? Math.max(wide, long) : radius, 0, 7);
          pen.stroke();
        }
      }
    });
  }

  label(pen, one, mood, taken, view, wide, high) {
    const { thing } = one;
    let text = "";
    if (one.state === "hit") text = "hit";
    else if (thing.kind === "ego" && !this.scene.room) text = mood === "bad" ? "ego: broke a law" : "ego";
    else if (this.scene.room && (thing.concern || one.state.includes("held") || (thing.kind === "furniture" && thing.w * thing.l > 2500)))
      text = one.state ? thing.name + ": " + one.state : thing.name;
    if (!text) return;
    pen.save();
    const spot = pen.getTransform().transformPoint(new DOMPoint(one.x, one.y));
    pen.setTransform(1, 0, 0, 1, 0, 0);
    const dense = window.devicePixelRatio || 1;
    const size = (thing.kind === "furniture" && !thing.concern ? 10.5 : 12.5) * dense;
    pen.font = (thing.concern || one.state === "hit" ? "600 " : "") + size + "px system-ui, sans-serif";
    pen.textAlign = "center";
    const width = pen.measureText(text).width;
    const above = thing.concern && thing.kind === "furniture";
    const off = this.scene.room ? (above ? -0.5 * (thing.l / 100) * view.scale - 5 * dense : thing.kind === "furniture" ? 0 : 15 * dense) : (0.5 * thing.l * view.scale) / 100 + 15 * dense;
    const x = Math.min(Math.max(spot.x, width / 2 + 3), wide - width / 2 - 3);
    const y = Math.min(one.state === "hit" ? spot.y - off + size : spot.y + off, high - 4);
    const box = [x - width / 2, y - size, x + width / 2, y + 3];
    const free = taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
    if (free) {
      taken.push(box);
      pen.lineWidth = 3.5 * dense;
      pen.lineJoin = "round";
      pen.strokeStyle = this.color(this.scene.room ? "floor" : "road");
      pen.strokeText(text, x, y);
      const color = one.state === "hit" || (thing.kind === "ego" && mood === "bad") ? "bad" : thing.concern ? "concern" : "ink";
      pen.fillStyle = this.color(this.scene.room || color !== "ink" ? color : "mark");
      if (!this.scene.room) { pen.strokeStyle = "#20262c"; pen.strokeText(text, x, y); pen.fillStyle = color === "bad" ? "#ff9c95" : "#ffffff"; }
      pen.fillText(text, x, y);
    }
    pen.restore();
  }

  scaleBar(pen, view, wide, high, dense) {
    const metres = this.scene.room ? 1 : 10;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    const length = metres * view.scale, x = wide - length - 12 * dense, y = high - 12 * dense;
    pen.strokeStyle = this.color("ink");
    pen.lineWidth = 2 * dense;
    pen.beginPath();
    pen.moveTo(x, y - 4 * dense); pen.lineTo(x, y); pen.lineTo(x + length, y); pen.lineTo(x + length, y - 4 * dense);
    pen.stroke();
    pen.fillStyle = this.color("ink");
    pen.font = 11 * dense + "px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillText(metres + " m", x + length / 2, y - 5 * dense);
  }
}
