package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/stretchr/testify/require"
)

func (w *world) bulk(body string) []map[string]any {
	w.t.Helper()
	r := w.do("POST", "/v1/tasks", body, "Content-Type", "application/x-ndjson; charset=utf-8")
	require.Equal(w.t, 200, r.status)
	require.Equal(w.t, "application/x-ndjson", r.header.Get("Content-Type"))
	var list []map[string]any
	for line := range strings.Lines(r.body) {
		var v map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(line), &v), line)
		list = append(list, v)
	}
	return list
}

func TestEachLineOfABulkIsAnswered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do("PUT", "/v1/tasks/known", good)
	lines := []string{
		`{"id":"a","workflow":"order","input":{"item":"x"}}`,
		``,
		`{"id":"b","workflow":"ordr"}`,
		`not json`,
		`{"workflow":"order","input":{"item":"x"}}`,
		`{"id":"known","workflow":"order","input":{"item":"lamp"}}`,
		`{"id":"known","workflow":"order","input":{"item":"other"}}`,
		`{"id":"big","workflow":"order","input":{"item":"` + strings.Repeat("x", 5000) + `"}}`,
		`{"id":"c","workflow":"order","input":{"item":7}}`,
		`{"id":"last","workflow":"order","input":{"item":"x"}}`,
	}
	got := w.bulk(strings.Join(lines, "\r\n"))
	var fates []string
	for _, f := range got {
		fates = append(fates, fmt.Sprint(f["line"], " ", f["status"]))
	}
	require.Equal(t, []string{"1 202", "3 404", "4 400", "5 202", "6 200", "7 409", "8 413", "9 422", "10 202"}, fates)
	require.Equal(t, map[string]any{"line": 1.0, "id": "a", "status": 202.0, "partition": float64(events.Home("a", 4)), "offset": got[0]["offset"]}, got[0])
	require.Equal(t, "b", got[1]["id"])
	require.Equal(t, "urn:sagalog:problem:unknown-workflow", got[1]["type"])
	require.Equal(t, "/input/item", got[7]["errors"].([]any)[0].(map[string]any)["pointer"])
	require.Len(t, got[3]["id"], 36)
	require.Len(t, w.engine.Inputs(events.Submissions), 4)
}

func TestABulkSentWithoutReadingAnswersDoesNotBlock(t *testing.T) {
	t.Parallel()
	w := setup(t)
	// About 15 MB of answers, more than the socket buffers between client and server hold.
	const n = 30_000
	body := &strings.Builder{}
	for i := range n {
		fmt.Fprintf(body, "{\"id\":\"%0200d\",\"workflow\":\"x\"}\n", i)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n", body.Len())
	_, err = io.WriteString(conn, body.String())
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := 0
	for s := bufio.NewScanner(resp.Body); s.Scan(); lines++ {
		require.True(t, strings.HasPrefix(s.Text(), fmt.Sprintf(`{"line":%d,`, lines+1)), s.Text())
	}
	require.Equal(t, n, lines)
}

func TestABulkLooksUpAMissingWorkflowOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, f := range w.bulk(strings.Repeat(`{"workflow":"ordr","input":{"item":"x"}}`+"\n", 1000)) {
		require.EqualValues(t, 404, f["status"])
	}
	require.Less(t, w.engine.Lookups(), 20)
}

// A submission without a version gets the one that is current now, so the definitions are read up to their end: for each
// single submission, and once for the lines of a file that arrive together.
func TestDefinitionsAreReadToTheirEndForEachSubmission(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bad := `{"workflow":"order","input":{}}`
	require.Equal(t, 422, w.do("POST", "/v1/tasks", bad).status)
	require.Equal(t, 1, w.engine.Refreshes())
	require.Equal(t, 422, w.do("POST", "/v1/tasks", `{"workflow":"order","version":1,"input":{}}`).status)
	require.Equal(t, 1, w.engine.Refreshes(), "a version never changes")
	r := w.do("POST", "/v1/tasks", strings.Repeat(bad+"\n", 5000), "Content-Type", "application/x-ndjson")
	require.Equal(t, 5000, strings.Count(r.body, `"status":422`))
	require.Less(t, w.engine.Refreshes(), 30)
}

// applied is a view of the definitions that is behind: another node's apply is seen at the next Refresh.
type applied struct {
	*apitest.Engine
	err error
}

func (a *applied) Refresh(ctx context.Context) error {
	if a.err != nil {
		return a.err
	}
	_, _, err := a.Apply(ctx, api.Draft{Name: "order", Source: []byte(`{"workflow":"order","steps":{"other":{"agent":"a"}}}`)})
	return err
}

func TestASubmissionIsNeverStampedWithAStaleVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		stamps []string
	}{
		"behind":    {nil, []string{"hash-order-2", "hash-order-2", "hash-order-1"}},
		"no answer": {api.ErrNoAnswer, []string{"", "", "hash-order-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(cfg *api.Config) { cfg.Workflows = &applied{cfg.Workflows.(*apitest.Engine), c.err} })
			id := idIn(0, "single")
			require.Equal(t, 202, w.do("PUT", "/v1/tasks/"+id, good).status)
			w.bulk(fmt.Sprintf(`{"id":%q,"workflow":"order","input":{"item":"x"}}`+"\n", idIn(0, "bulk")))
			w.do("PUT", "/v1/tasks/"+idIn(0, "named"), `{"workflow":"order","version":1,"input":{"item":"x"}}`)
			var stamps []string
			for _, r := range w.engine.Inputs(events.Submissions) {
				stamps = append(stamps, r.Header(events.HeaderDefinition))
			}
			require.Equal(t, c.stamps, stamps)
		})
	}
}

func TestABulkAnswersWhileItIsSent(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r, out := io.Pipe()
	req, err := http.NewRequest("POST", w.url+"/v1/tasks", r)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	go io.WriteString(out, `{"id":"a","workflow":"order","input":{"item":"x"}}`+"\n")
	resp, err := w.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answers := bufio.NewReader(resp.Body)
	first, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, `"status":202`)
	io.WriteString(out, `{"id":"b","workflow":"order","input":{"item":"x"}}`+"\n")
	second, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, second, `"id":"b"`)
	out.Close()
	_, err = answers.ReadString('\n')
	require.Equal(t, io.EOF, err)
}

func TestATruncatedBulkSubmitsNoHalfLine(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r, out := io.Pipe()
	req, _ := http.NewRequest("POST", w.url+"/v1/tasks", r)
	req.Header.Set("Content-Type", "application/x-ndjson")
	go func() {
		io.WriteString(out, `{"id":"a","workflow":"order","input":{"item":"x"}}`+"\n"+`{"id":"b","workflow":"order","input":{"item":"x"}}`)
		out.CloseWithError(errors.New("the client died"))
	}()
	resp, err := w.client.Do(req)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	for _, in := range w.engine.Inputs(events.Submissions) {
		require.Equal(t, "a", string(in.Key))
	}
}

func TestABulkStopsWhenTheLogNoLongerAcknowledges(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.SetDown(errors.New("gone"))
	got := w.bulk(strings.Repeat(`{"workflow":"order","input":{"item":"x"}}`+"\n", 3))
	require.NotEmpty(t, got)
	require.EqualValues(t, 503, got[0]["status"])
}
