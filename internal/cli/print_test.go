package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// hostile clears a line by a control sequence that begins with U+009B, and turns the order of what follows.
const hostile = "a\u009b2Kb\u202ec\u2066d\u007f"

func TestNoFormatControlsTheTerminal(t *testing.T) {
	t.Parallel()
	doc, err := json.Marshal(map[string]string{"reason": hostile + "\x1b[2J"})
	require.NoError(t, err)
	var out bytes.Buffer
	cells := func(json.RawMessage) (row, error) { return row{hostile}, nil }
	for _, format := range formats {
		p := &printer{format: format, out: &out, err: &out}
		require.NoError(t, p.list([]json.RawMessage{doc}, listing{cells: cells}))
		require.NoError(t, p.one(doc, func(out io.Writer) error { return table(out, nil, []row{{hostile}}) }))
		p.note("warning: %s", hostile)
	}
	for _, c := range "\u009b\u202e\u2066\u007f\x1b" {
		require.NotContains(t, out.String(), string(c), "%U", c)
	}
	out.Reset()
	require.NoError(t, (&printer{format: formatJSONL, out: &out}).line(doc))
	require.JSONEq(t, string(doc), out.String(), "a program reads the same text")
}

func TestAnErrorOfTheServerDoesNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	root := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return errors.New(hostile + "\nmore") }}
	root.SetErr(&out)
	require.Equal(t, ExitError, Execute(context.Background(), root, nil))
	require.Equal(t, "x: a\ufffd2Kb\ufffdc\ufffdd\ufffd\nmore\n", out.String())
}
