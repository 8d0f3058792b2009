package recordschema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	yaml "go.yaml.in/yaml/v4"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/recordschema"
)

type object = map[string]any

func parsed(t *testing.T, text []byte) (doc object) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, &doc))
	return doc
}

func format(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../events/FORMAT.md")
	require.NoError(t, err)
	return string(page)
}

// at returns the part of a document to which a reference refers.
func at(t *testing.T, doc object, reference string) object {
	t.Helper()
	var part any = doc
	for key := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
		require.Contains(t, part, key, reference)
		part = part.(object)[key]
	}
	return part.(object)
}

// references returns all references in a text.
func references(text []byte) (list []string) {
	for _, m := range regexp.MustCompile(`"\$ref": "([^"]+)"`).FindAllSubmatch(text, -1) {
		list = append(list, string(m[1]))
	}
	return list
}

// All references lead to something in the document.
func TestReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	texts := [][]byte{recordschema.All(), recordschema.AsyncAPI("shop")}
	for _, name := range recordschema.Names() {
		text, ok := recordschema.One(name)
		require.True(t, ok)
		texts = append(texts, text)
	}
	require.Greater(t, len(texts), 100)
	found := 0
	for _, text := range texts {
		doc := parsed(t, text)
		for _, r := range references(text) {
			at(t, doc, r)
			found++
		}
	}
	require.Greater(t, found, 1000)
}

// The topics are those of the table in FORMAT.md, under the names that they have in the namespace.
func TestTopicsAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	_, table, ok := strings.Cut(format(t), "\n## Topics\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n`<ns>.events` is")
	var want []string
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[1], -1) {
			want = append(want, strings.NewReplacer("<ns>", "shop", "<agent>", "{agent}").Replace(name[1]))
		}
	}
	require.Len(t, want, 10)
	var got []string
	for _, c := range parsed(t, recordschema.AsyncAPI("shop"))["channels"].(object) {
		if address, ok := c.(object)["address"].(string); ok {
			got = append(got, address)
		}
	}
	require.ElementsMatch(t, want, got)
	require.NotContains(t, string(recordschema.AsyncAPI("shop")), "<ns>")
}

// Each ce_type that FORMAT.md or package events names is that of a message.
func TestEachTypeIsThatOfAMessage(t *testing.T) {
	t.Parallel()
	var types []string
	for _, m := range parsed(t, recordschema.AsyncAPI("ns"))["components"].(object)["messages"].(object) {
		if parts, ok := m.(object)["headers"].(object)["allOf"].([]any); ok {
			for _, word := range parts[1].(object)["properties"].(object)[events.HeaderType].(object)["enum"].([]any) {
				types = append(types, word.(string))
			}
		}
	}
	for _, name := range events.Names() {
		require.Contains(t, types, events.TypePrefix+string(name))
	}
	for _, verb := range events.Verbs() {
		require.Contains(t, types, verb.Type())
	}
	_, table, _ := strings.Cut(format(t), "\n| `ce_type` | record |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	named := 0
	for row := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`((?:sagalog)?\\.[a-z.]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			named++
			require.True(t, slices.ContainsFunc(types, func(got string) bool { return strings.HasSuffix(got, m[1]) }), m[1])
		}
	}
	require.Equal(t, 40, named, "the types in the table")
	for _, also := range []string{events.TypeStop, events.TypeTaskEnd, events.TypeSchedule, events.TypeLimit, events.TypeScheduleTrigger, events.TypeDeadLetterMark, events.TypeAgentPause, events.TypeAlertAcknowledgement} {
		require.Contains(t, types, also)
	}
}

// The messages of an operation are messages of its channel.
func TestOperationsUseMessagesOfTheirChannels(t *testing.T) {
	t.Parallel()
	doc := parsed(t, recordschema.AsyncAPI("ns"))
	operations := doc["operations"].(object)
	require.Greater(t, len(operations), 10)
	used := map[string]bool{}
	for name, o := range operations {
		channel := o.(object)["channel"].(object)["$ref"].(string)
		used[channel] = true
		messages, _ := o.(object)["messages"].([]any)
		for _, m := range messages {
			require.True(t, strings.HasPrefix(m.(object)["$ref"].(string), channel+"/messages/"), name)
		}
	}
	require.Len(t, used, len(doc["channels"].(object)), "a channel that no operation uses")
}

// The same document as YAML has the same values.
func TestYAMLSaysTheSame(t *testing.T) {
	t.Parallel()
	text := recordschema.AsyncAPI("ns")
	asYAML, err := recordschema.YAML(text)
	require.NoError(t, err)
	var doc any
	require.NoError(t, yaml.Load(asYAML, &doc))
	again, err := json.Marshal(doc)
	require.NoError(t, err)
	require.JSONEq(t, string(text), string(again))
	require.True(t, bytes.HasPrefix(asYAML, []byte("asyncapi: 3.0.0\n")))
}

// The document has the schema that the AsyncAPI initiative publishes. The check needs its file: .ci/asyncapi gets it.
func TestTheDocumentMatchesTheOfficialSchema(t *testing.T) {
	t.Parallel()
	file := os.Getenv("SAGALOG_ASYNCAPI_SCHEMA")
	if file == "" {
		t.Skip("needs the official schema of AsyncAPI: .ci/asyncapi gets it and runs this test, as step kcat of .ci/run does")
	}
	s, err := jsonschema.NewCompiler().Compile(file)
	require.NoError(t, err)
	doc := parsed(t, recordschema.AsyncAPI("ns"))
	require.NoError(t, s.Validate(doc))
	doc["operations"].(object)["submitTask"].(object)["action"] = "dance"
	require.Error(t, s.Validate(doc))
}
