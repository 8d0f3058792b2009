// Package supervisor owns partitions. An owner is both the scheduler and the supervisor of its partition: it judges the
// inputs, starts the steps that the scheduler finds ready, and decides what to do about failures.
//
// [Owner] is a pure state machine: records, acknowledgements, answers and ticks go in, [Action] values come out. It knows no
// clock, no goroutine and no I/O. [Shell] carries out the actions at the broker and the store, and decides nothing. The
// simulator (internal/sim) drives exactly this code.
//
// # Parts
//
// An owner only calls its parts in the right order. Each part owns its state:
//
//	epoch      the right to decide: claim, generation, appends in flight, reading its own partition
//	inbox      inputs that were read but not judged; how each type of record is judged; poisoned inputs
//	alone      the mark a process leaves behind, so that an input that ended it does not end every process after it
//	planner    what follows from the state of a task; the attempts of a step (step.go); poisoned tasks
//	timers     what is due, which inputs must be judged first, and the decision
//	outbox     the effects of durable facts, the watermark, sending again
//	delays     the destinations that take no effects for a while, and the position of each
//	waking     whether effects wait because the process slept, and what must be known before they leave
//	trimming   which records of the inputs nobody needs any more
//	dispatch   the queue of attempts that may start, what the agents offer, windows, routing, beats
//	schedules  the due times of schedules, and the tasks that they start
//	limits     the named limits whose home is the partition: it brings their definitions into the state
//
// They share core: the configuration, the time, the state, the batch under construction and the appends in flight, the actions,
// and references to each other. The writer limits how often the store is written, and the cache knows which tasks may leave
// memory.
//
// Facts reach the parts only through fold. When a fact is recorded, it is folded into the state and into epoch, inbox and
// dispatch; planner and outbox fold it when it is durable. Replay calls the same methods: all of these but the outbox fold
// every fact after the store's offset, and the outbox folds those after its watermark. Timers fold nothing, because they follow
// from the state of the tasks. A table in the tests says which parts take which kinds of facts.
//
// # Phases
//
//	      Assign              store read             read to the end           claim read back, valid
//	idle ────────▶ opening ────────────▶ loading ─────────────────▶ claiming ───────────────────────▶ resuming
//	 ▲               ▲                      ▲                           │                                 │ facts above the
//	 │ Revoke        │                      └── refused: after a pause ─┘                                 │ watermark read
//	 │ (from all)    │                                                                                    ▼
//	 │               └────────────── the epoch ended (from loading, claiming, resuming, owning) ─────── owning
//	 │
//	 └── stopped ◀── an error that an operator must see (from all but idle)
//
// "opening" waits until all earlier actions are carried out; it is shown as "loading". Every arrow into opening, idle and
// stopped begins a generation: answers to earlier questions are void, and uncommitted changes are dropped.
//
// Within the phases there are a few flags:
//
//	suspended   Owner     set and cleared by Suspend: nothing is decided while the clock is suspected
//	deciding    Owner     there may be something to decide; cleared by Decide
//	again       epoch     loading and claiming: an epoch of this assignment has ended
//	paused      epoch     owning: the owner is busy and has stopped reading its own partition
//	unwritten   core      resuming, owning: acknowledged facts are not in the store
//	unplanned   planner   owning: the store may hold live tasks that this epoch has not planned; one append at a time
//	moved       timers    owning: rows of tasks must be written before the store is asked for timers again
//	careful     alone     the process before this one ended while it owned the partition: inputs are judged one at a time
//	asked       question  timers: the ends of the inputs; inbox: the definitions; one question at a time
//	held        waking    claiming, resuming, owning: the process slept, and effects wait for the end of the log
//	failed      outbox    owning: an effect was refused for good, and no fact says so yet
//
// # What it keeps
//
// Numbers as in ARCHITECTURE.md:
//
//   - INV8: no effect leaves before its fact is durable, at a contiguous offset, and in the current epoch.
//   - INV11: it decides only in an epoch whose claim it has read back as valid.
//   - INV12: an input is passed only by a fact, in the order of its topic.
//   - An attempt times out, and a deadline passes, only when every report that was durable before has been judged in this epoch.
//
// It refuses to resume from anything but the fold, to continue after an append of unknown outcome, and to undo a task past its
// pivot. It does not know what a workflow is about. docs/protocol.md has the reason for each rule.
//
// # Stability
//
// Nothing here is stable: this package is a part of the engine, and other programs have no use for it.
package supervisor
