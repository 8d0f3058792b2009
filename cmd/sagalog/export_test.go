package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sagalog/sagalog/internal/export"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// exportOfALogThatIsCut exports while the log is cut: it is read again.
func exportOfALogThatIsCut(t *testing.T, data, to string) {
	t.Helper()
	cut := exportConfig{logPlace: logPlace{data: data, namespace: "sagalog"}, output: output{"json"}, to: to}
	cmd, calls, lines := &cobra.Command{}, 0, &bytes.Buffer{}
	cmd.SetContext(t.Context())
	cmd.SetOut(lines)
	cmd.SetErr(lines)
	require.NoError(t, cut.run(cmd, func(ctx context.Context, cfg export.Config) (export.Result, error) {
		if calls++; calls == 1 {
			return export.Result{}, &kafkalog.CutError{Topic: cfg.Topics.Events, Partition: 1, Start: 5}
		}
		return export.XES(ctx, cfg)
	}))
	require.Equal(t, 2, calls)
	require.Contains(t, lines.String(), "sagalog.events partition 1 was cut while it was read; reading again\n[{\"rows\":1,")
}

// exportOfVoidRecords exports them beside the facts.
func exportOfVoidRecords(t *testing.T, at place, data string) {
	t.Helper()
	voids := at.run(t, "export", "facts", "--data", data, "--to", filepath.Join(at.dir, "void"), "--void", "--format", "csv", "-o", "json")
	require.Equal(t, 0, voids.code(), voids.err.String())
	var both []export.Result
	require.NoError(t, json.Unmarshal([]byte(voids.out.String()), &both))
	require.Equal(t, []string{filepath.Join(at.dir, "void", "facts"), filepath.Join(at.dir, "void", "void")}, []string{both[0].Dir, both[1].Dir})
	require.Positive(t, both[0].Rows)
}

// The facts of a running and of a stopped engine are exported, and a wrong call says what is wrong with it.
func TestExportOfARunningAndAStoppedEngine(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	at := place{dir: t.TempDir()}
	data, to := filepath.Join(at.dir, "d"), filepath.Join(at.dir, "to")
	dev := at.start(t, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", "2")
	dev.eventually("ready", func() bool { return get(t, dev.endpoints(data).HTTP+"/readyz", nil) == http.StatusOK })
	definition := filepath.Join(at.dir, "w.yaml")
	require.NoError(t, os.WriteFile(definition, []byte("workflow: w\nsteps:\n  only: {sleep: 1ms}\n"), 0o600))
	require.Equal(t, 0, at.run(t, "workflow", "apply", definition, "--api", dev.endpoints(data).HTTP).code())
	require.Equal(t, 0, at.run(t, "task", "submit", "-w", "w", "--id", "t-1", "--wait", "--api", dev.endpoints(data).HTTP).code())
	first := at.run(t, "export", "facts", "--brokers", dev.endpoints(data).Kafka, "--to", to, "--format", "jsonl", "--workflow", "w", "-o", "json")
	require.Equal(t, 0, first.code(), first.err.String())
	running := at.run(t, "export", "facts", "--data", data, "--to", filepath.Join(at.dir, "x"))
	require.Equal(t, 1, running.code())
	require.Contains(t, running.err.String(), "`--brokers`")
	require.Equal(t, 0, dev.stop())

	files, err := filepath.Glob(filepath.Join(to, "facts", "date=*", "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 1, "the task is in one partition")
	f, err := os.Open(files[0])
	require.NoError(t, err)
	defer f.Close()
	var types []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var row struct{ Task, Type, Workflow string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		require.Equal(t, "t-1", row.Task)
		require.Equal(t, "w", row.Workflow)
		types = append(types, row.Type)
	}
	require.Equal(t, "Submitted", types[0])
	require.Equal(t, "TaskProcessed", types[len(types)-1])

	whole := at.run(t, "export", "facts", "--data", data, "--to", filepath.Join(at.dir, "whole"))
	require.Equal(t, 0, whole.code(), whole.err.String())
	require.Regexp(t, `^\d+ rows in 2 files, in `, whole.out.String())
	exportOfVoidRecords(t, at, data)
	xes := at.run(t, "export", "xes", "--data", data, "--to", to)
	require.Equal(t, 0, xes.code(), xes.err.String())
	require.Equal(t, "1 trace in "+filepath.Join(to, "xes", "log.xes")+"\n", xes.out.String())
	ocel := at.run(t, "export", "ocel", "--data", data, "--to", to, "--object", "customer", "--object", "shop", "-o", "json")
	require.Equal(t, 0, ocel.code(), ocel.err.String())
	var said []export.Result
	require.NoError(t, json.Unmarshal([]byte(ocel.out.String()), &said))
	require.Equal(t, []export.Result{{Rows: 4, Files: 1, Dir: filepath.Join(to, "ocel"), File: filepath.Join(to, "ocel", "log.ocel.json"), Of: "event"}}, said)
	require.FileExists(t, said[0].File)
	for _, c := range [][]string{{"xes"}, {"ocel", "--object", "customer", "--object", "shop"}} {
		again := at.run(t, append([]string{"export", "--data", data, "--to", to}, c...)...)
		require.Equal(t, 0, again.code(), again.err.String())
		require.Contains(t, again.out.String(), "is already complete")
	}
	other := at.run(t, "export", "ocel", "--data", data, "--to", to, "--object", "customer")
	require.Equal(t, 2, other.code())
	require.Contains(t, other.err.String(), "was begun with other flags")
	reserved := at.run(t, "export", "ocel", "--data", data, "--to", to, "--object", "step")
	require.Equal(t, 2, reserved.code())
	require.Contains(t, reserved.err.String(), "the label step has the name")

	exportOfALogThatIsCut(t, data, filepath.Join(at.dir, "cut"))
	for _, c := range []struct {
		says string
		args []string
	}{
		{"--data or --brokers", []string{"--to", "y"}},
		{`"xml" is not a format`, []string{"--data", data, "--to", "y", "--format", "xml"}},
		{"neither an instant", []string{"--data", data, "--to", "y", "--since", "yesterday"}},
		{"--void cannot be combined with --workflow", []string{"--data", data, "--to", "y", "--void", "--workflow", "w"}},
		{"not later than --since", []string{"--data", data, "--to", "y", "--since", "1h", "--until", "2h"}},
		{"was begun with other flags", []string{"--data", data, "--to", to}},
		{"--to is missing", []string{"--data", data}},
	} {
		p := at.run(t, append([]string{"export", "facts"}, c.args...)...)
		require.Equal(t, 2, p.code(), "%v: %s", c.args, p.err.String())
		require.Contains(t, p.err.String(), c.says)
	}
}
