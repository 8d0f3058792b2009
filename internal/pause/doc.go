// Package pause waits for a duration, or until a context ends, whichever comes first.
//
// It starts no goroutine and keeps no state. It does not decide how long to wait: the caller does, and knows the reason.
package pause
