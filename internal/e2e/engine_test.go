package e2e

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// fleet is the five services in a separate process.
type fleet struct {
	*process
	dir  string
	urls map[string]string
}

// startFleet runs the services. args are the rates at which they fail.
func startFleet(t *testing.T, work string, args ...string) *fleet {
	t.Helper()
	f := &fleet{dir: filepath.Join(work, "services")}
	if err := os.Remove(filepath.Join(f.dir, "endpoints.json")); err != nil { // from an earlier run of the services, with other ports
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	f.process = start(t, command{name: "services", dir: work, program: program("dronedelivery"),
		args: append([]string{"serve", "--data", f.dir}, args...)})
	f.urls = awaitEndpoints(t, f.process, f.dir).Services
	return f
}

// env tells the agent bindings where the services are.
func (f *fleet) env() []string {
	var env []string
	for _, s := range dronedelivery.Services() {
		env = append(env, dronedelivery.EnvName(s)+"="+f.urls[s])
	}
	return env
}

// ledger returns the calls that a service received about a task, or all its calls if the ID is
// empty.
func (f *fleet) ledger(t *testing.T, service, task string) []dronedelivery.Line {
	t.Helper()
	return ledgerOf(t, f.urls[service], task)
}

func ledgerOf(t *testing.T, url, task string) []dronedelivery.Line {
	t.Helper()
	var lines []dronedelivery.Line
	require.NoError(t, dronedelivery.ReadLedger(t.Context(), url, func(l dronedelivery.Line) error {
		if task == "" || l.Task == task {
			lines = append(lines, l)
		}
		return nil
	}))
	return lines
}

type endpoints struct {
	HTTP     string            `json:"http"`
	Kafka    string            `json:"kafka"`
	Services map[string]string `json:"services"`
}

// awaitEndpoints reads DIR/endpoints.json once it is there.
func awaitEndpoints(t *testing.T, p *process, dir string) endpoints {
	t.Helper()
	var e endpoints
	eventually(t, patience, p.name+" announces its address", func() bool {
		require.True(t, p.running(), "%s has ended:\n%s", p.name, tail(p.err, 20))
		b, err := os.ReadFile(filepath.Join(dir, "endpoints.json"))
		return err == nil && json.Unmarshal(b, &e) == nil
	})
	return e
}

// engine is `sagalog dev` in a separate process.
type engine struct {
	*process
	t    *testing.T
	work string
	data string
	// program is a build with test hooks, if it is set.
	program string
	// args and env are the same at each start.
	args, env []string
	endpoints
}

// newEngine prepares an engine on a new data directory. Its ports stay the same over restarts.
func newEngine(t *testing.T, work string, args ...string) *engine {
	t.Helper()
	e := &engine{t: t, work: work, data: filepath.Join(work, "data")}
	e.args = append([]string{"dev", "--http", freePort(t), "--kafka", freePort(t)}, args...)
	return e
}

// freePort returns an address on which nothing listens, a different one each time. Its port is below the range from
// which Linux assigns ports automatically, because another process could take a port in that range while an engine
// restarts.
func freePort(t *testing.T) string {
	t.Helper()
	const first, last = 10_000, 32_000
	for range 1000 {
		addr := "127.0.0.1:" + strconv.Itoa(first+rand.IntN(last-first))
		if _, taken := ports.LoadOrStore(addr, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", addr); err == nil {
			require.NoError(t, l.Close())
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// ports are the addresses that freePort gave.
var ports sync.Map

// newEngineWith prepares an engine that uses the services of a fleet.
func newEngineWith(t *testing.T, work string, f *fleet, args ...string) *engine {
	t.Helper()
	files := filepath.Join(work, "files")
	if _, err := os.Stat(files); err != nil {
		code, _, errs := output(t, program("dronedelivery"), "files", files)
		require.Zero(t, code, errs)
	}
	e := newEngine(t, work, append([]string{"--demo", "none", "--workflows", files, "--agents", filepath.Join(files, "agents")}, args...)...)
	e.env = f.env()
	return e
}

// begin starts the process.
func (e *engine) begin() {
	e.t.Helper()
	if err := os.Remove(filepath.Join(e.data, "endpoints.json")); err != nil {
		require.ErrorIs(e.t, err, os.ErrNotExist)
	}
	e.process = start(e.t, command{name: "engine", dir: e.work, program: cmp.Or(e.program, program("sagalog")), args: append(e.args, "--data", e.data), env: e.env})
}

// launch starts the process and returns when it has printed its address.
func (e *engine) launch() {
	e.t.Helper()
	e.begin()
	at := awaitEndpoints(e.t, e.process, e.data)
	if !reflect.DeepEqual(at, e.endpoints) { // running clients read these files, so they are written only if something changed
		e.endpoints = at
	}
}

// start launches the engine, waits until it is ready, and returns how long that took.
func (e *engine) start() time.Duration {
	e.t.Helper()
	begun := time.Now()
	e.launch()
	e.ready()
	return time.Since(begun)
}

func (e *engine) ready() {
	e.t.Helper()
	eventually(e.t, patience, "the engine is ready", func() bool {
		require.True(e.t, e.running(), "the engine has ended:\n%s", tail(e.err, 20))
		status, _, err := e.try("GET", "/readyz", nil)
		return err == nil && status == 200
	})
}

// stop sends Ctrl-C and requires a successful exit.
func (e *engine) stop() {
	e.t.Helper()
	code, took := e.interrupt()
	require.Zero(e.t, code, tail(e.err, 20))
	e.t.Logf("Ctrl-C ended it in %s", took.Round(time.Millisecond))
}
