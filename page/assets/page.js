"use strict";
// Keys, copying, and waiting for an answer; all of it is there without this file, too.
document.addEventListener("keydown", (event) => {
  const isTyped = event.target.matches("input, textarea, select");
  if (isTyped) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) {
      event.target.form.requestSubmit(event.target.form.querySelector("button[value=run]"));
    }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  for (const link of document.querySelectorAll("a[data-key]")) {
    if (link.dataset.key === event.key) {
      event.preventDefault();
      link.click();
      return;
    }
  }
});
for (const code of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  });
  code.after(" ", button);
}
const waiting = document.querySelector("[data-wait]");
async function look() {
  try {
    const reply = await fetch(waiting.dataset.wait);
    const found = await reply.json();
    if (found.state !== "running") {
      location.reload();
      return;
    }
    if (found.progress) document.querySelector("[data-progress]").textContent = found.progress.join(" of ") + ".";
    setTimeout(look, 200);
  } catch {
    setTimeout(look, 2000);
  }
}
if (waiting) look();
