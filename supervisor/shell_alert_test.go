package supervisor

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/events"
)

func TestAnAlertIsLogged(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{AlertParked, AlertUndone} {
		var lines strings.Builder
		s := &Shell{cfg: ShellConfig{Log: &sentLog{}, Logger: slog.New(slog.NewTextHandler(&lines, nil))}}
		s.ctx = t.Context()
		s.begin(7)
		value, err := json.Marshal(Alert{Kind: kind, Task: "t1", Workflow: "one", Step: "only", Reason: "refused"})
		require.NoError(t, err)
		s.send([]Send{{Generation: 7, ID: 1, Kind: events.EffectAlert, Record: events.Record{Value: value}}})
		require.Contains(t, lines.String(), `level=INFO msg="an alert is raised" kind=`+kind+" task=t1 workflow=one step=only reason=refused\n")
	}
}
