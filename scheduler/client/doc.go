// Package client submits, reads and steers tasks from Go. An Engine, which Open returns, does all of it through an engine's HTTP API. A
// Client submits and sends signals only: directly to Kafka, or through the API. The program that uses either runs no engine.
//
//	e, err := client.Open("http://127.0.0.1:8642")
//	...
//	defer e.Close()
//	task, err := e.Run(ctx, client.Submission{ID: "delivery-42", Workflow: "drone-delivery", Input: input})
//
//	c, err := client.Kafka(ctx, "127.0.0.1:9092")
//	...
//	defer c.Close()
//	receipt, err := c.Submit(ctx, client.Submission{ID: "delivery-42", Workflow: "drone-delivery", Input: input})
//
// `go run github.com/sagalog/sagalog/cmd/sagalog dev` is a whole engine in one process, to try this: its API and its Kafka broker have these two
// addresses. In tests, package sagalogtest runs one.
//
// # A definition
//
// Apply makes a definition the current one, so that tasks of the workflow can be submitted:
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
// Each agent is a program of yours (package agent), or a service or command that a file describes. scheduler.JSONSchema has every key, and
// docs/workflows.md explains them.
//
// # What a receipt means
//
// A receipt means that the submission is durable. Whether it is accepted is decided later: the first submission of an ID
// wins, a repeat with the same content has no further effect, and other content is a conflict. An engine knows the workflows
// and earlier submissions, so over HTTP most refusals come at once, as errors of this package. Over Kafka they become dead
// letters.
//
// A task that ends undone, or that is parked in front of an operator, is no error: Task.State says so.
//
// Invariant: a submission or request is sent again only under its first ID, so sending it again after a lost answer is safe.
//
// It refuses to send what the engine would certainly refuse, and it decides nothing about tasks.
//
// It imports internal/kafka, as an exception to the rule that imports form a star: a producer needs one import and one
// call.
//
// # Stability
//
// Everything that `go doc` shows of this package stays source compatible within a major version. Methods and struct fields may be added,
// so name the fields in struct literals. The kinds of errors are stable and their texts are not. A client works with engines
// of the same major version: a newer engine may send states and members that it does not know, and it passes unknown states on.
package client
