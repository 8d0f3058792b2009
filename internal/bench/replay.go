package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
)

// ReplayConfig is a run of `sagalog bench replay`.
type ReplayConfig struct {
	Config
	// Facts is the number of facts to write to an empty log.
	Facts int
	// FactsSet says that the user gave Facts. A log that is not empty is then an error.
	FactsSet bool
	// Copy says that the log is a disposable copy, so it may also be a log that no benchmark made.
	Copy bool
}

// Validate reports every fault at once.
func (c *ReplayConfig) Validate() error {
	all := faults{c.Config.Validate()}
	all.add(c.Facts < 1 || c.Facts/factsOfTask > maxTasks, "--facts %d is not from 1 to %d", c.Facts, factsOfTask*maxTasks)
	return errors.Join(all...)
}

const (
	// factsOfTask is the number of facts of a successful task: Submitted, a start and a completion for each step, and the end.
	factsOfTask = 2*len(steps) + 2
	// makingAhead is the number of tasks under way while the log is made, enough to keep the engine busy.
	makingAhead = 2000
	// makingMost bounds how long making a log may take.
	makingMost = 12 * time.Hour
)

// Replay folds a log from nothing, and starts a node with and without the state.
func Replay(ctx context.Context, c *ReplayConfig) (_ *Result, err error) {
	c.setDefaults()
	c.copied = c.Copy
	s, err := openBroker(ctx, &c.Config)
	if errors.Is(err, errForeign) {
		err = fmt.Errorf("%w; if it is a copy of a log that nobody needs, say so by --copy", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &replay{system: s}
	made, err := r.make(ctx, c)
	if err != nil {
		return made, err
	}
	r.result = made
	r.result.Run = "replay"
	for _, step := range []func(context.Context) error{r.fold, r.checkpoint, r.nothing} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return r.result, nil
}

// replay is a run on the log of a stopped engine.
type replay struct {
	*system
	result *Result
	// log are the ends of events before a node is started on it, and facts is their sum.
	log   map[int32]int64
	facts int64
}

// make fills the log, unless --data or --namespace name one with facts. Its result holds the check of the tasks that it ran.
func (r *replay) make(ctx context.Context, c *ReplayConfig) (*Result, error) {
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	if r.facts > 0 && c.FactsSet {
		return nil, fmt.Errorf("--facts %d is for a new log, but namespace %s has one of %d records: leave --facts out, or give another --data or --namespace", c.Facts, c.Namespace, r.facts)
	}
	if r.facts > 0 {
		b := &bench{system: r.system}
		b.describe(ctx, "replay")
		b.result.Load, b.result.Agents, b.result.Backends = "an existing log", "none", ""
		return &b.result, nil
	}
	c.Agents, c.Latency, c.untimed, c.Duration, c.Warmup = AgentsInside, Latency{}, true, makingMost, 0
	b, err := attachBench(ctx, r.system, "")
	if err != nil {
		return nil, err
	}
	b.load.limit = min(maxTasks, c.Facts/factsOfTask+1)
	b.describe(ctx, "replay")
	b.result.Load = "a log that this run made, of tasks with five steps"
	end := b.drive(func(stop <-chan struct{}) { b.load.closed(b.ctx, stop, makingAhead) })
	_, _, err = b.window(ctx, func() bool { return b.load.full() && b.load.inFlight.Load() <= 0 })
	end()
	if err == nil && b.interrupted {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	result, err := b.finish(ctx, evidence{ends: true})
	if err != nil {
		return result, err
	}
	result.Backlog, result.Dropped, result.AckSamples, result.Notes = 0, 0, nil, nil
	result.SubmitP50, result.SubmitP99, result.SubmitMax, result.AckP50, result.AckP99, result.AckMax = 0, 0, 0, 0, 0, 0
	return result, r.measure(ctx)
}

// measure asks for the ends of events.
func (r *replay) measure(ctx context.Context) (err error) {
	if r.log, err = r.system.ends(ctx); err != nil {
		return err
	}
	r.partitions, r.facts = int32(len(r.log)), 0
	for _, end := range r.log {
		r.facts += end
	}
	return nil
}

// fold folds all partitions from nothing into an empty store, and compares the state hashes with the store's.
func (r *replay) fold(ctx context.Context) (err error) {
	ns, err := node.ReadNamespace(ctx, r.cluster, r.cfg.Namespace)
	if err != nil {
		return err
	}
	want, err := r.stored(ns.ID)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, "folded")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ends, facts := maps.Clone(r.log), int64(0)
	for p, info := range want {
		ends[p] = info.Next // the hashes can be compared here; later facts may not have reached the state
	}
	for _, end := range ends {
		facts += end
	}
	fmt.Fprintf(r.cfg.Progress, "folding %d facts from nothing\n", facts)
	b := &bench{system: r.system}
	stopProfile, err := b.profile()
	if err != nil {
		return err
	}
	from := r.meters.read()
	err = r.foldAll(ctx, dir, ns.ID, ends, want)
	to := r.meters.read()
	stopProfile()
	if err := errors.Join(err, b.profileMemory()); err != nil {
		return err
	}
	x, seconds := r.result, to.at.Sub(from.at).Seconds()
	x.labels = map[string]string{"Facts": "facts in the log, void ones too"}
	x.Facts, x.Folded, x.Seconds = r.facts, facts, round(seconds, 3)
	if left := r.facts - facts; left > 0 {
		x.note("%d facts at the end of the log were not folded: the engine was stopped before they reached its state, which the fold is compared with", left)
	}
	if r.cfg.Cluster != nil {
		x.note("until ready, with and without state: a node first joins its group, and the brokers make the first member wait for others (group.initial.rebalance.delay.ms, 3 s by default)")
	}
	x.FoldRate = round(float64(facts)/seconds, 1)
	x.CPUPerFact = round(per(float64((to.cpu-from.cpu).Nanoseconds())/1e3, facts), 3)
	x.AllocsFact = round(per(float64(to.mallocs-from.mallocs), facts), 2)
	x.HashesEqual = len(want) // otherwise foldAll would have refuted it
	x.PeakRSS, x.RSS, x.Heap = mib(r.meters.peakBytes()), mib(r.meters.resident()), mib(heapBytes())
	x.setDisturbance(from, to)
	return nil
}

func (r *replay) foldAll(ctx context.Context, dir, namespaceID string, ends map[int32]int64, want map[int32]projector.Info) (err error) {
	store, err := projector.Open(dir, projector.Options{Namespace: namespaceID})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var ranges []node.FoldRange
	for p, end := range ends {
		ranges = append(ranges, node.FoldRange{Topic: r.topics.Events(), Partition: p, To: end})
	}
	var refuted error
	err = node.FoldAll(ctx, r.cluster, store, ranges, func(i int, sum events.Hash) {
		refuted = errors.Join(refuted, compare(ranges[i].Partition, want, sum))
	})
	return errors.Join(err, refuted)
}

// compare refutes a fold that differs from the state that the engine left.
func compare(p int32, want map[int32]projector.Info, sum events.Hash) error {
	if info, ok := want[p]; ok && info.StateHash != sum {
		return fmt.Errorf("refuted: partition %d folded from nothing to offset %d has the state hash %s, but the engine left %s", p, info.Next, sum, info.StateHash)
	}
	return nil
}

// stored returns the state that the engine left, if it is here.
func (r *replay) stored(namespaceID string) (list map[int32]projector.Info, err error) {
	store, err := projector.OpenIntact(r.stateDir(), projector.Options{Namespace: namespaceID})
	if errors.Is(err, projector.ErrNoStore) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	list = map[int32]projector.Info{}
	for _, p := range store.Partitions() {
		info, err := store.PartitionInfo(p)
		if err != nil {
			return nil, err
		}
		list[p] = info
	}
	return list, nil
}

// checkpoint starts a node with the state that the engine left, if there is one.
func (r *replay) checkpoint(ctx context.Context) error {
	if _, err := os.Stat(r.stateDir()); err != nil {
		return nil
	}
	d, err := r.ready(ctx)
	r.result.ReadyState = ms(d)
	return err
}

// nothing starts a node without state, as after the loss of its directory, so that the node rebuilds the state.
func (r *replay) nothing(ctx context.Context) error {
	if err := os.RemoveAll(r.stateDir()); err != nil {
		return err
	}
	d, err := r.ready(ctx)
	r.result.ReadyNothing = ms(d)
	r.result.RebuildRate = round(float64(r.facts)/d.Seconds(), 1)
	return err
}

// ready starts a node, waits until it is ready, and stops it.
func (r *replay) ready(ctx context.Context) (d time.Duration, err error) {
	fmt.Fprintf(r.cfg.Progress, "starting a node\n")
	r.begin()
	began := time.Now()
	n, err := r.newNode(ctx, "")
	if err != nil {
		return 0, err
	}
	r.node = n
	r.running.Go(func() error { return n.Run(r.ctx) })
	err = r.awaitReady(ctx, n)
	d = time.Since(began)
	return d, errors.Join(err, r.stopEngine())
}
