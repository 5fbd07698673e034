"use strict";
(() => {
  const list = document.getElementById("list");
  const items = Array.from(list.querySelectorAll(".component"));
  const find = document.getElementById("find");
  const sort = document.getElementById("sort");
  const expand = document.getElementById("expand");
  const count = document.getElementById("count");
  document.querySelector(".tools").hidden = false;

  const show = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of items) {
      const match = words.every((word) =>
        /^\d+$/.test(word) ? item.dataset.number === word || item.dataset.text.includes(word) : item.dataset.text.includes(word));
      item.hidden = !match;
      shown += match;
    }
    count.textContent = words.length ? shown + " of " + items.length : "";
  };

  const order = () => {
    const key = sort.value;
    const sign = key === "number" ? 1 : -1;
    const value = (item) => sign * Number(item.dataset[key]);
    items.sort((a, b) => value(a) - value(b) || a.dataset.number - b.dataset.number);
    list.append(...items);
  };

  expand.addEventListener("click", () => {
    const open = expand.textContent === "Expand all";
    for (const item of items) if (!item.hidden && item.tagName === "DETAILS") item.open = open;
    expand.textContent = open ? "Collapse all" : "Expand all";
  });
  find.addEventListener("input", show);
  sort.addEventListener("change", order);
})();
