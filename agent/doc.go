// Package agent does the work of steps: it takes work requests from Kafka, calls functions or HTTP services, and
// reports what came out. An Agent is a kind of work ("package"); any number of instances of it run anywhere.
//
//	reg := agent.NewRegistry()
//	agent.Handle(reg, "package", book, agent.Concurrency(64), agent.WithUndo(unbook))   // Go functions
//	bindings, err := agent.LoadBindings(os.DirFS("agents"), os.LookupEnv)              // HTTP, without code
//	for _, b := range bindings { b.Register(reg) }
//	runner, err := agent.NewRunner(reg, agent.Config{...})                             // or agent.Dial
//	err = runner.Run(ctx)
//
// # An attempt
//
//	           expired, or the same
//	          attempt is held already
//	work ---> read ------------------> dropped (counted)
//	           |
//	           v
//	        waiting ----- stop, or its partition is another's by now ------> delivered again
//	           |  a worker is free, and the group has confirmed that the partition is ours
//	           v
//	        trying <---+
//	           |       | retryable, and another try fits before the complete-by time
//	           |       | (in-agent retry; same attempt, same Idempotency-Key)
//	           +-------+
//	           |
//	           +-- function returned, or no more tries ------> reported -----> finished, committed
//	           +-- the complete-by time passed --------------> late: nothing is reported (C4), finished
//	           +-- stop, and the grace is over --------------> abandoned: delivered again
//
// The circuit breaker stands in front of each try. While it is open an attempt waits as long as its complete-by time
// allows, and else fails retryable, with effect none and a Retry-After.
//
// # Invariants
//
//   - Nothing is reported at or after the complete-by time, and no recovery is tried (MISSION C4).
//   - The committed offset of a partition never passes a request that is unfinished and not expired, so an instance
//     that dies loses nothing (C5). A request is finished only when its report is durable (or may not be sent), or, with
//     effect none, is about to be sent: if the instance dies between, the complete-by time ends the attempt.
//   - A failed attempt has the effect none only if each of its tries has, and no other instance can have had its request.
//   - A request is started only after the group has confirmed, behind the reading of it, that its partition is ours.
//   - A request whose report says effect none is never run again: before the report is sent, a commit has recorded that
//     it is finished, by the low-water mark or by the runs in the commit's metadata (done.go), which every later commit
//     repeats and the next instance skips. Where that cannot be had in time, the report says unknown.
//   - An attempt is run once at a time in a process, however often it is delivered.
//   - Per agent at most its concurrency runs, and at most twice that is held; lanes of different agents share nothing.
//
// # How many at once
//
// Fewer than the concurrency run while calls take more than three times as long as before (limit.go): as many as bring
// them down to that, and not less than the share by which they slowed down. The beats say so, owners then send less, and
// when calls are quick again it is taken back in a second or two. A request that was sent before waits for a third of its
// time at most and then begins all the same, below the concurrency: what waits here is not lost for it. A backend that
// takes as long with a quarter of the calls is slow for another reason, and is used in full again after half a minute.
// FixedLimit and limit: fixed switch it off. Calls that take less than 25 ms longer than before are never slow.
//
// # Many instances
//
// Instances of an agent share the partitions of its work topic as static members of a group, under the names in their
// beats. A partition moves when an instance comes or goes, and when one that is silent is removed (by a node, or by the
// group after a session of 10 s). Reading is not fenced: who does not know yet that it lost a partition reads on, and
// what it has begun goes on in any case. So a request may run in two instances, both with the same Idempotency-Key, and
// the engine believes the report that comes first. That one must not say effect none while the other run may still have
// one. It holds by two rules, whatever was paused for how long:
//
//	(1) An instance begins a request only after the group has told it, in answer to a question that was asked after the
//	    request was read, that it had the partition still (proof.go).
//	(2) Whoever is assigned a partition asks afterwards where it ends. What lies below may have been read by others: a
//	    failure of it is of unknown effect (Assigned.Shared). What lies above can only be ours: another one that reads it
//	    reads it after our assignment, and by (1) it is told so before it begins.
//
// A partition for which nothing was ever committed was read by nobody: its first reader commits before it begins, and
// says effect none of all that waits there. A member that was forgotten, or missed a generation, and comes back to what
// it had, takes it as assigned anew. What the last commit records as finished is begun by nobody (done.go).
//
// The answer of (1) is also worth little for long: an instance that was stopped and wakes after more than 3 s asks again,
// so that it does not begin what has been done, and perhaps undone, meanwhile. This is a matter of time and so no
// guarantee; between the last question and the call a pause of any length may fall. The service is asked to refuse a do
// that comes after its undo.
//
// At a stop an instance finishes what runs, within its grace, commits, and leaves its groups. Where partitions are taken
// from it while it runs, it begins nothing more of them, and still reports what it had begun. Commits for them are
// refused, which is no fault. If another process takes its name, the older one ends with FencedError.
//
// Left is that one attempt may lie at two offsets. An engine that dies may send it twice; of an attempt that an earlier
// epoch began the engine takes effect none for unknown. And a broker that lost what it knew of its producers (the embedded
// one does when it dies) may store twice what is sent again; if then also the partition moves to another instance between
// the two copies, only the Idempotency-Key guards.
//
// # Failures
//
// Any error of a function is retryable and of unknown effect. Permanent, NoEffect and RetryAfter say otherwise, and
// combine. A panic is of class internal. Input that does not decode is permanent without effect; an output over the
// limit is permanent. Go functions are tried once per attempt unless WithRetry asks for more; bindings use DefaultRetry.
//
// A context ends at the complete-by time with the cause ErrCompleteBy. A function that does not return then keeps its
// place among the concurrent ones until it does.
//
// # HTTP bindings
//
//	agent: package
//	http:
//	  base: "${ env.PACKAGE_URL }"          # sees env only
//	  concurrency: 64
//	  limit: adaptive                       # default; fixed: as many at once as concurrency says, however slow they are
//	  timeout: 2s                           # of one try; default: the complete-by time
//	  breaker: {failures: 0.5, window: 10s, calls: 10, open: 2s}
//	  retry: {tries: 3, backoff: 50ms, max: 1s}
//	  headers: {Authorization: "Bearer ${ env.PACKAGE_TOKEN }"}
//	do:   {method: PUT, path: "/api/packages/${ input.id }", body: "${ input.package }"}
//	undo: {method: DELETE, path: "/api/packages/${ input.id }"}
//
// Expressions see input, task.id, task.run, task.workflow, task.version, step, attempt and env; those of undo also
// output, which is null where the outcome is unknown. Each variable of env that is named must be set. In a path,
// values are percent-encoded whole; an empty one, and a segment that is "." or "..", is refused (permanent, effect
// none). A body that is a string is sent as text, any other as JSON, none as an empty one; a Content-Type among the
// headers overrides the type, and with a JSON one a string is sent as JSON.
//
// Each request carries Idempotency-Key, Sagalog-Task, Sagalog-Run, Sagalog-Step, Sagalog-Attempt, traceparent, Accept
// and User-Agent. In the Sagalog headers each byte that is a control character, a space, a percent sign or not ASCII is
// percent-encoded.
//
//	2xx                      completed
//	408 425 429 5xx          retryable, effect unknown; Retry-After in both forms
//	other 4xx                permanent, effect none
//	3xx                      permanent, effect unknown (redirects are not followed)
//	no connection            retryable, effect none
//	timeout, broken answer   retryable, effect unknown
//
// A Retry-After that fits before the complete-by time is waited for; else the attempt is reported with it, and the engine
// waits. Output: JSON as it is (by content type; without one, objects and arrays), other text as a string, an empty
// body as null, bytes that are not UTF-8 as {"base64": "..."}. The body of a refusal becomes the error's detail (up to
// 16 KiB), never its message. Values of environment variables (of six bytes and more) are taken out of both.
//
// # It refuses
//
// to store anything, to decide about retries across attempts (the engine does, durably), to follow redirects, and to
// import a Kafka client: records come and go through Source and Sink (only dial.go knows internal/kafka).
package agent
