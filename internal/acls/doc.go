// Package acls says what each role must be allowed to do on a Kafka cluster with access lists: the one list from which `sagalog generate acls`
// prints commands, and from which package doctor knows what to ask for.
//
// # Invariants
//
//   - Each line is needed: if it is taken away, something of the role's work is refused (TestRealACLsAreNeeded in internal/node, on Apache Kafka).
//   - The lines of a role suffice for it (the same test: without one of them nothing but what it is for is refused).
//   - What an operation implies has no line: READ, WRITE and DELETE on a topic imply DESCRIBE, and so does READ on a group.
//
// # What it refuses to do
//
// It connects to nothing and grants nothing: an administrator runs what it prints.
package acls
