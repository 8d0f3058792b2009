import { token, wanted } from "../access";
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Task = Schemas["TaskDocument"];
export type Step = Schemas["StepDocument"];
export type Undo = Schemas["UndoDocument"];
export type Waiting = Schemas["WaitingDocument"];
export type HistoryEvent = Schemas["HistoryEvent"];
export type Workflow = Schemas["WorkflowDocument"];
export type StepSummary = Schemas["StepSummary"];
export type Agent = Schemas["AgentDocument"];
export type Partition = Schemas["PartitionDocument"];
export type Whoami = Schemas["WhoamiDocument"];
export type Info = Schemas["InfoAnswerBody"];
export type ListedTask = Schemas["ListedTask"] & Pick<Task, "id" | "state" | "workflow">;
export type ProblemBody = Partial<Schemas["Problem"]>;

/** A refusal or a failure of a call, with the words of the server where it gave any. */
export class CallError extends Error {
  constructor(
    readonly status: number,
    readonly body: ProblemBody,
  ) {
    super(body.detail ?? body.title ?? (status === 0 ? "The engine cannot be reached." : `The engine answered ${status}.`));
  }
}

export interface Options {
  query?: Record<string, string | number | boolean | readonly string[] | undefined>;
  body?: unknown;
  /** A body that is JSON text already, and is sent as it is. */
  text?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** The address of a call. Paths have no slash at the front, so that the page works below any prefix. */
export function address(path: string, query: Options["query"] = {}): string {
  const u = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? (value as readonly string[]) : [value]) u.searchParams.append(name, String(one));
  }
  return u.toString();
}

/** Percent-encodes an ID for a path. */
export const segment = encodeURIComponent;

export async function call<T>(method: string, path: string, o: Options = {}): Promise<T> {
  const sent = token.value;
  const init: RequestInit = { method, headers: { Accept: "application/json", ...(sent === "" ? {} : { Authorization: `Bearer ${sent}` }), ...o.headers } };
  if (o.signal) init.signal = o.signal;
  const body = o.text ?? (o.body === undefined ? undefined : JSON.stringify(o.body));
  if (body !== undefined) {
    init.body = body;
    init.headers = { ...init.headers, "Content-Type": "application/json" };
  }
  let response: Response;
  try {
    response = await fetch(address(path, o.query), init);
  } catch (cause) {
    if (o.signal?.aborted) throw cause;
    throw new CallError(0, {});
  }
  const text = await response.text();
  let answer: unknown;
  try {
    answer = text === "" ? null : JSON.parse(text);
  } catch {
    throw new CallError(response.ok ? 502 : response.status, { detail: "The answer is not JSON. Is a proxy between this page and the engine?" });
  }
  if (!response.ok) {
    const error = new CallError(response.status, (answer ?? {}) as ProblemBody);
    const nobody = response.status === 401 || (response.status === 403 && path === "v1/whoami"); // 403: an identity provider knows the person, who has no role here
    if (nobody && sent === token.value) wanted.value = error.message; // not for a token that was replaced meanwhile
    throw error;
  }
  return answer as T;
}

export const get = <T>(path: string, o?: Options): Promise<T> => call<T>("GET", path, o);

/** A new ID. Unlike randomUUID, it is there on pages without TLS, too. */
export const newID = (): string => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
