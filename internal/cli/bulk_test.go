package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/api/apitest"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestABulkReportsTheOutcomeOfEachLine(t *testing.T) {
	t.Parallel()
	e := setup(t)
	lines := strings.Join([]string{
		`{"id":"a","workflow":"order","input":{"item":"x"}}`, ``, `nope`, `{"workflow":"order","input":{"item":"x"}}`,
		`{"id":"a","workflow":"order","input":{"item":"other"}}`, `{"id":"b","workflow":"order","input":{"item":5}}`, `{}`,
	}, "\n")
	r := e.pipe(lines, "task", "submit", "--from", "-")
	require.Equal(t, 1, r.code)
	require.Equal(t, "ACCEPTED  KNOWN  CONFLICTS  FAILED\n2         0      1          3\n", r.out)
	require.Contains(t, r.err, "line 3: 400")
	require.Contains(t, r.err, "line 5 (a): 409")
	require.Contains(t, r.err, "line 6 (b): 422 /input/item: must be a text")
	require.Contains(t, r.err, "line 7")

	file := filepath.Join(t.TempDir(), "x.ndjson")
	require.NoError(t, os.WriteFile(file, []byte(`{"id":"a","workflow":"order","input":{"item":"other"}}`), 0o600))
	r = e.run("task", "submit", "--from", file, "-o", "jsonl")
	require.Equal(t, 4, r.code)
	require.Contains(t, r.out, `"line":1`)
	require.Contains(t, r.out, `"status":409`)
	r = e.pipe(`{"id":"a","workflow":"order","input":{"item":"x"}}`, "task", "submit", "--from", "-", "-o", "json")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.out, `"status": 200`)
	require.Equal(t, 1, e.run("task", "submit", "--from", "/nope").code)
}

func TestABulkContinuesAfterAnOutage(t *testing.T) {
	t.Parallel()
	e := apitest.New()
	url, stop := e.Start(t)
	addr := strings.TrimPrefix(url, "http://")
	source, out := net.Pipe()
	got := make(chan result)
	go func() {
		var stdout, stderr bytes.Buffer
		root := &cobra.Command{Use: "sagalog"}
		root.AddCommand(cli.Commands(deps)...)
		root.SetIn(source)
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		code := cli.Execute(context.Background(), root, []string{"task", "submit", "--from", "-", "--api", url})
		got <- result{code, stdout.String(), stderr.String()}
	}()
	const n = 5000
	send := func(from, to int) {
		for i := from; i < to; i++ {
			fmt.Fprintf(out, "{\"id\":\"t-%d\",\"workflow\":\"order\",\"input\":{\"item\":\"x\"}}\n", i)
		}
	}
	send(0, 1000)
	stop()
	e.SetDown(errors.New("not ready yet"))
	_, again := e.Start(t, func(c *api.Config) { c.Addr = addr })
	defer again()
	go func() { send(1000, n); out.Close() }()
	e.SetDown(nil)
	r := <-got
	require.Equal(t, 0, r.code, r.err)
	tasks := map[string]bool{}
	for _, in := range e.Inputs(events.Submissions) {
		tasks[string(in.Key)] = true
	}
	require.Len(t, tasks, n)
}

func TestABulkCanBeInterrupted(t *testing.T) {
	t.Parallel()
	e := setup(t)
	source, out := net.Pipe()
	defer out.Close()
	ctx, interrupt := context.WithCancel(context.Background())
	got := make(chan result)
	go func() {
		var stderr bytes.Buffer
		root := &cobra.Command{Use: "sagalog"}
		root.AddCommand(cli.Commands(deps)...)
		root.SetIn(source)
		root.SetErr(&stderr)
		root.SetOut(&bytes.Buffer{})
		got <- result{code: cli.Execute(ctx, root, []string{"task", "submit", "--from", "-", "--api", e.url}), err: stderr.String()}
	}()
	fmt.Fprintln(out, `{"id":"a","workflow":"order","input":{"item":"x"}}`)
	interrupt()
	require.Equal(t, 1, (<-got).code)
}
