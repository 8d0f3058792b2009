import type { JSX } from "preact";
import type { Field, Values } from "./schema";

/** What is wrong with fields, by pointer. */
export type Wrong = Readonly<Record<string, string>>;

interface Props {
  fields: readonly Field[];
  values: Values;
  wrong: Wrong;
  change: (pointer: string, text: string) => void;
}

const idOf = (pointer: string): string => `field-${pointer}`;

/** Moves to the first field that something is wrong with, in the order of the form. */
export function toFirst(fields: readonly Field[], wrong: Wrong): void {
  const order = fields.flatMap((f) => (f.kind === "group" ? f.fields : [f]));
  const first = order.find((f) => wrong[f.pointer] !== undefined);
  if (first) document.getElementById(idOf(first.pointer))?.focus();
}

/** Fields that were made from a schema. What is required says so, and what is wrong stands below its field. */
export function Fields(p: Props): JSX.Element {
  return (
    <>
      {p.fields.map((f) =>
        f.kind === "group" ? (
          <fieldset key={f.pointer} aria-describedby={p.wrong[f.pointer] ? `${idOf(f.pointer)}-wrong` : undefined}>
            <legend>
              <Title of={f} />
            </legend>
            <Says of={f} wrong={p.wrong[f.pointer]} />
            <Fields {...p} fields={f.fields} />
          </fieldset>
        ) : (
          <div key={f.pointer} class="field">
            <label for={idOf(f.pointer)}>
              <Title of={f} />
            </label>
            <Input of={f} text={p.values[f.pointer] ?? ""} wrong={p.wrong[f.pointer]} change={(text) => p.change(f.pointer, text)} />
            <Says of={f} wrong={p.wrong[f.pointer]} />
          </div>
        ),
      )}
    </>
  );
}

function Title({ of: f }: { of: Field }): JSX.Element {
  return (
    <>
      {f.title}
      {f.title !== f.name && f.pointer.startsWith("/input/") && <code> {f.name}</code>}
      {f.required && <span class="faint"> (required)</span>}
    </>
  );
}

const hints: Partial<Record<Field["kind"], string>> = { json: "Any JSON", instant: "In the time zone of this browser", integer: "A whole number" };
const hintOf = (f: Field): string => [f.hint, hints[f.kind] ?? ""].filter(Boolean).join(". ");

function Says({ of: f, wrong }: { of: Field; wrong: string | undefined }): JSX.Element {
  const hint = hintOf(f);
  return (
    <>
      {hint !== "" && (
        <span id={`${idOf(f.pointer)}-hint`} class="faint">
          {hint}
        </span>
      )}
      {wrong !== undefined && (
        <span id={`${idOf(f.pointer)}-wrong`} class="bad">
          {f.title}: {wrong}
        </span>
      )}
    </>
  );
}

function Input({ of: f, text, wrong, change }: { of: Field; text: string; wrong: string | undefined; change: (text: string) => void }): JSX.Element {
  const id = idOf(f.pointer);
  const about = [hintOf(f) !== "" ? `${id}-hint` : "", wrong !== undefined ? `${id}-wrong` : ""].filter(Boolean).join(" ");
  const same = { id, "aria-required": f.required, "aria-invalid": wrong !== undefined, "aria-describedby": about || undefined };
  const choices = f.kind === "boolean" ? ["true", "false"] : f.kind === "choice" ? f.choices : undefined;
  if (choices) {
    return (
      <select {...same} value={text} onChange={(e) => change(e.currentTarget.value)}>
        <option value="">{f.required ? "choose" : "leave out"}</option>
        {choices.map((c) => (
          <option key={c} value={c}>
            {c.startsWith('"') ? (JSON.parse(c) as string) : c}
          </option>
        ))}
      </select>
    );
  }
  if (f.kind === "json") return <textarea {...same} rows={3} spellcheck={false} value={text} onInput={(e) => change(e.currentTarget.value)} />;
  const typed = { ...same, autocomplete: "off", value: text, onInput: (e: { currentTarget: { value: string } }) => change(e.currentTarget.value) };
  if (f.kind === "date") return <input {...typed} type="date" />;
  if (f.kind === "instant") return <input {...typed} type="datetime-local" step={1} />;
  return <input {...typed} inputMode={f.kind === "number" || f.kind === "integer" ? "decimal" : "text"} />;
}
