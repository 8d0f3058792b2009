// Package agent makes a Go program an agent: it takes work requests from Kafka, calls functions, and reports their
// outcomes. An agent is a kind of work ("package"); any number of instances of it run anywhere.
//
//	reg := agent.NewRegistry()
//	agent.Handle(reg, "package", book, agent.Concurrency(64), agent.WithUndo(unbook))
//	conn, err := agent.Dial(ctx, reg, agent.DialConfig{Brokers: brokers})
//	err = conn.Run(ctx)
//
// Dial returns when Kafka has answered. Run then joins a group for each agent, and sends heartbeats: with the first one the instance is live, and
// `sagalog agents list` shows it. Nothing has to wait for that: a step whose agent has no live instance waits, and uses up no attempt.
//
// Package httpagent binds agents to HTTP services without code, and agenttest runs agents in tests without Kafka.
//
// # The life of a request
//
//	          expired, the same attempt is held
//	         already, or the undo has come before
//	work ---> read ------------------> dropped (counted)
//	           |
//	           v
//	      unconfirmed                  a stop, or the partition is another instance's by now
//	           |  the group confirms  ----------------------------------------> abandoned: delivered again
//	           |  that the partition is ours
//	           v
//	         ready -------------------- a stop, or the partition is another instance's --> abandoned
//	           |  a worker is free, and the limit allows one more
//	           v
//	        running <--+
//	           |       | retryable, and another try fits before the complete-by time
//	           |       | (same attempt, same Idempotency-Key)
//	           +-------+
//	           |
//	           +-- function returned, or no more tries ------> reported ---> finished ---> committed
//	           +-- function returned after Accepted ---------> finished: reported by somebody else
//	           +-- the complete-by time passed --------------> late: nothing is reported, finished
//	           +-- stop, and the grace is over --------------> abandoned: delivered again; with a heartbeat: reported
//
// Each try goes through the circuit breaker. While the breaker is open, an attempt waits as long as its complete-by time
// allows. If it stays open for longer, the attempt was not made: without effect, and with a Retry-After. An agent has one breaker,
// since it calls one service (a binding has one base URL). Agents that call the same host do not share one: a part of a service may
// fail while others work, and each agent needs only a few calls to find out.
//
// The parts are the consumer (one agent in one process), which reads; its pool of requests and workers; ownership, which asks
// the group who owns a partition; the committer with its offset tracker (internal/offsets); the executor with retry, breaker
// and limit; and the reporter.
//
// # Invariants
//
//   - Nothing is reported at or after the complete-by time, and no recovery is tried: the engine's timer decides.
//   - The committed offset of a partition never passes a request that is unfinished and not expired, so an instance that
//     dies loses nothing. A request counts as finished only when its report is durable or may not be sent any more. With
//     effect none it counts as finished just before its report is sent: if the instance dies in between, the complete-by
//     time ends the attempt.
//   - A failed attempt has the effect none only if each of its tries had none, and no other instance can have received its
//     request.
//   - A request is started only after the group has confirmed, after the request was read, that its partition is ours.
//   - A request whose report says effect none never runs again: before the report is sent, a commit has recorded that the
//     request is finished, by the low-water mark or by the runs in the commit's metadata. Every later commit repeats these
//     runs, and the next instance skips them. If there is no such commit in time, the report says in doubt.
//   - A do never starts in an instance that has received the undo of its step in the same run.
//   - An agent whose clock is behind its owner's starts nothing after its complete-by time, as far as the owner's timestamps show
//     the difference (clock.go).
//   - An attempt never runs twice at the same time in a process, however often it is delivered.
//   - An agent runs at most as many requests as its concurrency, and holds at most twice as many. Agents share nothing.
//
// # How many at once
//
// While calls take more than three times as long as before, fewer requests run than the concurrency allows (limit.go). The
// limit falls until calls take only three times as long, but never by a larger factor than that of the slowdown. Heartbeats
// publish the limit, so owners send less. When calls are quick again, it recovers within a second or two. A request that was
// already sent waits for at most a third of its time and then starts anyway, within the concurrency, so that waiting here
// never costs it the attempt. If calls still take as long when only a quarter as many run, the backend is slow for another
// reason, and the full concurrency is used again after half a minute. FixedLimit switches this off. Calls that take less
// than 25 ms longer than before never count as slow.
//
// # Many instances
//
// Instances of an agent share the partitions of its work topic as static members of a group, under the names in their
// heartbeats. A partition moves when an instance comes or goes, and when a silent one is removed (by a node, or by the group
// after a session of 10 s). Reading is not fenced: an instance that does not know yet that it lost a partition keeps reading,
// and functions that it has started keep running in any case. So a request may run in two instances, both with the same
// Idempotency-Key, and the engine accepts the report that comes first. That report must not say effect none while the other run
// may still have an effect. Two rules ensure this, however long any instance is paused:
//
//	(1) An instance starts a request only after the group has confirmed, in answer to a question that was asked after the
//	    request was read, that it still had the partition (ownership.go).
//	(2) An instance that is assigned a partition asks afterwards where the partition ends. Other instances may have read
//	    the requests below that end, so if one of these fails or completes, it is in doubt (transport.Assigned.Shared): its
//	    undo waits until the other run is over. If it is an undo, there may be nothing left to undo. A request
//	    above that end belongs to this instance alone: any other instance reads it after this assignment, and learns by (1)
//	    that the partition has moved.
//
// A partition without any commit has never been read: its first reader commits before it starts a request, and may report
// effect none for every request that waits there. If the group forgot a member, or a member missed a generation, and it gets
// the same partition back, that counts as a new assignment. Requests that the last commit records as finished are not
// started.
//
// The answer in (1) also goes stale: an instance that wakes after it was stopped for more than 3 s asks again, so that it
// does not start a request that has been done, and perhaps undone, in the meantime. This is not a guarantee, since a pause
// of any length may fall between the last answer and the call. Services should refuse a do that comes after its undo.
//
// When an instance stops, it finishes its running requests within its grace, commits, and leaves its groups. When partitions
// are taken from it while it runs, it starts no more of their requests, and still reports those that it had started. The broker
// refuses its commits for them, which is not an error.
//
// If another process joins with the instance's name, the group fences the older one. The group may also fence an instance that has no
// namesake, if its own join takes effect after it has given up waiting for the answer. So a fenced instance listens to the
// heartbeats in presence. If it hears a live process with its name, or is not allowed to read presence, it ends with FencedError.
// Otherwise it joins again.
//
// Two gaps remain. A request that has completed is delivered again if the instance dies before its next commit, and then it may run
// after its undo, if that was done by another instance and no longer lies in the partitions of this one. Services that remember
// their undos are safe. The other gap: the same attempt may be stored at two offsets. An engine that dies may send it twice. So for an attempt
// that an earlier epoch started, the engine treats the effect as in doubt, whatever is reported. Also, a broker that lost its producer
// state (the embedded one does when it dies) may store a retried request twice. If the partition also moves to another
// instance between the two copies, only the Idempotency-Key prevents a second effect.
//
// # Failures
//
// Any error of a function is retryable and in doubt: what it did may still be under way, so an undo waits for the
// complete-by time. Permanent, NoEffect, Ended and RetryAfter change that, and can be combined. A panic becomes a
// failure of class internal. Input that does not decode is a permanent failure without effect, and an output over the
// limit is a permanent failure. Go functions are tried once per attempt unless WithRetry asks for more.
//
// A context ends at the complete-by time with the cause ErrCompleteBy. A function that does not return then keeps counting
// against the concurrency until it does.
//
// # Long steps
//
// An attempt of a step with a heartbeat ends when it is silent. The function calls Progress; the acknowledgement of a report in Kafka extends the
// attempt to a heartbeat after the instant just before that report was sent. The engine's own end is never earlier, since it counts from
// when it judges the report, which is later. Nothing but the function's calls keeps the attempt alive: a beat of the instance would
// show that the process lives, and not that the work goes on. The next attempt reads LastProgress and continues from there.
//
// # What it refuses to do
//
// It stores nothing, and does not decide about retries across attempts (the engine does, durably). Only dial.go uses a Kafka
// client: everything else reads and writes through transport.Source and transport.Sink.
//
// # Stability
//
// Everything that `go doc` shows of this package stays source compatible within a major version, with these exceptions: NewRunner, Attach and
// the members Sources, Sink, Keys and Trace of Config, which join this package to others of this module, and RawFunc, whose work request gets
// members as the engine learns more. Options, functions, and members of structs are added, so name the members when you write a struct. An
// agent works with engines of the same major version. When it retries, logs and commits may change in any release.
package agent
