package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// fate is one line of the answer to a batch: an acknowledgement or a problem.
type fate struct {
	ID     string          `json:"id"`
	Status json.RawMessage `json:"status"`
	Offset *int64          `json:"offset"`
	Title  string          `json:"title"`
	Detail string          `json:"detail"`
	Errors json.RawMessage `json:"errors"`
}

// outcome is what a fate means for the sender.
type outcome string

const (
	acknowledged outcome = "acknowledged"
	refused      outcome = "refused"
	// unknown: no answer, or one that a repeat may change.
	unknown outcome = "unknown"
)

// verdict takes a status as number. A word in its place counts as an acknowledgement only together with an offset,
// which is where the submission is stored.
func (f fate) verdict() outcome {
	status, err := strconv.Atoi(strings.Trim(string(f.Status), `"`))
	switch {
	case err != nil && f.Offset != nil, err == nil && status >= 200 && status < 300:
		return acknowledged
	case err == nil && status >= 400 && !transient(status):
		return refused
	}
	return unknown
}

func (f fate) text() string {
	return strings.TrimSpace(strings.Join([]string{string(f.Status), f.Title, f.Detail, string(f.Errors)}, " "))
}

// transient says whether a repeat may get another answer.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// readFates reads what there is; with an error it returns what came before.
func readFates(r io.Reader) ([]fate, error) {
	var fates []fate
	d := json.NewDecoder(r)
	for {
		var f fate
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			return fates, nil
		} else if err != nil {
			return fates, err
		}
		fates = append(fates, f)
	}
}
