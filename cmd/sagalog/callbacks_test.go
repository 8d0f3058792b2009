package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// printer is a service that only accepts jobs: how they end, it reports by their callbacks.
type printer struct {
	t    *testing.T
	url  string
	jobs chan string

	mu sync.Mutex
	// early says that the next job is reported before its call is answered.
	early string
}

func newPrinter(t *testing.T) *printer {
	p := &printer{t: t, jobs: make(chan string, 10)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.Header.Get("Sagalog-Callback")
		p.mu.Lock()
		early := p.early
		p.early = ""
		p.mu.Unlock()
		if early != "" {
			if code, _ := post(at, early); code != http.StatusAccepted {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
		}
		w.WriteHeader(http.StatusAccepted)
		p.jobs <- at
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// post reports, and returns the status and the body of the answer.
func post(url, body string) (int, string) {
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(b)
}

const printing = `
workflow: print
steps:
  print: {agent: printer, with: {page: "${ input.page }"}, complete_within: 5m, retry: {attempts: 2, backoff: 10ms, then: undo}}
output: "${ steps.print.output }"
`

// printShop is the folder of an engine with the printer's workflow and agent.
func printShop(t *testing.T, p *printer) (place, []string) {
	at := place{dir: t.TempDir(), env: []string{"PRINTER_URL=" + p.url}}
	for name, text := range map[string]string{
		"w/print.yaml": printing,
		"a/print.yaml": "agent: printer\nhttp: {base: \"${ env.PRINTER_URL }\"}\ndo: {method: POST, path: /jobs, body: \"${ input }\", accepted: [202]}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(at.dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(at.dir, name), []byte(text), 0o600))
	}
	return at, []string{"dev", "--kafka", "127.0.0.1:0", "--demo", "none", "--partitions", "2", "--workflows", "w", "--agents", "a"}
}

// printed is a task of the engine, as `task get` shows it.
type printed struct {
	State  string          `json:"state"`
	Output json.RawMessage `json:"output"`
	Reason string          `json:"reason"`
}

func TestAServiceReportsWhatItAccepted(t *testing.T) {
	t.Parallel()
	service := newPrinter(t)
	at, args := printShop(t, service)
	p := at.start(t, append(args, "--http", "127.0.0.1:0")...)
	api := p.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP
	submit := func(id string) {
		s := at.run(t, "task", "submit", "--api", api, "-w", "print", "--id", id, "--input", `{"page":7}`)
		require.Equal(t, 0, s.code(), s.err.String())
	}
	ended := func(id string) (got printed) {
		s := at.run(t, "task", "get", "--api", api, id, "--wait", "-o", "json")
		require.NoError(t, json.Unmarshal([]byte(s.out.String()), &got), s.err.String())
		return got
	}
	info, err := os.Stat(filepath.Join(at.dir, "sagalog-data", callbackFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	submit("late")
	url := <-service.jobs
	require.True(t, strings.HasPrefix(url, api+"/v1/reports/"))
	forged, _ := post(url[:len(url)-4]+"AAAA", `{"output":1}`)
	require.Equal(t, http.StatusNotFound, forged)
	code, body := post(url, `{"output":`)
	require.Equal(t, http.StatusBadRequest, code, body)
	code, body = post(url, `{"output":{"sheets":2},"error":{"message":"both"}}`)
	require.Equal(t, http.StatusUnprocessableEntity, code, body)
	require.NotContains(t, body, url[len(url)-20:], "the ticket is in no answer")
	for range 3 { // repeats change nothing
		code, body = post(url, `{"output":{"sheets":2}}`)
		require.Equal(t, http.StatusAccepted, code, body)
	}
	require.JSONEq(t, `{"sheets":2}`, string(ended("late").Output))

	service.mu.Lock()
	service.early = `{"output":{"sheets":3}}`
	service.mu.Unlock()
	submit("early")
	<-service.jobs
	require.JSONEq(t, `{"sheets":3}`, string(ended("early").Output))

	submit("fails")
	for range 2 { // its error is retryable, and two attempts are allowed
		code, body = post(<-service.jobs, `{"error":{"message":"out of paper"},"effect":"done_unknown"}`)
		require.Equal(t, http.StatusAccepted, code, body)
	}
	got := ended("fails")
	require.Equal(t, "undone", got.State)
	require.Contains(t, got.Reason, "out of paper")

	// The engine and its agent die while the service works. The service reports when they are back: the call is not made again.
	address := strings.TrimPrefix(api, "http://")
	submit("killed")
	url = <-service.jobs
	require.NoError(t, p.cmd.Process.Kill())
	<-p.ended
	require.NoError(t, os.Remove(filepath.Join(at.dir, "sagalog-data", endpointsFile)))
	code, _ = post(url, `{"output":{"sheets":4}}`)
	require.Zero(t, code, "nobody is there")
	p = at.start(t, append(args, "--http", address)...)
	require.Equal(t, api, p.endpoints(filepath.Join(at.dir, "sagalog-data")).HTTP)
	code, body = post(url, `{"output":{"sheets":4}}`)
	require.Equal(t, http.StatusAccepted, code, body)
	require.JSONEq(t, `{"sheets":4}`, string(ended("killed").Output))
	require.Equal(t, 0, p.stop())
	ticket := url[strings.LastIndex(url, "/")+1:]
	require.NotContains(t, p.out.String()+p.err.String(), ticket[len(ticket)-40:], "a ticket is in no log")
}

func TestAnAgentThatAcceptsNeedsTheKeyOfCallbacks(t *testing.T) {
	t.Parallel()
	startsMany(t)
	at, _ := printShop(t, &printer{t: t, url: "http://127.0.0.1:1"})
	key := filepath.Join(at.dir, "key")
	require.NoError(t, os.WriteFile(key, []byte("tooshort"), 0o600))
	good := filepath.Join(at.dir, "good")
	require.NoError(t, os.WriteFile(good, []byte(strings.Repeat("ab", 32)), 0o600))
	serve := func(more ...string) *program {
		return at.run(t, append([]string{"serve", "--brokers", "127.0.0.1:1", "--start-within", "1ms", "--node", "n", "--agents", "a"}, more...)...)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "a/print.yaml:3:63: accepted needs a callback, by which the service reports the outcome: start this process and those with the role api with the same --callback-key-file"},
		{[]string{"--callback-key-file", key}, 1, "line 1 of the key of callbacks has 8 characters"},
		{[]string{"--callback-key-file", "absent"}, 1, "--callback-key-file: open absent"},
		{[]string{"--callback-url", "http://x"}, 2, "--callback-url needs --callback-key-file"},
		{[]string{"--callback-key-file", good, "--callback-url", "x:1"}, 2, "--callback-url: the URL of callbacks is not"},
		{[]string{"--callback-key-file", good, "--roles", "agent"}, 2, `--callback-url is missing: the service of agent "printer"`},
	} {
		p := serve(c.args...)
		require.Equal(t, c.code, p.code(), "%v: %s", c.args, p.err.String())
		require.Contains(t, p.err.String(), c.want, fmt.Sprint(c.args))
		require.NotContains(t, p.err.String(), "tooshort")
	}
}
