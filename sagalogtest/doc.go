// Package sagalogtest runs a whole engine in the process of a test: the broker, a node with all its parts, and the HTTP API. Nothing has to
// be installed, and nothing outlives the test.
//
//	e := sagalogtest.Start(t)
//	e.Apply(definition)
//	e.Serve(agents)
//	task, err := e.Client().Run(t.Context(), client.Submission{Workflow: "order", Input: input})
//
// # Virtual time
//
// Inside a testing/synctest bubble everything connects in memory, and time passes only while every goroutine in the bubble waits. A backoff of an hour then takes
// seconds of real time, and a test does not depend on how busy the machine is:
//
//	synctest.Test(t, func(t *testing.T) {
//		e := sagalogtest.Start(t)
//		...
//	})
//
// In a bubble, agents and tests must not use real sockets, since time stands still while anything waits for one. Pass the t and its
// context that synctest.Test gives. Timers may be a quarter of a second late.
//
// # What it is, and what it is not
//
// It is the code that runs in production, on the broker that `sagalog dev` has, with its log in memory. It is not a measure of speed: one
// node owns all partitions, and shares the processors with the test.
//
// # Stability
//
// Everything that `go doc` shows of this package stays source compatible within a major version; options and methods are added. How long
// things take, and what the engine logs, may change in any release.
//
// Invariant: when the test ends, every goroutine of the engine has ended, and its files are gone.
//
// It refuses to keep anything for another test: each Start is a new engine.
package sagalogtest
