package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// missingBank is an open alert, and late another.
var (
	missingBank = api.Alert{Kind: supervisor.AlertMissing, Agent: "bank", Operation: "do", Since: 1_800_000_000_000, Reason: "no live instance offers it"}.Named(0)
	late        = api.Alert{Kind: supervisor.AlertDeadline, Task: "o 17", Since: 1_800_000_060_000, Reason: "the deadline has passed"}.Named(1_800_000_060_000)
)

func TestAlertsAreAcknowledged(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.SetAlerts([]api.Alert{missingBank, late}, nil)
	require.Equal(t, "deadline_passed:o~2017@mywpk76o", late.ID, "it needs no quotes")
	r := e.run("alert", "ack", missingBank.ID, "--reason", "it comes back at noon", "--by", "ada")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.out, "ada: it comes back at noon")
	r = e.run("alert", "ack", missingBank.ID, "--reason", "I restart it", "--by", "bob")
	require.Equal(t, 0, r.code, r.err)
	require.Regexp(t, `^alert agent_missing:\S+ was acknowledged before, at \S+ by ada: it comes back at noon \(that stays: your reason is not recorded\)\n$`, r.err)
	r = e.run("alerts", "list", "-o", "jsonl")
	require.Equal(t, 0, r.code, r.err)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], late.ID)
	require.Contains(t, lines[1], `"by":"ada"`, "it comes last")

	for code, ids := range map[int][]string{
		cli.ExitConflict: {"parked:nobody@1"}, cli.ExitUsage: {"nonsense"},
	} {
		r = e.run(append([]string{"alert", "ack"}, ids...)...)
		require.Equal(t, code, r.code, r.err)
	}
	r = e.run("alert", "ack", "parked:nobody@1", late.ID)
	require.Equal(t, cli.ExitConflict, r.code)
	require.Contains(t, r.out, late.ID, "the others are acknowledged")
	require.Contains(t, r.err, "1 of 2 alerts were not acknowledged")
	require.Equal(t, cli.ExitUsage, e.run("alert", "list", "--kind", "parkd").code)
	require.Equal(t, cli.ExitUsage, e.run("alert", "ack").code)
}

// A watch prints what is open, then what comes, each once, and ends well when it is interrupted.
func TestAWatchPrintsEachAlertOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.SetAlerts([]api.Alert{missingBank}, nil)
	ctx, interrupt := context.WithCancel(t.Context())
	from, to := io.Pipe()
	var said bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		root := &cobra.Command{Use: "sagalog", Short: "An engine"}
		root.AddCommand(cli.Commands(deps)...)
		root.SetOut(to)
		root.SetErr(&said)
		ended <- cli.Execute(ctx, root, []string{"alert", "watch", "--api", e.url})
		to.Close()
	}()
	lines := bufio.NewScanner(from)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), "agent_missing bank do: no live instance offers it ("+missingBank.ID+")")
	e.SetAlerts([]api.Alert{missingBank, late}, nil)
	require.True(t, lines.Scan())
	require.Contains(t, lines.Text(), "deadline_passed o 17: the deadline has passed")
	interrupt()
	require.False(t, lines.Scan())
	require.Equal(t, cli.ExitOK, <-ended, said.String())
}

// record is a record of the topic of alerts.
func record(offset int64, a supervisor.Alert) events.Record {
	b, _ := json.Marshal(a)
	return events.Record{Offset: offset, Value: b}
}
