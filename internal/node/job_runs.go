package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/repeats"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/sagalog/sagalog/scheduler"
)

// jobsEvery is how often a node looks whether its partitions have changed, and whether a run that failed can go on.
const jobsEvery = time.Second

// jobRuns works on the jobs, for the partitions that this node owns. A run that fails begins again from the last recorded progress, as the
// run of the next owner does.
type jobRuns struct {
	ns       *namespace
	tasks    *tasks
	producer *kafka.Producer
	owners   *owners
	// keys opens and seals what jobs send; nil for a node without a key.
	keys  *sealing.Keys
	items *prometheus.CounterVec
	log   *slog.Logger

	// running is owned by Run.
	running map[jobPart]*jobRun
}

// jobPart is the part of a job in one partition.
type jobPart struct {
	job       string
	partition int32
}

func newJobRuns(n *Node) (*jobRuns, error) {
	r := &jobRuns{
		ns: n.ns, tasks: n.tasks, producer: n.producer, owners: n.owners, keys: n.cfg.Keys, log: repeats.Limited(n.cfg.Logger), running: map[jobPart]*jobRun{},
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sagalog_job_items_total",
			Help: "Tasks that jobs asked, by verb and by what became of the request.",
		}, []string{"verb", "result"}),
	}
	return r, n.cfg.Registry.Register(r.items)
}

// Run works until ctx ends.
func (r *jobRuns) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	ticks := time.NewTicker(jobsEvery)
	defer ticks.Stop()
	for {
		moved := r.ns.catalog.movement()
		r.look(ctx, &wait)
		select {
		case <-ctx.Done():
			return nil
		case <-moved:
		case <-ticks.C:
		}
	}
}

// look ends the runs of partitions that this node no longer owns in the same epoch, and begins those that are missing.
func (r *jobRuns) look(ctx context.Context, wait *sync.WaitGroup) {
	for at, run := range r.running {
		if !r.owners.owns(at.partition) || r.owners.status(at.partition).Epoch.N != run.epoch {
			run.cancel()
		}
		select {
		case <-run.ended:
			run.cancel()
			delete(r.running, at)
		default:
		}
	}
	for _, job := range r.ns.catalog.Jobs() {
		if job.EndedAt != 0 {
			continue
		}
		for _, p := range r.owners.owned() {
			if at := (jobPart{job.ID, p}); r.running[at] == nil && !job.Progress[p].Done {
				r.begin(ctx, wait, at, job)
			}
		}
	}
}

func (r *jobRuns) begin(ctx context.Context, wait *sync.WaitGroup, at jobPart, job scheduler.JobRecord) {
	ctx, cancel := context.WithCancel(ctx)
	run := newJobRun(r, job, at.partition)
	run.cancel = cancel
	r.running[at] = run
	wait.Go(func() {
		defer close(run.ended)
		if err := run.work(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("a job is interrupted in a partition; it goes on in a moment", "job", at.job, "partition", at.partition, "error", err)
		}
	})
}
