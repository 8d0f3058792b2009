// Package node wires one process of the engine: it connects the pure owners of supervisor, the definitions of
// scheduler and the store of projector to a cluster, and gives the API what it asks for. It decides nothing about tasks.
//
// It is a package of its own, and not part of cmd/sagalog, so that tests run the same engine that the program runs.
//
// # A partition in one node
//
//	            the group gives it                     the claim is read back
//	followed --------------------------> candidate ----------------------------> owned
//	   ^                                    ^  |                                    |
//	   |                                    |  | the group takes it                 | another's claim, a gap,
//	   |                                    |  |                                    | an append without an answer
//	   |                                    +--|------------------------------------+
//	   +---------------------------------------+  (from owned too)
//
// Group membership (ownership.go) says who should try; the claim in the log decides (supervisor). A followed partition is
// folded by the standby, a candidate's and an owned one by its shell: never by both, so the store has one writer for each
// partition. Without the role projector nothing is followed, and what lies between is folded at the take-over.
//
// # Who is alive
//
// Each node says once a second in presence that it lives, what it owns and where its API is. A node that reads its own
// beats back, but none of another member's for 2 s, removes that member from its group (eviction.go): the coordinator
// then moves its partitions at once and not after the session. A clean stop leaves by itself, after the shells have
// stopped.
//
// # What it refuses
//
// A namespace that another format wrote, that has another number of partitions, or that lost a topic of which nothing may
// be lost; topics whose settings could lose facts.
package node
