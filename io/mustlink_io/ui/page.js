// Keys, and answers that stay in the browser until they are on disk.
// `outbox`: its value goes to the server, its tags are ids of answers that are on disk;
// `question`: its value is what is asked, {questions: [{node, now, text, at: [x, y]}],
// choices: [{value, key, label}], other}; `text` and `star` show the first without an answer here.
const place = "mustlink " + outbox.name;
const read = () => JSON.parse(localStorage.getItem(place) || "[]");
const write = (list) => localStorage.setItem(place, JSON.stringify(list));
const id = () => Array.from(crypto.getRandomValues(new Uint32Array(4))).join("-");
const banner = document.createElement("div");
banner.className = "connection";
banner.setAttribute("role", "alert");
banner.style.cssText = "position:fixed;top:0;left:0;right:0;z-index:99;padding:6px 12px;" +
    "background:#d55e00;color:white;font:14px sans-serif;display:none";
document.body.append(banner);
let lost = false, stale = false;

function asked() {
    const all = JSON.parse(question.value || "{}"), sent = read();
    const next = (all.questions || []).find((one) => !sent.some((of) => of.node == one.node));
    return {...all, ...next};
}
function show() {  // of what this browser knows before the server
    const now = asked(), unsynced = {sync: false}, there = now.node !== undefined;
    if (!now.questions) return;
    text.setv({text: there ? now.text : "clustering …"}, unsynced);
    const [x, y] = there ? [[now.at[0]], [now.at[1]]] : [[], []];
    star.setv({data: {x, y, size: x.map(() => 1)}}, unsynced);
}
function tell() {
    const count = read().length;
    const some = count ? `; ${count} answer${count == 1 ? "" : "s"} kept in this browser` : "";
    banner.textContent = stale
        ? `this page is of a program that ended${some}: open the address that the new one printed`
        : `connection lost, trying again${some}. If the program was ended, give the same command ` +
            "again and open the address that it prints.";
    banner.style.display = lost ? "block" : "none";
}
function send(command) {
    if (!lost) outbox.value = JSON.stringify({at: id(), answers: read(), command: command || ""});
}
function answer(node, kind, value) {
    write([...read(), {id: id(), node, kind, value}]);
    tell();
    send();
    show();
}
async function again() {
    if (!lost) return;
    try {
        if ((await fetch(location.href, {cache: "no-store"})).ok) return location.reload();
        stale = true;  // another program is there
        return tell();
    } catch { /* not there yet */ }
    setTimeout(again, 1000);
}
outbox.properties.tags.change.connect(() => {
    write(read().filter((one) => !outbox.tags.includes(one.id)));
    tell();
    show();
});
question.properties.value.change.connect(show);
outbox.document.on_event("connection_lost", () => {
    if (!lost) setTimeout(again, 1000);
    lost = true;
    tell();
});
outbox.document.on_event("client_reconnected", () => { lost = false; tell(); send(); });

document.addEventListener("keydown", (event) => {
    const at = event.composedPath()[0];
    const key = event.key.toLowerCase(), now = asked();
    const there = now.node !== undefined;
    if (there && at.placeholder == now.other && key == "enter" && at.value.trim()) {
        const word = at.value.trim();  // a class that has no button, or as one is called now
        const same = now.choices.find((one) => [word, `${word} [${one.key}]`].includes(one.label));
        answer(now.node, same ? "label" : "word", same ? same.value : word);
        at.value = "";
        at.dispatchEvent(new Event("input", {bubbles: true}));  // the widget's, too
    }
    if (["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName) || event.altKey) return;
    const done = () => { event.preventDefault(); event.stopPropagation(); };
    if (event.ctrlKey || event.metaKey) {
        const command = key == "z" ? (event.shiftKey ? "redo" : "undo") : key == "y" ? "redo" : "";
        if (command) { done(); send(command); }
        return;
    }
    const commands = {arrowright: "next", arrowleft: "previous", y: "together", n: "apart"};
    if (!there) {
        if (key == "enter" && at == document.body) { done(); send("ask"); }
        if (commands[key]) { done(); send(commands[key]); }
        return;
    }
    const choice = now.choices.find((one) => one.key == key);
    if (event.repeat && !commands[key]) done();  // a key that is held down
    else if (choice) { done(); answer(now.node, "label", choice.value); }
    else if (key == "y" && now.now !== null) { done(); answer(now.node, "label", now.now); }
    else if (key == " ") { done(); answer(now.node, "unknown", ""); }
    else if (commands[key]) { done(); send(commands[key]); }
}, true);

document.addEventListener("click", (event) => {
    const path = event.composedPath(), now = asked();
    const within = (name) => path.some((one) => one.classList && one.classList.contains(name));
    const button = path.find((one) => one.tagName == "BUTTON");
    if (!button || now.node === undefined || event.detail > 1) return;  // the second of two clicks
    const choice = now.choices.find((one) => one.label == button.textContent.trim());
    if (within("unknown")) answer(now.node, "unknown", "");
    else if (within("answer") && choice) answer(now.node, "label", choice.value);
}, true);

if (read().length) { send(); show(); }
