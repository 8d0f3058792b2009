// Package verify proves or refutes the engine's promises, from the log and other evidence. It is a second opinion: it reads
// facts by the rule of events/FORMAT.md and keeps its own small model of each task. It uses the engine's fold only to check
// that a state is the fold of the log.
//
//	events ──▶ rule (which records are facts) ──▶ the fold, and each recorded or stored hash
//	   │ ├──▶ stories: attempts, order, undo, liveness of each task
//	   │ in step with                        └──▶ effects that must be there
//	submissions, reports ──▶ each input is one fact, or a duplicate, or not judged yet
//	dead letters, copies, work requests ──▶ each is the effect of an accepted fact, and none below the watermark is missing
//	ledgers, acknowledgements ──▶ each call is of an attempt, each acknowledged submission is judged
//
// It reads each topic once, in the order of its offsets, up to an end that it asks for before it begins; before that it looks through events
// for the tasks that are rerun. The facts about an input topic are in the order of the inputs, so both are read in step and neither is
// kept in memory. It keeps live tasks, and those that are rerun; 64 bytes for each task ID that is not forgotten yet; 8 bytes for each fact; the forwarded inputs, and each try of a step that a child does, until all partitions are read; the dead letters of one
// partition; and, if there are ledgers, a line for each identifier.
//
// A log that was cut begins with a carry. All checks hold from there on: what is not a task is known from the first facts, and the story of an
// older task begins with its rows. Until these come, its facts are kept in memory and then compared with them. In the rest of any log each carried
// task is compared with its story. The report says where each log begins.
//
// It refuses to guess: if it cannot read something (a topic that is missing, facts that are gone), it names it, and the verdict is
// not "proved". Inputs, work requests and dead letters that are gone because nobody needed them are named too, but what is proved is said
// of the rest: a request, a dead letter or a forward that is not there counts as trimmed, not as missing. It writes nothing.
package verify
