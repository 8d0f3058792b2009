package dronedelivery

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// verdict is what a service decided about a call.
type verdict struct {
	// status is 0 for a call that gets no answer.
	status int
	// body is the answer of a call that succeeded; empty for 204.
	body json.RawMessage
	// garbage is a body that is not JSON, although its type says so.
	garbage            string
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
	switch {
	case v.fault == Cut:
		v.writeHalf(w)
	case v.garbage != "":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(v.status)
		_, _ = io.WriteString(w, v.garbage)
	case len(v.body) == 0:
		w.WriteHeader(v.status)
	default:
		writeJSON(w, v.status, v.body)
	}
}

// writeHalf breaks the connection within the body.
func (v verdict) writeHalf(w http.ResponseWriter) {
	b := append(v.body[:len(v.body):len(v.body)], v.garbage...)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(v.status)
	_, _ = w.Write(b[:len(b)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}
