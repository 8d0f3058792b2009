// Package traceparent makes and checks W3C trace contexts, so that every task and every call can be found by one.
package traceparent
