// What an operation throws to say how an attempt failed, and what the package throws itself.

/**
 * What may be left of a failed attempt. `in_doubt` is always safe: the call may still be carried out, so an undo waits until the attempt's time
 * is over. `done_unknown` promises that nothing is under way any more, though something may have changed. `none` promises that nothing changed
 * and nothing can any more: such a step is not undone, so promise it only if it is certain.
 */
export type Effect = "none" | "done_unknown" | "in_doubt";

export type ErrorClass = "retryable" | "permanent" | "internal" | "unavailable";

export interface FailureOptions {
  /** A short word for programs, such as `card_declined`. */
  code?: string;
  /** What the service answered, as JSON of at most 16 KiB. */
  detail?: unknown;
  /** Default: `in_doubt`. */
  effect?: Effect;
  /** The shortest time until the next attempt, in milliseconds; a day at most. */
  retryAfter?: number;
  cause?: unknown;
}

class NamedError extends Error {
  override name = this.constructor.name;
}

/** An attempt failed. Throw Retryable or Refused; any other error counts as Retryable in doubt. */
export class Failure extends NamedError {
  readonly code: string;
  readonly detail: unknown;
  readonly effect: Effect;
  readonly retryAfter: number;

  constructor(readonly errorClass: ErrorClass, message: string, options: FailureOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = options.code ?? "";
    this.detail = options.detail;
    this.effect = options.effect ?? "in_doubt";
    this.retryAfter = options.retryAfter ?? 0;
  }
}

/** Another attempt may succeed, after retryAfter if that is given. */
export class Retryable extends Failure {
  constructor(message: string, options: FailureOptions = {}) {
    super("retryable", message, options);
  }
}

/** No retry can help: the task goes to its error path at once. */
export class Refused extends Failure {
  constructor(message: string, options: FailureOptions = {}) {
    super("permanent", message, options);
  }
}

/** The reason of an attempt's signal when its time is over. What the function returns later is not reported. */
export class DeadlinePassed extends NamedError {}

/** The reason of an attempt's signal when the agent stops, or when nobody needs the outcome of the attempt any more. */
export class AttemptStopped extends NamedError {}

/** The agent cannot work. The message says why, and what to do. */
export class AgentError extends NamedError {}

/** A record was not sent. */
export class NotSent extends NamedError {
  /** The ID that a producer was given or made for it: of a submission the task's, of a signal or a cancel its own. */
  id = "";
}

/** The brokers did not acknowledge a record in time. It may be in the log all the same: send it again with the same ID. */
export class NotAcknowledged extends NotSent {}

/** The brokers refused a record, and would refuse it again: it is too large, or this client may not write it. */
export class Rejected extends NotSent {}

/** The stack of an error, without its other properties: those of a failed request may hold tokens. */
export function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
}

export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return messageOf(error.errors.at(-1));
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && !(error instanceof Failure) ? `${error.message}: ${messageOf(error.cause)}` : error.message;
}

/** The failure that an error stands for. Only a Failure can say more than that another attempt may help. */
export function failureOf(error: unknown): Failure {
  return error instanceof Failure ? error : new Failure("retryable", messageOf(error), { cause: error });
}
