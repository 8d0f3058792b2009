package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/monitoring"
	"github.com/stretchr/testify/require"
)

// prometheusNeeded skips a test unless it was asked for.
func prometheusNeeded(t *testing.T) {
	t.Helper()
	if os.Getenv("SAGALOG_TEST_PROMETHEUS") == "" {
		t.Skip("needs Prometheus: apt-get install prometheus, then SAGALOG_TEST_PROMETHEUS=1 go test ./cmd/sagalog -run TestAlert (.ci/run prometheus does both)")
	}
	for _, program := range []string{"prometheus", "promtool"} {
		_, err := exec.LookPath(program)
		require.NoError(t, err)
	}
}

// made says how each rule is tested: true by a fault of a running engine that Prometheus scrapes (TestAlertsOfABrokenEngine), false by promtool on
// series of the same names (TestAlertsByPromtool), because the fault takes a full disk, a wrong clock, several machines or hours.
var made = map[string]bool{
	"SagalogTasksParked": true, "SagalogTasksParkedLong": true, "SagalogUndoRate": true, "SagalogAgentMissing": true, "SagalogAgentBacklog": true, "SagalogStepFailing": true,
	"SagalogDeadlinesPassed": true, "SagalogDeadLetters": true, "SagalogInputLag": true, "SagalogOpenTransaction": true, "SagalogDown": true, "SagalogWebhookFailing": true,
	"SagalogPartitionUnowned": false, "SagalogPartitionStopped": false, "SagalogTakeovers": false, "SagalogEffectsStuck": false, "SagalogTimersLate": false, "SagalogClock": false,
	"SagalogProjectionLag": false, "SagalogDiskFull": false, "SagalogCarryOverdue": false, "SagalogScheduleMissed": false,
	"SagalogDiskLow": false, "SagalogNodeMissing": false, "SagalogOtherNamespace": false,
	"SagalogKeysUnread": false, "SagalogHeldForKeys": false, "SagalogAgentLacksKey": false, "SagalogStepsWait": false,
}

func TestEachAlertIsTested(t *testing.T) {
	t.Parallel()
	require.Len(t, made, len(monitoring.Rules))
	for _, r := range monitoring.Rules {
		isMade, known := made[r.Name]
		require.True(t, known, r.Name)
		_, simulated := simulations[r.Name]
		require.NotEqual(t, isMade, simulated, r.Name)
	}
}

// The commands of the rules exist, with their flags.
func TestTheCommandsOfAlertsExist(t *testing.T) {
	t.Parallel()
	for _, r := range monitoring.Rules {
		text := regexp.MustCompile(`\{\{[^}]*\}\}`).ReplaceAllString(r.Command, "x")
		c, rest, err := rootCommand().Find(strings.Fields(text)[1:])
		require.NoError(t, err, text)
		require.True(t, c.Runnable(), text)
		require.NoError(t, c.ParseFlags(rest), text)
		require.NoError(t, c.ValidateArgs(c.Flags().Args()), text)
	}
}

const alertWorkflows = `
steady=workflow: steady
steps:
  first: {agent: good, undo: {}}
  second: {agent: moody, needs: [first], retry: {attempts: 1, then: undo}}
parks=workflow: parks
steps:
  only: {agent: bad, retry: {attempts: 1, then: park}}
lonely=workflow: lonely
steps:
  only: {agent: nobody}
late=workflow: late
deadline: 1s
steps:
  only: {sleep: 1h}
`

// alertWorld is an engine that Prometheus scrapes, and an agent whose service can be broken.
type alertWorld struct {
	t               *testing.T
	at              place
	http, url, hook string
	engine          *program
	// prometheus is the address of Prometheus.
	prometheus string
	// moody says that the service of the agent moody refuses.
	moody atomic.Bool
	// deaf says that the receiver of the webhook takes no messages.
	deaf  atomic.Bool
	tasks atomic.Int64
}

// Each rule fires for its fault, is quiet before, and is quiet again when the fault is over. All durations of the rules are divided.
func TestAlertsOfABrokenEngine(t *testing.T) {
	prometheusNeeded(t)
	w := newAlertWorld(t)
	w.start()
	w.watch()
	w.quiet("SagalogDown", "SagalogWebhookFailing", "SagalogTasksParked", "SagalogUndoRate", "SagalogStepFailing", "SagalogAgentMissing", "SagalogAgentBacklog", "SagalogTasksParkedLong", "SagalogDeadLetters",
		"SagalogDeadlinesPassed", "SagalogInputLag", "SagalogOpenTransaction")

	parked, lonely := w.submit("parks"), w.submit("lonely")
	w.submit("late")
	kafkatest.ProduceTo(t, w.brokers(), "sagalog.submissions", "x", "{")
	w.moody.Store(true)
	w.firing("SagalogDeadLetters", "SagalogDeadlinesPassed")
	w.firing("SagalogTasksParked", "SagalogUndoRate", "SagalogStepFailing", "SagalogAgentMissing", "SagalogAgentBacklog", "SagalogTasksParkedLong")
	w.moody.Store(false)
	w.post("/v1/tasks/" + parked + "/terminate")
	w.post("/v1/tasks/" + lonely + "/cancel")
	w.quiet("SagalogTasksParked", "SagalogUndoRate", "SagalogStepFailing", "SagalogAgentMissing", "SagalogAgentBacklog", "SagalogTasksParkedLong", "SagalogDeadLetters", "SagalogDeadlinesPassed")

	abort := kafkatest.OpenTransaction(t, w.brokers(), "sagalog.reports")
	w.submit("late")
	w.firing("SagalogOpenTransaction", "SagalogInputLag")
	abort()
	w.quiet("SagalogOpenTransaction", "SagalogInputLag")

	w.deaf.Store(true)
	w.submit("late")
	w.firing("SagalogWebhookFailing")
	w.deaf.Store(false)
	w.quiet("SagalogWebhookFailing")

	require.Equal(t, 0, w.engine.stop())
	w.firing("SagalogDown")
	w.start()
	w.quiet("SagalogDown")
}

func newAlertWorld(t *testing.T) *alertWorld {
	w := &alertWorld{t: t, at: place{dir: t.TempDir()}, http: freeAddress(t), prometheus: freeAddress(t)}
	w.url = "http://" + w.http
	service := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/webhook" && w.deaf.Load() {
			out.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/bad") || strings.HasPrefix(r.URL.Path, "/moody") && w.moody.Load() {
			out.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		_, _ = out.Write([]byte("{}")) // the engine has gone if it fails
	}))
	t.Cleanup(service.Close)
	write := func(name, text string) {
		path := filepath.Join(w.at.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	var name string
	for line := range strings.Lines(strings.TrimSpace(alertWorkflows) + "\n") {
		if before, rest, found := strings.Cut(line, "=workflow:"); found {
			name, line = before, "workflow:"+rest
		}
		had, _ := os.ReadFile(filepath.Join(w.at.dir, "w", name+".yaml")) // absent at first
		write("w/"+name+".yaml", string(had)+line)
	}
	for _, agent := range []string{"good", "moody", "bad"} {
		write("a/"+agent+".yaml", fmt.Sprintf("agent: %s\nhttp: {base: %q}\ndo: {method: POST, path: /%s}\nundo: {method: DELETE, path: /%s}\n", agent, service.URL, agent, "undo"))
	}
	w.hook = service.URL + "/webhook"
	write("webhook.secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	write("rules.yaml", string(monitoring.AlertRules(monitoring.Options{Divide: 120})))
	write("prometheus.yaml", "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yaml]\n"+
		"scrape_configs: [{job_name: sagalog, static_configs: [{targets: ['"+w.http+"']}]}]\n")
	return w
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// start starts the engine, and a steady load.
func (w *alertWorld) start() {
	w.engine = w.at.start(w.t, "dev", "--demo", "none", "--kafka", "127.0.0.1:0", "--http", w.http, "--partitions", "1", "--workflows", "w", "--agents", "a",
		"--webhook", w.hook, "--webhook-secret-file", "webhook.secret")
	w.eventually("the engine is ready", func() bool {
		r, err := http.Get(w.url + "/readyz")
		if err != nil {
			return false
		}
		return r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
	go func() {
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			select {
			case <-w.t.Context().Done():
				return
			case <-w.engine.ended:
				return
			case <-tick.C:
				_, _ = w.do(http.MethodPut, fmt.Sprint("/v1/tasks/steady-", w.tasks.Add(1)), `{"workflow":"steady"}`) // the engine may be stopping
			}
		}
	}()
}

// watch starts Prometheus.
func (w *alertWorld) watch() {
	cmd := exec.Command("prometheus", "--config.file=prometheus.yaml", "--storage.tsdb.path=tsdb", "--web.listen-address="+w.prometheus)
	var out written
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.at.dir, &out, &out
	require.NoError(w.t, cmd.Start())
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has nothing to keep
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Log(out.String())
		}
	})
	w.eventually("Prometheus has seen the engine", func() bool {
		r, err := http.Get("http://" + w.prometheus + "/api/v1/query?query=sagalog_partitions")
		if err != nil {
			return false
		}
		b, err := io.ReadAll(r.Body)
		return err == nil && r.Body.Close() == nil && strings.Contains(string(b), `"value"`)
	})
}

// eventually waits for longer than anything here takes.
func (w *alertWorld) eventually(what string, is func() bool) {
	w.t.Helper()
	require.Eventually(w.t, is, 3*time.Minute, 200*time.Millisecond, what)
}

// alerts returns the names of the alerts that are firing, nil if Prometheus does not answer.
func (w *alertWorld) alerts() map[string]bool {
	r, err := http.Get("http://" + w.prometheus + "/api/v1/alerts")
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	if json.NewDecoder(r.Body).Decode(&answer) != nil {
		return nil
	}
	names := map[string]bool{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			names[a.Labels["alertname"]] = true
		}
	}
	return names
}

// firing waits until each of the alerts has fired, not necessarily all at once.
func (w *alertWorld) firing(names ...string) {
	w.t.Helper()
	fired := map[string]bool{}
	w.eventually(fmt.Sprint("firing: ", names), func() bool {
		all, left := w.alerts(), len(names)
		for _, name := range names {
			if fired[name] = fired[name] || all[name]; fired[name] {
				left--
			}
		}
		return left == 0
	})
}

// quiet waits until none of the alerts fires.
func (w *alertWorld) quiet(names ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprint("quiet: ", names), func() bool {
		all := w.alerts()
		for _, name := range names {
			if all[name] {
				return false
			}
		}
		return all != nil
	})
}

func (w *alertWorld) do(method, path, body string) (int, string) {
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body) // the status says enough
	return answer.StatusCode, string(b)
}

// submit submits a task and returns its ID.
func (w *alertWorld) submit(workflow string) string {
	w.t.Helper()
	id := fmt.Sprint(workflow, "-", w.tasks.Add(1))
	status, body := w.do(http.MethodPut, "/v1/tasks/"+id, fmt.Sprintf(`{"workflow":%q}`, workflow))
	require.Less(w.t, status, 300, body)
	require.NotZero(w.t, status, body)
	return id
}

func (w *alertWorld) post(path string) {
	w.t.Helper()
	status, body := w.do(http.MethodPost, path+"?wait=10s", `{}`)
	require.Equal(w.t, http.StatusOK, status, body)
}

// brokers are those of the engine.
func (w *alertWorld) brokers() kafkatest.At {
	return kafkatest.At(w.engine.endpoints(filepath.Join(w.at.dir, "sagalog-data")).Kafka)
}
