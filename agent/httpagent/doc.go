// Package httpagent binds agents to HTTP services by YAML files, without code:
//
//	bindings, err := httpagent.Load(os.DirFS("agents"), os.LookupEnv)
//	for _, b := range bindings { b.Register(reg) }
//
// # A binding
//
//	agent: package
//	http:
//	  base: "${ env.PACKAGE_URL }"          # sees env only
//	  concurrency: 64
//	  limit: adaptive                       # default; fixed: always as many at once as concurrency, however slow they are
//	  timeout: 2s                           # of one try; default: the complete-by time
//	  breaker: {failures: 0.5, window: 10s, calls: 10, open: 2s}
//	  retry: {tries: 3, backoff: 50ms, max_backoff: 1s}   # default: one call an attempt
//	  headers: {Authorization: "Bearer ${ env.PACKAGE_TOKEN }", X-Region: "${ env.REGION }"}
//	  tls: {ca: /etc/ca.pem, cert: /etc/me.pem, key: "${ env.KEY_FILE }"}   # ca: instead of the system's; cert and key: who we are
//	  oauth: {token_url: "${ env.IDP }/token", client_id: "${ env.ID }", client_secret: "${ env.SECRET }", scopes: [orders]}
//	  public: [REGION]                      # variables whose values are not secret
//	  direct: true                          # no proxy, balancer or mesh answers for the service; default: false
//	do:   {method: PUT, path: "/api/packages/${ input.id }", body: "${ input.package }"}
//	undo: {method: DELETE, path: "/api/packages/${ input.id }", gone: undone}
//
// do and undo may also have
//
//	query: {limit: 10, tag: "${ input.tags }"}   # encoded and added to the path; null leaves it out, a list repeats it
//	success: [404]                               # statuses that complete, besides 2xx
//	retry_on: [202, 409]                         # statuses that are retryable, also among 2xx
//	accepted: [202]                              # statuses (2xx) after which the service reports the outcome by the callback
//	output: "${ body.data }"                     # do only: the output; default: the body
//
// An agent with several operations has them by name, besides do and undo or instead of them; they share the rest of the binding:
//
//	operations:
//	  authorize: {do: {method: POST, path: /holds}, undo: {method: DELETE, path: "/holds/${ output.id }"}}
//	  capture: {do: {method: POST, path: /captures}}      # of a step with agent: bank, operation: capture
//
// An output sees status, headers (names in lower case, without cookies and challenges) and body, and what do sees except env. If it
// fails, the attempt has failed for good, and may have had an effect.
//
// With oauth (client credentials of OAuth 2) the agent gets an access token before the first request and when it expires, through the
// same tls, and sets Authorization. If it gets none, the attempt is retryable, without effect. A 401 to a token that was got for an
// earlier request is retryable, and the next request gets a new one. Outputs and messages never contain a token.
//
// Expressions see input, task.id, task.run, task.workflow, task.version, step, attempt, progress (the last one that earlier attempts of
// the step showed, or null) and env. Expressions in undo also see output, which is null if the outcome is unknown. Each environment variable that an expression names must be set. In a
// path, every special character of a value is percent-encoded. A request is refused (permanent, effect none) if a value is
// empty or a segment is "." or "..". A body that is a string is sent as text, and any other body as JSON. A Content-Type
// among the headers overrides this, and with a JSON type a string is sent as JSON.
//
// # A request
//
// Each request carries Idempotency-Key, Sagalog-Task, Sagalog-Run, Sagalog-Step, Sagalog-Attempt, traceparent, Accept and
// User-Agent. An undo also carries Sagalog-Undoes, the Idempotency-Key of the do that it reverses. After an undo, a service
// should refuse a do with that key. In the Sagalog headers, control characters, spaces, percent signs and bytes outside ASCII are
// percent-encoded.
//
// # Attempts and calls
//
// An attempt of a workflow's retry is one call, unless the binding has retry: each attempt then makes up to that many calls
// within its complete-by time, all with the same Idempotency-Key. With attempts: 4 and tries: 3, a service that is down gets up
// to 12 calls. The engine's attempts are in the log and survive a crash of the agent; tries are not and do not.
//
// # An answer
//
//	2xx                      completed
//	425 429                  retryable, no effect; Retry-After in both forms
//	500 501                  retryable, over, may have had an effect; Retry-After too
//	408 other 5xx            retryable, in doubt; if the binding is direct, as 500; Retry-After too
//	other 4xx                permanent, no effect
//	3xx                      permanent, in doubt (redirects are not followed)
//	no connection            retryable, no effect
//	timeout, broken answer   retryable, in doubt
//
// A status in retry_on is retryable, with the effect of the table; a 2xx is in doubt then.
//
// In doubt means that the service may still be working on the request: a proxy that gives up answers 502 or 504 while the service
// carries on. net/http sends a request again by itself if a kept connection breaks before the answer. Then the answer says
// nothing about the first request, and the attempt is in doubt even if the answer is a 4xx. If it is a success, the undo still waits
// for what the first request may do.
//
// An undo that is answered 404 or 410 has succeeded if the do may never have happened (it did not report completion), or if an
// earlier call of the undo, perhaps by another instance, may have removed the thing. Otherwise the first undo of a do that reported completion has failed for
// good, because it looked in the wrong place, unless undo has gone: undone. (The second undo, after an operator's retry, succeeds.) Any 2xx is the success of an undo, whatever its body
// holds.
//
// If a Retry-After ends before the complete-by time, and the binding has retry, the agent waits for it. Otherwise the report
// carries it, and the engine waits. The output is the body: JSON unchanged (recognized by its content type, or without one if it
// is an object or array), other text as a string, decoded by the charset of the content type, an empty body as null, and
// bytes that are not text as {"base64": "..."}.
//
// A message names method, host and path (not the query, the user or the password), and quotes up to 200 bytes of a
// refusal's explanation: a text, or one of the members detail, message, error_description, error, reason and title. The body of
// a refusal becomes the error's detail, and is cut to 2 KiB if it is over 16 KiB.
//
// A request that is not answered in time is given up by a reset of its connection, so that it cannot reach a busy service
// later.
//
// # A callback
//
// With accepted, each call carries Sagalog-Callback: the URL, with a ticket that is signed for this attempt, to which the service posts
// {"output": ...}, {"error": {"message": ...}, "effect": ...} or {"progress": ...} (the API's document has all members). The agent reports
// nothing about an accepted call and frees its place at once. The attempt is over when the service reports, or at its complete-by time.
// Without SetCallback, a binding with accepted is invalid.
//
// # Invariants
//
//   - A failure is reported without effect only if no connection was made, or if exactly one was used and the service refused the
//     request on it.
//   - A value never leaves its segment of the path.
//   - Values of environment variables (of six bytes and more) appear in no message, detail or output, also not escaped, in a URL
//     or in base64. This does not apply to variables that only base names (a password in it is secret), or that public lists.
//
// # What it refuses to do
//
// It does not follow redirects. It does not start if a binding has a mistake: it reports each mistake with its line and
// column.
//
// # Stability
//
// The keys of the files, and what they mean, stay as they are within a major version; keys are added. Everything that `go doc` shows of this
// package stays source compatible within a major version.
package httpagent
