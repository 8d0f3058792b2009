package kafka

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
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// brokerCloseWait bounds a clean stop. What is not written down by then is read from the segments at the next start.
	brokerCloseWait = 3 * time.Second
	// segmentBytes is below the broker's default of 100 MiB, because it loads whole segments into memory when it starts.
	segmentBytes = 32 << 20
	// compactEvery bounds how much the presence topic holds beyond one record of each key.
	compactEvery = 10 * time.Minute

	virtualAddr = "127.0.0.1:9092"
)

// VirtualNetwork connects clients and the embedded broker inside one process, without a port. It works in a
// testing/synctest bubble. Its zero value is ready; it must not be copied.
type VirtualNetwork = kfake.VirtualNetwork

// BrokerConfig says how the embedded broker runs.
type BrokerConfig struct {
	// Dir holds the logs. Empty: everything is in memory and ends with the broker.
	Dir string
	// LockFile is held while the broker runs; default LOCK in Dir.
	LockFile string
	// Addr is host:port to listen on; port 0 takes a free one. Default 127.0.0.1:0. Without User the host must be a
	// loopback address, because anyone who reaches the port may write history.
	Addr string
	// Fsync makes each batch durable against a power cut before anybody is told of it. On Linux what is written while
	// the disk is busy is synced together (commits.go); elsewhere the broker syncs one batch after another.
	Fsync bool
	// Network replaces TCP.
	Network *VirtualNetwork
	// ByPort has the clients of this process connect by the port too, as those of other processes do. Without it they
	// are connected in memory, which costs no system calls.
	ByPort bool
	// User and Password, if set, are demanded of each client, by SCRAM-SHA-256.
	User, Password string
	Logger         *slog.Logger
}

func (c *BrokerConfig) validate() error {
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
	if c.User == "" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		errs = append(errs, fmt.Errorf("listen address %q is not a loopback address, and the broker asks nobody who he is: "+
			"listen on 127.0.0.1, or set a user", c.Addr))
	}
	if c.Dir != "" && c.LockFile == "" {
		c.LockFile = filepath.Join(c.Dir, "LOCK")
	}
	c.Logger = orDiscard(c.Logger)
	return errors.Join(errs...)
}

// Broker is the embedded broker: kfake with the guards of DESIGN 1 around it.
type Broker struct {
	cfg     BrokerConfig
	cluster *kfake.Cluster
	lock    *flock.Flock
	addr    string
	// local is nil where this process has no way of its own to the broker.
	local *localListener
	// commits is nil where nothing waits for the disk, or the broker waits for it by itself.
	commits *commits

	// disk is what commits syncs.
	disk *wholeDisk

	stop    chan struct{}
	stopped chan struct{}
	// unmark ends the marks, and marked is closed when it has; unmark is nil where none are kept.
	unmark, marked chan struct{}
	// known are the marks that were written last. Owned by keepMarks.
	known marks
	// unwatch ends what watches the sessions of groups.
	unwatch func()
	close   func() error
}

// OpenBroker starts the broker. It takes the lock before anything is read: of two brokers in one directory, the
// second one's records would vanish. Then it scrubs the logs. It errors with *LockedError, *DamageError, *PortBusyError.
func OpenBroker(cfg BrokerConfig) (*Broker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, stop: make(chan struct{}), stopped: make(chan struct{})}
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
	}
	if b.unwatch, err = KeepSessions(cluster, b.ClusterConfig()); err != nil {
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
			b.commits.unquiet() // one that the last run left open ends without being asked
		}
	}
	return b.startMarks(found)
}

// giveBack is the end of a broker that could not start.
func (b *Broker) giveBack() {
	b.endCommits()
	if b.disk != nil {
		b.disk.close()
	}
	_ = b.unlock() // the error of the start is the one to tell
}

// listen is where the broker hears its clients.
func (b *Broker) listen(network, addr string) (net.Listener, error) {
	listen := net.Listen
	if b.cfg.Network != nil {
		listen = b.cfg.Network.Listen
	}
	listener, err := listen(network, addr)
	if err != nil {
		return nil, err
	}
	if b.cfg.Network == nil && !b.cfg.ByPort {
		b.local = newLocalListener(listener)
		listener = b.local
	}
	if b.commits != nil {
		listener = heldListener{listener, b.commits}
	}
	return listener, nil
}

// watchTransactions is shown each producer that begins.
func (b *Broker) watchTransactions(req kmsg.Request) (kmsg.Response, error, bool) {
	if req.(*kmsg.InitProducerIDRequest).TransactionalID != nil {
		b.commits.unquiet()
	}
	return nil, nil, false
}

// endCommits releases the answers that still wait: their clients are told that the connection is gone.
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
		// The broker asks for 127.0.0.1 and its own choice of port; ours is cfg.Addr.
		kfake.ListenFn(func(network, _ string) (net.Listener, error) { return b.listen(network, b.cfg.Addr) }),
		kfake.BrokerConfigs(map[string]string{
			"message.max.bytes":         strconv.Itoa(MaxMessageBytes),
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
	if b.cfg.User != "" {
		opts = append(opts, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", b.cfg.User, b.cfg.Password))
	}
	return opts
}

// compact runs the broker's compaction, which after a restart it starts by itself only when a topic is created.
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

// Addr is host:port of where the broker listens.
func (b *Broker) Addr() string { return b.addr }

// ClusterConfig returns how to reach the broker from this process.
func (b *Broker) ClusterConfig() ClusterConfig {
	cfg := ClusterConfig{Brokers: []string{b.addr}, Logger: b.cfg.Logger, Embedded: true}
	switch {
	case b.cfg.Network != nil:
		cfg.Dialer = b.cfg.Network.DialContext
	case b.local != nil:
		cfg.Dialer = b.local.dial
	}
	if b.cfg.User != "" {
		cfg.SASL = &SASL{Mechanism: "SCRAM-SHA-256", User: b.cfg.User, Password: b.cfg.Password}
	}
	return cfg
}

// Close stops the broker cleanly and gives the lock back. If the broker does not end within brokerCloseWait, the lock is
// kept until the process ends, because the broker may still write. Closing again returns what the first time returned.
func (b *Broker) Close() error { return b.close() }

func (b *Broker) shutdown() error {
	close(b.stop)
	<-b.stopped
	b.endMarks()
	b.unwatch()
	if err := b.dropSums(); err != nil {
		b.cfg.Logger.Warn("the broker's checksums cannot be removed; its next start may have to be told to do without them", "error", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.cluster.Close()
		b.endCommits()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), brokerCloseWait)
	defer cancel()
	select {
	case <-done:
		durable := b.syncLast()
		if err := b.writeSums(); err != nil {
			b.cfg.Logger.Warn("the next start cannot tell whether the broker's small files are whole", "error", err)
		}
		if durable {
			if err := dropMarks(b.cfg.Dir); err != nil {
				b.cfg.Logger.Warn("the next start takes this stop for a crash", "error", err)
			}
		}
		return b.unlock()
	case <-ctx.Done():
		return &TimeoutError{Act: "stop the embedded broker", After: brokerCloseWait}
	}
}

// syncLast has the disk take what the broker wrote while it stopped, and tells whether it did. Without Fsync nothing waits
// for that, and there are no marks to remove.
func (b *Broker) syncLast() bool {
	if b.commits == nil {
		return false
	}
	defer b.disk.close()
	err := b.commits.sync()
	if failed := b.commits.lastError(); failed != nil {
		err = failed // one that succeeds now makes nothing good
	}
	if err != nil {
		b.cfg.Logger.Error("what the broker wrote last may not be on the disk", "error", err)
		return false
	}
	return true
}

func (b *Broker) dropSums() error {
	if b.cfg.Dir == "" {
		return nil
	}
	return dropSums(b.cfg.Dir)
}

func (b *Broker) writeSums() error {
	if b.cfg.Dir == "" {
		return nil
	}
	return writeSums(b.cfg.Dir, true)
}

func (b *Broker) unlock() error {
	if b.lock == nil {
		return nil
	}
	return b.lock.Unlock()
}
