// Agents and producers of Sagalog in TypeScript: see README.md beside this package.

export { Agent, type AgentOptions } from "./agent.js";
export type { Attempt, UndoAttempt } from "./attempt.js";
export { AgentError, AttemptStopped, DeadlinePassed, type Effect, Failure, type FailureOptions, NotAcknowledged, NotSent, Refused, Rejected, Retryable } from "./errors.js";
export type { Connection } from "./kafka.js";
export { Producer, type ProducerOptions, type Receipt, type Submission } from "./producer.js";
