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
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
	"golang.org/x/sync/errgroup"
)

const (
	// readyWait bounds how long a node may take to own its partitions: it may have a log to fold.
	readyWait = 5 * time.Minute
	readyPoll = 20 * time.Millisecond
)

// system is what is measured: a broker, a node and agents, as far as they are in this process or started by it.
type system struct {
	cfg    *Config
	dir    string
	remove bool
	topics kafka.Topics
	meters meters
	// partitions are those of the namespace, known when a node has opened it.
	partitions int32
	before     before

	broker  *kafka.Broker
	cluster *kafka.Cluster
	node    *node.Node
	mock    *mock
	// attached are the agents inside, outside the process with those outside.
	attached *agent.Connection
	outside  *child

	// running are the parts that work until stop.
	running *errgroup.Group
	ctx     context.Context
	stop    context.CancelFunc
	// explained says that what ended a part is in an error already.
	explained bool
}

// openBroker makes the data directory and reaches the brokers.
func openBroker(ctx context.Context, cfg *Config) (_ *system, err error) {
	s := &system{cfg: cfg, dir: cfg.Dir, topics: kafka.Topics{Namespace: cfg.Namespace}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir == "" {
		if s.dir, err = makeTemporary(cfg.Progress); err != nil {
			return nil, fmt.Errorf("make a temporary directory for the data in %s (TMPDIR names another place, --data a directory for good): %w", os.TempDir(), err)
		}
		s.remove = true
	} else if err := claimDirectory(cfg); err != nil {
		return nil, err
	}
	reach := kafka.ClusterConfig{}
	if cfg.Cluster != nil {
		reach = *cfg.Cluster
	} else {
		bc := kafka.BrokerConfig{Dir: s.brokerDir(), LockFile: filepath.Join(s.dir, "LOCK"), Fsync: cfg.Fsync, ByPort: cfg.ByPort, Logger: cfg.Log}
		if cfg.Virtual {
			bc.Network = new(kafka.VirtualNetwork)
		}
		if s.broker, err = kafka.OpenBroker(bc); err != nil {
			return nil, err
		}
		reach = s.broker.ClusterConfig()
	}
	if s.cluster, err = kafka.Connect(reach); err != nil {
		return nil, err
	}
	if err := kafka.Reach(ctx, s.cluster); err != nil {
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

// before is what earlier runs left in the data and in the namespace. A figure of a run is about what that run adds.
type before struct {
	// ends are those of events, nil without a namespace; records is their sum.
	ends    map[int32]int64
	records int64
	// broker is the bytes of its files.
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

// ends returns the ends of events; a namespace that is not there has none.
func (s *system) ends(ctx context.Context) (map[int32]int64, error) {
	topic := s.topics.Events()
	n, err := s.cluster.Partitions(ctx, topic)
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	of := kafka.Partitions{}
	for p := range n {
		of[topic] = append(of[topic], p)
	}
	ends, err := s.cluster.EndOffsets(ctx, of)
	return ends[topic], err
}

// begin makes the group of the parts, unless there is one.
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

// failure returns that error, once failed is closed.
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
		HTTP: http, Logger: s.cfg.Log, Version: "bench",
	})
}

func (s *system) awaitReady(ctx context.Context, n *node.Node) error {
	late := time.NewTimer(readyWait)
	defer late.Stop()
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		err := n.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.failed():
			return s.failure()
		case <-late.C:
			return fmt.Errorf("the node was not ready after %s: %w", readyWait, err)
		case <-tick.C:
		}
	}
}

// openAgents starts the agents where the run wants them.
func (s *system) openAgents(ctx context.Context, n names) (err error) {
	s.mock = &mock{names: n, backends: backends{latency: s.cfg.Latency}}
	switch s.cfg.Agents {
	case AgentsInside:
		s.attached, err = agent.Attach(ctx, s.cluster, s.mock.registry(s.cfg.Concurrency), s.agentConfig())
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

func (s *system) agentConfig() agent.Config {
	return agent.Config{Namespace: s.cfg.Namespace, Instance: "bench", Log: s.cfg.Log}
}

// callsFile is where agents outside leave what they counted.
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

// stopAgents ends the agents that are outside and takes what they counted.
func (s *system) stopAgents() error {
	if s.outside == nil {
		return nil
	}
	c := s.outside
	s.outside = nil
	if c.died() {
		return nil // it is told already, as the end of a part
	}
	if err := c.stop(); err != nil {
		return fmt.Errorf("the agents outside: %w", err)
	}
	return s.mock.calls.read(s.callsFile())
}

// stopEngine ends node and agents and leaves the broker.
func (s *system) stopEngine() error {
	err := s.stopAgents()
	if s.stop != nil {
		s.stop()
		if failed := s.running.Wait(); !s.explained {
			err = errors.Join(err, failed)
		}
		if s.node != nil || s.attached != nil {
			s.node, s.attached = nil, nil // they have closed themselves
		}
		s.stop = nil
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// close ends everything, and removes the data where nobody asked for it.
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

// replication says how many copies there are.
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
			return nil // it may go while we look
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
