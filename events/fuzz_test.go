package events_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func FuzzParseEpoch(f *testing.F) {
	for _, s := range []string{"1-a", "0-a", "-", "18446744073709551615-x-y/z", "1-", "+1-a", "01-a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := events.ParseEpoch(s)
		if err != nil {
			return
		}
		again, err := events.ParseEpoch(e.String())
		require.NoError(t, err)
		require.Equal(t, e, again)
		p := events.Position{Epoch: e, Sequence: 7}
		at, err := events.ParsePosition(p.String())
		require.NoError(t, err)
		require.Equal(t, p, at)
		_, _, _, _ = events.Cause(s).Input()
	})
}

func FuzzParseInstant(f *testing.F) {
	f.Add("2026-11-21T14:00:00Z")
	f.Add("9999-12-31T23:59:59-23:59")
	f.Fuzz(func(t *testing.T, s string) {
		i, err := events.ParseInstant(s)
		if err != nil || i == 0 {
			return
		}
		again, err := events.ParseInstant(i.String())
		require.NoError(t, err, "a parsed instant can be written and parsed again")
		require.Equal(t, i, again)
	})
}

func FuzzOpen(f *testing.F) {
	f.Add("application/cloudevents+json", "1.0", []byte(`{"specversion":"1.0","data":{}}`))
	f.Add("application/json", "1.0", []byte(`{}`))
	f.Add("", "", []byte(nil))
	f.Fuzz(func(t *testing.T, contentType, version string, value []byte) {
		r := events.Record{Value: value, Headers: headers("content-type", contentType, "ce_specversion", version)}
		_, data, err := events.Open(&r)
		if err == nil && len(data) > len(value) {
			t.Fatal("data grew")
		}
		_, _, _ = events.DecodeWork(&r)
		_, _ = events.DecodePresence(&r)
	})
}

func FuzzParseSubmission(f *testing.F) {
	for _, s := range []string{
		`{"workflow":"w","input":{"a":[1,2.50]},"labels":{"a":"b"},"deadline":"10m","version":1,"priority":-5,"id":"x"}`,
		`{"workflow":"w","deadline":"9999-12-31T23:59:59-12:00"}`, `{"a":1}`, `[]`, "{\"workflow\":\"\xff\"}", `{"id":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := events.ParseSubmission(data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		hash, err := s.ContentHash()
		require.NoError(t, err)
		again, err := events.Marshal(s)
		require.NoError(t, err)
		s2, err := events.ParseSubmission(again)
		require.NoError(t, err, "an accepted submission is accepted again: %s", again)
		hash2, err := s2.ContentHash()
		require.NoError(t, err)
		require.Equal(t, hash, hash2)
		times, err := s.TimesFrom(testStart, 0)
		if err != nil {
			return
		}
		// The resulting fact can be written, read and folded.
		body := &events.Submitted{
			Workflow: s.Workflow, Version: 1, Input: s.Input, Labels: s.Labels, Deadline: times.Deadline, NotBefore: times.NotBefore, Delay: times.Delay, Content: hash,
		}
		r, err := events.EncodeFact(&events.Fact{Epoch: events.Epoch{N: 1, ID: "a"}, Time: testStart, Task: "t", Body: body}, 0, testSource)
		require.NoError(t, err)
		fact, err := events.DecodeFact(&r)
		require.NoError(t, err)
		require.IsType(t, body, fact.Body)
	})
}

func FuzzDecodeFact(f *testing.F) {
	seedFromGolden(f, func(l line) {
		r := l.record()
		f.Add(r.Header(events.HeaderType), r.Header(events.HeaderID), r.Header(events.HeaderWatermark), r.Value)
	})
	f.Fuzz(func(t *testing.T, kind, id, watermark string, value []byte) {
		r := events.Record{Value: value, Headers: headers(
			events.HeaderType, kind, events.HeaderID, id, events.HeaderWatermark, watermark,
			events.HeaderTime, "2026-11-21T14:00:00.000Z",
		)}
		fact, err := events.DecodeFact(&r)
		if err != nil {
			return
		}
		if _, ok := fact.Body.(*events.Unreadable); ok {
			return
		}
		// A value that was read can be written, and its bytes are then stable.
		once, err := events.EncodeFact(fact, 0, testSource)
		require.NoError(t, err)
		again, err := events.DecodeFact(&once)
		require.NoError(t, err)
		twice, err := events.EncodeFact(again, 0, testSource)
		require.NoError(t, err)
		require.Equal(t, once, twice)
	})
}

// FuzzApply folds the golden log, with a record of random bytes after each fact. The fold may refuse the record, but must never
// panic. If it accepts the record, the state has the same hash after it is stored and opened again.
func FuzzApply(f *testing.F) {
	seedFromGolden(f, func(l line) {
		r := l.record()
		f.Add(uint8(l.Offset), r.Header(events.HeaderType), string(r.Key), r.Header(events.HeaderCause), r.Value)
	})
	lines := goldenLines(f)
	f.Fuzz(func(t *testing.T, behind uint8, kind, task, cause string, value []byte) {
		st := newStore()
		s := events.NewState(testPartition, st.load)
		for _, l := range lines[:min(len(lines), int(behind)+1)] {
			r := l.record()
			fact, err := events.DecodeFact(&r)
			require.NoError(t, err)
			_, err = s.Apply(fact, r.Offset)
			require.NoError(t, err)
		}
		p := s.Partition
		r := events.Record{Key: []byte(task), Value: value, Headers: headers(
			events.HeaderType, kind, events.HeaderID, "0/"+p.Epoch.String()+"/0", events.HeaderCause, cause, events.HeaderTime, "2026-11-21T15:00:00.000Z",
		)}
		fact, err := events.DecodeFact(&r)
		if err != nil {
			return
		}
		fact.Epoch, fact.Sequence = p.Epoch, p.NextSequence
		if _, err := s.Apply(fact, s.Next); err != nil {
			return
		}
		d, err := s.Flush(nil)
		require.NoError(t, err, "a folded state can be stored")
		st.commit(t, d)
		opened, err := events.OpenState(testPartition, st.snapshot(), st.load)
		require.NoError(t, err)
		for id := range st.tasks {
			opened.Touch(id)
		}
		again, err := opened.Flush(nil)
		require.NoError(t, err)
		require.Equal(t, d.Sum, again.Sum)
	})
}

func seedFromGolden(f *testing.F, add func(line)) {
	f.Helper()
	for _, l := range goldenLines(f) {
		add(l)
	}
}

func goldenLines(f *testing.F) []line {
	f.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", goldenLog))
	require.NoError(f, err)
	var lines []line
	for l := range bytes.Lines(b) {
		var v line
		require.NoError(f, json.Unmarshal(l, &v))
		lines = append(lines, v)
	}
	return lines
}
