package events

import (
	"maps"
	"slices"
	"strings"
)

// HeldRequest is the entity of a request whose task does not exist yet. Its ID is the task's ID, a NUL, and the request's ID.
type HeldRequest struct {
	Request   Request `json:"request"`
	ExpiresAt Instant `json:"expires_at"`
	Cause     Cause   `json:"cause"`
	CauseHash string  `json:"cause_hash,omitempty"`
}

func (h *HeldRequest) id() string { return heldID(h.Request.Task, h.Request.ID) }

func heldID(task, request string) string { return task + "\x00" + request }

// heldRequests holds the held requests by task, then by ID.
type heldRequests map[string]map[string]*HeldRequest

func (all heldRequests) put(h *HeldRequest) {
	of := all[h.Request.Task]
	if of == nil {
		of = map[string]*HeldRequest{}
		all[h.Request.Task] = of
	}
	of[h.Request.ID] = h
}

func (all heldRequests) drop(task, request string) {
	delete(all[task], request)
	if len(all[task]) == 0 {
		delete(all, task)
	}
}

// HeldFor returns the requests held for a task, in the order of their IDs.
func (s *State) HeldFor(task string) []*HeldRequest {
	if len(s.held[task]) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(s.held[task]), func(a, b *HeldRequest) int { return strings.Compare(a.Request.ID, b.Request.ID) })
}

// Held returns all held requests in no order.
func (s *State) Held() []*HeldRequest {
	list := make([]*HeldRequest, 0, len(s.held))
	for _, of := range s.held {
		list = slices.AppendSeq(list, maps.Values(of))
	}
	return list
}
