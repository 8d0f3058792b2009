package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// printedBy runs a command of generate.
func printedBy(args ...string) (string, error) {
	c := generateCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

func TestGenerateSchemaPrintsOne(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"definition", "schedule", "limit", "agent", "StepCompleted", "Submission", "Report", "TaskEntity"} {
		text, err := printedBy("schema", name)
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &doc), name)
		require.Equal(t, "https://json-schema.org/draft/2020-12/schema", doc["$schema"], name)
	}
	for _, c := range [][2]string{{"agents", `there is no schema of "agents": did you mean "agent"?`}, {"StepComplete", `did you mean "StepCompleted"?`}, {"zebra-zebra", "known are definition, schedule, limit, agent, AcceptedLoss,"}} {
		_, err := printedBy("schema", c[0])
		require.ErrorContains(t, err, c[1])
		require.Equal(t, 2, run(t.Context(), []string{"generate", "schema", c[0]}))
	}
	_, err := printedBy("schema", "Work", "Report")
	require.ErrorContains(t, err, "several schemas need --to DIR")
}

func TestGenerateSchemaPrintsAll(t *testing.T) {
	t.Parallel()
	text, err := printedBy("schema")
	require.NoError(t, err)
	var doc struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	for _, name := range events.Names() {
		require.Contains(t, doc.Defs, string(name))
	}
}

func TestGenerateSchemaWritesFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "schemas")
	_, err := printedBy("schema", "Work", "Wrok", "--to", dir)
	require.ErrorContains(t, err, `did you mean "Work"?`)
	require.NoDirExists(t, dir, "a wrong name writes nothing")
	_, err = printedBy("schema", "Work", "limit", "--to", dir)
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, "Work.schema.json"))
	require.NoError(t, err)
	want, err := printedBy("schema", "Work")
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 2)
	_, err = printedBy("schema", "--to", dir)
	require.NoError(t, err)
	files, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, len(schemaNames()))
	folded := map[string]bool{}
	for _, f := range files {
		folded[strings.ToLower(f.Name())] = true
	}
	require.Len(t, folded, len(files), "they can lie in a file system that ignores case")
}

func TestGenerateAsyncAPIPrintsTheTopics(t *testing.T) {
	t.Parallel()
	text, err := printedBy("asyncapi", "--namespace", "shop", "-o", "json")
	require.NoError(t, err)
	require.True(t, json.Valid([]byte(text)))
	require.Contains(t, text, `"address": "dlq.shop.reports"`)
	text, err = printedBy("asyncapi")
	require.NoError(t, err)
	require.Contains(t, text, "    address: sagalog.work.{agent}\n")
	for _, args := range [][]string{{"asyncapi", "--namespace", "a b"}, {"asyncapi", "-o", "xml"}, {"asyncapi", "x"}} {
		require.Equal(t, 2, run(t.Context(), append([]string{"generate"}, args...)), args)
	}
}

func TestTestsBesideWorkflowsAreNoWorkflows(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"a.yaml": {Data: []byte("workflow: a")}, "a.test.yaml": {Data: []byte("workflow: a.yaml")}, "a.schema.json": {Data: []byte("{}")}}
	require.Equal(t, []string{"a.yaml"}, definitionsOnly(files, []string{"a.schema.json", "a.test.yaml", "a.yaml"}))
}
