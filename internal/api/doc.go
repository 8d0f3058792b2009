// Package api is the HTTP API of the engine, for producers, operators, analysts and dashboards. The OpenAPI 3.1 document at
// /openapi.yaml describes it.
//
// It owns no state and decides nothing about tasks. A submission or request is answered 202 only once it is durable in its
// topic. The owner of its partition then decides about it. The answer holds a token: a read with the token waits until the
// input has been judged. The checks that come first (workflow, schema, conflict) save people a dead letter but promise
// nothing: the owner decides.
//
// # Parts
//
//	Server        listens, routes, guards, stops
//	submissions   one task, or one a line (bulk); deadLetters sends rejected ones again
//	requests      cancel and retry
//	reports       what services report about attempts that they accepted
//	tasks, lists  read one task, wait for it, list many
//	histories     the facts of a task, as pages or as a stream
//	past          a task as it was, folded from its facts
//	liveStreams   what changes in the whole namespace, as a stream: one hub for all streams of a node
//	stats         what happened lately, by the minute
//	acts          what operators did lately
//	workflows     read and apply definitions
//	status        agents, partitions, health
//	demo          the example's services
//
// Each part has the routes of its subject, and the interfaces (engine.go) that it calls.
//
// # Where requests are answered
//
// A request about one task is answered where its partition is: from this node's store, or by the node that owns it, to which
// internal/proxy passes the request. A list asks every node for its partitions and merges the answers. Any node can produce
// a submission to Kafka, so none fails because another node is down. While a partition is taken over,
//
//   - reads of it are answered 503 with Retry-After and the code taking-over, and so are lists that would lack its tasks;
//   - requests that wait in any case (?wait=, token=, a stream that is being opened) continue at the next owner;
//   - an open stream about a task ends cleanly, and Last-Event-ID resumes it; one about the namespace (GET /v1/stream) goes on at the next
//     owner, after the offset that was sent last;
//   - a cancel or retry waits a few seconds for the next owner, and is then produced without a look at the task;
//   - GET /v1/partitions shows the partition without owner and epoch.
//
// If this node has stopped a partition, it answers reads of that partition with 503, the code stopped and the reason, which
// lists name too.
//
// # Invariants
//
//   - A body is read once, up to its limit, within its time. A bulk body may be endless: bulkBytes bounds how much of it
//     is in memory, and queueDisk how many of its answers wait on disk.
//   - A list never lacks a partition without naming it, and a walk by its cursors ends only when each partition was read to its end.
//   - A stream about the namespace never silently leaves out a change: it counts changes that it cannot name (more), and says when it may lack
//     some (reset). It has no queue: it reads the frames that all streams share (hub), so a slow client holds up nobody. While no stream is
//     open, owners do nothing for streams.
//   - Every answer that is not a success is a problem document (RFC 9457), even one from the mux or after a panic.
//   - The OpenAPI document takes each limit from the constant that the handler checks (limits.go).
//   - Nobody without a ticket that a key of this namespace has signed makes the API read a report, or write one. Neither an answer nor the
//     log holds a ticket.
//   - While access is on, a call that has no role in calls (access.go) is answered to nobody, and facts name the caller by the token.
//   - No answer repeats what a client sent, so no secret in an input ends up in a log of answers.
//
// # What it refuses to do
//
// It refuses state-changing requests from other web sites, and requests whose Host is neither an IP address nor a name of
// ours (DNS rebinding).
package api
