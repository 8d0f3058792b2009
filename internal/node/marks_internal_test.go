package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/supervisor"
	"github.com/stretchr/testify/require"
)

func TestMarksOutliveTheProcess(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	dir := filepath.Join(t.TempDir(), "marks")
	m := &marks{dir: dir, log: slog.New(slog.NewTextHandler(&said, nil))}
	require.Zero(t, m.read(3))
	long := supervisor.Mark{Owning: true, Judging: supervisor.Suspect{Input: events.CauseInput(events.Reports, 3, 7), Hash: "h"},
		Suspects: []supervisor.Suspect{{Input: events.CauseInput(events.Submissions, 3, 1), Hash: "i", Ended: 2}}}
	m.keep(3, long)
	require.Equal(t, long, m.read(3))
	m.keep(3, supervisor.Mark{Owning: true}) // shorter than what it replaces
	require.Equal(t, supervisor.Mark{Owning: true}, m.read(3))
	m.keep(3, supervisor.Mark{})
	require.NoFileExists(t, filepath.Join(dir, "3"))
	m.keep(3, supervisor.Mark{})
	require.Empty(t, said.String())
}

func TestAMarkThatCannotBeReadOrWrittenIsIgnored(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "cut": `{"owning":tr`, "other": `[1]`, "of another type": `{"owning":true,"judging":{"input":7}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			m := &marks{dir: t.TempDir(), log: slog.New(slog.NewTextHandler(&said, nil))}
			require.NoError(t, os.WriteFile(m.path(0), []byte(text), 0o600))
			require.Zero(t, m.read(0))
			require.Contains(t, said.String(), "it is ignored")
		})
	}
	var said strings.Builder
	dir := filepath.Join(t.TempDir(), "marks")
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // a file where the directory should be
	m := &marks{dir: dir, log: slog.New(slog.NewTextHandler(&said, nil))}
	for range 3 {
		m.keep(0, supervisor.Mark{Owning: true})
	}
	require.Equal(t, 1, strings.Count(said.String(), "cannot be written"))
}

// What an input costs that is judged alone.
func BenchmarkMark(b *testing.B) {
	m := &marks{dir: filepath.Join(b.TempDir(), "marks"), log: slog.New(slog.DiscardHandler)}
	for i := range b.N {
		m.keep(0, supervisor.Mark{Owning: true, Judging: supervisor.Suspect{Input: events.CauseInput(events.Submissions, 0, int64(i)), Hash: "0123456789abcdef"}})
	}
}
