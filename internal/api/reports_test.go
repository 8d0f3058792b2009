package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/callback"
)

const (
	callbackSecret    = apitest.CallbackSecret
	callbackNamespace = apitest.NamespaceID
)

// appended holds what the API appends.
type appended struct {
	api.Appender
	mu      sync.Mutex
	records []events.Record
	err     error
}

func (a *appended) Produce(_ context.Context, r events.Record, done func(int32, int64, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.records = append(a.records, r)
	done(r.Partition, int64(len(a.records)), a.err)
}

func (a *appended) reports(t *testing.T) (list []events.Report) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.records {
		_, data, err := events.Open(&r)
		require.NoError(t, err)
		p, err := events.DecodeReport(data)
		require.NoError(t, err)
		if p.Task = string(r.Key); p.FinishedAt == 0 && p.Result != events.ResultProgress {
			p.FinishedAt, err = events.ParseInstant(r.Header(events.HeaderTime))
			require.NoError(t, err)
		}
		list = append(list, p)
	}
	return list
}

// callbacks is an API that takes callbacks of the namespace test, and what it appends and logs.
type callbacks struct {
	*world
	log  *appended
	text *strings.Builder
	at   time.Time
}

func takesCallbacks(t *testing.T, change ...func(*api.Config)) *callbacks {
	t.Helper()
	c := &callbacks{log: &appended{}, text: &strings.Builder{}, at: time.UnixMilli(1_800_000_000_000)}
	c.world = setup(t, append([]func(*api.Config){func(cfg *api.Config) {
		cfg.Appender, cfg.Logger = c.log, slog.New(slog.NewTextHandler(c.text, nil))
		cfg.Now = func() time.Time { c.at = c.at.Add(time.Second / 5); return c.at }
	}}, change...)...)
	return c
}

func ticket(t *testing.T, namespace, secret string, change func(*callback.Ticket)) string {
	t.Helper()
	k, err := callback.NewKeys(secret)
	require.NoError(t, err)
	x := callback.Ticket{Task: "o/17", Run: 2, Step: "charge", Operation: events.Do, Attempt: 3, Incarnation: "2-9f0c/3", StartedAt: 1_000}
	change(&x)
	text, err := k.Sign(x, x.Key(uuid.MustParse(namespace)))
	require.NoError(t, err)
	return text
}

func asIs(*callback.Ticket) {}

func TestACallbackBecomesTheReportOfItsAttempt(t *testing.T) {
	t.Parallel()
	again, undo := func(x *callback.Ticket) { x.Again = true }, func(x *callback.Ticket) { x.Operation = events.Undo }
	failed := func(effect events.Effect, class events.Class) events.Report {
		return events.Report{Result: events.ResultFailed, Effect: effect, Error: &events.Error{Class: class, Code: "no_stock", Message: "no stock", Detail: json.RawMessage(`{"left":0}`)}}
	}
	const failure = `{"error":{"class":"permanent","code":"no_stock","message":"no stock","detail":{"left":0}}`
	for name, c := range map[string]struct {
		change func(*callback.Ticket)
		body   string
		want   events.Report
	}{
		"completed":               {asIs, `{"output":{"parcel":"p-17"}}`, events.Report{Result: events.ResultCompleted, Output: json.RawMessage(`{"parcel":"p-17"}`)}},
		"completed without":       {asIs, `{"output":null}`, events.Report{Result: events.ResultCompleted, Output: json.RawMessage(`null`)}},
		"completed, called twice": {again, `{"output":1}`, events.Report{Result: events.ResultCompleted, Output: json.RawMessage(`1`), Effect: events.EffectInDoubt}},
		"undone":                  {undo, `{"output":{"parcel":"p-17"}}`, events.Report{Operation: events.Undo, Result: events.ResultCompleted}},
		"failed":                  {asIs, failure + `}`, failed(events.EffectInDoubt, events.ClassPermanent)},
		"failed and over":         {asIs, failure + `,"effect":"done_unknown"}`, failed(events.EffectDoneUnknown, events.ClassPermanent)},
		"failed without effect":   {asIs, failure + `,"effect":"none"}`, failed(events.EffectDoneUnknown, events.ClassPermanent)},
		"failed, called twice":    {again, failure + `,"effect":"done_unknown"}`, failed(events.EffectInDoubt, events.ClassPermanent)},
		"failed for now": {asIs, `{"error":{"message":"busy"},"retry_after":"30s"}`, events.Report{
			Result: events.ResultFailed, Effect: events.EffectInDoubt, RetryAfter: events.Duration(30 * time.Second), Error: &events.Error{Class: events.ClassRetryable, Message: "busy"},
		}},
		"progress": {again, `{"progress":{"done":250}}`, events.Report{Result: events.ResultProgress, Progress: json.RawMessage(`{"done":250}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := takesCallbacks(t)
			text := ticket(t, callbackNamespace, callbackSecret, c.change)
			r := w.do("POST", "/v1/reports/"+text, c.body)
			require.Equal(t, 202, r.status, r.body)
			require.JSONEq(t, fmt.Sprintf(`{"result":%q}`, c.want.Result), r.body)
			if c.want.Operation == "" {
				c.want.Operation = events.Do
			}
			c.want.Task, c.want.Run, c.want.Step, c.want.Attempt, c.want.Ticket, c.want.Instance = "o/17", 2, "charge", 3, "2-9f0c/3", "callback"
			got := w.log.reports(t)[0]
			if c.want.Result != events.ResultProgress {
				require.Greater(t, got.FinishedAt, got.StartedAt)
				c.want.StartedAt, c.want.FinishedAt = 1_000, got.FinishedAt
			}
			require.Equal(t, c.want, got)
			record := w.log.records[0]
			require.Equal(t, "test.reports", record.Topic)
			require.Equal(t, events.Home("o/17", apitest.Partitions), record.Partition)
			require.Equal(t, "o/17", string(record.Key))
			e, _, err := events.Open(&record)
			require.NoError(t, err)
			require.Equal(t, events.TypeReport, e.Type)
			for _, h := range record.Headers {
				require.NotContains(t, string(h.Value), text)
			}
			require.NotContains(t, string(record.Value), text)
		})
	}
}

// The same outcome has one ID, however often it comes, and each progress has another.
func TestARepeatedCallbackIsTheSameRecord(t *testing.T) {
	t.Parallel()
	w := takesCallbacks(t)
	path := "/v1/reports/" + ticket(t, callbackNamespace, callbackSecret, asIs)
	for _, body := range []string{`{"output":1}`, `{"output":1}`, `{"progress":1}`, `{"progress":1}`} {
		require.Equal(t, 202, w.do("POST", path, body).status)
	}
	var ids []string
	for i := range w.log.records {
		e, _, err := events.Open(&w.log.records[i])
		require.NoError(t, err)
		ids = append(ids, e.ID)
	}
	require.Equal(t, ids[0], ids[1])
	require.NotEqual(t, ids[2], ids[3])
}

func TestACallbackWithoutAValidTicketIsRefused(t *testing.T) {
	t.Parallel()
	w := takesCallbacks(t)
	valid := ticket(t, callbackNamespace, callbackSecret, asIs)
	answers := map[string]bool{}
	for name, text := range map[string]string{
		"forged": ticket(t, callbackNamespace, strings.Repeat("f", 32), asIs), "of another namespace": ticket(t, uuid.Nil.String(), callbackSecret, asIs), "cut": valid[:len(valid)-2],
		"changed": "A" + valid[1:], "longer": valid + "AAAA", "too long": strings.Repeat("A", callback.MaxTicket+1), "a task": "o-17", "escaped": "%2e%2e",
	} {
		if valid[0] == 'A' && name == "changed" {
			text = "B" + valid[1:]
		}
		// The body is not read: it may be anything.
		r := w.do("POST", "/v1/reports/"+text, `{"outpt`)
		require.Equal(t, 404, r.status, name)
		require.Equal(t, "/v1/reports/{ticket}", r.problem(t).Instance)
		answers[r.body] = true
	}
	require.Len(t, answers, 1, "they are all answered alike")
	require.Empty(t, w.log.records)
	require.Contains(t, w.text.String(), "--callback-key-file")
	require.NotContains(t, w.text.String(), valid[10:40])

	without := takesCallbacks(t, func(c *api.Config) { c.Callbacks = nil })
	r := without.do("POST", "/v1/reports/"+valid, `{"output":1}`)
	require.Equal(t, 404, r.status)
	require.True(t, answers[r.body])
	require.Contains(t, without.text.String(), "this node has no key that checks tickets (--callback-key-file)")
}

func TestACallbackThatCannotBeUsedSaysWhere(t *testing.T) {
	t.Parallel()
	big := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	path := "/v1/reports/" + ticket(t, callbackNamespace, callbackSecret, asIs)
	for body, want := range map[string]string{
		`[]`: "is not an object", `{}`: "exactly one of output", `{"output":1,"error":{"message":"x"}}`: "exactly one of output", `{"outptu":1}`: `did you mean \"output\"`,
		`{"output":1,"effect":"none"}`: `"/effect"`, `{"progress":1,"retry_after":"1s"}`: `"/retry_after"`,
		`{"error":"broken"}`: `"/error"`, `{"error":null}`: `"/error"`, `{"error":{}}`: `"/error/message"`, `{"error":{"message":""}}`: `"/error/message"`,
		`{"error":{"message":"x","class":"timeout"}}`: `"/error/class"`, `{"error":{"message":"x","code":7}}`: `"/error/code"`, `{"error":{"message":"x","why":7}}`: `"/error/why"`,
		`{"error":{"message":` + big(1025) + `}}`:                `"/error/message"`,
		`{"error":{"message":"x","detail":` + big(16<<10) + `}}`: `"/error/detail"`,
		`{"error":{"message":"x"},"effect":"maybe"}`:             `"/effect"`,
		`{"error":{"message":"x"},"retry_after":"soon"}`:         `"/retry_after"`,
		`{"error":{"message":"x"},"retry_after":"25h"}`:          `"/retry_after"`,
		`{"error":{"message":"x"},"retry_after":"-1s"}`:          `"/retry_after"`,
		`{"progress":` + big(events.MaxProgress) + `}`:           `"/progress"`,
	} {
		w := takesCallbacks(t)
		r := w.do("POST", path, body)
		require.Equal(t, 422, r.status, "%s %s", body, r.body)
		require.Contains(t, r.body, strings.ReplaceAll(want, `"/`, `"pointer":"/`), body)
		require.Empty(t, w.log.records)
		require.Equal(t, "/v1/reports/{ticket}", r.problem(t).Instance)
	}
	w := takesCallbacks(t)
	require.Equal(t, 400, w.do("POST", path, `{"output":`).status)
	require.Equal(t, 415, w.do("POST", path, `{"output":1}`, "Content-Type", "text/plain").status)
	require.Equal(t, 413, w.do("POST", path, `{"output":`+big(600<<10)+`}`).status)
	r := w.do("GET", path, "")
	require.Equal(t, 405, r.status)
	require.Equal(t, "/v1/reports/{ticket}", r.problem(t).Instance)
	require.Equal(t, 403, w.do("POST", path, `{"output":1}`, "Origin", "https://example.org", "Sec-Fetch-Site", "cross-site").status)
	require.Equal(t, 421, w.do("POST", path, `{"output":1}`, "Host", "evil.example").status)
	require.Empty(t, w.log.records)
	require.Equal(t, 202, w.do("POST", path, `{"output":`+big(500<<10)+`}`).status, "the largest output that any namespace may allow")
}

// Only the reports of one attempt are slowed down: others go on.
func TestACallbackInALoopIsSlowedDown(t *testing.T) {
	t.Parallel()
	still := time.UnixMilli(1_800_000_000_000)
	w := takesCallbacks(t, func(c *api.Config) { c.Now = func() time.Time { return still } })
	path := "/v1/reports/" + ticket(t, callbackNamespace, callbackSecret, asIs)
	for range 10 {
		require.Equal(t, 202, w.do("POST", path, `{"progress":1}`).status)
	}
	r := w.do("POST", path, `{"progress":1}`)
	require.Equal(t, 429, r.status)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.Equal(t, 202, w.do("POST", "/v1/reports/"+ticket(t, callbackNamespace, callbackSecret, func(x *callback.Ticket) { x.Attempt = 4 }), `{"progress":1}`).status)
	still = still.Add(time.Second)
	require.Equal(t, 202, w.do("POST", path, `{"progress":1}`).status)
}

// The service may send it again.
func TestACallbackThatIsNotDurableIsAnswered503(t *testing.T) {
	t.Parallel()
	w := takesCallbacks(t)
	w.log.err = fmt.Errorf("the disk is full")
	r := w.do("POST", "/v1/reports/"+ticket(t, callbackNamespace, callbackSecret, asIs), `{"output":1}`)
	require.Equal(t, 503, r.status)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.NotContains(t, w.text.String(), "/v1/reports/")
}

func TestAReportThatNobodyCouldReadIsRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9_990) + strings.Repeat("]", 9_990)
	for name, body := range map[string]string{
		"a deep output":           `{"output":` + deep + `}`,
		"a deep detail":           `{"error":{"message":"m","detail":` + deep + `}}`,
		"an output, not UTF-8":    "{\"output\":\"\xff\"}",
		"a detail, not UTF-8":     "{\"error\":{\"message\":\"m\",\"detail\":\"\xff\"}}",
		"a progress that is deep": `{"progress":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	} {
		w := takesCallbacks(t)
		r := w.do("POST", "/v1/reports/"+ticket(t, callbackNamespace, callbackSecret, asIs), body)
		require.Equal(t, 422, r.status, name)
		require.Empty(t, w.log.reports(t), name)
	}
}
