package whatif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/scheduler"
	"golang.org/x/sync/errgroup"
)

// Config says what to replay.
type Config struct {
	Log verify.Log
	// Topic is that of the facts.
	Topic string
	// Policy is the definition of the workflow with the policy to try.
	Policy *scheduler.Source
	// Since (inclusive) and Until (exclusive, zero for no bound) are about the submission of tasks.
	Since, Until events.Instant
	// Draws is how often what history does not have is drawn, and Seed what the draws follow from.
	Draws int
	Seed  uint64
	// Dir is a directory for a temporary file.
	Dir string
	// Tasks gets a line for each task, unless it is nil.
	Tasks io.Writer
	// Progress is called with what is done, how far that is, and of how much; nil if nobody asks. It is called from several goroutines.
	Progress func(what string, done, of int64)
	// moves is how often the time of a replay moves at most, if that is not maxMoves; only tests set it.
	moves int
}

// minReproduced is the share of tasks that must end under their own policy as they did in history.
const minReproduced = 0.95

// ErrNoTasks says that there is nothing to replay.
var ErrNoTasks = errors.New("there is no task to replay")

// Run reads the log, replays the tasks under their own policy and, if that reproduces history, under the policy of cfg.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	want, err := policyOfSource(cfg.Policy)
	if err != nil {
		return nil, err
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, int64, int64) {}
	}
	kept, err := newSpill(cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer kept.close()
	r := run{cfg: &cfg, want: want, known: &known{all: map[string]*policy{}, want: want}, samples: newSamples(want.definition), kept: kept}
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	rep := &Report{Workflow: want.version.Workflow, Since: cfg.Since, Until: cfg.Until, Draws: cfg.Draws, Seed: cfg.Seed}
	if rep.Calibration, err = r.calibrate(); err != nil || !rep.Calibration.Reproduces {
		return rep, err
	}
	r.samples.sort()
	rep.Estimate, err = r.estimate(ctx)
	return rep, err
}

// run is one call of Run.
type run struct {
	cfg     *Config
	want    *policy
	known   *known
	samples *samples
	kept    *spill
	// first are the tallies of the first pass, by partition: they are added in order.
	first []*calibrating
}

// read reads the log. Each task is replayed under its own policy as soon as it is read, and kept in a file.
func (r *run) read(ctx context.Context) error {
	bounds, err := r.bounds(ctx)
	if err != nil {
		return err
	}
	total, read := int64(0), atomic.Int64{}
	for _, at := range bounds {
		total += at.End - at.Start
		r.first = append(r.first, newCalibrating())
	}
	r.kept.divide(len(bounds))
	g, one := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, at := range bounds {
		g.Go(func() error {
			own := newReplayer(r.cfg)
			f := reading{cfg: r.cfg, partition: int32(i), known: r.known, samples: r.samples, open: map[string]*open{}, emit: func(t *Trace) error {
				if err := r.own(own, t); err != nil {
					return err
				}
				r.first[i].add(t)
				if t.Skipped != "" && r.cfg.Tasks == nil {
					return one.Err()
				}
				return errors.Join(one.Err(), r.kept.add(i, t))
			}}
			now, err := r.bounds(one) // a log in use is cut now and then, and other partitions were read since the first question
			if err != nil {
				return err
			}
			at.Start = max(at.Start, now[i].Start)
			return f.read(one, at, func(n int64) {
				if done := read.Add(n); done%progressEvery == 0 {
					r.cfg.Progress("read", done, total)
				}
			})
		})
	}
	return g.Wait()
}

func (r *run) bounds(ctx context.Context) ([]verify.Bounds, error) {
	bounds, err := r.cfg.Log.Bounds(ctx, r.cfg.Topic)
	if err != nil {
		return nil, fmt.Errorf("ask for the ends of %s: %w", r.cfg.Topic, err)
	}
	if len(bounds) == 0 {
		return nil, fmt.Errorf("there is no topic %s", r.cfg.Topic)
	}
	return bounds, nil
}

// progressEvery is how many records are read between two calls of Config.Progress.
const progressEvery = 5000

// own replays a task under its own policy.
func (r *run) own(with *replayer, t *Trace) error {
	if t.Skipped != "" {
		return nil
	}
	var err error
	if t.Own, err = with.replay(t, r.known.of(t.Definition), nil); err != nil {
		// A defect of the engine, or facts that this version decides otherwise: one task must not hide the others.
		t.Own, t.Skipped, t.Detail = nil, skipEngine, err.Error()
	}
	return nil
}

// calibrate adds up how far the tasks came out as in history.
func (r *run) calibrate() (Calibration, error) {
	all := newCalibrating()
	for _, c := range r.first {
		all.merge(c)
	}
	if all.seen() == 0 {
		return Calibration{}, fmt.Errorf("%w: no task of workflow %q was submitted in the range that the log has (--since, --until)", ErrNoTasks, r.want.version.Workflow)
	}
	if all.replayed == 0 && all.skipped[skipOther] > 0 && r.known.newest != nil {
		return Calibration{}, &PolicyError{Path: r.known.newest.differs(r.want), Workflow: r.want.version.Workflow, Version: r.known.newest.version.Version}
	}
	return all.calibration(), nil
}
