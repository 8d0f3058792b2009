// Package execagent binds agents to commands of this machine by YAML files, without code:
//
//	func main() {
//		execagent.Guard()
//		bindings, err := execagent.Load(os.DirFS("agents"), os.LookupEnv)
//		for _, b := range bindings { b.Register(reg) }
//
// # A binding
//
//	agent: converter
//	exec:
//	  command: [/usr/bin/convert, "--", "${ input.file }"]   # a list; no shell reads it
//	  env: [PATH, HOME]                     # passed on; or {TOKEN: "${ env.TOKEN }", MODE: fast}. Absent: none
//	  dir: /var/lib/converter               # absent: that of the agent
//	  stdin: json                           # default: the input as JSON; none: nothing
//	  stdout: json                          # default: one JSON value; text: one string; lines: a list of strings
//	  grace: 2s                             # from SIGTERM to SIGKILL
//	  exit_codes: {success: [3], retry: [75]}   # or permanent: [1, 2], and all others are retryable
//	  concurrency: 8
//	  public: [REGION]                      # variables whose values are not secret
//	undo:
//	  exec: {command: [/usr/bin/rm, "-f", "--", "${ input.file }.out"]}
//
// An agent with several operations has them by name, besides its own command and undo or instead of them:
//
//	exec: {env: [PATH], concurrency: 4}     # what they share; no command
//	operations:
//	  pack: {exec: {command: [/usr/bin/tar, "-cf", "${ input.to }", "--", "${ input.file }"]}, undo: {exec: {command: [/usr/bin/rm, "-f", "--", "${ input.to }"]}}}
//	  check: {exec: {command: [/usr/bin/sha256sum, "--", "${ input.file }"], stdout: text}}   # of a step with agent: converter, operation: check
//
// The command of an operation takes everything but command from the agent's exec, unless it says otherwise, and the command of undo takes
// it from the command that it undoes. Arguments see input, task.id, task.run, task.workflow, task.version, step, attempt, progress (the last
// one that earlier attempts of the step showed, or null) and env; those of
// undo also see output, which is null if the outcome is unknown. The first element is the program: a path, or a name that is looked up in
// the PATH that env names. An argument whose text begins with an expression is refused if its value begins with a dash, unless "--" comes
// before it: an input must not become an option. An argument is also refused if a value in it is null: a command would take an empty argument
// for something else. Where nothing is wrong with it, say so: ${ input.note ?? "none" }.
//
// # A command
//
// It gets no variable of the agent that env does not name. The agent sets SAGALOG_TASK, SAGALOG_RUN, SAGALOG_WORKFLOW, SAGALOG_VERSION,
// SAGALOG_STEP, SAGALOG_OPERATION (do or undo), SAGALOG_FUNCTION (the operation of the agent, if it has a name), SAGALOG_ATTEMPT,
// SAGALOG_KEY (the idempotency key), SAGALOG_UNDOES (in an undo, the key of what it undoes), SAGALOG_COMPLETE_BY (an instant) and
// TRACEPARENT. Standard input is the input, or {"input": ..., "output": ...} for an undo.
//
// # How it ends
//
//	exit code 0, or one in success   completed; the output is what it wrote to standard output
//	75 (EX_TEMPFAIL), or in retry    retryable, may have had an effect
//	another exit code                permanent, may have had an effect
//	ended by a signal                retryable, in doubt
//	not over in time                 retryable, in doubt
//	not wanted any more (stop)       retryable, in doubt
//	more output than is allowed      permanent, in doubt
//	output that is not as stdout     permanent, may have had an effect
//	the program is not there         permanent, no effect
//	not started for another reason   retryable, no effect
//
// A failure carries the end of standard error (2 KiB) without secrets, and its message quotes the last two lines.
//
// Shortly before the complete-by time, the process group of the command gets SIGTERM, and after the grace, SIGKILL; the grace takes at most
// a quarter of the attempt's time. All of that is over at the complete-by time, so the undo, which begins later, never meets the command.
//
// Each command runs under a guard, which is this program once more. On Linux the guard adopts whatever the command starts: what leaves
// the process group (setsid, a daemon) is killed too, when the command is over or has to end, and so it is when the agent dies (kill -9). On other Unix
// systems only the process group is killed. A command that wants to leave something running has to ask a service manager for it.
//
// # Invariants
//
//   - When an attempt is reported, nothing that it started runs any more (on Linux; elsewhere nothing of its process group).
//   - The memory that a command's output takes is bounded, however much it writes.
//   - Values of environment variables (of six bytes and more) that env passes on or arguments name appear in no message, detail or output. This does not apply to PATH,
//     HOME and the like, and to those that public lists.
//
// # What it refuses to do
//
// It runs no shell, and no command on Windows. It shows no progress: the attempt of a step with a heartbeat ends a heartbeat after its start.
//
// # Stability
//
// The keys of the files, and what they mean, stay as they are within a major version; keys are added. Everything that `go doc` shows of this
// package stays source compatible within a major version.
package execagent
