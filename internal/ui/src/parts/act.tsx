import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { lacking, type Role } from "../access";
import { call, CallError, newID } from "../api/client";
import { Dialog } from "./dialog";
import { Fault } from "./fault";
import { curl, quote, Terminal } from "./terminal";

interface Field {
  name: string;
  says: string;
  /** What the field holds at first. */
  was?: string;
  number?: boolean;
  /** It is not a member of the body: the path and the command contain it. */
  names?: boolean;
  must?: boolean;
}

/** An action of a few fields: a call, and the command that does the same. */
export interface Act {
  verb: string;
  /** The object of the verb, such as: agent drone. */
  to: string;
  does: string;
  path: (named: string) => string;
  cli: (named: string) => string;
  fields?: readonly Field[];
  /** The call takes a reason. */
  reason?: boolean;
  method?: "PUT";
  /** The call can wait for the outcome. */
  waits?: boolean;
  role?: Role;
  /** Why it cannot be done now. */
  not?: string | undefined;
  /** The text of the button, if it is not the verb. */
  text?: string;
}

const roleOf = (a: Act): Role => a.role ?? "operator";

/** Actions of a screen: a button for each, and the dialog of the one that was chosen. */
export function useAct(done: () => void): { button: (a: Act) => JSX.Element; dialog: JSX.Element | null } {
  const [open, set] = useState<Act>();
  const button = (a: Act): JSX.Element => {
    const no = lacking(roleOf(a)) ?? a.not;
    return (
      <button type="button" aria-disabled={no !== undefined ? true : undefined} title={no ?? a.does} onClick={() => no === undefined && set(a)} aria-label={`${a.verb} ${a.to}`}>
        {a.text ?? a.verb}
      </button>
    );
  };
  return { button, dialog: open ? <ActDialog act={open} done={done} close={() => set(undefined)} /> : null };
}

/** Asks for what an action needs, shows the lines that do the same, and says what became of it. */
function ActDialog({ act, done, close }: { act: Act; done: () => void; close: () => void }): JSX.Element {
  const all: readonly Field[] = [...(act.fields ?? []), ...(act.reason ? [{ name: "reason", says: "Reason, for the record" }] : [])];
  const [values, set] = useState<Record<string, string>>(() => Object.fromEntries(all.map((f) => [f.name, f.was ?? ""])));
  const [fault, setFault] = useState<CallError>();
  const [said, say] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useRef(newID()); // after a lost answer, a second try is the same request
  const valueOf = (f: Field): string => values[f.name]?.trim() ?? "";
  const given = all.filter((f) => valueOf(f) !== "");
  const named = valueOf(all.find((f) => f.names) ?? { name: "", says: "" });
  const body = Object.fromEntries(given.filter((f) => !f.names).map((f) => [f.name, f.number ? Number(valueOf(f)) : valueOf(f)]));
  const missing = all.find((f) => f.must && valueOf(f) === "");
  const o = { body, ...(act.waits ? { query: { wait: "5s" } } : {}) };
  const method = act.method ?? "POST";
  const send = async (event: Event) => {
    event.preventDefault();
    if (missing) return setFault(new CallError(422, { detail: `Fill in this field: ${missing.says}.` }));
    setFault(undefined);
    setBusy(true);
    try {
      const r = await call<{ result?: string; fired?: readonly unknown[]; already?: readonly unknown[] } | null>(method, act.path(named), { ...o, headers: method === "POST" ? { "Idempotency-Key": key.current } : {} });
      key.current = newID();
      say(`${act.verb} ${act.to}: ${r?.result ?? "done"}${r?.fired ? `, ${r.fired.length} started, ${r.already?.length ?? 0} had started before` : ""}`);
      done();
    } catch (e) {
      say("");
      setFault(e instanceof CallError ? e : new CallError(0, { detail: String(e) }));
    }
    setBusy(false);
  };
  const cli = ["sagalog", act.cli(named), ...given.filter((f) => !f.names).map((f) => `--${f.name} ${quote(valueOf(f))}`), "--api", location.origin].join(" ");
  return (
    <Dialog title={`${act.verb} ${act.to}`} close={close}>
      <form onSubmit={(e) => void send(e)}>
        <p>{act.does}</p>
        {all.map((f) => (
          <label key={f.name}>
            {f.says}
            <input
              value={values[f.name] ?? ""}
              inputMode={f.number ? "numeric" : "text"}
              onInput={(e) => {
                key.current = newID();
                const v = e.currentTarget.value;
                set((s) => ({ ...s, [f.name]: v }));
              }}
            />
          </label>
        ))}
        <Fault of={fault} />
        {said && <p role="status">{said}</p>}
        <div class="buttons">
          <button type="submit" class="main" disabled={busy}>
            {busy ? "…" : said || fault ? `${act.verb} again` : act.verb}
          </button>
        </div>
        <Terminal cli={cli} curl={curl(method, act.path(named), o)} />
      </form>
    </Dialog>
  );
}
