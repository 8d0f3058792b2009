package events

import (
	"crypto/sha1"
	"encoding/base32"
	"encoding/json"
	"strconv"

	"github.com/google/uuid"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Operation says whether an attempt does or undoes its step.
type Operation string

// The two operations of a step.
const (
	Do   Operation = "do"
	Undo Operation = "undo"
)

// Work is the value of a record in <ns>.work.<agent>: the request to make one attempt.
// Its record carries the headers of EncodeWork; key = task ID.
type Work struct {
	Task     string `json:"task"`
	Run      int    `json:"run"`
	Workflow string `json:"workflow"`
	Version  int    `json:"version"`
	Step     string `json:"step"`
	Agent    string `json:"agent"`
	// Function is the operation of the agent, if it has a name: see Call.
	Function  string    `json:"function,omitempty"`
	Operation Operation `json:"operation"`
	Attempt   int       `json:"attempt"`
	// IdempotencyKey is the same in all attempts of this operation of this step in this run: see Key.
	IdempotencyKey string `json:"idempotency_key" schema:"uuid"`
	// Undoes is the idempotency key of the do that an undo reverses. A service refuses calls with that key after the undo.
	Undoes     string  `json:"undoes,omitempty" schema:"uuid"`
	CompleteBy Instant `json:"complete_by"`
	// CompleteWithin is the time from the decision to CompleteBy. An agent whose clock differs from the owner's uses it instead. The record
	// leaves it out: the decision is its ce_time.
	CompleteWithin Duration `json:"complete_within,omitzero"`
	// Heartbeat is set if the attempt must show progress. CompleteBy is then its end unless it does: it may go on until the instant
	// before it sent the last progress that was acknowledged, plus Heartbeat, and until CapBy at most.
	Heartbeat Duration `json:"heartbeat,omitzero"`
	CapBy     Instant  `json:"cap_by,omitzero"`
	// Progress is the last progress of the earlier attempts of the step, absent if they showed nothing.
	Progress json.RawMessage `json:"progress,omitempty"`
	// Input is the step's resolved input. For an undo without a mapping it is the input of the do.
	Input json.RawMessage `json:"input,omitempty"`
	// Output is the output of the do, for an undo only; absent if the outcome of the do is unknown.
	Output json.RawMessage `json:"output,omitempty"`
	// Home is the partition of <ns>.reports to which the report goes.
	Home int32 `json:"home"`
	// Ticket is the incarnation of the task. The report echoes it.
	Ticket string `json:"ticket"`
}

// Result is how an attempt ended.
type Result string

// The results that an agent may report.
const (
	ResultCompleted Result = "completed"
	ResultFailed    Result = "failed"
	// ResultProgress: the attempt goes on. See Work.Heartbeat.
	ResultProgress Result = "progress"
)

// MaxProgress is the size of the largest progress that is kept, in bytes.
const MaxProgress = 16 << 10

// Effect says what a failed attempt may have changed outside.
type Effect string

// The effects that a failed attempt may have had. Anything else, and no value at all, counts as EffectInDoubt.
const (
	// EffectNone: nothing changed, and nothing can any more.
	EffectNone Effect = "none"
	// EffectDoneUnknown: the attempt is over, and may have changed something.
	EffectDoneUnknown Effect = "done_unknown"
	// EffectInDoubt: the attempt may have changed something, or may still do so, for example because no answer came.
	EffectInDoubt Effect = "in_doubt"
)

// Class groups errors for policies and for people.
type Class string

// The classes of errors. An agent reports the first three; the engine adds the others.
const (
	// ClassRetryable: another attempt may succeed.
	ClassRetryable Class = "retryable"
	// ClassPermanent: no retry can help; the task goes to its error path at once.
	ClassPermanent Class = "permanent"
	// ClassInternal: the agent itself failed, for example by a panic; retried like ClassRetryable.
	ClassInternal Class = "internal"
	// ClassTimeout: the complete-by time passed without a report.
	ClassTimeout Class = "timeout"
	// ClassExpression: an expression of the definition failed at run time; permanent, and no work was sent.
	ClassExpression Class = "expression"
	// ClassLimit: a limit of the namespace would be exceeded; permanent.
	ClassLimit Class = "limit"
	// ClassCheck: the step completed, and its definition says that this result means failure; permanent.
	ClassCheck Class = "check"
	// ClassDispatch: the broker refused the work request for good.
	ClassDispatch Class = "dispatch"
	// ClassUnavailable: the agent did not try, because its service is failing or it is stopping. With effect none, the attempt does
	// not count.
	ClassUnavailable Class = "unavailable"
)

// NoKeys stands among the missing keys for an instance that can open nothing: it has no key file, or cannot read the topic of keys.
const NoKeys = "*"

// CodeNoKey is the code of an attempt that an agent did not make, because it could not open the content.
const CodeNoKey = "no_key"

// CodeStopped is the code of an attempt during which its agent stopped.
const CodeStopped = "stopped"

// Error is a failure as facts, state and the API show it. Message is one line; Detail is user data.
type Error struct {
	Class   Class  `json:"class"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	// Detail is the remote service's answer as JSON, cut to the limit of a step's output.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Report is the value of a record in <ns>.reports with the ce_type TypeReport: the result of one attempt, or its progress.
type Report struct {
	// Task is left out of the record that EncodeReport makes: its key is the same.
	Task       string          `json:"task,omitempty"`
	Run        int             `json:"run"`
	Step       string          `json:"step"`
	Operation  Operation       `json:"operation"`
	Attempt    int             `json:"attempt"`
	Ticket     string          `json:"ticket,omitempty" schema:"required"`
	Result     Result          `json:"result"`
	Output     json.RawMessage `json:"output,omitempty"`
	Error      *Error          `json:"error,omitempty"`
	Effect     Effect          `json:"effect,omitempty"`
	RetryAfter Duration        `json:"retry_after,omitzero"`
	// Progress is any JSON, for ResultProgress alone.
	Progress json.RawMessage `json:"progress,omitempty"`
	// Instance is the agent instance that did the work.
	Instance  string  `json:"instance,omitempty"`
	StartedAt Instant `json:"started_at,omitzero"`
	// FinishedAt is absent if it is the ce_time of the record.
	FinishedAt Instant `json:"finished_at,omitzero"`
}

// Key returns the idempotency key of an operation of the step that the work is for: the identifier that the remote service sees. It
// is the same in all attempts of the operation in one run, and changes with a rerun. It is also different for a later
// task with the same ID, because a service may remember keys for longer than the engine remembers tasks.
func (w *Work) Key(namespace uuid.UUID, op Operation) string {
	var room [512]byte
	b := jsontext.AppendQuoted(append(append(room[:0], namespace[:]...), '['), w.Task)
	b = jsontext.AppendQuoted(append(b, ','), w.Ticket)
	b = strconv.AppendInt(append(b, ','), int64(w.Run), 10)
	b = jsontext.AppendQuoted(append(b, ','), w.Step)
	b = append(jsontext.AppendQuoted(append(b, ','), string(op)), ']')
	sum := sha1.Sum(b) // RFC 9562 5.5, as uuid.NewSHA1 does it
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// reportIDBytes is how many bytes of a hash name a report: two reports of one source have the same with a probability of 2^-80.
const reportIDBytes = 10

// ID returns the ce_id of the report: a hash of what it is about and of its instance. So a report that is sent again has the same. One
// about progress needs more than that.
func (p *Report) ID() string {
	var room [512]byte
	b := jsontext.AppendQuoted(append(room[:0], '['), p.Task)
	b = jsontext.AppendQuoted(append(b, ','), p.Ticket)
	b = strconv.AppendInt(append(b, ','), int64(p.Run), 10)
	b = jsontext.AppendQuoted(append(b, ','), p.Step)
	b = jsontext.AppendQuoted(append(b, ','), string(p.Operation))
	b = strconv.AppendInt(append(b, ','), int64(p.Attempt), 10)
	b = append(jsontext.AppendQuoted(append(b, ','), p.Instance), ']')
	sum := sha1.Sum(b) // against accidents alone: whoever may write reports may name them as they like
	return ShortID(sum[:reportIDBytes])
}

// shortLetters writes 5 bits in a letter or digit.
var shortLetters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ShortID writes bytes of an identifier as text that is short and easy to copy: 10 of them as 16 letters and digits.
func ShortID(b []byte) string { return shortLetters.EncodeToString(b) }

// Presence is the value of a record in <ns>.presence: the state that an instance of an agent, or a node, publishes about itself
// every second. Key = kind "/" instance.
type Presence struct {
	Kind     string   `json:"kind" schema:"words:PresenceAgent+PresenceNode"`
	Instance string   `json:"instance"`
	Agents   []string `json:"agents,omitempty"`
	Node     string   `json:"node,omitempty"`
	// Operations say whether it does and undoes steps that name no operation, by agent. An agent that is neither here nor in Functions does
	// both.
	Operations map[string][]Operation `json:"operations,omitempty"`
	// Functions are the operations with a name, by agent, and whether it does and undoes them.
	Functions map[string]map[string][]Operation `json:"functions,omitempty"`
	// Capacity is how many attempts it works on at once, by agent.
	Capacity map[string]int `json:"capacity,omitempty"`
	InFlight map[string]int `json:"in_flight,omitempty"`
	// Health is "healthy", "degraded" (a breaker is half open) or "unhealthy" (it is open), by agent.
	Health map[string]string `json:"health,omitempty" schema:"words:Healthy+Degraded+Unhealthy"`
	// MissingKeys are the keys that requests of the last minute needed and the instance lacks, by agent: IDs of keys of the key file, or NoKeys.
	MissingKeys map[string][]string `json:"missing_keys,omitempty"`
	// Partitions are the partitions of work.<agent> that the instance reads, or the partitions that the node owns.
	Partitions map[string][]int32 `json:"partitions,omitempty"`
	HTTP       string             `json:"http,omitempty"`
	// Missing lists the operations that steps in the node's partitions wait for because no live instance offers them.
	Missing []Missing `json:"missing,omitempty"`
	// Unable lists the partitions that the node cannot own now, because it cannot reach a leader of theirs, or because they
	// stopped there.
	Unable []int32 `json:"unable,omitempty"`
	// Stopped lists the partitions that the node should own and cannot go on with.
	Stopped []StoppedPartition `json:"stopped,omitempty"`
	// Level is the highest level of a namespace that the node understands; absent for agents, and for builds before levels.
	Level     int     `json:"level,omitzero"`
	StartedAt Instant `json:"started_at"`
	SeenAt    Instant `json:"seen_at"`
}

// Missing is an operation of an agent that steps wait for because no live instance offers it or no broker takes requests for it.
type Missing struct {
	Agent     string    `json:"agent"`
	Function  string    `json:"function,omitempty"`
	Operation Operation `json:"operation"`
	// Since is when the owner first found a step waiting for it.
	Since Instant `json:"since"`
	// Behind says that instances offer it, but the brokers take no requests for it.
	Behind bool `json:"behind,omitempty"`
	// NoTopic says why the agent has no work topic, where its absence keeps instances away.
	NoTopic string `json:"no_topic,omitempty"`
}

// StoppedPartition is a partition that a node should own and cannot go on with.
type StoppedPartition struct {
	Partition int32 `json:"partition"`
	// Reason is one of the words below.
	Reason string `json:"reason" schema:"words:StoppedInputLost+StoppedLog+StoppedState+StoppedLevel+StoppedClosed+StoppedOther"`
	// Detail is the error that stopped it.
	Detail string `json:"detail,omitempty"`
}

// The reasons why a partition has stopped.
const (
	// StoppedInputLost: an input no longer has the records that come next.
	StoppedInputLost = "input_lost"
	// StoppedLog: the log of the partition has lost records, or cannot be folded.
	StoppedLog = "log"
	// StoppedState: the state that is stored at the node cannot be read or used.
	StoppedState = "state"
	// StoppedLevel: the namespace has a level that the node does not understand.
	StoppedLevel = "level"
	// StoppedClosed: the namespace was closed, because it was copied.
	StoppedClosed = "closed"
	StoppedOther  = "other"
)

// The kinds of presence, and the values of health.
const (
	PresenceAgent = "agent"
	PresenceNode  = "node"

	Healthy   = "healthy"
	Degraded  = "degraded"
	Unhealthy = "unhealthy"
)
