// Hears when something has changed, and says whether it still hears. A tab that nobody sees does not listen: browsers
// allow few connections, and it looks again as soon as it is seen.

const SILENCE_MS = 40_000;
const AGAIN_MS = [1_000, 2_000, 4_000, 8_000];

/** Events: `changed` when to look again; `state`, when `live` or `lost` has become otherwise. */
export class Changes extends EventTarget {
  constructor() {
    super();
    this.state = "off";
    this.tries = 0;
    this.seen = () => (document.hidden ? this.pause() : this.begin());
    document.addEventListener("visibilitychange", this.seen);
    addEventListener("online", () => this.state === "lost" && this.retry());
    addEventListener("offline", () => this.retry());
  }

  start() {
    this.wanted = true;
    this.begin();
  }

  stop() {
    this.wanted = false;
    this.pause();
  }

  /** Now, whatever it waits for. */
  retry() {
    if (!this.wanted) return;
    this.pause();
    this.begin();
  }

  pause() {
    clearTimeout(this.timer);
    this.ending?.abort();
    this.ending = undefined;
  }

  async begin() {
    if (!this.wanted || this.ending || document.hidden) return;
    const ending = new AbortController();
    this.ending = ending;
    let silence;
    try {
      const answer = await fetch("/sluice/v1/holds/changes", {
        headers: { accept: "text/event-stream" },
        credentials: "same-origin",
        cache: "no-store",
        signal: ending.signal,
      });
      if (answer.status === 401) this.dispatchEvent(new Event("ended"));
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      this.become("live");
      this.tries = 0;
      this.dispatchEvent(new Event("changed"));
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let held = "";
      for (;;) {
        clearTimeout(silence);
        silence = setTimeout(() => ending.abort(), SILENCE_MS);
        const { value, done } = await reader.read();
        if (done) break;
        held += value;
        const events = held.split("\n\n");
        held = events.pop().slice(-4096);
        if (events.some((event) => event.startsWith("event: changed"))) this.dispatchEvent(new Event("changed"));
      }
      this.come(0, ending);
    } catch {
      if (this.ending === ending) this.become("lost");
      this.come(AGAIN_MS[Math.min(this.tries, AGAIN_MS.length - 1)], ending);
      this.tries += 1;
    } finally {
      clearTimeout(silence);
    }
  }

  /** The stream ends by itself now and then; one that was ended on purpose does not come again. */
  come(after, ending) {
    if (this.ending !== ending) return;
    this.ending = undefined;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.begin(), after);
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}
