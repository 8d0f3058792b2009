package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
	"github.com/sagalog/sagalog/supervisor"
)

// readNamespace reads the first record of a namespace, and says so where there is none.
func readNamespace(ctx context.Context, cluster *kafka.Cluster, name string) (scheduler.Namespace, error) {
	ns, err := node.ReadNamespace(ctx, cluster, name)
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return ns, fmt.Errorf("there is no namespace %q: the log has no topic %s (--namespace)", name, kafka.Topics{Namespace: name}.Definitions())
	}
	return ns, err
}

// verifyLog is the cluster as verify reads it.
type verifyLog struct{ cluster *kafka.Cluster }

// Bounds implements verify.Log.
func (l verifyLog) Bounds(ctx context.Context, topic string) ([]verify.Bounds, error) {
	n, err := l.cluster.Partitions(ctx, topic)
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return nil, nil
	}
	if err != nil || n == 0 {
		return nil, err
	}
	of := kafka.Partitions{}
	for p := range n {
		of[topic] = append(of[topic], p)
	}
	starts, err := l.cluster.StartOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	ends, err := l.cluster.EndOffsets(ctx, of)
	if err != nil {
		return nil, err
	}
	list := make([]verify.Bounds, n)
	for p := range n {
		list[p] = verify.Bounds{Start: starts[topic][p], End: ends[topic][p]}
	}
	return list, nil
}

// Read implements verify.Log.
func (l verifyLog) Read(ctx context.Context, s verify.Span, yield func(events.Record) error) error {
	if s.From >= s.To {
		return nil
	}
	if !s.Committed {
		return l.cluster.ReadRange(ctx, s.Topic, s.Partition, s.From, s.To, yield)
	}
	r, err := kafka.NewReader(l.cluster, kafka.ReaderConfig{ReadCommitted: true, MaxWait: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer r.Close()
	r.Add(s.Topic, s.Partition, s.From, -1)
	for at := s.From; at < s.To; {
		fetches, err := r.Poll(ctx)
		if err != nil {
			return err
		}
		for _, f := range fetches {
			for _, rec := range f.Records {
				if rec.Offset >= s.To {
					return nil
				}
				if err := yield(rec); err != nil {
					return err
				}
			}
			at = max(at, f.Next)
			if f.Err == nil {
				continue
			}
			if at, err = passTooLarge(f, at, yield); err != nil {
				return err
			}
			r.Add(s.Topic, s.Partition, at, -1)
		}
	}
	return nil
}

// passTooLarge passes a batch that unpacks to too much, as the owner does: each of its records is one without bytes.
func passTooLarge(f kafka.Fetch, at int64, yield func(events.Record) error) (int64, error) {
	var large *kafka.TooLargeError
	if !errors.As(f.Err, &large) {
		return at, f.Err
	}
	for offset := max(large.Offset, at); offset < large.Next; offset++ {
		r := events.Record{Topic: large.Topic, Partition: large.Partition, Offset: offset, Headers: []events.Header{{Key: supervisor.HeaderUnpacked}}}
		if err := yield(r); err != nil {
			return at, err
		}
	}
	return large.Next, nil
}

// storedAt asks a running node for the states of the partitions that nodes own.
func storedAt(ctx context.Context, url string) ([]verify.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	at := strings.TrimRight(url, "/") + "/v1/partitions"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", at, resp.Status)
	}
	var rows []struct {
		Partition int32        `json:"partition"`
		Owner     string       `json:"owner"`
		Applied   *int64       `json:"applied_offset"`
		Hash      *events.Hash `json:"state_hash"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&rows); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	var list []verify.Stored
	for _, r := range rows {
		if r.Applied != nil && r.Hash != nil {
			list = append(list, verify.Stored{Where: "node " + r.Owner, Partition: r.Partition, Offset: *r.Applied, Hash: *r.Hash})
		}
	}
	return list, nil
}

// shelves keep the folds in a temporary store, so that a long log needs little memory.
type shelves struct {
	dir   string
	store *projector.Store
}

func newShelves(namespaceID string) (*shelves, error) {
	dir, err := os.MkdirTemp("", "sagalog-verify-")
	if err != nil {
		return nil, err
	}
	store, err := projector.Open(dir, projector.Options{Namespace: namespaceID})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &shelves{dir, store}, nil
}

func (s *shelves) close() error { return errors.Join(s.store.Close(), os.RemoveAll(s.dir)) }

func (s *shelves) of(partition int32) verify.Shelf {
	return &shelf{s.store, partition, s.store.Partition(partition).Loader()}
}

// shelf is that of one partition.
type shelf struct {
	store     *projector.Store
	partition int32
	load      events.Loader
}

// Load implements verify.Shelf.
func (s *shelf) Load(id string) (encoding, keys []byte, err error) { return s.load(id) }

// Commit implements verify.Shelf.
func (s *shelf) Commit(d *events.Delta, last *events.Record) error {
	return s.store.Commit(projector.Batch{Deltas: []*events.Delta{d},
		Anchors: map[int32]projector.Anchor{s.partition: projector.AnchorOf(projector.TopicID{}, last)}})
}
