package events

import "encoding/json"

// Stop is the value of a record in <ns>.work.<agent> that says that nobody needs the outcome of an attempt any more. It may be lost:
// nothing depends on it but how long the attempt goes on.
type Stop struct {
	Task      string    `json:"task"`
	Run       int       `json:"run"`
	Step      string    `json:"step"`
	Operation Operation `json:"operation"`
	Attempt   int       `json:"attempt"`
	// Ticket is the incarnation of the task.
	Ticket string `json:"ticket"`
	Reason string `json:"reason,omitempty"`
}

// EffectStop is the kind of a Stop, which is no effect of a fact: no watermark waits for it.
const EffectStop = "stop"

// EncodeStop returns the record of a Stop. Topic and Partition are left to the caller.
func EncodeStop(stop Stop, s Subject) (Record, error) {
	return encode(stop, stop.Task, TypeStop, stop.Task, s)
}

// DecodeStop reads a Stop; false if the record is anything else.
func DecodeStop(r *Record) (Stop, bool) {
	if r.Header(HeaderType) != TypeStop {
		return Stop{}, false
	}
	var s Stop
	err := json.Unmarshal(r.Value, &s)
	return s, err == nil
}
