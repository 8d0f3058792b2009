import { effect, signal } from "@preact/signals";
import { token } from "./access";
import { address } from "./api/client";

/** The state of the stream, of which a tab has one. While it is broken, the screens are read every few seconds. */
export const stream = signal<"off" | "open" | "broken">("off");

/** What an event is about: a task's ID, or "" if it may concern everything. */
type Hear = (task: string) => void;
const hearers = new Set<Hear>();

/** Calls hear for each change. The function that it returns ends that. */
export function hearChanges(hear: Hear): () => void {
  hearers.add(hear);
  return () => hearers.delete(hear);
}

const tell = (task: string): void => hearers.forEach((hear) => hear(task));

/** A node says something every 15 s; one that is silent for longer has gone. */
const silence = 35_000;
/** A longer line is not from a node of ours. */
const longest = 4 << 20;

const wanted = signal(false);
/** Opens or closes the stream. It is closed while the page is hidden, since browsers allow six connections for all tabs together. */
export function wantStream(on: boolean): void {
  wanted.value = on;
}

const seen = signal(!document.hidden);
document.addEventListener("visibilitychange", () => (seen.value = !document.hidden));

effect(() => {
  const sent = token.value; // a new token opens the stream again
  if (!wanted.value || !seen.value) return;
  const stop = new AbortController();
  void keep(sent, stop.signal);
  return () => {
    stop.abort();
    stream.value = "off";
  };
});

async function keep(sent: string, stop: AbortSignal): Promise<void> {
  let last = "";
  for (let failures = 0; !stop.aborted; failures++) {
    try {
      await follow(sent, last, stop, (id) => {
        last = id;
        failures = 0;
      });
    } catch {
      /* the badge says it, and the calls of the screens say why */
    }
    if (stop.aborted) return;
    stream.value = "broken";
    tell(""); // from now on the screens are read at another pace
    await new Promise((done) => setTimeout(done, Math.min(5000, 500 * 2 ** failures)));
  }
}

/** Reads the stream until it ends. EventSource cannot send a token. */
async function follow(sent: string, last: string, stop: AbortSignal, at: (id: string) => void): Promise<void> {
  const mine = new AbortController();
  const end = (): void => mine.abort();
  stop.addEventListener("abort", end);
  let silent = setTimeout(end, silence);
  try {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (sent !== "") headers.Authorization = `Bearer ${sent}`;
    if (last !== "") headers["Last-Event-ID"] = last;
    const response = await fetch(address("v1/stream"), { headers, signal: mine.signal });
    if (!response.ok || !response.body) {
      if (response.status === 422) at(""); // the cursor is of another namespace
      return;
    }
    const lines = new Lines();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(silent);
      silent = setTimeout(end, silence);
      for (const e of lines.take(value)) {
        if (e.id !== "") at(e.id);
        if (e.name === "open") stream.value = "open";
        if (e.name !== "" && !(e.name === "open" && last !== "")) tell(e.name === "task" ? (JSON.parse(e.data) as { task: { id: string } }).task.id : "");
      }
    }
  } finally {
    clearTimeout(silent);
    stop.removeEventListener("abort", end);
    mine.abort();
  }
}

interface Event {
  id: string;
  name: string;
  data: string;
}

/** Parses server-sent events from text that arrives in pieces. */
class Lines {
  private rest = "";
  private event: Event = { id: "", name: "", data: "" };

  take(text: string): Event[] {
    const list: Event[] = [];
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    if (this.rest.length > longest) throw new Error("a line of the stream has no end");
    for (const line of lines) {
      if (line === "") {
        list.push(this.event);
        this.event = { id: "", name: "", data: "" };
      } else if (line.startsWith("id: ")) this.event.id = line.slice(4);
      else if (line.startsWith("event: ")) this.event.name = line.slice(7);
      else if (line.startsWith("data: ")) this.event.data = line.slice(6);
    }
    return list;
  }
}
