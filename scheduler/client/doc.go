// Package client submits tasks from Go: straight to Kafka, or by an engine's HTTP API. The submission is the same
// object by both, and no engine is started.
//
//	c, err := client.Kafka(ctx, "127.0.0.1:9092")
//	...
//	defer c.Close()
//	receipt, err := c.Submit(ctx, client.Submission{ID: "delivery-42", Workflow: "drone-delivery", Input: input})
//
// A receipt means that the submission is durable. What the log makes of it is decided later: the first submission of
// an ID stands, the same content again has no further effect, other content is a conflict. An engine knows the
// workflows and what came before, so by HTTP most refusals come at once, as errors of this package; by Kafka they
// become dead letters.
//
// What it keeps: a submission is sent again only under the ID that it was first sent with, so that doubts about an
// answer cost nothing. What it refuses: to send what it can see is not a submission.
//
// It imports internal/kafka, as the exception of the star: a producer needs one import and one call.
package client
