package supervisor

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unsealed are the JSON values in facts that hold no content of a user, or that were sealed before they became a fact.
var unsealed = []string{
	"DefinitionAdopted.Body", "LimitAdopted.Body", "ScheduleAdopted.Body", "ScheduleFired.Submission", // definitions, and what follows from them
	"CarryBegun.State", "EntityCarried.Encoding", // the state that other facts led to
	"Submitted.Input",                                                                    // sealed by who submits it
	"RequestHeld.Payload", "RequestHeld.Output", "RequestHeld.With", "RequestHeld.Input", // for a task that is not known: sealed by who sends it
}

// A new fact with content of users must be sealed too.
func TestAllContentOfFactsIsSealed(t *testing.T) {
	t.Parallel()
	found := 0
	for _, name := range events.Names() {
		body, err := events.NewBody(name)
		require.NoError(t, err)
		slots := contentOf(body)
		v := reflect.ValueOf(body).Elem()
		for _, f := range reflect.VisibleFields(v.Type()) {
			path := []int(f.Index)
			if f.Type == reflect.TypeFor[events.Error]() {
				detail, _ := f.Type.FieldByName("Detail")
				f, path = detail, append(slices.Clone(path), detail.Index...)
			}
			if f.Type != reflect.TypeFor[json.RawMessage]() || slices.Contains(unsealed, v.Type().Name()+"."+f.Name) {
				continue
			}
			found++
			at := v.FieldByIndex(path).Addr().Interface().(*json.RawMessage)
			assert.True(t, slices.Contains(slots, at), "%s.%s is not sealed, and is not one of the exceptions", name, f.Name)
		}
	}
	require.Greater(t, found, 10)
}
