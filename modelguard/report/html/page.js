// The tree of modules: filter, order, and all of it open or closed. A page reads without it, so what works it is hidden until here.
"use strict";

for (const form of document.querySelectorAll("form.tools")) {
  const items = [...form.parentElement.querySelectorAll(".tree li")];
  const folds = items.map((item) => item.querySelector(":scope > details")).filter(Boolean);
  let before = null; // which folds were open before a filter opened others

  function filter(words) {
    if (words.length && before === null) before = folds.map((fold) => fold.open);
    let found = 0;
    // From the innermost outward: what holds something that is shown is shown too.
    for (const item of [...items].reverse()) {
      const matches = words.every((word) => item.dataset.find.toLowerCase().includes(word));
      const inner = [...item.querySelectorAll(":scope > details > ul > li")].some((child) => !child.hidden);
      const fold = item.querySelector(":scope > details");
      found += matches;
      item.hidden = !matches && !inner;
      item.classList.toggle("around", !matches);
      if (fold && words.length) fold.open = inner;
    }
    if (!words.length && before) {
      folds.forEach((fold, number) => (fold.open = before[number]));
      before = null;
    }
    form.querySelector("output").textContent = words.length ? `${found} of ${items.length} shown` : "";
  }

  function order(key) {
    for (const list of form.parentElement.querySelectorAll(".tree, .tree ul")) {
      const by = (item) => [key === "worst" ? Number(item.dataset.rank) : 0, Number(item.dataset.place)];
      const sorted = [...list.children].sort((a, b) => by(a)[0] - by(b)[0] || by(a)[1] - by(b)[1]);
      list.append(...sorted);
    }
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.filter.addEventListener("input", (event) => filter(event.target.value.toLowerCase().split(/\s+/).filter(Boolean)));
  for (const choice of form.elements.order) choice.addEventListener("change", () => order(choice.value));
  form.elements.open.addEventListener("click", () => folds.forEach((fold) => (fold.open = true)));
  form.elements.close.addEventListener("click", () => folds.forEach((fold) => (fold.open = false)));
}

// On paper nothing can be opened.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((fold) => (fold.open = true));
});
addEventListener("afterprint", () => closed.forEach((fold) => (fold.open = false)));
