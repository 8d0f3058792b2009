package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// brokerCloseWait bounds a clean stop. The next start reads anything that was not saved by then from the segments.
	brokerCloseWait = 10 * time.Second
	// segmentBytes is below kfake's default of 100 MiB, because kfake loads whole segments into memory when it starts.
	segmentBytes = 32 << 20
	// compactEvery bounds how much the presence topic holds beyond the last record of each key.
	compactEvery = 10 * time.Minute

	virtualAddr = "127.0.0.1:9092"
)

// VirtualNetwork connects clients and the embedded broker within one process, without a port. It works in a testing/synctest bubble.
// The zero value is ready for use. It must not be copied.
type VirtualNetwork = kfake.VirtualNetwork

// Config says how the embedded broker runs.
type Config struct {
	// Dir holds the logs. If it is empty, everything is in memory and is lost when the broker stops.
	Dir string
	// LockFile is held while the broker runs; default LOCK in Dir.
	LockFile string
	// Addr is the host:port to listen on; port 0 chooses a free one. Default 127.0.0.1:0. The host must be a loopback address,
	// because anyone who reaches the port can write history.
	Addr string
	// Fsync makes each batch durable against a power cut before it is acknowledged or read. On Linux all batches that are written
	// while the disk is busy share one sync (group_commit.go). Elsewhere kfake syncs one batch after another.
	Fsync bool
	// Network replaces TCP.
	Network *VirtualNetwork
	// ByPort makes the clients of this process connect through the port too, as other processes do. Otherwise they are connected in
	// memory, which saves the system calls.
	ByPort bool
	Logger *slog.Logger
}

func (c *Config) validate() error {
	var errs []error
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
		if c.Network != nil {
			c.Addr = virtualAddr
		}
	}
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		errs = append(errs, fmt.Errorf("listen address %q is not host:port", c.Addr))
	} else if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		errs = append(errs, fmt.Errorf("port %q of listen address %q is not a number below 65536", port, c.Addr))
	} else if n == 0 && c.Network != nil {
		errs = append(errs, errors.New("a virtual network has no free ports to choose: name one"))
	}
	if host != "localhost" && !net.ParseIP(host).IsLoopback() {
		errs = append(errs, fmt.Errorf("listen address %q is not a loopback address, and the broker requires no authentication: listen on 127.0.0.1", c.Addr))
	}
	if c.Dir != "" && c.LockFile == "" {
		c.LockFile = filepath.Join(c.Dir, "LOCK")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// Broker is the embedded broker: kfake with our guards around it.
type Broker struct {
	cfg     Config
	cluster *kfake.Cluster
	lock    *flock.Flock
	addr    string
	// local is nil unless clients of this process connect in memory.
	local *localListener
	// commits is nil unless answers wait for the disk.
	commits *commits

	// disk is the disk that commits syncs.
	disk       *disk
	topicNames topicNames

	stop    chan struct{}
	stopped chan struct{}
	// unmark ends keepMarks, which closes marked when it has ended. unmark is nil if no marks are kept.
	unmark, marked chan struct{}
	// known holds the marks that were written last. Owned by keepMarks.
	known marks
	// unwatch ends KeepSessions.
	unwatch func()
	// begins is where the last run said that partitions begin. admit closes ready, and so lets clients in, once they begin there.
	begins []topicBegins
	ready  chan struct{}
	admit  func()
	// deleting is held while a request to delete records is prepared, and from the stop of the broker on.
	deleting sync.Mutex
	close    func() error
}

// Open starts the broker. It first takes the lock: if two brokers used one directory, the records of the second would vanish. Then it
// scrubs the logs. It returns a *LockedError, a *DamageError or a *PortBusyError.
func Open(cfg Config) (*Broker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, topicNames: topicNames{}, stop: make(chan struct{}), stopped: make(chan struct{}), ready: make(chan struct{})}
	b.admit = sync.OnceFunc(func() { close(b.ready) })
	if err := b.prepare(); err != nil {
		b.giveBack()
		return nil, err
	}
	cluster, err := kfake.NewCluster(b.options()...)
	if err != nil {
		b.giveBack()
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, &PortBusyError{Addr: cfg.Addr}
		}
		return nil, fmt.Errorf("start the embedded broker in %s: %w", cfg.Dir, err)
	}
	b.cluster, b.addr = cluster, cluster.ListenAddrs()[0]
	if b.commits != nil {
		cluster.ControlKey(kmsg.InitProducerID.Int16(), b.watchTransactions)
		cluster.ControlKey(kmsg.Produce.Int16(), b.watchRecords)
	}
	if cfg.Dir != "" {
		cluster.ControlKey(kmsg.DeleteRecords.Int16(), b.beforeDelete)
		err = b.restoreBegins(b.begins)
	}
	if err == nil {
		b.admit()
		b.unwatch, err = KeepSessions(cluster, b.ClusterConfig())
	}
	if err != nil {
		cluster.Close()
		b.giveBack()
		return nil, fmt.Errorf("start the embedded broker in %s: %w", cfg.Dir, err)
	}
	b.close = sync.OnceValue(b.shutdown)
	go b.compact()
	if b.commits != nil {
		b.unmark, b.marked = make(chan struct{}), make(chan struct{})
		go b.keepMarks(b.unmark)
	}
	return b, nil
}

func (b *Broker) prepare() error {
	if b.cfg.Dir == "" {
		return nil
	}
	if err := os.MkdirAll(b.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	lock, err := lockFile(b.cfg.LockFile)
	if err != nil {
		return err
	}
	b.lock = lock
	if b.begins, err = readBegins(b.cfg.Dir, b.cfg.Logger); err != nil {
		return err
	}
	found, err := scrub(b.cfg.Dir, b.cfg.Logger)
	if err != nil {
		return err
	}
	if b.cfg.Fsync && syncsWhole {
		if b.disk, err = openDisk(b.cfg.Dir); err != nil {
			return err
		}
		b.commits = newCommits(b.disk.sync, b.cfg.Logger)
		if found.transactional {
			b.commits.unquiet() // a transaction that the last run left open times out by itself
		}
	}
	return b.startMarks(found)
}

// giveBack releases the resources of a broker that could not start.
func (b *Broker) giveBack() {
	b.endCommits()
	if b.disk != nil {
		b.disk.close()
	}
	_ = b.unlock() // the caller returns the error of the start
}

// listen returns the listener from which the broker accepts its clients.
func (b *Broker) listen(network, addr string) (net.Listener, error) {
	listen := net.Listen
	if b.cfg.Network != nil {
		listen = b.cfg.Network.Listen
	}
	listener, err := listen(network, addr)
	if err != nil {
		return nil, err
	}
	listener = waitingListener{listener, b.ready, b.admit}
	listener = &guardedListener{Listener: listener, log: b.cfg.Logger}
	if b.cfg.Network == nil && !b.cfg.ByPort {
		b.local = newLocalListener(listener)
		listener = b.local
	}
	if b.commits != nil {
		listener = heldListener{listener, b.commits}
	}
	return listener, nil
}

// watchTransactions observes each producer that begins.
func (b *Broker) watchTransactions(req kmsg.Request) (kmsg.Response, error, bool) {
	if req.(*kmsg.InitProducerIDRequest).TransactionalID != nil {
		b.commits.unquiet()
	}
	return nil, nil, false
}

// endCommits releases the answers that still wait. Their clients find the connection closed.
func (b *Broker) endCommits() {
	if b.commits != nil {
		b.commits.close()
	}
}

func (b *Broker) options() []kfake.Opt {
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID("sagalog-embedded"),
		kfake.WithLogger(brokerLog{b.cfg.Logger}),
		// kfake would listen on 127.0.0.1 and a port of its choice. We listen on cfg.Addr instead.
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return b.listen(network, b.cfg.Addr) }),
		kfake.BrokerConfigs(map[string]string{
			"message.max.bytes":         strconv.Itoa(kafka.MaxMessageBytes),
			"log.segment.bytes":         strconv.Itoa(segmentBytes),
			"offsets.retention.minutes": strconv.Itoa(365 * 24 * 60),
		}),
	}
	if b.cfg.Dir != "" {
		opts = append(opts, kfake.DataDir(b.cfg.Dir))
	}
	if b.cfg.Fsync && b.commits == nil {
		opts = append(opts, kfake.SyncWrites())
	}
	return opts
}

// compact runs kfake's compaction. After a restart kfake starts it only when a topic is created.
func (b *Broker) compact() {
	defer close(b.stopped)
	tick := time.NewTicker(compactEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
			b.cluster.Compact()
		}
	}
}

// Addr is the host:port that the broker listens on.
func (b *Broker) Addr() string { return b.addr }

// ClusterConfig returns how to reach the broker from this process.
func (b *Broker) ClusterConfig() kafka.ClusterConfig {
	cfg := kafka.ClusterConfig{Brokers: []string{b.addr}, Logger: b.cfg.Logger, Embedded: true}
	switch {
	case b.cfg.Network != nil:
		cfg.Dialer = b.cfg.Network.DialContext
	case b.local != nil:
		cfg.Dialer = b.local.dial
	}
	return cfg
}

// Close stops the broker cleanly and releases the lock. If the broker does not stop within brokerCloseWait, the lock is kept until the
// process ends, because the broker may still write. Later calls return the result of the first.
func (b *Broker) Close() error { return b.close() }

func (b *Broker) shutdown() error {
	close(b.stop)
	<-b.stopped
	b.endMarks()
	b.unwatch()
	if err := dropSums(b.cfg.Dir); err != nil {
		b.cfg.Logger.Warn("cannot remove the broker's checksums; the next start may refuse them: remove "+sumsFile+" from the data directory then", "error", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.deleting.Lock()
		b.cluster.Close()
		b.endCommits()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), brokerCloseWait)
	defer cancel()
	select {
	case <-done:
		durable := b.syncLast()
		if err := writeSums(b.cfg.Dir, true); err != nil {
			b.cfg.Logger.Warn("cannot write the broker's checksums: the next start cannot check its small files", "error", err)
		}
		if durable {
			if err := dropMarks(b.cfg.Dir); err != nil {
				b.cfg.Logger.Warn("cannot remove the marks: the next start will treat this stop as a crash", "error", err)
			}
		}
		return b.unlock()
	case <-ctx.Done():
		return &kafka.TimeoutError{Act: "stop the embedded broker", After: brokerCloseWait}
	}
}

// syncLast syncs the files that the broker wrote while it stopped, and reports whether that succeeded. Without Fsync it does
// nothing.
func (b *Broker) syncLast() bool {
	if b.commits == nil {
		return false
	}
	defer b.disk.close()
	err := b.commits.sync(written{everything: true})
	if failed := b.commits.lastError(); failed != nil {
		err = failed // a later success does not make up for it
	}
	if err != nil {
		b.cfg.Logger.Error("the broker's last writes may not be on the disk", "error", err)
		return false
	}
	return true
}

func (b *Broker) unlock() error {
	if b.lock == nil {
		return nil
	}
	return b.lock.Unlock()
}

// brokerLog forwards kfake's log messages, above all its write errors.
type brokerLog struct{ log *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	at := slog.LevelDebug
	switch level {
	case kfake.LogLevelError:
		at = slog.LevelError
	case kfake.LogLevelWarn:
		at = slog.LevelWarn
	}
	if ctx := context.Background(); l.log.Enabled(ctx, at) {
		l.log.Log(ctx, at, "embedded broker: "+fmt.Sprintf(format, args...))
	}
}
