// Package sim is the proof of the engine's core: a single-threaded simulator that drives the real fold, the real
// scheduler, the real owner and the shell's clock over a model of the broker, with virtual time. A run is a function of
// its seed.
//
//	clients ──▶ submissions ─┐                        ┌──▶ work ──▶ agents ──▶ reports
//	                         ├─▶ Owner (2 or 3 nodes) ─┤
//	            reports ─────┘         │ ▲            └──▶ dlq, alerts, forwards
//	                                   ▼ │
//	                                 events ──▶ judge: folds each record and checks the invariants
//
// The broker loses appends, or stores them late, twice, in parts or out of order. It loses, repeats or delays its answers,
// and refuses effects for good. Nodes crash, lose their store or find an older one, sleep and wake up. Two nodes own a
// partition at once. Wall clocks jump by seconds, an hour, ten years, or are ahead for a while until they are compared. Agents are away, down, slow or late, get their work again,
// and send contradictory reports. Clients flood, repeat and contradict themselves, cancel and retry, send to the wrong
// partition, exceed limits, and send garbage. Deciding about some tasks panics. Workflows are applied in the middle of a
// run. Each run draws which of these happen in it (swarm.go). Then all faults end, and the world must come to rest with
// every promise kept.
//
// The judge of each partition folds the log, and names the invariant that a record, an effect or a commit breaks. It checks:
//
//	INV1   each fact       saga.go: a task's facts are in its home partition, and it is accepted once
//	INV2   each fact       the fold agrees with a second, independent account (saga.go: agrees); each commit and each
//	                       store with the judge's fold; sampled: the hash kept by additions with the whole sum, written a
//	                       second time (replay.go: sumsUp), and the log folded again, restarted at random records (replays)
//	INV3 each commit commits.go: committed; sampled: the contents of the store add up to the sum
//	INV4   each follow-up  plans.go: planned: the facts that follow are those of the plan on the log's state
//	INV5   each commit     commits.go: keeps: the plan of each committed task is quiet
//	INV6   each fact       saga.go: startsStep, skips; plans.go: planned
//	INV7   each fact       saga.go: outcomes of running attempts only; judge.go: Passes: an input is folded once
//	INV8   each effect     effects.go: leaves, asks: its fact is durable and accepted, and says the same
//	INV9   each fact       saga.go: sagas
//	INV10  each fact       plans.go: moves; each commit: keeps, by the rows of the queue and the timers; at rest: unrest
//	INV11  each record     partition.go: valid, by its own count of epochs; invariants.go: before: by the current claimant
//	INV12  each fact       judge.go: Passes; inputs.go: rejects; effects.go: watermark; at rest: rest.go: accounted
//	undo   each fact       saga.go: startsUndo (order, quiet), turns (pivot), endsUndone (complete); at rest: the agents'
//	                       ledgers hold nothing of an undone task
//	reads  each commit     commits.go: readsItsWrites: a store that has passed a submission can answer for it
//	time each fact judge.go: timers, sweeps and expiries wait for inputs that were durable before; execute.go: nothing is
//	                       decided while a clock is suspected
//
// A run counts the situations that occur in it (coverage.go); a test fails if a situation occurs in none of its runs. A run
// that fails is shrunk (shrink.go), and the test prints the command that repeats it.
//
// Now and then the namespace is copied into one with another number of partitions, as `sagalog namespace copy` does it and with its code (copies.go): all
// nodes stop, but some are only cut off and wake up later; the old partitions are closed, and folded from what cuts have left of them; nodes without
// a store start in the copy. Work of the old namespace is under way meanwhile, and its reports are lost or come as callbacks. The judges of the copy
// inherit what those of the old partitions know about tasks, limits, schedules and replies, so every promise goes on. At the copy itself they check
// that every effect that the old partitions owed is sent, that every input that they judged has its outcome, and from then on that nothing is accepted in
// the old ones but a claim, whose owner stops.
//
// It refuses to model a fault that no protocol on one log survives: an acknowledged record that the broker then loses.
// Nor does it model agents that lie, such as one that says "no effect" although there was one.
package sim
