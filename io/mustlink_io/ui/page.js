// Keys, and answers that stay in the browser until they are on disk.
// `outbox`: its value goes to the server, its tags are ids of answers that are on disk;
// `question`: its value is what is asked now, {node, choices: [{value, key, label}], now, other}.
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
let lost = false;

function tell() {
    const count = read().length;
    const some = count ? `; ${count} answer${count == 1 ? "" : "s"} kept in this browser` : "";
    banner.textContent = `connection lost, trying again${some}. If the program was ended, give the ` +
        "same command again and open the address that it prints.";
    banner.style.display = lost ? "block" : "none";
}
function send(command) {
    if (!lost) outbox.value = JSON.stringify({at: id(), answers: read(), command: command || ""});
}
function answer(node, kind, value) {
    const before = read();
    if (before.some((one) => one.node == node)) return;  // a second click on the same question
    write([...before, {id: id(), node, kind, value}]);
    tell();
    send();
}
async function again() {
    if (!lost) return;
    try {
        if ((await fetch(location.href, {cache: "no-store"})).ok) return location.reload();
    } catch { /* not there yet */ }
    setTimeout(again, 1000);
}
outbox.properties.tags.change.connect(() => {
    write(read().filter((one) => !outbox.tags.includes(one.id)));
    tell();
});
outbox.document.on_event("connection_lost", () => {
    if (!lost) setTimeout(again, 1000);
    lost = true;
    tell();
});
outbox.document.on_event("client_reconnected", () => { lost = false; tell(); send(); });

document.addEventListener("keydown", (event) => {
    const at = event.composedPath()[0];
    const key = event.key.toLowerCase(), now = JSON.parse(question.value || "{}");
    if (now.other && at.placeholder == now.other && key == "enter" && at.value.trim()) {
        answer(now.node, "word", at.value.trim());  // a class that has no button
        at.value = "";
    }
    if (["INPUT", "TEXTAREA", "SELECT"].includes(at.tagName) || event.altKey) return;
    const done = () => { event.preventDefault(); event.stopPropagation(); };
    if (event.ctrlKey || event.metaKey) {
        const command = key == "z" ? (event.shiftKey ? "redo" : "undo") : key == "y" ? "redo" : "";
        if (command) { done(); send(command); }
        return;
    }
    const commands = {arrowright: "next", arrowleft: "previous", y: "together", n: "apart"};
    if (now.node === undefined) {
        if (key == "enter" && at == document.body) { done(); send("ask"); }
        if (commands[key]) { done(); send(commands[key]); }
        return;
    }
    const choice = now.choices.find((one) => one.key == key);
    if (choice) { done(); answer(now.node, "label", choice.value); }
    else if (key == "y" && now.now !== null) { done(); answer(now.node, "label", now.now); }
    else if (key == " ") { done(); answer(now.node, "unknown", ""); }
    else if (commands[key]) { done(); send(commands[key]); }
}, true);

document.addEventListener("click", (event) => {
    const path = event.composedPath(), now = JSON.parse(question.value || "{}");
    const within = (name) => path.some((one) => one.classList && one.classList.contains(name));
    const button = path.find((one) => one.tagName == "BUTTON");
    if (!button || now.node === undefined) return;
    const choice = now.choices.find((one) => one.label == button.textContent.trim());
    if (within("unknown")) answer(now.node, "unknown", "");
    else if (within("answer") && choice) answer(now.node, "label", choice.value);
}, true);

if (read().length) send();
