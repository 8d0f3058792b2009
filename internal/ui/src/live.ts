import { computed, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { token } from "./access";
import { CallError } from "./api/client";

/** How often what is shown is read again: in seconds, 0 for never. */
export const pace = signal<number>(Number(localStorage.getItem("pace") ?? 1));

export function setPace(seconds: number): void {
  pace.value = seconds;
  localStorage.setItem("pace", String(seconds));
}

/** When the screen was last read, and since when that fails. The badge in the header says it: the page is never stale in silence. */
export const freshness = signal<{ read: number; failing: number | null; words: string }>({ read: 0, failing: null, words: "" });
export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 1000);

export const lag = computed(() => {
  const f = freshness.value;
  if (f.failing !== null) return { kind: "failing", words: `reconnecting, ${seconds(now.value - f.failing)} without an answer` } as const;
  if (pace.value === 0) return { kind: "off", words: `refresh is off, read ${seconds(now.value - f.read)} ago` } as const;
  const behind = now.value - f.read;
  return behind > 2000 + 1000 * pace.value ? ({ kind: "late", words: `${seconds(behind)} behind` } as const) : ({ kind: "live", words: "live" } as const);
});

const seconds = (ms: number): string => `${Math.max(0, Math.round(ms / 1000))} s`;

export interface Live<T> {
  data: T | undefined;
  error: CallError | undefined;
  again: () => void;
}

/**
 * Reads something now, and again at the pace. What was read stays while a later reading fails. A reading whose key has changed is
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
    const once = async () => {
      clearTimeout(timer);
      if (document.hidden) return; // visible() goes on
      try {
        const data = await reading.current(stop.signal);
        failures = 0;
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
      if (stop.signal.aborted || every === 0) return;
      timer = setTimeout(once, Math.min(10_000, 1000 * every * slower * 2 ** Math.min(failures, 4)));
    };
    const visible = () => void (document.hidden || once());
    document.addEventListener("visibilitychange", visible);
    nudge.current = () => void once();
    void once();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [key, every, slower, token.value]);
  const current = state.key === key ? state : { data: undefined, error: undefined };
  return { data: current.data, error: current.error, again: () => nudge.current() };
}
