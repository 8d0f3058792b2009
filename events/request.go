package events

import (
	"encoding/json"
	"slices"
	"strings"
)

// Request is the value of a record in <ns>.reports whose ce_type is that of a verb: what an operator or a program asks of a task. ID is
// chosen by the sender; a request with an ID that the task has seen changes nothing.
type Request struct {
	ID     string `json:"id" schema:"optional"`
	Kind   Verb   `json:"kind" schema:"optional"`
	Task   string `json:"task" schema:"optional"`
	Step   string `json:"step,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Attempt is the attempt that a retry refers to; zero means the latest.
	Attempt int `json:"attempt,omitzero"`
	// Operation says whether complete, fail and skip are about the step or its undo. If it is absent, that is the undo if the task is
	// being undone.
	Operation Operation `json:"operation,omitempty"`
	// Output is the output of a step that is skipped or completed.
	Output json.RawMessage `json:"output,omitempty"`
	// With replaces the resolved input of the step that is retried, or of its undo.
	With json.RawMessage `json:"with,omitempty"`
	// Error and Effect say how an attempt failed.
	Error  *Error `json:"error,omitempty"`
	Effect Effect `json:"effect,omitempty"`
	// Signal is the name of a signal, and Payload what comes with it.
	Signal  string          `json:"signal,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// From is the step from which a rerun begins, and Input the task's input in the new run.
	From  string          `json:"from,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// By is the sender of the request, as far as the API knows.
	By string `json:"by,omitempty"`
	// ScheduleBegan is set if a schedule asks: it means the task that it started, and not one of a deleted schedule of its name.
	ScheduleBegan int64 `json:"schedule_began,omitzero"`
}

// Content returns what users put into the request.
func (q *Request) Content() (list []*json.RawMessage) {
	all := []*json.RawMessage{&q.Payload, &q.Output, &q.With, &q.Input}
	if q.Error != nil {
		all = append(all, &q.Error.Detail)
	}
	for _, slot := range all {
		if len(*slot) > 0 {
			list = append(list, slot)
		}
	}
	return list
}

// Reasons for refusing a request, which the owner and others give.
const (
	RefusedUndoing    = "the task is being undone already"
	RefusedKept       = "the task keeps as many signals as it may, 1,000 or 1 MiB of payloads: send it again when a step has taken some"
	RefusedUndoParked = "the task is being undone already, and is parked because an undo failed: remove the cause, then retry the task"
)

// JudgedRequest is what became of a request: the fact at that position grants it, or refuses it with the reason.
type JudgedRequest struct {
	ID      string   `json:"id"`
	Verb    Verb     `json:"verb"`
	Fact    Position `json:"fact"`
	Refused string   `json:"refused,omitempty"`
}

// Verb says what a request asks for.
type Verb string

// The verbs.
const (
	RequestCancel    Verb = "cancel"
	RequestPause     Verb = "pause"
	RequestResume    Verb = "resume"
	RequestRetry     Verb = "retry"
	RequestSkip      Verb = "skip"
	RequestComplete  Verb = "complete"
	RequestFail      Verb = "fail"
	RequestTerminate Verb = "terminate"
	RequestSignal    Verb = "signal"
	RequestRerun     Verb = "rerun"
)

// verbRow says what is particular about a verb.
type verbRow struct {
	verb Verb
	// members are the members of a request that the sender may give, besides id, task, reason and by.
	members []string
	// early says that the request may come before its task, and is held for it.
	early bool
	// submitted says that the request is also taken from <ns>.submissions.
	submitted bool
}

// verbs is the only list of the verbs.
var verbs = []verbRow{
	{verb: RequestCancel, early: true, submitted: true},
	{verb: RequestPause},
	{verb: RequestResume},
	{verb: RequestRetry, members: []string{"step", "attempt", "with"}},
	{verb: RequestSkip, members: []string{"step", "operation", "output"}},
	{verb: RequestComplete, members: []string{"step", "operation", "output"}},
	{verb: RequestFail, members: []string{"step", "operation", "error", "effect"}},
	{verb: RequestTerminate},
	{verb: RequestSignal, members: []string{"signal", "payload"}, early: true, submitted: true},
	{verb: RequestRerun, members: []string{"from", "input"}},
}

// typeRequest is the prefix of the ce_type of requests.
const typeRequest = TypePrefix + "request."

// Verbs returns all verbs.
func Verbs() []Verb {
	list := make([]Verb, len(verbs))
	for i, r := range verbs {
		list[i] = r.verb
	}
	return list
}

// row returns the row of the verb, or the zero value.
func (v Verb) row() verbRow {
	if i := slices.IndexFunc(verbs, func(r verbRow) bool { return r.verb == v }); i >= 0 {
		return verbs[i]
	}
	return verbRow{}
}

// Type returns the ce_type of the records that ask for it.
func (v Verb) Type() string { return typeRequest + string(v) }

// Members returns the members of a request that its sender may give besides the ID, the task and the reason.
func (v Verb) Members() []string { return v.row().members }

// Submitted says whether the request is also taken from <ns>.submissions: who may submit tasks may cancel them and send them signals,
// without the right to write results. One that is sent behind its submission is never early.
func (v Verb) Submitted() bool { return v.row().submitted }

// Early says whether the request may come before its task. It is then held for the task.
func (v Verb) Early() bool { return v.row().early }

// VerbOf returns the verb of a ce_type, or "" if there is no such verb.
func VerbOf(ceType string) Verb {
	name, ok := strings.CutPrefix(ceType, typeRequest)
	if v := Verb(name); ok && v.row().verb == v {
		return v
	}
	return ""
}
