package projector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/sagalog/sagalog/events"
)

// CheckpointManifest is the file that makes a directory a checkpoint. It is written last.
const CheckpointManifest = "checkpoint.json"

const (
	// checkpointFormat is the version of the manifest and of the directory. Any change that an older version would misread raises it.
	checkpointFormat = 1
	// checkpointState is the directory of the database in a checkpoint.
	checkpointState = "state"
	// maxManifestBytes leaves room for a million files; a store of 100 GB has some ten thousand.
	maxManifestBytes = 128 << 20
)

// Checkpoint describes a copy of the store as of an instant.
type Checkpoint struct {
	Format      int    `json:"format"`
	StoreFormat int    `json:"store_format"`
	Namespace   string `json:"namespace,omitempty"`
	NamespaceID string `json:"namespace_id"`
	// TopicID is that of events. It is zero if no record was folded.
	TopicID TopicID `json:"topic_id"`
	// Node is the name of the node that made it, empty for that of a stopped node.
	Node       string                `json:"node"`
	Time       events.Instant        `json:"time"`
	Version    string                `json:"version"`
	Partitions []CheckpointPartition `json:"partitions"`
	Files      []CheckpointFile      `json:"files"`
	// DefinitionsFile holds the records of the topic definitions, which a copy of the namespace needs. A stopped node cannot read them.
	DefinitionsFile CheckpointFile `json:"definitions,omitzero"`
	// KeysFile holds the records of the topic of keys. It is absent if the namespace encrypts nothing, or if the node may not read the topic.
	KeysFile CheckpointFile `json:"keys,omitzero"`
	// Sum is the checksum of the manifest without it.
	Sum string `json:"sum"`
}

// CheckpointPartition is a partition in a checkpoint.
type CheckpointPartition struct {
	Partition int32 `json:"partition"`
	// Offset is that of the first record that is not folded.
	Offset int64       `json:"offset"`
	Hash   events.Hash `json:"hash"`
	Anchor Anchor      `json:"anchor,omitzero"`
}

// CheckpointFile is a file of the database in a checkpoint. Sum is its CRC-32C: it finds damage, not forgery.
type CheckpointFile struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Sum   string `json:"crc32c"`
}

// Bytes is the size of all files.
func (c *Checkpoint) Bytes() (n int64) {
	for _, f := range c.Files {
		n += f.Bytes
	}
	return n
}

// Records is how many records were folded.
func (c *Checkpoint) Records() (n int64) {
	for _, p := range c.Partitions {
		n += p.Offset
	}
	return n
}

// About is what the caller of MakeCheckpoint knows and the store does not.
type About struct {
	Namespace, NamespaceID, Node, Version string
	Time                                  events.Instant
	// Definitions reads the records of the topic definitions, at least as far as the store has seen them; nil: they are left out.
	Definitions ReadRecords
	// Keys reads the records of the topic of keys, like Definitions.
	Keys ReadRecords
}

// ReadRecords calls yield for each record of a topic.
type ReadRecords func(ctx context.Context, yield func(events.Record) error) error

// MakeCheckpoint copies the store, as of now, to dir, which must not exist. Tables are hard links where the file system allows it, so it takes
// little room at first, and more as the store moves on. Commits go on meanwhile. The checkpoint is made beside dir and renamed
// when it is complete and durable: whenever the process dies, dir is a whole checkpoint or does not exist.
func MakeCheckpoint(ctx context.Context, s *Store, dir string, about About) (c Checkpoint, err error) {
	s.sums.mu.Lock() // one at a time
	defer s.sums.mu.Unlock()
	s.open.RLock() // Close waits
	defer s.open.RUnlock()
	if s.closed {
		return c, ErrClosed
	}
	if err := s.Damage(); err != nil { // the copy would be damaged too, with checksums that say that it is whole
		return c, fmt.Errorf("make a checkpoint: %w", err)
	}
	if _, err := s.fs.Stat(dir); err == nil {
		return c, fmt.Errorf("make a checkpoint: %s: %w; give another name", dir, os.ErrExist)
	}
	partial := dir + PartialSuffix
	if err := beginPartial(s.fs, partial); err != nil {
		return c, fmt.Errorf("make a checkpoint: %w", err)
	}
	if c, err = fillCheckpoint(ctx, s, partial, about); err == nil {
		err = publish(s.fs, partial, dir)
	}
	if err != nil {
		return c, errors.Join(fmt.Errorf("make a checkpoint: %w", err), s.fs.RemoveAll(partial))
	}
	_ = s.fs.Remove(s.fs.PathJoin(dir, partialMark)) // the name counts now: the mark does no harm
	return c, nil
}

// fillCheckpoint flushes first: there is no write-ahead log, so what is only in memory would be missing.
func fillCheckpoint(ctx context.Context, s *Store, dir string, about About) (c Checkpoint, err error) {
	state := s.fs.PathJoin(dir, checkpointState)
	if err := s.db.Flush(); err != nil {
		return c, err
	}
	if err := copyTables(s.db, state); err != nil {
		return c, err
	}
	c = Checkpoint{
		Format: checkpointFormat, StoreFormat: formatVersion, Namespace: about.Namespace, NamespaceID: about.NamespaceID,
		Node: about.Node, Version: about.Version, Time: about.Time,
	}
	if c.Partitions, err = checkpointed(s.fs, state); err != nil {
		return c, err
	}
	for _, p := range c.Partitions {
		c.TopicID = cmp.Or(c.TopicID, p.Anchor.TopicID)
	}
	if c.Files, err = s.sums.files(ctx, s.fs, state); err != nil {
		return c, err
	}
	if c.DefinitionsFile, err = writeRecords(ctx, s.fs, dir, checkpointDefinitions, about.Definitions); err != nil {
		return c, fmt.Errorf("copy the definitions: %w", err)
	}
	if c.KeysFile, err = writeRecords(ctx, s.fs, dir, checkpointKeys, about.Keys); err != nil {
		return c, fmt.Errorf("copy the keys: %w", err)
	}
	if c.Sum, err = c.sum(); err != nil {
		return c, err
	}
	return c, writeManifest(s.fs, dir, c)
}

// copyTables returns an error if a directory cannot be synced. Pebble panics then, which would end the node because of a disk that may not even be that
// of its store. By then it holds no lock.
func copyTables(db *pebble.DB, to string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if _, bug := r.(runtime.Error); !ok || bug {
				panic(r)
			}
			err = cause
		}
	}()
	return db.Checkpoint(to)
}

// checkpointed reads the partitions from the copy, since the store has moved on.
func checkpointed(fs FS, dir string) (list []CheckpointPartition, err error) {
	o := Options{FS: fs}.withDefaults()
	p := pebbleOptions(o, newMetrics(), &ending{dir: dir, fs: o.FS, log: o.Logger})
	p.ReadOnly, p.CacheSize = true, 1<<20
	db, err := pebble.Open(dir, p)
	if err != nil {
		return nil, openError(dir, err)
	}
	s := &Store{dir: dir, fs: fs, db: db, damage: newDamage(), partitions: map[int32]*Partition{}}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := s.readPartitions(); err != nil {
		return nil, err
	}
	for _, p := range s.known() {
		if v := p.view.Load(); v.exists {
			list = append(list, CheckpointPartition{Partition: p.number, Offset: v.meta.Next, Hash: v.meta.Sum, Anchor: v.meta.Anchor})
		}
	}
	return list, nil
}

// tableSums are the checksums of the tables of the last checkpoint. Each is read once in the life of a process: a table never changes, and its
// number is not used again.
type tableSums struct {
	// mu is held while a checkpoint is made, and guards of.
	mu sync.Mutex
	of map[string]CheckpointFile
}

func (t *tableSums) files(ctx context.Context, fs FS, dir string) (files []CheckpointFile, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	known := map[string]CheckpointFile{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if name == pebbleLock {
			continue
		}
		file, ok := t.of[name]
		if !ok {
			if file, err = sumFile(fs, dir, name); err != nil {
				return nil, err
			}
		}
		if isTable(name) {
			known[name] = file
		}
		files = append(files, file)
	}
	t.of = known
	return files, nil
}

// pebbleLock is the file by which Pebble locks a database. It is no part of it.
const pebbleLock = "LOCK"

// isTable says whether a file of the database never changes, so that two databases can share it.
func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

func writeManifest(fs FS, dir string, c Checkpoint) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	path := fs.PathJoin(dir, CheckpointManifest)
	f, err := fs.Create(path+PartialSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return publish(fs, path+PartialSuffix, path)
}

// publish gives a file or directory, whose content is durable, its name, durably.
func publish(fs FS, partial, name string) error {
	if err := fs.Rename(partial, name); err != nil {
		return err
	}
	return syncDir(fs, fs.PathDir(name))
}

func syncDir(fs FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadCheckpoint reads the manifest of a checkpoint, and refuses one that this version cannot use. With the error for another format of the
// store it returns what the manifest says. fs is nil for the disk.
func ReadCheckpoint(fs FS, dir string) (c Checkpoint, err error) {
	fs = cmp.Or(fs, vfs.Default)
	refused := func(format string, args ...any) (Checkpoint, error) {
		return Checkpoint{}, fmt.Errorf("%w: %s: %w", ErrCheckpoint, dir, fmt.Errorf(format, args...))
	}
	f, err := fs.Open(fs.PathJoin(dir, CheckpointManifest))
	if errors.Is(err, os.ErrNotExist) {
		return refused("it holds no %s, so it is no checkpoint, or one that was never completed", CheckpointManifest)
	}
	if err != nil {
		return refused("%w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxManifestBytes))
	if err = errors.Join(err, f.Close()); err != nil {
		return refused("%w", err)
	}
	if err := json.Unmarshal(b, &c); err != nil || c.Format == 0 {
		return refused("%s is damaged: it cannot be read (%w)", CheckpointManifest, cmp.Or(err, errors.New("it has no format")))
	}
	if c.Format > checkpointFormat || c.StoreFormat > formatVersion {
		_, err := refused("version %s wrote it in format %d with a store of format %d, and this version reads %d and %d; run the newer version",
			c.Version, c.Format, c.StoreFormat, checkpointFormat, formatVersion)
		return c, err
	}
	if c.StoreFormat < formatVersion {
		_, err := refused("its store has the older format %d, and this version has %d; start without it: the state is folded from the log",
			c.StoreFormat, formatVersion)
		return c, err
	}
	if sum, err := c.sum(); err != nil || sum != c.Sum {
		return refused("%s is damaged: its checksum is wrong", CheckpointManifest)
	}
	return c, nil
}

// sum is the checksum of the manifest.
func (c Checkpoint) sum() (string, error) {
	c.Sum = ""
	b, err := json.Marshal(c)
	return sumText(sumOf(b)), err
}
