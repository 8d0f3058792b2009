// Package api is the HTTP API of INTERFACE.md: what producers, operators, analysts and dashboards ask of the engine,
// described by an OpenAPI 3.1 document at /openapi.yaml.
//
// It owns no state and decides nothing about tasks. A submission or request is answered 202 only once the log holds
// it; what the log then makes of it, the owner decides, and a token finds out: a read with that token is not older
// than the fold of that input. Checks before the log (workflow, schema, conflict) spare people a dead letter and are
// no promise: the log decides.
//
// What it keeps:
//   - A body is read once, up to its limit, within its time. A bulk body may be endless: what is held of it is
//     bounded by bulkWindow lines and bulkBytes.
//   - Every answer that is not a success is a problem document (RFC 9457), also those of the mux and of a panic.
//   - No answer repeats what a client sent, so that no secret of an input ends in a log of answers.
//
// What it refuses: state-changing requests of other web sites, and a Host that is not ours while it listens on a
// loopback address (DNS rebinding).
//
// The engine behind it is a set of small interfaces in engine.go, which cmd wires.
package api
