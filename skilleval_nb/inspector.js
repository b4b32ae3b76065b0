// Draws what the Python side sends and sends commands back: no state of its own but focus, scrolling and folds.
// Every text goes into the page as a text node. Elements, attribute names and classes are written here alone.

const MARKS = {met: "mark", broken: "mark", quoted: "mark", hit: "mark", del: "del", ins: "ins"};
const KEYS = {
  j: {do: "step", by: 1}, k: {do: "step", by: -1}, ArrowDown: {do: "step", by: 1}, ArrowUp: {do: "step", by: -1},
  g: {do: "step", by: -1e9}, G: {do: "step", by: 1e9}, c: {do: "trial", by: 1}, C: {do: "trial", by: -1},
  d: {do: "diff"}, f: {do: "filter", by: 1}, F: {do: "filter", by: -1}, e: {do: "whole"},
  ArrowLeft: {do: "side", side: 0}, ArrowRight: {do: "side", side: 1},
};
const VERDICTS = {p: true, x: false, u: null};
const HELP = [
  ["j k, ↓ ↑", "next, previous case"], ["g G", "first, last case"], ["c C", "next, previous trial"],
  ["d", "answers side by side, or their difference"], ["f F", "next, previous filter with cases"],
  ["/", "search in answers, prompts and case ids"], ["← →", "the side that the next keys label"],
  ["p x u", "label: pass, fail, take it back"], ["n", "write a note"], ["e", "show long texts whole, or cut"],
  ["Esc", "leave a field"], ["?", "this list"],
];
const SLOW_MS = 2500;
let views = 0;

function render({model, el}) {
  const id = `sknb${++views}-${Math.random().toString(36).slice(2)}`;
  const open = new Map(), queue = [];  // folds by name, commands that wait
  let waiting = false, timer = 0, drawn = null, held = [];

  const send = (command) => { queue.push(command); flush(); };
  function flush() {
    if (waiting || !queue.length) return;
    waiting = true;
    timer = setTimeout(() => {
      say(`waiting for the kernel: it is busy, or gone${held.length ? "; nothing was labelled" : ""}`);
      held = null;
    }, SLOW_MS);
    model.send({commands: queue.splice(0)});
  }
  const say = (text) => { status.textContent = text; };
  const button = (key, text, command, more) =>
    h("button", {type: "button", "data-key": key, click: () => send(command), ...more}, text);

  // what stays while cases come and go
  const title = h("p", {class: "title"});
  const filter = h("select", {"data-key": "filter", "aria-label": "filter",
    change: () => send({do: "filter", filter: filter.value})});
  let typing = 0;
  const search = h("input", {type: "search", "data-key": "search", "aria-label": "search in answers, prompts and case ids",
    placeholder: "search", maxlength: 1000, input: () => {
      clearTimeout(typing);
      typing = setTimeout(searchNow, 300);
    }});
  function searchNow() {
    clearTimeout(typing);
    if (search.value !== model.get("view").words) send({do: "search", words: search.value});
  }
  const pair = ["left", "right"].map((name) => h("select", {"data-key": name, "aria-label": `${name} condition`,
    change: () => send({do: "compare", left: pair[0].value, right: pair[1].value})}));
  const pairBox = h("span", {class: "pair"}, "compare ", pair[0], " with ", pair[1]);
  const found = h("span", {class: "soft"});
  const diff = button("diff", "word difference (d)", {do: "diff"});
  const trial = button("trial", "", {do: "trial", by: 1});
  const help = h("dl", {class: "help", hidden: true, id: `${id}-help`},
    HELP.map(([keys, what]) => [h("dt", {}, keys), h("dd", {}, what)]));
  const helper = h("button", {type: "button", "data-key": "help", "aria-expanded": "false",
    "aria-controls": `${id}-help`, click: () => toggleHelp()}, "keys (?)");
  const toggleHelp = () => {
    help.hidden = !help.hidden;
    helper.setAttribute("aria-expanded", String(!help.hidden));
  };
  const status = h("p", {class: "status", role: "status"});
  const notes = h("div");
  const list = h("div", {class: "list", role: "listbox", tabindex: 0, "data-key": "list", "aria-label": "cases"});
  const part = h("p", {class: "soft part"});
  const shown = h("div", {class: "case"});
  const root = h("div", {class: "sknb-page sknb-inspector", role: "group", keydown: onKey, pointerdown: keepFocus},
    title, notes,
    h("div", {class: "bar"}, filter, search, found, pairBox,
      button("previous", "previous (k)", {do: "step", by: -1}), button("next", "next (j)", {do: "step", by: 1}),
      trial, diff, helper),
    help, status,
    h("div", {class: "main"}, h("div", {class: "side"}, list, part), shown));
  el.append(root);

  // a click on plain text makes the keys act here
  function keepFocus(event) {
    if (!event.target.closest("button, input, select, textarea, summary, [tabindex]"))
      setTimeout(() => { if (!String(getSelection())) list.focus({preventScroll: true}); });
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target, writes = target.matches("input, textarea");
    if (writes || target.matches("select")) {
      if (event.key === "Escape" || (event.key === "Enter" && target === search)) {
        if (target === search) searchNow();
        list.focus({preventScroll: true});
        done(event);
      }
      return;
    }
    const view = model.get("view");
    if (event.key.startsWith("Arrow") && target.matches("pre")) return;
    if (event.key in KEYS) send({...KEYS[event.key]});
    else if (event.key in VERDICTS) labelNow(VERDICTS[event.key]);
    else if (event.key === "/") search.select(), search.focus();
    else if (event.key === "?") toggleHelp();
    else if (event.key === "n") root.querySelector(`[data-key="note-${active(view)}"]`)?.focus();
    else return;
    done(event);
  }
  function done(event) { event.preventDefault(); event.stopPropagation(); }
  const active = (view) => Math.min(view.side, view.sides.length - 1);

  // keys act in their order: a label waits for the case that a key before it has asked for, but not for long
  function labelNow(passed) {
    if (waiting && held) return held.push(() => labelNow(passed));
    if (waiting) return say("not labelled: the case that was asked for is not here yet");
    const view = model.get("view");
    label(view.sides[active(view)], passed);
  }
  function label(side, passed, check) {
    if (!side || side.entry === null) return say("there is no trial here to label");
    send({do: "label", entry: side.entry, passed, ...(check ? {check} : {})});
  }

  function textOf(text, name, key) {
    const parts = text.parts.map(([kind, checks, words]) => MARKS[kind]
      ? h(MARKS[kind], {class: kind}, checks ? h("sup", {}, `[${checks}]`) : null, words) : words);
    const box = h("pre", {dir: "auto", tabindex: 0, role: "group", "aria-label": name, "data-key": key}, parts);
    const more = text.left_out
      ? h("p", {class: "soft"}, `${text.left_out.toLocaleString("en")} more characters are not shown `,
        button(`${key}-more`, model.get("view").whole ? "cut (e)" : "show more (e)", {do: "whole"}))
      : null;
    return [box, more];
  }
  // folded as it was left last, at first as `opened` says
  function fold(key, name, opened, ...children) {
    const box = h("details", {open: open.get(key) ?? opened},
      h("summary", {"data-key": `fold-${key}`, click: () => open.set(key, !box.open)}, name), ...children);
    return box;
  }
  function verdict(passed, name, key, choose) {
    const one = (value, text) => h("button", {type: "button", "data-key": `${key}-${text}`,
      "aria-pressed": String(passed === value), click: () => choose(value)}, text);
    return h("span", {role: "group", class: "verdict", "aria-label": name},
      one(true, "pass"), one(false, "fail"), one(null, "none"));
  }

  function checkOf(side, check, at) {
    const key = `check-${at}-${check.number}`;
    return h("li", {class: check.passed === false ? "bad" : check.passed ? "good" : "none"},
      h("b", {}, check.grade), ` ${check.kind}`, check.asks ? `: ${check.asks}` : "",
      check.says.map((line) => h("div", {class: "says"}, line)),
      check.judged && side.can_label
        ? h("div", {class: "soft"}, "your label of this check ",
          verdict(check.label, `your label of check ${check.number}, ${side.condition}`, key,
            (passed) => label(side, passed, check.number)),
          check.note ? ` note: ${check.note}` : "") : null);
  }

  function labelOf(side, at) {
    if (!side.can_label) return null;
    const note = h("textarea", {rows: 1, maxlength: 10000, "data-key": `note-${at}`, placeholder: "note (n)",
      "aria-label": `note on ${side.condition}, trial ${side.trial}`,
      change: () => send({do: "label", entry: side.entry, note: note.value})});
    note.value = side.note;
    return h("div", {class: "label"}, "your label ",
      verdict(side.label, `your label of ${side.condition}, trial ${side.trial}`, `label-${at}`,
        (passed) => label(side, passed)), note);
  }

  function sideOf(side, at, view) {
    const name = `${side.condition}, trial ${side.trial}`, acts = active(view) === at && view.sides.length > 1;
    return h("div", {role: "group", "aria-label": name, class: acts ? "acts" : ""},
      h("p", {class: "head"}, h("b", {}, side.condition), ` ${side.outcome}`,
        acts ? h("span", {class: "soft"}, " · keys label this side") : null),
      side.absent ? h("p", {}, side.absent) : null,
      side.answer && view.mode !== "diff"
        ? side.empty ? h("p", {}, "the answer is empty") : textOf(side.answer, `answer of ${name}`, `answer-${at}`) : null,
      side.entry === null ? null : [
        labelOf(side, at),
        side.checks.length ? h("ol", {class: "checks", "aria-label": `checks of ${name}`},
          side.checks.map((check) => checkOf(side, check, at))) : h("p", {}, "no checks"),
        side.events.length ? fold(`events-${at}`, `events (${side.events.length})`, false,
          h("ol", {}, side.events.map(([type, event, text]) => h("li", {}, [type, event].filter(Boolean).join(" "), `: ${text}`))),
          side.events_said) : null,
        fold(`facts-${at}`, "tokens, time, cost and model", false,
          h("dl", {class: "facts"}, side.facts.map(([term, words]) => [h("dt", {}, term), h("dd", {}, words)]))),
      ]);
  }

  function drawCase(view) {
    const one = view.case;
    if (!one) return fill(shown, [h("p", {}, "no case to look at: choose another filter or search")]);
    const facts = [one.place, one.difficulty ? `difficulty ${one.difficulty}` : "",
      one.trials.length > 1 ? `trial ${one.trial} of ${one.trials.length}` : "", one.run, one.moved];
    fill(shown, [
      h("p", {class: "head"}, h("b", {}, h("bdi", {}, one.name)), ` · ${facts.filter(Boolean).join(" · ")}`),
      fold("prompt", "prompt", one.prompt.short, textOf(one.prompt, "prompt", "prompt")),
      fold("systems", "system texts", false, model.get("systems").map((system, at) => [
        h("p", {}, system.condition, system.text ? "" : `: ${system.said}`),
        system.text ? textOf(system.text, `system text of ${system.condition}`, `system-${at}`) : null])),
      view.mode === "diff" ? h("div", {role: "group", "aria-label": "word difference"},
        h("p", {class: "head"}, h("b", {}, "difference"), ` from ${view.pair[0]} (struck out) to ${view.pair[1]} (underlined)`),
        view.diff && view.diff.said ? h("p", {}, view.diff.said) : null,
        view.diff && view.diff.parts.length
          ? textOf({parts: view.diff.parts, left_out: 0}, "word difference", "difference") : null) : null,
      h("div", {class: "sides"}, view.sides.map((side, at) => sideOf(side, at, view))),
    ]);
  }

  function drawList(view) {
    const rows = model.get("rows");
    list.replaceChildren(...rows.rows.map((row) => h("div",
      {role: "option", id: `${id}-${row.at}`, "aria-selected": String(row.at === view.row),
        click: () => { send({do: "row", row: row.at}); list.focus({preventScroll: true}); }},
      h("div", {class: "name"}, h("bdi", {}, row.name), row.run ? ` (${row.run})` : ""),
      row.marks.map(([condition, signs, words]) => h("div", {class: "marks"},
        `${condition} `, h("span", {"aria-hidden": "true"}, signs), ` ${words}`)),
      row.moved || row.label ? h("div", {class: "marks"}, [row.moved, row.label].filter(Boolean).join(" · ")) : null)));
    const chosen = view.row === null ? null : list.querySelector(`[id="${id}-${view.row}"]`);
    if (chosen) {
      list.setAttribute("aria-activedescendant", chosen.id);
      if (chosen.offsetTop < list.scrollTop) list.scrollTop = chosen.offsetTop;
      const below = chosen.offsetTop + chosen.offsetHeight - list.clientHeight;
      if (below > list.scrollTop) list.scrollTop = below;
    } else list.removeAttribute("aria-activedescendant");
    const to = rows.from + rows.rows.length;
    fill(part, [rows.of > rows.rows.length ? `${rows.from + 1}–${to} of ${rows.of} cases ` : `${rows.of} case${rows.of === 1 ? "" : "s"} `,
      rows.from > 0 ? button("earlier", "earlier", {do: "step", by: -100}) : "",
      to < rows.of ? button("later", "later", {do: "step", by: 100}) : ""]);
  }

  function options(select, pairs, value) {
    const text = JSON.stringify(pairs);
    if (select.dataset.options !== text) {
      select.replaceChildren(...pairs.map(([name, words]) => h("option", {value: name}, words)));
      select.dataset.options = text;
    }
    select.value = value;
  }

  function draw() {
    const view = model.get("view");
    const focused = root.contains(document.activeElement) ? document.activeElement : null;
    const key = focused && focused.dataset.key, draft = focused && focused.matches("textarea") ? focused.value : null;
    const place = view.case && JSON.stringify([view.row, view.case.trial, view.mode, view.words, view.whole]);
    const scrolled = new Map([...shown.querySelectorAll("pre")].map((box) => [box.dataset.key, box.scrollTop]));
    title.textContent = view.title;
    root.setAttribute("aria-label", `transcripts of ${view.title}`);
    notes.replaceChildren(...view.notes.map((note) => h("p", {}, note)));
    options(filter, view.filters, view.filter);
    if (focused !== search) search.value = view.words;
    found.textContent = view.found;
    pairBox.hidden = view.conditions.length < 3;
    pair.forEach((select, at) => options(select, view.conditions.map((name) => [name, name]), view.pair[at]));
    diff.setAttribute("aria-pressed", String(view.mode === "diff"));
    trial.hidden = !view.case || view.case.trials.length < 2;
    trial.textContent = view.case ? `trial ${view.case.trial} of ${view.case.trials.length} (c)` : "";
    drawList(view);
    drawCase(view);
    say(view.said);
    for (const box of shown.querySelectorAll("pre")) {
      const mark = box.querySelector("mark");
      if (place === drawn) box.scrollTop = scrolled.get(box.dataset.key) || 0;
      else if (mark) box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 3;
    }
    if (key && !root.contains(document.activeElement)) {
      const again = root.querySelector(`[data-key="${key}"]`) || list;
      if (draft !== null && place === drawn && again.matches("textarea")) again.value = draft;
      again.focus({preventScroll: true});
    }
    drawn = place;
  }

  const onView = () => {
    clearTimeout(timer);
    waiting = false;
    draw();
    flush();
    const due = held || [];
    held = [];
    due.forEach((act) => act());
  };
  const free = letSave(root);
  model.on("change:view", onView);
  draw();
  return () => {
    free();
    model.off("change:view", onView);
  };
}

export default {render};
