package api

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

var texts = []string{"", "plain", "a b", `"quoted" \`, "<&>", "日本\u2028", "\x7f\u0080", "tab\t", "\ufffd", strings.Repeat("x", 255)}

// The general encoder is the oracle.
func TestAnswersAreEncodedAsTheGeneralEncoderWould(t *testing.T) {
	t.Parallel()
	for _, text := range texts {
		for _, offset := range []int64{noOffset, 0, 1 << 50} {
			r := Receipt{ID: text, Partition: 7, Token: "t" + text, Request: text}
			f := &fate{line: 3, id: text, partition: 7}
			l := LineFate{Line: 3, ID: text, Status: 202, Partition: 7}
			if offset != noOffset {
				r.Offset, l.Offset = &offset, &offset
			}
			want, err := events.Marshal(&r)
			require.NoError(t, err)
			require.Equal(t, string(want), string(appendReceipt(nil, &r)))
			want, err = events.Marshal(&l)
			require.NoError(t, err)
			require.Equal(t, string(want)+"\n", string(appendFate(nil, f, 202, offset)))
		}
	}
}

func TestIdentifiersHaveTheirForm(t *testing.T) {
	t.Parallel()
	u := newUUID()
	require.Equal(t, u.String(), string(appendUUID(nil, u)))
	form := regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	made := traceparent("")
	require.Regexp(t, form, made)
	require.True(t, isTrace(made))
	require.NotEqual(t, made, traceparent(""))
	for i := range made {
		for _, c := range "-0fgAF/:`\x00" {
			s := made[:i] + string(c) + made[i+1:]
			require.Equal(t, form.MatchString(s) && s[:2] != "ff", isTrace(s), s)
		}
	}
	for _, s := range []string{"", made[1:], made + "0", "00-" + zeros + made[35:], made[:36] + zeros[:16] + made[52:]} {
		require.False(t, isTrace(s), s)
	}
}

// However a body arrives, its lines are the same.
func TestLinesAreCutAlikeHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	const limit = 10
	whole := strings.Repeat("x", limit)
	body := "a\n\nb\r\n" + whole + "\n" + whole + "\r\n" + whole + "x\n" + whole + "\r\r\n" + strings.Repeat("y", 300_000) + "\nlast"
	want := "a||b|" + whole + "|" + whole + "|LONG|LONG|LONG|last|EOF"
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "one by one": iotest.OneByteReader, "half": iotest.HalfReader, "error with data": iotest.DataErrReader,
	} {
		require.Equal(t, want, allLines(reader(strings.NewReader(body)), limit), name)
	}
	for body, want := range map[string]string{
		"": "EOF", "\n": "|EOF", whole + "x": "LONG|EOF", strings.Repeat("y", 100): "LONG|EOF", strings.Repeat("y", 100) + "\n": "LONG|EOF",
	} {
		require.Equal(t, want, allLines(strings.NewReader(body), limit), body)
	}
	broken := io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(fmt.Errorf("cut")))
	require.Equal(t, "a|cut", allLines(broken, limit), "half a line is none")
}

func allLines(r io.Reader, limit int) string {
	var b bytes.Buffer
	in := newLines(r, limit)
	for {
		list, err := in.next(nil)
		for _, l := range list {
			if l.tooLong {
				b.WriteString("LONG")
			}
			b.Write(l.data)
			b.WriteString("|")
		}
		if err != nil {
			b.WriteString(err.Error())
			return b.String()
		}
	}
}
