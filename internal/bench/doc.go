// Package bench measures the engine as a whole: a broker, a node, agents, load and a watcher, in one process or in
// several, on the embedded broker or on a cluster. `sagalog bench` is its command.
//
//	load ──▶ submissions ──▶ node ──▶ events ──▶ watcher        (tasks, submit, backlog)
//	                          │ ▲                   │
//	                          ▼ │                   └─▶ latency, rates; wakes the load when a place is free
//	                        agents                          (mock backends that take a given time)
//
// # The meaning of a figure
//
//   - A latency begins when a submission was due, not when it could be sent, so waiting is not hidden. In a closed loop it
//     is due when an ended task frees its place, and in an open loop by the clock.
//   - Rates and CPU are those of a window between the warm-up and the drain. Latencies are those of all tasks that were due in the
//     window, even if they ended after it.
//   - CPU and memory are those of this process, including load, watcher and mock backends, and of the processes that it started.
//   - A run says whether other processes used the machine (disturbed), and how durable an acknowledgement was.
//
// # The check
//
// Every run ends by reading the log again from its beginning: each acknowledged submission must have one Submitted and one
// end, and each call that an agent received must belong to one attempt (audit.go). The run's own counters would prove
// nothing.
//
// # Limits
//
// It knows nothing of the engine's internals: all figures come from the log, the operating system and the Go runtime.
package bench
