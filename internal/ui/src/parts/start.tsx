import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { lacking } from "../access";
import { call, CallError, type Info, newID, segment, type Workflow } from "../api/client";
import type { components } from "../api/schema";
import { to } from "../router";
import { Fault } from "./fault";
import { Fields, toFirst, type Wrong } from "./fields";
import { Preview } from "./preview";
import { type Field, fieldsOf, firstValues, inputOf, parse, placeOf, type Values, valuesOf } from "./schema";
import { curl, quote } from "./terminal";
import { Ways } from "./ways";

type Places = components["schemas"]["ProblemPlace"][];
type Foreseen = components["schemas"]["PreviewDocument"];

const extra = (name: string, title: string, hint: string): Field => ({ pointer: `/${name}`, name, title, hint, kind: "text", required: false, choices: [], fields: [], was: "" });
/** What else a submission may say. */
const others: readonly Field[] = [
  extra("id", "ID of the task", "Empty: a new one"),
  extra("labels", "Labels", "key:value, with spaces between them"),
  extra("deadline", "Deadline", "A duration such as 10m, or an instant; empty: that of the workflow"),
  { ...extra("priority", "Priority", "Higher runs first; empty: that of the workflow"), kind: "integer" },
];

/** The input as one JSON text, where a form does not do. */
const whole: readonly Field[] = [{ pointer: "/input", name: "input", title: "Input", hint: "", kind: "json", required: false, choices: [], fields: [], was: "" }];
const within = (pointer: string): string => `/input${pointer}`;
const inInput = (fields: readonly Field[]): readonly Field[] => fields.map((f) => ({ ...f, pointer: within(f.pointer), fields: inInput(f.fields) }));

interface Made {
  body: Record<string, unknown>;
  wrong: Wrong;
}

/** The submission that the fields make. Their pointers are those of the submission, so a fault of the engine finds its field. */
function submissionOf(w: Workflow, fields: readonly Field[], values: Values): Made {
  const asJSON = fields === whole;
  const input = inputOf(fields, values);
  const more = inputOf(others, values);
  const body: Record<string, unknown> = { workflow: w.name, ...more.input };
  if (!w.current) body["version"] = w.version;
  if (!asJSON) body["input"] = input.input;
  else if ("input" in input.input) body["input"] = input.input["input"];
  const wrong: Record<string, string> = { ...input.wrong, ...more.wrong };
  if (typeof body["labels"] === "string") {
    const pairs = body["labels"].trim().split(/\s+/).map((l) => [l.slice(0, l.indexOf(":")), l.slice(l.indexOf(":") + 1)] as const);
    if (pairs.some(([k]) => k === "")) wrong["/labels"] = "must be key:value";
    body["labels"] = Object.fromEntries(pairs);
  }
  return { body, wrong };
}

/** The lines that submit the same. Without an ID, the lines for curl and kcat name the one that the page would give. */
function waysOf(body: Record<string, unknown>, id: string, namespace: string): Record<string, string> {
  const flags = [`-w ${quote(String(body["workflow"]))}`];
  for (const name of ["version", "id", "priority", "deadline"]) if (name in body) flags.push(`--${name} ${quote(String(body[name]))}`);
  for (const [k, v] of Object.entries((body["labels"] ?? {}) as Record<string, string>)) flags.push(`--label ${quote(`${k}:${v}`)}`);
  if ("input" in body) flags.push(`--input ${quote(JSON.stringify(body["input"]))}`);
  const text = JSON.stringify({ ...body, id });
  return {
    sagalog: `sagalog task submit ${flags.join(" ")} --api ${location.origin}`,
    curl: curl("PUT", `v1/tasks/${segment(id)}`, { body: { ...body, id: undefined } }),
    kcat: `printf '%s' ${quote(text)} | kcat -P -b BROKER -t ${namespace}.submissions -k ${quote(id)}`,
  };
}

/** Starts a task of a workflow: a form from the schema of its input, what the task would do first, and the same from a terminal. */
export function Start({ of: w, info }: { of: Workflow; info: Info | undefined }): JSX.Element {
  const form = useMemo(() => {
    const made = fieldsOf((w.definition as { input?: unknown } | undefined)?.input);
    return made && inInput(made);
  }, [w.hash]);
  const [fields, setFields] = useState(form ?? whole);
  const [values, setValues] = useState<Values>(() => firstValues(form ?? whole));
  const [wrong, setWrong] = useState<Wrong>({});
  const [fault, setFault] = useState<CallError>();
  const [foreseen, foresee] = useState<Foreseen>();
  const [started, setStarted] = useState("");
  const [busy, setBusy] = useState(false);
  const [more, setMore] = useState(false);
  const fresh = useRef(newID()); // the same for as long as nothing changes: a second try after a lost answer is the same submission
  const made = submissionOf(w, fields, values);
  const id = typeof made.body["id"] === "string" ? made.body["id"] : fresh.current;
  const no = lacking("submitter");
  const all = [...fields, ...others];

  const forget = () => {
    setWrong({});
    setFault(undefined);
    foresee(undefined);
    setStarted("");
  };
  const change = (pointer: string, text: string) => {
    fresh.current = newID();
    forget();
    setValues((v) => ({ ...v, [pointer]: text }));
  };
  const showWrong = (list: Wrong) => {
    setWrong(list);
    if (others.some((f) => list[f.pointer] !== undefined)) setMore(true);
    requestAnimationFrame(() => toFirst(all, list));
  };
  /** Shows each fault at its field, and those that are about no field above all of them. */
  const showFaults = (places: Places, e: CallError | undefined) => {
    const at: Record<string, string> = {};
    const rest: Places = [];
    for (const f of places) {
      const p = placeOf(all, f.pointer ?? "");
      if (p === "") rest.push(f);
      else at[p] = [at[p], p === f.pointer ? f.message : `${f.pointer?.slice(p.length)}: ${f.message}`].filter(Boolean).join("; ");
    }
    setFault(rest.length > 0 || (e && places.length === 0) ? new CallError(e?.status ?? 422, { detail: e?.message ?? "The input does not fit.", errors: rest }) : undefined);
    showWrong(at);
  };
  const ask = async <T,>(what: () => Promise<T>): Promise<T | undefined> => {
    if (no !== null) return undefined;
    forget();
    if (Object.keys(made.wrong).length > 0) return void showWrong(made.wrong);
    setBusy(true);
    try {
      return await what();
    } catch (e) {
      const error = e instanceof CallError ? e : new CallError(0, { detail: String(e) });
      showFaults(error.body.errors ?? [], error);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  const preview = async () => {
    const given = typeof made.body["id"] === "string" ? { id: made.body["id"] } : {};
    const d = await ask(() => call<Foreseen>("POST", `v1/workflows/${segment(w.name)}/preview`, { body: { version: w.version, input: made.body["input"], ...given } }));
    if (d?.faults?.length) showFaults(d.faults, undefined);
    else foresee(d);
  };
  const start = async () => {
    const r = await ask(() => call<{ id: string }>("PUT", `v1/tasks/${segment(id)}`, { body: made.body }));
    if (!r) return;
    setStarted(r.id);
    fresh.current = newID(); // another start is another task
  };
  const asJSON = () => {
    setValues((v) => ({ ...v, "/input": JSON.stringify(made.body["input"] ?? null, null, 2) }));
    setFields(whole);
    forget();
  };
  const asForm = () => {
    const text = values["/input"]?.trim() ?? "";
    const v = text === "" ? { value: {} } : parse(text);
    const back = "wrong" in v ? v : valuesOf(form ?? whole, v.value);
    if ("wrong" in back) return showWrong({ "/input": back.wrong });
    setValues((kept) => ({ ...Object.fromEntries(Object.entries(kept).filter(([p]) => !p.startsWith("/input"))), ...back.values }));
    setFields(form ?? whole);
    forget();
  };
  return (
    <section class="card start" aria-label="start a task">
      {no !== null && <p class="notice">{no}</p>}
      <form
        noValidate
        onSubmit={(e) => {
          e.preventDefault();
          void start();
        }}
      >
        {form && (
          <div class="tabs" role="group" aria-label="how to write the input">
            <button type="button" aria-pressed={fields !== whole} onClick={() => fields === whole && asForm()}>
              form
            </button>
            <button type="button" aria-pressed={fields === whole} onClick={() => fields !== whole && asJSON()}>
              JSON
            </button>
          </div>
        )}
        <Fault of={fault} />
        <Fields fields={fields} values={values} wrong={wrong} change={change} />
        <details open={more} onToggle={(e) => setMore(e.currentTarget.open)}>
          <summary>ID, labels, deadline, priority</summary>
          <Fields fields={others} values={values} wrong={wrong} change={change} />
        </details>
        <div class="buttons">
          <button type="button" aria-disabled={no !== null || undefined} title={no ?? "Shows what the task would do first. Nothing is started."} disabled={busy} onClick={() => void preview()}>
            preview
          </button>
          <button type="submit" class="main" aria-disabled={no !== null || undefined} title={no ?? undefined} disabled={busy}>
            {busy ? "…" : "start"}
          </button>
        </div>
        <p role="status">
          {started !== "" && (
            <>
              Submitted: <a href={to(["tasks", started])}>{started}</a>
            </>
          )}
        </p>
      </form>
      {foreseen && <Preview of={foreseen} />}
      <Ways of={waysOf(made.body, id, info?.namespace ?? "NAMESPACE")} />
    </section>
  );
}
