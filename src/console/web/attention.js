// Tells how many holds wait for this person: in the title of the tab, and by notifications of the browser where it allows
// them and the person wants them.

import { get, now } from "./api.js";
import { h, toast } from "./dom.js";

/** New holds are looked for at most this often. */
const LOOK_MS = 5_000;
/** The count is read again where no view did so for this long. */
const COUNT_MS = 30_000;
/** The page keeps nothing in the browser: a new tab notifies again where the browser allows it. */
let isMuted = false;

export class Attention {
  /**
   * @param {App} app
   * @param {() => void} changed is called when `count` changes
   */
  constructor(app, changed) {
    this.app = app;
    this.changed = changed;
    /** The holds that wait, such as `3` or `100+`. */
    this.count = "";
    /** @type {Set<string>} the holds of which the person was told */
    this.known = new Set();
    /** Holds from before this time are not new. */
    this.since = now();
    this.last = 0;
    this.counted = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    setInterval(() => this.look(), COUNT_MS);
  }

  /** Forgets everything about the person who was signed in. */
  reset() {
    [this.count, this.known, this.since] = ["", new Set(), now()];
    // The first view may count them.
    this.last = performance.now();
    this.counted = this.last - COUNT_MS;
  }

  /** Looks for new holds, and counts those that wait; soon, if that was a moment ago. */
  async look() {
    const wait = this.last + LOOK_MS - performance.now();
    clearTimeout(this.timer);
    if (wait > 0) this.timer = setTimeout(() => this.look(), wait);
    const counts = performance.now() - this.counted > COUNT_MS;
    if (!this.app.may("approver") || wait > 0 || !(counts || isOn())) return;
    this.last = performance.now();
    try {
      const { body } = await get("holds", { mine: "true", order: "latest", limit: counts ? 100 : 10 });
      if (counts) this.take(body.holds, body.next !== null);
      this.tell(body.holds);
    } catch {
      // The views say that the gate does not answer.
    }
  }

  /**
   * Takes how many holds wait for this person.
   * @param {Hold[]} holds
   * @param {boolean} isMore
   */
  take(holds, isMore) {
    this.counted = performance.now();
    const count = holds.length === 0 ? "" : `${holds.length}${isMore ? "+" : ""}`;
    if (count !== this.count) {
      this.count = count;
      this.changed();
    }
  }

  /**
   * Notifies a person who looks elsewhere of new holds, once of each.
   * @param {Hold[]} holds
   */
  tell(holds) {
    const fresh = holds.filter(({ id, createdAt }) => Date.parse(createdAt) > this.since && !this.known.has(id));
    for (const { id } of fresh) this.known.add(id);
    if (fresh.length > 0 && isOn() && (document.hidden || !document.hasFocus())) notify(fresh.length);
  }
}

function isOn() {
  return "Notification" in globalThis && Notification.permission === "granted" && !isMuted;
}

/**
 * The notification has no content of a hold: others may see the screen.
 * @param {number} count
 */
function notify(count) {
  const text = count === 1 ? "A new hold waits for your vote." : `${count} new holds wait for your vote.`;
  const shown = new Notification("Sluice", { body: text, tag: "sluice-holds", icon: "/page/icon.svg" });
  shown.onclick = () => {
    focus();
    location.hash = "#/queue";
    shown.close();
  };
}

/** Returns the button that turns notifications on and off; null where the browser has none. */
export function notificationButton() {
  if (!("Notification" in globalThis)) return null;
  const label = () => (isOn() ? "Stop notifications" : "Notify me of new holds");
  const button = h("button", { type: "button" }, label());
  button.addEventListener("click", async () => {
    isMuted = isOn();
    if (!isMuted && (await Notification.requestPermission()) !== "granted")
      toast("The browser does not allow notifications of this page.", "warn");
    button.textContent = label();
  });
  return button;
}
