import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { lacking } from "../access";
import { type CallError, get, segment } from "../api/client";
import { useKeys } from "../keys";
import { useLive } from "../live";
import { bytesOf, hexdump } from "../parts/bytes";
import { Fault } from "../parts/fault";
import { Copy, Json } from "../parts/json";
import { KcatLine } from "../parts/kcat";
import { placesOf } from "../parts/layout";
import { Marked } from "../parts/marked";
import { Payload } from "../parts/payload";
import { type Letter, LettersDialog, type LetterVerb, Mark, Marked as Done } from "../parts/letters";
import { below, RedriveDialog } from "../parts/redrive";
import { type Column, Rows } from "../parts/rows";
import { When } from "../parts/words";
import { go, place, refine, to } from "../router";

interface Answer {
  dead_letters: Letter[];
  next?: string;
  missing?: { partition: number; reason: string }[] | null;
}

/** Dead letters of a page, and those that the screen keeps at most. */
const size = 500;
const most = 10_000;

const columns: readonly Column<Letter>[] = [
  { name: "Reason", size: "minmax(9rem, 1fr)", cell: (d) => <a href={to(["dead-letters", d.id])}>{d.reason}</a> },
  { name: "Key", size: "minmax(8rem, 1fr)", cell: (d) => d.key ?? "-" },
  { name: "Detail", size: "minmax(10rem, 3fr)", minor: true, cell: (d) => <span title={d.detail}>{d.detail ?? ""}</span> },
  { name: "From", size: "minmax(9rem, 1fr)", minor: true, cell: (d) => <span title={d.topic}>{`${d.topic.slice(d.topic.lastIndexOf(".") + 1)} ${d.partition}@${d.offset}`}</span> },
  { name: "Mark", size: "minmax(8rem, .8fr)", minor: true, cell: (d) => <Mark of={d} /> },
  { name: "When", size: "8rem", cell: (d) => <When at={d.time} /> },
];

/** The newest dead letters, which are read again at the pace, and as many older ones as were asked for. */
function useLetters(): { rows: readonly Letter[]; head: Answer | undefined; error: CallError | undefined; more: (() => void) | undefined; all: boolean; again: () => void } {
  const live = useLive<Answer>("dead letters", (signal) => get("v1/dead-letters", { query: { limit: size }, signal }), 5);
  const [older, set] = useState<{ rows: readonly Letter[]; next?: string | undefined; read?: boolean }>({ rows: [] });
  const [fault, setFault] = useState<CallError>();
  const [busy, setBusy] = useState(false);
  const rows = [...new Map([...(live.data?.dead_letters ?? []), ...older.rows].map((d) => [d.id, d])).values()];
  const next = older.read ? older.next : live.data?.next;
  const more = () => {
    if (busy) return;
    setBusy(true);
    get<Answer>("v1/dead-letters", { query: { limit: size, cursor: next } })
      .then(
        (a) => {
          setFault(undefined);
          set((o) => ({ rows: [...o.rows, ...(o.read ? [] : (live.data?.dead_letters ?? [])), ...a.dead_letters], next: a.next, read: true }));
        },
        (e: CallError) => setFault(e),
      )
      .finally(() => setBusy(false));
  };
  const again = () => {
    set({ rows: [] }); // their marks may have changed
    live.again();
  };
  return { rows, head: live.data, error: live.error ?? fault, more: next !== undefined && rows.length < most ? more : undefined, all: next === undefined, again };
}

export function DeadLetters(): JSX.Element {
  const { rows: read, head, error, more, all, again } = useLetters();
  const [verb, setVerb] = useState<LetterVerb>();
  const reason = place.value.query.get("reason") ?? "";
  const every = place.value.query.get("marked") === "1";
  const rows = every ? read : read.filter((d) => !d.mark);
  const groups = new Map<string, number>();
  for (const d of rows) groups.set(d.reason, (groups.get(d.reason) ?? 0) + 1);
  if (reason !== "" && !groups.has(reason)) groups.set(reason, 0);
  const shown = reason === "" ? rows : rows.filter((d) => d.reason === reason);
  const open = shown.filter((d) => !d.mark);
  const no = lacking("operator");
  const tab = (name: string, of: string, n: number) => (
    <button key={of} type="button" aria-pressed={reason === of} onClick={() => refine({ reason: of })}>
      {name}{" "}
      <span class="faint">
        {n.toLocaleString()}
        {all ? "" : "+"}
      </span>
    </button>
  );
  return (
    <section class="screen">
      <header class="title">
        <h1>Dead letters</h1>
        {groups.size > 0 && (
          <nav class="tabs" aria-label="reasons">
            {tab("All", "", rows.length)}
            {[...groups].sort(([, a], [, b]) => b - a).map(([of, n]) => tab(of.replaceAll("_", " "), of, n))}
          </nav>
        )}
        <label class="choice">
          <input type="checkbox" checked={every} onChange={() => refine({ marked: every ? "" : "1" })} /> also redriven and dismissed ones
        </label>
        {open.length > 0 &&
          (["redrive", "dismiss"] as const).map((v) => (
            <button key={v} type="button" aria-disabled={no !== null || undefined} title={no ?? undefined} onClick={() => no === null && setVerb(v)}>
              {v} all {open.length.toLocaleString()} …
            </button>
          ))}
      </header>
      <Fault of={error} />
      {verb && <LettersDialog verb={verb} letters={open} close={() => setVerb(undefined)} done={again} />}
      {(head?.missing?.length ?? 0) > 0 && (
        <p class="notice" role="status">
          Partitions {head?.missing?.map((m) => m.partition).join(", ")} cannot be read now ({head?.missing?.[0]?.reason}). Their dead letters are missing from this list and its counts.
        </p>
      )}
      <Rows
        label="dead letters"
        columns={columns}
        rows={shown}
        id={(d) => d.id}
        open={(d) => go(to(["dead-letters", d.id]))}
        empty={!head ? "Reading …" : rows.length > 0 ? `None of the ${rows.length.toLocaleString()} that were read has this reason.` : read.length > 0 ? "All that were read are redriven or dismissed." : "There are none. Inputs that cannot be used appear here."}
      />
      {!all && (
        <footer class="count">
          <span>The newest {read.length.toLocaleString()} are read; the counts are of these.</span>
          {more ? (
            <button type="button" class="link" onClick={more}>
              read {size} older ones
            </button>
          ) : (
            <span>The page keeps no more: sagalog dlq list --all lists all of them.</span>
          )}
        </footer>
      )}
    </section>
  );
}

/** The task that the record would have made: its key names it. */
const taskOf = (d: Letter): string | undefined => (d.topic.endsWith(".submissions") ? d.key : undefined);

export function DeadLetterScreen({ id }: { id: string }): JSX.Element {
  const live = useLive<Letter>(`dead letter ${id}`, (signal) => get(`v1/dead-letters/${segment(id)}`, { signal }), 30);
  const [open, setOpen] = useState<LetterVerb>();
  const [plain, setPlain] = useState(false);
  const d = live.data;
  const no = lacking("submitter") ?? (d ? null : "It is not read yet.");
  const noDismissal = lacking("operator") ?? (d ? null : "It is not read yet.");
  const redrive = () => no === null && setOpen("redrive");
  const dismiss = () => noDismissal === null && setOpen("dismiss");
  const close = () => setOpen(undefined);
  useKeys({
    r: { does: "redrive the dead letter", run: redrive },
    x: { does: "dismiss the dead letter", run: dismiss },
    b: { does: "the record as it came, or laid out", run: () => setPlain((p) => !p) },
    Escape: { does: "back to the list", run: () => go(to(["dead-letters"])) },
  });
  const bytes = d?.value_base64 !== undefined ? bytesOf(d.value_base64) : undefined;
  const length = bytes?.length ?? new TextEncoder().encode(d?.value ?? "").length;
  const task = d && taskOf(d);
  return (
    <section class="screen task">
      <header class="title">
        <h1>{d?.key ?? id}</h1>
        <button type="button" aria-disabled={no !== null || undefined} title={no ?? "Send it again, as it is or edited. Key: r"} aria-label="redrive the dead letter" onClick={redrive}>
          redrive …
        </button>
        <button type="button" aria-disabled={noDismissal !== null || undefined} title={noDismissal ?? "Record that no further action is needed. Key: x"} aria-label="dismiss the dead letter" onClick={dismiss}>
          dismiss …
        </button>
      </header>
      <Fault of={live.error} />
      {open === "redrive" && d && <RedriveDialog letter={d} close={close} done={live.again} />}
      {open === "dismiss" && d && <LettersDialog verb="dismiss" letters={[d]} close={close} done={live.again} />}
      {d && (
        <>
          <div class="why bad lines">
            {d.reason}
            {d.detail ? `: ${d.detail}` : ""}
          </div>
          <Done of={d} />
          <dl class="facts">
            <dt>from</dt>
            <dd>
              {d.topic} {d.partition}@{d.offset} <KcatLine topic={d.topic} partition={d.partition} offset={d.offset} />
            </dd>
            <dt>when</dt>
            <dd>
              <When at={d.time} />
            </dd>
            <dt>key</dt>
            <dd>{d.key === undefined ? "none" : task === undefined ? d.key : <a href={to(["tasks", task])} title="the task of that ID, if there is one">{d.key}</a>}</dd>
            <dt>value</dt>
            <dd>{length.toLocaleString()} {length === 1 ? "byte" : "bytes"}{bytes ? ", not text" : ""}</dd>
          </dl>
          <div class="two">
            <section>
              <h2>
                Record{" "}
                {!bytes && (
                  <button type="button" class="copy" aria-pressed={plain} onClick={() => setPlain(!plain)}>
                    as it came
                  </button>
                )}
              </h2>
              <Payload what="the record">
                {bytes ? (
                  <figure class="json">
                    <pre tabIndex={0} aria-label="record">{hexdump(bytes)}</pre>
                    <Copy text={d.value_base64 ?? ""} what="the record in base64" />
                  </figure>
                ) : d.value === undefined || d.value === "" ? (
                  <p class="faint">It has no value.</p>
                ) : plain ? (
                  <figure class="json">
                    <pre tabIndex={0} aria-label="record">{d.value}</pre>
                    <Copy text={d.value} what="record" />
                  </figure>
                ) : (
                  <Marked of={d.value} faults={placesOf(d.detail ?? "")} below={below(d)} label="record" />
                )}
              </Payload>
            </section>
            <section>
              <h2>Headers</h2>
              <Json of={d.headers} label="headers" />
            </section>
          </div>
        </>
      )}
    </section>
  );
}
