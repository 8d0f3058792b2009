package e2e

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// These are the promises of docs/shown.md about the first start.
	firstWithin = 10 * time.Second
	endWithin   = 5 * time.Second
)

// bannerCommand returns the command in the banner that contains all of these texts.
func bannerCommand(t *testing.T, banner string, texts ...string) string {
	t.Helper()
lines:
	for line := range strings.Lines(banner) {
		for _, s := range texts {
			if !strings.Contains(line, s) {
				continue lines
			}
		}
		return strings.TrimSpace(line)
	}
	require.FailNow(t, "the banner has no such command", "%v in:\n%s", texts, banner)
	return ""
}

// paste runs a command as a user would who pasted it.
func paste(t *testing.T, command string) (stdout string) {
	t.Helper()
	code, out, errs := output(t, "bash", "-c", command)
	require.Zero(t, code, "%s\n%s%s", command, out, errs)
	return out
}

// hasTasks says whether the program already has the task commands.
func hasTasks(t *testing.T) bool {
	t.Helper()
	code, _, _ := output(t, program("sagalog"), "task", "submit", "--help")
	return code == 0
}

// One command starts everything, the first delivery is processed, and the commands in the banner can be pasted. Ctrl-C
// ends the engine, and the next start continues.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	work := workDir(t)
	e := newEngine(t, work)
	begun := time.Now()
	e.launch()
	var first time.Duration
	eventually(t, patience, "the first delivery is done", func() bool {
		status, b, err := e.try("GET", "/v1/tasks?state=processed&limit=1", nil)
		first = time.Since(begun)
		return err == nil && status == 200 && strings.Contains(string(b), `"processed"`)
	})
	t.Logf("first delivery completed %s after the process was started", first.Round(time.Millisecond))
	promised(t, "the first delivery", first, firstWithin)

	banner := e.stdout()
	for _, says := range []string{e.HTTP, e.Kafka, e.data, "demo break drone --mode fail --for 20s"} {
		require.Contains(t, banner, says)
	}
	for service, url := range e.Services {
		require.Contains(t, banner, url, service)
	}
	if hasTasks(t) {
		t.Logf("pasted: %s", paste(t, bannerCommand(t, banner, "task submit", "--wait")))
		require.Equal(t, "processed", e.settled("delivery-1").State)
		paste(t, bannerCommand(t, banner, "demo break drone"))
		require.Contains(t, paste(t, bannerCommand(t, banner, "task list")), "delivery-1")
		e.ask(204, "DELETE", "/v1/demo/break", nil)
	} else {
		t.Error("sagalog has no command `task submit` yet, and the banner shows it")
	}
	t.Logf("pasted: %s", paste(t, bannerCommand(t, banner, "curl ")))
	require.Equal(t, "processed", e.settled("delivery-2").State)
	if _, err := exec.LookPath("kcat"); err == nil {
		paste(t, bannerCommand(t, banner, "| kcat "))
		require.Equal(t, "processed", e.settled("delivery-3").State)
	} else {
		t.Log("SKIPPED: kcat is not in PATH, so its command of the banner was not pasted (apt-get install kcat)")
	}

	busyPorts(t, e)
	held(t, e)

	before := e.history("delivery-2")
	code, took := e.interrupt()
	require.Zero(t, code, tail(e.err, 20))
	promised(t, "Ctrl-C", took, endWithin)
	t.Logf("Ctrl-C: exit 0 after %s", took.Round(time.Millisecond))

	e.start()
	require.Equal(t, before, e.history("delivery-2"), "the history continues where it was")
	newest := e.list("limit=1")[0].ID
	eventually(t, patience, "the example continues", func() bool { return e.list("limit=1")[0].ID != newest })
	e.kill()
	e.start()
	require.Equal(t, before, e.history("delivery-2"), "also after kill -9")
	e.submit("delivery-4", delivery("delivery-4", 4))
	require.Equal(t, "processed", e.settled("delivery-4").State)
	e.stop()
}

// busyPorts starts engines whose ports are taken.
func busyPorts(t *testing.T, e *engine) {
	t.Helper()
	http, kafka := strings.TrimPrefix(e.HTTP, "http://"), e.Kafka
	for flag, args := range map[string][]string{
		"--http":  {"--http", http, "--kafka", "127.0.0.1:0"},
		"--kafka": {"--http", "127.0.0.1:0", "--kafka", kafka},
	} {
		p := start(t, command{name: "busy" + flag, dir: e.work, program: program("sagalog"),
			args: append([]string{"dev", "--data", filepath.Join(e.work, "other"+flag)}, args...)})
		require.Equal(t, 1, p.wait(patience), p.stderr())
		last := tail(p.err, 1)
		require.Contains(t, last, flag)
		require.Contains(t, last, "in use")
		t.Logf("busy port: %s", last)
	}
}

// held starts a second engine on the same data directory.
func held(t *testing.T, e *engine) {
	t.Helper()
	p := start(t, command{name: "second", dir: e.work, program: program("sagalog"),
		args: []string{"dev", "--data", e.data, "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0"}})
	require.Equal(t, 1, p.wait(patience), p.stderr())
	last := tail(p.err, 1)
	require.Contains(t, last, "process "+strconv.Itoa(e.cmd.Process.Pid))
	t.Logf("second process: %s", last)
}
