package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bytesBelow returns the files below a directory with their content; those that come and go while it is read are left out.
func bytesBelow(dir string) map[string]string {
	files := map[string]string{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if b, err := os.ReadFile(path); err == nil {
			files[strings.TrimPrefix(path, dir)] = string(b)
		}
		return nil
	})
	return files
}

// A process that exports and is killed at 20 random points, several times each, leads to the bytes of one that was not.
func TestAKilledExportHasTheSameBytes(t *testing.T) {
	startsAgain(t)
	t.Parallel()
	const points, tasks, partitions = 20, 400, 6
	at := place{dir: t.TempDir()}
	data := filepath.Join(at.dir, "d")
	dev := at.start(t, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--demo", "none", "--partitions", fmt.Sprint(partitions))
	api := dev.endpoints(data).HTTP
	dev.eventually("ready", func() bool { return get(t, api+"/readyz", nil) == http.StatusOK })
	definition := filepath.Join(at.dir, "w.yaml")
	require.NoError(t, os.WriteFile(definition, []byte("workflow: w\nsteps:\n  a: {sleep: 1ms}\n  b: {needs: [a], sleep: 1ms}\n  c: {needs: [b], sleep: 1ms}\n"), 0o600))
	require.Equal(t, 0, at.run(t, "workflow", "apply", definition, "--api", api).code())
	var lines strings.Builder
	for i := range tasks {
		fmt.Fprintf(&lines, `{"id":"t-%d","workflow":"w","labels":{"n":"%d"}}`+"\n", i, i)
	}
	file := filepath.Join(at.dir, "tasks")
	require.NoError(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	require.Equal(t, 0, at.run(t, "task", "submit", "--from", file, "--api", api).code())
	dev.eventually("all have ended", func() bool {
		var list struct{ Tasks []struct{ ID string } }
		return get(t, api+"/v1/tasks?state=processing&limit=1", &list) == http.StatusOK && len(list.Tasks) == 0
	})
	require.Equal(t, 0, dev.stop())

	kinds := []string{"facts", "attempts", "tasks", "steps", "xes", "ocel"}
	whole := map[string]map[string]string{}
	for _, kind := range kinds {
		dir := filepath.Join(at.dir, "whole")
		res := at.run(t, "export", kind, "--data", data, "--to", dir)
		require.Equal(t, 0, res.code(), res.err.String())
		whole[kind] = bytesBelow(filepath.Join(dir, kind))
	}
	killed, half := 0, 0
	for i := range points {
		kind, dir := kinds[i%len(kinds)], filepath.Join(at.dir, fmt.Sprint("point-", i))
		args := []string{"export", kind, "--data", data, "--to", dir}
		for range 1 + rand.IntN(3) {
			p, files := at.start(t, args...), rand.IntN(len(whole[kind])+partitions)
			require.Eventually(t, func() bool { // that number of files, or its end
				select {
				case <-p.ended:
					return true
				default:
					return len(bytesBelow(filepath.Join(dir, kind))) >= files
				}
			}, stepWait, time.Millisecond)
			_ = p.cmd.Process.Kill()
			if p.end() != 0 {
				killed++
				if n := len(bytesBelow(filepath.Join(dir, kind))); n > 0 {
					half++
				}
			}
		}
		res := at.run(t, args...)
		require.Equal(t, 0, res.code(), res.err.String())
		require.Equal(t, whole[kind], bytesBelow(filepath.Join(dir, kind)), "%s, point %d", kind, i)
	}
	require.GreaterOrEqual(t, killed, points/2, "most are killed before they end")
	require.Positive(t, half)
	t.Logf("%d processes killed, %d of them with files, at %d points", killed, half, points)
}
