// Draws what the Python side sends; sends the text as it is typed, and commands. No state but what was just typed.

const TYPING_MS = 300, SLOW_MS = 1500, ROWS = [8, 24];
const RUNS = [
  ["run", "Run", "runs what the edit changes, and reuses the rest (Ctrl+Enter in the text)"],
  ["fresh", "Run fresh", "runs every trial of both conditions again"],
  ["confirm", "Confirm", "settles the last run: its text, the whole set, both conditions afresh"],
  ["top_up", "Top up", "more trials of the last run's text, both conditions afresh"],
];
let pages = 0;

function render({model, el}) {
  const id = `sknb${++pages}-${Math.random().toString(36).slice(2)}`;
  const queue = [];
  let waiting = false, timer = 0, typing = 0, dirty = false, shownRemarks = null, chosen = null;

  const send = (command) => { queue.push(command); flush(); };
  function flush() {
    clearTimeout(typing);
    if (waiting || (!queue.length && !dirty)) return;
    waiting = true;
    timer = setTimeout(() => { status.textContent = "waiting for the kernel: it is busy, or gone"; }, SLOW_MS);
    model.send({page: id, ...(dirty ? {text: area.value} : {}), commands: queue.splice(0)});
    dirty = false;
  }
  // what is chosen stays so until the other side has heard of it
  const choose = (version) => ({do: "choose", version: pick.value = chosen = version});
  const able = (button, can) => button.setAttribute("aria-disabled", String(!can));
  const button = (key, text, command, more) => h("button", {type: "button", "data-key": key, ...more,
    click: (event) => { if (event.currentTarget.getAttribute("aria-disabled") !== "true") send(command()); }}, text);

  const title = h("p", {class: "title"});
  const state = h("span", {class: "soft"});
  const area = h("textarea", {rows: ROWS[0], spellcheck: "false", autocomplete: "off", autocapitalize: "off", dir: "auto",
    "data-key": "text", id: `${id}-text`, "aria-describedby": `${id}-remarks`,
    input: () => {
      dirty = true;
      clearTimeout(typing);
      typing = setTimeout(flush, TYPING_MS);
    },
    blur: flush,
    keydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        event.stopPropagation();
        runs.run.click();
      }
    }});
  const remarks = h("ul", {class: "remarks", id: `${id}-remarks`});
  const runs = Object.fromEntries(RUNS.map(([word, text, title]) =>
    [word, button(word, text, () => ({do: word}), {title})]));
  const stop = button("stop", "Stop", () => ({do: "stop"}), {title: "ends the run; what is finished is kept"});
  const save = button("save", "Save", () => ({do: "save"}), {title: "writes the SKILL.md"});
  const reload = button("reload", "Reload", () => ({do: "reload"}),
    {title: "takes the file's text; the one here is kept as a version"});
  const bar = h("progress", {"aria-label": "trials that have ended", max: 1, value: 0});
  const counts = h("span", {class: "soft"});
  const progress = h("p", {class: "counts", hidden: true}, bar, " ", counts);
  const status = h("p", {class: "status", role: "status"});
  const said = h("div", {class: "soft"});
  const result = h("div", {class: "result", role: "group", "aria-label": "last result"});
  const changes = h("div");
  const history = h("div", {class: "wide", role: "group", tabindex: 0, "aria-label": "runs, newest first", "data-key": "runs"});
  const older = h("p", {class: "soft"});
  const pick = h("select", {"data-key": "pick", "aria-label": "kept versions, newest first",
    change: () => send(choose(pick.value))});
  const show = button("show", "Show what it changed", () => choose(pick.value));
  const back = button("back", "Go back to it", () => ({do: "back", version: pick.value}),
    {title: "takes its text into the editor; the one there is kept as a version, the file stays as it is"});
  const versions = h("div", {class: "bar"}, h("span", {}, "versions"), pick, show, back);
  const difference = h("div", {role: "group", "aria-label": "what a version changed"});
  const root = h("div", {class: "sknb-page sknb-tune", role: "group"},
    title, h("div", {class: "bar"}, h("label", {for: `${id}-text`}, "skill"), state), area,
    h("div", {role: "status"}, remarks),
    h("div", {class: "bar"}, runs.run, stop, runs.fresh, runs.confirm, runs.top_up, save, reload),
    progress, status, said, result, changes, history, older, versions, difference);
  el.append(root);

  const lines = (texts, tag = "p") => texts.map((line) => h(tag, {}, line));
  const cell = (text, at) => at === 0 ? h("th", {scope: "row"}, text) : h("td", {}, text);
  const table = (caption, head, rows) => h("table", {}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head.map((name) => h("th", {scope: "col"}, name)))), h("tbody", {}, rows));

  function drawRuns(view) {
    if (!view.runs.length) return fill(history, [h("p", {class: "soft"}, "no run yet")]);
    fill(history, [table("runs, newest first", view.head, view.runs.map((row) => h("tr", {}, row.cells.map((text, at) =>
      at === 0 && row.version
        ? h("th", {scope: "row"}, button(`run-${row.run}`, text, () => choose(row.version),
            {class: "plain", title: "shows what this version changed"}))
        : cell(text, at)))))]);
  }

  function drawChanges(view) {
    const {said: words, rows} = view.changes;
    fill(changes, [words ? h("p", {}, words) : null,
      rows.length ? h("div", {class: "wide", role: "group", tabindex: 0, "aria-label": "cases with another verdict",
        "data-key": "changes"}, table("cases with another verdict", ["case", "before", "now", "flipped"],
        rows.map((row) => h("tr", {}, row.map(cell))))) : null]);
  }

  function draw() {
    const view = model.get("view");
    const focused = root.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    root.setAttribute("aria-label", `tune ${view.title}`);
    title.textContent = view.title;
    state.textContent = view.state;
    const found = JSON.stringify(view.remarks);
    if (found !== shownRemarks) fill(remarks, lines(view.remarks, "li"));
    shownRemarks = found;
    area.setAttribute("aria-invalid", String(view.blocked));
    for (const one of Object.values(runs)) able(one, !view.running);
    able(stop, Boolean(view.running));
    reload.hidden = !view.changed_outside;
    progress.hidden = !view.running;
    status.textContent = view.said;
    fill(said, lines(view.lines));
    fill(result, lines(view.result));
    drawChanges(view);
    drawRuns(view);
    older.hidden = !view.runs_left_out;
    older.textContent = `${view.runs_left_out} earlier runs are not shown: session.history has all`;
    versions.hidden = !view.versions.length;
    pick.replaceChildren(...view.versions.map(([name, words]) => h("option", {value: name}, words)));
    if (view.chosen === chosen) chosen = null;
    pick.value = chosen === null ? view.chosen : chosen;
    fill(difference, view.difference.said ? [h("p", {}, view.difference.said),
      view.difference.lines.length ? h("pre", {tabindex: 0, "data-key": "difference", "aria-label": "difference",
        role: "group", dir: "auto"}, view.difference.lines.map(([kind, text]) =>
        [h(kind === "ins" || kind === "del" ? kind : "span", {class: kind || null}, text), "\n"])) : null] : []);
    if (focused && !root.contains(document.activeElement))
      (root.querySelector(`[data-key="${focused}"]`) || area).focus({preventScroll: true});
  }

  function drawText() {
    const {value, page} = model.get("text");
    if (page === id || value === area.value) return;
    // another text comes while this one has not been sent: it is kept as a version before it goes
    if (dirty) queue.push({do: "keep", text: area.value});
    dirty = false;
    clearTimeout(typing);
    const place = area.selectionStart;
    area.value = value;
    if (document.activeElement === area) area.setSelectionRange(place, place);
  }

  function drawProgress() {
    const {done, total, text} = model.get("progress");
    bar.max = total || 1;
    bar.value = done;
    counts.textContent = text;
  }

  const onView = () => {
    clearTimeout(timer);
    waiting = false;
    drawText();  // before what was typed is sent
    draw();
    flush();
  };
  const free = letSave(root);
  model.on("change:view", onView);
  model.on("change:text", drawText);
  model.on("change:progress", drawProgress);
  drawText();
  area.rows = Math.min(ROWS[1], Math.max(ROWS[0], area.value.split("\n").length + 2));
  drawProgress();
  draw();
  return () => {
    flush();
    free();
    model.off("change:view", onView);
    model.off("change:text", drawText);
    model.off("change:progress", drawProgress);
  };
}

export default {render};
