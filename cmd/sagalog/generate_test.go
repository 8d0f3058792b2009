package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestTheSchemasArePrinted(t *testing.T) {
	t.Parallel()
	for _, kind := range schemaKinds {
		c := generateCommand()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetArgs([]string{"schema", kind})
		require.NoError(t, c.Execute())
		var doc map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &doc), kind)
		require.Equal(t, "https://json-schema.org/draft/2020-12/schema", doc["$schema"], kind)
	}
	c := generateCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs([]string{"schema", "agents"})
	require.ErrorContains(t, c.Execute(), `there is no schema of "agents": did you mean "agent"?`)
}

func TestTestsBesideWorkflowsAreNoWorkflows(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"a.yaml": {Data: []byte("workflow: a")}, "a.test.yaml": {Data: []byte("workflow: a.yaml")}, "a.schema.json": {Data: []byte("{}")}}
	require.Equal(t, []string{"a.yaml"}, definitionsOnly(files, []string{"a.schema.json", "a.test.yaml", "a.yaml"}))
}
