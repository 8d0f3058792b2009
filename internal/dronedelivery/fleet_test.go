package dronedelivery_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sagalog/sagalog/internal/dronedelivery"
	"github.com/stretchr/testify/require"
)

// world is five running services and a way to call them.
type world struct {
	t      testing.TB
	cfg    dronedelivery.Config
	client *http.Client
	urls   map[string]string
	stop   func()
	log    *bytes.Buffer
}

func setup(t testing.TB) *world {
	t.Helper()
	return setupIn(t, dronedelivery.Config{Dir: filepath.Join(t.TempDir(), "services")})
}

func setupIn(t testing.TB, cfg dronedelivery.Config) *world {
	t.Helper()
	w := &world{t: t, cfg: cfg, log: new(bytes.Buffer)}
	cfg.Log = slog.New(slog.NewTextHandler(w.log, nil))
	fleet, err := dronedelivery.New(cfg)
	require.NoError(t, err)
	require.NoError(t, fleet.Listen())
	w.urls = fleet.URLs()

	transport := &http.Transport{}
	w.client = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- fleet.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(w.stop)
	return w
}

// again stops the services and restarts them on the same directory.
func (w *world) again() *world {
	w.t.Helper()
	w.stop()
	return setupIn(w.t, w.cfg)
}

// call is one request with the headers of an agent.
type call struct {
	service, method, path string
	key, undoes, task     string
	attempt               int
	body                  string
}

func (w *world) request(ctx context.Context, c call) (*http.Response, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, c.method, w.urls[c.service]+c.path, strings.NewReader(c.body))
	require.NoError(w.t, err)
	for name, value := range map[string]string{"Idempotency-Key": c.key, "Sagalog-Undoes": c.undoes, "Sagalog-Task": c.task} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if c.attempt > 0 {
		req.Header.Set("Sagalog-Attempt", strconv.Itoa(c.attempt))
	}
	return w.client.Do(req)
}

func (w *world) do(c call) (status int, body string) {
	w.t.Helper()
	res, err := w.request(w.t.Context(), c)
	require.NoError(w.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return res.StatusCode, strings.TrimSpace(string(b))
}

func (w *world) ledger(service string) []dronedelivery.Line {
	w.t.Helper()
	var lines []dronedelivery.Line
	require.NoError(w.t, dronedelivery.ReadLedger(w.t.Context(), w.urls[service], func(l dronedelivery.Line) error {
		lines = append(lines, l)
		return nil
	}))
	return lines
}

func (w *world) last(service string) dronedelivery.Line {
	w.t.Helper()
	lines := w.ledger(service)
	require.NotEmpty(w.t, lines)
	return lines[len(lines)-1]
}

func put(service, path, key string) call {
	return call{service: service, method: http.MethodPut, path: path, key: key, task: "t1", attempt: 1}
}

func TestEachServiceAnswersItsPut(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		call   call
		status int
		want   string
	}{
		"account":       {put("account", "/api/accounts/owner-7/checks/t1", "k"), 201, `{"owner":"owner-7","status":"good","check":"t1"}`},
		"suspended":     {put("account", "/api/accounts/suspended-7/checks/t1", "k"), 403, `"detail":"account suspended-7 is suspended"`},
		"transport":     {put("transport", "/api/transports/t1", "k"), 201, `"id":"t1"`},
		"drone":         {put("drone", "/api/drones/t1", "k"), 201, `{"drone":"drone-`},
		"delivery":      {put("delivery", "/api/deliveries/t1", "k"), 201, `{"id":"t1","status":"scheduled"}`},
		"no undo":       {call{service: "delivery", method: "DELETE", path: "/api/deliveries/t1", key: "k", task: "t1"}, 405, "GET, PUT"},
		"no check undo": {call{service: "account", method: "DELETE", path: "/api/accounts/a/checks/t1", key: "k", task: "t1"}, 405, "GET, PUT"},
		"package":       {call{service: "package", method: "PUT", path: "/api/packages/t1", key: "k", body: `{"size":"small","weight":1.5,"more":[]}`}, 201, `"size":"small","weight":1.5}`},
		"bare":          {put("package", "/api/packages/t1", "k"), 201, `"tag":"PKG-`},
		"null":          {call{service: "package", method: "PUT", path: "/api/packages/t1", body: "null"}, 201, `"tag":"PKG-`},
		"no JSON":       {call{service: "package", method: "PUT", path: "/api/packages/t1", body: "{"}, 400, "not JSON"},
		"no package":    {call{service: "package", method: "PUT", path: "/api/packages/t1", body: "[]"}, 422, "not a package"},
		"too large":     {call{service: "package", method: "PUT", path: "/api/packages/t1", body: strings.Repeat(" ", 1<<20+1)}, 413, "larger"},
		"nothing":       {call{service: "package", method: "GET", path: "/api/packages/t1"}, 404, "there is no"},
		"not here":      {put("package", "/api/drones/t1", "k"), 404, "/api/packages/{id}"},
		"empty":         {put("package", "/api/packages/", "k"), 400, "1 to 255 bytes"},
		"segment":       {put("package", "/api/packages//t1", "k"), 404, "/api/packages/{id}"},
		"bad UTF-8":     {put("package", "/api/packages/%ff", "k"), 400, "not UTF-8"},
		"control":       {put("package", "/api/packages/a%0ab", "k"), 400, "control"},
		"post":          {call{service: "drone", method: "POST", path: "/api/drones/t1"}, 405, "GET, PUT, DELETE"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			status, body := w.do(tt.call)
			require.Equal(t, tt.status, status, body)
			require.Contains(t, body, tt.want)
			l := w.last(tt.call.service)
			require.Equal(t, tt.status, l.Status)
			require.Equal(t, tt.call.method, l.Method)
			require.Equal(t, tt.call.path, l.Path)
			require.Equal(t, tt.status == 201, l.Applied)
		})
	}
}

func TestTheSameKeyGetsTheSameAnswerAndChangesNothing(t *testing.T) {
	t.Parallel()
	for _, service := range dronedelivery.Services() {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			c := put(service, paths[service], "k1")
			_, first := w.do(c)
			c.attempt, c.body = 2, `{"size":"other"}`
			status, second := w.do(c)
			require.Equal(t, 200, status)
			require.Equal(t, first, second)

			_, got := w.do(call{service: service, method: "GET", path: c.path})
			require.Equal(t, first, got)
			require.Equal(t, []bool{true, false, false}, applied(w.ledger(service)))

			w = w.again()
			status, third := w.do(c)
			require.Equal(t, 200, status)
			require.Equal(t, first, third)
			require.Equal(t, []bool{true, false, false, false}, applied(w.ledger(service)))
		})
	}
}

var paths = map[string]string{
	"account": "/api/accounts/owner-1/checks/t1", "package": "/api/packages/t1", "transport": "/api/transports/t1",
	"drone": "/api/drones/t1", "delivery": "/api/deliveries/t1",
}

func applied(lines []dronedelivery.Line) []bool {
	var all []bool
	for _, l := range lines {
		all = append(all, l.Applied)
	}
	return all
}

func TestUndo(t *testing.T) {
	t.Parallel()
	type step struct {
		method, key, undoes string
		status              int
		applied             bool
	}
	do := func(key string, status int) step { return step{"PUT", key, "", status, status == 200 || status == 201} }
	undo := func(key, undoes string, applied bool) step { return step{"DELETE", key, undoes, 204, applied} }
	get := func(status int) step { return step{"GET", "", "", status, false} }
	byHand := step{"DELETE", "", "", 204, true}
	tests := map[string][]step{
		"takes back":                            {do("d1", 201), undo("u1", "d1", true), get(404)},
		"again changes nothing":                 {do("d1", 201), undo("u1", "d1", true), undo("u1", "d1", false)},
		"before any do succeeds":                {undo("u1", "d1", false)},
		"then a late do is refused":             {undo("u1", "d1", false), do("d1", 409)},
		"then the same do is refused":           {do("d1", 201), undo("u1", "d1", true), do("d1", 409)},
		"then a rerun may do":                   {do("d1", 201), undo("u1", "d1", true), do("d2", 201), do("d1", 409)},
		"late leaves another do alone":          {do("d1", 201), do("d2", 200), undo("u1", "d1", false), get(200)},
		"leaves another task's object alone":    {do("x", 201), undo("u1", "d1", false), get(200)},
		"does not stop another task":            {undo("u1", "d1", false), do("x", 201)},
		"by a person undoes whatever is there":  {do("d1", 201), byHand, do("d1", 409), do("d2", 201)},
		"by a person stops no call of a person": {do("", 201), byHand, do("", 201)},
		// The task ID was forgotten and reused: task and run are the same, but the keys differ.
		"of a task does not stop the next one with its ID": {do("d1", 201), undo("u1", "d1", true), do("d2", 201), undo("u2", "d2", true), do("d2", 409)},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The rules hold in one process and also with a restart between any two calls, because they depend only on
			// the ledger.
			live, restarted := setup(t), setup(t)
			for i, s := range steps {
				c := call{service: "package", method: s.method, path: "/api/packages/t1", key: s.key, undoes: s.undoes, task: "t1"}
				for _, w := range []*world{live, restarted} {
					status, body := w.do(c)
					require.Equal(t, s.status, status, "step %d: %s", i, body)
					require.Equal(t, s.applied, w.last("package").Applied, "step %d", i)
				}
				restarted = restarted.again()
			}
		})
	}
}

func TestTheLedgerHasItsMembersInOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := put("drone", "/api/drones/a%2Fb%20%C3%A4", "key<&>")
	c.attempt = 3
	w.do(c)
	_, raw := w.do(call{service: "drone", method: "GET", path: "/ledger"})
	require.Regexp(t, `^\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","method":"PUT","path":"/api/drones/a%2Fb%20%C3%A4",`+
		`"idempotency_key":"key<&>","attempt":3,"status":201,"applied":true,"task":"t1","run":1,"answer":\{.*\}\}$`, raw)
}

func TestATornLastLineIsCutOff(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := put("package", "/api/packages/t1", "k1")
	_, first := w.do(c)
	w.stop()
	file := filepath.Join(w.cfg.Dir, "package.ndjson")
	whole, err := os.ReadFile(file)
	require.NoError(t, err)

	// A crash may cut the second line anywhere. Here it is a copy of the first line with another key.
	second := strings.ReplaceAll(string(whole), "k1", "k2")
	for cut := range len(second) {
		require.NoError(t, os.WriteFile(file, append(bytes.Clone(whole), second[:cut]...), 0o600))
		fleet, err := dronedelivery.New(w.cfg)
		require.NoError(t, err)
		require.NoError(t, fleet.Listen())
		require.NoError(t, fleet.Close())
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(whole), string(b), "cut at %d", cut)
	}

	require.NoError(t, os.WriteFile(file, append(bytes.Clone(whole), `{"time":`...), 0o600))
	w = setupIn(t, w.cfg)
	require.Contains(t, w.log.String(), "cut a torn last line off the ledger")
	_, second = w.do(c)
	require.Equal(t, first, second)
	require.Equal(t, []bool{true, false}, applied(w.ledger("package")))
}

func TestADamagedLedgerIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"no JSON":         "x\n",
		"another service": `{"method":"PUT","path":"/api/drones/a","applied":true}` + "\n",
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := dronedelivery.Config{Dir: t.TempDir()}
			require.NoError(t, os.WriteFile(filepath.Join(cfg.Dir, "package.ndjson"), []byte(content), 0o600))
			fleet, err := dronedelivery.New(cfg)
			require.NoError(t, err)
			err = fleet.Listen()
			require.ErrorContains(t, err, "package.ndjson")
			require.ErrorContains(t, err, "line 1")
		})
	}
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	info, err := os.Stat(w.cfg.Dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	for _, service := range dronedelivery.Services() {
		info, err := os.Stat(filepath.Join(w.cfg.Dir, service+".ndjson"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

func TestASecondProcessOnTheDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	second, err := dronedelivery.New(w.cfg)
	require.NoError(t, err)
	require.ErrorContains(t, second.Listen(), "another process runs the services")
}

func TestABusyPortIsNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	fleet, err := dronedelivery.New(dronedelivery.Config{Dir: t.TempDir(), Addr: l.Addr().String()})
	require.NoError(t, err)
	err = fleet.Listen()
	require.ErrorContains(t, err, "account service cannot listen on 127.0.0.1:"+port)
	require.Empty(t, fleet.URLs())
}

func TestAConfigurationReportsAllItsFaults(t *testing.T) {
	t.Parallel()
	_, err := dronedelivery.New(dronedelivery.Config{
		Addr: "192.0.2.1:80",
		Faults: map[string][]dronedelivery.Fault{
			"drone":   {{Mode: "sulk"}, {Mode: dronedelivery.Refuse, Status: 429}, {Mode: dronedelivery.Hang, Rate: 2, Delay: 1}},
			"package": {{Mode: dronedelivery.Fail}, {Mode: dronedelivery.Fail, Rate: 0.5}},
			"balloon": nil,
		},
	})
	for _, want := range []string{
		"no directory", "not loopback", `mode "sulk"`, "status 429", "rate 2", "delay is for slow",
		"two of mode fail", `"balloon"`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"", "127.0.0.1", "127.0.0.1:0", "localhost", "localhost:0", "::1", "[::1]:0", "127.0.0.2"} {
		_, err := dronedelivery.New(dronedelivery.Config{Dir: "x", Addr: addr})
		require.NoError(t, err, addr)
	}
	for _, addr := range []string{"0.0.0.0", ":::0", "example.com", "127.0.0.1:65534", "10.0.0.1:0", "[::]:0"} {
		_, err := dronedelivery.New(dronedelivery.Config{Dir: "x", Addr: addr})
		require.Error(t, err, addr)
	}
}

func TestHealthAndEnvironment(t *testing.T) {
	t.Parallel()
	w := setup(t)
	require.Len(t, w.urls, 5)
	for _, service := range dronedelivery.Services() {
		status, body := w.do(call{service: service, method: "GET", path: "/healthz"})
		require.Equal(t, 200, status)
		require.JSONEq(t, `{"service":"`+service+`","status":"ok"}`, body)
		status, body = w.do(call{service: service, method: "GET", path: "/elsewhere"})
		require.Equal(t, 404, status)
		require.Contains(t, body, "/ledger")
	}
	require.Equal(t, "PACKAGE_URL", dronedelivery.EnvName("package"))
}
