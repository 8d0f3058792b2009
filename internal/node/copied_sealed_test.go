package node_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/agent"
	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/internal/sealing"
)

// secretWord is in all contents, and must be in no topic.
const secretWord = "QUICKSILVER"

// seals makes a key with which the nodes and crews of a world seal.
func (w *world) seals() {
	path := filepath.Join(w.t.TempDir(), "seal.key")
	require.NoError(w.t, os.WriteFile(path, []byte(sealing.NewKey()), 0o600))
	var err error
	w.keyFile, err = sealing.OpenKeyFile(path, slog.New(slog.DiscardHandler))
	require.NoError(w.t, err)
}

// keys opens the keys of the world's namespace; nil if nothing is sealed.
func (w *world) keys(c *kafka.Cluster) *sealing.Keys {
	if w.keyFile == nil {
		return nil
	}
	k, err := sealing.Open(context.Background(), c, w.topics.Namespace, w.keyFile, w.logs.logger())
	require.NoError(w.t, err)
	return k
}

func (w *world) agentKeys(c *kafka.Cluster) agent.Keys {
	if k := w.keys(c); k != nil {
		return k
	}
	return nil
}

// sealedSubmission is a submission as the API seals it.
func sealedSubmission(t *testing.T, k *sealing.Keys, workflow, subject, id string) events.Record {
	input, err := k.SealInput(t.Context(), subject, id, []byte(`{"word":"`+secretWord+` `+id+`"}`))
	require.NoError(t, err)
	value, err := json.Marshal(map[string]any{"id": id, "workflow": workflow, "labels": map[string]string{"subject": subject}, "input": json.RawMessage(input)})
	require.NoError(t, err)
	return events.Record{Key: []byte(id), Value: value}
}

// inputsSeen are the inputs that a crew saw.
type inputsSeen struct {
	mu  sync.Mutex
	all []string
}

func (s *inputsSeen) add(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, _ := ctx.Value(inputKey{}).(input)
	s.all = append(s.all, in.ID)
}

// leaks returns the topics of the brokers that hold the word.
func (w *world) leaks() (list []string) {
	names, err := w.cluster.ListTopics(w.t.Context(), "")
	require.NoError(w.t, err)
	for _, name := range names {
		n, err := w.cluster.Partitions(w.t.Context(), name)
		require.NoError(w.t, err)
		for p := range n {
			for _, r := range w.read(name, p) {
				if strings.Contains(string(r.Value), secretWord) {
					list = append(list, name)
				}
			}
		}
	}
	return list
}

const sealedVisit = `
workflow: visit
defaults: {complete_within: 10m, retry: {attempts: 1, then: park}}
steps:
  check: {agent: stock, with: {id: "${ input.word + ' checked' }"}}
  send: {needs: [check], agent: carrier, with: {id: "${ input.word + ' ' + steps.check.output.did }"}}
output: "${ input.word }"
`

const sealedBack = `
workflow: back
steps:
  book: {agent: bank, with: {id: "${ input.word }"}, undo: {with: {id: "${ input.word + ' undone' }"}, complete_within: 10m}}
  send: {needs: [book], agent: mail, with: {id: "${ input.word }"}, retry: {attempts: 1, then: undo}}
`

// An encrypted namespace goes on under another name and with another number of partitions, copied from its log, and from a checkpoint after the
// log was lost: contents open there, running steps and undos are asked for again, an erasure holds, and nothing is in clear text anywhere.
func TestAnEncryptedNamespaceIsCopied(t *testing.T) {
	bubble(t, func(t *testing.T) { copyEncrypted(t, false) })
}

func TestAnEncryptedNamespaceIsRestored(t *testing.T) {
	bubble(t, func(t *testing.T) { copyEncrypted(t, true) })
}

func copyEncrypted(t *testing.T, lost bool) {
	w, dir := setup(t, 2), t.TempDir()
	w.seals()
	var keys *sealing.Keys
	n := w.node(dir, func(c *node.Config) { c.Checkpoints.Dir, keys = dir+"/checkpoints", c.Keys })
	first := w.stuckSealed(n, keys)
	var checkpoints []string
	if lost {
		<-time.After(2 * time.Second) // the store has what the log has
		d, err := n.Checkpoints().MakeCheckpoint(t.Context(), "last")
		require.NoError(t, err)
		checkpoints = []string{d.Path}
	}
	require.NoError(t, n.stop())
	first.net.cut()
	first.leave()
	ended := []string{"v-1", "v-2", "b-1"}
	if !lost {
		w.produce(w.topics.Submissions(), -1, sealedSubmission(t, keys, "visit", "c-17", "late"))
		ended = append(ended, "late")
	}
	require.Empty(t, w.leaks())
	if lost {
		require.NoError(t, w.broker.Close())
	}

	half, to := setup(t, 5), setup(t, 5)
	to.keyFile, to.topics, w.keyFile = w.keyFile, kafka.Topics{Namespace: "clinic"}, nil
	_, err := w.copyTo(half, checkpoints...)
	require.ErrorContains(t, err, `task "b-1", step "book" is being undone`)
	require.ErrorContains(t, err, "needs the key file of the nodes: give --seal-key-file")
	w.keyFile = to.keyFile
	r, err := w.copyTo(to, checkpoints...)
	require.NoError(t, err)
	require.Equal(t, [3]int64{3, 3, 2}, [3]int64{r.Tasks, r.Work, int64(r.Keys)})

	fresh := t.TempDir()
	m := to.node(fresh, func(c *node.Config) { keys = c.Keys })
	var saw inputsSeen
	second := to.hire(func(ctx context.Context, _ agent.Attempt) error { saw.add(ctx); return nil })
	to.watch.ended(ended...)
	require.Equal(t, events.TaskStateUndone, to.watch.task("b-1").State)
	for _, text := range []string{"v-1 check", "v-2 check", "b-1 undone"} {
		require.Contains(t, saw.all, secretWord+" "+text)
	}
	require.Equal(t, first.of("b-1", "book", events.Undo)[0].IdempotencyKey, second.of("b-1", "book", events.Undo)[0].IdempotencyKey)
	to.eraseSealed(keys)
	require.NoError(t, m.stop())
	require.Empty(t, to.leaks())
	to.watch.verify()
	to.proveCopied()
	to.proveHashes(fresh)
}

// stuckSealed starts three sealed tasks, two of which stay at a step, and one at an undo.
func (w *world) stuckSealed(n *process, keys *sealing.Keys) *crew {
	w.apply(n, sealedVisit)
	w.apply(n, sealedBack)
	c := w.hire(func(ctx context.Context, a agent.Attempt) error {
		if a.Agent == "mail" {
			return errRefused
		}
		if a.Agent == "carrier" || a.Operation == events.Undo {
			<-ctx.Done()
		}
		return nil
	})
	w.produce(w.topics.Submissions(), -1, sealedSubmission(w.t, keys, "visit", "c-17", "v-1"), sealedSubmission(w.t, keys, "visit", "c-18", "v-2"), sealedSubmission(w.t, keys, "back", "c-18", "b-1"))
	w.watch.await("two steps and an undo are under way", func() bool {
		undoing := w.watch.task("b-1")
		return len(c.all()) == 7 && undoing != nil && undoing.State == events.TaskStateUndoing
	})
	return c
}

// eraseSealed erases one subject of a copy: nobody opens its content any more. The content of others opens, and new ones are sealed.
func (w *world) eraseSealed(keys *sealing.Keys) {
	topic := sealing.NewTopic(w.cluster, w.topics.Namespace, w.logs.logger())
	defer topic.Close()
	n, err := topic.Erase(w.t.Context(), "c-17", events.At(time.Now()))
	require.NoError(w.t, err)
	require.Equal(w.t, 1, n)
	again := w.keys(w.cluster)
	_, err = again.Open(w.watch.task("v-1").Output)
	require.ErrorContains(w.t, err, "was erased on")
	output, err := again.Open(w.watch.task("v-2").Output)
	require.NoError(w.t, err)
	require.Equal(w.t, `"`+secretWord+` v-2"`, string(output))
	w.produce(w.topics.Submissions(), -1, sealedSubmission(w.t, keys, "visit", "c-19", "new"))
	w.watch.ended("new")
}
