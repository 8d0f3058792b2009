package events_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sagalog/sagalog/events"
)

func TestParseSubmission(t *testing.T) {
	t.Parallel()
	s, err := events.ParseSubmission([]byte(`{"id":"delivery-42", "workflow":"drone-delivery", "version":3,
		"input": {"b": 1.50, "a": [1, 2]}, "priority":-7, "labels" : {"region":"north"}, "deadline":"10m"}`))
	require.NoError(t, err)
	require.Equal(t, &events.Submission{
		ID: "delivery-42", Workflow: "drone-delivery", Version: 3, Input: raw(`{"b":1.50,"a":[1,2]}`), Priority: -7,
		Labels: map[string]string{"region": "north"}, Deadline: "10m",
	}, s)
	s, err = events.ParseSubmission([]byte(`{"workflow":"w","input":null}`))
	require.NoError(t, err)
	require.Equal(t, raw("null"), s.Input)
}

// faults returns the messages of all faults, and checks that each names its place.
func faults(t *testing.T, err error) []string {
	t.Helper()
	list := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		list = many.Unwrap()
	}
	texts := make([]string, len(list))
	for i, e := range list {
		var m *events.MemberError
		require.True(t, errors.As(e, &m), "%T: %v", e, e)
		texts[i] = m.Error()
	}
	return texts
}

// All faults are reported at once, each with its place, and in the same order every time.
func TestAllFaultsOfASubmissionAreReported(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 101) + strings.Repeat("]", 101)
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":         {``, []string{`is not a JSON object such as {"workflow":"...","input":{...}}`}},
		"not JSON":        {`hello`, []string{`is not JSON: invalid character 'h' looking for beginning of value`}},
		"an array":        {`[]`, []string{`is not a JSON object such as {"workflow":"...","input":{...}}`}},
		"null":            {`null`, []string{`is not a JSON object such as {"workflow":"...","input":{...}}`}},
		"cut off":         {`{"workflow":"w"`, []string{`is not JSON: it ends too early`}},
		"cut in a value":  {`{"workflow":"w`, []string{`/workflow: is not JSON: it ends too early`}},
		"a bare key":      {`{1:2}`, []string{`is not JSON: invalid character '1'`}},
		"two objects":     {`{"workflow":"w"}{}`, []string{`has something after the object`}},
		"not UTF-8":       {"{\"workflow\":\"w\",\"input\":\"\xff\"}", []string{`is not UTF-8`}},
		"not UTF-8 later": {"{\"workflow\":\"w\xff\"}", []string{`is not UTF-8`}},
		"no workflow":     {`{}`, []string{`/workflow: is required: the name of a workflow`}},
		"twice":           {`{"workflow":"w","workflow":"w"}`, []string{`/workflow: occurs twice`}},
		"a typing error":  {`{"workflow":"w","priorty":1}`, []string{`/priorty: is not a member of a submission; did you mean "priority"?`}},
		"an unknown member": {
			`{"workflow":"w","a/~b":1}`,
			[]string{`/a~1~0b: is not a member of a submission; known are id, workflow, version, input, priority, labels, deadline, not_before, reply_to, reply_key`},
		},
		"times": {`{"workflow":"w","not_before":"soon","deadline":0}`, []string{
			`/not_before: "soon" is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z`,
			`/deadline: is not a duration such as "10m" or an instant such as "2026-11-21T14:00:00Z"`,
		}},
		"a start that is too late": {`{"workflow":"w","not_before":"87601h"}`, []string{`/not_before: "87601h" is more than 87600h, the longest possible`}},
		"a deadline before the start": {`{"workflow":"w","deadline":"2026-11-21T14:00:00Z","not_before":"2026-11-21T15:00:00Z"}`, []string{
			`/deadline: "2026-11-21T14:00:00Z" is not after not_before, which is 2026-11-21T15:00:00Z: the task would be over before it may start`,
		}},
		"a reply topic that is no name": {`{"workflow":"w","reply_to":"shop/replies"}`, []string{
			`/reply_to: is not the name of a topic: 1 to 249 letters, digits, dots, dashes and underscores`,
		}},
		"a reply topic that is no text":  {`{"workflow":"w","reply_to":7,"reply_key":"k"}`, []string{`/reply_to: is not the name of a topic`}},
		"a reply key without a topic":    {`{"workflow":"w","reply_key":"k"}`, []string{`/reply_key: has no effect without reply_to, the topic of the replies`}},
		"a reply key that is too long":   {`{"workflow":"w","reply_to":"r","reply_key":"` + strings.Repeat("k", 256) + `"}`, []string{`/reply_key: is longer than 255 bytes`}},
		"an empty reply topic and a key": {`{"workflow":"w","reply_to":"","reply_key":""}`, []string{`/reply_to: is not the name of a topic`, `/reply_key: is not a text`}},
		"everything at once": {
			`{"id":"","workflow":7,"version":0,"priority":1001,"labels":[],"deadline":"5","imput":{},"input":` + deep + `}`,
			[]string{
				`/id: is not a text`, `/workflow: is not the name of a workflow`, `/version: is not a version such as 3`,
				`/priority: is not a whole number from -1000 to 1000`, `/labels: is not an object of texts such as {"region":"north"}`,
				`/deadline: "5" is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z`,
				`/imput: is not a member of a submission; did you mean "input"?`, `/input: is nested more than 100 levels deep`,
			},
		},
		"nulls": {`{"id":null,"workflow":null,"version":null,"priority":null,"labels":null,"deadline":null}`, []string{
			`/id: is not a text`, `/workflow: is not the name of a workflow`, `/version: is not a version such as 3`,
			`/priority: is not a whole number from -1000 to 1000`, `/labels: is not an object of texts such as {"region":"north"}`,
			`/deadline: "" is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z`,
		}},
		"fractions": {`{"workflow":"w","version":1.5,"priority":1e0}`, []string{
			`/version: is not a version such as 3`, `/priority: is not a whole number from -1000 to 1000`,
		}},
		"labels, in order": {`{"workflow":"w","labels":{"z:":"1","a":2,"m":null,"":"x","ok":"` + long + `","k/~":1}}`, []string{
			`/labels/z:: a key has 1 to 64 bytes without a colon, a value up to 256`, `/labels/a: is not a text`, `/labels/m: is not a text`,
			`/labels/: a key has 1 to 64 bytes without a colon, a value up to 256`, `/labels/ok: a key has 1 to 64 bytes without a colon, a value up to 256`,
			`/labels/k~1~0: is not a text`,
		}},
		"a label twice":               {`{"workflow":"w","labels":{"a":"1","a":"2"}}`, []string{`/labels/a: occurs twice`}},
		"a deadline at the zero time": {`{"workflow":"w","deadline":"1970-01-01T00:00:00Z"}`, []string{`/deadline: "1970-01-01T00:00:00Z" is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z`}},
		"a negative deadline":         {`{"workflow":"w","deadline":"-5m"}`, []string{`/deadline: "-5m" is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z`}},
		// With its offset it is in the year 10000, which no reader of the fact could read.
		"a deadline beyond time": {`{"workflow":"w","deadline":"9999-12-31T23:59:59-12:00"}`, []string{`/deadline: "9999-12-31T23:59:59-12:00" is neither a positive duration such as 10m nor an instant such as 2026-11-21T14:00:00Z`}},
		"a huge exponent": {`{"workflow":"w","input":{"a/b":[1,-2e-401]}}`, []string{
			`/input/a~1b/1: the number -2e-401 is out of range: a number has up to 400 digits and an exponent from -400 to 400; send it as a text`}},
		"a number of 401 digits": {`{"workflow":"w","input":` + strings.Repeat("7", 401) + `}`, []string{
			`/input: the number ` + strings.Repeat("7", 40) + `... is out of range: a number has up to 400 digits and an exponent from -400 to 400; send it as a text`}},
		"a long ID": {`{"workflow":"w","id":"` + long + `"}`, []string{`/id: has 300 bytes; 255 are allowed`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := events.ParseSubmission([]byte(c.in))
			require.Error(t, err)
			require.Equal(t, c.want, faults(t, err))
		})
	}
}

// An object of half a megabyte does not cause a hundred thousand faults, nor the time that these would take.
func TestSubmissionFaultsAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"workflow":"w"`)
	for i := range 60_000 {
		fmt.Fprintf(&b, `,"m%d":1`, i)
	}
	b.WriteString(`}`)
	_, err := events.ParseSubmission([]byte(b.String()))
	require.Equal(t, []string{"has more than 64 members"}, faults(t, err))
	_, err = events.ParseSubmission([]byte(`{"workflow":"w","` + strings.Repeat("n", 1<<19) + `":1,"labels":{"` + strings.Repeat("n", 1<<19) + `":1}}`))
	require.Less(t, len(err.Error()), 1000)
}

func TestTaskIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "delivery-42", "a/b c", "Zürich ✓ 東京", "...", ".a", strings.Repeat("x", 255), "%2F", "\u2028"} {
		require.NoError(t, events.CheckTaskID(id), "%q", id)
	}
	for _, id := range []string{"", ".", "..", "a\x00", "a\nb", "\x7f", "\u0085", "\xff", strings.Repeat("x", 256)} {
		require.Error(t, events.CheckTaskID(id), "%q", id)
	}
	for _, c := range []struct{ key, subject, own, want string }{
		{"a", "", "", "a"}, {"", "a", "", "a"}, {"", "", "a", "a"}, {"a", "a", "a", "a"}, {"a", "", "a", "a"},
		{"a", "b", "", ""}, {"a", "", "b", ""}, {"", "a", "b", ""}, {"a", "a", "b", ""}, {"", "", "", ""}, {"\xff", "", "", ""},
		{strings.Repeat("a", 100), strings.Repeat("ü", 100), "", ""},
	} {
		got, err := events.TaskID([]byte(c.key), c.subject, c.own)
		if c.want == "" {
			require.Error(t, err, "%v", c)
			require.Less(t, len(err.Error()), 300)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func content(t tester, object string) string {
	t.Helper()
	s, err := events.ParseSubmission([]byte(object))
	require.NoError(t, err)
	h, err := s.ContentHash()
	require.NoError(t, err)
	return h
}

// SHA-256 of the object with sorted members, no spaces and numbers as written.
func TestEqualContentHasEqualHashes(t *testing.T) {
	t.Parallel()
	same := func(a, b string) { t.Helper(); require.Equal(t, content(t, a), content(t, b)) }
	differ := func(a, b string) { t.Helper(); require.NotEqual(t, content(t, a), content(t, b)) }
	const base = `{"id":"a","workflow":"w","input":{"x":1,"y":[1,{"p":2,"q":"é<&>"}]},"labels":{"b":"2","a":"1"},"deadline":"10m"}`
	require.Equal(t, "6b8c309ee51ea7a59a511ee4eddb35e9230931b0887bc31cd23e33ffed349c52", content(t, base))
	same(base, `{ "deadline" : "600s", "labels":{"a":"1","b":"2"}, "input" : {"y":[1, {"q":"\u00e9\u003c&\u003e", "p":2}], "x":1}, "workflow":"w", "id":"a"}`)
	same(base, strings.Replace(base, `"10m"`, `"0.16666666666666666h"`, 1)) // to the nanosecond
	same(`{"workflow":"w","deadline":"2026-11-21T15:00:00+01:00"}`, `{"workflow":"w","deadline":"2026-11-21T14:00:00.000Z"}`)
	same(`{"workflow":"w"}`, `{"workflow":"w","priority":0,"labels":{}}`)
	differ(base, strings.Replace(base, `"x":1`, `"x":1.0`, 1))
	differ(base, strings.Replace(base, `"x":1`, `"x":1e0`, 1))
	differ(base, strings.Replace(base, `"id":"a"`, `"id":"b"`, 1))
	differ(base, strings.Replace(base, `[1,`, `[1,1,`, 1))
	differ(base, strings.Replace(base, `10m`, `11m`, 1))
	differ(`{"workflow":"w"}`, `{"workflow":"w","input":null}`)
	differ(`{"workflow":"w"}`, `{"workflow":"w","version":1}`)
	differ(`{"workflow":"w","input":12345678901234567890}`, `{"workflow":"w","input":12345678901234567891}`)
}

func TestADeadlineCountsFromAcceptance(t *testing.T) {
	t.Parallel()
	from := func(d string) events.Instant {
		times, err := (&events.Submission{Deadline: d}).TimesFrom(testStart, 0)
		require.NoError(t, err)
		return times.Deadline
	}
	require.Zero(t, from(""))
	require.Equal(t, testStart+600_000, from("10m"))
	require.Equal(t, testStart+1000, from("2026-11-21T14:00:01Z"))
	require.Equal(t, testStart, from("1ns"))
}

func TestATaskMayStartLaterThanItIsAccepted(t *testing.T) {
	t.Parallel()
	from := func(notBefore, deadline string, own events.Duration) string {
		times, err := (&events.Submission{NotBefore: notBefore, Deadline: deadline}).TimesFrom(testStart, own)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(int64(times.NotBefore-testStart), times.Delay, int64(times.Deadline-testStart))
	}
	const minute = events.Duration(60e9)
	require.Equal(t, "600000 10m 660000", from("10m", "1m", minute/2))
	require.Equal(t, "600000 10m 660000", from("10m", "", minute))
	require.Equal(t, "60000 0s 120000", from("2026-11-21T14:01:00Z", "1m", 0))
	require.Equal(t, "600000 10m 660000", from("10m", "2026-11-21T14:11:00Z", 0))
	require.Equal(t, fmt.Sprint(int64(-testStart), " 0s ", 60_000), from("2026-11-21T13:00:00Z", "1m", 0), "it has come")
	require.Equal(t, fmt.Sprint(int64(-testStart), " 0s ", 60_000), from("2026-11-21T14:00:00Z", "1m", 0), "it comes now")
	require.Equal(t, fmt.Sprint(int64(-testStart), " 0s ", -3600_000), from("2026-11-21T13:30:00Z", "2026-11-21T13:00:00Z", 0), "both have come")
	require.Equal(t, `/deadline: "2026-11-21T14:10:00Z" is not after not_before, which is 2026-11-21T14:10:00.000Z: the task would be over before it may start`, from("10m", "2026-11-21T14:10:00Z", 0))
	require.Equal(t, `/not_before: "2036-11-21T14:00:00Z" is more than 87600h after the acceptance, at 2026-11-21T14:00:00.000Z; at most that is possible`, from("2036-11-21T14:00:00Z", "", 0))
	require.Equal(t, fmt.Sprint(int64(events.MaxDelay)/1e6, " 87600h ", int64(-testStart)), from("87600h", "", 0))
}

// A content hash depends on the content alone, and not on the order of members or on spaces.
func TestContentHashProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}`), 1, 6, rapid.ID[string]).Draw(t, "members")
		space := rapid.SampledFrom([]string{"", " ", "\n\t"})
		object := func(names []string) string {
			var b strings.Builder
			b.WriteString(`{"workflow":"w","input":{`)
			for i, n := range names {
				if i > 0 {
					b.WriteString(",")
				}
				fmt.Fprintf(&b, `%s"%s"%s:%d`, space.Draw(t, "s"), n, space.Draw(t, "s"), len(n)+int(n[0]))
			}
			b.WriteString(`}}`)
			return b.String()
		}
		a, err := events.ParseSubmission([]byte(object(values)))
		require.NoError(t, err)
		b, err := events.ParseSubmission([]byte(object(rapid.Permutation(values).Draw(t, "order"))))
		require.NoError(t, err)
		x, err := a.ContentHash()
		require.NoError(t, err)
		y, err := b.ContentHash()
		require.NoError(t, err)
		require.Equal(t, x, y)
	})
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	known := []string{"retry", "complete_by", "undo"}
	require.Equal(t, "retry", events.Nearest("Retyr", known))
	require.Equal(t, "complete_by", events.Nearest("completeby", known))
	require.Empty(t, events.Nearest("condition", known))
	require.Equal(t, `did you mean "undo"?`, events.Suggest("undoo", known))
	require.Equal(t, "known are retry, complete_by, undo", events.Suggest("condition", known))
}
