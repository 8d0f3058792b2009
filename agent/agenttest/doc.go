// Package agenttest runs agents without Kafka, for tests of functions and bindings: the real Runner, over a source and
// a sink in memory.
//
//	h := agenttest.Start(t, reg)
//	report := h.Do("package", map[string]any{"id": "p-1"})
//	require.Equal(t, events.ResultCompleted, report.Result)
//
// An operation with a name is "bank/capture". Work, Send and Await are for all else, such as a step with a heartbeat:
//
//	w := h.Work("package", events.Do, map[string]any{"id": "p-1"})
//	w.Heartbeat = events.Duration(time.Second)
//	h.Send(w)
//	report, ok := h.Await(w) // h.Reports() has the progress before it
//
// It works inside a testing/synctest bubble too, so complete-by times and retries cost no real time.
//
// # Stability
//
// Everything that `go doc` shows of this package stays source compatible within a major version, and so do the types of package events in it: Work,
// Report, Presence and Record, with what they are made of.
package agenttest
