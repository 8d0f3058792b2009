package httpagent_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
)

// with is a binding with one call an attempt, and with more keys of its do and undo.
func with(do, undo string) string {
	return "agent: package\nhttp: {base: \"${ env.BASE }\"}\ndo: {method: PUT, path: \"/x?a=1\"" + do + "}\nundo: {method: DELETE, path: /x" + undo + "}\n"
}

func TestABindingSaysWhichStatusesSucceedOrRetry(t *testing.T) {
	t.Parallel()
	keys := ", success: [404, 303], retry_on: [202, 409]"
	for code, want := range map[int]struct {
		class  events.Class
		effect events.Effect
	}{
		200: {}, 404: {}, 303: {},
		202: {events.ClassRetryable, inDoubt}, 409: {events.ClassRetryable, events.EffectNone},
		410: {events.ClassPermanent, events.EffectNone}, 503: {events.ClassRetryable, inDoubt},
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			h := bind(t, with(keys, ""), serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(code)
			}))
			r := h.Do("package", anInput)
			if want.class == "" {
				require.Equal(t, events.ResultCompleted, r.Result, "%+v", r.Error)
				return
			}
			require.Equal(t, want.class, r.Error.Class)
			require.Equal(t, want.effect, r.Effect)
			require.Equal(t, code != 410, r.RetryAfter > 0)
		})
	}
}

func TestTheStatusesOfAnUndoAreItsOwn(t *testing.T) {
	t.Parallel()
	missing := serve(t, status(http.StatusNotFound))
	// After a do that completed, 404 to the first undo is a failure unless the binding says otherwise.
	done := map[string]any{"id": 1}
	require.NotNil(t, bind(t, with("", ""), missing).Undo("package", anInput, done).Error)
	require.Nil(t, bind(t, with("", ", success: [404]"), missing).Undo("package", anInput, done).Error)
	// Without a known outcome it is a success, unless the binding retries it.
	require.Nil(t, bind(t, with("", ""), missing).Undo("package", anInput, nil).Error)
	require.Equal(t, events.ClassRetryable, bind(t, with("", ", retry_on: [404]"), missing).Undo("package", anInput, nil).Error.Class)
}

func TestQueryParametersAreEncodedAndMayRepeat(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	h := bind(t, with(`, query: {q: "${ input.q }", none: "${ input.none }", tag: "${ input.tags }", n: 1.50, b: true}`, ""),
		serve(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI }))
	r := h.Do("package", map[string]any{"q": "a&b=c d", "tags": []any{"x", 2}})
	require.Nil(t, r.Error)
	require.Equal(t, "/x?a=1&b=true&n=1.50&q=a%26b%3Dc+d&tag=x&tag=2", <-got)
	r = h.Do("package", map[string]any{"q": map[string]any{"a": 1}})
	require.Equal(t, events.ClassPermanent, r.Error.Class)
	require.Equal(t, events.EffectNone, r.Effect)
	require.Equal(t, "query: q: a parameter is text, a number, true, false, null, or a list of these", r.Error.Message)
	require.Empty(t, got, "nothing was sent")
}

func TestAnOutputIsMadeOfTheAnswer(t *testing.T) {
	t.Parallel()
	serving := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Order", "o-1")
		w.Header().Set("Set-Cookie", "session=private")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"data":{"n":12345678901234567890}}`)
	})
	out := func(template string) events.Report {
		return bind(t, with(", output: "+template, ""), serving).Do("package", anInput)
	}
	require.Equal(t, `{"n":12345678901234567890}`, string(out(`"${ body.data }"`).Output))
	require.Equal(t, `{"by":"p 1","code":201,"order":"o-1"}`,
		string(out(`{code: "${ status }", order: "${ headers['x-order'] }", by: "${ input.id }"}`).Output))
	require.Equal(t, "null", string(out(`"${ headers['set-cookie'] }"`).Output))
	r := out(`"${ body.missing.data }"`)
	require.Equal(t, events.ClassPermanent, r.Error.Class)
	require.Equal(t, events.EffectDoneUnknown, r.Effect)
	require.Contains(t, r.Error.Message, "answered 201, but output: ")
}

func TestFaultsOfStatusesQueryAndOutputHavePlaces(t *testing.T) {
	t.Parallel()
	_, err := httpagent.Parse("f.yaml", []byte(`agent: a
http: {base: http://x}
do:
  {method: GET, path: /, success: 404, retry_on: [99, x], query: [1], output: "${ env.SECRET }"}
undo:
  {method: GET, path: /, success: [404], retry_on: [404], output: 1, sucess: [404]}
`), func(string) (string, bool) { return "set", true })
	for _, want := range []string{
		"f.yaml:4:35: must be a list of statuses, such as [404, 409]", "f.yaml:4:51: must be a status from 200 to 599",
		"f.yaml:4:55: must be a status from 200 to 599", "f.yaml:4:66: query is a mapping of names to values", "f.yaml:4:",
		"f.yaml:6:67: output belongs to do", "f.yaml:6:3: status 404 is both in success and in retry_on",
		`f.yaml:6:70: unknown key "sucess", did you mean "success"?`,
	} {
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, err, "env")
}

// A cut through a secret would leave a part of it that no longer looks like the secret.
func TestNoPartOfASecretIsLeftAtACut(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"message": 195, "detail": 2043} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := bind(t, oneTry, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, strings.Repeat("x", before)+"s3cr3t-token"+strings.Repeat("y", 17<<10))
			}))
			r := h.Do("package", anInput)
			require.NotContains(t, r.Error.Message+string(r.Error.Detail), "s3cr")
		})
	}
}
