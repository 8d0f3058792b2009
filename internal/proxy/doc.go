// Package proxy passes HTTP requests about a partition to the node that owns the partition.
//
// A client may send a request to any node, and the node that owns the partition answers it: this node from its own store, or
// another one over HTTP. Proxy.Serve does that for one request about one partition. Proxy.AskEach asks each node for a
// document, so that the caller can merge them.
//
//	              Route says here                        the partition is still here
//	      +---------------------------> local handler --------------------------------> answered
//	look -+                                  | it has moved meanwhile: the answer is dropped
//	  ^   +---------------------------> the owner -------------------------------------> answered
//	  |           Route says there           | moved, unreachable, silent
//	  +--------------------------------------+  until the request has waited long enough: Unanswered
//
// Invariants:
//   - A request that was passed on is never passed on again, so nodes that disagree about an owner cannot pass it in
//     circles.
//   - No answer is written to the client until it is known that the answering node has the partition.
//   - If an answer breaks off, the client can see that. Only a stream of events just ends, and its client resumes it after
//     the last event that it has.
//   - Only the headers that the API reads leave this node, and only those that a client needs come back. An answer that is
//     a redirect, or has a type that the API never answers with, does not come back at all.
//   - The caller's token never leaves this node. Where nodes sign (Config.Sign), the other node learns from the signature who calls.
//
// A read that does not wait is answered from this node's store, if it has the partition at all, while no owner is known.
//
// It refuses to guess: it does not call anything that is not a valid address, and it regards a node that does not identify itself
// as unreachable. It knows nothing about tasks, and does not word problems: the caller does.
package proxy
