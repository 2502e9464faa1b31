"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const ascending = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.value;
      const number = (row) => (key(row) === "" ? NaN : Number(key(row)));
      const compare = (a, b) => {
        const x = number(a), y = number(b);
        if (Number.isNaN(x) && Number.isNaN(y)) return key(a).localeCompare(key(b)) * (ascending ? 1 : -1);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1; // what was not measured comes last
        return (x - y) * (ascending ? 1 : -1);
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    });
  });
}
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  });
}
