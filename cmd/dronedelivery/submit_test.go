package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/stretchr/testify/require"
)

// engine imitates a Sagalog whose answers may get lost.
type engine struct {
	// trouble is called for each batch. It may answer the batch itself and return true.
	trouble func(n int, w http.ResponseWriter, ids []string) bool
	// answer is the answer to one line.
	answer func(line int, id string) string

	mu       sync.Mutex
	batches  int
	accepted map[string]int
}

func accept(line int, id string) string {
	return fmt.Sprintf(`{"line":%d,"id":%q,"status":202,"partition":0,"offset":%d}`, line, id, line)
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ids []string
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		var s struct{ ID, Workflow string }
		if json.Unmarshal(lines.Bytes(), &s) != nil || s.Workflow != "drone-delivery" || r.URL.Path != "/v1/tasks" || r.Method != "POST" ||
			r.Header.Get("Content-Type") != "application/x-ndjson" {
			w.WriteHeader(400)
			return
		}
		ids = append(ids, s.ID)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.batches++
	if e.trouble != nil && e.trouble(e.batches, w, ids) {
		return
	}
	for i, id := range ids {
		e.accepted[id]++
		fmt.Fprintln(w, e.answer(i+1, id))
	}
}

func loadInto(t *testing.T, e *engine, args ...string) (code int, report map[string]float64, errs string) {
	t.Helper()
	e.accepted = map[string]int{}
	if e.answer == nil {
		e.answer = accept
	}
	server := httptest.NewServer(e)
	defer server.Close()
	var out, stderr bytes.Buffer
	code = run(t.Context(), append([]string{"load", "--quiet", "--api", server.URL}, args...), &out, &stderr)
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	return code, report, stderr.String()
}

func TestEverySubmissionIsAcknowledgedInTheEnd(t *testing.T) {
	t.Parallel()
	cut := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	tests := map[string]func(w http.ResponseWriter, ids []string){
		"connection lost": func(w http.ResponseWriter, _ []string) { cut(w) },
		"not ready":       func(w http.ResponseWriter, _ []string) { w.WriteHeader(503) },
		"too many":        func(w http.ResponseWriter, _ []string) { w.WriteHeader(429) },
		"half an answer": func(w http.ResponseWriter, ids []string) {
			for i, id := range ids[:len(ids)/2] {
				fmt.Fprintln(w, accept(i+1, id))
			}
			fmt.Fprint(w, `{"line":`)
		},
		"a problem for some": func(w http.ResponseWriter, ids []string) {
			for i, id := range ids {
				if i%2 == 0 {
					fmt.Fprintf(w, `{"type":"about:blank","title":"Service Unavailable","status":503,"line":%d}`+"\n", i+1)
				} else {
					fmt.Fprintln(w, accept(i+1, id))
				}
			}
		},
	}
	for name, trouble := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &engine{trouble: func(n int, w http.ResponseWriter, ids []string) bool {
				if n > 2 {
					return false
				}
				trouble(w, ids)
				return true
			}}
			code, report, errs := loadInto(t, e, "--count", "2500")
			require.Zero(t, code, errs)
			require.EqualValues(t, 2500, report["acknowledged"])
			require.Positive(t, report["sent_again"])
			for id, n := range e.accepted {
				require.Equal(t, 1, n, id)
			}
		})
	}
}

func TestARefusedSubmissionIsReportedAndNotRepeated(t *testing.T) {
	t.Parallel()
	e := &engine{answer: func(line int, id string) string {
		if id == "delivery-7" {
			return `{"type":"about:blank","title":"Conflict","status":409,"detail":"other content","id":"delivery-7"}`
		}
		return accept(line, id)
	}}
	code, report, errs := loadInto(t, e, "--count", "10", "--rate", "1000")
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, errs, "delivery-7: 409 Conflict other content")
	require.EqualValues(t, 9, report["acknowledged"])
	require.EqualValues(t, 1, report["refused"])
	require.Equal(t, 1, e.accepted["delivery-7"])
}

func TestARefusedBatchEndsTheLoad(t *testing.T) {
	t.Parallel()
	e := &engine{trouble: func(_ int, w http.ResponseWriter, _ []string) bool {
		w.WriteHeader(415)
		_, _ = io.WriteString(w, "no NDJSON here")
		return true
	}}
	code, _, errs := loadInto(t, e, "--count", "10")
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, errs, "415 Unsupported Media Type: no NDJSON here")
}

func TestALoadGivesUp(t *testing.T) {
	t.Parallel()
	e := &engine{trouble: func(_ int, w http.ResponseWriter, _ []string) bool {
		w.WriteHeader(503)
		return true
	}}
	code, _, errs := loadInto(t, e, "--count", "1", "--give-up", "1ms")
	require.Equal(t, cli.ExitError, code)
	require.Contains(t, errs, "gave up")
}

func TestTheOutcomeOfAnAnswer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]outcome{
		`{"status":202,"partition":1,"offset":0}`: acknowledged,
		`{"status":200}`: acknowledged,
		`{"status":"accepted","partition":1,"offset":0}`: acknowledged,
		`{"status":"accepted"}`:                          unknown,
		`{"status":503}`:                                 unknown,
		`{"status":429}`:                                 unknown,
		`{"status":422,"errors":[{"message":"x"}]}`:      refused,
		`{}`: unknown,
	} {
		answers, err := readAnswers(strings.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, want, answers[0].outcome(), text)
	}
}

func TestPaceIsSteadyAndCatchesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, handed, late := time.Now(), 0, 0
		err := pace(t.Context(), loadFlags{count: 1000, first: 1, rate: 100}, 50, func(b batch) error {
			require.Equal(t, handed+1, b.from, "in order, without a gap")
			handed += b.to - b.from
			elapsed := time.Since(start)
			require.LessOrEqual(t, handed, due(elapsed, 100, 1000))
			if handed == 201 {
				<-time.After(3 * time.Second) // virtual time: the engine is stuck
				late++
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, 1000, handed)
		require.LessOrEqual(t, late, 1)
		require.InDelta(t, 10, time.Since(start).Seconds(), 0.1, "a stuck engine does not make the load longer")
	})
}
