// Package node wires one process of the engine: it connects the owners (supervisor), the definitions (scheduler) and the
// store (projector) to a cluster, and gives the API the data it asks for. It decides nothing about tasks.
//
// It is a package, and not part of cmd/sagalog, so that tests run the same engine as the program.
//
// # Parts
//
//	namespace    the topics, their audit, the namespace's first record, the catalog of definitions
//	stateStore   the projection, and whether it belongs to this log
//	owners       one shell for each partition, and which partitions this node owns
//	membership   the group that says which partitions this node should try to own; eviction of silent members
//	reach        which partitions have a leader that does not answer this node
//	replica      folds the partitions that others own into this node's store
//	liveness     the heartbeats of all nodes and agents; heartbeat sends this node's
//	readiness    whether this node is ready, and which partitions can be read here
//	workTopics   creates the work topics of agents that steps wait for
//	bodies       the bodies of definitions, in a file
//	inputs       one reader of the input topics for all partitions
//
// # A partition in one node
//
//	            the group assigns it               the claim is read back
//	followed --------------------------> candidate ----------------------------> owned
//	   ^                                    ^  |                                    |
//	   |                                    |  | the group takes it                 | another's claim, a gap,
//	   |                                    |  |                                    | an append without an answer
//	   |                                    +--|------------------------------------+
//	   +---------------------------------------+  (from owned too)
//
// Group membership says which node should try; the claim in the log decides (supervisor). The replica folds followed
// partitions, and a shell folds each candidate or owned one. The two never fold the same partition at once, so each
// partition has one writer in the store. Without the role projector nothing is followed, and a take-over folds the rest of
// the log first.
//
// # Liveness
//
// Each node publishes a heartbeat twice a second: what it owns and where its API is. If a node reads its own heartbeats
// back, but has seen none from another member for 2 s, it removes that member from its group (eviction.go). The coordinator
// then moves the member's partitions at once, without waiting for its session to time out. On a clean stop, the node leaves the
// group after the shells have stopped.
//
// A node that cannot own some partition gives all of them to others for a while, if one of them can own all (aside.go).
//
// # What it refuses to do
//
// It refuses a namespace that was written in a newer format, that has a different number of partitions, or that has lost a
// topic whose records must never be lost. It also refuses topics whose settings could lose facts.
package node
