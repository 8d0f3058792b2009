package events_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/jsontext"
)

// FuzzReaders gives arbitrary bytes to the readers without reflection. If one accepts them, encoding/json reads the same value.
func FuzzReaders(f *testing.F) {
	seedFromGolden(f, func(l line) { r := l.record(); f.Add(r.Value) })
	st := newStore()
	r := replay{state: events.NewState(testPartition, st.load), store: st}
	for i, l := range goldenLines(f) {
		r.fold(f, l.record())
		if i%10 == 0 {
			for _, row := range st.tasks {
				f.Add([]byte(row.Encoding))
			}
		}
	}
	f.Add([]byte(asJSON(f, benchWork)))
	f.Add([]byte(asJSON(f, benchReport)))
	for _, s := range []string{
		` { "step" : "a" , "attempt" : 1 } `, `{"Step":"a"}`, `{"step":"a","step":"b"}`, `{"step":null,"attempt":-0}`, `{"attempt":1e1}`, `{"attempt":123456789012345678901}`,
		`{"step":"\ud800\u00e9\/"}`, "{\"step\":\"\xff\"}", `{"output":null}`, `{"labels":{"a":"1","a":"2"}}`, `{"labels":null,"steps":[null]}`, `{"output":1}{}`, `{"complete_by":""}`,
		`{"id":"a","workflow":"w","version":1,"input":{"a": [1]},"priority":-5,"labels":{"a":"b"},"deadline":"10m"}`, `{"workflow":"w","labels":{"a:b":""}}`,
		`{"complete_by":"2026-11-21T14:00:00+02:00"}`, `{"home":2147483648}`, `{"retry_after":"1h"}`, `{"error":{}}`, `{"last":"1-a/1","run":01}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, typ := range codecs {
			alike(t, typ, data)
		}
		require.Equal(t, json.Valid(data) && !tooDeep(data), valid(data))
		s := events.ReadSubmissionFast(data)
		if s == nil {
			return
		}
		slow, err := events.ParseSubmissionSlowly(data)
		require.NoError(t, err)
		require.Equal(t, slow, s)
	})
}

// valid says whether jsontext accepts data as a single value.
func valid(data []byte) bool {
	end := jsontext.Skip(data, 0)
	return end >= 0 && jsontext.Space(data, end) == len(data)
}

// spacesOutside says whether data, if it is JSON, is a single value without spaces around it.
func spacesOutside(data []byte) bool {
	space := func(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
	return len(data) > 0 && !space(data[0]) && !space(data[len(data)-1])
}

// tooDeep says whether data is JSON that is nested deeper than the scanner supports.
func tooDeep(data []byte) bool {
	if !json.Valid(data) {
		return false
	}
	level, most, text := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case !text && (c == '{' || c == '['):
			level++
			most = max(most, level)
		case !text && (c == '}' || c == ']'):
			level--
		}
	}
	return most > events.MaxNestingLevels
}

// FuzzEncoders fills all texts with the same text, all raw values with the same value and all numbers with the same number.
// Each encoder writes the same bytes as Marshal.
func FuzzEncoders(f *testing.F) {
	f.Add("a", []byte(`{"a":1.50}`), int64(7), uint8(255))
	f.Add("\"\\\b\f\n\r\t\x00\x1f\x7f\xff\u2028<&>", []byte(`"\ufffd\\ufffd"`), int64(-62167219200000), uint8(1))
	f.Add("", []byte(" [ ] "), int64(253402300800000), uint8(0))
	f.Fuzz(func(t *testing.T, text string, raw []byte, n int64, bits uint8) {
		for _, typ := range codecs {
			v := reflect.New(typ)
			fillAll(v.Elem(), text, raw, n, bits)
			want, err := events.Marshal(v.Interface())
			if got := events.WriteFast(v.Interface()); got != nil {
				require.NoError(t, err, "%s", got)
				require.Equal(t, string(want), string(got))
			}
			if err == nil {
				alike(t, typ, want)
			}
		}
		want, err := events.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, string(want), string(jsontext.AppendQuoted(nil, text)))
		if n != 0 {
			require.Equal(t, time.UnixMilli(n).UTC().Format("2006-01-02T15:04:05.000Z"), events.Instant(n).String())
		}
		if i, ok := events.ParseWritten([]byte(text)); ok {
			at, err := time.Parse(time.RFC3339Nano, text)
			require.NoError(t, err)
			require.Equal(t, events.At(at), i)
		}
	})
}

func fillAll(v reflect.Value, text string, raw []byte, n int64, bits uint8) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(bits&1 != 0)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(n)
	case reflect.Uint64:
		v.SetUint(uint64(n))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(raw)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), int(bits&3), int(bits&3)))
		for i := range v.Len() {
			fillAll(v.Index(i), text, raw, n, bits)
		}
	case reflect.Pointer:
		if bits&4 != 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fillAll(v.Elem(), text, raw, n, bits)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range bits & 3 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fillAll(key, fmt.Sprint(text[:len(text)*int(i)/4], i), raw, n, bits)
			fillAll(value, text, raw, n, bits)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillAll(v.Field(i), text, raw, n, bits)
			}
		}
	}
}

// FuzzContent hashes arbitrary input on the fast and on the slow path.
func FuzzContent(f *testing.F) {
	f.Add([]byte(`{"b":{"d":1.50,"c":[{"z":1,"y":"\u00e9\/\n"}]},"a":[]}`), "10m", "id")
	f.Add([]byte(`{"b":1,"a":2,"b":3}`), "", "\xff\u2028")
	f.Fuzz(func(t *testing.T, input []byte, deadline, id string) {
		s := &events.Submission{ID: id, Workflow: "w", Input: input, Deadline: deadline, Labels: map[string]string{id: deadline, deadline: id}}
		sameContent(t, s)
		compact, err := events.Compact(input)
		if err == nil && len(input) > 0 {
			require.True(t, utf8.Valid(compact))
			want, err := events.Marshal(json.RawMessage(input))
			require.NoError(t, err)
			again, err := events.Marshal(json.RawMessage(compact))
			require.NoError(t, err)
			require.Equal(t, string(want), string(again))
		} else if len(input) > 0 {
			require.True(t, !utf8.Valid(input) || !json.Valid(input) || tooDeep(input) || !spacesOutside(input))
		}
	})
}
