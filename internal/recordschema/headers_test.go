package recordschema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/recordschema"
)

// messages validates headers and values as the AsyncAPI document has them.
type messages struct {
	c   *jsonschema.Compiler
	doc object
}

func documented(t *testing.T) messages {
	t.Helper()
	text := recordschema.AsyncAPI("sagalog")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("mem:doc", doc))
	return messages{c, parsed(t, text)}
}

// check validates a record against a message.
func (m *messages) check(t *testing.T, name string, r *events.Record) error {
	t.Helper()
	headers := object{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	of, err := m.c.Compile("mem:doc#/components/messages/" + name + "/headers")
	require.NoError(t, err)
	if err := of.Validate(headers); err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Value))
	require.NoError(t, err)
	if of, err = m.c.Compile("mem:doc#/components/messages/" + name + "/payload"); err != nil {
		return err
	}
	return of.Validate(value)
}

// without returns the record without a header.
func without(r *events.Record, header string) *events.Record {
	c := *r
	c.Headers = nil
	for _, h := range r.Headers {
		if h.Key != header {
			c.Headers = append(c.Headers, h)
		}
	}
	return &c
}

// The headers and values of the golden log are those of the messages.
func TestTheGoldenLogHasTheDocumentedHeaders(t *testing.T) {
	t.Parallel()
	m := documented(t)
	log, err := os.ReadFile("../../events/testdata/log.jsonl")
	require.NoError(t, err)
	seen := 0
	for line := range strings.Lines(string(log)) {
		var l struct {
			Headers []string `json:"headers"`
			Payload string   `json:"payload"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		r := events.Record{Value: []byte(l.Payload)}
		for i := 0; i < len(l.Headers); i += 2 {
			r.Headers = append(r.Headers, events.Header{Key: l.Headers[i], Value: []byte(l.Headers[i+1])})
		}
		name := strings.TrimPrefix(r.Header(events.HeaderType), events.TypePrefix)
		require.Contains(t, m.doc["channels"].(object)["events"].(object)["messages"], name)
		require.NoError(t, m.check(t, name, &r), line)
		for _, required := range []string{events.HeaderID, events.HeaderType, events.HeaderSpecVersion, events.HeaderSource, events.HeaderTime} {
			if seen%50 == 0 && required != events.HeaderType {
				require.Error(t, m.check(t, name, without(&r, required)), "without %s", required)
			}
		}
		seen++
	}
	require.Greater(t, seen, 600)
}

// So are those of the other records that package events writes.
func TestOtherRecordsHaveTheDocumentedHeaders(t *testing.T) {
	t.Parallel()
	m := documented(t)
	s := events.Subject{ID: "i", Source: "/s", Time: 1, Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	link := events.Link{Task: "t", Incarnation: "1-a/1", Run: 1, N: 1}
	must := func(r events.Record, err error) *events.Record {
		require.NoError(t, err)
		return &r
	}
	for name, r := range map[string]*events.Record{
		"Work":          must(events.EncodeWork(events.Work{Task: "t", Operation: events.Do, IdempotencyKey: "c931e2e9-9c06-5cd3-b040-7a75214ccdcd"}, s)),
		"Stop":          must(events.EncodeStop(events.Stop{Task: "t", Operation: events.Undo}, s)),
		"Report":        must(events.EncodeReport(events.Report{Task: "t", Operation: events.Do, Result: events.ResultCompleted, Ticket: "1-a/1"}, s)),
		"Request":       must(events.EncodeRequest(events.Request{ID: "q", Kind: events.RequestRetry, Task: "t"}, s)),
		"Presence":      must(events.EncodePresence(events.Presence{Kind: events.PresenceAgent, Instance: "a-0", StartedAt: 1, SeenAt: 1}, s)),
		"Reply":         must(events.EncodeReply(events.Reply{ID: "t", State: events.ReplyProcessed, At: 1}, "k", events.Position{Epoch: events.Epoch{N: 1, ID: "a"}, Sequence: 3}, s)),
		"PermitMessage": must(events.EncodePermit(events.TypePermitGrant, events.PermitMessage{Limit: "concurrency/w/k", Link: link}, s)),
	} {
		require.NoError(t, m.check(t, name, r), name)
		other := without(r, events.HeaderType)
		other.Headers = append(other.Headers, events.Header{Key: events.HeaderType, Value: []byte("sagalog.dance")})
		require.Error(t, m.check(t, name, other), "%s with another type", name)
		other = without(r, events.HeaderType)
		other.Value = []byte("7")
		require.Error(t, m.check(t, name, other), "%s with another value", name)
	}
	plain := &events.Record{Value: []byte(`{"workflow": "w"}`)}
	require.NoError(t, m.check(t, "Submission", plain), "a submission needs no headers")
	require.Error(t, m.check(t, "Request", plain), "a request is recognised by its type")
}
