package events

import (
	"encoding/json"
	"time"
)

// FormatVersion is the version of facts and fold that this program reads and writes. It is the highest level of a namespace that this
// build understands: see docs/protocol.md, "Versions of nodes".
const FormatVersion = 1

// FirstLevel is the level of a namespace that has recorded no level, and of a node whose heartbeats name none.
const FirstLevel = 1

// Settings are what decisions depend on besides state, input and time. They belong to the namespace, and each
// partition adopts them by a fact, so that changing one never reinterprets the past.
type Settings struct {
	// SubmissionBytes limits a submission's value.
	SubmissionBytes int `json:"submission_bytes"`
	// PayloadBytes limits a step's input and its output.
	PayloadBytes int `json:"payload_bytes"`
	// TaskFacts limits the facts of a task; the task is parked before it would exceed the limit.
	TaskFacts int `json:"task_facts"`
	// HeldRequests limits the requests that are held for tasks that do not exist yet.
	HeldRequests int `json:"held_requests"`
	// HeldFor is how long such a request is held.
	HeldFor Duration `json:"held_for"`
	// Grace is added to an attempt's complete-by time before an undo may start.
	Grace Duration `json:"grace"`
	// RememberFor is how long a finished task, and with it its ID, is remembered, unless its workflow says it: Task.RememberFor.
	RememberFor Duration `json:"remember_for"`
	// KeepLog is how long a fact is kept in the log at least; 0 means for as long as the topic exists.
	KeepLog Duration `json:"keep_log"`
	// RemindAfter is how long a parked task waits for an operator before its alert is repeated, and from then on the time between
	// two repeats; 0 means that it is not repeated.
	RemindAfter Duration `json:"remind_after"`
	// HashEvery is the number of facts between two StateHash facts.
	HashEvery int `json:"hash_every"`
	// ReplyTopics are the topics to which replies may go, with commas: names, or beginnings of names that end in a star.
	ReplyTopics string `json:"reply_topics,omitempty"`
}

// DefaultSettings returns the limits that FORMAT.md names.
func DefaultSettings() Settings {
	return Settings{
		SubmissionBytes: 512 << 10,
		PayloadBytes:    256 << 10,
		TaskFacts:       10_000,
		HeldRequests:    10_000,
		// A submission that follows its cancel comes within seconds; ten minutes allow for a stalled producer.
		HeldFor: Duration(10 * time.Minute),
		// An agent stops at the complete-by time. A request that is still on the wire then arrives within a few seconds or
		// never.
		Grace:       Duration(2 * time.Second),
		RememberFor: Duration(7 * 24 * time.Hour),
		KeepLog:     Duration(30 * 24 * time.Hour),
		// Somebody looks at the alerts every day.
		RemindAfter: Duration(24 * time.Hour),
		HashEvery:   10_000,
	}
}

// PayloadsOfTask is how many of the largest payloads a task may hold when another of its steps starts.
const PayloadsOfTask = 256

// TaskBytes returns how many bytes a task may have in the store when another of its steps starts: beyond that it is parked. An owner holds whole
// tasks in memory, and thousands of items with large outputs would fill it.
func (s *Settings) TaskBytes() int { return PayloadsOfTask * s.PayloadBytes }

// MaxReminders bounds how often the alert about a task is repeated while it stays parked: a task that nobody will ever look at must not
// raise alerts until the end of time.
const MaxReminders = 10

// MinRemember and MaxRemember are the bounds of Settings.RememberFor, and of the remember_for of a workflow.
const (
	MinRemember = Duration(time.Second)
	MaxRemember = Duration(maxSpan)
)

// SettingsKey is the key of the records that change settings.
const SettingsKey = "settings"

// SettingsChange is a record of the definitions that changes settings of the namespace.
type SettingsChange struct {
	// Settings are the new values by the names of the settings; the others stay as they are.
	Settings map[string]json.RawMessage `json:"settings"`
	// By says who changed them.
	By string `json:"by,omitempty"`
	// Level, if it is higher than that of the namespace, becomes the namespace's level: owners may write facts of this level from
	// now on.
	Level int `json:"level,omitzero"`
	// Initial changes only the settings that no earlier record has set, so that two nodes that start at once with different flags
	// agree on the first record's.
	Initial bool `json:"initial,omitempty"`
}
