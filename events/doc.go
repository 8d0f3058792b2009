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
//	(none)      -- Submitted                          --> pending
//	pending     -- StepStarted                        --> processing
//	pending     -- TaskProcessed: all were skipped    --> processed
//	processing  -- TaskProcessed                      --> processed
//	pending, processing, error
//	            -- CancelRequested, DeadlinePassed,
//	               a verdict to undo                  --> undoing
//	undoing     -- TaskUndone                         --> undone
//	pending, processing, undoing
//	            -- TaskParked                         --> error
//	error       -- TaskReopened                       --> where it was parked from
//	processed, undone
//	            -- TasksSwept                         --> (none)
//
// DESIGN calls error "parked". A task that was parked while undoing goes nowhere but back to undoing, by TaskReopened: a
// cancel, a deadline or a late failure would take it from its operator, and no step of it could move (INV10).
//
// # A step
//
//	not_started, waiting
//	            -- StepStarted                        --> running
//	not_started, waiting (never attempted)
//	            -- StepSkipped                        --> skipped
//	running     -- StepCompleted                      --> completed
//	running     -- StepFailed, Timeout: by the verdict
//	               retry, cool_down                   --> waiting
//	               undo, park                         --> failed, timed_out
//	not_started, waiting
//	            -- StepFailed of attempt 0: likewise  --> waiting, failed
//	waiting     -- the task turns to undoing          --> failed
//	failed, timed_out, waiting
//	            -- TaskReopened                       --> waiting
//	completed, failed, timed_out
//	            -- UndoStarted                        --> undoing
//	undoing     -- Compensated                        --> undone
//	undoing     -- UndoFailed, Timeout: park          --> undo_failed
//	undo_failed -- TaskReopened                       --> undoing
//
// What is undone is every step that may have changed something outside: Step.Touched. No undo starts while an attempt
// of a do is running (DESIGN 5).
//
// # An undo
//
//	(none), waiting
//	            -- UndoStarted                        --> running
//	running     -- Compensated                        --> undone
//	running     -- UndoFailed, Timeout: by the verdict
//	               retry, cool_down                   --> waiting
//	               park                               --> failed
//	(none), waiting
//	            -- UndoFailed of attempt 0: likewise  --> waiting, failed
//	failed, waiting
//	            -- TaskReopened                       --> waiting
//
// # Two ways to write and to read
//
// The records of a task that goes well, the entities and submissions are written by encoder and read by reader, without
// reflection; everything else, and what these two do not know for certain, by encoding/json. The short way never decides:
// it writes the same bytes and accepts nothing that the other refuses, which oracle_test.go and the fuzz targets
// compare. A member that is added to such a type must be added to both, and these tests fail until it is.
//
// # What it refuses to do
//
// It decides nothing: what follows from a state is scheduler's to plan, what a failure means supervisor's to judge. It
// reads no topic, writes no topic and knows no Kafka client: Record is what the shell gives it and takes from it. It
// stores nothing: Flush hands out what changed, a Loader gives it back. It takes no lock: one goroutine owns a State.
package events
