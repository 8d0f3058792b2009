// Package virtualowner runs one owner in memory, in virtual time: the owner that ships (supervisor.Owner) with its scheduler, its fold and its verdicts, over a
// log and two inputs that are slices. Its driver plays the agents and moves the time.
//
//	Put (submission, report, request) ──▶ Engine ──▶ Config.Sent (work requests and other effects)
//	Now, Tick ─────────────────────────▶        ──▶ Facts, State
//
// There is no broker, no goroutine and no clock, so a run is a function of what its driver does. The tests of workflows (internal/wftest) and the replay of
// recorded tasks under another policy (internal/whatif) are drivers.
//
// Invariants:
//
//   - Every action of the owner is carried out at the instant at which the owner asks for it, and in full.
//   - The level and the settings are those of Config during the whole run.
//   - The named limits of Config exist, and never make an attempt wait.
//
// It refuses to decide anything about a task, and to model a fault: appends succeed, and nobody else owns the partition.
package virtualowner
