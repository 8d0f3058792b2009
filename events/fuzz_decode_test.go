package events_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

// FuzzDecodeInputs gives arbitrary records to the decoders of inputs, in binary mode, in structured mode and plain. An accepted
// record can be written and read again with the same meaning.
func FuzzDecodeInputs(f *testing.F) {
	for _, v := range []any{
		events.Work{Task: "t", Run: 1, Step: "a", Operation: events.Do, Attempt: 2, Home: 3, Agent: "g", CompleteBy: testStart, Input: raw(`{"a":1.0}`)},
		events.Work{Task: "t", Run: 1, Step: "q[0]", Operation: events.Undo, Attempt: 1, Output: raw(`null`)},
	} {
		f.Add("application/json", events.TypeWork, "t", []byte("t"), []byte(asJSON(f, v)))
	}
	presence := events.Presence{Kind: events.PresenceAgent, Instance: "i", Agents: []string{"g"}, Capacity: map[string]int{"g": 4},
		Operations: map[string][]events.Operation{"g": {events.Do}}, Health: map[string]string{"g": events.Healthy}, StartedAt: testStart, SeenAt: testStart}
	f.Add("", events.TypePresence, "i", []byte("agent/i"), []byte(asJSON(f, presence)))
	report := asJSON(f, events.Report{Task: "t", Run: 1, Step: "a", Operation: events.Do, Attempt: 1, Result: events.ResultFailed,
		Error: &events.Error{Class: events.ClassRetryable, Message: "no", Detail: raw(`[1.0]`)}, Effect: events.EffectNone, RetryAfter: 5e9, StartedAt: testStart})
	f.Add("application/json", events.TypeReport, "t", []byte("t"), []byte(report))
	f.Add("application/cloudevents+json; charset=utf-8", "", "", []byte("t"),
		[]byte(`{"specversion":"1.0","id":"1","source":"/a","type":"`+events.TypeReport+`","subject":"t","data":`+report+`}`))
	f.Add("application/cloudevents+json", "", "", []byte(nil), []byte(`{"specversion":"1.0","type":"x","data_base64":"e30="}`))
	f.Add("", events.RequestCancel.Type(), "t", []byte("t"), []byte(asJSON(f, events.Request{ID: "q", Kind: events.RequestCancel, Task: "t", Reason: "r"})))
	f.Fuzz(func(t *testing.T, content, kind, subject string, key, value []byte) {
		r := events.Record{Key: key, Value: value, Headers: headers("content-type", content, events.HeaderType, kind, events.HeaderSubject, subject)}
		env, data, err := events.Open(&r)
		if err != nil {
			require.ErrorIs(t, err, events.ErrNotCloudEvent)
		} else if id, err := events.TaskID(key, env.Subject, ""); err == nil {
			require.True(t, utf8.ValidString(id))
			require.NoError(t, events.CheckTaskID(id))
			home := events.Home(id, 7)
			require.True(t, home >= 0 && home < 7)
		}
		if w, e, err := events.DecodeWork(&r); err == nil {
			again, err := events.EncodeWork(w, events.Subject{ID: "i", Traceparent: e.Traceparent})
			require.NoError(t, err)
			w2, _, err := events.DecodeWork(&again)
			require.NoError(t, err)
			require.JSONEq(t, asJSON(t, w), asJSON(t, w2))
		}
		if p, err := events.DecodePresence(&r); err == nil {
			again, err := events.EncodePresence(p, events.Subject{ID: "i"})
			require.NoError(t, err)
			p2, err := events.DecodePresence(&again)
			require.NoError(t, err)
			require.Equal(t, asJSON(t, p), asJSON(t, p2))
		}
		var p events.Report
		if err == nil && json.Unmarshal(data, &p) == nil {
			again, err := events.EncodeReport(p, events.Subject{ID: "i"})
			require.NoError(t, err)
			var p2 events.Report
			require.NoError(t, json.Unmarshal(again.Value, &p2))
			p.Task = "" // the key says it
			require.Equal(t, asJSON(t, p), asJSON(t, p2))
		}
	})
}

// FuzzRows opens a state on arbitrary rows. Unreadable rows are an error. Readable rows are written again with the same hash,
// and folding continues on them without a panic.
func FuzzRows(f *testing.F) {
	st := newStore()
	r := replay{state: events.NewState(testPartition, st.load), store: st}
	for i, l := range goldenLines(f) {
		r.fold(f, l.record())
		if i%10 != 0 {
			continue
		}
		for id, row := range st.tasks {
			task, err := st.load(id)
			require.NoError(f, err)
			f.Add(string(events.KindTask), id, row.Encoding, task.Keys, "StepCompleted", []byte(`{"step":"a","attempt":1}`))
		}
		for _, row := range st.parts {
			f.Add(string(row.Kind), row.ID, row.Encoding, []byte("{}"), "TaskReopened", []byte(`{"steps":["a"]}`))
		}
	}
	f.Fuzz(func(t *testing.T, kind, id string, encoding, keys []byte, fact string, body []byte) {
		snap := events.Snapshot{Next: 5}
		load := func(string) (events.StoredTask, error) { return events.StoredTask{}, nil }
		switch events.Kind(kind) {
		case events.KindTask:
			load = func(string) (events.StoredTask, error) { return events.StoredTask{Encoding: encoding, Keys: keys}, nil }
		case events.KindInput, events.KindOutput, events.KindStep, events.KindRequest: // keys are the head here
			stored := events.StoredTask{Encoding: keys, Keys: events.AppendKeys(nil, &events.Keys{}), Rows: []events.PartRow{{Kind: events.Kind(kind), ID: id, Encoding: encoding}}}
			id, _, _ = strings.Cut(id, "\x00")
			load = func(string) (events.StoredTask, error) { return stored, nil }
		default:
			snap.Parts = []events.PartRow{{Kind: events.Kind(kind), ID: id, Encoding: encoding}, {Kind: events.KindPartition, Encoding: []byte(`{"partition":3}`)}}
		}
		s, err := events.OpenState(testPartition, snap, load)
		if err != nil {
			return
		}
		task, err := s.Task(id)
		if err != nil {
			return
		}
		if task != nil {
			task.Timers()
			task.CompleteBy()
			task.Irrevocable()
			task.RunningBy(map[string]int{}, 1)
			s.Touch(id)
		}
		d, err := s.Flush(nil)
		require.NoError(t, err)
		for _, row := range d.Tasks {
			if slices.ContainsFunc(row.Rows, func(r events.PartRow) bool { return r.Encoding == nil }) || len(row.Rows) < row.Others {
				continue // some of the rows are known only to the task
			}
			again, err := events.DecodeTask(row.Encoding, row.Rows)
			require.NoError(t, err)
			require.Equal(t, asJSON(t, task), asJSON(t, again), "an encoding is a fixed point")
		}
		claim := &events.Fact{Time: testStart, Body: &events.PartitionClaimed{ID: "zz", Prev: s.Partition.Epoch.ID}}
		if fate, err := s.Apply(claim, s.Next); err != nil || fate != events.FateAccepted {
			return
		}
		record := events.Record{Offset: s.Next, Key: []byte(id), Value: body, Headers: headers(events.HeaderType, events.TypePrefix+fact,
			events.HeaderID, "0/"+s.Partition.Epoch.String()+"/0", events.HeaderTime, testStart.String())}
		next, err := events.DecodeFact(&record)
		if err != nil {
			return
		}
		if _, err := s.Apply(next, s.Next); err == nil {
			_, err = s.Flush(nil)
			require.NoError(t, err)
		}
	})
}
