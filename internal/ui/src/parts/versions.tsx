import type { JSX } from "preact";
import { get, segment, type Workflow } from "../api/client";
import { useLive } from "../live";
import { place, refine } from "../router";
import { diff, excerpt } from "./diff";
import { Fault } from "./fault";
import { Copy } from "./json";
import { quote } from "./terminal";
import { When } from "./words";

/** So many of the newest versions are read, to say when each was applied. */
const most = 20;

const text = (w: Workflow): string => JSON.stringify(w.definition, null, 2);

/** The versions of a workflow, and what differs between two of them. */
export function Versions({ of: w }: { of: Workflow }): JSX.Element {
  const newest = [...w.versions].sort((a, b) => b - a).slice(0, most);
  const read = (version: number, signal: AbortSignal) => get<Workflow>(`v1/workflows/${segment(w.name)}`, { query: { version }, signal });
  const all = useLive<Workflow[]>(`workflow ${w.name} versions ${newest.join(" ")}`, (signal) => Promise.all(newest.map((v) => read(v, signal))), 60);
  const from = Number(place.value.query.get("from") ?? newest[newest.indexOf(w.version) + 1] ?? 0);
  return (
    <section class="step-part" aria-label="versions">
      <Fault of={all.error} />
      <table>
        <thead>
          <tr>
            <th scope="col">Version</th>
            <th scope="col">Applied</th>
            <th scope="col">Steps</th>
            <th scope="col">Hash</th>
            <th scope="col">Compare</th>
          </tr>
        </thead>
        <tbody>
          {newest.map((v, i) => {
            const d = all.data?.[i];
            return (
              <tr key={v}>
                <th scope="row">
                  {v}
                  {d?.current ? ", current" : ""}
                  {v === w.version ? ", shown" : ""}
                </th>
                <td>
                  <When at={d?.applied_at} />
                  {d?.applied_by ? ` by ${d.applied_by}` : ""}
                </td>
                <td>{d?.steps?.length ?? ""}</td>
                <td>
                  <code>{d?.hash.slice(0, 12)}</code>
                </td>
                <td>
                  {v !== w.version && (
                    <button type="button" aria-pressed={v === from} onClick={() => refine({ from: String(v) })}>
                      {v} with {w.version}
                    </button>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {w.versions.length > most && <p class="faint">Only the newest {most} of {w.versions.length} are shown.</p>}
      {newest.length === 1 ? <p class="faint">There is only one version.</p> : <Compared name={w.name} from={from} to={w} all={all.data ?? []} />}
    </section>
  );
}

const signs = { gone: "-", new: "+", same: " " } as const;

function Compared({ name, from, to, all }: { name: string; from: number; to: Workflow; all: readonly Workflow[] }): JSX.Element | null {
  const before = all.find((d) => d.version === from);
  if (!before || from === to.version) return null;
  const lines = diff(text(before), text(to));
  const command = `sagalog workflow diff ${quote(`${name}@${from}`)} ${quote(`${name}@${to.version}`)} --api ${location.origin}`;
  return (
    <section aria-label={`from version ${from} to version ${to.version}`}>
      <h3>
        From version {from} to version {to.version}
      </h3>
      {lines ? (
        <pre class="diff" tabIndex={0} aria-label="differences">
          {excerpt(lines).map((l, i) =>
            typeof l === "number" ? (
              <span key={i} class="faint">{`… ${l} ${l === 1 ? "line is" : "lines are"} the same\n`}</span>
            ) : l.kind === "same" ? (
              <span key={i}>{`  ${l.text}\n`}</span>
            ) : l.kind === "gone" ? (
              <del key={i} class="bad">{`${signs.gone} ${l.text}\n`}</del>
            ) : (
              <ins key={i} class="good">{`${signs.new} ${l.text}\n`}</ins>
            ),
          )}
        </pre>
      ) : (
        <p>They are too long to be compared here.</p>
      )}
      <p class="json">
        <code>{command}</code> <Copy text={command} what="the command" />
      </p>
    </section>
  );
}
