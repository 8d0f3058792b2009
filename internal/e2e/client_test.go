package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// web keeps no idle connections, because the engine is killed from time to time.
var web = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 5 * time.Second}}

// try asks the API. The error is a connection error.
func (e *engine) try(method, path string, body []byte, headers ...string) (int, []byte, error) {
	req, err := http.NewRequest(method, e.HTTP+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := web.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, b, err
}

// ask asks the API and expects the given status.
func (e *engine) ask(want int, method, path string, body []byte, headers ...string) []byte {
	e.t.Helper()
	status, b, err := e.try(method, path, body, headers...)
	require.NoError(e.t, err)
	require.Equal(e.t, want, status, "%s %s: %s", method, path, b)
	return b
}

// task holds the members of a task that the tests look at.
type task struct {
	ID           string          `json:"id"`
	Workflow     string          `json:"workflow"`
	Version      int             `json:"version"`
	State        string          `json:"state"`
	Reason       string          `json:"reason"`
	Input        json.RawMessage `json:"input"`
	Output       json.RawMessage `json:"output"`
	SubmittedAt  time.Time       `json:"submitted_at"`
	EndedAt      time.Time       `json:"ended_at"`
	FailureCount int             `json:"failure_count"`
	Steps        []struct {
		ID      string `json:"id"`
		State   string `json:"state"`
		Attempt int    `json:"attempt"`
		Undo    *struct {
			State   string `json:"state"`
			Attempt int    `json:"attempt"`
		} `json:"undo"`
	} `json:"steps"`
}

func (t *task) step(id string) string {
	for _, s := range t.Steps {
		if s.ID == id {
			return s.State
		}
	}
	return ""
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

// settled waits until the task has ended or is parked.
func (e *engine) settled(id string) task {
	e.t.Helper()
	var got task
	eventually(e.t, patience, fmt.Sprintf("task %q settles", id), func() bool {
		status, b, err := e.try("GET", taskPath(id)+"?wait=20s", nil)
		if err != nil || status != 200 {
			return false
		}
		got = task{}
		require.NoError(e.t, json.Unmarshal(b, &got))
		return got.State == "processed" || got.State == "undone" || got.State == "error"
	})
	return got
}

// list returns one page of the tasks in a state.
func (e *engine) list(query string) []task {
	e.t.Helper()
	var page struct {
		Tasks   []task
		Missing []any
	}
	require.NoError(e.t, json.Unmarshal(e.ask(200, "GET", "/v1/tasks?"+query, nil), &page))
	require.Empty(e.t, page.Missing)
	return page.Tasks
}

// fact holds the members of a history entry that the tests look at.
type fact struct {
	Type    string          `json:"type"`
	Time    time.Time       `json:"time"`
	Step    string          `json:"step"`
	Attempt int             `json:"attempt"`
	Epoch   string          `json:"epoch"`
	Data    json.RawMessage `json:"data"`
}

// history returns the first thousand facts of a task.
func (e *engine) history(id string) []fact {
	e.t.Helper()
	var page struct{ Events []fact }
	require.NoError(e.t, json.Unmarshal(e.ask(200, "GET", taskPath(id)+"/history?limit=1000", nil), &page))
	return page.Events
}

func count(facts []fact, kind string) int {
	n := 0
	for _, f := range facts {
		if f.Type == kind {
			n++
		}
	}
	return n
}

// partition is a line of GET /v1/partitions.
type partition struct {
	Partition     int32  `json:"partition"`
	AppliedOffset int64  `json:"applied_offset"`
	EndOffset     int64  `json:"end_offset"`
	StateHash     string `json:"state_hash"`
	Live          int    `json:"live"`
}

func (e *engine) partitions() []partition {
	e.t.Helper()
	var list []partition
	require.NoError(e.t, json.Unmarshal(e.ask(200, "GET", "/v1/partitions", nil), &list))
	return list
}

// delivery returns the i-th submission, with an ID that the test chooses.
func delivery(id string, i int) []byte {
	d := dronedelivery.Submission(i, 1)
	d.ID = id
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

// submit sends a submission over HTTP and returns its token.
func (e *engine) submit(id string, body []byte) string {
	e.t.Helper()
	var receipt struct{ Token string }
	require.NoError(e.t, json.Unmarshal(e.ask(202, "PUT", taskPath(id), body), &receipt))
	return receipt.Token
}

// percentile returns a percentile of sorted values.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(p*float64(len(sorted)-1))]
}

func requireJSON(t *testing.T, text []byte, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, v), "%s", text)
}
