// Package events is what the log says and what follows from it: the facts and their CloudEvents codec, the formats of
// work, reports and submissions, the state of a partition, and the one pure fold that makes the state of the facts.
// FORMAT.md is its wire in prose, for other languages. Everything else of Sagalog imports this package; it imports
// nothing of ours.
//
// # What it keeps
//
//   - INV1: a task lives in one partition, its Home, and its order there is the only order.
//   - INV2: State at an offset is the fold of the facts before it, with the same bytes on every machine and in every
//     run. So facts and state hold Instant and not time.Time; Marshal is a fixed point; Compact is the gate through
//     which user data enters a fact; and State.Hash is the same whatever was in memory, flushed or evicted in between.
//   - INV4: the fold depends on nothing but its arguments. It evaluates no expression, reads no clock, rolls no dice,
//     and needs no topic but events: a fact carries what it needs.
//   - INV7: at most one outcome of an attempt is accepted, the first in the log.
//   - INV9: a finished task never changes.
//
// # The void rule
//
// Not every record of events is a fact. A claim is valid only if it names the current one as its predecessor. Of the
// others, a record is a fact only if it stands in the epoch of the valid claim and has the next sequence there; a
// gap voids the rest of the epoch. Everything else is void: it changes nothing, not even if it cannot be read, and
// every reader skips it alike. Apply tells which by its Fate.
//
// An accepted fact that does not fit the state is a defect of its writer. Apply returns ErrImpossible, and the
// partition stops: stopping beats a wrong state.
//
// # A task
//
// A TaskReopened leads from error back to where the task was parked from. DESIGN calls error "parked".
//
//	           StepStarted                     TaskProcessed
//	 pending ───────────────► processing ─────────────────────► processed
//	    │  │                    │   │  ▲
//	    │  │         TaskParked │   │  │ TaskReopened
//	    │  └──────────────┐     ▼   │  │
//	    │      TaskParked └──► error┼──┘ ◄─────────┐
//	    │                        │  │              │ TaskParked (an undo failed)
//	    │ CancelRequested,       │  │              │ and TaskReopened
//	    │ DeadlinePassed,        ▼  ▼              ▼
//	    └──────────────────────► undoing ◄─────────┘ ──────────► undone
//	      a verdict to undo                          TaskUndone
//
// A task that is parked while it is undoing stays parked until it is reopened: a cancel, a deadline or a late failure
// would take it from its operator, and no step of it could move (INV10). pending and processing may end at once: a
// task whose steps are all skipped is processed without ever having been processing.
//
// # A step
//
//	 not_started ──► running ──► completed ─────┐ the task is undoing
//	   │    ▲ │       │   ▲                     ▼
//	   │    │ │       │   │ StepStarted      undoing ──► undone
//	   │    │ │       ▼   │                     ▲
//	   │    │ │      (failure)──► waiting       │
//	   │    │ │       │   retry, cool_down      │
//	   │    │ └──────►│                         │
//	   │    │ attempt 0                         │
//	   │    │         └─► failed, timed_out ────┘
//	   │    │             undo, park   │
//	   ▼    └── TaskReopened: waiting ◄┘
//	 skipped
//
// Undoing starts when no attempt of a do runs any more (DESIGN 5), and it takes every step whose effect outside may
// exist: Step.Touched. When the task turns back, a step that waits becomes failed: no do starts from there on.
//
// # An undo
//
//	         ┌──── retry, cool_down ◄──┐
//	         ▼                         │
//	 (none) ──► running ──► (failure) ─┴─► failed (the step: undo_failed; the task is parked)
//	              │                          │
//	              ▼                          │ TaskReopened: waiting
//	            undone              ◄────────┘ by another attempt
//
// # What it refuses to do
//
// It decides nothing: what follows from a state is scheduler's to plan, what a failure means supervisor's to judge. It
// reads no topic, writes no topic and knows no Kafka client: Record is what the shell gives it and takes from it. It
// stores nothing: Flush hands out what changed, a Loader gives it back. It takes no lock: one goroutine owns a State.
package events
