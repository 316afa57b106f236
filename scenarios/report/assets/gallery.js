// The cards of a campaign: each shows a still, and a click plays the run in a dialog.

const dialog = document.querySelector("dialog");

class Card {
  constructor(button, run) {
    this.button = button;
    this.run = run;
    const canvas = button.querySelector("canvas");
    if (canvas && run.scene) {
      this.view = new View(button, run);
      if (this.view.picture) this.view.picture.small = true;
      new ResizeObserver(() => this.still()).observe(canvas);
      dark.addEventListener("change", () => this.still());
    }
    button.addEventListener("click", () => this.play());
  }

  still() {
    const { times } = this.run;
    if (this.view) this.view.show((2 * times[times.length - 1] + 3 * times[0]) / 5 + 1);
  }

  play() {
    // A new stage each time, so that nothing remains of the run that was played before.
    Card.stage = Card.stage || dialog.querySelector(".stage").cloneNode(true);
    dialog.querySelector(".stage").replaceWith(Card.stage.cloneNode(true));
    dialog.querySelector("h2").textContent = this.button.querySelector(".name").textContent.replace(/^Play /, "");
    const { times } = this.run, slider = dialog.querySelector("input[type=range]");
    slider.min = times[0];
    slider.max = times[times.length - 1];
    dialog.querySelector(".view").classList.toggle("none", !this.run.scene);
    dialog.showModal();
    Card.rest();
    Card.player = new Player(dialog, { ...this.run, start: times[0], until: times[times.length - 1] });
    if (!calm.matches) Card.player.playAlone();
  }

  // Stops playback when the dialog is closed.
  static rest() {
    if (Card.player) Card.player.playing = Card.player.alone = false;
  }
}

if (dialog) {
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  // The event arrives late, so the dialog may already show another card.
  dialog.addEventListener("close", () => { if (!dialog.open) Card.rest(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
