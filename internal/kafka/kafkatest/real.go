package kafkatest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// RealEnv enables tests that start a real Apache Kafka. They need Java, Maven for the first run, and a few seconds.
const RealEnv = "SAGALOG_TEST_KAFKA"

const (
	// realScript is the script that people also use, relative to the root of the module.
	realScript = "deploy/kafka/kafka.sh"
	// realWait bounds one command of the script. The script's own limits are lower.
	realWait = 3 * time.Minute
	// logTail is how much of a broker's log a failed test shows.
	logTail = 25
	// logLine is how many bytes of each line it shows.
	logLine = 300
)

// The users of a cluster with SASL. AdminUser may do everything. With ACLs, LimitedUser may do only what they allow.
const (
	AdminUser   = "admin"
	LimitedUser = "limited"
)

// Options describes the cluster that Up starts. The zero value is one broker with its own default settings.
type Options struct {
	// Brokers defaults to 1.
	Brokers int
	// SASL requires authentication by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	SASL bool
	// With ACLs, everybody except AdminUser may do only what an ACL allows. They need SASL.
	ACLs bool
	TLS  bool
	// Dir keeps the brokers' data for a later run; empty for a directory that is removed.
	Dir string
	// Set holds settings of the brokers, such as broker.session.timeout.ms. They override quick.
	Set map[string]string
}

// quick holds the settings that differ from a broker's defaults in each test: the first member of a group does not wait 3 s for others.
var quick = map[string]string{rebalanceDelay: "0"}

// rebalanceDelay is how long a broker lets the first member of a group wait for others.
const rebalanceDelay = "group.initial.rebalance.delay.ms"

// Real is a running Apache Kafka, with one process for each broker. Its brokers are numbered from 1.
type Real struct {
	t         testing.TB
	options   Options
	dir       string
	bootstrap string
	passwords map[string]string
}

// Up starts a real Apache Kafka that ends with the test, and also when the test's process dies. It skips the test
// unless RealEnv is 1.
func Up(t testing.TB, o Options) *Real {
	t.Helper()
	if os.Getenv(RealEnv) != "1" {
		t.Skip("needs a real Kafka: " + RealEnv + "=1 go test ./internal/..., or .ci/run kafka")
	}
	o.Brokers = max(o.Brokers, 1)
	r := &Real{t: t, options: o, passwords: make(map[string]string)}
	began := time.Now()
	r.run()
	t.Logf("Apache Kafka, %d broker(s), is up after %.1f s", o.Brokers, time.Since(began).Seconds())
	if o.SASL {
		text, err := os.ReadFile(filepath.Join(r.dir, "credentials"))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			user, password, _ := strings.Cut(strings.TrimSpace(line), "=")
			r.passwords[user] = password
		}
	}
	return r
}

// run starts the script. It runs as long as the cluster does, ends when its standard input ends, and removes its directory. So no broker
// outlives this process, however it ends.
func (r *Real) run() {
	r.t.Helper()
	cmd := exec.Command("bash", append([]string{script(r.t), "run", "--port", "0", "--until-eof"}, r.options.arguments()...)...)
	hold, err := cmd.StdinPipe()
	require.NoError(r.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(r.t, err)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	require.NoError(r.t, cmd.Start())
	timer := time.AfterFunc(realWait, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	lines := bufio.NewScanner(out)
	for r.bootstrap == "" && lines.Scan() {
		switch what, value, _ := strings.Cut(lines.Text(), " "); what {
		case "directory":
			r.dir = value
		case "bootstrap":
			r.bootstrap = value
		}
	}
	timer.Stop()
	if r.bootstrap == "" {
		_ = cmd.Wait()
		require.FailNow(r.t, "Apache Kafka did not start", "%s", faults.String())
	}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.showLogs()
		}
		_ = hold.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("%s: %v\n%s", realScript, err, faults.String())
		}
	})
}

func (o Options) arguments() []string {
	args := []string{"--brokers", strconv.Itoa(o.Brokers)}
	for name, on := range map[string]bool{"--sasl": o.SASL, "--acls": o.ACLs, "--tls": o.TLS} {
		if on {
			args = append(args, name)
		}
	}
	if o.Dir != "" {
		args = append(args, "--dir", o.Dir)
	}
	set := maps.Clone(quick)
	maps.Copy(set, o.Set)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		args = append(args, "--set", key+"="+set[key])
	}
	return args
}

// script finds the script above the working directory of the test.
func script(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; ; dir = filepath.Dir(dir) {
		name := filepath.Join(dir, realScript)
		if _, err := os.Stat(name); err == nil {
			return name
		}
		require.NotEqual(t, dir, filepath.Dir(dir), "no "+realScript+" above the working directory")
	}
}

// Bootstrap returns host:port,... of the brokers, in the order of their numbers.
func (r *Real) Bootstrap() string { return r.bootstrap }

// Brokers returns the addresses of Bootstrap.
func (r *Real) Brokers() []string { return strings.Split(r.bootstrap, ",") }

// CAFile returns the certificate of the authority that signed the brokers' certificates, with Options.TLS.
func (r *Real) CAFile() string { return filepath.Join(r.dir, "ca.pem") }

// Password returns a user's password, with Options.SASL.
func (r *Real) Password(user string) string { return r.passwords[user] }

// Kill kills broker n, as a power cut would.
func (r *Real) Kill(n int) { r.t.Helper(); r.command("kill", n) }

// Stop stops broker n cleanly: it hands over its leaderships first.
func (r *Real) Stop(n int) { r.t.Helper(); r.command("stop", n) }

// Start starts broker n again, and returns when it serves. After a kill, the other brokers must first notice that it died,
// which takes broker.session.timeout.ms.
func (r *Real) Start(n int) { r.t.Helper(); r.command("start", n) }

// command may be called from any goroutine: it fails the test only with Errorf.
func (r *Real) command(act string, n int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), realWait)
	defer cancel()
	began := time.Now()
	out, err := exec.CommandContext(ctx, "bash", script(r.t), act, r.dir, strconv.Itoa(n)).CombinedOutput()
	if err != nil {
		r.t.Errorf("%s broker %d: %v\n%s", act, n, err, out)
		return
	}
	r.t.Logf("%s broker %d took %.1f s", act, n, time.Since(began).Seconds())
}

// Config returns how to reach the cluster as a user, by default AdminUser, with a mechanism, by default SCRAM-SHA-512. Without SASL both are
// ignored.
func (r *Real) Config(user, mechanism string) kafka.ClusterConfig {
	r.t.Helper()
	cfg := kafka.ClusterConfig{Brokers: r.Brokers()}
	if r.options.SASL {
		cfg.SASL = &kafka.SASL{Mechanism: mechanism, User: user}
		if user == "" {
			cfg.SASL.User = AdminUser
		}
		if mechanism == "" {
			cfg.SASL.Mechanism = "SCRAM-SHA-512"
		}
		cfg.SASL.Password = r.passwords[cfg.SASL.User]
	}
	if r.options.TLS {
		cfg.TLS = trusting(r.t, r.CAFile())
	}
	return cfg
}

// ClusterConfig says how to reach the cluster as AdminUser.
func (r *Real) ClusterConfig() kafka.ClusterConfig { return r.Config("", "") }

// Connect reaches the cluster as Config says, and closes the connection when t ends.
func (r *Real) Connect(t testing.TB, user, mechanism string) *kafka.Cluster {
	t.Helper()
	return connect(t, r.Config(user, mechanism))
}

func (r *Real) showLogs() {
	for n := 1; n <= r.options.Brokers; n++ {
		text, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("broker-%d.log", n)))
		if err != nil {
			continue
		}
		var shown []string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, " WARN ") || strings.Contains(line, " ERROR ") || strings.HasPrefix(line, "java.") {
				shown = append(shown, events.Clip(strings.TrimSuffix(line, "\n"), logLine)+"\n")
			}
		}
		r.t.Logf("the last warnings and errors of broker %d:\n%s", n, strings.Join(shown[max(0, len(shown)-logTail):], ""))
	}
}
