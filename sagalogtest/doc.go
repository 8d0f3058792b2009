// Package sagalogtest runs a whole engine in the process of a test: the broker, a node with all its parts, and the HTTP API. Nothing has to
// be installed, and nothing outlives the test.
//
//	e := sagalogtest.Start(t)
//	e.Apply(definition)
//	e.Serve(agents)
//	task, err := e.Client().Run(t.Context(), client.Submission{Workflow: "order", Input: json.RawMessage(`{"total": 12}`)})
//
// The definition is YAML or JSON, and agents is an agent.Registry with the agents that it names:
//
//	workflow: order
//	input: {type: object, required: [total]}       # a JSON Schema; a submission that does not fit is refused
//	steps:
//	  reserve:
//	    agent: stock                               # gets the input of the task
//	    undo: {}                                   # is undone if the task fails later
//	  pay:
//	    needs: [reserve]
//	    agent: bank
//	    with: {total: "${ input.total }", reservation: "${ steps.reserve.output.id }"}
//	    retry: {attempts: 3, backoff: 1s}          # then the task is undone
//	output: "${ steps.pay.output }"
//
// scheduler.JSONSchema has every key, and docs/workflows.md explains them.
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
// The wait before a retry is spread by up to a quarter either way: after `backoff: 1h` the next attempt starts 45 to 75 minutes later. So assert at
// least three quarters of it. The spread depends on the ID of the task, so that a test that gives IDs sees the same waits each time.
//
// In a bubble, agents and tests must not use real sockets, since time stands still while anything waits for one. Pass the t and its
// context that synctest.Test gives. Timers may be a quarter of a second late, and an agent that starts may get its first request two seconds late.
//
// An hour costs 4 to 8 s of processor time, since the engine and its agents work on through it: each beat of a node and of an agent, and each tick of the owners
// is carried out. A day costs two to three minutes, and go test ends a package after ten unless -timeout says otherwise. So make waits of days shorter in
// the definition that the test applies, give such a test few partitions, and skip it with testing.Short.
//
// # Options
//
//   - Partitions(n): into how many partitions the tasks are divided. Each costs time in a bubble. Default 2.
//   - Log(l): takes what the engine and its agents log. Default: nothing is logged.
//
// No option sets the time, because the place of the call decides it: in a bubble it is virtual, elsewhere it is real. No option names brokers
// either: each Start has a broker in this process, and Brokers says where it listens.
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
