import dagre from "@dagrejs/dagre";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Step, StepSummary } from "../api/client";
import type { Note } from "./heat";
import { bar, soFar } from "./items";
import { tone, toneOfStep, word, wordOfStep, wordOfUndo } from "./words";

interface Box {
  id: string;
  x: number;
  y: number;
}
interface Layout {
  boxes: Box[];
  edges: { from: string; to: string; d: string }[];
  width: number;
  height: number;
}

const width = 168;
const height = 52;

function layout(steps: readonly StepSummary[]): Layout {
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "LR", nodesep: 22, ranksep: 46, marginx: 12, marginy: 16 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const s of steps) g.setNode(s.id, { width, height });
  for (const s of steps) for (const n of s.needs ?? []) g.setEdge(n, s.id);
  dagre.layout(g);
  const graph = g.graph() as { width?: number; height?: number };
  return {
    boxes: steps.map((s) => {
      const n = g.node(s.id) as { x: number; y: number };
      return { id: s.id, x: n.x - width / 2, y: n.y - height / 2 };
    }),
    edges: g.edges().map((e) => {
      const points = (g.edge(e) as { points: { x: number; y: number }[] }).points;
      return { from: e.v, to: e.w, d: points.map((p, i) => `${i === 0 ? "M" : "L"}${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join("") };
    }),
    width: graph.width ?? width,
    height: graph.height ?? height,
  };
}

/** Whether something was done for the step that an undo takes back, or has taken back. */
const undoing = (s: Step | undefined): boolean => s?.undo !== undefined;

/**
 * The steps of a task and what they need. The undo of a step is drawn under it, and its arrows run against those of the steps. A click
 * chooses a step. The steps in changed are marked. With notes, these stand in place of states.
 */
export function Dag({ steps, states, chosen, choose, changed, notes }: { steps: readonly StepSummary[]; states: ReadonlyMap<string, Step>; chosen: string | undefined; choose: (id: string) => void; changed?: ReadonlySet<string>; notes?: ReadonlyMap<string, Note> }): JSX.Element {
  const l = useMemo(() => layout(steps), [steps]);
  const place = new Map(l.boxes.map((b) => [b.id, b]));
  const undone = [...states.values()].some(undoing);
  const needs = new Map(steps.map((s) => [s.id, s.needs ?? []]));
  return (
    <div class="dag" role="group" aria-label="steps">
      <svg viewBox={`0 0 ${l.width} ${l.height + (undone ? 34 : 0)}`} width={l.width} height={l.height + (undone ? 34 : 0)}>
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path d="M0 0L8 4L0 8z" class="tip" />
          </marker>
        </defs>
        {l.edges.map((e) => (
          <path key={`${e.from} ${e.to}`} d={e.d} class="need" marker-end="url(#tip)" />
        ))}
        {l.edges
          .filter((e) => undoing(states.get(e.from)) && undoing(states.get(e.to)))
          .map((e) => {
            const a = place.get(e.to);
            const b = place.get(e.from);
            if (!a || !b) return null;
            return <path key={`undo ${e.from} ${e.to}`} class="back" d={`M${a.x} ${a.y + height + 12}L${b.x + width} ${b.y + height + 12}`} marker-end="url(#tip)" />;
          })}
        {steps.map((s) => {
          const b = place.get(s.id);
          if (!b) return null;
          const state = states.get(s.id);
          const note = notes?.get(s.id);
          const fan = state?.fan_out;
          const what = note?.words ?? (state ? wordOfStep(state) : word("not_started"));
          const says = `${s.id}: ${what}${fan ? `, ${soFar(fan)}` : ""}${s.pivot ? ", the pivot" : ""}${state?.undo ? `, undo ${wordOfUndo(state.undo)}` : ""}${needs.get(s.id)?.length ? `, needs ${needs.get(s.id)?.join(", ")}` : ""}${changed?.has(s.id) ? ", changed here" : ""}`;
          return (
            <g
              key={s.id}
              class={`step ${note?.tone ?? (state ? toneOfStep(state) : tone("not_started"))}${s.id === chosen ? " chosen" : ""}`}
              transform={`translate(${b.x} ${b.y})`}
              role="button"
              tabindex={0}
              aria-label={says}
              aria-pressed={s.id === chosen}
              onClick={() => choose(s.id)}
              onKeyDown={(e) => {
                if (e.key !== "Enter" && e.key !== " ") return;
                e.preventDefault();
                choose(s.id);
              }}
            >
              <title>{says}</title>
              <rect width={width} height={height} rx="8" />
              {changed?.has(s.id) && (
                <text x="12" y="-4" class="word">
                  changed here
                </text>
              )}
              <text x="12" y="21" class="id">
                {clip(s.id, 19)}
              </text>
              <text x="12" y="40" class="word">
                {what}
                {fan ? `, ${fan.completed} of ${fan.count}` : ""}
                {state && state.attempt > 1 && !state.undo?.skipped ? `, attempt ${state.attempt}` : ""}
              </text>
              {fan && bar(fan, width - 24).map((p) => <rect key={p.tone} class={`part ${p.tone}`} x={12 + p.from} y={height - 8} width={p.width} height="4" />)}
              {s.pivot && (
                <text x={width - 10} y="21" text-anchor="end" class="word">
                  pivot
                </text>
              )}
              {state?.undo && (
                <g class={`undo ${state.undo.skipped ? "wait" : tone(state.undo.state)}`} transform={`translate(14 ${height + 2})`}>
                  <rect width={width - 28} height="20" rx="6" />
                  <text x="9" y="14.5" class="word">
                    ↩ {state.undo.skipped ? "skipped, effect left" : word(state.undo.state)}
                  </text>
                </g>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

const clip = (s: string, n: number): string => (s.length > n ? `${s.slice(0, n - 1)}…` : s);
