package jsontext_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/internal/jsontext"
)

var samples = []string{
	`{}`, `[]`, ` { "a" : [ 1 , 2.5e-3, true, false, null, "x\u00e9\n\"y\"" ] , "b":{"":""} } `, `"é"`, "\"\xff\"", `-0`, `-0.0E+7`, `01`, `1.`, `.5`, `+1`, `-`,
	`1e`, `tru`, `nulll`, `"`, `"\`, `"\u12`, `"\u12g4"`, `"\q"`, "\"\n\"", `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{a:1}`,
	`[1}`, `{"a":1]`, `[`, `{`, `{"a"`, ``, ` `, `1 2`, `{} {}`, "\u00a01", strings.Repeat("[", 150) + strings.Repeat("]", 150),
	strings.Repeat("[", 300) + strings.Repeat("]", 300), `{"a":1,"a":2,"\u0061":3}`, `"\ud800"`, `12345678901234567890.123`, `[1e400,1E-400]`,
}

// If this package is sure, encoding/json agrees. It is sure about JSON as people usually write it.
func FuzzWalk(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

func TestScanningAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, s := range samples {
		check(t, []byte(s))
	}
}

func check(t *testing.T, b []byte) {
	t.Helper()
	before := bytes.Clone(b)
	end := jsontext.Skip(b, 0)
	sure := end >= 0 && jsontext.Space(b, end) == len(b)
	require.Equal(t, before, b)
	_, _, wide := jsontext.Wide(b)
	if valid := json.Valid(b); sure != valid && (sure || depth(b) < 100 && !wide) {
		t.Fatalf("valid is %v, here it is %v: %q", valid, sure, b)
	}
	var want bytes.Buffer
	invalid := json.Compact(&want, b)
	appended, err := jsontext.AppendCompact([]byte("x"), b)
	require.Equal(t, invalid, err)
	if err == nil {
		require.Equal(t, "x"+want.String(), string(appended))
	}
	if compact, err := jsontext.Compact(b); err == nil {
		require.NoError(t, invalid)
		require.Equal(t, want.String(), string(compact))
	}
	decoded, err := jsontext.Decode(b)
	require.Equal(t, json.Valid(b), err == nil)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var want any
		require.NoError(t, d.Decode(&want))
		require.Equal(t, want, decoded)
	}
	if !sure {
		return
	}
	members(t, b)
}

// members compares the members of an object with the result of encoding/json.
func members(t *testing.T, b []byte) {
	t.Helper()
	at := jsontext.Space(b, 0)
	if b[at] != '{' {
		return
	}
	var want map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(b, &want))
	got := map[string]json.RawMessage{}
	w := jsontext.Begin(b, at)
	for w.Next() {
		var name string
		require.NoError(t, json.Unmarshal([]byte(`"`+string(w.Name)+`"`), &name))
		if w.Plain {
			require.Equal(t, name, string(w.Name))
		}
		end := jsontext.Skip(b, w.At)
		got[name] = json.RawMessage(b[w.At:end])
		w.To(end)
	}
	require.Positive(t, w.End())
	require.Equal(t, want, got)
}

// depth returns an upper bound for the nesting depth of b.
func depth(b []byte) int { return bytes.Count(b, []byte("[")) + bytes.Count(b, []byte("{")) }

func TestSkippingAllocatesNothing(t *testing.T) {
	b := []byte(samples[2])
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if jsontext.Skip(b, 0) < 0 {
			t.Error("not sure")
		}
	}))
}

func BenchmarkSkip(b *testing.B) {
	text := []byte(`{"ownerId":"owner-1","packageInfo":{"size":"small","weight":1.10},"pickup":{"region":"north","address":"1 Main Street"}}`)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		jsontext.Skip(text, 0)
	}
}

// A number whose exact value takes long to calculate is found with its place. Texts that look like one are not.
func TestANumberThatTakesLongIsFoundWithItsPlace(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("7", 400)
	for text, want := range map[string]string{
		`1e401`: "=1e401", ` {"a":{"e":"1e999"},"b":[0,"x",{"c/d":[[],-1.5E-00401]}]} `: "b 2 c/d 1=-1.5E-00401", `[{},{"a":[1,2]},1e99999999999999999999]`: "2=1e99999999999999999999",
		digits + "1": "=" + digits + "1", `{"x":0.` + digits + `}`: "x=0." + digits, `{"a":1e401,"b":1e402}`: "a=1e401",
	} {
		path, number, found := jsontext.Wide([]byte(text))
		require.True(t, found, text)
		require.Equal(t, want, strings.Join(path, " ")+"="+number)
	}
	for _, text := range []string{`1e400`, `1E-0400`, digits, "-0." + digits[1:], `{"1e401":"1e401"}`, `"` + digits + digits + `"`, `[`, ``, `{"a":1e401`[:6]} {
		_, _, found := jsontext.Wide([]byte(text))
		require.False(t, found, text)
	}
}
