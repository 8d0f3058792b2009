package scheduler_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/stretchr/testify/require"
)

// produced is a record of a definition that was not parsed before.
func produced(workflow, body string) *events.Record {
	sum := sha256.Sum256([]byte(body))
	src := scheduler.Source{Workflow: workflow, Body: []byte(body), Hash: hex.EncodeToString(sum[:])}
	r, err := scheduler.EncodeDefinition(&src, events.Subject{ID: "1", Source: "/x"}, "")
	if err != nil {
		panic(err)
	}
	return &r
}

func TestAParsedDefinitionIsUsable(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/drone-delivery.yaml")
	require.NoError(t, err)
	many := `{"$defs":{` + strings.TrimSuffix(strings.Repeat(`"DEF":true,`, 1990), ",") + `}}`
	for i := range 1990 {
		many = strings.Replace(many, "DEF", fmt.Sprint("d", i), 1)
	}
	for name, source := range map[string]string{
		"the example":            string(data),
		"a schema in files":      "workflow: w\ninput: {$ref: many.json}\nsteps: {a: {agent: x}}",
		"schemas of 1.2 MB":      "workflow: w\ninput: {properties: {a: {$ref: a.json}, b: {$ref: b.json}}}\nsteps: {a: {agent: x}}",
		"a schema that is false": "workflow: w\ninput: false\nsteps: {a: {agent: x}}",
	} {
		src, faults := scheduler.Parse("", []byte(source), func(ref string) ([]byte, error) {
			switch ref {
			case "many.json":
				return []byte(many), nil
			case "a.json", "b.json":
				return fmt.Appendf(nil, `{"description":%q}`, strings.Repeat(ref, 120_000)), nil
			}
			return os.ReadFile(filepath.Join("testdata", ref))
		})
		require.NotNil(t, src, "%s: %v", name, faults)
		got, err := scheduler.Applied(scheduler.Version{Workflow: src.Workflow, Body: src.Body})
		require.NoError(t, err, name)
		want, err := scheduler.Complete(src.Body)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestADefinitionThatWasNotParsedIsChecked(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"workflow":"w","steps":{"a":{"agent":"x"}},"input":{"enum":[1` + strings.Repeat(",1", 3000) + `]}}`: "the lists of the schema have more than 2000 values",
		`{"workflow":"w","steps":{"a":{"agent":"x","retry":{"attempts":100000}}}}`:                            "attempts",
		`{"workflow":"v","steps":{"a":{"agent":"x"}}}`:                                                        `workflow: is "v", but the key of the record says "w"`,
		`{"workflow":"w","steps":{"a":{"agent":"x","needs":["a"]}}}`:                                          "a",
		`{"workflow":"w"`: "",
		``:                "empty",
	} {
		_, err := scheduler.Applied(scheduler.Version{Workflow: "w", Body: json.RawMessage(body)})
		require.ErrorContains(t, err, want, events.Clip(body, 100))
	}
}

// Every reader ignores the same records, so all number the versions alike.
func TestTheCatalogHasABound(t *testing.T) {
	t.Parallel()
	c := scheduler.NewCatalog(nil)
	large := `{"description":"` + strings.Repeat("x", 3<<19) + `"}`
	require.ErrorContains(t, c.Apply(produced("w", large)), "no room for a version of 1572882 bytes")
	for i := range scheduler.MaxVersions {
		require.NoError(t, c.Apply(produced(fmt.Sprint("w", i%200), fmt.Sprint(i))))
	}
	require.ErrorContains(t, c.Apply(produced("other", `{}`)), "at most 10000 versions")
	_, ok := c.Current("other")
	require.False(t, ok)
	require.NoError(t, c.Apply(produced("w7", "7")), "a version that is known is applied again")
	v, _ := c.Current("w7")
	require.Equal(t, 1, v.Version)
	require.Len(t, c.Versions("w7"), scheduler.MaxVersions/200)
}
