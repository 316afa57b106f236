// Draws vehicles, people, robots and objects, each in its own frame: in metres, facing up.

function box(pen, left, low, wide, high, round) {
  pen.beginPath();
  if (pen.roundRect) pen.roundRect(left, low, wide, high, round); else pen.rect(left, low, wide, high);
}

function shape(pen, ...points) {
  pen.beginPath();
  for (const [x, y] of points) pen.lineTo(x, y);
  pen.closePath();
}

function disc(pen, x, y, across, along) {
  pen.beginPath();
  pen.ellipse(x, y, across, along === undefined ? across : along, 0, 0, 7);
}

function shaded(pen, pixel, draw) {
  const by = Math.min(0.12, 2.5 * pixel);
  pen.save();
  pen.translate(by, -by);
  pen.fillStyle = "#0000002a";
  draw();
  pen.fill();
  pen.restore();
}

function vehicle(pen, one, color, pixel) {
  const { long: l, wide: w, kind } = one, ego = kind === "ego";
  const paint = color(ego ? "ego" : "other"), glass = color(ego ? "ego-glass" : "glass");
  const body = () => box(pen, -w / 2, -l / 2, w, l, w < 1.2 ? w / 2 : [0.35, 0.35, 0.6, 0.6]);
  shaded(pen, pixel, body);
  body();
  pen.fillStyle = paint;
  pen.fill();
  pen.strokeStyle = color(ego ? "ego-line" : "line");
  pen.lineWidth = Math.max((ego ? 1.8 : 1) * pixel, 0.06);
  pen.stroke();
  if (6 * pixel > w) return; // too small for details
  pen.fillStyle = glass;
  if (w < 1.2) { disc(pen, 0, -0.1 * l, 0.32 * w, 0.2 * l); pen.fill(); return; }
  if (l > 7.5) {
    // A lorry or a bus: a cab with a long body behind it.
    shape(pen, [-0.42 * w, l / 2 - 0.9], [0.42 * w, l / 2 - 0.9], [0.46 * w, l / 2 - 0.3], [-0.46 * w, l / 2 - 0.3]);
    pen.fill();
    box(pen, -0.42 * w, -l / 2 + 0.3, 0.84 * w, l - 1.9, 0.15);
    pen.fillStyle = color(ego ? "ego-roof" : "roof");
    pen.fill();
  } else {
    shape(pen, [-0.4 * w, 0.14 * l], [0.4 * w, 0.14 * l], [0.44 * w, 0.27 * l], [-0.44 * w, 0.27 * l]);
    pen.fill();
    shape(pen, [-0.37 * w, -0.36 * l], [0.37 * w, -0.36 * l], [0.4 * w, -0.27 * l], [-0.4 * w, -0.27 * l]);
    pen.fill();
    box(pen, -0.38 * w, -0.25 * l, 0.76 * w, 0.37 * l, 0.25);
    pen.fillStyle = color(ego ? "ego-roof" : "roof");
    pen.fill();
  }
  pen.fillStyle = "#fff3bf";
  for (const x of [-0.33, 0.33]) { box(pen, (x - 0.09) * w, l / 2 - 0.22, 0.18 * w, 0.18, 0.08); pen.fill(); }
  pen.fillStyle = "#c8372d";
  for (const x of [-0.36, 0.36]) { box(pen, (x - 0.09) * w, -l / 2 + 0.03, 0.18 * w, 0.16, 0.06); pen.fill(); }
  if (!ego) return;
  // A chevron on the roof marks the ego, so that its colour is not the only mark.
  shape(pen, [0, 0.08 * l], [0.26 * w, -0.1 * l], [0, -0.03 * l], [-0.26 * w, -0.1 * l]);
  pen.fillStyle = color("ego-line");
  pen.fill();
}

function person(pen, one, color, pixel) {
  const size = Math.max(0.32, 4 * pixel);
  shaded(pen, pixel, () => disc(pen, 0, 0, size, 0.62 * size));
  disc(pen, 0, 0, 1.05 * size, 0.6 * size);
  pen.fillStyle = color("person");
  pen.fill();
  pen.strokeStyle = color("paper");
  pen.lineWidth = pixel;
  pen.stroke();
  disc(pen, 0, 0.12 * size, 0.45 * size);
  pen.fillStyle = color("head");
  pen.fill();
}

function robot(pen, one, color, pixel) {
  const r = Math.max(0.2, one.wide / 2);
  shaded(pen, pixel, () => disc(pen, 0, 0, r));
  disc(pen, 0, 0, r);
  pen.fillStyle = color("ego");
  pen.fill();
  pen.strokeStyle = color("ego-line");
  pen.lineWidth = 1.8 * pixel;
  pen.stroke();
  shape(pen, [0, 0.75 * r], [0.5 * r, -0.35 * r], [0, -0.05 * r], [-0.5 * r, -0.35 * r]);
  pen.fillStyle = color("ego-line");
  pen.fill();
}

// A traffic light at its stop line; its shape shows the state too, not only its colour.
function light(pen, one, color, pixel) {
  const wide = one.wide, thick = Math.max(one.long, 3 * pixel);
  pen.fillStyle = color("mark");
  pen.fillRect(-wide / 2, -thick / 2 - 0.55, wide, 0.4);
  pen.fillStyle = color({ red: "red", yellow: "yellow", green: "green" }[one.state] || "off");
  const gap = 0.05 * wide;
  if (one.state === "green") {
    pen.fillRect(-wide / 2 + gap, -thick * 0.14, wide - 2 * gap, thick * 0.28);
    const size = Math.min(0.32 * wide, 0.8);
    shape(pen, [0, 0.35 + size], [size, 0.3], [-size, 0.3]);
    pen.fill();
  } else if (one.state === "yellow") {
    for (const k of [0, 1, 2]) pen.fillRect(-wide / 2 + gap + (k * (wide - 2 * gap)) / 3, -thick / 2, (wide - 2 * gap) / 4.5, thick);
  } else pen.fillRect(-wide / 2 + gap, -thick / 2, wide - 2 * gap, thick);
}

// -- a room ---------------------------------------------------------------------------

const FURNITURE = [
  [/fridge|refrigerator/i, "metal", (pen, l, w) => { box(pen, -w / 2, 0.05 * l, w, 0.02, 0); box(pen, 0.3 * w, -0.35 * l, 0.05, 0.25 * l, 0.02); }],
  [/microwave|toaster|coffeemachine|laptop/i, "device", (pen, l, w) => { box(pen, -0.4 * w, -0.35 * l, 0.55 * w, 0.7 * l, 0.03); disc(pen, 0.32 * w, 0.15 * l, 0.07 * Math.min(l, w)); }],
  [/television|tvstand/i, "device", (pen, l, w) => box(pen, -0.46 * w, -0.1 * l, 0.92 * w, 0.2 * l, 0.02)],
  [/sink|bathtub|toilet/i, "metal", (pen, l, w) => { disc(pen, 0, 0, 0.38 * w, 0.36 * l); disc(pen, 0, 0.3 * l, 0.05 * w); }],
  [/stove|burner/i, "device", (pen, l, w) => { for (const x of [-0.22, 0.22]) for (const y of [-0.22, 0.22]) { pen.moveTo((x + 0.14) * w, y * l); pen.ellipse(x * w, y * l, 0.14 * w, 0.14 * l, 0, 0, 7); } }],
  [/counter/i, "stone", (pen, l, w) => box(pen, -w / 2 + 0.06, -l / 2 + 0.06, w - 0.12, l - 0.12, 0.02)],
  [/bed/i, "cloth", (pen, l, w) => { box(pen, -0.42 * w, 0.26 * l, 0.36 * w, 0.18 * l, 0.06); box(pen, 0.06 * w, 0.26 * l, 0.36 * w, 0.18 * l, 0.06); }],
  [/sofa|armchair|ottoman/i, "cloth", (pen, l, w) => { box(pen, -0.38 * w, -0.38 * l, 0.76 * w, 0.6 * l, 0.08); }],
  [/chair|stool/i, "wood", (pen, l, w) => { box(pen, -0.34 * w, -0.34 * l, 0.68 * w, 0.5 * l, 0.05); box(pen, -0.4 * w, 0.28 * l, 0.8 * w, 0.1 * l, 0.03); }],
  [/table|desk|shelf|dresser|stand/i, "wood", (pen, l, w) => box(pen, -w / 2 + 0.05, -l / 2 + 0.05, w - 0.1, l - 0.1, 0.03)],
  [/cabinet|drawer|safe/i, "wood", (pen, l, w) => { pen.moveTo(-w / 2, 0); pen.lineTo(w / 2, 0); }],
  [/garbage|bin/i, "stone", (pen, l, w) => disc(pen, 0, 0, 0.36 * w, 0.36 * l)],
  [/lamp|light/i, "glow", (pen, l, w) => disc(pen, 0, 0, 0.3 * w, 0.3 * l)],
];

function furniture(pen, one, color, pixel) {
  const { long: l, wide: w } = one;
  const [, stuff, detail] = FURNITURE.find(([test]) => test.test(one.label)) || [null, "wood", null];
  const body = () => box(pen, -w / 2, -l / 2, w, l, Math.min(0.06, l / 4, w / 4));
  if (one.top < 1.2) shaded(pen, pixel, body);
  body();
  pen.fillStyle = color(stuff);
  pen.fill();
  pen.strokeStyle = color("seam");
  pen.lineWidth = pixel;
  pen.stroke();
  if (detail && Math.min(l, w) > 12 * pixel) { pen.beginPath(); detail(pen, l, w); pen.stroke(); }
  if (/\bon\b/.test(one.state)) {
    body();
    pen.fillStyle = color("lit");
    pen.fill();
  }
}

function object(pen, one, color, pixel) {
  const l = Math.max(one.long, 5 * pixel), w = Math.max(one.wide, 5 * pixel);
  box(pen, -w / 2, -l / 2, w, l, Math.min(l, w) / 3);
  pen.fillStyle = color(one.concern ? "concern" : "object");
  pen.fill();
  pen.strokeStyle = color("paper");
  pen.lineWidth = pixel;
  pen.stroke();
}
