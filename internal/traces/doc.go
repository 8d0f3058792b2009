// Package traces makes OpenTelemetry spans of what happens to tasks, and exports them to a collector (OTLP). The usual variables configure it.
// Without them there is no Tracer, and the process only passes trace contexts on.
//
//	submission      the call of the API that brought the task; its context is what the task carries
//	├── decision    from the submission to the fact that accepted it
//	└── task        from that fact to the end; one for each run
//	    └── attempt of a step or of its undo, from the fact that began it to the fact that ended it
//	        └── call of the service, made by the agent; the service gets its context
//
// The spans of submissions and calls are measured while these run. All others are made afterwards, from durable facts and with the times of
// these: a decision that the log does not hold has no span. The processes that make them share nothing but the task, so the span IDs are derived
// from the task's trace context (package traceparent).
//
// A task without a trace context, such as one of a schedule, has no spans.
//
// # Invariants
//
//   - Nothing waits for a collector. At most queueSpans spans are queued; further ones are dropped and counted. Close takes at most
//     flushWithin.
//   - No attribute contains an input, an output, a progress report or the message of an error, since these may be secret.
//
// # What it refuses to do
//
// It refuses variables that it cannot use (Check), instead of silently exporting nothing.
package traces
