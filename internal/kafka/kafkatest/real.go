package kafkatest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
)

// RealEnv says that tests may start a real Apache Kafka: it needs Java, Maven the first time, and seconds.
const RealEnv = "SAGALOG_TEST_KAFKA"

const (
	// realScript is what people use too, from the root of the module.
	realScript = "deploy/kafka/kafka.sh"
	// realWait bounds one command of the script, which has bounds of its own below it.
	realWait = 3 * time.Minute
	// logTail is how much of a broker's log a failed test shows.
	logTail = 25
)

// The users of a cluster with SASL. AdminUser may do everything; LimitedUser, where ACLs are on, what they allow.
const (
	AdminUser   = "admin"
	LimitedUser = "limited"
)

// Options say what cluster Up starts. The zero value is one broker with its own default settings.
type Options struct {
	// Brokers defaults to 1.
	Brokers int
	// SASL lets in only who says who he is, by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	SASL bool
	// ACLs allow nobody but AdminUser what no ACL allows. They need SASL.
	ACLs bool
	TLS  bool
	// Dir is where the brokers' data stay and are found again; empty for a directory that is removed.
	Dir string
	// Set holds settings of the brokers, such as broker.session.timeout.ms.
	Set map[string]string
}

// Real is a running Apache Kafka, one process a broker. Its brokers are numbered from 1.
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

// run starts the script, which runs as long as the cluster does, ends it when its standard input ends, and removes its
// directory. So no broker outlives this process, however it ends.
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
	for _, key := range slices.Sorted(maps.Keys(o.Set)) {
		args = append(args, "--set", key+"="+o.Set[key])
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

// Brokers returns Bootstrap taken apart.
func (r *Real) Brokers() []string { return strings.Split(r.bootstrap, ",") }

// CAFile returns the certificate of the authority that signed the brokers', with Options.TLS.
func (r *Real) CAFile() string { return filepath.Join(r.dir, "ca.pem") }

// Password returns a user's password, with Options.SASL.
func (r *Real) Password(user string) string { return r.passwords[user] }

// Kill ends broker n as a power cut would, without a word to the others.
func (r *Real) Kill(n int) { r.t.Helper(); r.command("kill", n) }

// Stop ends broker n properly: it hands over what it leads first.
func (r *Real) Stop(n int) { r.t.Helper(); r.command("stop", n) }

// Start starts broker n again and returns when it serves. After a kill the others first have to notice it, which takes
// broker.session.timeout.ms.
func (r *Real) Start(n int) { r.t.Helper(); r.command("start", n) }

// command may be called from another goroutine than the test's: it ends the test by Errorf alone.
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

// Config says how to reach the cluster as a user, who is AdminUser if nobody is named, by a mechanism, which is
// SCRAM-SHA-512 if none is. Without SASL both are ignored.
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
		pem, err := os.ReadFile(r.CAFile())
		require.NoError(r.t, err)
		roots := x509.NewCertPool()
		require.True(r.t, roots.AppendCertsFromPEM(pem))
		cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return cfg
}

// Connect reaches the cluster as Config says, and closes the connection when t ends.
func (r *Real) Connect(t testing.TB, user, mechanism string) *kafka.Cluster {
	t.Helper()
	c, err := kafka.Connect(r.Config(user, mechanism))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	require.NoError(t, c.Ping(ctx))
	return c
}

func (r *Real) showLogs() {
	for n := 1; n <= r.options.Brokers; n++ {
		text, err := os.ReadFile(filepath.Join(r.dir, fmt.Sprintf("broker-%d.log", n)))
		if err != nil {
			continue
		}
		var told []string
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, " WARN ") || strings.Contains(line, " ERROR ") || strings.HasPrefix(line, "java.") {
				told = append(told, line)
			}
		}
		r.t.Logf("the last warnings and errors of broker %d:\n%s", n, strings.Join(told[max(0, len(told)-logTail):], ""))
	}
}
