// Package client submits tasks from Go: directly to Kafka, or through an engine's HTTP API. The submission is the same
// object in both, and the program that submits runs no engine.
//
//	c, err := client.Kafka(ctx, "127.0.0.1:9092")
//	...
//	defer c.Close()
//	receipt, err := c.Submit(ctx, client.Submission{ID: "delivery-42", Workflow: "drone-delivery", Input: input})
//
// A receipt means that the submission is durable. Whether it is accepted is decided later: the first submission of an ID
// wins, a repeat with the same content has no further effect, and other content is a conflict. An engine knows the workflows
// and earlier submissions, so over HTTP most refusals come at once, as errors of this package. Over Kafka they become dead
// letters.
//
// Invariant: a submission is sent again only under its first ID, so sending it again after a lost answer is safe.
//
// It refuses to send anything that is not a submission.
//
// It imports internal/kafka, as an exception to the rule that imports form a star: a producer needs one import and one
// call.
package client
