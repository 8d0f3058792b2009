// Package whatif replays recorded tasks of a workflow under another policy, and estimates how they would have ended.
//
//	log ──▶ traces, samples ──▶ own policy ──▶ calibration ──▶ other policy, once for each draw ──▶ intervals
//
// The engine's own owner (internal/virtualowner) decides everything about a task: attempts, backoff, cool-downs, time-outs, undo, parking. This package only
// plays the agents, in virtual time. An attempt that history has, at about the same instant, gets the answer and the duration of history. Any other
// gets those of an attempt that called the same operation of the same agent near that instant; which one is drawn. The intervals are from the 5th to the 95th percentile
// of the draws. Each draw also gives the samples weights, so an interval is wider where few samples stand for many attempts (draw.go).
//
// # Why to believe it
//
// First each task is replayed under the policy that was in force, with the answers of history alone. If fewer than 95 % of the tasks end as they did, nothing else
// is said: a replay that does not reproduce what happened says nothing about what would have happened.
//
// A task that cannot be replayed counts as not reproduced if the reason depends on how the task went: it had not ended, or an operator decided about it before its
// end. Without those, the remaining tasks would look like all tasks. A task is left out, and counted apart, if the reason was there when the task was submitted
// (trace.go lists the reasons). Of a task that was parked, what operators did about it afterwards is not replayed: parked is its end. Signals, cancels
// and pauses come in each replay at the instant at which they came in history.
//
// # What it does not model
//
//   - The load that other attempts put on agents. How long an attempt waits for its agent, or for a permit, is that of history or of the sample.
//   - What an attempt would have answered later than the time-out that it had in history. If the policy allows more time, the answer is drawn from attempts that took
//     that long; if there are none, the end is unknown.
//   - That failures of one task resemble one another, but for this: an attempt that follows failures is drawn from such attempts, if there are enough.
//
// Invariants:
//
//   - The same log, policy, draws and seed give the same report.
//   - Memory grows with the tasks under way at a time, and not with the length of the log: tasks that have ended wait in a file. Of each operation that the
//     workflow calls, at most 131,072 attempts and 16 MiB of outputs are kept, spread evenly over time. So of a longer log the estimate is as exact as
//     those attempts are dense: an outage that is shorter than the time between them is smoothed.
//
// It refuses a policy that differs from the definition of the tasks in more than the policy, and it changes nothing in the log.
package whatif
