package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/sagalog/sagalog/internal/kafka"
)

// bench is one run with a load and a watcher.
type bench struct {
	*system
	names  names
	base   time.Time
	due    *table[int64]
	load   *load
	watch  *watcher
	sample *sampler

	result      Result
	interrupted bool
	// first says that the load works, so that the warm-up begins. start is called at the start of the window.
	first func() bool
	start func()
	// acked is the number of acknowledgements in the window.
	acked int64
	// rate is the rate of an open loop, 0 for a closed loop.
	rate float64
	// quit is closed, by endProgress, when sampler and progress should end. progressEnded is closed when the progress has ended.
	quit, progressEnded chan struct{}
	endProgress         func()
}

// openBench opens a system with a node, agents, load and watcher. Nothing is submitted yet.
func openBench(ctx context.Context, cfg *Config, http string) (*bench, error) {
	s, err := openBroker(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := cfg.makeProfiles(); err != nil { // after checking --data, since the profiles may be in that directory
		return nil, errors.Join(err, s.close())
	}
	b, err := attachBench(ctx, s, http)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return b, nil
}

// attachBench adds the node, agents, load and watcher to a broker.
func attachBench(ctx context.Context, s *system, http string) (_ *bench, err error) {
	cfg, workflow := s.cfg, five
	if cfg.Agents == AgentsNone {
		workflow = patient()
	}
	if cfg.permits {
		workflow = permitted()
	}
	if cfg.limited {
		workflow = limited(workflow)
	}
	if cfg.items > 0 {
		workflow = itemized
	}
	b := &bench{system: s, names: newNames(uuid.NewString()[:8]), base: time.Now()}
	if !cfg.untimed {
		b.due = new(table[int64])
	}
	if err := s.openNode(ctx, workflow, http); err != nil {
		return nil, err
	}
	if cfg.Agents == AgentsNone {
		err = s.makeWorkTopics(ctx)
	} else {
		err = s.openAgents(ctx, b.names)
	}
	if err != nil {
		return nil, err
	}
	return b, b.attach()
}

// makeWorkTopics creates the topics that agents would have created.
func (s *system) makeWorkTopics(ctx context.Context) error {
	var specs []kafka.TopicSpec
	for _, name := range steps {
		specs = append(specs, s.topics.WorkSpec(name, s.partitions))
	}
	return kafka.EnsureTopics(ctx, s.cluster, specs...)
}

// attach connects load and watcher.
func (b *bench) attach() error {
	b.watch = newWatcher(b.names, b.base, b.due)
	b.watch.hit, b.watch.before = b.cfg.Latency.hit, b.before.ends
	b.load = newLoad(b.names, b.base)
	b.load.due, b.load.topic, b.load.partitions = b.due, b.topics.Submissions(), b.partitions
	b.watch.ended = b.load.ended
	b.first, b.start = func() bool { return b.watch.counts().ended > 0 }, func() {}
	if items := b.cfg.items; items > 0 {
		b.load.value, b.load.most = itemsSubmission(items), maxTasks/items
		b.first = func() bool { return b.watch.counts().completed > 0 } // a task may take longer than anybody waits for the first
	}
	b.meters.watch = b.watch
	producer, err := kafka.NewProducer(b.cluster)
	if err != nil {
		return err
	}
	b.load.producer = producer
	b.running.Go(func() error {
		<-b.ctx.Done()
		producer.Close()
		return nil
	})
	b.quit, b.progressEnded = make(chan struct{}), make(chan struct{})
	b.endProgress = sync.OnceFunc(func() { close(b.quit) })
	return nil
}

// drive starts the watcher and calls send, which submits until stop is closed. The returned function ends the load and
// waits for it.
func (b *bench) drive(send func(stop <-chan struct{})) (end func()) {
	b.running.Go(func() error { return b.watch.run(b.ctx, b.cluster, b.topics.Events(), b.load.partitions) })
	stop, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		send(stop)
	}()
	return func() {
		close(stop)
		<-sent
	}
}

// errNothingMeasured is the error of Ctrl-C before anything was measured.
var errNothingMeasured = errors.New("interrupted before anything was measured")

// firstWait bounds how long the first task may take: agents have to join their groups.
const firstWait = time.Minute

// window waits until the load works, warms up, and returns the readings at the start and the end of the window. over may end it early.
func (b *bench) window(ctx context.Context, over func() bool) (from, to reading, err error) {
	if err := b.await(ctx, firstWait, b.nothing(), b.first); err != nil {
		return from, to, err
	}
	go b.printProgress()
	defer func() { b.endProgress(); <-b.progressEnded }()
	b.sleep(ctx, b.cfg.Warmup, over)
	if ctx.Err() != nil {
		return from, to, errNothingMeasured
	}
	stopProfile, err := b.profile()
	if err != nil {
		return from, to, err
	}
	b.load.from.Store(b.load.now())
	b.watch.from.Store(b.load.from.Load())
	from = b.meters.read()
	b.acked = -b.load.acks.acked.Load()
	b.start()
	b.sample = &sampler{meters: &b.meters, begin: from.at}
	sampled := make(chan struct{})
	go func() {
		defer close(sampled)
		b.sample.run(b.quit)
	}()
	defer func() { b.endProgress(); <-sampled }()
	rest := b.cfg.Duration
	if l := b.cfg.Latency; l.SlowFactor > 0 && l.SlowAfter < rest {
		b.sleep(ctx, l.SlowAfter, over)
		rest -= l.SlowAfter
		if err := b.slow(); err != nil {
			return from, to, err
		}
	}
	b.sleep(ctx, rest, over)
	to = b.meters.read()
	b.acked += b.load.acks.acked.Load()
	b.endProgress()
	b.load.to.Store(b.load.now())
	b.watch.to.Store(b.load.to.Load())
	stopProfile()
	if err := b.profileMemory(); err != nil {
		return from, to, err
	}
	b.interrupted = ctx.Err() != nil
	select {
	case <-b.failed():
		return from, to, b.failure()
	default:
		return from, to, nil
	}
}

// printProgress prints a line a second.
func (b *bench) printProgress() {
	defer close(b.progressEnded)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, began := b.watch.counts(), time.Now()
	for {
		select {
		case <-b.quit:
			return
		case <-tick.C:
			c := b.watch.counts()
			resident, _ := processMemory(os.Getpid())
			fmt.Fprintf(b.cfg.Progress, "%4.0fs  %7d tasks/s  %8d facts/s  %8d accepted/s  %9d ended  %8d under way  RSS %.0f MiB\n", time.Since(began).Seconds(),
				c.ended-last.ended, c.facts-last.facts, c.submitted-last.submitted, c.ended, c.submitted-c.ended, mib(resident))
			last = c
		}
	}
}

// makeProfiles creates the files of the profiles before anything is measured.
func (c *Config) makeProfiles() error {
	for flag, name := range map[string]string{"--cpuprofile": c.Profile, "--memprofile": c.MemProfile} {
		if name == "" {
			continue
		}
		f, err := os.Create(name)
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

func (b *bench) profile() (stop func(), err error) {
	if b.cfg.Profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(b.cfg.Profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// profileMemory writes a profile of the live memory at the end of the window, after a garbage collection.
func (b *bench) profileMemory() error {
	if b.cfg.MemProfile == "" {
		return nil
	}
	f, err := os.Create(b.cfg.MemProfile)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// finish waits for the tasks under way, reads the log, and judges it.
func (b *bench) finish(ctx context.Context, e evidence) (*Result, error) {
	late := context.WithoutCancel(ctx) // Ctrl-C ended only the window; the figures are still printed
	acks := b.load.acks
	answered := func() bool { return acks.acked.Load()+acks.dropped.Load() >= int64(b.load.sent()) }
	if err := b.await(late, b.cfg.Drain, "submissions were not answered", answered); err != nil {
		return nil, err
	}
	fmt.Fprintf(b.cfg.Progress, "waiting for the tasks under way, %s at most\n", b.cfg.Drain)
	began := time.Now()
	judged := func() bool { return b.watch.counts().submitted >= acks.acked.Load() }
	if e.ends {
		judged = func() bool { return b.load.inFlight.Load() <= 0 }
	}
	b.sleep(late, b.cfg.Drain, judged)
	b.result.Judged = round(time.Since(began).Seconds(), 3)
	e.unjudged = b.watch.counts().submitted < acks.acked.Load()
	if b.ctx.Err() != nil {
		return nil, b.failure()
	}
	if e.ends {
		b.result.Judged = 0
	}
	b.fillLatencies(e)
	sent := b.load.sent()
	b.result.Backlog = b.watch.counts().submitted - b.watch.counts().ended
	if err := b.stopEngine(); err != nil {
		return nil, err
	}
	b.fillBytes(e)
	e.sent, e.acked = sent, &acks.got
	if b.mock != nil && b.cfg.Agents != AgentsRunning {
		e.calls = &b.mock.calls
	}
	if err := b.check(late, e); err != nil {
		return nil, err
	}
	return &b.result, errors.Join(b.withCause(b.result.Verdict), acks.refusal())
}

// check reads the log from its beginning.
func (b *bench) check(ctx context.Context, e evidence) error {
	fmt.Fprintf(b.cfg.Progress, "reading the log: was anything lost or doubled among %d tasks?\n", e.sent)
	began := time.Now()
	a := &audit{names: b.names, before: b.before.ends, items: b.cfg.items}
	if err := a.read(ctx, b.cluster, b.topics.Events(), b.load.partitions); err != nil {
		return fmt.Errorf("read the log for the check: %w", err)
	}
	verdict := a.judge(e)
	b.result.Verdict = &verdict
	b.result.VoidRecords, b.result.Facts = a.void, a.facts
	if a.takeovers > 0 && !e.again {
		b.result.note("partitions got another owner %d times during the run, as when this process gets no CPU for seconds: %d calls beyond the first of their attempts are repeats that this explains", a.takeovers, verdict.Repeated)
	}
	b.result.CheckedIn = round(time.Since(began).Seconds(), 1)
	return nil
}
