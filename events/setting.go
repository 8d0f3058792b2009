package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Setting describes a member of Settings. It belongs to the namespace: all nodes decide by the same value.
type Setting struct {
	// Name is the name in records, in the API and on the command line.
	Name string
	// What describes the setting.
	What string
	// Least and Most bound it: a number, or nanoseconds.
	Least, Most int64
	// One of count, span and topics returns the member; the others are nil.
	count  func(*Settings) *int
	span   func(*Settings) *Duration
	topics func(*Settings) *string
}

const (
	// maxCount is far more than a partition can hold.
	maxCount = 1_000_000_000
	// maxSpan keeps instants in range.
	maxSpan = int64(10 * 365 * 24 * time.Hour)
	// MaxPayloadBytes bounds the setting payload_bytes. A fact holds up to two payloads, or a submission of 1 MiB, and a record of
	// the log at most 2 MiB.
	MaxPayloadBytes    = 512 << 10
	maxSubmissionBytes = 1 << 20
)

// settingList is in the order of the members.
var settingList = []Setting{
	{"submission_bytes", "limit of a submission", 1, maxSubmissionBytes, func(s *Settings) *int { return &s.SubmissionBytes }, nil, nil},
	{"payload_bytes", "limit of a step's input and of its output", 1, MaxPayloadBytes, func(s *Settings) *int { return &s.PayloadBytes }, nil, nil},
	{"task_facts", "limit of the facts of a task", 10, maxCount, func(s *Settings) *int { return &s.TaskFacts }, nil, nil},
	{"held_requests", "limit of the requests that are held for tasks that do not exist yet", 0, maxCount, func(s *Settings) *int { return &s.HeldRequests }, nil, nil},
	{"held_for", "how long a request is held for a task that does not exist yet", int64(time.Second), maxSpan, nil, func(s *Settings) *Duration { return &s.HeldFor }, nil},
	{"grace", "how long after a complete-by time a request may still land; no undo starts before that", 0, maxSpan, nil, func(s *Settings) *Duration { return &s.Grace }, nil},
	{"remember_for", "how long a finished task and its ID are remembered", int64(MinRemember), int64(MaxRemember), nil, func(s *Settings) *Duration { return &s.RememberFor }, nil},
	{"keep_log", "how long facts are kept in the log; 0s: forever", 0, maxSpan, nil, func(s *Settings) *Duration { return &s.KeepLog }, nil},
	{"remind_after", "how long a task stays parked before its alert is repeated, and the time between repeats; 0s: it is not repeated", 0, maxSpan, nil, func(s *Settings) *Duration { return &s.RemindAfter }, nil},
	{"hash_every", "facts between two state hashes", 1, maxCount, func(s *Settings) *int { return &s.HashEvery }, nil, nil},
	{"reply_topics", "topics in which tasks may be answered; empty: none", 0, maxReplyTopics, nil, nil, func(s *Settings) *string { return &s.ReplyTopics }},
}

// SettingList returns all settings.
func SettingList() []Setting { return slices.Clone(settingList) }

// SettingOf returns the setting with that name, or an error that suggests a name.
func SettingOf(name string) (Setting, error) {
	var names []string
	for _, x := range settingList {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	return Setting{}, fmt.Errorf("%s is not a setting; %s", strconv.Quote(name), Suggest(name, names))
}

// Value returns the setting as JSON: a number, or a text.
func (x *Setting) Value(of Settings) json.RawMessage {
	if x.topics != nil {
		return json.RawMessage(strconv.Quote(*x.topics(&of)))
	}
	if x.span != nil {
		return json.RawMessage(strconv.Quote(x.span(&of).String()))
	}
	return json.RawMessage(strconv.Itoa(*x.count(&of)))
}

// Text returns the setting as a person writes it.
func (x *Setting) Text(of Settings) string {
	if x.topics != nil {
		return *x.topics(&of)
	}
	if x.span != nil {
		return x.span(&of).String()
	}
	return strconv.Itoa(*x.count(&of))
}

// Range says in words which values are allowed.
func (x *Setting) Range() string {
	if x.topics != nil {
		return fmt.Sprintf("up to %d names of topics with commas; a name that ends in a star stands for all that begin so, such as shop.replies,billing.*", x.Most)
	}
	if x.span != nil {
		return fmt.Sprintf("a duration from %s to %s, such as %s", Duration(x.Least), Duration(x.Most), x.Text(DefaultSettings()))
	}
	return fmt.Sprintf("a number from %d to %d", x.Least, x.Most)
}

// Set changes the setting to a JSON value, or returns an error that names the setting and its range.
func (x *Setting) Set(to *Settings, value json.RawMessage) error {
	if x.topics != nil {
		if list, ok := readReplyTopics(value); ok {
			*x.topics(to) = list
			return nil
		}
		return x.refuse(value)
	}
	if x.span != nil {
		var d Duration
		if json.Unmarshal(value, &d) == nil && x.within(int64(d)) {
			*x.span(to) = d
			return nil
		}
		return x.refuse(value)
	}
	var n int64
	if json.Unmarshal(value, &n) == nil && string(value) != "null" && x.within(n) {
		*x.count(to) = int(n)
		return nil
	}
	return x.refuse(value)
}

func (x *Setting) within(n int64) bool { return n >= x.Least && n <= x.Most }

func (x *Setting) refuse(value json.RawMessage) error {
	text := string(value)
	var quoted string
	if json.Unmarshal(value, &quoted) == nil && text != "null" {
		text = quoted
	}
	return fmt.Errorf("%s %s is not possible: give %s", x.Name, Clip(text, 64), x.Range())
}

// Check returns what is wrong with the first setting that is out of its range.
func (s Settings) Check() error {
	for _, x := range settingList {
		var copied Settings
		if err := x.Set(&copied, x.Value(s)); err != nil {
			return err
		}
	}
	return nil
}
