import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { lacking } from "../access";
import { call, CallError, get, newID, segment, type Task } from "../api/client";
import type { components } from "../api/schema";
import { to } from "../router";
import { Dialog } from "./dialog";
import { Fault } from "./fault";
import { layOut } from "./layout";
import type { Letter } from "./letters";
import { curl, quote, Terminal } from "./terminal";
import "./redrive.css";
import { word } from "./words";

type Receipt = components["schemas"]["Receipt"];

/** The header of a name, whose case is free. */
const header = (d: Letter, name: string): string => Object.entries(d.headers ?? {}).find(([n]) => n.toLowerCase() === name)?.[1] ?? "";

/** The pointer to the submission in a record: a CloudEvent in structured mode holds it as its data. */
export const below = (d: Letter): string => (header(d, "content-type").trim().toLowerCase().startsWith("application/cloudevents+json") ? "/data" : "");

const submits = (d: Letter): boolean => d.topic.endsWith(".submissions") && d.value !== undefined;

/** The submission in a record, for a person to edit. It gets the ID that the record's key gave it. */
function draft(d: Letter): string {
  const whole = d.value ?? "";
  const at = below(d);
  const laid = layOut(whole, new Set([at]));
  const place = "places" in laid ? laid.places.get(at) : undefined;
  if (!("places" in laid) || !place) return whole;
  const inner = layOut(laid.text.slice(place.from, place.to), new Set(["/id"]));
  if (!("places" in inner)) return whole;
  const id = d.key ?? header(d, "ce_subject");
  if (id === "" || inner.places.has("/id") || !inner.text.startsWith("{")) return inner.text;
  return `{\n  "id": ${JSON.stringify(id)}${inner.text === "{}" ? "\n}" : `,${inner.text.slice(1)}`}`;
}

/** Where in a text JSON ends, as people count. */
const line = (text: string, at: number): string => `line ${text.slice(0, at).split("\n").length}, column ${at - text.lastIndexOf("\n", at - 1)}`;

/** Marks a dead letter whose edited copy was submitted. The submission stands, whether or not that succeeds. */
async function mark(id: string, task: string, failed: (e: CallError) => void): Promise<void> {
  try {
    await call("POST", `v1/dead-letters/${segment(id)}/dismiss`, { body: { task, reason: "edited and submitted" } });
  } catch (e) {
    failed(new CallError(e instanceof CallError ? e.status : 0, { detail: `The edited submission was sent, but the dead letter could not be marked and stays open until you dismiss it: ${e instanceof Error ? e.message : String(e)}` }));
  }
}

/** Sends the record of a dead letter again as it is, or what a person makes of it as a new submission, and says what became of it. */
export function RedriveDialog({ letter: d, close, done }: { letter: Letter; close: () => void; done: () => void }): JSX.Element {
  const [edits, setEdits] = useState(lacking("operator") !== null && submits(d));
  const [text, setText] = useState(() => draft(d));
  const [fault, setFault] = useState<CallError>();
  const [outcome, say] = useState<{ words: string; task?: string }>();
  const [busy, setBusy] = useState(false);
  const key = useRef(newID()); // a second try after a lost answer is the same request
  const path = edits ? "v1/tasks" : `v1/dead-letters/${segment(d.id)}/redrive`;
  const body = edits ? { text: text.replace(/\n\s*/g, " ") } : {};
  const no = edits ? lacking("submitter") : lacking("operator");
  const change = (set: () => void) => {
    key.current = newID();
    say(undefined);
    setFault(undefined);
    set();
  };
  const send = async (event: Event) => {
    event.preventDefault();
    if (no !== null || busy) return;
    const laid = edits ? layOut(text, new Set()) : undefined;
    if (laid && "stops" in laid) return setFault(new CallError(422, { detail: `The text is not JSON from ${line(text, laid.stops)} on.` }));
    setFault(undefined);
    say(undefined);
    setBusy(true);
    try {
      const r = await call<Receipt>("POST", path, { ...body, headers: { "Idempotency-Key": key.current } });
      say({ words: `The engine has it. Whether it is accepted is not known yet. Task ${r.id}`, task: r.id });
      if (edits && lacking("operator") === null) await mark(d.id, r.id, setFault);
      done();
      const t = await get<Task>(`v1/tasks/${segment(r.id)}`, { query: { token: r.token } });
      const stays = edits && lacking("operator") !== null ? " The dead letter stays open: marking it needs the role operator." : "";
      say({ words: `Accepted. Task ${r.id} is ${word(t.state)}.${stays}`, task: r.id });
    } catch (e) {
      const error = e instanceof CallError ? e : new CallError(0, { detail: String(e) });
      if (error.status !== 503) say(undefined);
      setFault(error);
    }
    setBusy(false);
  };
  const cli = edits ? `echo ${quote(body.text ?? "")} | sagalog task submit --from - --api ${location.origin}` : `sagalog dlq redrive ${quote(d.id)} --api ${location.origin}`;
  return (
    <Dialog title="redrive the dead letter" close={close}>
      <form onSubmit={(e) => void send(e)}>
        <fieldset>
          <legend>Send it</legend>
          <label class="choice">
            <input type="radio" name="how" checked={!edits} disabled={lacking("operator") !== null} onChange={() => change(() => setEdits(false))} /> as it is: the same bytes and headers, as a new record. Fix the cause first, or it will be rejected again.
          </label>
          <label class="choice">
            <input type="radio" name="how" checked={edits} disabled={!submits(d)} onChange={() => change(() => setEdits(true))} /> edited, as a new submission: the engine gets the text below and not the record. Headers of the record are not sent.
          </label>
          {!submits(d) && <p class="faint">Only a submission that is text can be edited.</p>}
        </fieldset>
        {edits && (
          <label>
            Submission (JSON)
            <textarea
              rows={12}
              spellcheck={false}
              value={text}
              onInput={(e) => {
                const v = e.currentTarget.value;
                change(() => setText(v));
              }}
            />
          </label>
        )}
        <Fault of={fault} />
        {outcome && (
          <p role="status">
            {outcome.words} {outcome.task && <a href={to(["tasks", outcome.task])}>Open the task</a>}
          </p>
        )}
        <div class="buttons">
          <button type="submit" class="main" aria-disabled={no !== null || undefined} title={no ?? undefined} disabled={busy}>
            {busy ? "…" : edits ? "submit" : "redrive"}
          </button>
        </div>
        <Terminal cli={cli} curl={curl("POST", path, body)} />
      </form>
    </Dialog>
  );
}
