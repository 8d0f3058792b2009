package api

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// A body has the same lines, however it is split while it arrives.
func TestLinesAreTheSameHoweverTheyArrive(t *testing.T) {
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
	require.Equal(t, "a|cut", allLines(broken, limit), "an incomplete line does not count")
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
