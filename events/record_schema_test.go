package events_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

// recordSchemas is the published document, and each of its schemas, compiled.
type recordSchemas struct {
	defs     map[string]recordSchema
	compiled map[string]*jsonschema.Schema
}

// recordSchema has what the tests look at.
type recordSchema struct {
	CETypes    []string                   `json:"x-ce-types"`
	Entity     string                     `json:"x-entity"`
	Required   []string                   `json:"required"`
	Properties map[string]json.RawMessage `json:"properties"`
	Additional any                        `json:"additionalProperties"`
}

func publishedSchemas(t *testing.T) recordSchemas {
	t.Helper()
	const id = "https://sagalog.dev/schema/records.schema.json"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(events.RecordSchema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource(id, doc))
	var all struct {
		Defs map[string]recordSchema `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(events.RecordSchema(), &all))
	s := recordSchemas{defs: all.Defs, compiled: map[string]*jsonschema.Schema{}}
	for name := range all.Defs {
		s.compiled[name], err = c.Compile(id + "#/$defs/" + name)
		require.NoError(t, err, name)
	}
	return s
}

// check validates a value against the schema with that name.
func (s *recordSchemas) check(t tester, name string, value []byte) error {
	t.Helper()
	require.Contains(t, s.compiled, name)
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	require.NoError(t, err)
	return s.compiled[name].Validate(v)
}

// entity returns the name of the schema of a kind of entity. Inputs and outputs of tasks are the user's JSON.
func (s *recordSchemas) entity(kind string) string {
	for name, d := range s.defs {
		if d.Entity == kind {
			return name
		}
	}
	return ""
}

// fact validates the body of a record, and the entity that it carries.
func (s *recordSchemas) fact(t tester, r *events.Record) {
	t.Helper()
	name := strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix)
	require.NoError(t, s.check(t, name, r.Value), "%s at offset %d", name, r.Offset)
	var e events.EntityCarried
	if name != string(events.NameEntityCarried) || json.Unmarshal(r.Value, &e) != nil || len(e.Encoding) == 0 {
		return
	}
	if of := s.entity(string(e.Kind)); of != "" {
		require.NoError(t, s.check(t, of, e.Encoding), "the %s at offset %d", e.Kind, r.Offset)
	} else {
		require.Contains(t, []events.Kind{events.KindInput, events.KindOutput}, e.Kind)
	}
}

// Each fact has a schema, whose members are those of the type, and requires those that are written in any case.
func TestEachFactHasASchema(t *testing.T) {
	t.Parallel()
	s := publishedSchemas(t)
	require.Len(t, documentedFacts(t), len(events.Names()))
	for _, name := range events.Names() {
		require.True(t, documentedFacts(t)[name])
		d := s.defs[string(name)]
		require.Equal(t, []string{events.TypePrefix + string(name)}, d.CETypes)
		require.Equal(t, true, d.Additional, "a reader ignores what it does not know")
		body, err := events.NewBody(name)
		require.NoError(t, err)
		var empty map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(asJSON(t, body)), &empty))
		require.ElementsMatch(t, slices.Collect(maps.Keys(empty)), d.Required, name)
		for m := range d.Properties {
			require.Contains(t, factSections(t)[string(name)], "`"+m+"`", name)
		}
	}
}

// Each record of the golden log has the schema of its kind, and each entity that it carries that of the entity.
func TestTheGoldenLogMatchesTheSchemas(t *testing.T) {
	t.Parallel()
	s := publishedSchemas(t)
	lines := readGoldenLog(t)
	require.Greater(t, len(lines), 600)
	for _, l := range lines {
		r := l.record()
		s.fact(t, &r)
	}
}

// So has each record of random logs.
func TestRandomLogsMatchTheSchemas(t *testing.T) {
	t.Parallel()
	s := publishedSchemas(t)
	logs := rapid.Custom(func(t *rapid.T) []entry {
		d := newDriver(t)
		for range rapid.IntRange(40, 300).Draw(t, "facts") {
			d.step()
		}
		return d.log
	})
	kinds := map[events.Name]bool{}
	for seed := range 10 {
		for _, e := range logs.Example(seed) {
			s.fact(t, &e.record)
			kinds[e.fact.Body.Name()] = true
		}
	}
	require.Greater(t, len(kinds), 30)
}

// schemasOfExamples are the schemas of the examples in FORMAT.md that have another name.
var schemasOfExamples = map[string]string{
	"submission": "Submission", "work": "Work", "stop": "Stop", "report": "Report", "request": "Request", "presence": "Presence", "alert": "Alert", "reply": "Reply",
	"task": "TaskEntity", "step": "StepEntity", "taken": "RequestEntity", "partition": "PartitionEntity", "held": "HeldEntity", "definition": "DefinitionEntity",
	"settings": "SettingsChange", "loss": "AcceptedLoss", "pause": "AgentPause", "acknowledgement": "AlertAcknowledgement", "mark": "DeadLetterMark",
	"job": "Job", "progress": "JobProgress", "jobstop": "JobStop", "permit": "PermitMessage", "schedule": "ScheduleDefinition", "end": "TaskEnd",
	"about": "ScheduleRequest", "ask": "ChildMessage", "answer": "ChildAnswer", "hold": "LimitRequest", "named": "LimitDefinition", "hashed": "Submission",
}

// bases returns the examples of FORMAT.md by the schema that they must have.
func bases(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for _, e := range examples(t) {
		name := schemasOfExamples[e.name]
		if _, err := events.NewBody(events.Name(e.name)); err == nil {
			name = e.name
		}
		if e.language == "json" && e.name != "structured" {
			require.NotEmpty(t, name, "the schema of the example %s", e.name)
			list[name] = append(list[name], e.text)
		}
	}
	return list
}

// The examples of the page match, and with one mutation none does: without a required member, with a member of another type, or with an unknown
// word. A member that nobody knows is refused in submissions alone.
func TestSchemasRefuseMutatedRecords(t *testing.T) {
	t.Parallel()
	s := publishedSchemas(t)
	bases := bases(t)
	for _, name := range events.Names() {
		require.NotEmpty(t, bases[string(name)], name)
	}
	words := 0
	for name, list := range bases {
		for _, text := range list {
			require.NoError(t, s.check(t, name, []byte(text)), name)
			require.Equal(t, name == "Submission", s.check(t, name, with(t, text, "some_later_member", "1")) != nil, name)
			for _, m := range s.defs[name].Required {
				require.Error(t, s.check(t, name, with(t, text, m, "")), "%s without %s", name, m)
			}
			refused := 0
			for m, of := range s.defs[name].Properties {
				wrong, word := wrongFor(t, s, of)
				if wrong == "" {
					continue // any JSON
				}
				refused++
				require.Error(t, s.check(t, name, with(t, text, m, wrong)), "%s with %s %s", name, m, wrong)
				if word {
					words++
					require.Error(t, s.check(t, name, with(t, text, m, `"dance"`)), "%s with an unknown word in %s", name, m)
				}
			}
			require.Positive(t, refused, "%s has no member with a type", name)
		}
	}
	require.Greater(t, words, 30)
}

// wrongFor returns a value that the schema of a member must refuse, "" if it takes any, and whether it has a list of words.
func wrongFor(t *testing.T, s recordSchemas, of json.RawMessage) (wrong string, word bool) {
	t.Helper()
	var m struct {
		Ref   string            `json:"$ref"`
		Type  string            `json:"type"`
		Enum  []string          `json:"enum"`
		AnyOf []json.RawMessage `json:"anyOf"`
	}
	require.NoError(t, json.Unmarshal(of, &m))
	switch {
	case m.Type == "string" || m.Enum != nil:
		return "7", m.Enum != nil
	case m.Type != "":
		return `"dance"`, false
	case m.AnyOf != nil:
		return wrongFor(t, s, m.AnyOf[0])
	case m.Ref != "":
		var all struct {
			Defs map[string]json.RawMessage `json:"$defs"`
		}
		require.NoError(t, json.Unmarshal(events.RecordSchema(), &all))
		return wrongFor(t, s, all.Defs[strings.TrimPrefix(m.Ref, "#/$defs/")])
	}
	return "", false
}

// with returns the object with another value of a member, or without the member.
func with(t *testing.T, object, member, value string) []byte {
	t.Helper()
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(object), &all))
	if delete(all, member); value != "" {
		all[member] = json.RawMessage(value)
	}
	return []byte(asJSON(t, all))
}
