package namespacecopy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

// source is the namespace that is copied: its definitions, and the state of each partition.
type source struct {
	name        string
	ns          scheduler.Namespace
	definitions []events.Record
	// keys are the records of the topic of keys, and keyIDs the keys in them; nil until they are needed.
	keys    []events.Record
	keyIDs  map[string]bool
	catalog *scheduler.Catalog
	stores  []*projector.Store
	parts   []*part
	// log is the place of the log, nil if the copy is made from checkpoints.
	log *Place
}

// tasks are the tasks of a partition.
type tasks interface {
	// Tasks returns the IDs behind one, in the order of their bytes.
	Tasks(after string, limit int) ([]string, error)
}

// part is a partition of the source.
type part struct {
	number int32
	stored tasks
	state  *events.State
}

func (s *source) close() (err error) {
	for _, store := range s.stores {
		err = errors.Join(err, store.Close())
	}
	return err
}

// open opens the source. A namespace is closed; what is opened by then is its last state.
func (c *copying) open(ctx context.Context) (*source, error) {
	s := &source{}
	var err error
	if len(c.Checkpoints) > 0 {
		err = s.readCheckpoints(c.Checkpoints, c.Dir)
	} else {
		s.log, s.name = &c.From, c.From.String()
		err = c.closeLog(ctx, s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// fold reads the log of the source into a store.
func (s *source) fold(ctx context.Context, dir string, say func(format string, args ...any)) error {
	if err := s.readDefinitions(ctx); err != nil {
		return err
	}
	store, err := projector.Open(filepath.Join(dir, "state"), projector.Options{Namespace: s.ns.ID})
	if err != nil {
		return err
	}
	s.stores = append(s.stores, store)
	for n := range s.ns.Partitions {
		stored := store.Partition(n)
		p := &part{number: n, stored: stored, state: events.NewState(n, stored.Loader())}
		s.parts = append(s.parts, p)
		if err := s.foldOn(ctx, p); err != nil {
			return err
		}
		say("partition %d of %d: %d records folded, %d tasks", n+1, s.ns.Partitions, p.state.Next, p.state.Partition.Tasks)
	}
	return nil
}

// foldOn folds what a partition of the log has beyond its state.
func (s *source) foldOn(ctx context.Context, p *part) error {
	topic := s.log.topics().Events()
	err := projector.Fold(ctx, projector.Folding{
		State: p.state, Evict: true,
		Read: func(yield func(events.Record) error) error {
			from := p.state.Next
			if from == 0 {
				var err error
				if from, err = s.log.Cluster.StartOffset(ctx, topic, p.number); err != nil {
					return err
				}
			}
			return s.log.Cluster.LendRange(ctx, topic, p.number, from, -1, yield)
		},
		Commit: func(d *events.Delta, a projector.Anchor) error {
			return s.stores[0].Commit(projector.Batch{Deltas: []*events.Delta{d}, Anchors: map[int32]projector.Anchor{p.number: a}})
		},
	})
	if err != nil {
		return fmt.Errorf("fold topic %s partition %d: %w", topic, p.number, err)
	}
	return nil
}

// readDefinitions reads the definitions of the log.
func (s *source) readDefinitions(ctx context.Context) error {
	topic := s.log.topics().Definitions()
	s.definitions = nil
	err := s.log.Cluster.ReadRange(ctx, topic, 0, 0, -1, func(r events.Record) error {
		s.definitions = append(s.definitions, r)
		return nil
	})
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return fmt.Errorf("namespace %s does not exist: topic %s is missing", s.name, topic)
	}
	if err != nil {
		return err
	}
	return s.define()
}

// define builds the catalog from the definitions.
func (s *source) define() error {
	s.catalog = scheduler.NewCatalog(nil)
	for i := range s.definitions {
		_ = s.catalog.Apply(&s.definitions[i]) // nodes skip it too
	}
	var ok bool
	if s.ns, ok = s.catalog.Namespace(); !ok {
		return fmt.Errorf("namespace %s has no NamespaceCreated in its definitions: it was never created, or is half a copy", s.name)
	}
	if s.ns.Format > events.FormatVersion {
		return fmt.Errorf("namespace %s has format %d: %w", s.name, s.ns.Format, events.ErrReaderTooOld)
	}
	return nil
}

// check refuses a state that cannot be copied now. It changes nothing.
func (s *source) check() error {
	p, err := events.CopiedPartition(s.partitions(), events.CopyTarget{Partitions: 1})
	if err != nil {
		return err
	}
	last := s.definitions[len(s.definitions)-1].Offset
	if known := max(p.SettingsOffset, p.SchedulesOffset, p.LimitsOffset); known > last {
		return fmt.Errorf("the state of namespace %s knows definitions up to offset %d, and those that are given end at offset %d: add a newer checkpoint that a running node made", s.name, known, last)
	}
	return nil
}

// partitions are the entities of the partitions.
func (s *source) partitions() (list []*events.PartitionState) {
	for _, p := range s.parts {
		list = append(list, &p.state.Partition)
	}
	return list
}

// readCheckpoints opens the latest state of each partition.
func (s *source) readCheckpoints(dirs []string, scratch string) error {
	best, keys := map[int32]*part{}, checkpointKeys{}
	for i, dir := range dirs {
		made, err := projector.ReadCheckpoint(projector.OnDisk(), dir)
		if err != nil {
			return err
		}
		definitions, err := made.Definitions(projector.OnDisk(), dir)
		if err != nil {
			return err
		}
		if len(definitions) > len(s.definitions) {
			s.definitions = definitions
		}
		if err := keys.add(&made, dir); err != nil {
			return err
		}
		state := filepath.Join(scratch, fmt.Sprintf("checkpoint-%d", i))
		if err := made.Restore(projector.OnDisk(), dir, state); err != nil {
			return err
		}
		store, err := projector.OpenIntact(state, projector.Options{Namespace: made.NamespaceID})
		if err != nil {
			return fmt.Errorf("open the checkpoint %s: %w", dir, err)
		}
		s.stores = append(s.stores, store)
		if s.ns.ID != "" && s.ns.ID != made.NamespaceID {
			return fmt.Errorf("the checkpoint %s is of namespace %s (ID %s), and another one of ID %s: give those of one namespace", dir, made.Namespace, made.NamespaceID, s.ns.ID)
		}
		s.ns.ID, s.name = made.NamespaceID, made.Namespace
		for _, p := range made.Partitions {
			if b := best[p.Partition]; b == nil || b.state.Next < p.Offset {
				if best[p.Partition], err = openPart(store, p.Partition); err != nil {
					return fmt.Errorf("open the checkpoint %s: %w", dir, err)
				}
			}
		}
	}
	if len(s.definitions) == 0 {
		return fmt.Errorf("the checkpoints %v hold no definitions, as they were made of stopped nodes: add one that a running node made (`sagalog state checkpoint`)", dirs)
	}
	s.keys = keys.records()
	id := s.ns.ID
	if err := s.define(); err != nil {
		return err
	}
	if s.ns.ID != id {
		return fmt.Errorf("the definitions in the checkpoints are of the namespace with ID %s, and their states of that with ID %s", s.ns.ID, id)
	}
	return s.collect(best)
}

// collect refuses checkpoints in which a partition is missing.
func (s *source) collect(best map[int32]*part) error {
	var missing []int32
	for n := range s.ns.Partitions {
		if best[n] == nil {
			missing = append(missing, n)
			continue
		}
		s.parts = append(s.parts, best[n])
	}
	if len(missing) > 0 {
		return fmt.Errorf("the partitions %v are in no checkpoint: add a checkpoint of a node that had them (--from-checkpoint may be given several times)", missing)
	}
	slices.SortFunc(s.parts, func(a, b *part) int { return int(a.number - b.number) })
	return nil
}

func openPart(store *projector.Store, n int32) (*part, error) {
	stored := store.Partition(n)
	p := &part{number: n, stored: stored}
	snap, _, _, err := stored.Snapshot()
	if err != nil {
		return nil, err
	}
	p.state, err = events.OpenState(n, snap, stored.Loader())
	return p, err
}
