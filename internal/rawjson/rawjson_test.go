package rawjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/rawjson"
)

var samples = []string{
	`{}`, `[]`, ` { "a" : [ 1 , 2.5e-3, true, false, null, "x\u00e9\n\"y\"" ] , "b":{"":""} } `, `"é"`, "\"\xff\"", `-0`, `-0.0E+7`, `01`, `1.`, `.5`, `+1`, `-`,
	`1e`, `tru`, `nulll`, `"`, `"\`, `"\u12`, `"\u12g4"`, `"\q"`, "\"\n\"", `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{a:1}`,
	`[1}`, `{"a":1]`, `[`, `{`, `{"a"`, ``, ` `, `1 2`, `{} {}`, "\u00a01", strings.Repeat("[", 150) + strings.Repeat("]", 150),
	strings.Repeat("[", 300) + strings.Repeat("]", 300), `{"a":1,"a":2,"\u0061":3}`, `"\ud800"`, `12345678901234567890.123`,
}

// What this package is sure of, encoding/json says too; and of what people write it is sure.
func FuzzWalk(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

func TestItAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		check(t, []byte(s))
	}
}

func check(t *testing.T, b []byte) {
	t.Helper()
	before := bytes.Clone(b)
	valid := json.Valid(b)
	if sure := rawjson.Valid(b); sure != valid && (sure || depth(b) < 100) {
		t.Fatalf("valid is %v, here it is %v: %q", valid, sure, b)
	}
	got, sure := rawjson.Compact([]byte("before"), b)
	require.Equal(t, before, b)
	if !sure {
		require.Equal(t, "before", string(got))
		return
	}
	want := bytes.NewBufferString("before")
	require.NoError(t, json.Compact(want, b))
	require.Equal(t, want.String(), string(got))
	members(t, b)
	if at := rawjson.Space(b, 0); b[at] == '"' {
		if end, plain := rawjson.Text(b, at); plain {
			var text string
			require.NoError(t, json.Unmarshal(b, &text))
			require.Equal(t, text, string(b[at+1:end-1]))
		}
	}
}

// members compares the members of an object with what encoding/json makes of them.
func members(t *testing.T, b []byte) {
	t.Helper()
	at := rawjson.Space(b, 0)
	if b[at] != '{' {
		return
	}
	var want map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(b, &want))
	got := map[string]json.RawMessage{}
	w := rawjson.Begin(b, at)
	for w.Next() {
		var name string
		require.NoError(t, json.Unmarshal([]byte(`"`+string(w.Name)+`"`), &name))
		if w.Plain {
			require.Equal(t, name, string(w.Name))
		}
		end := rawjson.Skip(b, w.At)
		got[name] = json.RawMessage(b[w.At:end])
		w.To(end)
	}
	require.Positive(t, w.End())
	require.Equal(t, want, got)
}

// depth is at least how deep b nests.
func depth(b []byte) int { return bytes.Count(b, []byte("[")) + bytes.Count(b, []byte("{")) }

func TestNothingIsAllocated(t *testing.T) {
	b := []byte(samples[2])
	buffer := make([]byte, 0, 200)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, ok := rawjson.Compact(buffer, b); !ok {
			t.Error("not sure")
		}
	}))
}

func BenchmarkValid(b *testing.B) {
	text := []byte(`{"ownerId":"owner-1","packageInfo":{"size":"small","weight":1.10},"pickup":{"region":"north","address":"1 Main Street"}}`)
	b.Run("here", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			rawjson.Valid(text)
		}
	})
	b.Run("encoding", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			json.Valid(text)
		}
	})
}
