package past_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/past"
	"github.com/stretchr/testify/require"
)

// parts returns where each partition of the log ends whose first n-th part is taken, and the time of the latest record in there.
func (w world) parts(n int) (ends []int, m past.Moment) {
	for _, records := range w.log {
		end := len(records) / n
		ends = append(ends, end)
		if end > 0 {
			m.Time = max(m.Time, records[end-1].Timestamp)
		}
	}
	return ends, m
}

// lastMoment is behind all facts.
func lastMoment() past.Moment { return past.Moment{Time: events.At(time.Now().AddDate(500, 0, 0))} }

// A checkpoint that fits the log, and whose state cannot be folded on, is passed over with a warning: the fold begins with the next older one, and at last with the first fact.
func TestACheckpointThatCannotBeFoldedOnIsPassedOver(t *testing.T) {
	t.Parallel()
	w, last := worlds(t, 1)[0], lastMoment()
	checkpoints := t.TempDir()
	near, far := filepath.Join(checkpoints, "near"), filepath.Join(checkpoints, "far")
	half, moment := w.parts(2)
	quarter, _ := w.parts(4)
	w.spoiled(t, near, half)
	w.checkpoint(t, far, quarter)

	copyOf := func(dirs ...string) (*past.Mark, []string) {
		var warnings []string
		mark, err := past.Copy(t.Context(), past.Config{
			Cluster: w.cluster, Namespace: "sim", Moment: last, Dir: filepath.Join(t.TempDir(), "past"), Checkpoints: dirs,
			Warn: func(warning string) { warnings = append(warnings, warning) },
		})
		require.NoError(t, err)
		return mark, warnings
	}
	diffOf := func(dirs ...string) (*past.Difference, []string) {
		var warnings []string
		d, err := past.Diff(t.Context(), past.DiffConfig{
			Cluster: w.cluster, Namespace: "sim", From: moment, To: last, Checkpoints: dirs,
			Warn: func(warning string) { warnings = append(warnings, warning) },
		})
		require.NoError(t, err)
		return d, warnings
	}
	whole, warnings := copyOf()
	require.Empty(t, warnings)
	difference, warnings := diffOf()
	require.Empty(t, warnings)
	require.NotEmpty(t, difference.Changes)
	compare := func(from string, save int) {
		t.Helper()
		mark, warnings := copyOf(checkpoints)
		require.Equal(t, from, mark.Checkpoint)
		require.EqualValues(t, int(whole.Facts)-save, mark.Folded)
		require.Equal(t, whole.Hashes, mark.Hashes)
		require.Contains(t, warnings[0], "the checkpoint "+near+" is passed over: ")
		d, warnings := diffOf(checkpoints)
		require.Equal(t, from, d.Checkpoint)
		require.EqualValues(t, int(difference.Folded)-save, d.Folded)
		require.Contains(t, warnings[0], "the checkpoint "+near+" is passed over: ")
		d.Checkpoint, d.Folded = difference.Checkpoint, difference.Folded
		require.Equal(t, difference, d)
	}
	compare(far, sum(quarter))
	require.NoError(t, os.RemoveAll(far))
	compare("", 0)
}

// A checkpoint can be named itself.
func TestACheckpointCanBeNamedItself(t *testing.T) {
	t.Parallel()
	w := worlds(t, 1)[0]
	checkpoints := t.TempDir()
	one := filepath.Join(checkpoints, "one")
	half, moment := w.parts(2)
	quarter, _ := w.parts(4)
	w.checkpoint(t, filepath.Join(checkpoints, "nearer"), half)
	w.checkpoint(t, one, quarter)
	cfg := past.Config{Cluster: w.cluster, Namespace: "sim", Moment: lastMoment(), Dir: filepath.Join(t.TempDir(), "past"), Checkpoints: []string{one}}
	cfg.Warn = func(warning string) { require.Fail(t, warning) }
	mark, err := past.Copy(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, one, mark.Checkpoint)
	require.EqualValues(t, int(mark.Facts)-sum(quarter), mark.Folded)
	d, err := past.Diff(t.Context(), past.DiffConfig{Cluster: w.cluster, Namespace: "sim", From: moment, To: lastMoment(), Checkpoints: cfg.Checkpoints, Warn: cfg.Warn})
	require.NoError(t, err)
	require.Equal(t, one, d.Checkpoint)
}

// If no checkpoint is of use, a warning says so, and why.
func TestThatNoCheckpointIsOfUseIsSaid(t *testing.T) {
	t.Parallel()
	w := worlds(t, 1)[0]
	empty, damaged, later := t.TempDir(), t.TempDir(), t.TempDir()
	half, _ := w.parts(2)
	_, early := w.parts(4)
	whole, _ := w.parts(1)
	for p := range whole { // a partition of which nothing is kept is not behind the moment
		whole[p] = max(whole[p], 1)
	}
	w.checkpoint(t, filepath.Join(damaged, "c"), half)
	require.NoError(t, os.WriteFile(filepath.Join(damaged, "c", "checkpoint.json"), []byte("{}"), 0o600))
	w.checkpoint(t, filepath.Join(later, "c"), whole)
	for _, c := range []struct {
		name, dir, says string
		at              past.Moment
	}{
		{"empty", empty, empty + " holds no checkpoint: name a directory of checkpoints", lastMoment()},
		{"damaged", damaged, "the checkpoint " + filepath.Join(damaged, "c") + " is passed over: ", lastMoment()},
		{"later", later, "1 of the 1 checkpoints in " + later + " save nothing: they are later than the moment", early},
	} {
		t.Run(c.name, func(t *testing.T) {
			var warnings []string
			cfg := past.Config{
				Cluster: w.cluster, Namespace: "sim", Moment: c.at, Dir: filepath.Join(t.TempDir(), "past"), Checkpoints: []string{c.dir},
				Warn: func(warning string) { warnings = append(warnings, warning) },
			}
			mark, err := past.Copy(t.Context(), cfg)
			require.NoError(t, err)
			require.Empty(t, mark.Checkpoint)
			require.Len(t, warnings, 2)
			require.Contains(t, warnings[0], c.says)
			require.Equal(t, "no checkpoint is used: the fold begins with the first fact of the log", warnings[1])
		})
	}
}
