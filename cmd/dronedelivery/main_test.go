package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asProgram makes the test binary behave like dronedelivery itself, so that a test can kill it.
const asProgram = "DRONEDELIVERY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"help":             {[]string{"--help"}, 0, ""},
		"nothing":          {nil, 0, ""},
		"unknown command":  {[]string{"srve"}, 2, `did you mean "serve"`},
		"unknown flag":     {[]string{"serve", "--prot", "1"}, 2, "unknown flag --prot"},
		"flag of top":      {[]string{"--prot"}, 2, "unknown flag --prot"},
		"extra argument":   {[]string{"load", "x"}, 2, "load"},
		"no rate":          {[]string{"serve", "--refuse", "drone"}, 2, "SERVICE=RATE"},
		"bad rate":         {[]string{"serve", "--refuse", "drone=2"}, 2, "rate 2"},
		"unknown service":  {[]string{"serve", "--hang", "rocket=0"}, 2, `"rocket"`},
		"not loopback":     {[]string{"serve", "--host", "0.0.0.0"}, 2, "loopback"},
		"negative count":   {[]string{"load", "--count", "-1"}, 2, "negative"},
		"no number":        {[]string{"load", "--rate", "NaN"}, 2, "--rate"},
		"no API":           {[]string{"load", "--api", "localhost"}, 2, "--api"},
		"directory exists": {[]string{"files", "testdata/../doc.go"}, 1, "write files"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			require.Equal(t, tt.code, run(t.Context(), tt.args, &out, &errs), errs.String())
			require.Contains(t, errs.String(), tt.says)
		})
	}
}

func TestFilesWritesWhatAUserLoads(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	require.Zero(t, run(t.Context(), []string{"files", dir}, io.Discard, io.Discard))
	for _, name := range []string{"workflow.yaml", "delivery.schema.json", "agents/package.yaml"} {
		require.FileExists(t, filepath.Join(dir, name))
	}
	require.Equal(t, cli.ExitError, run(t.Context(), []string{"files", dir}, io.Discard, io.Discard), "nothing is overwritten")
}

// program starts the services as a process and returns their URLs.
func program(t *testing.T, args ...string) (*exec.Cmd, map[string]string) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err)
	var printed struct{ Services map[string]string }
	require.NoError(t, json.Unmarshal(line, &printed))
	require.Len(t, printed.Services, 5)
	return cmd, printed.Services
}

func TestKilledServicesRememberWhatTheyAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(url string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(`{"size":"small","weight":1}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "k1")
		req.Header.Set("Sagalog-Task", "t1")
		res, err := client.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(b)
	}

	cmd, urls := program(t, "serve", "--data", dir, "--refuse", "transport=1")
	status, first := ask(urls["package"] + "/api/packages/t1")
	require.Equal(t, 201, status)
	status, _ = ask(urls["transport"] + "/api/transports/t1")
	require.Equal(t, 422, status)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	cmd, urls = program(t, "serve", "--data", dir)
	status, second := ask(urls["package"] + "/api/packages/t1")
	require.Equal(t, 200, status)
	require.Equal(t, first, second)
	status, _ = ask(urls["transport"] + "/api/transports/t1")
	require.Equal(t, 201, status)
	var applied []bool
	require.NoError(t, dronedelivery.ReadLedger(t.Context(), urls["package"], func(l dronedelivery.Line) error {
		applied = append(applied, l.Applied)
		return nil
	}))
	require.Equal(t, []bool{true, false}, applied)
	http.DefaultClient.CloseIdleConnections()

	endpoints, err := os.ReadFile(filepath.Join(dir, "endpoints.json"))
	require.NoError(t, err)
	require.Contains(t, string(endpoints), urls["drone"])
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "a signal ends it with exit code 0")
}

func TestServeReportsABusyPort(t *testing.T) {
	t.Parallel()
	_, urls := program(t, "serve", "--data", t.TempDir())
	port := urls["account"][strings.LastIndex(urls["account"], ":")+1:]
	var errs bytes.Buffer
	require.Equal(t, cli.ExitError, run(t.Context(), []string{"serve", "--data", t.TempDir(), "--port-base", port}, io.Discard, &errs))
	require.Contains(t, errs.String(), "account service cannot listen on 127.0.0.1:"+port)
}

func TestLoadPrintsSubmissionsAtItsRate(t *testing.T) {
	t.Parallel()
	args := []string{"load", "--count", "1500", "--prefix", "a/b-", "--first", "5", "--seed", "3"}
	var first, second bytes.Buffer
	require.Zero(t, run(t.Context(), args, &first, io.Discard))
	require.Zero(t, run(t.Context(), append(args, "--rate", "100000"), &second, io.Discard))
	require.Equal(t, first.String(), second.String())
	require.Equal(t, 1500, strings.Count(first.String(), "\n"))
	require.True(t, strings.HasPrefix(first.String(), `{"id":"a/b-5","workflow":"drone-delivery","input":{"ownerId":"owner-`), first.String()[:80])
}

func TestAnInterruptedLoadIsAnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	require.Equal(t, cli.ExitError, run(ctx, []string{"load", "--count", "2", "--rate", "0.1"}, io.Discard, &errs))
	require.Contains(t, errs.String(), "interrupted")
}
