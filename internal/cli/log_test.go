package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// log is one that begins at offset 40 and holds three facts about task t.
type log struct{ brokers string }

func (l *log) Flags(f *pflag.FlagSet) { f.StringVar(&l.brokers, "brokers", "", "") }

func (l *log) History(_ context.Context, task string, _ io.Writer, show func(api.HistoryEvent) error) (cli.LogPlace, error) {
	for i, name := range []string{"Submitted", "TimeCorrected", "TaskUndone"} {
		if task != "t" {
			break
		}
		e := api.HistoryEvent{Offset: int64(41 + i), Time: events.Instant(1e9), Type: name, Owner: "n1", Data: json.RawMessage(`{"reason":"cancelled"}`)}
		if name == "Submitted" {
			e.Data = json.RawMessage(`{"workflow":"order","version":2}`)
		}
		if name == "TimeCorrected" {
			e.Data = json.RawMessage(`{"to":"2026-11-21T14:00:31.000Z"}`)
		}
		if err := show(e); err != nil {
			return cli.LogPlace{}, err
		}
	}
	return cli.LogPlace{Topic: "x.events", Partition: 2, From: 40}, nil
}

func (l *log) Past(context.Context, cli.PastOf, io.Writer) (cli.Past, func() error, error) {
	return cli.Past{}, nil, errors.New("no past here")
}

func TestAHistoryIsReadFromTheLogWithoutAnEngine(t *testing.T) {
	t.Parallel()
	run := func(args ...string) result {
		var out, err bytes.Buffer
		root := &cobra.Command{Use: "sagalog"}
		root.AddCommand(cli.Commands(cli.Deps{Log: &log{}})...)
		root.SetOut(&out)
		root.SetErr(&err)
		return result{cli.Execute(t.Context(), root, append([]string{"task", "history", "--from-log"}, args...)), out.String(), err.String()}
	}
	table := run("t")
	require.Equal(t, 0, table.code, table.err)
	require.Regexp(t, `TIME +EVENT +STEP +ATTEMPT +OWNER +CAUSE +DETAIL\n.+ Submitted +n1 +the task is accepted, of workflow order, version 2\n.+ TimeCorrected +n1 +a clock was ahead; what began by that clock counts from 2026-11-21T14:00:31\.000Z instead\n.+TaskUndone`, table.out)
	require.Contains(t, table.err, "the log begins at offset 40 of x.events/2: earlier facts are gone")
	var list []api.HistoryEvent
	require.NoError(t, json.Unmarshal([]byte(run("t", "-o", "json").out), &list))
	require.Len(t, list, 3)
	require.Regexp(t, `^\{.+"Submitted".+\}\n\{.+"TimeCorrected".+\}\n\{.+"TaskUndone".+\}\n$`, run("t", "-o", "jsonl").out)

	unknown := run("u")
	require.Equal(t, 3, unknown.code)
	require.Contains(t, unknown.err, `there is no task "u" in the log from offset 40 of x.events/2 on`)
	require.Empty(t, unknown.out)
	require.Equal(t, 2, run("t", "--cursor", "x").code)
}
