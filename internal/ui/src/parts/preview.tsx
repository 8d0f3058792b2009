import type { JSX } from "preact";
import type { components } from "../api/schema";

type Foreseen = components["schemas"]["PreviewDocument"];
type Step = NonNullable<Foreseen["steps"]>[number];

/** What becomes of a step before any other step is over. */
function first(s: Step): string {
  if (s.error) return `fails: ${s.error}`;
  return s.starts ? "starts at once" : s.skipped ? "is skipped" : `waits for ${(s.needs ?? []).join(", ") || "its turn"}`;
}

/** What a task would do first. */
export function Preview({ of: d }: { of: Foreseen }): JSX.Element {
  const labels = Object.entries(d.labels ?? {});
  return (
    <section aria-label="preview">
      <h3>What the task would do first</h3>
      {(labels.length > 0 || d.priority || d.fair_by) && (
        <p>
          {[labels.length > 0 ? `Labels: ${labels.map(([k, v]) => `${k}:${v}`).join(" ")}.` : "", d.priority ? `Priority: ${d.priority}.` : "", d.fair_by ? `Takes turns by the key ${d.fair_by}.` : ""].filter(Boolean).join(" ")}
        </p>
      )}
      <div class="wide" role="region" aria-label="steps of the preview" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col">At first it</th>
              <th scope="col">Agent</th>
              <th scope="col">Condition</th>
              <th scope="col">Input</th>
            </tr>
          </thead>
          <tbody>
            {(d.steps ?? []).map((s) => (
              <tr key={s.id}>
                <th scope="row">{s.id}</th>
                <td class={s.error ? "bad" : ""}>{first(s)}</td>
                <td>{[s.agent, s.operation].filter(Boolean).join(", ")}</td>
                <td>{s.if ? `${s.condition === undefined ? "not known yet" : s.condition ? "holds" : "does not hold"}: ${s.if}` : ""}</td>
                <td>{s.with === undefined ? "" : <code>{JSON.stringify(s.with)}</code>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
