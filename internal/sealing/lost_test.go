package sealing_test

import (
	"context"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/sealing"
	"github.com/stretchr/testify/require"
)

// mark is a mark that all processes of a test see, as nodes see that of their definitions.
type mark struct{ marked bool }

func (m *mark) Marked() bool { return m.marked }

func (m *mark) Mark(context.Context) error {
	m.marked = true
	return nil
}

// guarded is open for a process that may write, as a node.
func (p *place) guarded(t *testing.T, m *mark) *sealing.Keys {
	k := p.open(t)
	k.Guard(m)
	return k
}

// The topic of keys is deleted and made again, empty, while a node runs. It writes back what it has, also what was erased, and a process that starts
// then opens everything that it should.
func TestARunningNodeWritesBackTheKeysThatTheTopicLost(t *testing.T) {
	t.Parallel()
	p, m := newPlace(t), &mark{}
	k := p.guarded(t, m)
	kept, erased := seal(t, k, "c-17", secretInput), seal(t, k, "c-18", secretInput)
	require.True(t, m.marked)
	backup := p.records(t)
	_, err := k.Topic().Erase(t.Context(), "c-18", events.At(time.Now()))
	require.NoError(t, err)
	require.NoError(t, k.Topic().Read(t.Context()))
	kafkatest.DeleteTopic(t, p.broker, "ns.keys")
	kafkatest.Create(t, p.cluster, kafka.Topics{Namespace: "ns"}.KeysSpec())
	producer, err := kafka.NewProducer(p.cluster)
	require.NoError(t, err)
	defer producer.Close()
	_, err = producer.ProduceSync(t.Context(), events.Record{Topic: "ns.keys", Key: backup[1].Key, Value: backup[1].Value}) // a backup of before the erasure
	require.NoError(t, err)

	go func() { _ = k.Run(t.Context()) }()
	starts := func() *sealing.Keys { return p.guarded(t, m) }
	require.Eventually(t, func() bool {
		_, err := starts().Open(kept)
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		list := p.records(t)
		last := list[len(list)-1]
		return string(last.Key) == string(backup[1].Key) && last.Value == nil
	}, time.Minute, 100*time.Millisecond, "the erased key is deleted again")
	_, err = starts().Open(erased)
	require.ErrorContains(t, err, "was erased on")
	require.Contains(t, p.log.String(), "was written into it again")
}

// Before a new key is made, those that were lost are written back.
func TestNoKeyIsMadeBeforeTheLostOnesAreBack(t *testing.T) {
	t.Parallel()
	p, m := newPlace(t), &mark{}
	k := p.guarded(t, m)
	kept := seal(t, k, "c-17", secretInput)
	kafkatest.DeleteTopic(t, p.broker, "ns.keys")
	kafkatest.Create(t, p.cluster, kafka.Topics{Namespace: "ns"}.KeysSpec())
	again := seal(t, k, "c-17", secretInput)
	seal(t, k, "c-18", secretInput)
	a, _ := events.ParseSealed(kept)
	b, _ := events.ParseSealed(again)
	require.Equal(t, a.Key, b.Key, "the subject has its key still")
	require.Len(t, p.records(t), 2)
	require.Equal(t, secretInput, opened(t, p.guarded(t, m), kept))
}

// A process that starts without anything in the topic makes no key if there were some, and decides nothing.
func TestAnEmptyTopicOfKeysOfANamespaceThatHasKeysWaits(t *testing.T) {
	t.Parallel()
	p, m := newPlace(t), &mark{}
	lost := seal(t, p.guarded(t, m), "c-17", secretInput)
	kafkatest.DeleteTopic(t, p.broker, "ns.keys")
	require.ErrorContains(t, p.guarded(t, m).Lost(t.Context()), "Restore the topic")
	kafkatest.Create(t, p.cluster, kafka.Topics{Namespace: "ns"}.KeysSpec())
	for _, k := range []*sealing.Keys{p.guarded(t, m), p.open(t)} {
		_, err := k.Open(lost)
		waits(t, err, "the topic of keys ns.keys is empty")
	}
	_, err := p.guarded(t, m).Seal(t.Context(), "c-18", []byte(`1`))
	require.ErrorContains(t, err, "Restore the topic")
	require.Empty(t, p.records(t))

	_, err = p.guarded(t, &mark{}).Open(lost)
	require.ErrorIs(t, err, sealing.ErrNoKey, "a namespace that never had keys waits for none")
}
