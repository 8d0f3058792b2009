// Package dronedelivery is the remote side of the drone-delivery example: five HTTP services (account, package,
// transport, drone, delivery), each on a listener of its own, and the workflow and agent bindings that use them.
//
// The services stand for programs that somebody else runs. So they know nothing of the engine (no import of it), they
// speak HTTP only, and they can be broken on purpose: slow, failing, refusing or hanging, for a while or for good.
//
// # What a service does
//
// Every call below /api/ is answered so that an engine which calls at least once has an effect once:
//
//	absent ----- PUT ------> in force ---- DELETE ----> undone
//	   |                        ^                        |  |
//	   |                        +---- PUT, greater run --+  +-- PUT: 409, no effect
//	   +------------------- DELETE (tombstone) --------> undone
//
// The rules behind it:
//
//   - A PUT is idempotent by Idempotency-Key and resource: the same key again gets the same body, changes nothing.
//     A PUT without a key always replaces. 201 says that the thing is new, 200 that it was there.
//   - A DELETE is an undo. It succeeds with 204 whether or not the thing ever arrived, and leaves a tombstone for its
//     Sagalog-Task: a do of that task that arrives later is refused with 409, unless its Sagalog-Run (1 if missing) is
//     greater. It takes back only what its own task did in its own run or an earlier one; a DELETE without
//     Sagalog-Task takes back whatever is there.
//   - A repeated key is answered from memory before any rule may refuse it: a 4xx says "no effect", which would be
//     a lie about the first call.
//   - Account checks and deliveries have no undo: DELETE is 405. Owners that begin with "suspended" get 403.
//
// # The ledger
//
// Each service keeps DIR/<service>.ndjson: one line for each call below /api/, written by a single write(2) before the
// answer. GET /ledger streams it (byte ranges work). The ledger is the service's only state: what it knows is the fold
// of its lines, on the live path as after a restart. A torn last line is cut off with a notice; any other damage is
// refused. It survives kill -9, not a power cut.
//
//	time             RFC 3339, UTC, milliseconds
//	method, path     as received, the path still percent-encoded
//	idempotency_key  "" if missing
//	attempt          0 if missing
//	status           the answer's; 0 for a call that was never answered (hang, or the service stopped meanwhile)
//	applied          the call changed the world: a first PUT of its key, a DELETE that found something
//	task, run        of the headers
//	fault            the injected fault that decided the answer, if any
//	tombstone        the call was an accepted undo, whether or not there was something to undo
//	answer           the body of an applied PUT, given again to the same key
//
// # Faults
//
// PUT /fault {"mode","for","rate","status","delay","seed","operation"} begins one and replaces the one of the same
// mode and operation; DELETE /fault[?mode=] ends them; GET /fault shows them. Reads and the control endpoints are never broken.
//
//   - slow waits before it does what it was asked, and does it even if the caller has gone, as slow services do: this
//     is how a do arrives after its undo.
//   - fail answers 503 (or status) and changes nothing.
//   - refuse answers 422 (or status) and changes nothing; dos only, unless operation is "undo".
//   - hang does it, writes the ledger, and never answers: the connection is cut when the fault ends.
//
// With a rate below 1 the choice is a hash: of seed, service, key and attempt, so that a retry is a new throw; for
// refuse of seed, service and task, so that a refused task is refused for ever.
//
// # Invariants
//
//   - The order of the ledger is the order of effects; nothing is answered that is not in it.
//   - At most one applied PUT for each resource and key.
//   - The listeners are on loopback: who can reach them can break them.
//
// What a service remembers grows with its ledger, by about 100 bytes of memory a thing; bodies stay in the file.
package dronedelivery
