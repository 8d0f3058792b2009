package httpagent_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/agent/httpagent"
)

func published(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(httpagent.JSONSchema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("https://sagalog.dev/schema/agent.schema.json", doc))
	s, err := c.Compile("https://sagalog.dev/schema/agent.schema.json")
	require.NoError(t, err)
	return s
}

// both returns what the schema and the parser say about a file.
func both(t *testing.T, s *jsonschema.Schema, text string) (schema, parser error) {
	t.Helper()
	var v any
	require.NoError(t, yaml.Load([]byte(text), &v))
	_, parser = httpagent.Parse("f", []byte(text), func(string) (string, bool) { return "http://127.0.0.1:1", true })
	return s.Validate(v), parser
}

func TestThePublishedSchemaAcceptsTheExamplesAsParseDoes(t *testing.T) {
	t.Parallel()
	s := published(t)
	files, err := filepath.Glob("../../internal/dronedelivery/files/agents/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	texts := []string{
		"agent: a\nhttp: {base: \"http://x\", concurrency: 5, timeout: 3s, headers: {X-A: b}, retry: {tries: 3, backoff: 1s, max_backoff: 2s}, public: [A], direct: true, limit: fixed, breaker: {failures: 0.5, window: 1s, calls: 3, open: 2s}}\n" +
			"do: {method: GET, path: /x, headers: {X-B: \"${ input.b }\"}, body: {a: [1]}, accepted: [202]}\nundo: {method: DELETE, path: /x, gone: undone, accepted: [200, 299]}\n",
		"agent: a\nhttp: {base: \"http://x\"}\noperations: {b: {do: {method: GET, path: /x, output: 1}, undo: {method: GET, path: /x, gone: undone}}, c-d: {do: {method: GET, path: /x}}}\n",
		"agent: a\nhttp: {base: \"http://x\"}\ndo: {method: GET, path: /x}\noperations: {b: {do: {method: GET, path: /x}}}\n",
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		schema, parser := both(t, s, text)
		require.NoError(t, schema, text)
		require.NoError(t, parser, text)
	}
}

func TestThePublishedSchemaRefusesWrongShapesAsParseDoes(t *testing.T) {
	t.Parallel()
	s := published(t)
	const http, do = "http: {base: \"http://x\"}\n", "do: {method: GET, path: /x}\n"
	for _, text := range []string{
		"{}", "[]", "agent: a\n" + http, "agent: a\n" + do, http + do, "agent: A\n" + http + do,
		"agent: a\nextra: 1\n" + http + do, "agent: a\nhttp: {}\n" + do, "agent: a\n" + http + "do: {method: GET}\n",
		"agent: a\n" + http + "do: {method: FETCH, path: /x}\n", "agent: a\n" + http + "do: {method: GET, path: x}\n",
		"agent: a\n" + http + "do: {method: GET, path: /x, gone: undone}\n", "agent: a\n" + http + do + "undo: {method: GET, path: /x, gone: maybe}\n",
		"agent: a\nhttp: {base: \"http://x\", concurrency: 0}\n" + do, "agent: a\nhttp: {base: \"http://x\", timeout: 5}\n" + do,
		"agent: a\nhttp: {base: \"http://x\", breaker: {failures: 2}}\n" + do, "agent: a\nhttp: {base: \"http://x\", limit: none}\n" + do,
		"agent: a\n" + http + "do: {method: GET, path: /x, accepted: [300]}\n", "agent: a\n" + http + "do: {method: GET, path: /x, accepted: []}\n", "agent: a\n" + http + "do: {method: GET, path: /x, accepted: 202}\n",
		"agent: a\nhttp: {base: \"http://x\", direct: 1}\n" + do, "agent: a\nhttp: {base: \"http://x\", public: A}\n" + do,
		"agent: a\nhttp: {base: \"http://x\", retry: {attempts: 2}}\n" + do, "agent: a\nhttp: {base: \"http://x\", headers: [a]}\n" + do,
		"agent: a\n" + http + "operations: {}\n", "agent: a\n" + http + "operations: []\n", "agent: a\n" + http + "operations: {b: {}}\n", "agent: a\n" + http + "operations: {b: 5}\n",
		"agent: a\n" + http + "operations: {do: {" + "do: {method: GET, path: /x}}}\n", "agent: a\n" + http + "operations: {B: {do: {method: GET, path: /x}}}\n",
		"agent: a\n" + http + "operations: {b: {do: {method: GET, path: /x}, extra: 1}}\n",
		"agent: a\n" + http + "undo: {method: GET, path: /x}\noperations: {b: {do: {method: GET, path: /x}}}\n",
	} {
		schema, parser := both(t, s, text)
		require.Error(t, schema, text)
		require.Error(t, parser, text)
	}
}

// The parser lists its keys when a mapping is missing.
func TestThePublishedSchemaHasExactlyTheKeysOfParse(t *testing.T) {
	t.Parallel()
	var doc map[string]any
	require.NoError(t, json.Unmarshal(httpagent.JSONSchema(), &doc))
	const call = "{method: GET, path: /x}"
	for path, text := range map[string]string{
		"":             "5",
		"http":         "agent: a\nhttp: 5\ndo: " + call,
		"http.breaker": "agent: a\nhttp: {base: \"http://x\", breaker: 5}\ndo: " + call,
		"http.retry":   "agent: a\nhttp: {base: \"http://x\", retry: 5}\ndo: " + call,
		"http.tls":     "agent: a\nhttp: {base: \"http://x\", tls: 5}\ndo: " + call,
		"http.oauth":   "agent: a\nhttp: {base: \"http://x\", oauth: 5}\ndo: " + call,
		"do":           "agent: a\nhttp: {base: \"http://x\"}\ndo: 5",
		"undo":         "agent: a\nhttp: {base: \"http://x\"}\ndo: " + call + "\nundo: 5",
	} {
		_, err := httpagent.Parse("f", []byte(text), nil)
		require.Error(t, err)
		found := regexp.MustCompile(`must be a mapping with ([a-z_, ]+)`).FindStringSubmatch(err.Error())
		require.NotNil(t, found, "%s: %v", path, err)
		at := doc
		for key := range strings.SplitSeq(path, ".") {
			if key != "" {
				at = at["properties"].(map[string]any)[key].(map[string]any)
			}
		}
		// The parser knows the keys of both calls, and says to which of them each belongs.
		other := map[string]string{"do": "gone", "undo": "output"}[path]
		keys := slices.DeleteFunc(strings.Split(found[1], ", "), func(key string) bool { return key == other })
		require.Equal(t, keys, slices.Sorted(maps.Keys(at["properties"].(map[string]any))), path)
	}
}
