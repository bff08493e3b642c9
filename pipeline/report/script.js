"use strict";
(() => {
  const data = JSON.parse(document.getElementById("label-data").textContent);
  const cards = new Set(data.cards);
  const body = document.querySelector("#label-table tbody");
  const query = document.getElementById("query");
  const found = document.getElementById("found");
  const more = document.getElementById("more");
  const step = 25;
  const names = data.rows.map((row) => row[0].toLowerCase());
  const plain = new Intl.NumberFormat("en");
  let matches = data.rows;
  let shown = 0;

  const cell = (name, content) => {
    const made = document.createElement(name);
    made.append(content);
    return made;
  };

  const line = ([label, count, topic, share, test, hits]) => {
    const row = document.createElement("tr");
    const head = cell("th", label);
    head.scope = "row";
    head.className = "left";
    let main = String(topic);
    if (cards.has(topic)) {
      main = cell("a", main);
      main.href = `#topic-${topic}`;
    }
    row.append(head, cell("td", plain.format(count)), cell("td", main), cell("td", `${Math.round(100 * share)} %`));
    if (test !== undefined) {
      row.append(cell("td", plain.format(test)), cell("td", test ? `${Math.round((100 * hits) / test)} %` : "–"));
    }
    return row;
  };

  const extend = () => {
    body.append(...matches.slice(shown, shown + step).map(line));
    shown = Math.min(shown + step, matches.length);
    more.hidden = shown >= matches.length;
  };

  const search = () => {
    const wanted = query.value.trim().toLowerCase();
    matches = wanted ? data.rows.filter((_, i) => names[i].includes(wanted)) : data.rows;
    body.replaceChildren();
    shown = 0;
    extend();
    const labels = matches.length === 1 ? "label" : "labels";
    found.textContent = wanted ? `${plain.format(matches.length)} ${labels} with “${query.value.trim()}”` : "";
  };

  // A card may lie in a part that is closed.
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    const hidden = target && target.closest("details:not([open])");
    if (hidden) {
      hidden.open = true;
    }
    if (target && target.matches(".card")) {
      target.focus({ preventScroll: true });
      target.scrollIntoView();
    }
  };

  query.addEventListener("input", search);
  query.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      query.value = "";
      search();
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      query.focus();
    }
  });
  more.addEventListener("click", () => {
    const first = shown;
    extend();
    const next = body.rows[first] && body.rows[first].querySelector("a");
    if (more.hidden && next) {
      next.focus();
    }
  });
  window.addEventListener("hashchange", reveal);
  query.closest("[role=search]").hidden = false;
  search();
  reveal();
})();
