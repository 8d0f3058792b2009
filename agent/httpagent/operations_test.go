package httpagent_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent/httpagent"
	"github.com/sagalog/sagalog/events"
)

const bankBinding = `
agent: bank
http: {base: "${ env.BASE }"}
operations:
  authorize:
    do:   {method: POST, path: /holds, body: "${ input }"}
    undo: {method: DELETE, path: "/holds/${ output.id }"}
  capture:
    do: {method: POST, path: "/captures/${ input.id }", accepted: [299]}
`

// withoutAccepted is bankBinding whose service reports nothing later.
var withoutAccepted = strings.Replace(bankBinding, ", accepted: [299]", "", 1)

func TestABindingHasSeveralOperations(t *testing.T) {
	t.Parallel()
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"was":"` + r.Method + " " + r.URL.Path + `"}`))
	})
	h := bind(t, withoutAccepted, base)
	for _, c := range []struct {
		call        events.Call
		was, refuse string
	}{
		{events.Call{Function: "authorize", Operation: events.Do}, "POST /holds", ""},
		{events.Call{Function: "authorize", Operation: events.Undo}, "DELETE /holds/7", ""},
		{events.Call{Function: "capture", Operation: events.Do}, "POST /captures/7", ""},
		{events.Call{Function: "capture", Operation: events.Undo}, "", "no_operation"},
		{events.Call{Operation: events.Do}, "", "no_operation"},
	} {
		w := h.Work("bank", c.call.Operation, map[string]any{"id": 7})
		w.Function, w.Output = c.call.Function, []byte(`{"id":7}`)
		h.Send(w)
		r, ok := h.Await(w)
		require.True(t, ok, c.call)
		if c.refuse != "" {
			require.Equal(t, c.refuse, r.Error.Code, c.call)
			continue
		}
		require.Nil(t, r.Error, c.call)
		if c.call.Operation == events.Do {
			require.JSONEq(t, `{"was":"`+c.was+`"}`, string(r.Output), c.call)
		}
	}
}

func TestAnOperationThatMayBeAcceptedNeedsACallback(t *testing.T) {
	t.Parallel()
	all, err := httpagent.Parse("bank.yaml", []byte(bankBinding), func(string) (string, bool) { return "http://127.0.0.1:1", true })
	require.NoError(t, err)
	fault, accepting := all[0].Accepting()
	require.True(t, accepting)
	require.Equal(t, 9, fault.Line)
}

func TestFaultsOfOperationsSayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"operations: {undo: {do: {method: GET, path: /x}}}": `f.yaml:3:14: "undo" names no operation: an operation has a do and an undo`,
		"operations: {b: {undo: {method: GET, path: /x}}}":  `f.yaml:3:17: key "do" is missing`,
		"operations: 5": "f.yaml:3:13: operations is a mapping of names to operations, such as {capture: {...}}",
		"undo: {method: GET, path: /x}\noperations: {b: {do: {method: GET, path: /x}}}":    `f.yaml:1:1: key "do" is missing`,
		"operations: {b: {do: {method: GET, path: /x}}, b: {do: {method: GET, path: /x}}}": `key "b" is set twice`,
	} {
		_, err := httpagent.Parse("f.yaml", []byte("agent: a\nhttp: {base: http://x}\n"+text+"\n"), nil)
		require.ErrorContains(t, err, want, text)
	}
}
