// Package api is the HTTP API of INTERFACE.md: what producers, operators, analysts and dashboards ask of the engine,
// described by an OpenAPI 3.1 document at /openapi.yaml.
//
// It owns no state and decides nothing about tasks. A submission or request is answered 202 only once the log holds
// it; what the log then makes of it, the owner decides, and a token finds out: a read with that token is not older
// than the fold of that input. Checks before the log (workflow, schema, conflict) spare people a dead letter and are
// no promise: the log decides.
//
// What is about one task is answered where its partition is: from this node's store, or by the node that owns it, to
// which the request is passed on (passage.go, forward.go). Lists ask every node for its partitions and merge (gather.go).
// Submissions go to the log from anywhere, so that none fails because a node is down. While a partition is taken over,
//
//   - reads of it are 503 with Retry-After and the code taking-over, and so is a list that would lack its tasks;
//   - what waits anyway is bridged: ?wait=, token=, and a stream that is being opened go on at the next owner;
//   - an open stream ends cleanly, and Last-Event-ID takes it up again;
//   - a cancel or retry looks for the next owner for a few seconds, and then goes to the log unseen;
//   - GET /v1/partitions shows the partition without owner and epoch.
//
// Where this node's own partition has stopped, reads of it and lists are 503 with the code stopped and the reason.
//
// What it keeps:
//   - A body is read once, up to its limit, within its time. A bulk body may be endless: what is held of it is
//     bounded by bulkBytes.
//   - Every answer that is not a success is a problem document (RFC 9457), also those of the mux and of a panic.
//   - No answer repeats what a client sent, so that no secret of an input ends in a log of answers.
//
// What it refuses: state-changing requests of other web sites, and a Host that is not ours while it listens on a
// loopback address (DNS rebinding).
//
// The engine behind it is a set of small interfaces in engine.go, which cmd wires.
package api
