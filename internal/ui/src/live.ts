import { computed, effect, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { token } from "./access";
import { CallError } from "./api/client";
import { shown } from "./shown";
import { hearChanges, stream, wantStream } from "./stream";

/** How often the screens are read again, in seconds; 0 means never. 1 means live: when the stream reports a change, at most once a second. */
export const pace = signal<number>(Number(localStorage.getItem("pace") ?? 1));

export function setPace(seconds: number): void {
  pace.value = seconds;
  localStorage.setItem("pace", String(seconds));
}

/** When the screen was last read, and since when that fails. The badge in the header says it: the page is never stale in silence. */
export const freshness = signal<{ read: number; failing: number | null; words: string }>({ read: 0, failing: null, words: "" });
effect(() => wantStream(pace.value === 1));

/** While the stream is open and silent, screens are still read every idle seconds; while it is broken, every polling seconds. */
const idle = 15;
const polling = 5;

/** The time of the first change that no screen shows yet. */
const unread = signal<number | null>(null);

export const now = signal(Date.now());
setInterval(() => (now.value = shown.value ?? Date.now()), 1000);

export const lag = computed(() => {
  const f = freshness.value;
  if (f.failing !== null) return { kind: "failing", words: `reconnecting, ${seconds(now.value - f.failing)} without an answer` } as const;
  if (f.read === 0) return { kind: "late", words: "reading …" } as const;
  if (pace.value === 0) return { kind: "off", words: `refresh is off, read ${seconds(now.value - f.read)} ago` } as const;
  if (pace.value === 1 && stream.value === "broken") return { kind: "late", words: `reconnecting, read ${seconds(now.value - f.read)} ago` } as const;
  const behind = stream.value === "open" && pace.value === 1 ? now.value - (unread.value ?? now.value) - 1000 : now.value - f.read - 1000 * pace.value;
  return behind > 2000 ? ({ kind: "late", words: `${seconds(behind)} behind` } as const) : ({ kind: "live", words: "live" } as const);
});

const seconds = (ms: number): string => `${Math.max(0, Math.round(ms / 1000))} s`;

export interface Live<T> {
  data: T | undefined;
  error: CallError | undefined;
  again: () => void;
}

/** What no event of the stream is about. */
const unheard = /^(info|whoami|workflows?|dead letters?)( |$)/;

/** Says whether an event, about a task or about everything, affects what is read under a key. */
const concerns = (key: string, task: string): boolean => {
  if (unheard.test(key)) return false;
  const of = /^(?:task|history) (\S+)/.exec(key);
  return of === null || task === "" || of[1] === task.split(" ")[0];
};

/**
 * Reads something now, and again when the stream says that it may have changed, or at the pace. What was read stays while a later reading fails. A reading whose key has changed is
 * given up. While nobody sees the page nothing is read.
 */
export function useLive<T>(key: string | null, read: (signal: AbortSignal) => Promise<T>, slower = 1): Live<T> {
  const [state, set] = useState<{ key: string | null; data?: T; error?: CallError }>({ key });
  const reading = useRef(read);
  reading.current = read;
  const nudge = useRef<() => void>(() => {});
  const every = pace.value;
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let begun = 0;
    let busy = false;
    let heard = false;
    const least = 1000 * every * slower;
    const again = (ms: number): void => {
      clearTimeout(timer);
      timer = setTimeout(once, ms);
    };
    const hear = (task: string): void => {
      if (every !== 1 || !concerns(key, task)) return;
      unread.value ??= Date.now();
      if (!heard && !busy) again(Math.max(0, begun + least - Date.now()));
      heard = true;
    };
    const once = async () => {
      clearTimeout(timer);
      if (document.hidden) return; // visible() goes on
      heard = false;
      busy = true;
      begun = Date.now();
      try {
        const data = await reading.current(stop.signal);
        failures = 0;
        unread.value = null;
        freshness.value = { read: Date.now(), failing: null, words: "" };
        set({ key, data });
      } catch (cause) {
        if (stop.signal.aborted) return;
        const error = cause instanceof CallError ? cause : new CallError(0, { detail: String(cause) });
        failures++;
        if (error.status === 0 || error.status >= 500) {
          freshness.value = { ...freshness.value, failing: freshness.value.failing ?? Date.now(), words: error.message };
        }
        set((s) => (s.key === key && s.data !== undefined ? { key, data: s.data, error } : { key, error }));
      }
      busy = false;
      if (stop.signal.aborted || every === 0) return;
      const rest = every !== 1 ? least : stream.value !== "open" ? Math.max(1000 * polling, least) : heard ? least : Math.max(1000 * idle, least);
      again(failures > 0 ? Math.min(10_000, least * 2 ** Math.min(failures, 4)) : rest);
    };
    const visible = () => void (document.hidden || once());
    document.addEventListener("visibilitychange", visible);
    nudge.current = () => void once();
    const deaf = hearChanges(hear);
    void once();
    return () => {
      stop.abort();
      deaf();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [key, every, slower, token.value]);
  const current = state.key === key ? state : { data: undefined, error: undefined };
  return { data: current.data, error: current.error, again: () => nudge.current() };
}
