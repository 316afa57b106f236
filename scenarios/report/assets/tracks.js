// The scenes of a run from its data: one track per thing, in whole centimetres.

// A track contains a single number if the value never changes.
const at = (list, i) => (list.length === 1 ? list[0] : list[i]);

function inRuns(runs, i) {
  let low = 0, high = runs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (runs[middle][0] <= i) low = middle; else high = middle - 1;
  }
  return runs[low][1];
}

const between = (a, b, share) => a + (b - a) * share;

function turned(a, b, share) {
  const apart = ((((b - a) % 360) + 540) % 360) - 180;
  return a + apart * share;
}

class Tracks {
  constructor(scene) {
    this.things = scene.things;
    this.ground = scene.ground.map(([kind, width, flat]) => {
      const points = [];
      for (let k = 0; k < flat.length; k += 2) points.push([flat[k] / 100, flat[k + 1] / 100]);
      return [kind, width / 100, points];
    });
  }

  // The things at a time; share: the fraction of the way from frame i to the next frame.
  seen(i, share) {
    return this.things.map((thing) => this.pose(thing, i, share)).filter(Boolean);
  }

  pose(thing, i, share) {
    const k = i - thing.first;
    if (k < 0 || k >= thing.frames) return null;
    const next = Math.min(k + 1, thing.frames - 1);
    return {
      kind: thing.kind, label: thing.name, concern: Boolean(thing.concern),
      x: between(at(thing.x, k), at(thing.x, next), share) / 100,
      y: between(at(thing.y, k), at(thing.y, next), share) / 100,
      heading: turned(at(thing.h, k), at(thing.h, next), share),
      long: thing.l / 100, wide: thing.w / 100, top: at(thing.top, k) / 100,
      state: inRuns(thing.states, k),
    };
  }
}
