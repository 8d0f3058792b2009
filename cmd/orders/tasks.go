package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

// task has what the shop reads of a task. The first five members are the record that the pattern keeps of each process; the
// engine derives them from its log.
type task struct {
	ProcessState string `json:"process_state"`
	LockedBy     string `json:"locked_by"`
	CompleteBy   string `json:"complete_by,omitempty"`
	FailureCount int    `json:"failure_count"`
	Reason       string `json:"reason,omitempty"`

	receipt string
}

// errNoTask is returned when the engine has no task for an order: it is still in the outbox, or was forgotten.
var errNoTask = errors.New("the engine has no task for this order")

// tokenVariable holds the token of the engine's API, if it needs one.
const tokenVariable = "SAGALOG_TOKEN"

// tasks reads tasks from an engine's API.
type tasks struct{ api string }

// readWithin bounds one read, so that a page is shown although the engine hangs.
const readWithin = 3 * time.Second

func (t tasks) get(ctx context.Context, id string) (task, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.api+"/v1/tasks/"+url.PathEscape(id), nil)
	if err != nil {
		return task{}, err
	}
	if token := os.Getenv(tokenVariable); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return task{}, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return task{}, errNoTask
	}
	if res.StatusCode != http.StatusOK {
		return task{}, fmt.Errorf("GET %s: %s", req.URL, res.Status)
	}
	var d struct {
		State        string `json:"state"`
		LockedBy     string `json:"locked_by"`
		CompleteBy   string `json:"complete_by"`
		FailureCount int    `json:"failure_count"`
		Reason       string `json:"reason"`
		Output       struct {
			Receipt string `json:"receipt"`
		} `json:"output"`
	}
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil {
		return task{}, fmt.Errorf("GET %s: %w", req.URL, err)
	}
	return task{
		ProcessState: d.State, LockedBy: d.LockedBy, CompleteBy: d.CompleteBy, FailureCount: d.FailureCount, Reason: d.Reason,
		receipt: d.Output.Receipt,
	}, nil
}
