import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, type HistoryEvent, segment, type Step, type Task as Document, type Workflow } from "../api/client";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { Dag } from "../parts/dag";
import { Deadline } from "../parts/deadline";
import { Fault } from "../parts/fault";
import { Items, useItem } from "../parts/items";
import { History, sourceOf, useNamespace } from "../parts/history";
import { Json } from "../parts/json";
import { KcatLine } from "../parts/kcat";
import { clock } from "../parts/lasted";
import { Payload } from "../parts/payload";
import { readOnly, Scrubber, usePast } from "../parts/scrubber";
import { Timeline } from "../parts/timeline";
import { TaskVerbs } from "../parts/verbs";
import { effectLeft, Meaning, State, Took, When, why, word } from "../parts/words";
import { go, place, refine, to } from "../router";

const ended = (t: Document): boolean => ["processed", "undone", "terminated", "rejected"].includes(t.state);

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

/** How many children of a task are looked up, to show how they stand. */
const lookedUp = 10;

/** A child of the task, and how it stands now. */
function Child({ id, looks }: { id: string; looks: boolean }): JSX.Element {
  const child = useLive<Document>(looks ? `task ${id}` : null, (signal) => get(`v1/tasks/${segment(id)}`, { signal }), 5);
  return (
    <>
      <a href={to(["tasks", id])}>{id}</a> {child.data && <State of={child.data.state} />}
    </>
  );
}

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
  const item = useItem(id, chosen, t?.at && `${t.at.partition}@${t.at.offset}`);
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
  const step = chosen ? (states.get(chosen) ?? item) : undefined;
  const reasons = why(t);
  const children = t.steps.filter((s) => s.child);
  return (
    <section class={`screen task${past.on ? " past" : ""}`}>
      <header class="title">
        <h1>{t.id}</h1>
        <State of={t.state} paused={t.paused !== undefined} />
        <span class="faint">
          <a href={to(["workflows", t.workflow])}>{t.workflow}</a> @{t.version}
          {t.run > 1 ? `, run ${t.run}` : ""}
        </span>
        <TaskVerbs task={item ? { ...t, steps: [...t.steps, item] } : t} chosen={chosen} done={task.again} barred={past.on ? readOnly : null} />
      </header>
      <Scrubber key="time" past={past} />
      <Fault of={past.error ?? task.error} />
      {reasons.length > 0 && (
        <div class={`why ${t.state === "error" ? "bad" : ""}`} role="status">
          {reasons.map((r) => (
            <p key={r.words}>
              {r.words} {r.kind && <Meaning of={r.kind} at="waiting" />}
            </p>
          ))}
        </div>
      )}
      {t.deadline && !ended(t) && <Deadline from={t.submitted_at} by={t.deadline} />}
      <dl class="facts">
        <dt>submitted</dt>
        <dd>
          <When at={t.submitted_at} />
        </dd>
        <Source events={kept} id={t.id} />
        <dt>{ended(t) ? "took" : t.state === "error" ? "ran for" : "so far"}</dt>
        <dd>
          <Took from={t.submitted_at} to={t.ended_at ?? (t.state === "error" ? t.parked_at : undefined) ?? t.at?.time} />
        </dd>
        {t.state === "error" && t.parked_at && (
          <>
            <dt>parked since</dt>
            <dd>
              {clock(t.parked_at)} (<When at={t.parked_at} />)
            </dd>
          </>
        )}
        <dt>run</dt>
        <dd>{t.run}</dd>
        {t.failure_count > 0 && (
          <>
            <dt>failures</dt>
            <dd>{t.failure_count}</dd>
          </>
        )}
        {t.parent && (
          <>
            <dt>parent</dt>
            <dd>
              <a href={to(["tasks", t.parent.task])}>
                step {t.parent.step} of {t.parent.task}
              </a>
            </dd>
          </>
        )}
        {children.length > 0 && (
          <>
            <dt>children</dt>
            <dd>
              {children.map((s, i) => (
                <span key={s.id}>
                  {i > 0 && ", "}
                  <Child id={s.child ?? ""} looks={!t.at && i < lookedUp} />
                </span>
              ))}
            </dd>
          </>
        )}
        {t.schedule && (
          <>
            <dt>schedule</dt>
            <dd>
              <a href={to(["schedules", t.schedule])}>
                {t.schedule}
              </a>
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
        <History events={kept} steps={t.steps.map((s) => s.id)} step={chosen} cut={facts.data?.cut ?? false} id={id} past={past} />
      ) : tab === "raw" ? (
        <Payload what="the task as the API shows it">
          <Json of={t} label="the task as the API shows it" />
        </Payload>
      ) : tab === "data" ? (
        <div class="two">
          <section>
            <h2>Input</h2>
            <Payload what="the input of the task">
              <Json of={t.input} label="input of the task" />
            </Payload>
          </section>
          <section>
            <h2>Output</h2>
            <Payload what="the output of the task">
              <Json of={t.output} label="output of the task" />
            </Payload>
          </section>
        </div>
      ) : (
        <>
          <Dag steps={steps} states={states} chosen={chosen} choose={choose} changed={past.changed} />
          <Timeline events={past.on ? until(kept, t) : kept} order={t.steps.map((s) => s.id)} ended={past.on || ended(t)} chosen={chosen} choose={choose} />
          {step ? <StepPart task={id} step={step} asOf={t.at?.time} at={t.at && `${t.at.partition}@${t.at.offset}`} choose={choose} /> : <p class="faint">Choose a step to see its input, output and attempts.</p>}
        </>
      )}
    </section>
  );
}

function StepPart({ task, step: s, asOf, at, choose }: { task: string; step: Step; asOf: string | undefined; at: string | undefined; choose: (id: string) => void }): JSX.Element {
  return (
    <section class="step-part" aria-label={`step ${s.id}`}>
      <h2>
        {s.id} {s.undo?.skipped ? <span class="state wait">{effectLeft}</span> : <State of={s.state} />}
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
        {(s.child ?? s.workflow) && (
          <>
            <dt>{s.child ? "task" : "workflow"}</dt>
            <dd>{s.child ? <a href={to(["tasks", s.child])}>{s.child}</a> : s.workflow}</dd>
          </>
        )}
        {!s.fan_out && (
          <>
            <dt>attempt</dt>
            <dd>{s.attempt || "none yet"}</dd>
          </>
        )}
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
            <dt>left</dt>
            <dd>an operator skipped an undo of this step, in this run or an earlier one, or of a step of its child: what that did stays</dd>
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
          {(s.error ?? s.undo?.error)?.detail !== undefined && (
            <Payload what="what the service answered">
              <Json of={(s.error ?? s.undo?.error)?.detail} label="what the service answered" />
            </Payload>
          )}
        </div>
      )}
      {s.fan_out && <Items key={s.id} task={task} step={s.id} fanOut={s.fan_out} at={at} choose={choose} />}
      <div class="two" hidden={s.fan_out !== undefined}>
        <section>
          <h3>Input{s.with !== undefined ? ", given by an operator" : ""}</h3>
          <Payload what={`the input of ${s.id}`}>
            <Json of={s.with ?? s.input} label={`input of ${s.id}`} />
          </Payload>
        </section>
        <section>
          <h3>Output</h3>
          <Payload what={`the output of ${s.id}`}>
            <Json of={s.output} label={`output of ${s.id}`} />
          </Payload>
        </section>
      </div>
    </section>
  );
}

/** The record that made the task, and the line that reads it. */
function Source({ events, id }: { events: readonly HistoryEvent[]; id: string }): JSX.Element | null {
  const source = sourceOf(events);
  const namespace = useNamespace();
  if (!source) return null;
  return (
    <>
      <dt>source</dt>
      <dd>
        <a href={to(["tasks", id], { tab: "history" })} title="the fact that accepted it is the first of the history">
          {source.topic} {source.partition}@{source.offset}
        </a>{" "}
        {namespace !== undefined && <KcatLine topic={`${namespace}.${source.topic}`} partition={source.partition} offset={source.offset} />}
      </dd>
    </>
  );
}
