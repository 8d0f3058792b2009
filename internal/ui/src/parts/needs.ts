import { get, segment, type Workflow } from "../api/client";
import { type Live, useLive } from "../live";

/** A step that calls an agent, in the current version of its workflow. */
export interface Need {
  workflow: string;
  step: string;
  agent: string;
  /** The agent does the step; otherwise only its undo. */
  does: boolean;
}

export interface Needs {
  all: readonly Need[];
  /** How many workflows were not looked at. */
  left: number;
}

/** The most workflows that are looked at, and that are read at a time. */
const most = 200;
const together = 10;

/** What is known of definitions by their hash. They never change. */
const known = new Map<string, readonly Need[]>();

/** Reads which workflows need which agents. */
export const useNeeds = (): Live<Needs> =>
  useLive<Needs>(
    "workflows and what they need",
    async (signal) => {
      const { workflows } = await get<{ workflows: Workflow[] }>("v1/workflows", { signal });
      const looked = workflows.slice(0, most);
      const unread = looked.filter((w) => !known.has(w.hash));
      for (let i = 0; i < unread.length; i += together) await Promise.all(unread.slice(i, i + together).map((w) => read(w, signal)));
      return { all: looked.flatMap((w) => known.get(w.hash) ?? []), left: workflows.length - looked.length };
    },
    60,
  );

async function read(of: Workflow, signal: AbortSignal): Promise<void> {
  const w = await get<Workflow>(`v1/workflows/${segment(of.name)}`, { query: { version: of.version }, signal });
  const steps = (w.definition as { steps?: Record<string, unknown> } | undefined)?.steps ?? {};
  const needs = (w.steps ?? []).flatMap((s) => {
    const agents = new Set<string>(s.agent ? [s.agent] : []);
    collect(steps[s.id], agents);
    return [...agents].map((agent) => ({ workflow: w.name, step: s.id, agent, does: agent === s.agent }));
  });
  known.set(w.hash, needs);
}

/** Members of a step that hold data, where agent is a name like any other. */
const data = new Set(["with", "input", "output", "schema"]);

/** Collects the agents that a step names, for its undo too. */
function collect(value: unknown, into: Set<string>): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, v] of Object.entries(value)) {
    if (name === "agent" && typeof v === "string") into.add(v);
    else if (!data.has(name)) collect(v, into);
  }
}

/** The names of the workflows that need an agent. */
export const workflowsOf = (needs: Needs | undefined, agent: string): readonly string[] => [...new Set((needs?.all ?? []).filter((n) => n.agent === agent).map((n) => n.workflow))];
