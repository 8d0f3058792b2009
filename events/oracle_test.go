package events_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/jsontext"
)

// codecs are the types with a generated codec. encoding/json is the oracle of all tests below.
var codecs = func() (types []reflect.Type) {
	for _, v := range events.Codecs() {
		types = append(types, reflect.TypeOf(v).Elem())
	}
	return types
}()

// bodies are the types of the facts that belong to an epoch.
var bodies = slices.DeleteFunc(slices.Clone(codecs), func(t reflect.Type) bool {
	body, ok := reflect.New(t).Interface().(events.Body)
	return !ok || body.Name() == events.NamePartitionClaimed || body.Name() == events.NameNamespaceCreated
})

// filler draws values of any of our types by reflection. So new members are drawn as well, and a test fails if a
// handwritten encoder or reader does not know them.
type filler struct {
	t *rapid.T
	// usual avoids values that the fast paths leave to the generic code.
	usual bool
}

var (
	usualTexts = rapid.SampledFrom([]string{"", "a", "pay", "order-42", "ü/c ✓", "<b>&'", "\u007f"})
	oddTexts   = rapid.OneOf(usualTexts, rapid.String(), rapid.SampledFrom([]string{"\"\\\b\f\n\r\t\x00\x1f", "\xff", "a\xe2\x80", "\u2028\u2029", `\ufffd`, "\uFFFD"}))
	usualRaws  = rapid.SampledFrom([]string{`{"a":1.50}`, `[]`, `{}`, `null`, `-0.1E+7`, `"a\nb<\u00e9"`, `[[true,false,null],{"b":{"a":"\\ufff"}}]`})
	oddRaws    = rapid.OneOf(usualRaws, rapid.SampledFrom([]string{`{"a": 1}`, " 1", "1\n", `"\ufffd"`, `"\\ufffd"`, `"\uFFFD"`, "\"\xff\u2028\"", `01`, `{`, `"\x"`, `nul`, "", `{"a":1,}`, strings.Repeat("[", 120) + strings.Repeat("]", 120)}))
)

func (f filler) text() string {
	if f.usual {
		return usualTexts.Draw(f.t, "text")
	}
	return oddTexts.Draw(f.t, "text")
}

func (f filler) fill(v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *events.Instant:
		v.SetInt(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-62167219200000, 253402300799999)).Draw(f.t, "instant"))
		return
	case *events.Duration:
		v.SetInt(rapid.SampledFrom([]int64{0, 5e6, 1e9, 6e11, 3600e9, -1}).Draw(f.t, "duration"))
		return
	case *events.Epoch:
		if rapid.Bool().Draw(f.t, "epoch") {
			v.Set(reflect.ValueOf(events.Epoch{N: rapid.Uint64Range(1, 1<<63).Draw(f.t, "n"), ID: "x" + f.text()}))
		}
		return
	case *events.Position:
		f.fillKind(v)
		if p := v.Addr().Interface().(*events.Position); f.usual && p.Epoch.N == 0 {
			*p = events.Position{}
		}
		return
	case *json.RawMessage:
		g := oddRaws
		if f.usual {
			g = usualRaws
		}
		if rapid.Bool().Draw(f.t, "raw") {
			v.SetBytes([]byte(g.Draw(f.t, "json")))
		}
		return
	}
	f.fillKind(v)
}

func (f filler) fillKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(f.t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{0, 1, -1, 42, 1e12, -1e17}).Draw(f.t, "int"))
	case reflect.Int32:
		v.SetInt(int64(rapid.Int32().Draw(f.t, "int32")))
	case reflect.Uint64:
		most := uint64(math.MaxUint64)
		if f.usual {
			most = 1e18 - 1
		}
		v.SetUint(rapid.Uint64Range(0, most).Draw(f.t, "uint64"))
	case reflect.Pointer:
		if rapid.Bool().Draw(f.t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		least := 0 // some members write it as null
		if f.usual {
			least = 1
		}
		for i := range rapid.IntRange(least, 2).Draw(f.t, "items") {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			if v.Index(i).Kind() == reflect.Pointer && (f.usual || rapid.Bool().Draw(f.t, "item")) {
				v.Index(i).Set(reflect.New(v.Type().Elem().Elem()))
				f.fill(v.Index(i).Elem())
			} else {
				f.fill(v.Index(i))
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(f.t, "pairs") {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	default:
		f.t.Fatalf("a %s cannot be drawn", v.Type())
	}
}

// drawn returns a pointer to a value of the type.
func (f filler) drawn(typ reflect.Type) any {
	v := reflect.New(typ)
	f.fill(v.Elem())
	return v.Interface()
}

func TestEncodersWriteWhatMarshalWrites(t *testing.T) {
	t.Parallel()
	for _, typ := range codecs {
		t.Run(typ.Name(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v := filler{t: t}.drawn(typ)
				if b := events.WriteFast(v); b != nil {
					want, err := events.Marshal(v)
					require.NoError(t, err, "a value that Marshal refuses was written: %s", b)
					require.Equal(t, string(want), string(b))
				}
				v = filler{t: t, usual: true}.drawn(typ)
				want, err := events.Marshal(v)
				require.NoError(t, err)
				require.Equal(t, string(want), string(events.WriteFast(v)), "usual values are written by the fast path")
			})
		})
	}
}

func TestReadersReadWhatJSONReads(t *testing.T) {
	t.Parallel()
	for _, typ := range codecs {
		t.Run(typ.Name(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				b, err := events.Marshal(filler{t: t}.drawn(typ))
				if err != nil {
					return
				}
				alike(t, typ, b)
				var out bytes.Buffer
				require.NoError(t, json.Indent(&out, b, " ", "\t"))
				alike(t, typ, out.Bytes())
				b, err = events.Marshal(filler{t: t, usual: true}.drawn(typ))
				require.NoError(t, err)
				got := events.ReadFast(reflect.New(typ).Interface(), b)
				require.NotNil(t, got, "usual values are read by the fast path: %s", b)
				alike(t, typ, b)
			})
		})
	}
}

// alike checks that the fast path reads the same value as encoding/json.
func alike(t require.TestingT, typ reflect.Type, data []byte) {
	got := events.ReadFast(reflect.New(typ).Interface(), data)
	if got == nil {
		return
	}
	want := reflect.New(typ).Interface()
	require.NoError(t, json.Unmarshal(data, want), "only the fast path accepted: %q", data)
	require.Equal(t, want, got, "%q", data)
}

// sealed builds the record that EncodeFact, EncodeWork and EncodeReport build, but without reused buffers.
func sealed(value []byte, key string, attributes ...string) events.Record {
	r := events.Record{Key: []byte(key), Value: value}
	for i := 0; i < len(attributes); i += 2 {
		if attributes[i+1] != "" {
			r.Headers = append(r.Headers, events.Header{Key: attributes[i], Value: []byte(attributes[i+1])})
		}
	}
	return r
}

func TestRecordsOfFacts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := filler{t: t, usual: true}
		body := f.drawn(rapid.SampledFrom(bodies).Draw(t, "body")).(events.Body)
		fact := &events.Fact{
			Epoch: events.Epoch{N: rapid.Uint64().Draw(t, "n"), ID: "e"}, Sequence: rapid.Uint64().Draw(t, "sequence"), Time: testStart, Task: f.text(),
			Cause: events.Cause(f.text()), CauseID: f.text(), CauseHash: f.text(), Traceparent: f.text(), Body: body,
		}
		f.fill(reflect.ValueOf(&fact.Watermark).Elem())
		got, err := events.EncodeFact(fact, 3, testSource)
		require.NoError(t, err)
		value, err := events.Marshal(body)
		require.NoError(t, err)
		watermark := ""
		if p := fact.Watermark; p != (events.Position{}) {
			watermark = fmt.Sprintf("%d-%s/%d", p.Epoch.N, p.Epoch.ID, p.Sequence)
		}
		want := sealed(value, fact.Task, "ce_specversion", "1.0", "ce_id", fmt.Sprintf("3/%d-e/%d", fact.Epoch.N, fact.Sequence), "ce_source", testSource,
			"ce_type", "sagalog."+string(body.Name()), "ce_time", "2026-11-21T14:00:00.000Z", "ce_traceparent", fact.Traceparent, "ce_cause", string(fact.Cause),
			"ce_causeid", fact.CauseID, "ce_causehash", fact.CauseHash, "sagalog-watermark", watermark)
		want.Partition = 3
		if fact.Task == "" {
			want.Key = nil
		}
		require.Equal(t, want, got)
		if fact.Epoch.N == 0 {
			return
		}
		again, err := events.DecodeFact(&got)
		require.NoError(t, err)
		require.Equal(t, asJSON(t, fact.Body), asJSON(t, again.Body))
		again.Body = fact.Body
		require.Equal(t, fact, again)
	})
}

func TestRecordsOfWorkAndReports(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := filler{t: t, usual: true}
		w := f.drawn(reflect.TypeFor[events.Work]()).(*events.Work)
		p := f.drawn(reflect.TypeFor[events.Report]()).(*events.Report)
		w.Task, p.Task = "t"+w.Task, "t"+p.Task
		s := events.Subject{ID: "i", Source: "/s", Time: testStart, Traceparent: f.text()}
		attributes := func(kind string) []string {
			return []string{"ce_specversion", "1.0", "ce_id", "i", "ce_source", "/s", "ce_type", kind, "ce_time", "2026-11-21T14:00:00.000Z",
				"ce_traceparent", s.Traceparent}
		}
		if within := events.Duration(w.CompleteBy.Sub(testStart)); rapid.Bool().Draw(t, "usual") {
			w.CompleteWithin, p.FinishedAt = within, testStart
		}
		got, err := events.EncodeWork(*w, s)
		require.NoError(t, err)
		short := *w
		if w.CompleteBy != 0 && w.CompleteWithin.Std() == w.CompleteBy.Sub(testStart) {
			short.CompleteWithin = 0
		}
		value, err := events.Marshal(short)
		require.NoError(t, err)
		require.Equal(t, sealed(value, w.Task, attributes("sagalog.work")...), got)
		got, err = events.EncodeReport(*p, s)
		require.NoError(t, err)
		key := p.Task
		if p.Task = ""; p.FinishedAt == testStart {
			p.FinishedAt = 0
		}
		value, err = events.Marshal(p)
		require.NoError(t, err)
		require.Equal(t, sealed(value, key, attributes("sagalog.report")...), got)
	})
}

// A record does not share its bytes: a later encoding does not change them, and appending to one record does not change the
// next.
func TestRecordsShareNothingThatChanges(t *testing.T) {
	t.Parallel()
	first, err := events.EncodeWork(benchWork, benchSubject)
	require.NoError(t, err)
	before := fmt.Sprintf("%v", first)
	for _, h := range append([]events.Header{{Value: first.Value}, {Value: first.Key}}, first.Headers...) {
		require.Len(t, append(h.Value, "overwritten"...), len(h.Value)+11)
	}
	_, err = events.EncodeReport(benchReport, events.Subject{ID: "other"})
	require.NoError(t, err)
	require.Equal(t, before, fmt.Sprintf("%v", first))
	w, _, err := events.DecodeWork(&first)
	require.NoError(t, err)
	clear(first.Value)
	require.Equal(t, benchWork, w, "a request outlives its record")
}

func TestContentIsCanonicalJSON(t *testing.T) {
	t.Parallel()
	inputs := rapid.OneOf(oddRaws, rapid.SampledFrom([]string{
		`{"b":1,"a":2}`, `{"b":{"d":1,"c":[{"z":1,"y":2},"\u00e9\/"]},"a":"\n\u2028"}`, `{"a":1,"a":2}`, `{"\u0061":1,"b":2}`, `{"b" : 1 , "a" : [ ] }`,
		"{\"a\u2028\":1}", `{"i":9,"h":8,"g":7,"f":6,"e":5,"d":4,"c":3,"b":2,"a":1}`, `{"é":1,"e":2,"z":3}`, "\"\u2029\"",
	}))
	rapid.Check(t, func(t *rapid.T) {
		s := filler{t: t}.drawn(reflect.TypeFor[events.Submission]()).(*events.Submission)
		s.Input = json.RawMessage(inputs.Draw(t, "input"))
		sameContent(t, s)
	})
	sameContent(t, &events.Submission{ID: "a", Workflow: "w", Input: raw(`{"b":1,"a":{"\"":2}}`), Labels: map[string]string{"z": "1", "y": "2"}})
}

// sameContent checks that the hashed text equals the output of encoding/json with sorted members and a normalised deadline.
func sameContent(t require.TestingT, s *events.Submission) {
	got, err := events.Content(s)
	n := *s
	if d, err := events.ParseDuration(n.Deadline); err == nil {
		n.Deadline = d.String()
	} else if i, err := events.ParseInstant(n.Deadline); err == nil {
		n.Deadline = i.String()
	}
	want, wantErr := jsontext.Canonical(n)
	require.Equal(t, wantErr, err)
	require.Equal(t, string(want), string(got))
}

func TestInstantsAreWrittenAsTimeFormatWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.OneOf(rapid.Int64Range(-62167219200000, 253402300799999), rapid.Int64Range(-1<<53, 1<<53)).Draw(t, "ms")
		i := events.Instant(ms)
		if i == 0 {
			return
		}
		want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
		require.Equal(t, want, i.String())
		again, ok := events.ParseWritten([]byte(want))
		if read, err := time.Parse(time.RFC3339Nano, want); err == nil {
			require.True(t, ok)
			require.Equal(t, events.At(read), again)
		}
	})
	for _, bad := range []string{"2026-02-29T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-00-01T00:00:00.000Z", "2026-01-00T00:00:00.000Z",
		"2026-01-01T24:00:00.000Z", "2026-01-01T00:60:00.000Z", "2026-01-01T00:00:60.000Z", "2026-01-01t00:00:00.000Z", "2026-01-01T00:00:00.00ZZ", "", "2026-01-01T00:00:00Z"} {
		_, ok := events.ParseWritten([]byte(bad))
		require.False(t, ok, bad)
	}
	_, ok := events.ParseWritten([]byte("2024-02-29T23:59:59.999Z"))
	require.True(t, ok)
}

func TestIdempotencyKeyIsTheUUIDOfItsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		space := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "namespace"))
		f := filler{t: t}
		w := events.Work{Task: f.text(), Ticket: f.text(), Step: f.text(), Run: rapid.IntRange(0, 1<<40).Draw(t, "run")}
		b, err := events.Marshal([]any{w.Task, w.Ticket, w.Run, w.Step, events.Undo})
		require.NoError(t, err)
		require.Equal(t, uuid.NewSHA1(space, b).String(), w.Key(space, events.Undo))
	})
}

func TestTaskIDsAgree(t *testing.T) {
	t.Parallel()
	names := []string{"", "a", "b"}
	for _, key := range names {
		for _, subject := range names {
			for _, own := range names {
				id := ""
				agree := true
				for _, c := range []string{key, subject, own} {
					agree = agree && (c == "" || id == "" || c == id)
					if id == "" {
						id = c
					}
				}
				got, err := events.TaskID([]byte(key), subject, own)
				require.Equal(t, agree && id != "", err == nil, "%q %q %q: %v", key, subject, own, err)
				if agree {
					require.Equal(t, id, got)
				}
			}
		}
	}
}
