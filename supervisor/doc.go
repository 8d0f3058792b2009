// Package supervisor owns partitions. An owner is the scheduler and the supervisor of its partition in one: it
// judges the inputs, starts the steps that the scheduler finds ready, and decides what becomes of failures.
//
// [Owner] is a pure state machine: records, acknowledgements, answers and ticks go in, [Action] values come out. It
// knows no clock, no goroutine and no I/O; [Shell] carries what it says to the broker and the store, and decides
// nothing. The simulator (internal/sim) drives exactly this code.
//
//	         assigned                 read to the end              claim read back, valid
//	idle ─────────────▶ loading ─────────────────▶ claiming ─────────────────────▶ owning
//	 ▲                    ▲                            │ refused: again after a pause   │
//	 │ revoked            └────────────────────────────┴─── the epoch ended ────────────┘
//
// What it keeps (numbers as in ARCHITECTURE.md):
//
//   - INV8: no effect leaves before its fact is durable, at a contiguous offset, and of the current epoch.
//   - INV11: it decides only in an epoch whose claim it has read back as valid.
//   - INV12: an input is passed only by a fact, in the order of its topic.
//   - A timer fires only when every report that was durable before it fell due has been judged in this epoch.
//
// What it refuses: to resume from anything but the fold; to go on after an append of unknown outcome; to undo a task
// past its pivot; to know what a workflow is about.
package supervisor
