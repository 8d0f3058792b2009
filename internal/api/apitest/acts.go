package apitest

import (
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// Acts implements api.Acts for the node of that name.
type Acts string

// Decided implements api.Acts: an operator retried a task whose ID is the name of the node.
func (a Acts) Decided() ([]api.Act, events.Instant) {
	begun := events.At(time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC))
	return []api.Act{{At: begun + 1, By: "ada", Verb: "retry", Kind: "task", Subject: string(a), Result: api.ActGranted, Request: "r1"}}, begun
}

// Defined implements api.Acts: an operator paused an agent later.
func (a Acts) Defined() []api.Act {
	_, begun := a.Decided()
	return []api.Act{{At: begun + 2, By: "bob", Verb: "pause", Kind: "agent", Subject: "bank", Result: api.ActGranted}}
}
