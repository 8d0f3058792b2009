package dronedelivery

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// problem is the body of a refusal, in the format of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func refusal(status int, format string, args ...any) *problem {
	title := http.StatusText(status)
	if title == "" {
		title = "Status without a name"
	}
	return &problem{Type: "about:blank", Title: title, Status: status, Detail: fmt.Sprintf(format, args...)}
}

func (p *problem) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	// If the answer cannot be written, the caller has gone.
	_ = json.NewEncoder(w).Encode(p)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
