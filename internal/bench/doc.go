// Package bench measures the engine as a whole: a broker, a node, agents, load and a watcher, in one process or in
// several, on the embedded broker or on a cluster. `sagalog bench` is its command.
//
//	load ──▶ submissions ──▶ node ──▶ events ──▶ watcher        (tasks, submit, backlog)
//	                          │ ▲                   │
//	                          ▼ │                   └─▶ latency, rates; tells the load that a place is free
//	                        agents                          (mock backends that take a given time)
//
// # What a figure means
//
//   - A latency begins when a submission was due, not when it could be sent: waiting is not hidden. In a closed loop it is
//     due when the place of an ended task is free, in an open loop by the clock.
//   - Rates and CPU are those of a window: what came before it (the warm-up) and after it (the drain) is not counted.
//     Latencies are those of all tasks that were due in the window, also where they ended behind it.
//   - CPU and memory are the process's, with load, watcher and mock backends, and those of the processes that it started.
//   - A run says when other processes used the machine (disturbed), and how durable an acknowledgement was.
//
// # The check
//
// Every run ends by reading the log again, from its beginning: each acknowledged submission has one Submitted and one
// end, and each call that an agent received belongs to one attempt (audit.go). The counters of the run prove nothing.
//
// # What it refuses
//
// To know the engine's insides: all figures are taken from the log, the operating system and the Go runtime.
package bench
