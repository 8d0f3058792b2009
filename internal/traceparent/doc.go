// Package traceparent creates and checks W3C trace contexts, so that every task and every call can be found by its trace.
//
// A context that is created here is not sampled: nobody may be there who exports its spans. Whoever exports makes contexts with a
// tracer.
//
// The spans of a task and of its attempts are made by one process, and their children by others. So their IDs are derived from what all
// of them know.
package traceparent
