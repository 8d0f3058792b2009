// Package traces makes OpenTelemetry spans of what happens to tasks, and sends them to whoever collects them (OTLP). The usual variables
// configure it. Without them there is no Tracer, and the process does nothing for traces but to pass the trace contexts on.
//
//	submission      the call of the API that brought the task; its context is what the task carries
//	├── decision    from the submission to the fact that accepted it
//	└── task        from that fact to the end; one for each run
//	    └── attempt of a step or of its undo, from the fact that began it to the fact that ended it
//	        └── call of the service, made by the agent; the service gets its context
//
// Submissions and calls are spans that begin and end here. All others are made after the fact, from durable facts, with their
// times: a decision that the log does not hold has no span. The processes that make them have nothing in common but the task, so the IDs
// follow from the task's trace context (package traceparent).
//
// A task without a trace context, such as one of a schedule, has no spans.
//
// # Invariants
//
//   - Nothing waits for a collector. At most queueSpans spans wait for it; others are dropped and counted. Close takes no longer than
//     flushWithin.
//   - No attribute holds an input, an output, a progress or the message of an error: they may be secret.
//
// # What it refuses to do
//
// It refuses variables that it cannot follow (Check), instead of exporting nothing in silence.
package traces
