import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, type HistoryEvent, segment, type Step, type Task as Document, type Workflow } from "../api/client";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { Dag } from "../parts/dag";
import { Deadline } from "../parts/deadline";
import { Fault } from "../parts/fault";
import { Copy, Json } from "../parts/json";
import { type Past, readOnly, Scrubber, seek, usePast } from "../parts/scrubber";
import { Timeline } from "../parts/timeline";
import { TaskVerbs } from "../parts/verbs";
import { State, Took, When, why, word } from "../parts/words";
import { go, place, refine, to } from "../router";
import { exact } from "../time";

const ended = (t: Document): boolean => ["processed", "undone", "terminated"].includes(t.state);

/** Reads the whole history, page by page, up to a bound that the page can draw. */
async function history(id: string, signal: AbortSignal): Promise<{ events: HistoryEvent[]; cut: boolean }> {
  const events: HistoryEvent[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < 10; pages++) {
    const p: { events: HistoryEvent[]; next?: string } = await get(`v1/tasks/${segment(id)}/history`, { query: { limit: 1000, cursor }, signal });
    events.push(...p.events);
    if (!p.next) return { events, cut: false };
    cursor = p.next;
  }
  return { events, cut: true };
}

/** The facts up to the one after which the task is shown. */
const until = (events: readonly HistoryEvent[], t: Document): readonly HistoryEvent[] => events.filter((e) => e.offset <= (t.at?.offset ?? Infinity));

export function Task({ id }: { id: string }): JSX.Element {
  const tab = place.value.query.get("tab") ?? "steps";
  const chosen = place.value.query.get("step") ?? undefined;
  const task = useLive<Document>(`task ${id}`, (signal) => get(`v1/tasks/${segment(id)}`, { signal }));
  const [kept, keep] = useState<HistoryEvent[]>([]);
  const past = usePast(id, kept);
  const t = past.on ? past.task : task.data;
  const version = t ? `${t.workflow} ${t.version}` : null;
  const workflow = useLive<Workflow>(version, (signal) => get(`v1/workflows/${segment(t?.workflow ?? "")}`, { query: { version: t?.version }, signal }), 60);
  const live = task.data;
  const facts = useLive(live ? `history ${id} ${live.updated_at} ${live.state}` : null, (signal) => history(id, signal), 5);
  if (facts.data && facts.data.events !== kept) keep(facts.data.events);
  const choose = (step: string) => refine({ step: step === chosen ? "" : step }, true);
  const show = (name: string) => () => refine({ tab: name === "steps" ? "" : name }, true);
  useKeys({
    h: { does: "history", run: show("history") },
    t: { does: "steps and timeline", run: show("steps") },
    i: { does: "input and output", run: show("data") },
    w: { does: "raw", run: show("raw") },
    Escape: { does: "back to the list", run: () => go(to(["tasks"])) },
  });
  if (!t) {
    return (
      <section class="screen">
        <h1>{id}</h1>
        <Scrubber key="time" past={past} />
        {past.error ?? task.error ? <Fault of={past.error ?? task.error} /> : <p class="faint">Reading …</p>}
      </section>
    );
  }
  const states = new Map(t.steps.map((s) => [s.id, s]));
  const steps = workflow.data?.steps ?? t.steps.map((s) => ({ id: s.id, needs: [], agent: s.agent ?? "" }));
  const step = chosen ? states.get(chosen) : undefined;
  const reasons = why(t);
  return (
    <section class={`screen task${past.on ? " past" : ""}`}>
      <header class="title">
        <h1>{t.id}</h1>
        <State of={t.state} paused={t.paused !== undefined} />
        <span class="faint">
          <a href={to(["workflows", t.workflow])}>{t.workflow}</a> @{t.version}
          {t.run > 1 ? `, run ${t.run}` : ""}
        </span>
        <TaskVerbs task={t} chosen={chosen} done={task.again} barred={past.on ? readOnly : null} />
      </header>
      <Scrubber key="time" past={past} />
      <Fault of={past.error ?? task.error} />
      {reasons.length > 0 && (
        <div class={`why ${t.state === "error" ? "bad" : ""}`} role="status">
          {reasons.map((r) => (
            <p key={r}>{r}</p>
          ))}
        </div>
      )}
      {t.deadline && !ended(t) && <Deadline from={t.submitted_at} by={t.deadline} />}
      <dl class="facts">
        <dt>submitted</dt>
        <dd>
          <When at={t.submitted_at} />
        </dd>
        <dt>{ended(t) ? "took" : "so far"}</dt>
        <dd>
          <Took from={t.submitted_at} to={t.ended_at ?? t.at?.time} />
        </dd>
        {t.failure_count > 0 && (
          <>
            <dt>failures</dt>
            <dd>{t.failure_count}</dd>
          </>
        )}
        {t.schedule && (
          <>
            <dt>schedule</dt>
            <dd>
              <a href={to(["schedules", t.schedule])}>{t.schedule}</a>
            </dd>
          </>
        )}
        {Object.entries(t.labels ?? {}).map(([k, v]) => (
          <>
            <dt key={k}>{k}</dt>
            <dd key={`${k}=`}>
              <a href={to(["tasks"], { label: `${k}:${v}` })}>{v}</a>
            </dd>
          </>
        ))}
      </dl>
      <nav class="tabs" aria-label="parts of the task">
        {(["steps", "history", "data", "raw"] as const).map((name) => (
          <button key={name} type="button" aria-pressed={tab === name} onClick={show(name)}>
            {name === "data" ? "input and output" : name}
          </button>
        ))}
      </nav>
      {tab === "history" ? (
        <History events={kept} step={chosen} cut={facts.data?.cut ?? false} id={id} past={past} />
      ) : tab === "raw" ? (
        <Json of={t} label="the task as the API shows it" />
      ) : tab === "data" ? (
        <div class="two">
          <section>
            <h2>Input</h2>
            <Json of={t.input} label="input of the task" />
          </section>
          <section>
            <h2>Output</h2>
            <Json of={t.output} label="output of the task" />
          </section>
        </div>
      ) : (
        <>
          <Dag steps={steps} states={states} chosen={chosen} choose={choose} changed={past.changed} />
          <Timeline events={past.on ? until(kept, t) : kept} order={t.steps.map((s) => s.id)} ended={past.on || ended(t)} chosen={chosen} choose={choose} />
          {step ? <StepPart step={step} asOf={t.at?.time} /> : <p class="faint">Choose a step to see its input, output and attempts.</p>}
        </>
      )}
    </section>
  );
}

function StepPart({ step: s, asOf }: { step: Step; asOf: string | undefined }): JSX.Element {
  return (
    <section class="step-part" aria-label={`step ${s.id}`}>
      <h2>
        {s.id} <State of={s.state} />
      </h2>
      <dl class="facts">
        {s.agent && (
          <>
            <dt>agent</dt>
            <dd>
              {s.agent}
              {s.operation ? `, ${s.operation}` : ""}
            </dd>
          </>
        )}
        <dt>attempt</dt>
        <dd>{s.attempt || "none yet"}</dd>
        {s.failure_count > 0 && (
          <>
            <dt>failures</dt>
            <dd>{s.failure_count}</dd>
          </>
        )}
        {s.started_at && (
          <>
            <dt>{s.ended_at ? "took" : "so far"}</dt>
            <dd>
              <Took from={s.started_at} to={s.ended_at ?? asOf} />
            </dd>
          </>
        )}
        {s.retry_at && (
          <>
            <dt>next attempt</dt>
            <dd>
              <When at={s.retry_at} />
            </dd>
          </>
        )}
        {s.complete_by && s.state === "running" && (
          <>
            <dt>must end</dt>
            <dd>
              <When at={s.complete_by} />
            </dd>
          </>
        )}
        {s.undo && (
          <>
            <dt>undo</dt>
            <dd>
              {s.undo.skipped ? "skipped by hand: what the step did is left" : `${word(s.undo.state)}, attempt ${s.undo.attempt}`}
            </dd>
          </>
        )}
        {s.left && !s.undo?.skipped && (
          <>
            <dt>earlier run</dt>
            <dd>an operator skipped its undo there: what the step did then is left</dd>
          </>
        )}
      </dl>
      {s.reason && <p>{s.reason}</p>}
      {(s.error ?? s.undo?.error) && (
        <div class="fault">
          <strong>
            {(s.error ?? s.undo?.error)?.class}
            {(s.error ?? s.undo?.error)?.code ? `, ${(s.error ?? s.undo?.error)?.code}` : ""}
          </strong>
          <p>{(s.error ?? s.undo?.error)?.message}</p>
          {(s.error ?? s.undo?.error)?.detail !== undefined && <Json of={(s.error ?? s.undo?.error)?.detail} label="what the service answered" />}
        </div>
      )}
      <div class="two">
        <section>
          <h3>Input{s.with !== undefined ? ", given by an operator" : ""}</h3>
          <Json of={s.with ?? s.input} label={`input of ${s.id}`} />
        </section>
        <section>
          <h3>Output</h3>
          <Json of={s.output} label={`output of ${s.id}`} />
        </section>
      </div>
    </section>
  );
}

function History({ events, step, cut, id, past }: { events: readonly HistoryEvent[]; step: string | undefined; cut: boolean; id: string; past: Past }): JSX.Element {
  const [open, set] = useState<number | null>(null);
  const shown = step ? events.filter((e) => e.step === step) : events;
  let owner: string | undefined;
  return (
    <div>
      <p class="faint">
        {shown.length} facts{step ? ` of step ${step}` : ""}
        {cut ? ", the first 10,000" : ""}.{" "}
        <a href={to(["v1", "tasks", id, "history"])} target="_blank" rel="noreferrer">
          raw
        </a>
      </p>
      <ol class="history">
        {shown.map((e) => {
          const changed = owner !== undefined && e.owner !== owner;
          owner = e.owner;
          return (
            <li key={`${e.partition}@${e.offset}`} aria-current={past.on && past.facts[past.index] === e ? "true" : undefined}>
              {changed && <p class="divider">partition {e.partition} went to {e.owner}</p>}
              <button type="button" class="fact" aria-expanded={open === e.offset} onClick={() => set(open === e.offset ? null : e.offset)}>
                <time dateTime={e.time} title={exact(e.time)}>
                  {exact(e.time).slice(11, 23)}
                </time>
                <span>{e.text}</span>
                <span class="faint">
                  {e.partition}@{e.offset}
                </span>
              </button>
              {open === e.offset && (
                <div class="raw">
                  <Json of={e} label={`fact ${e.partition}@${e.offset}`} />
                  {past.facts.includes(e) && (
                    <button type="button" class="copy" onClick={() => seek(past, past.facts.indexOf(e))}>
                      the task after this fact
                    </button>
                  )}
                  <Copy text={`kcat -C -b BROKER -t sagalog.events -p ${e.partition} -o ${e.offset} -c 1`} what="a kcat line" />
                </div>
              )}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
