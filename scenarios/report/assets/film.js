// The page's runs, each with its player; the first plays as soon as it is seen.

const data = JSON.parse(document.getElementById("data").textContent);
const players = data.runs.map((run, k) => new Player(document.getElementById("run-" + (k + 1)), run));
for (const button of document.querySelectorAll(".card")) new Card(button, data.cards[Number(button.dataset.card)]);

if (players.length && !calm.matches) players[0].playAlone();

// On paper everything is open, and in the colours of paper.
const folded = [];
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not([open])")) { fold.open = true; folded.push(fold); }
  for (const player of players) { player.ours(); player.again(true); }
});
window.addEventListener("afterprint", () => { for (const fold of folded.splice(0)) fold.open = false; });
document.documentElement.dataset.ready = "yes";
