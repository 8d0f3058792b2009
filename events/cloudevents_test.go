package events_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func headers(pairs ...string) []events.Header {
	var h []events.Header
	for i := 0; i < len(pairs); i += 2 {
		h = append(h, events.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return h
}

// A plain value and the same CloudEvent in binary and in structured mode have the same result.
func TestPlainBinaryAndStructuredRecordsAreEqual(t *testing.T) {
	t.Parallel()
	const data = `{"workflow":"w"}`
	full := events.Envelope{ID: "i", Source: "/s", Type: events.TypeSubmission, Time: "2026-11-21T14:00:00Z", Subject: "t", Traceparent: "00-1-2-01"}
	structured := `{"specversion":"1.0","id":"i","source":"/s","type":"sagalog.submission","time":"2026-11-21T14:00:00Z","subject":"t","traceparent":"00-1-2-01","extension":7,`
	for name, c := range map[string]struct {
		r    events.Record
		want events.Envelope
	}{
		"plain":                {events.Record{Value: []byte(data)}, events.Envelope{}},
		"plain, with its type": {events.Record{Value: []byte(data), Headers: headers("content-type", "application/json")}, events.Envelope{}},
		"binary": {events.Record{Value: []byte(data), Headers: headers("content-type", "application/json", "ce_specversion", "1.0", "ce_id", "i",
			"ce_source", "/s", "ce_type", "sagalog.submission", "ce_time", "2026-11-21T14:00:00Z", "ce_subject", "t", "ce_traceparent", "00-1-2-01")}, full},
		"structured": {events.Record{Value: []byte(structured + `"data":` + data + `}`), Headers: headers("content-type", "application/cloudevents+json")}, full},
		"structured, with a character set": {events.Record{Value: []byte(structured + `"data":` + data + `}`),
			Headers: headers("content-type", " Application/CloudEvents+JSON; charset=UTF-8")}, full},
		"structured, base64": {events.Record{Value: []byte(structured + `"data_base64":"eyJ3b3JrZmxvdyI6IncifQ=="}`),
			Headers: headers("content-type", "application/cloudevents+json")}, full},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, got, err := events.Open(&c.r)
			require.NoError(t, err)
			require.Equal(t, c.want, e)
			require.Equal(t, data, string(got))
		})
	}
	for name, r := range map[string]events.Record{
		"a binary event of another version":     {Headers: headers("ce_specversion", "0.3")},
		"a structured event of another version": {Value: []byte(`{"specversion":"0.3"}`), Headers: headers("content-type", "application/cloudevents+json")},
		"a structured event without version":    {Value: []byte(`{}`), Headers: headers("content-type", "application/cloudevents+json")},
		"a structured event that is not JSON":   {Value: []byte(`<a/>`), Headers: headers("content-type", "application/cloudevents+json")},
		"a time that is no text":                {Value: []byte(`{"specversion":"1.0","time":5}`), Headers: headers("content-type", "application/cloudevents+json")},
		"bad base64":                            {Value: []byte(`{"specversion":"1.0","data_base64":"*"}`), Headers: headers("content-type", "application/cloudevents+json")},
		"data twice":                            {Value: []byte(`{"specversion":"1.0","data":1,"data_base64":"YQ=="}`), Headers: headers("content-type", "application/cloudevents+json")},
		"another event format":                  {Value: []byte(`x`), Headers: headers("content-type", "application/cloudevents+avro")},
		"a batch":                               {Value: []byte(`[]`), Headers: headers("content-type", "application/cloudevents-batch+json")},
	} {
		_, _, err := events.Open(&r)
		require.ErrorIs(t, err, events.ErrNotCloudEvent, name)
	}
}

// A malformed traceparent is dropped: no limit covers its length, and it would be kept in the task.
func TestOpenDropsForeignTraceparents(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"\xff", "a b", "a\n", strings.Repeat("a", 257)} {
		e, _, err := events.Open(&events.Record{Headers: headers("ce_traceparent", bad)})
		require.NoError(t, err)
		require.Empty(t, e.Traceparent)
	}
}

// conformant checks that a record written by Sagalog conforms to CloudEvents 1.0 and its Kafka binding.
func conformant(t *testing.T, r events.Record) {
	t.Helper()
	seen := map[string]string{}
	for _, h := range r.Headers {
		require.NotContains(t, seen, h.Key, "a header occurs twice")
		require.True(t, utf8.Valid(h.Value), h.Key)
		seen[h.Key] = string(h.Value)
		if name, ok := strings.CutPrefix(h.Key, "ce_"); ok {
			require.Regexp(t, `^[a-z0-9]+$`, name)
			require.NotEmpty(t, h.Value, "%s is present and empty", h.Key)
		}
	}
	require.Equal(t, "1.0", seen["ce_specversion"])
	if content, there := seen["content-type"]; there {
		require.Equal(t, "application/json", content)
	}
	for _, required := range []string{"ce_id", "ce_source", "ce_type", "ce_time"} {
		require.NotEmpty(t, seen[required], required)
	}
	_, err := time.Parse(time.RFC3339, seen["ce_time"])
	require.NoError(t, err)
	if subject, there := seen["ce_subject"]; there && seen["ce_type"] != events.TypePresence {
		require.Equal(t, string(r.Key), subject, "key and subject are the task's ID")
	}
	e, data, err := events.Open(&r)
	require.NoError(t, err)
	require.Equal(t, seen["ce_id"], e.ID)
	require.Equal(t, r.Value, data)
}

func TestOurRecordsAreCloudEvents(t *testing.T) {
	t.Parallel()
	for _, e := range story(t).log {
		conformant(t, e.record)
	}
	s := events.Subject{ID: "i", Source: "/s", Time: testStart, Traceparent: "00-1-2-01"}
	for _, encode := range []func() (events.Record, error){
		func() (events.Record, error) { return events.EncodeWork(events.Work{Task: "t", Ticket: "k"}, s) },
		func() (events.Record, error) { return events.EncodeReport(events.Report{Task: "t", Ticket: "k"}, s) },
		func() (events.Record, error) { return events.EncodeReport(events.Report{Task: "t"}, s) },
		func() (events.Record, error) {
			return events.EncodeRequest(events.Request{Task: "t", Kind: events.RequestRetry}, s)
		},
		func() (events.Record, error) {
			return events.EncodePresence(events.Presence{Kind: "agent", Instance: "a-0"}, s)
		},
		func() (events.Record, error) { return events.EncodeAlert(map[string]string{"kind": "parked"}, "t", s) },
		func() (events.Record, error) { return events.EncodeAlert(map[string]string{"kind": "parked"}, "", s) },
	} {
		r, err := encode()
		require.NoError(t, err)
		conformant(t, r)
	}
}

func TestTheLastOfTwoEqualHeadersCounts(t *testing.T) {
	t.Parallel()
	r := events.Record{Key: []byte("ab"), Value: []byte("cde"), Headers: headers("a", "1", "a", "22")}
	require.Equal(t, "22", r.Header("a"))
	require.Empty(t, r.Header("b"))
	require.Equal(t, 2+3+2+1+2, r.Size())
}
