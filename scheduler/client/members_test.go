package client_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/scheduler/client"
	"github.com/stretchr/testify/require"
)

// leftOut are the members of the API's documents that the client does not show, with the reason.
var leftOut = map[string]string{
	"Task.request":    "of a list that names a request, which Query cannot",
	"Task.at":         "of the past, which the client does not read",
	"Step.heartbeat":  "of the definition, and complete_by follows from it",
	"Event.epoch":     "of the engine's own protocol",
	"Event.sequence":  "likewise",
	"Applied.dry_run": "Apply applies",
}

// What the API says of a task, the client shows under the same name.
func TestTheClientShowsWhatTheAPISays(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, pair := range []struct{ api, client any }{
		{api.TaskDocument{}, client.Task{}}, {api.StepDocument{}, client.Step{}}, {api.UndoDocument{}, client.StepUndo{}},
		{api.FanOutDocument{}, client.FanOut{}}, {api.ParentDocument{}, client.Parent{}}, {api.WaitingDocument{}, client.Waiting{}}, {api.SignalDocument{}, client.KeptSignal{}},
		{api.HistoryEvent{}, client.Event{}}, {api.AppliedDocument{}, client.Applied{}},
	} {
		here, kind := members(pair.client), reflect.TypeOf(pair.client).Name()
		for name := range members(pair.api) {
			key := kind + "." + name
			_, without := leftOut[key]
			used[key] = used[key] || without
			require.NotEqual(t, here[name], without, "%s: a member of the API is shown, or left out with a reason", key)
		}
		for name := range here {
			require.True(t, members(pair.api)[name], "%s.%s: the API has no such member", kind, name)
		}
	}
	for key := range leftOut {
		require.True(t, used[key], "%s is not a member of the API any more", key)
	}
}

func members(of any) map[string]bool {
	names := map[string]bool{}
	for i := range reflect.TypeOf(of).NumField() {
		name, _, _ := strings.Cut(reflect.TypeOf(of).Field(i).Tag.Get("json"), ",")
		if name != "" {
			names[name] = true
		}
	}
	return names
}
