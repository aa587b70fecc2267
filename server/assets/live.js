// Shows a page anew when something has changed. Without it the pages show what was there when they were loaded.
const status = document.getElementById("live");
const every = 10_000; // so that times and ages go on without an event
const soon = 250;
let timer = 0;
let retry = 0;
let source;
let loading = false;
let again = false;

function show(text, on) {
  status.textContent = text;
  status.classList.toggle("on", on);
}

// Somebody fills in a form: what is typed must not go.
function busy() {
  const main = document.querySelector("main");
  return main.querySelector("details[open]") !== null || main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
}

async function refresh() {
  if (document.hidden || busy()) return;
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, redirect: "error" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (response.ok && !busy()) {
      const active = document.activeElement;
      const place = active && [...document.querySelectorAll("main a, main button, main summary")].indexOf(active);
      for (const part of ["main", "footer"]) document.querySelector(part).replaceWith(page.querySelector(part));
      if (place >= 0) document.querySelectorAll("main a, main button, main summary")[place]?.focus({ preventScroll: true });
    }
  } catch {
    show("not connected", false);
  } finally {
    loading = false;
    if (again) {
      again = false;
      plan();
    }
  }
}

function plan() {
  clearTimeout(timer);
  timer = setTimeout(refresh, soon);
}

function disconnect() {
  clearTimeout(retry);
  source?.close();
}

// Only a page that is seen has a connection: a browser has no more than six to a host, and with one in each of six tabs nothing else would load.
function connect() {
  disconnect();
  if (document.hidden) {
    show("", false);
    return;
  }
  source = new EventSource("/v1/events");
  source.onopen = () => show("live", true);
  source.onerror = () => {
    show("reconnecting", false);
    if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 5000);
  };
  for (const name of ["store", "started", "ended", "taken", "freed", "job", "replica", "action", "many"]) source.addEventListener(name, plan);
}

connect();
setInterval(refresh, every);
document.addEventListener("visibilitychange", () => {
  connect();
  plan();
});
addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => {
  if (event.persisted) connect();
});
