// Package namespacecopy copies a namespace into a new one: another cluster, another number of partitions, or a restore after the log was lost. It
// takes the state from the log of a namespace that is stopped, or from checkpoints.
//
// The log of each new partition begins with a carry of the entities that have their home there (events/copied_state.go). So every reader of the
// copy reads what every reader of a log that was cut reads. Behind that come the inputs that nobody has judged, and what the old owners may not
// have sent, or the new ones would not send: see supervisor.Copying. The ID of the namespace stays, and with it the idempotency key of each call.
//
// What it keeps:
//
//   - No task goes on in both namespaces. The old one is closed first, in its definitions and, behind a claim, in each partition (NamespaceClosed): nobody
//     claims a partition that is closed. Reopen takes that back.
//   - Half a copy never runs. The first record of its definitions says that it is a copy under way, and NamespaceCreated comes last. A copy that was
//     interrupted is begun again, into topics that hold nothing.
//   - No encrypted content leaves in clear text: it is copied as it is, and so are its keys, which are bound to the ID of the namespace.
//   - Nothing is read from the old namespace before it is closed, apart from what is folded up to then.
//
// It refuses to write into topics that hold records, and to copy a namespace whose nodes are alive.
package namespacecopy
