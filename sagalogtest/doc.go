// Package sagalogtest runs a whole engine in the process of a test: the broker, a node with all its parts, and the HTTP API. Nothing has to
// be installed, and nothing outlives the test.
//
//	func TestAnOrderIsPaid(t *testing.T) {
//		e := sagalogtest.Start(t)
//		e.Apply(definition)
//		e.Serve(agents)
//		task, err := e.Client().Run(t.Context(), client.Submission{Workflow: "order", Input: input})
//		...
//	}
//
// # Virtual time
//
// Inside a testing/synctest bubble everything connects in memory, and time passes only while all of it waits. A backoff of an hour or a
// sleep of a day then takes seconds of real time, and a test does not depend on how busy the machine is:
//
//	synctest.Test(t, func(t *testing.T) {
//		e := sagalogtest.Start(t)
//		...
//	})
//
// In a bubble, agents and tests must not use real sockets, since time stands still while anything waits for one.
//
// # What it is, and what it is not
//
// It is the code that runs in production, on the broker that `sagalog dev` has, with its log in memory. It is not a measure of speed: one
// node owns all partitions, and shares the processors with the test.
//
// # Stability
//
// What this page shows stays as it is within a major version; options are added. What the engine writes to its log is not part of that.
//
// Invariant: when the test ends, every goroutine of the engine has ended, and its files are gone.
//
// It refuses to keep anything for another test: each Start is a new engine.
package sagalogtest
