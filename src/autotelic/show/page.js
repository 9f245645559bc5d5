"use strict";
// Everything shown here came from players. It is set as text, never as markup.
(() => {
  const items = JSON.parse(document.getElementById("sample").textContent);
  const list = document.getElementById("list");
  const detail = document.getElementById("detail");
  const kind = document.getElementById("kind");
  const outcome = document.getElementById("outcome");
  const search = document.getElementById("search");
  const count = document.getElementById("count");
  const byId = new Map(items.filter((item) => item.id).map((item) => [item.id, item]));
  let current = null;

  const make = (tag, text, name) => {
    const node = document.createElement(tag);
    if (text !== undefined && text !== null) node.textContent = String(text);
    if (name) node.className = name;
    return node;
  };
  const number = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : "none");

  const groups = (item) =>
    item.type === "task"
      ? ["task/" + item.standing, ...(item.retired ? ["task/retired"] : []),
         ...item.answers.map((answer) => "attempt/" + answer.outcome)]
      : ["rejection/" + item.outcome];

  const fill = (select, names) => {
    for (const [value, text] of names) {
      const option = make("option", text);
      option.value = value;
      select.append(option);
    }
  };
  fill(kind, [["", "all kinds"], ...[...new Set(items.map((item) => item.kind))].map((name) => [name, name])]);
  fill(outcome, [["", "tasks and rejections"]]);
  const all = [...new Set(items.flatMap(groups))].sort();
  const titles = { task: "Tasks", attempt: "Tasks with an attempt that was", rejection: "Rejected proposals" };
  for (const [prefix, title] of Object.entries(titles)) {
    const names = all.filter((name) => name.startsWith(prefix + "/"));
    if (!names.length) continue;
    const group = document.createElement("optgroup");
    group.label = title;
    fill(group, names.map((name) => [name, name.slice(prefix.length + 1)]));
    outcome.append(group);
  }

  const opening = (item) => {
    const spec = item.type === "task" && item.spec.length ? item.spec : [["proposal", item.proposal || ""]];
    const lines = spec[0][1].split("\n").map((line) => line.trim());
    const body = lines.find((line) => line && !line.startsWith("```") && !line.startsWith("def "));
    return (body || lines[0] || "(empty)").slice(0, 90);
  };

  const button = (item) => {
    const node = document.createElement("button");
    node.type = "button";
    const first = make("span", null, "line");
    first.append(make("code", opening(item)));
    first.append(make("span", item.type === "task" && item.attempts ? item.solved + "/" + item.attempts : "", "soft"));
    const second = make("span", null, "line");
    second.append(make("span", item.kind + " · " + (item.type === "task" ? item.standing : "rejected: " + item.outcome)));
    second.append(make("span", "step " + item.step));
    node.append(first, second);
    node.addEventListener("click", () => show(item));
    item.button = node;
    return node;
  };

  const block = (title, text) => {
    detail.append(make("h3", title), make("pre", text));
  };

  const pills = (title, entries) => {
    if (!entries.length) return;
    const line = make("p", null, "pills");
    for (const [name, value] of entries) line.append(make("span", name + " " + number(value)));
    detail.append(make("h3", title), line);
  };

  const lineage = (links) => {
    if (!links.length) return;
    const line = make("p", null, "pills");
    for (const [relation, target] of links) {
      const span = make("span", relation + " ");
      const there = byId.get(target);
      const node = make(there ? "button" : "code", target.slice(0, 10), there ? "link" : "");
      if (there) {
        node.type = "button";
        node.addEventListener("click", () => show(there));
      }
      span.append(node);
      line.append(span);
    }
    detail.append(make("h3", "Lineage: what the proposer was shown"), line);
  };

  const answer = (attempt, at) => {
    const node = make("div", null, "answer");
    const line = make("div");
    line.append(make("span", attempt.outcome, attempt.solved ? "good" : "bad"));
    const facts = ["attempt " + (at + 1), "step " + attempt.step, "score " + number(attempt.score),
                   "reward " + number(attempt.reward)];
    if (attempt.claim !== null) facts.push("claimed " + (attempt.claim ? "success" : "failure"));
    for (const [name, value] of Object.entries(attempt.metrics)) facts.push(name + " " + number(value));
    line.append(make("span", "  " + facts.join(" · "), "soft"));
    node.append(line);
    if (attempt.detail) node.append(make("div", attempt.detail, "soft"));
    node.append(make("pre", attempt.text || "(empty)"));
    for (const [title, text] of attempt.critiques)
      node.append(make("div", title, "soft"), make("pre", text || "(empty)"));
    return node;
  };

  const show = (item) => {
    if (current && current.button) current.button.removeAttribute("aria-current");
    current = item;
    if (item.button) item.button.setAttribute("aria-current", "true");
    detail.replaceChildren();
    if (item.type === "task") {
      detail.append(make("h3", item.kind + " task " + item.id));
      const facts = ["step " + item.step, item.standing, item.solved + " of " + item.attempts + " attempts solved"];
      if (item.retired) facts.push("retired at step " + item.retired[0] + ": " + item.retired[1]);
      if (item.reward !== null) facts.push("its proposer earned " + number(item.reward));
      detail.append(make("p", facts.join(" · "), "soft"));
      for (const [title, text] of item.spec) block(title, text);
      pills("Features", Object.entries(item.features));
    } else {
      detail.append(make("h3", "Rejected " + item.kind + " proposal"));
      const facts = ["step " + item.step, item.outcome];
      if (item.reward !== null) facts.push("earned " + number(item.reward));
      detail.append(make("p", facts.join(" · "), "soft"));
      block("Reason", item.reason);
    }
    if (item.proposal !== null) block("Proposal, as it was written", item.proposal || "(empty)");
    else if (item.type === "task") detail.append(make("p", "Given by the world: nobody proposed it.", "soft"));
    lineage(item.lineage);
    if (item.type === "task" && item.answers.length) {
      const more = item.judged > item.answers.length ? ", the first " + item.answers.length + " of " + item.judged : "";
      detail.append(make("h3", "Attempts" + more));
      item.answers.forEach((attempt, at) => detail.append(answer(attempt, at)));
    }
  };

  const refresh = () => {
    const wanted = search.value.toLowerCase();
    const found = items.filter((item) =>
      (!kind.value || item.kind === kind.value) &&
      (!outcome.value || groups(item).includes(outcome.value)) &&
      (!wanted || item.haystack.includes(wanted)));
    list.replaceChildren(...found.map((item) => {
      const entry = document.createElement("li");
      entry.append(button(item));
      return entry;
    }));
    count.textContent = found.length + " of " + items.length + " in this sample";
    const first = found.find((item) => item.type === "task" && item.answers.length) || found[0];
    if (found.length) show(found.includes(current) ? current : first);
    else detail.replaceChildren(make("p", "Nothing in the sample matches.", "soft"));
  };

  for (const item of items) item.haystack = JSON.stringify(item).toLowerCase();
  for (const node of [kind, outcome]) node.addEventListener("change", refresh);
  search.addEventListener("input", refresh);
  refresh();
})();
