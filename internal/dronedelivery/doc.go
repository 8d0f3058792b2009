// Package dronedelivery is the remote side of the drone-delivery example: five HTTP services (account, package,
// transport, drone, delivery), each on its own listener, and the workflow and agent bindings that use them.
//
// The services stand for programs that other people run. So they do not import the engine, they speak only HTTP, and they
// can be broken on purpose: slow, failing, refusing or hanging, for a while or permanently.
//
// A sixth service, payment, is the remote side of the example of order processing. It has the same rules, ledger and faults,
// and runs only if Config.Services names it.
//
// # What a service does
//
// An engine may repeat a call below /api/. The answers ensure that the effect happens only once:
//
//	absent ----- PUT ------> in force ---- DELETE ----> undone
//	   |                        ^                        |  |
//	   |                        +---- PUT, other key ----+  +-- PUT, same key: 409, no effect
//	   +------------------- DELETE (tombstone) --------> undone
//
// The rules:
//
//   - A PUT is idempotent by Idempotency-Key and resource: a repeated key gets the same body and changes nothing. A PUT without
//     a key always replaces. Status 201 says that the thing is new, and 200 that it already existed.
//   - A DELETE is an undo. It succeeds with 204 whether or not the thing ever existed, and leaves a tombstone for the key in
//     its Sagalog-Undoes: a do with that key that arrives later is refused with 409. It removes only what that do created. A
//     DELETE without Sagalog-Undoes, by a person, removes the thing in any case.
//   - Nothing depends on the task ID. When the engine has forgotten a task, the next one with its ID has new keys, so its calls
//     are carried out.
//   - A repeated key is answered from memory before any rule may refuse it: a 4xx means "no effect", which would be wrong for
//     the first call.
//   - Account checks and deliveries have no undo: DELETE is 405. Owners that begin with "suspended" get 403.
//
// # The ledger
//
// Each service keeps DIR/<service>.ndjson: one line for each call below /api/, written by a single write(2) before the
// answer. GET /ledger streams it (byte ranges work). The ledger is the service's only state: its memory is the fold of the
// lines, live and after a restart. A torn last line is cut off with a notice; with any other damage the service refuses to
// start. The ledger survives kill -9, not a power cut.
//
//	time             RFC 3339, UTC, milliseconds
//	method, path     as received, the path still percent-encoded
//	idempotency_key  "" if missing
//	attempt          0 if missing
//	status           the answer's; 0 for a call that was never answered (hang, or the service stopped meanwhile)
//	applied          the call changed the world: a first PUT of its key, a DELETE that found something
//	task, run        of the headers
//	undoes           the key of the do that an undo reverses, if it names one
//	fault            the injected fault that decided the answer, if any
//	tombstone        the call was an accepted undo, whether or not there was something to undo
//	unkind           the service was an unkind one
//	answer           the body of an applied PUT, given again to the same key
//
// # Faults
//
// PUT /fault {"mode","for","rate","status","delay","seed","operation"} begins a fault, and replaces the one with the same
// mode and operation; DELETE /fault[?mode=] ends faults; GET /fault shows them. Reads and the control endpoints are never
// broken.
//
//   - slow waits before it carries out a call, and carries it out even if the caller has gone, as slow services do. This is how
//     a do can arrive after its undo.
//   - fail answers 503 (or status) and changes nothing.
//   - refuse answers 422 (or status) and changes nothing; dos only, unless operation is "undo".
//   - hang carries out the call, writes the ledger, and never answers: the connection is cut when the fault ends.
//
// With a rate below 1, a hash decides which calls are hit. It covers seed, service, key and attempt, so that a retry is decided
// separately. For refuse it covers seed, service and task, so that a refused task is always refused.
//
// # Unkind services
//
// With Config.Unkind the services break the rules above that real services break:
//
//   - No tombstones: an undo of nothing is answered 404 and forgotten, and a do that comes after its undo is carried out.
//   - A service that has an undo remembers a key in one of three ways, which depend on the key: until its undo; forever, with the
//     first answer, even if its result has been undone; or forever, with 409 to each repeat. (One without an undo repeats its
//     answers: an operator would have to deal with its refusal.)
//   - A sixth of the calls, at most two for each key, go wrong. They fail before their effect (5xx, 429) or after it (5xx, 408),
//     have their connection broken or their answer cut after it, or are answered 504 and take effect up to 1.5 s later.
//   - Half of the undos are answered 200 with a body that is not JSON.
//
// They never answer 4xx other than 408 to a call that has had or will have an effect, if it is the first with its key. The ledger
// tells the truth about effects: a call that takes effect late has two lines, one for its answer and one for its effect (status
// 0).
//
// # Invariants
//
//   - The order of the ledger is the order of effects. No call is answered before it is in the ledger.
//   - At most one applied PUT for each resource and key, at kind services.
//   - The listeners are on loopback, since anyone who reaches them can break them.
//
// A service's memory grows with its ledger, by about 100 bytes per thing. Bodies stay in the file.
package dronedelivery
