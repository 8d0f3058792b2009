package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// answer is one line of the response to a batch: an acknowledgement or a problem.
type answer struct {
	ID     string          `json:"id"`
	Status json.RawMessage `json:"status"`
	Offset *int64          `json:"offset"`
	Title  string          `json:"title"`
	Detail string          `json:"detail"`
	Errors json.RawMessage `json:"errors"`
}

// outcome is what an answer means for the sender.
type outcome string

const (
	acknowledged outcome = "acknowledged"
	refused      outcome = "refused"
	// unknown: there was no answer, or a repeat may get a different one.
	unknown outcome = "unknown"
)

// outcome expects status to be a number. A word counts as an acknowledgement only together with an offset, which is where
// the submission is stored.
func (f answer) outcome() outcome {
	status, err := strconv.Atoi(strings.Trim(string(f.Status), `"`))
	switch {
	case err != nil && f.Offset != nil, err == nil && status >= 200 && status < 300:
		return acknowledged
	case err == nil && status >= 400 && !transient(status):
		return refused
	}
	return unknown
}

func (f answer) text() string {
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

// readAnswers reads all answers; after an error it returns those before it.
func readAnswers(r io.Reader) ([]answer, error) {
	var answers []answer
	d := json.NewDecoder(r)
	for {
		var f answer
		if err := d.Decode(&f); errors.Is(err, io.EOF) {
			return answers, nil
		} else if err != nil {
			return answers, err
		}
		answers = append(answers, f)
	}
}
