package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/sagalog/sagalog/internal/jsontext"
)

// Submission is the object that a producer submits. It is the same over Kafka, HTTP, CLI and Go.
type Submission struct {
	// ID is the ID of the task: 1 to 255 bytes of UTF-8 without control characters, and not "." or "..". The first submission of an ID wins. Without an ID
	// the engine or the client makes one.
	ID string `json:"id,omitempty"`
	// Workflow is the name of the workflow. Required.
	Workflow string `json:"workflow"`
	// Version is the version of the workflow, from 1; by default the current one.
	Version int `json:"version,omitzero"`
	// Input is any JSON that the input schema of the workflow allows; by default null. The size of a whole submission is limited by a setting of the engine.
	Input json.RawMessage `json:"input,omitempty"`
	// Priority is a whole number from -1,000 to 1,000; by default that of the workflow. Tasks with a higher one start first.
	Priority int `json:"priority,omitzero"`
	// Labels are texts by which tasks are found: at most 32, each with a key of 1 to 64 bytes without a colon and a value of at most 256 bytes.
	Labels map[string]string `json:"labels,omitempty"`
	// Deadline is a duration such as "10m", from acceptance or from NotBefore, or an instant.
	Deadline string `json:"deadline,omitempty" schema:"type:Duration|Instant"`
	// NotBefore says before when nothing of the task starts: a duration from acceptance, or an instant.
	NotBefore string `json:"not_before,omitempty" schema:"type:Duration|Instant"`
	// ReplyTo is the topic in which the states of the task are answered, and ReplyKey the key of the answers, by default the task's ID.
	ReplyTo  string `json:"reply_to,omitempty"`
	ReplyKey string `json:"reply_key,omitempty"`
	// Schedule is set by the engine, for the tasks that a schedule starts. It is part of the content, so a task that somebody else submits
	// with the ID of a due time is a conflict, of which the schedule learns.
	Schedule string `json:"schedule,omitempty"`
	// ScheduleBegan is the offset of the record of the definitions with which that schedule began. A task that a deleted schedule of the same name
	// started is therefore a conflict too: its end does not concern this schedule.
	ScheduleBegan int64 `json:"schedule_began,omitzero"`
	// Parent is set by the engine, for the tasks that do a step of another one: a ParentLink. It is part of the content.
	Parent json.RawMessage `json:"parent,omitempty" schema:"type:ParentLink"`
}

// Limits of a submission's members. The limit of its size is a setting.
const (
	MaxTaskID        = 255
	MaxLabels        = 32
	MaxLabelKey      = 64
	MaxLabelValue    = 256
	MaxPriority      = 1000
	MaxNestingLevels = jsontext.MaxDepth

	// maxMembers limits how many members of an object are read, and so how many faults are reported: an object of half a megabyte
	// can have a hundred thousand members. It is above MaxLabels and the number of known members.
	maxMembers = 64
)

// The members of a submission.
var submissionMembers = []string{"id", "workflow", "version", "input", "priority", "labels", "deadline", "not_before", "reply_to", "reply_key"}

// MemberError says which member of an object is wrong, by a JSON pointer.
type MemberError struct {
	Pointer string
	Message string
}

// Error returns the place and the fault.
func (e *MemberError) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

func memberError(pointer, format string, args ...any) error {
	return &MemberError{Pointer: pointer, Message: fmt.Sprintf(format, args...)}
}

// pointerTo returns the JSON pointer of a member (RFC 6901). Long names are cut.
func pointerTo(parent, name string) string {
	return parent + "/" + pointerEscapes.Replace(Clip(name, maxQuotedBytes))
}

// pointerEscapes is created once: creating a replacer for each member would take a tenth of the time to read a submission.
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// ParseSubmission reads a submission object and reports every fault at once, each a *MemberError. The ID may be
// absent: see TaskID.
func ParseSubmission(data []byte) (*Submission, error) {
	if s := readSubmission(data); s != nil {
		return s, nil
	}
	return parseSubmission(data)
}

// readSubmission reads a submission without faults. It returns nil if there may be a fault: parseSubmission then finds and
// names it.
func readSubmission(data []byte) *Submission {
	s := new(Submission)
	r := jsontext.NewReader(data)
	r.Raws = jsontext.CompactRaws
	seen := s.read(&r)
	// A member that is present but empty may be a fault.
	if !r.Done() || bits.OnesCount64(seen) != s.filled() || !utf8.Valid(data) || s.check() != nil {
		return nil
	}
	return s
}

// filled counts the members that are not empty.
func (s *Submission) filled() int {
	return count(s.ID != "") + count(s.Workflow != "") + count(s.Version != 0) + count(s.Input != nil) + count(s.Priority != 0) +
		count(s.Labels != nil) + count(s.Deadline != "") + count(s.NotBefore != "") + count(s.ReplyTo != "") + count(s.ReplyKey != "") + count(s.Schedule != "") + count(s.ScheduleBegan != 0) + count(s.Parent != nil)
}

// check returns a fault of a submission whose members have the right types.
func (s *Submission) check() error {
	switch {
	case s.Workflow == "":
		return memberError("/workflow", "is required: the name of a workflow")
	case s.Version < 0 || s.Priority < -MaxPriority || s.Priority > MaxPriority || len(s.Labels) > MaxLabels:
		return memberError("", "is out of range")
	}
	for name, value := range s.Labels {
		if !LabelAllowed(name, value) {
			return memberError("/labels", "has one that is not allowed")
		}
	}
	if s.ID != "" {
		if err := CheckTaskID(s.ID); err != nil {
			return err
		}
	}
	if s.Schedule != "" && CheckTaskID(s.Schedule) != nil {
		return memberError("/schedule", "is not the name of a schedule")
	}
	if s.ScheduleBegan < 0 {
		return memberError("/schedule_began", "is not the offset of a schedule")
	}
	if _, why := s.ParentLink(); why != "" {
		return memberError("/parent", "%s", why)
	}
	if err := s.checkTimes(); err != nil {
		return err
	}
	return s.checkReply()
}

func parseSubmission(data []byte) (*Submission, error) {
	members, err := objectMembers("", data)
	if err != nil {
		return nil, err
	}
	s := &Submission{}
	var faults []error
	for _, m := range members {
		switch err := s.readMember(m).(type) {
		case nil:
		case interface{ Unwrap() []error }: // several faults of one member
			faults = append(faults, err.Unwrap()...)
		default:
			faults = append(faults, err)
		}
	}
	if s.Workflow == "" && !hasMember(members, "workflow") {
		faults = append(faults, memberError("/workflow", "is required: the name of a workflow"))
	}
	if s.ReplyTo != "" || !hasMember(members, "reply_to") {
		if err := s.checkReply(); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		faults = append(faults, s.checkOrder())
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

type member struct {
	name  string
	value json.RawMessage
}

func hasMember(list []member, name string) bool {
	for _, m := range list {
		if m.name == name {
			return true
		}
	}
	return false
}

// notJSON says what is wrong with a text, in words for its sender.
func notJSON(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

// objectMembers returns the members of the JSON object at the given pointer, in order. It refuses duplicates, since readers
// disagree about which one counts.
func objectMembers(at string, data []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, memberError(at, "is not JSON: %s", notJSON(err))
		}
		return nil, memberError(at, "is not a JSON object such as {\"workflow\":\"...\",\"input\":{...}}")
	}
	var list []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, memberError(at, "is not JSON: %s", notJSON(err))
		}
		m := member{name: t.(string)}
		switch {
		case hasMember(list, m.name):
			return nil, memberError(pointerTo(at, m.name), "occurs twice")
		case len(list) == maxMembers:
			return nil, memberError(at, "has more than %d members", maxMembers)
		}
		if err := d.Decode(&m.value); err != nil {
			return nil, memberError(pointerTo(at, m.name), "is not JSON: %s", notJSON(err))
		}
		list = append(list, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, memberError(at, "is not JSON: %s", notJSON(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, memberError(at, "has something after the object")
	}
	if !utf8.Valid(data) {
		return nil, memberError(at, "is not UTF-8")
	}
	return list, nil
}

func (s *Submission) readMember(m member) error {
	at := pointerTo("", m.name)
	switch m.name {
	case "id":
		if err := json.Unmarshal(m.value, &s.ID); err != nil || s.ID == "" {
			return memberError(at, "is not a text")
		}
		return CheckTaskID(s.ID)
	case "workflow":
		if err := json.Unmarshal(m.value, &s.Workflow); err != nil || s.Workflow == "" {
			return memberError(at, "is not the name of a workflow")
		}
	case "version":
		if err := json.Unmarshal(m.value, &s.Version); err != nil || s.Version < 1 {
			return memberError(at, "is not a version such as 3")
		}
	case "input":
		raw, err := Compact(m.value)
		if err != nil {
			return memberError(at, "is %s", err)
		}
		if err := CheckNumbers(at, raw); err != nil {
			return err
		}
		s.Input = raw
	case "priority":
		if err := json.Unmarshal(m.value, &s.Priority); err != nil || isNull(m.value) || s.Priority < -MaxPriority || s.Priority > MaxPriority {
			return memberError(at, "is not a whole number from %d to %d", -MaxPriority, MaxPriority)
		}
	case "labels":
		return s.readLabels(m.value)
	case "deadline":
		if err := json.Unmarshal(m.value, &s.Deadline); err != nil {
			return memberError(at, "is not a duration such as \"10m\" or an instant such as \"2026-11-21T14:00:00Z\"")
		}
		return s.checkDeadline()
	case "schedule":
		if err := json.Unmarshal(m.value, &s.Schedule); err != nil || CheckTaskID(s.Schedule) != nil {
			return memberError(at, "is not the name of a schedule")
		}
	case "schedule_began":
		if err := json.Unmarshal(m.value, &s.ScheduleBegan); err != nil || s.ScheduleBegan < 1 {
			return memberError(at, "is not the offset of a schedule")
		}
	case "parent":
		return s.readParent(at, m.value)
	case "not_before":
		if err := json.Unmarshal(m.value, &s.NotBefore); err != nil {
			return memberError(at, "is not a duration such as \"10m\" or an instant such as \"2026-11-21T14:00:00Z\"")
		}
		return s.checkNotBefore()
	case "reply_to":
		if err := json.Unmarshal(m.value, &s.ReplyTo); err != nil || s.ReplyTo == "" {
			return memberError(at, "is not the name of a topic")
		}
	case "reply_key":
		if err := json.Unmarshal(m.value, &s.ReplyKey); err != nil || s.ReplyKey == "" {
			return memberError(at, "is not a text")
		}
	default:
		return memberError(at, "is not a member of a submission; %s", Suggest(Clip(m.name, maxQuotedBytes), submissionMembers))
	}
	return nil
}

func (s *Submission) readParent(at string, value json.RawMessage) (err error) {
	if s.Parent, err = Compact(value); err != nil {
		return memberError(at, "is %s", err)
	}
	if p, why := s.ParentLink(); p == nil {
		return memberError(at, "%s", why)
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// readLabels reports the faults in the order of the text, not in that of a map, because a rejection is a fact, and every owner
// must decide the same fact (INV4).
func (s *Submission) readLabels(raw json.RawMessage) error {
	const at = "/labels"
	if len(raw) == 0 || raw[0] != '{' {
		return memberError(at, "is not an object of texts such as {\"region\":\"north\"}")
	}
	members, err := objectMembers(at, raw)
	if err != nil {
		return err
	}
	if len(members) > MaxLabels {
		return memberError(at, "has %d members; %d are allowed", len(members), MaxLabels)
	}
	s.Labels = make(map[string]string, len(members))
	var faults []error
	for _, m := range members {
		var v string
		switch err := json.Unmarshal(m.value, &v); {
		case err != nil || isNull(m.value):
			faults = append(faults, memberError(pointerTo(at, m.name), "is not a text"))
		case !LabelAllowed(m.name, v):
			faults = append(faults, memberError(pointerTo(at, m.name), "%s", LabelRule))
		}
		s.Labels[m.name] = v
	}
	return errors.Join(faults...)
}

// LabelRule says which labels LabelAllowed allows.
var LabelRule = fmt.Sprintf("a key has 1 to %d bytes without a colon, a value up to %d", MaxLabelKey, MaxLabelValue)

// LabelAllowed says whether a task may have a label with that name and value.
func LabelAllowed(name, value string) bool {
	return name != "" && len(name) <= MaxLabelKey && strings.IndexByte(name, ':') < 0 && strings.IndexByte(name, 0) < 0 && len(value) <= MaxLabelValue
}
