package past

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/batch"
	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector"
)

const (
	// markFile says that a directory holds the past, and of what. It is written last, so a directory without it is half a copy.
	markFile = "past.json"
	// halfFile is in a directory while the copy is made.
	halfFile = "past.partial"
	// BrokerDir, StateDir and LockFile are where a data directory has its broker, its state, and the lock of who uses it.
	BrokerDir, StateDir, LockFile = "broker", "state", "LOCK"
)

// Mark is what a copy is about.
type Mark struct {
	Namespace string         `json:"namespace"`
	At        events.Instant `json:"at"`
	// Ends are the offsets at which the partitions of events end.
	Ends []int64 `json:"ends"`
	// Hashes are the hashes of their states.
	Hashes []events.Hash `json:"hashes"`
	Facts  int64         `json:"facts"`
	// Folded is how many of the facts were folded to make the states, and Checkpoint the checkpoint that had folded the others; empty if all were folded.
	Folded     int64  `json:"folded"`
	Checkpoint string `json:"checkpoint,omitempty"`
}

// Open returns what a directory is about; nil if it holds no copy of the past. A copy that was broken off is an error.
func Open(dir string) (*Mark, error) {
	if _, err := os.Stat(filepath.Join(dir, halfFile)); err == nil {
		return nil, fmt.Errorf("%s is half a copy of the past: repeat `sagalog replay` with the same --to", dir)
	}
	b, err := os.ReadFile(filepath.Join(dir, markFile))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &Mark{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; make the copy again", filepath.Join(dir, markFile), err)
	}
	return m, nil
}

// Config says what to copy, and where.
type Config struct {
	Cluster   *kafka.Cluster
	Namespace string
	Moment    Moment
	// Dir is the data directory to make. It must not exist, be empty, or hold a copy that was broken off, which is made again.
	Dir string
	// Task, unless empty, is the only task that is asked for: only its partition is copied, and no dead letters. If it waits for a permit, all partitions are copied: the
	// limit and the tasks that hold its permits may be in any.
	Task string
	// Checkpoints are directories of checkpoints of the namespace, or checkpoints. The fold begins with the one in them that is nearest to the moment and not behind it.
	Checkpoints []string
	// Warn is called with a sentence for each checkpoint that is passed over, and if none is of use; nil: not.
	Warn func(string)
	// Progress is called with how many facts were copied or folded, and with how many there are; nil: not.
	Progress func(done, of int64)
}

// ErrOccupied says that the directory holds something else.
var ErrOccupied = errors.New("the directory is not empty")

// errWaits says that the task that is asked for waits for a permit.
var errWaits = errors.New("the task waits for a permit, so the other partitions are needed")

// Copy makes the copy, and returns what it is about.
func Copy(ctx context.Context, cfg Config) (*Mark, error) {
	c := copying{Config: cfg, topics: kafka.Topics{Namespace: cfg.Namespace}}
	m, err := c.copy(ctx)
	if errors.Is(err, errWaits) {
		all := copying{Config: cfg, topics: c.topics, whole: true}
		m, err = all.copy(ctx)
	}
	return m, err
}

func (c *copying) copy(ctx context.Context) (*Mark, error) {
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	unlock, err := c.begin()
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{c.create, c.importAll, c.fold} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, unlock())
		}
	}
	return &c.mark, c.end(unlock)
}

type copying struct {
	Config
	topics     kafka.Topics
	id         string
	partitions int32
	// whole says that all partitions are copied, although one task is asked for.
	whole bool
	cut   Cut
	// keys are the records of the keys that were not erased; nil without any.
	keys []events.Record
	// below is what was deleted from the logs in the middle of a batch.
	below kafka.Offsets
	mark  Mark
	done  atomic.Int64
}

func (c *copying) resolve(ctx context.Context) (err error) {
	if c.id, c.partitions, err = Namespace(ctx, c.Cluster, c.Namespace); err != nil {
		return err
	}
	if c.cut, err = Resolve(ctx, c.Cluster, c.topics, c.partitions, c.Moment); err != nil {
		return err
	}
	if c.Task != "" && !c.whole {
		c.narrow()
	}
	c.mark = Mark{Namespace: c.Namespace, At: c.cut.Time, Hashes: make([]events.Hash, c.partitions)}
	for p := range c.partitions {
		end := c.cut.Ends[c.topics.Events()][p]
		c.mark.Ends = append(c.mark.Ends, end)
		c.mark.Facts += end - c.cut.Begins[c.topics.Events()][p]
	}
	if c.cut.Ends[c.topics.Definitions()][0] == 0 {
		return fmt.Errorf("namespace %s did not exist at %s: ask for a later moment", c.Namespace, c.cut.Time)
	}
	return c.readKeys(ctx)
}

// narrow leaves out what a task does not need: everything about it is in its partition, and the definitions.
func (c *copying) narrow() {
	home := events.Home(c.Task, c.partitions)
	for topic, ends := range c.cut.Ends {
		for p := range ends {
			if topic != c.topics.Definitions() && (topic != c.topics.Events() || p != home) {
				c.cut.Begins[topic][p], ends[p] = 0, 0
			}
		}
	}
}

// readKeys reads the keys of encrypted content as they are now, without those that were erased and are still in the topic. If the topic
// may not be read, encrypted content stays encrypted in the copy.
func (c *copying) readKeys(ctx context.Context) error {
	of := kafka.Partitions{c.topics.Keys(): {0}}
	begins, err := c.Cluster.StartOffsets(ctx, of)
	if errors.Is(err, kafka.ErrUnknownTopic) || errors.As(err, new(*kafka.DeniedError)) {
		return nil
	}
	if err != nil {
		return err
	}
	last := map[string]events.Record{}
	err = c.Cluster.ReadRange(ctx, c.topics.Keys(), 0, begins[c.topics.Keys()][0], -1, func(r events.Record) error {
		if !r.Control {
			last[string(r.Key)] = r
		}
		return nil
	})
	if errors.As(err, new(*kafka.DeniedError)) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		id, isKey := strings.CutPrefix(key, "key/")
		if _, erased := last["erased/"+id]; len(last[key].Value) > 0 && !(isKey && erased) {
			c.keys = append(c.keys, last[key])
		}
	}
	return err
}

// begin makes the directory, or empties one that holds half a copy, and locks it until the copy ends.
func (c *copying) begin() (unlock func() error, err error) {
	list, err := os.ReadDir(c.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && len(list) == 0:
	case err != nil:
		return nil, err
	case !slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == halfFile }):
		return nil, fmt.Errorf("%w: %s: give a directory that does not exist", ErrOccupied, c.Dir)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	if unlock, err = embedded.Lock(filepath.Join(c.Dir, halfFile)); err != nil {
		return nil, err
	}
	for _, name := range []string{markFile, BrokerDir, StateDir} {
		if err := os.RemoveAll(filepath.Join(c.Dir, name)); err != nil {
			return nil, errors.Join(err, unlock())
		}
	}
	return unlock, nil
}

// broker runs the broker of the directory while do runs.
func (c *copying) broker(do func(*kafka.Cluster) error) (err error) {
	b, err := embedded.Open(embedded.Config{Dir: filepath.Join(c.Dir, BrokerDir), LockFile: filepath.Join(c.Dir, LockFile), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	cluster, err := kafka.Connect(b.ClusterConfig())
	if err != nil {
		return err
	}
	defer cluster.Close()
	return do(cluster)
}

// create creates the topics.
func (c *copying) create(ctx context.Context) error {
	specs := c.topics.Base(c.partitions)
	if len(c.keys) > 0 {
		specs = append(specs, c.topics.KeysSpec())
	}
	for i := range specs {
		specs[i].Retention = 0 // nothing is deleted from the past
	}
	err := c.broker(func(target *kafka.Cluster) error {
		if err := kafka.EnsureTopics(ctx, target, specs...); err != nil || len(c.keys) == 0 {
			return err
		}
		p, err := kafka.NewProducer(target)
		if err != nil {
			return err
		}
		defer p.Close()
		for i := range c.keys {
			c.keys[i].Topic, c.keys[i].Partition = c.topics.Keys(), 0
		}
		_, err = p.ProduceSync(ctx, c.keys...)
		return err
	})
	return errors.Join(err, embedded.BeginImport(filepath.Join(c.Dir, BrokerDir)))
}

// importAll copies the logs.
func (c *copying) importAll(ctx context.Context) error {
	c.below = kafka.Offsets{}
	for topic, ends := range c.cut.Ends {
		for p, end := range ends {
			begin := c.cut.Begins[topic][p]
			first, err := c.importLog(ctx, topic, p, begin, end)
			if err != nil {
				return err
			}
			if first < begin {
				if c.below[topic] == nil {
					c.below[topic] = map[int32]int64{}
				}
				c.below[topic][p] = begin
			}
		}
	}
	return nil
}

// importLog copies the records of a partition, and returns the offset of the first batch.
func (c *copying) importLog(ctx context.Context, topic string, p int32, begin, end int64) (first int64, err error) {
	first = begin
	counts := topic == c.topics.Events()
	err = embedded.ImportLog(ctx, filepath.Join(c.Dir, BrokerDir), topic, p, func(yield func(batch.Batch) error) error {
		return kafka.BatchesIn(ctx, c.Cluster, topic, p, begin, end, func(b batch.Batch) error {
			first = min(first, b.First())
			if counts {
				c.Progress(c.done.Add(b.Next()-max(b.First(), begin)), 2*c.mark.Facts)
			}
			return yield(b)
		})
	})
	return first, err
}

// fold folds the copy, so that its readers need not.
func (c *copying) fold(ctx context.Context) error {
	b := bases{
		log: node.CheckpointLog{Cluster: c.Cluster, Namespace: c.Namespace, ID: c.id, Partitions: c.partitions}, dirs: c.Checkpoints,
		begins: c.cut.Begins[c.topics.Events()], ends: c.cut.Ends[c.topics.Events()], warn: c.Warn,
	}
	return c.broker(func(target *kafka.Cluster) error {
		if _, err := kafka.DeleteRecords(ctx, target, c.below); err != nil { // again: they lie in batches that were copied
			return err
		}
		topic, err := target.TopicID(ctx, c.topics.Events())
		if err != nil {
			return err
		}
		copied := c.done.Load()
		return b.fold(ctx, filepath.Join(c.Dir, StateDir), func(store *projector.Store, from string, left int64) error {
			c.done.Store(copied)
			c.mark.Checkpoint, c.mark.Folded = from, left
			return c.foldFrom(ctx, target, store, topic)
		})
	})
}

// foldFrom folds the copy into a store, which may hold a state.
func (c *copying) foldFrom(ctx context.Context, target *kafka.Cluster, store *projector.Store, topic projector.TopicID) error {
	var ranges []node.FoldRange
	for p, end := range c.mark.Ends {
		if err := adopt(store, int32(p), topic); err != nil {
			return err
		}
		ranges = append(ranges, node.FoldRange{Topic: c.topics.Events(), Partition: int32(p), To: end, TopicID: topic})
	}
	if err := node.FoldAll(ctx, target, store, ranges, func(i int, sum events.Hash) {
		c.mark.Hashes[i] = sum
		c.Progress(c.done.Add(c.mark.Ends[i]-c.cut.Begins[c.topics.Events()][int32(i)]), 2*c.mark.Facts)
	}); err != nil {
		return err
	}
	return cmp.Or(carriedWhole(store, c.partitions), c.waits(store))
}

// waits returns errWaits if the partition of the task is not enough to show it.
func (c *copying) waits(store *projector.Store) error {
	if c.Task == "" || c.whole {
		return nil
	}
	t, ok, err := store.Get(events.Home(c.Task, c.partitions), c.Task)
	if err != nil || !ok {
		return err
	}
	for w := range events.WaitingFor(t, c.cut.Time) {
		if w.Kind == events.WaitingConcurrency || w.Kind == events.WaitingLimit {
			return errWaits
		}
	}
	return nil
}

// carriedWhole refuses a moment in the middle of the carry with which a log begins: not all tasks had been carried then.
func carriedWhole(store *projector.Store, partitions int32) error {
	for p := range partitions {
		snap, _, exists, err := store.Partition(p).Snapshot()
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		state, err := events.OpenState(p, snap, store.Partition(p).Loader())
		if err != nil {
			return err
		}
		if state.Partition.Loading() {
			return fmt.Errorf("%w: partition %d begins with a carry, which had not ended then, so tasks would be missing: ask for a later moment", ErrBeforeLog, p)
		}
	}
	return nil
}

// end marks the copy as whole.
func (c *copying) end(unlock func() error) error {
	b, err := json.MarshalIndent(&c.mark, "", "  ")
	if err != nil {
		return errors.Join(err, unlock())
	}
	partial := filepath.Join(c.Dir, markFile+".tmp")
	err = os.WriteFile(partial, append(b, '\n'), 0o600)
	if err == nil {
		err = os.Rename(partial, filepath.Join(c.Dir, markFile))
	}
	if err = errors.Join(err, unlock()); err != nil {
		return err
	}
	return os.Remove(filepath.Join(c.Dir, halfFile))
}
