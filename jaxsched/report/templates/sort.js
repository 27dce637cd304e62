document.querySelectorAll("table.policies").forEach(table => {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const now = head.getAttribute("aria-sort");
    const first = head.dataset.first || "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = now === first ? other : first, sign = order === "ascending" ? 1 : -1;
    heads.forEach(h => h.hasAttribute("aria-sort") && h.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order);
    const key = row => row.cells[column].dataset.v;
    [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
    }).forEach(row => body.append(row));
  }));
});
