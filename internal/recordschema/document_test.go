package recordschema_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/recordschema"
)

// A schema alone needs no other document, and judges as the one among all others does.
func TestOneSchemaIsComplete(t *testing.T) {
	t.Parallel()
	names := recordschema.Names()
	for _, name := range events.Names() {
		require.Contains(t, names, string(name))
	}
	for _, name := range names {
		text, ok := recordschema.One(name)
		require.True(t, ok)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource("mem:one", doc))
		s, err := c.Compile("mem:one")
		require.NoError(t, err, name)
		require.Error(t, s.Validate(7.0), name)
	}
	text, _ := recordschema.One("VersionBarrier")
	require.NotContains(t, string(text), "$defs", "it refers to nothing")
	text, _ = recordschema.One("StepCompleted")
	require.Contains(t, string(text), `"Instant": {`)
	require.NotContains(t, string(text), `"Verdict"`, "it has what it needs and no more")
}

// Only records and entities have names: parts of them come with them.
func TestPartsHaveNoNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Verdict", "Instant", "", "stepcompleted"} {
		_, ok := recordschema.One(name)
		require.False(t, ok, name)
	}
	var entities []string
	for _, name := range recordschema.Names() {
		if strings.HasSuffix(name, "Entity") {
			entities = append(entities, name)
		}
	}
	require.Len(t, entities, 9)
}
