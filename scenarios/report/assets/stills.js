// A run as its world rendered it: each picture is shown until the next one.

class Stills {
  // pictures: pairs of a frame and a PNG in base64.
  constructor(canvas, pictures) {
    this.canvas = canvas;
    this.images = pictures.map(([frame, text]) => {
      const image = new Image();
      image.addEventListener("load", () => { if (this.shown === image) this.again(); });
      image.src = "data:image/png;base64," + text;
      return [frame, image];
    });
  }

  draw(i, mood) {
    [this.shown, this.mood] = [inRuns(this.images, i), mood];
    this.again();
  }

  again() {
    const { canvas, shown, mood } = this, box = canvas.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || !shown.width) return;
    const dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(box.width * dense);
    canvas.height = Math.round(box.height * dense);
    const pen = canvas.getContext("2d");
    const scale = Math.min(canvas.width / shown.width, canvas.height / shown.height);
    const wide = shown.width * scale, high = shown.height * scale;
    pen.drawImage(shown, (canvas.width - wide) / 2, (canvas.height - high) / 2, wide, high);
    if (!mood) return;
    // An alarm is dashed, a violation is solid, as in picture.js.
    pen.strokeStyle = getComputedStyle(canvas).getPropertyValue("--" + mood);
    pen.lineWidth = 6 * dense;
    pen.setLineDash(mood === "warn" ? [16 * dense, 10 * dense] : []);
    pen.strokeRect(0, 0, canvas.width, canvas.height);
  }
}
