// Package wftest runs the tests of workflows: files that say what the agents answer and how a task must end.
//
//	test file --Parse--> File --Run--> Result of each case --Coverage--> what no case reached
//
// A case drives the owner that ships (supervisor.Owner) with its scheduler, its fold and its verdicts, over a log, two inputs and a
// store in memory. So retries, deadlines, pivots and the order of undos are those of production, and this package decides nothing
// about them. It only answers the owner's actions, plays the agents from the mocks, and moves the time to the next timer. There is no
// broker, no goroutine and no clock, and a case takes milliseconds.
//
// Invariants:
//
//   - The result of a case is a function of the test file and of the workflow.
//   - A call without an answer fails its case; so do an answer that no call uses and a request that the engine refuses.
//   - A named limit exists and never makes an attempt wait: how large it is does not belong to the workflow.
//   - Each fault of a test file has a place in it.
//
// It refuses to test anything but the workflow: whether an agent really calls its service is a matter for the agent's tests.
package wftest
