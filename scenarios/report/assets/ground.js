// The stationary parts of a scene, converted to paths once: roads with lines, or a floor.
"use strict";

const LINE_M = 0.14;

// Shifts a polyline sideways: to the left of its direction if the distance is positive.
function aside(points, by) {
  return points.map(([x, y], i) => {
    const [ax, ay] = points[Math.max(i - 1, 0)], [bx, by_] = points[Math.min(i + 1, points.length - 1)];
    const long = Math.hypot(bx - ax, by_ - ay) || 1;
    return [x - ((by_ - ay) / long) * by, y + ((bx - ax) / long) * by];
  });
}

// Splits a polyline into pieces of a few metres, each with its direction.
function pieces(points, step) {
  const found = [];
  for (let i = 1; i < points.length; i += 1) {
    const [ax, ay] = points[i - 1], [bx, by] = points[i];
    const long = Math.hypot(bx - ax, by - ay), count = Math.max(1, Math.round(long / step));
    if (long < 1e-6) continue;
    const ux = (bx - ax) / long, uy = (by - ay) / long;
    for (let k = 0; k < count; k += 1) {
      const from = (long * k) / count, to = (long * (k + 1)) / count;
      found.push({ ax: ax + ux * from, ay: ay + uy * from, bx: ax + ux * to, by: ay + uy * to, ux, uy });
    }
  }
  return found;
}

function boxed(points, more) {
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  return [Math.min(...xs) - more, Math.min(...ys) - more, Math.max(...xs) + more, Math.max(...ys) + more];
}

// Direction of another lane with an edge at this point: 1 same, -1 opposite, 0 no lane.
function beside(x, y, ux, uy, lanes, own) {
  for (const lane of lanes) {
    const [left, low, right, high] = lane.box;
    if (lane === own || x < left || x > right || y < low || y > high) continue;
    for (const edge of lane.edges) {
      for (let i = 1; i < edge.length; i += 1) {
        const [ax, ay] = edge[i - 1], dx = edge[i][0] - ax, dy = edge[i][1] - ay;
        const long = dx * dx + dy * dy || 1;
        const share = Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / long));
        if (Math.hypot(x - ax - share * dx, y - ay - share * dy) > 0.6) continue;
        const turn = (dx * ux + dy * uy) / Math.sqrt(long);
        if (Math.abs(turn) > 0.7) return Math.sign(turn);
      }
    }
  }
  return 0;
}

// The lines of a road: dashed between lanes of one direction, a centre line between two.
function lines(lanes) {
  const found = { edge: new Path2D(), dashed: new Path2D(), centre: new Path2D() };
  for (const lane of lanes) {
    lane.edges = [aside(lane.points, lane.width / 2), aside(lane.points, -lane.width / 2)];
    lane.box = boxed(lane.points, lane.width);
  }
  lanes.forEach((lane) => {
    for (const edge of lane.edges) {
      let before = "", x = NaN, y = NaN;
      for (const piece of pieces(edge, 6)) {
        const way = beside((piece.ax + piece.bx) / 2, (piece.ay + piece.by) / 2, piece.ux, piece.uy, lanes, lane);
        const kind = way > 0 ? "dashed" : way < 0 ? "centre" : "edge";
        if (kind !== before || piece.ax !== x || piece.ay !== y) found[kind].moveTo(piece.ax, piece.ay);
        found[kind].lineTo(piece.bx, piece.by);
        [before, x, y] = [kind, piece.bx, piece.by];
      }
    }
  });
  return found;
}

function path(points, closed) {
  const made = new Path2D();
  for (const [x, y] of points) made.lineTo(x, y);
  if (closed) made.closePath();
  return made;
}

class Ground {
  // shapes: rows of kind, width and points, in metres.
  constructor(shapes) {
    this.shapes = shapes.map(([kind, width, points]) => ({ kind, width, points, path: path(points, !width) }));
    this.floor = this.shapes.find((shape) => shape.kind === "floor");
    this.lines = lines(this.of("lane"));
  }

  of(kind) { return this.shapes.filter((shape) => shape.kind === kind); }

  // The bounding box of the floor: left, low, right, high.
  get extent() { return boxed(this.floor.points, 0.1); }

  draw(pen, color, pixel) {
    const fill = (kind, name) => {
      for (const { width, path } of this.of(kind)) {
        if (width) {
          pen.lineWidth = Math.max(width, pixel);
          pen.strokeStyle = color(name);
          pen.stroke(path);
        } else {
          pen.fillStyle = color(name);
          pen.fill(path);
        }
      }
    };
    pen.lineJoin = "round";
    if (this.floor) { this.tiles(pen, color, pixel); return; }
    fill("sidewalk", "walk");
    for (const { width, path } of this.of("lane")) {
      pen.lineWidth = width + 0.5;
      pen.strokeStyle = color("kerb");
      pen.stroke(path);
    }
    fill("lane", "road");
    fill("junction", "road");
    pen.strokeStyle = color("mark");
    pen.lineWidth = Math.max(LINE_M, 0.8 * pixel);
    pen.stroke(this.lines.edge);
    pen.setLineDash([3, 4.5]);
    pen.stroke(this.lines.dashed);
    pen.setLineDash([]);
    pen.strokeStyle = color("centre");
    pen.lineWidth = Math.max(0.3, 1.4 * pixel);
    pen.stroke(this.lines.centre);
    for (const { width, path } of this.of("crosswalk")) {
      pen.lineWidth = width;
      pen.strokeStyle = color("road");
      pen.stroke(path);
      pen.setLineDash([0.5, 0.6]);
      pen.strokeStyle = color("mark");
      pen.stroke(path);
      pen.setLineDash([]);
    }
    fill("line", "mark");
  }

  tiles(pen, color, pixel) {
    const [left, low, right, high] = this.extent;
    pen.fillStyle = color("floor");
    pen.fill(this.floor.path);
    pen.save();
    pen.clip(this.floor.path);
    pen.beginPath();
    for (let x = Math.ceil(left * 2) / 2; x < right; x += 0.5) { pen.moveTo(x, low); pen.lineTo(x, high); }
    for (let y = Math.ceil(low * 2) / 2; y < high; y += 0.5) { pen.moveTo(left, y); pen.lineTo(right, y); }
    pen.strokeStyle = color("joint");
    pen.lineWidth = pixel;
    pen.stroke();
    pen.restore();
    pen.strokeStyle = color("wall");
    pen.lineWidth = 0.1;
    pen.stroke(this.floor.path);
  }
}
