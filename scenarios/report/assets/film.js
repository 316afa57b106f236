// Creates a player for each run of the page; the first run plays once it is visible.

const data = JSON.parse(document.getElementById("data").textContent);
const players = data.runs.map((run, k) => new Player(document.getElementById("run-" + (k + 1)), run));
for (const button of document.querySelectorAll(".card")) new Card(button, data.cards[Number(button.dataset.card)]);

if (players.length && !calm.matches) players[0].playAlone();

// For printing, all sections are opened, and everything is drawn in the print colours.
const folded = [];
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not([open])")) { fold.open = true; folded.push(fold); }
  for (const player of players) { player.ours(); player.again(true); }
});
window.addEventListener("afterprint", () => { for (const fold of folded.splice(0)) fold.open = false; });
document.documentElement.dataset.ready = "yes";
