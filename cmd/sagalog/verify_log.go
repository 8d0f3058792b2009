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
	"github.com/sagalog/sagalog/internal/cli"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/verify"
	"github.com/sagalog/sagalog/projector"
	"github.com/sagalog/sagalog/scheduler"
)

// readNamespace reads the first record of a namespace. Its error says if there is no namespace.
func readNamespace(ctx context.Context, log interface {
	ReadAt(ctx context.Context, topic string, partition int32, offset int64) (events.Record, error)
}, name string) (scheduler.Namespace, error) {
	ns, err := node.ReadNamespace(ctx, log, name)
	if errors.Is(err, kafka.ErrUnknownTopic) {
		return ns, fmt.Errorf("there is no namespace %q: the log has no topic %s (--namespace)", name, kafka.Topics{Namespace: name}.Definitions())
	}
	return ns, err
}

// storedAt asks a running node for the states of the partitions that nodes own.
func storedAt(ctx context.Context, url, token string) ([]verify.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	at := strings.TrimRight(url, "/") + "/v1/partitions"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
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
	store, err := projector.Open(dir, projector.Options{Namespace: namespaceID, ExitCode: cli.ExitUsage})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &shelves{dir, store}, nil
}

func (s *shelves) close() error { return errors.Join(s.store.Close(), os.RemoveAll(s.dir)) }

func (s *shelves) of(partition int32) verify.Shelf {
	return &shelf{s.store, partition, s.store.Partition(partition).Loader()}
}

// shelf keeps the fold of one partition.
type shelf struct {
	store     *projector.Store
	partition int32
	load      events.Loader
}

// Load implements verify.Shelf.
func (s *shelf) Load(id string) (events.StoredTask, error) { return s.load(id) }

// Commit implements verify.Shelf.
func (s *shelf) Commit(d *events.Delta, last *events.Record) error {
	return s.store.Commit(projector.Batch{Deltas: []*events.Delta{d},
		Anchors: map[int32]projector.Anchor{s.partition: projector.AnchorOf(projector.TopicID{}, last)}})
}
