package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/work"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/verify/kafkalog"
	"github.com/sagalog/sagalog/projector"
	"golang.org/x/sync/errgroup"
)

// readyWait bounds how long a node may take to own its partitions. It may have a log to fold.
const readyWait = 5 * time.Minute

// system is the measured system: a broker, a node and agents, as far as this process runs or starts them.
type system struct {
	cfg    *Config
	dir    string
	remove bool
	topics kafka.Topics
	meters meters
	// partitions is the number of partitions of the namespace, known once a node has opened it.
	partitions int32
	before     before

	broker  *embedded.Broker
	cluster *kafka.Cluster
	node    *node.Node
	mock    *mock
	// attached are the agents in this process, outside is the process of other agents.
	attached *agent.Connection
	outside  *child

	// running are the parts that work until stop is called.
	running *errgroup.Group
	ctx     context.Context
	stop    context.CancelFunc
	// explained says that an error has already reported why a part ended.
	explained bool
}

// openBroker creates the data directory and reaches the brokers.
func openBroker(ctx context.Context, cfg *Config) (_ *system, err error) {
	s := &system{cfg: cfg, dir: cfg.Dir, topics: kafka.Topics{Namespace: cfg.Namespace}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir == "" {
		if s.dir, err = makeTemporary(cfg.Progress); err != nil {
			return nil, fmt.Errorf("make a temporary directory for the data in %s (TMPDIR names another place, --data a directory to keep): %w", os.TempDir(), err)
		}
		s.remove = true
	} else if err := claimDirectory(cfg); err != nil {
		return nil, err
	}
	reach := kafka.ClusterConfig{}
	if cfg.Cluster != nil {
		reach = *cfg.Cluster
	} else {
		bc := embedded.Config{Dir: s.brokerDir(), LockFile: filepath.Join(s.dir, "LOCK"), Fsync: cfg.Fsync, ByPort: cfg.ByPort, Logger: cfg.Log}
		if s.broker, err = embedded.Open(bc); err != nil {
			return nil, err
		}
		reach = s.broker.ClusterConfig()
	}
	if s.cluster, err = kafka.Connect(reach); err != nil {
		return nil, err
	}
	if err := doctor.Reach(ctx, s.cluster); err != nil {
		return nil, err
	}
	if err := s.refuseForeign(ctx); err != nil {
		return nil, err
	}
	if err := s.lookBefore(ctx); err != nil {
		return nil, err
	}
	s.begin()
	return s, nil
}

// before describes what earlier runs left in the data and in the namespace. The figures of a run count only what that
// run adds.
type before struct {
	// ends are the ends of events, nil without a namespace. records is their sum.
	ends    map[int32]int64
	records int64
	// broker is the size of the broker's files in bytes.
	broker int64
}

func (s *system) lookBefore(ctx context.Context) (err error) {
	if s.before.ends, err = s.ends(ctx); err != nil {
		return err
	}
	for _, end := range s.before.ends {
		s.before.records += end
	}
	s.before.broker = sizeOf(s.brokerDir())
	return nil
}

func (s *system) brokerDir() string { return filepath.Join(s.dir, "broker") }
func (s *system) stateDir() string  { return filepath.Join(s.dir, "state") }

// ends returns the ends of events, or nil if the namespace does not exist.
func (s *system) ends(ctx context.Context) (map[int32]int64, error) {
	bounds, err := kafkalog.Log{Cluster: s.cluster}.Bounds(ctx, s.topics.Events())
	if err != nil || bounds == nil {
		return nil, err
	}
	ends := map[int32]int64{}
	for p, b := range bounds {
		ends[int32(p)] = b.End
	}
	return ends, nil
}

// begin creates the group of the parts, unless it exists.
func (s *system) begin() {
	if s.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running, s.ctx = errgroup.WithContext(ctx)
	s.running.Go(func() error { return watchDisk(s.ctx, s.dir, projector.FreeBytes) })
}

// failed is closed when a part of the system has ended with an error.
func (s *system) failed() <-chan struct{} { return s.ctx.Done() }

// failure returns that error after failed is closed.
func (s *system) failure() error {
	s.explained = true
	return fmt.Errorf("a part of the run ended: %w", s.running.Wait())
}

// openNode opens the node in this process and waits until it owns all partitions.
func (s *system) openNode(ctx context.Context, workflow []byte, http string) (err error) {
	n, err := s.newNode(ctx, http)
	if err != nil {
		return err
	}
	if s.cfg.limited {
		if faults, err := n.ApplyLimitFile(ctx, "wide.yaml", []byte(wide)); err != nil || len(faults) > 0 {
			return errors.Join(fmt.Errorf("apply the limit: %w %v", err, faults), n.Close())
		}
	}
	if _, faults, err := n.ApplyFile(ctx, "five.yaml", workflow, nil); err != nil || len(faults) > 0 {
		return errors.Join(fmt.Errorf("apply the workflow: %w %v", err, faults), n.Close())
	}
	s.node, s.partitions = n, n.Partitions()
	s.running.Go(func() error { return n.Run(s.ctx) })
	return s.awaitReady(ctx, n)
}

func (s *system) newNode(ctx context.Context, http string) (*node.Node, error) {
	return node.Open(ctx, node.Config{
		Cluster: s.cluster, Namespace: s.cfg.Namespace, Name: "bench", Dir: s.dir, Partitions: s.cfg.Partitions, PartitionsSet: s.cfg.PartitionsSet,
		HTTP: http, Logger: s.cfg.Log, Version: "bench", KeepInputs: true, // --bytes reads them all
	})
}

func (s *system) awaitReady(ctx context.Context, n *node.Node) (err error) {
	late := s.await(ctx, readyWait, "the node was not ready", func() bool { err = n.Ready(); return err == nil })
	if late == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", late, err)
}

// lookEvery is the interval at which conditions are checked.
const lookEvery = 10 * time.Millisecond

// sleep waits for d, for over, for Ctrl-C, or for the end of the system.
func (s *system) sleep(ctx context.Context, d time.Duration, over func() bool) {
	late := time.NewTimer(d)
	defer late.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !over() {
		select {
		case <-late.C:
			return
		case <-ctx.Done():
			return
		case <-s.failed():
			return
		case <-tick.C:
		}
	}
}

// await waits for a condition. Its error says what is missing.
func (s *system) await(ctx context.Context, d time.Duration, missing string, condition func() bool) error {
	deadline := time.Now().Add(d)
	s.sleep(ctx, d, condition)
	switch {
	case condition():
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.ctx.Err() != nil:
		return s.failure()
	case time.Now().Before(deadline):
		return errors.New(missing)
	}
	return fmt.Errorf("%s within %s", missing, d)
}

// openAgents starts the agents in the place that the run asks for.
func (s *system) openAgents(ctx context.Context, n names) (err error) {
	s.mock = &mock{names: n, items: s.cfg.items, backends: backends{latency: s.cfg.Latency}}
	switch s.cfg.Agents {
	case AgentsInside:
		s.attached, err = agent.Attach(ctx, work.Over(s.cluster), s.mock.registry(s.cfg.Concurrency),
			agent.Config{Namespace: s.cfg.Namespace, Instance: "bench", Log: s.cfg.Log})
		if err != nil {
			return err
		}
		a := s.attached
		s.running.Go(func() error { return a.Run(s.ctx) })
	case AgentsOutside:
		err = s.startOutside(n)
	case AgentsRunning:
		s.awaitRunning()
	}
	return err
}

// callsFile is the file for the counts of agents outside.
func (s *system) callsFile() string { return filepath.Join(s.dir, "calls") }

func (s *system) outsideArguments(n names) []string {
	l := s.cfg.Latency
	return append([]string{
		"bench", "agents", "--brokers", strings.Join(s.cluster.Brokers(), ","), "--namespace", s.cfg.Namespace,
		"--prefix", string(n.prefix), "--calls", s.callsFile(), "--concurrency", fmt.Sprint(s.cfg.Concurrency),
		"--latency", l.Fixed.String(), "--tail", fmt.Sprintf("%g%%:%s", 100*l.TailShare, l.Tail), "--slow-factor", fmt.Sprint(l.SlowFactor),
	}, s.cfg.ChildFlags...)
}

// slow makes the backends slow from now on.
func (s *system) slow() error {
	s.mock.backends.slow.Store(true)
	if s.outside == nil {
		return nil
	}
	_, err := s.outside.stdin.Write([]byte("slow\n"))
	return err
}

// stopAgents ends the agents outside and reads their counts.
func (s *system) stopAgents() error {
	if s.outside == nil {
		return nil
	}
	c := s.outside
	s.outside = nil
	if c.died() {
		return nil // already reported when the part ended
	}
	if err := c.stop(); err != nil {
		return fmt.Errorf("the agents outside: %w", err)
	}
	return s.mock.calls.read(s.callsFile())
}

// stopEngine ends node and agents but not the broker.
func (s *system) stopEngine() error {
	err := s.stopAgents()
	if s.stop != nil {
		s.stop()
		if failed := s.running.Wait(); !s.explained {
			err = errors.Join(err, failed)
		}
		s.stop, s.node, s.attached = nil, nil, nil // Run has closed them
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// close ends everything, and removes the data if it is temporary.
func (s *system) close() error {
	errs := []error{s.stopEngine()}
	if s.cluster != nil {
		s.cluster.Close()
		s.cluster = nil
	}
	if s.broker != nil {
		errs = append(errs, s.broker.Close())
		s.broker = nil
	}
	if s.remove {
		errs = append(errs, removeTemporary(s.dir))
	}
	return errors.Join(errs...)
}

// replication describes the number of copies.
func (s *system) replication(ctx context.Context) string {
	n, err := s.cluster.Replicas(ctx, s.topics.Events())
	if err != nil {
		return "replication unknown"
	}
	return fmt.Sprintf("replication %d", n)
}

// sizeOf returns the bytes of the files in a directory.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it may have been removed in the meantime
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
