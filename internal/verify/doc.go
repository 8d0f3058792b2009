// Package verify proves or refutes what the engine promises, from the log and what lies beside it. It is a second
// opinion: it reads facts by the rule of events/FORMAT.md and keeps a small model of each task of its own, and uses the
// engine's fold for one thing only, to say that a state is the fold of the log.
//
//	events ──▶ rule (which records are facts) ──▶ the fold, and each recorded or stored hash
//	   │                                     ├──▶ stories: attempts, order, undo, what moves a task
//	   │ in step with                        └──▶ effects that must be there
//	submissions, reports ──▶ each input is one fact, or a duplicate, or not judged yet
//	dead letters, copies, work requests ──▶ each is the effect of an accepted fact, and none that is settled is missing
//	ledgers, acknowledgements ──▶ each call is of an attempt, each acknowledged submission is judged
//
// It reads each topic once, in the order of its offsets, up to an end that it asked for at first. Facts of one input topic
// stand in the order of the inputs, so both are read in step and nothing of them is remembered. What is remembered is: live
// tasks; 32 bytes for each task ID that is not forgotten yet; 8 bytes for each fact; the forwarded inputs; the dead letters
// of one partition; and with ledgers a line for each identifier.
//
// It refuses to guess: what it cannot look at (a trimmed topic, one that is gone) it names, and the verdict is then not
// "proved". It writes nothing.
package verify
