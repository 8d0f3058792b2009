import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { CallError, get, type HistoryEvent, segment, type Step, type Task } from "../api/client";
import { useKeys } from "../keys";
import { place, to } from "../router";
import { exact } from "../time";

/** The reason why the verbs are disabled while the past is shown. */
export const readOnly = "This is the past: read only. Press n to return to now.";

/** How many past states of the task are cached. */
const kept = 300;
/** How long the scrubber must rest before a position is read, how often it moves the address bar, and when a failed reading is repeated, in ms. */
const rests = 60;
const moves = 100;
const again = 2000;
/** While playing, a fact is shown for at most longest and at least shortest, in ms. */
const longest = 3000;
const shortest = 80;

const speeds = [1, 10, 60] as const;

interface Reading {
  at: string;
  task?: Task;
  error?: CallError;
}

/** Reads the task as it was at a position. The previous answer stays until the next one arrives. */
function useTaskAt(id: string, at: string | null, cache: Map<string, Task>): Reading | undefined {
  const [got, set] = useState<Reading>();
  useEffect(() => {
    if (at === null) return set(undefined);
    const known = cache.get(at);
    if (known) return set({ at, task: known });
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async (): Promise<void> => {
      try {
        const task = await get<Task>(`v1/tasks/${segment(id)}`, { query: { at }, signal: stop.signal });
        for (const oldest of [...cache.keys()].slice(0, Math.max(0, cache.size - kept + 1))) cache.delete(oldest);
        cache.set(at, task);
        set({ at, task });
      } catch (cause) {
        if (stop.signal.aborted) return;
        const error = cause instanceof CallError ? cause : new CallError(0, { detail: String(cause) });
        set({ at, error });
        if (error.status === 0 || error.status >= 500) timer = setTimeout(() => void read(), again);
      }
    };
    timer = setTimeout(() => void read(), rests);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [id, at]);
  return at === null ? undefined : got;
}

export interface Past {
  /** Whether the task is shown as it was. */
  on: boolean;
  /** The facts after which the task can be shown. */
  facts: readonly HistoryEvent[];
  /** The index of the fact after which the task is shown; the number of facts means now. */
  index: number;
  /** The task after that fact. While another one is read, it is still the one before. */
  task: Task | undefined;
  reading: boolean;
  error: CallError | undefined;
  /** The steps that the fact changed. */
  changed: ReadonlySet<string>;
  /** The first fact that is left, if those before it were trimmed from the log. */
  trimmed: HistoryEvent | undefined;
}

const nameOf = (e: HistoryEvent): string => `${e.partition}@${e.offset}`;

/** The index of the fact that belongs to a position in the address. */
function locate(facts: readonly HistoryEvent[], at: string): number {
  const [, offset] = at.split("@");
  return facts.findLastIndex((e) => (offset === undefined ? Date.parse(e.time) <= Date.parse(at) : e.offset <= Number(offset)));
}

/** The steps that differ between two documents. */
function differing(before: readonly Step[], after: readonly Step[]): Set<string> {
  const was = new Map(before.map((s) => [s.id, JSON.stringify(s)]));
  return new Set(after.filter((s) => was.get(s.id) !== JSON.stringify(s)).map((s) => s.id));
}

const nothing: ReadonlySet<string> = new Set();

/** The task as it was at the position that the address holds. */
export function usePast(id: string, events: readonly HistoryEvent[]): Past {
  const at = place.value.query.get("at");
  const cache = useRef(new Map<string, Task>()).current;
  const facts = useMemo(() => {
    const first = events.findIndex((e) => e.type === "Submitted");
    return first < 0 ? [] : events.slice(first);
  }, [events]);
  const index = at === null ? facts.length : locate(facts, at);
  const fact = facts[index];
  const earlier = at === null ? undefined : facts[index - 1];
  const shown = useTaskAt(id, fact ? nameOf(fact) : at, cache);
  const before = useTaskAt(id, earlier ? nameOf(earlier) : null, cache);
  const reading = at !== null && (shown?.at !== (fact ? nameOf(fact) : at) || (earlier !== undefined && before?.at !== nameOf(earlier)));
  const changed = useMemo(
    () => (fact && earlier && shown?.task && before?.task && shown.at === nameOf(fact) && before.at === nameOf(earlier) ? differing(before.task.steps, shown.task.steps) : nothing),
    [fact, earlier, shown, before],
  );
  return { on: at !== null, facts, index, task: shown?.task, reading, error: shown?.error, changed, trimmed: facts.length === 0 ? events[0] : undefined };
}

let due: ReturnType<typeof setTimeout> | undefined;
let written = 0;

/** Moves to a fact, or to now. The address bar follows more slowly, since browsers limit how often it may change. */
export function seek(past: Past, index: number): void {
  const fact = past.facts[Math.max(0, index)];
  const query = new URLSearchParams(place.value.query);
  query.delete("at");
  if (fact && index < past.facts.length) query.set("at", nameOf(fact));
  place.value = { path: place.value.path, query };
  const write = (): void => {
    due = undefined;
    written = Date.now();
    history.replaceState(null, "", to(place.value.path, place.value.query));
  };
  if (due === undefined && Date.now() - written > moves) write();
  else due ??= setTimeout(write, moves);
}

/** Whether a fact changes the state of a step. */
const ofStep = (e: HistoryEvent): boolean =>
  (/^(Step|Wait|Compensat|Timeout)/.test(e.type) && e.type !== "StepProgressed" && e.type !== "StepQueued") || ["TaskReopened", "EffectFailed", "RunBegun"].includes(e.type);

/** The slider that shows the task as it was after each of its facts. */
export function Scrubber({ past }: { past: Past }): JSX.Element | null {
  const { facts, index } = past;
  const [speed, play] = useState(0);
  const [chosen, choose] = useState<number>(10);
  const fact = past.on ? facts[index] : undefined;
  const next = facts[index + 1];
  const can = facts.length > 0;
  const move = (target: number): void => {
    if (can) seek(past, target);
  };
  const back = (): void => move(index - 1);
  const on = (): void => move(index + 1);
  const stepBack = (): void => move(facts.findLastIndex((e, i) => i < index && ofStep(e)));
  const stepOn = (): void => {
    const found = facts.findIndex((e, i) => i > index && ofStep(e));
    move(found < 0 ? facts.length : found);
  };
  const now = (): void => {
    play(0);
    seek(past, facts.length);
  };
  useKeys(
    {
      "[": { does: "one fact back", run: back },
      "]": { does: "one fact forward", run: on },
      "{": { does: "one step change back", run: stepBack },
      "}": { does: "one step change forward", run: stepOn },
      n: { does: "back to now", run: now },
    },
    can || past.on,
  );
  useEffect(() => {
    if (speed === 0) return;
    if (!fact || !next) return play(0);
    const pause = (Date.parse(next.time) - Date.parse(fact.time)) / speed;
    const timer = setTimeout(on, Math.min(Math.max(pause, shortest), longest));
    return () => clearTimeout(timer);
  }, [speed, fact, next]);
  const start = (): void => {
    if (!next) move(0); // from the beginning
    play(chosen);
  };
  if (past.trimmed) {
    return (
      <p class="notice">
        The facts before {exact(past.trimmed.time)} were trimmed from the log. The history shows what is left, and the task is known only as it is now.{" "}
        {past.on && (
          <button type="button" class="main" onClick={now}>
            now
          </button>
        )}
      </p>
    );
  }
  if (!can && !past.on) return null;
  const says = fact ? `after fact ${index + 1} of ${facts.length}, ${exact(fact.time)}: ${fact.text}` : past.on ? "" : `now, after ${facts.length} facts`;
  return (
    <div class="scrubber" role="group" aria-label="the task through time">
      <input type="range" min={0} max={facts.length} value={Math.max(0, index)} disabled={!can} aria-label="facts of the task" aria-valuetext={says || "the past"} onInput={(e) => seek(past, Number(e.currentTarget.value))} />
      <span class="verbs" role="toolbar" aria-label="moves through time">
        <button type="button" onClick={stepBack} aria-label="one step change back" title="one step change back. Key: {">
          {"{"}
        </button>
        <button type="button" onClick={back} aria-label="one fact back" title="one fact back. Key: [">
          [
        </button>
        <button type="button" onClick={on} aria-label="one fact forward" title="one fact forward. Key: ]">
          ]
        </button>
        <button type="button" onClick={stepOn} aria-label="one step change forward" title="one step change forward. Key: }">
          {"}"}
        </button>
        <button type="button" aria-pressed={speed > 0} onClick={() => (speed > 0 ? play(0) : start())} title={`pauses of more than ${longest / 1000} s are cut short`}>
          play
        </button>
        <select
          aria-label="speed"
          value={chosen}
          onChange={(e) => {
            choose(Number(e.currentTarget.value));
            if (speed > 0) play(Number(e.currentTarget.value));
          }}
        >
          {speeds.map((s) => (
            <option key={s} value={s}>
              {s}x
            </option>
          ))}
        </select>
        <button type="button" class="main" aria-disabled={!past.on} onClick={now} title="Key: n">
          now
        </button>
      </span>
      <p aria-live="polite">
        {past.on && <strong class="bad">past: read only </strong>}
        {says} {fact && <span class="faint">{nameOf(fact)}</span>} {past.reading && !past.error && <span class="faint">Reading …</span>}
      </p>
    </div>
  );
}
