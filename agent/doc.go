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
//	        waiting ----- stop ------> delivered again
//	           |  a worker is free
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
//   - A failed attempt has the effect none only if each of its tries has. (What an earlier delivery of the same attempt
//     did before its instance died is not known here; only the Idempotency-Key guards against that.)
//   - A request whose report says effect none is never run again: before the report is sent, a commit has recorded that
//     it is finished, by the low-water mark or by the runs in the commit's metadata (done.go), which every later commit
//     repeats and the next instance skips. Where that cannot be had in time, the report says unknown.
//   - An attempt is run once at a time in a process, however often it is delivered.
//   - Per agent at most its concurrency runs, and at most twice that is held; lanes of different agents share nothing.
//
// # Protocol gap
//
// Two deliveries are not covered. A request that runs while its partition moves to a living instance runs there too; if
// the other's run ends first and without effect, ours may still have one. And an engine that dies may send an attempt
// twice, at two offsets: instances that do not hold both at once, and are not the same process, do not know that they are
// one. Against both only the Idempotency-Key guards.
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
