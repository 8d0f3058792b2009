package dronedelivery

import (
	"encoding/json"
	"net/http"
)

// verdict is what a service decided about a call.
type verdict struct {
	// status is 0 for a call that gets no answer.
	status int
	// body is the answer of a call that succeeded; empty for 204.
	body               json.RawMessage
	problem            *problem
	applied, tombstone bool
	fault              Mode
}

func refused(p *problem) verdict { return verdict{status: p.Status, problem: p} }

func (v verdict) by(m Mode) verdict {
	v.fault = m
	return v
}

func (v verdict) write(w http.ResponseWriter) {
	if v.problem != nil {
		v.problem.write(w)
		return
	}
	if len(v.body) == 0 {
		w.WriteHeader(v.status)
		return
	}
	writeJSON(w, v.status, v.body)
}
