// Package traceparent creates and checks W3C trace contexts, so that every task and every call can be found by its trace.
//
// A context that is created here is not sampled, since perhaps no process exports its spans. A process that exports spans creates contexts with
// a tracer.
//
// One process makes the spans of a task and of its attempts, and others make their children. So the IDs of these spans are derived from what
// all of the processes know.
package traceparent
