// Listens to the gate's stream of changes, and reports whether the connection is up. A hidden tab does not listen, because
// browsers allow few connections; it loads everything again when it is shown.

const SILENCE_MS = 12_000;
const RETRY_MS = [1_000, 2_000, 4_000, 8_000];

/** Sends `changed` when the views should load again, `state` when `state` changes, and `ended` with the session. */
export class Changes extends EventTarget {
  constructor() {
    super();
    /** @type {"off" | "live" | "lost"} */
    this.state = "off";
    this.tries = 0;
    this.isWanted = false;
    /** @type {AbortController | undefined} */
    this.connection = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.disconnect() : this.connect()));
    addEventListener("online", () => this.state === "lost" && this.retry());
    addEventListener("offline", () => this.retry());
  }

  start() {
    this.isWanted = true;
    this.connect();
  }

  stop() {
    this.isWanted = false;
    this.disconnect();
  }

  /** Connects again at once. */
  retry() {
    if (!this.isWanted) return;
    this.disconnect();
    this.connect();
  }

  disconnect() {
    clearTimeout(this.timer);
    this.connection?.abort();
    this.connection = undefined;
  }

  async connect() {
    if (!this.isWanted || this.connection || document.hidden) return;
    const connection = new AbortController();
    this.connection = connection;
    let silence;
    try {
      const response = await fetch("/sluice/v1/holds/changes", {
        headers: { accept: "text/event-stream" },
        credentials: "same-origin",
        cache: "no-store",
        signal: connection.signal,
      });
      if (response.status === 401) this.dispatchEvent(new Event("ended"));
      if (!response.ok || !response.body) throw new Error(String(response.status));
      this.setState("live");
      this.tries = 0;
      this.dispatchEvent(new Event("changed"));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        clearTimeout(silence);
        silence = setTimeout(() => connection.abort(), SILENCE_MS);
        const { value, done } = await reader.read();
        if (done) break;
        const events = (rest + value).split("\n\n");
        rest = (events.pop() ?? "").slice(-4096);
        if (events.some((event) => event.startsWith("event: "))) this.dispatchEvent(new Event("changed"));
      }
      this.connectAfter(0, connection);
    } catch {
      if (this.connection === connection) this.setState("lost");
      this.connectAfter(RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)], connection);
      this.tries += 1;
    } finally {
      clearTimeout(silence);
    }
  }

  /**
   * Connects again after a stream that ended by itself; does nothing after `disconnect`.
   * @param {number} delayMs
   * @param {AbortController} ended
   */
  connectAfter(delayMs, ended) {
    if (this.connection !== ended) return;
    this.connection = undefined;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), delayMs);
  }

  /** @param {"live" | "lost"} state */
  setState(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}
