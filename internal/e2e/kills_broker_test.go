package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/stretchr/testify/require"
)

// brokerVariable is set to ADDRESS DIR. This program then runs no tests. Instead it is the embedded broker, opened like
// in `sagalog dev`, in a separate process that can be killed separately.
const brokerVariable = "SAGALOG_E2E_BROKER"

// init runs before TestMain, which would build the programs first.
func init() {
	if addr, dir, ok := strings.Cut(os.Getenv(brokerVariable), " "); ok {
		os.Exit(beBroker(addr, dir))
	}
}

func beBroker(addr, dir string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	b, err := embedded.Open(embedded.Config{
		Dir: dir, LockFile: filepath.Join(filepath.Dir(dir), "broker-LOCK"), Addr: addr, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listening")
	<-ctx.Done()
	if err := b.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// broker is the embedded broker in a separate process. Its address and directory stay the same over
// restarts.
type broker struct {
	*process
	t          *testing.T
	work, addr string
	starts     int
}

func newBroker(t *testing.T, work string) *broker {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(work, "brokers"), 0o700))
	return &broker{t: t, work: work, addr: freePort(t)}
}

// launch starts the broker without waiting.
func (b *broker) launch() {
	b.t.Helper()
	self, err := os.Executable()
	require.NoError(b.t, err)
	b.starts++
	b.process = start(b.t, command{name: fmt.Sprintf("broker-%d-%d", os.Getpid(), b.starts), dir: filepath.Join(b.work, "brokers"), program: self, silent: true,
		env: []string{brokerVariable + "=" + b.addr + " " + filepath.Join(b.work, "broker")}})
}

// ready waits until the broker listens.
func (b *broker) ready() {
	b.t.Helper()
	eventually(b.t, patience, "the broker listens", func() bool {
		require.True(b.t, b.running(), "the broker has ended:\n%s", tail(b.err, 20))
		return strings.Contains(b.stdout(), "listening")
	})
}

// end is a clean stop.
func (b *broker) end() {
	b.t.Helper()
	require.NoError(b.t, b.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(b.t, b.wait(patience), tail(b.err, 20))
}
