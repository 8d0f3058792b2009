package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/events"
)

// TakeoverConfig is a run of `sagalog bench takeover`.
type TakeoverConfig struct {
	Config
	// Rate is how many tasks are due each second.
	Rate float64
	// Kills is how often a node is killed. The nodes are killed in turn.
	Kills int
}

// Validate reports every fault at once.
func (c *TakeoverConfig) Validate() error {
	all := faults{c.Config.Validate()}
	all.add(!(c.Rate > 0) || math.IsInf(c.Rate, 0), "--rate %g is not above zero", c.Rate)
	all.add(c.Kills < 1 || c.Kills > 1000, "--kills %d is not from 1 to 1000", c.Kills)
	all.add(c.Partitions == 1, "two nodes cannot share --partitions 1")
	return errors.Join(all...)
}

const (
	// ownWait bounds the wait until both nodes own partitions. A restarted node first folds the facts that it missed.
	ownWait = 2 * time.Minute
	// takeWait bounds a take-over. It is many times as long as one takes.
	takeWait = time.Minute
	// settleTries bounds how often partitions may move during the warm-up before a kill. A restarted node moves them once.
	settleTries = 10
)

// Takeover runs two nodes as processes, repeatedly kills one of them under load, and measures how long its partitions stand still.
func Takeover(ctx context.Context, c *TakeoverConfig) (_ *Result, err error) {
	c.setDefaults()
	s, err := openBroker(ctx, &c.Config)
	if err != nil {
		return nil, err
	}
	b := &bench{system: s, names: newNames(uuid.NewString()[:8]), base: time.Now(), due: new(table[int64])}
	t := &takeover{bench: b, nodes: map[string]*child{}}
	defer func() { err = errors.Join(err, t.stopNodes(), b.close()) }()
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	b.describe(ctx, "takeover")
	b.result.Load = fmt.Sprintf("open loop, %g tasks/s; two nodes, one of which is killed (kill -9) %d times, in turn", c.Rate, c.Kills)
	if c.Cluster == nil {
		b.result.Broker = fmt.Sprintf("embedded; the nodes reach it by TCP, %d partitions", b.partitions)
	}
	end := b.drive(func(stop <-chan struct{}) { b.load.open(b.ctx, stop, c.Rate) })
	from, to, err := t.rounds(ctx, c.Kills)
	end()
	if err != nil {
		return nil, err
	}
	b.sample = &sampler{meters: &b.meters, begin: from.at}
	b.sample.sample()
	b.fill(from, to)
	b.result.Samples = nil // there is only one sample, from the end
	t.fill(c.Kills)
	// The tasks under way end first, then the nodes, and then the log is read.
	fmt.Fprintf(c.Progress, "waiting for the tasks under way, %s at most\n", c.Drain)
	b.sleep(context.WithoutCancel(ctx), c.Drain, func() bool { return b.load.inFlight.Load() <= 0 || t.alive() != nil })
	if err := t.stopNodes(); err != nil {
		return nil, err
	}
	return b.finish(ctx, evidence{ends: true, again: true})
}

// takeover is a run with nodes that are other processes.
type takeover struct {
	*bench
	owners owners
	// known is the number of tasks that look has passed to owners.
	known int
	nodes map[string]*child
	// kills are the kills whose take-overs were measured.
	kills int
	// times are the take-over times of all partitions that were taken over, in no particular order.
	toClaim, toFact []time.Duration
}

// nodeNames are the two nodes.
var nodeNames = []string{"bench-a", "bench-b"}

func (t *takeover) open(ctx context.Context) error {
	folder := filepath.Join(t.dir, "workflows")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "five.yaml"), five, 0o600); err != nil {
		return err
	}
	// The first node creates the namespace, alone.
	if err := t.startNode(nodeNames[0]); err != nil {
		return err
	}
	err := t.await(ctx, ownWait, "the namespace was not made", func() bool {
		if t.partitions > 0 {
			return true
		}
		n, err := t.cluster.Partitions(ctx, t.topics.Submissions())
		if err != nil || n == 0 || t.alive() != nil {
			return false
		}
		// topics are created one after another, and brokers and clients learn of them one by one
		if ends, err := t.ends(ctx); err != nil || len(ends) != int(n) {
			return false
		}
		t.partitions = n
		return true
	})
	if err := errors.Join(err, t.alive()); err != nil {
		return err
	}
	if err := t.openAgents(ctx, t.names); err != nil {
		return err
	}
	if err := t.attach(); err != nil {
		return err
	}
	t.owners.of = make([]owner, t.partitions)
	t.watch.each = t.owners.see
	return t.startNode(nodeNames[1])
}

func (t *takeover) startNode(name string) error {
	c, err := startChild(&t.meters, t.cfg.Program, t.cfg.Stderr, append([]string{
		"bench", "takeover", "node", "--quiet", "--brokers", strings.Join(t.cluster.Brokers(), ","), "--namespace", t.cfg.Namespace, "--node", name,
		"--data", filepath.Join(t.dir, name), "--http", "127.0.0.1:0", "--roles", "owner,api,projector",
		"--partitions", fmt.Sprint(t.cfg.Partitions), "--workflows", filepath.Join(t.dir, "workflows"),
	}, t.cfg.ChildFlags...)...)
	if err == nil {
		t.nodes[name] = c
	}
	return err
}

// alive returns an error if a node has ended unasked.
func (t *takeover) alive() error {
	for name, c := range t.nodes {
		if isClosed(c.ended) {
			return fmt.Errorf("node %s ended: %w", name, errors.Join(c.err, errors.New("see above")))
		}
	}
	return nil
}

func (t *takeover) stopNodes() error {
	var errs []error
	for name, c := range t.nodes {
		delete(t.nodes, name)
		if err := c.stop(); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// rounds kills nodes in turn, each when both own partitions and have worked for the warm-up.
func (t *takeover) rounds(ctx context.Context, kills int) (from, to reading, err error) {
	go t.printProgress()
	defer func() { t.endProgress(); <-t.progressEnded }()
	for i := 0; i < kills && err == nil; i++ {
		if err = t.settle(ctx); err != nil {
			break
		}
		if i == 0 {
			from = t.meters.read()
			t.load.from.Store(t.load.now())
			t.watch.from.Store(t.load.from.Load())
		}
		err = t.kill(ctx, nodeNames[i%len(nodeNames)])
	}
	if err != nil && ctx.Err() != nil {
		if t.kills == 0 {
			return from, to, errNothingMeasured
		}
		t.interrupted, err = true, nil // Ctrl-C is not an error once something was measured
	}
	to = t.meters.read()
	t.load.to.Store(t.load.now())
	t.watch.to.Store(t.load.to.Load())
	return from, to, err
}

// settle waits until each partition works, each node owns some, and none has moved for the warm-up. A partition that moves while a node
// is killed would count as taken over, or not at all.
func (t *takeover) settle(ctx context.Context) error {
	shared := func(then int64) bool {
		t.look()
		return t.owners.shared(nodeNames, t.load.now(), then)
	}
	for range settleTries {
		err := t.await(ctx, ownWait, "the two nodes did not share the partitions", func() bool {
			return t.alive() != nil || shared(never)
		})
		began := t.load.now()
		t.sleep(ctx, t.cfg.Warmup, func() bool { return t.alive() != nil })
		if err := errors.Join(err, ctx.Err(), t.alive()); err != nil {
			return err
		}
		if shared(began) {
			return nil
		}
	}
	return fmt.Errorf("partitions moved between the two nodes in each of %d warm-ups, so a kill would not hit a settled owner", settleTries)
}

// look passes the tasks that were submitted since the last call to owners.
func (t *takeover) look() {
	var id []byte
	for ; t.known < t.load.sent(); t.known++ {
		due := atomic.LoadInt64(t.due.at(t.known))
		if due == 0 {
			return // the task has its number, and its time is about to be stored
		}
		id = t.names.append(id[:0], t.known)
		t.owners.submitted(events.Home(string(id), t.partitions), due)
	}
}

func (t *takeover) kill(ctx context.Context, name string) error {
	c := t.nodes[name]
	delete(t.nodes, name)
	of := t.owners.await(name, t.load.now())
	c.kill()
	err := t.await(ctx, takeWait, fmt.Sprintf("partitions %v of node %s were not taken over", of, name), func() bool {
		t.look()
		return t.alive() != nil || t.owners.taken()
	})
	if err := errors.Join(err, t.alive()); err != nil {
		return err
	}
	claim, fact := t.owners.times()
	t.kills++
	t.toClaim, t.toFact = append(t.toClaim, claim...), append(t.toFact, fact...)
	fmt.Fprintf(t.cfg.Progress, "node %s killed: partitions %v were claimed after %s at most", name, of, slices.Max(claim).Round(time.Millisecond))
	if len(fact) > 0 {
		fmt.Fprintf(t.cfg.Progress, ", and work again after %s at most", slices.Max(fact).Round(time.Millisecond))
	}
	fmt.Fprintln(t.cfg.Progress)
	return t.startNode(name)
}

func (t *takeover) fill(asked int) {
	r := &t.result
	r.AllocsTask, r.AllocBytes = 0, 0 // the nodes' figures are not known here
	r.Kills, r.KillsAsked, r.TakenOver, r.TakeoverN = t.kills, asked, len(t.toClaim), len(t.toFact)
	slices.Sort(t.toFact)
	slices.Sort(t.toClaim)
	r.TakeoverP50, r.TakeoverMax = rank(t.toFact, 0.50), rank(t.toFact, 1)
	r.ClaimP50, r.ClaimMax = rank(t.toClaim, 0.50), rank(t.toClaim, 1)
	r.TakeoverP99 = r.keepP99("kill -9 to first new fact", rank(t.toFact, 0.99), int64(len(t.toFact)))
}

// rank returns a quantile of a sorted list in milliseconds, or 0 for an empty list.
func rank(list []time.Duration, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return ms(list[min(int(q*float64(len(list))), len(list)-1)])
}
