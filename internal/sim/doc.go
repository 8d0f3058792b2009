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
// The broker lets appends be lost, land late, twice, in parts or out of order, and its answers be lost, doubled or late,
// and refuses effects for good; nodes crash, lose their store or find an older one, sleep and wake up; two nodes own a
// partition at once; wall clocks jump by seconds, an hour, ten years. Agents are down, slow, late, get their work again,
// and report what contradicts itself; clients flood, repeat, contradict, cancel and retry, send to the wrong partition,
// above the limits, and what is no input at all; deciding about some tasks panics; workflows are applied meanwhile. Each
// run draws which of these it has (swarm.go). Then the world heals, and must come to rest with every promise kept.
//
// The judge of each partition folds what the log holds, and cites the invariant that a record, an effect or a commit
// breaks. What it checks, and when:
//
//	INV1   each fact       saga.go: a task's facts are in its home partition, and it is accepted once
//	INV2   each fact       the fold agrees with a second, independent telling (saga.go: agrees); each commit and each
//	                       store with the judge's fold; sampled: the hash kept by additions with the whole sum, written a
//	                       second time (twin.go: sumsUp), and the log folded again, restarted at random records (replays)
//	INV3   each commit     moves.go: committed; sampled: what the store holds adds up to the sum
//	INV4   each follow-up  moves.go: planned: the facts that follow are those of the plan on the log's state
//	INV5   each commit     moves.go: keeps: the plan of each committed task is quiet
//	INV6   each fact       saga.go: startsStep, skips; moves.go: planned
//	INV7   each fact       saga.go: outcomes of running attempts only; invariants.go: an input is folded once
//	INV8   each effect     effects.go: leaves, asks: its fact is durable, accepted, committed here, and says the same
//	INV9   each fact       saga.go: sagas
//	INV10  each fact       moves.go: moves; each commit: keeps, by the rows of the queue and the timers; at rest: unrest
//	INV11  each record     partition.go: valid, by its own count of epochs; invariants.go: before: by the current claimant
//	INV12  each fact       invariants.go: passes, rejects, settles; at rest: rest.go: accounted
//	undo   each fact       saga.go: startsUndo (order, quiet), turns (pivot), endsUndone (complete); at rest: the agents'
//	                       ledgers hold nothing of an undone task
//	reads  each commit     moves.go: readsItsWrites: a store that has passed a submission can answer for it
//	time   each fact       invariants.go: timers, sweeps and expiries wait for what was durable before; carry.go: nothing is
//	                       decided while a clock is suspected
//
// A run counts the situations that it comes to (coverage.go); a test fails where all of its runs miss one. A run that
// fails is shrunk (shrink.go) and prints the command that runs it again.
//
// It refuses to model what no protocol on one log can mend: an acknowledged record that the broker then loses. Nor does
// it model agents that lie: one that says "no effect" where there was one.
package sim
