// Package traceparent creates and checks W3C trace contexts, so that every task and every call can be found by its trace.
package traceparent
