package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/pause"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// catalog reads the definitions topic.
type catalog struct {
	*scheduler.Catalog
	cluster *kafka.Cluster
	topic   string
	log     *slog.Logger
	// maxLevel is the highest level that this build understands.
	maxLevel int
	// acts takes what operators wrote.
	acts *acts
	// letters takes the marks of dead letters.
	letters letterMarks

	// mu guards the fields below.
	mu      sync.Mutex
	next    int64
	moved   chan struct{} // closed when next moves
	offsets map[string]int64
	full    recent[completed]
	// ignored counts the records that were passed over, and the definitions that cannot be used, whose hashes are in unusable.
	ignored  int
	unusable map[string]bool
	// unreadAt is when the log last said that a definition cannot be read: owners try again all the time.
	unreadAt time.Time
	// questions counts how often the broker was asked for the end offset, including a request under way.
	questions int64

	// turn is held while the broker is asked for the end offset. It guards answered, the number of the last request
	// that was answered, and end, its answer.
	turn     chan struct{}
	answered int64
	end      int64
}

// completed is a body with defaults, or why the definition cannot be used.
type completed struct {
	body     []byte
	unusable string
}

func newCatalog(c *kafka.Cluster, topic string, log *slog.Logger, kept scheduler.Bodies) *catalog {
	return &catalog{
		Catalog: scheduler.NewCatalog(kept), cluster: c, topic: topic, log: log, acts: newActs(time.Now()),
		maxLevel: events.FormatVersion, moved: make(chan struct{}), turn: make(chan struct{}, 1), offsets: map[string]int64{}, full: recent[completed]{room: completedBytes}, unusable: map[string]bool{},
	}
}

// Run reads until ctx ends.
func (c *catalog) Run(ctx context.Context) error {
	return readAgain(ctx, c.log.With("topic", c.topic), c.read)
}

// readAgain reads a topic until ctx ends, and starts again after errors of the broker.
func readAgain(ctx context.Context, log *slog.Logger, read func(context.Context) error) error {
	for ctx.Err() == nil {
		if err := read(ctx); err != nil && ctx.Err() == nil {
			log.Warn("reading is interrupted; trying again", "error", err)
			pause.For(ctx, sendPause)
		}
	}
	return nil
}

func (c *catalog) read(ctx context.Context) error {
	r, err := kafka.NewReader(c.cluster, kafka.ReaderConfig{ReadCommitted: true, KeepControl: true})
	if err != nil {
		return err
	}
	c.mu.Lock()
	from := c.next
	c.mu.Unlock()
	r.Add(c.topic, 0, from, -1)
	err = readAll(ctx, r, func(f *kafka.Fetch) {
		for i := range f.Records {
			c.apply(&f.Records[i])
		}
		c.moveTo(f.Next)
	})
	var tooLarge *kafka.TooLargeError
	if !errors.As(err, &tooLarge) {
		return err
	}
	c.ignore()
	c.log.Error("records of definitions are too large when decompressed; they are skipped", "offset", tooLarge.Offset, "next", tooLarge.Next, "error", err)
	c.moveTo(tooLarge.Next)
	return nil // reading resumes from there
}

func (c *catalog) ignore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ignored++
}

// ignoredRecords returns how many records were passed over or hold a definition that cannot be used.
func (c *catalog) ignoredRecords() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ignored
}

// readAll passes on the fetches of a reader until it fails or ctx ends, and then closes it.
func readAll(ctx context.Context, r *kafka.Reader, give func(*kafka.Fetch)) error {
	defer r.Close()
	for {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return err
		}
		for i := range fetches {
			if err := fetches[i].Err; err != nil {
				return err
			}
			give(&fetches[i])
		}
	}
}

func (c *catalog) apply(r *events.Record) {
	if err := c.Catalog.Apply(r); err != nil {
		c.ignore()
		c.log.Error("a record of definitions cannot be read; it is skipped", "offset", r.Offset, "error", err)
		return
	}
	c.acts.record(r)
	c.letters.record(r)
	if key := string(r.Key); len(key) > 64 && r.Value != nil {
		c.mu.Lock()
		hash := key[len(key)-64:]
		if _, known := c.offsets[hash]; !known {
			c.offsets[hash] = r.Offset
		}
		c.mu.Unlock()
	}
}

func (c *catalog) moveTo(next int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next <= c.next {
		return
	}
	c.next = next
	close(c.moved)
	c.moved = make(chan struct{})
}

// upToNow returns once the definitions are read up to their end at the time of the call, so it includes every definition
// that was applied before.
func (c *catalog) upToNow(ctx context.Context) error {
	end, err := c.askEnd(ctx)
	if err != nil {
		return fmt.Errorf("ask for the end of definitions: %w", err)
	}
	return c.upTo(ctx, end)
}

// askEnd asks the broker, or takes the answer to a question that another call began after this one: all partitions ask
// with each batch of submissions, and calls that come during a question share the next one.
func (c *catalog) askEnd(ctx context.Context) (int64, error) {
	before := c.question(0)
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	if c.answered > before {
		return c.end, nil
	}
	n := c.question(1)
	end, err := c.cluster.EndOffset(ctx, c.topic, 0)
	if err != nil {
		return 0, err
	}
	c.answered, c.end = n, end
	return end, nil
}

// question adds to the number of questions and returns it.
func (c *catalog) question(more int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.questions += more
	return c.questions
}

// movement returns a channel that is closed when more of the definitions topic has been read.
func (c *catalog) movement() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

func (c *catalog) upTo(ctx context.Context, end int64) error {
	for {
		c.mu.Lock()
		next, moved := c.next, c.moved
		c.mu.Unlock()
		if next >= end {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		}
	}
}

// completedBytes bounds the bodies with defaults that are kept. A dropped body is completed again on demand.
const completedBytes = 16 << 20

// complete returns the version with every default filled in, as in DefinitionAdopted. A version above this build's level has no body:
// its keys may be unknown here, and the owner that needs it gives up its partition.
func (c *catalog) complete(v scheduler.Version, ok bool) (supervisor.Version, bool) {
	out := supervisor.Version{Workflow: v.Workflow, Version: v.Version, Hash: v.Hash, Level: v.Level, Deleted: v.Deleted}
	if !ok || v.Level > c.maxLevel {
		return out, ok
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	full, known := c.full.find(v.Hash)
	if !known {
		var err error
		if v.Body, err = c.Read(v); err != nil {
			if time.Since(c.unreadAt) > time.Minute {
				c.unreadAt = time.Now()
				c.log.Error("a definition cannot be read from disk; its submissions wait", "error", err)
			}
			out.Unread = true
			return out, true
		}
		full = c.completed(v)
		c.full.keep(v.Hash, full, len(full.body)+len(full.unusable))
	}
	out.Body, out.Unusable, out.Offset = full.body, full.unusable, c.offsets[v.Hash]
	return out, true
}

// completed is called with mu held.
func (c *catalog) completed(v scheduler.Version) completed {
	d, err := scheduler.Applied(v)
	if err == nil {
		var body []byte
		if body, err = events.Marshal(d); err == nil {
			return completed{body: body}
		}
	}
	if !c.unusable[v.Hash] { // it may have been completed before, and dropped
		c.unusable[v.Hash] = true
		c.ignored++
		c.log.Error("a definition cannot be used: it breaks the rules for definitions, and was not applied through the API", "workflow", v.Workflow, "version", v.Version,
			"offset", c.offsets[v.Hash], "error", err)
	}
	return completed{unusable: err.Error()}
}

// view is the catalog as owners see it.
type view struct{ c *catalog }

func (v view) Level() int { return v.c.Settings().Level }

func (v view) Settings() (events.Settings, int64) {
	s := v.c.Catalog.Settings()
	return s.Settings, s.Offset
}

func (v view) Current(w string) (supervisor.Version, bool) {
	return v.c.complete(v.c.Catalog.Current(w))
}
func (v view) Version(w string, n int) (supervisor.Version, bool) {
	return v.c.complete(v.c.Catalog.Version(w, n))
}
func (v view) ByHash(w, h string) (supervisor.Version, bool) {
	return v.c.complete(v.c.Catalog.ByHash(w, h))
}
