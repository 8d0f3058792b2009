package node_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// allowing makes a node of a namespace that allows replies in topics of the shop.
func allowing(c *node.Config) {
	c.Settings = events.DefaultSettings()
	c.Settings.ReplyTopics, c.SettingsSet = "shop.*", []string{"reply_topics"}
}

// asking is a submission whose task is to be answered.
func asking(id, topic, key string) events.Record {
	r := submission(id, map[string]any{"n": 1})
	var body map[string]any
	_ = json.Unmarshal(r.Value, &body)
	body["reply_to"] = topic
	if key != "" {
		body["reply_key"] = key
	}
	r.Value, _ = json.Marshal(body)
	return r
}

// replies reads a topic of two partitions. It returns for each task the states in the order of their sequence, and the IDs.
func (w *world) replies(topic string) (states map[string][]string, ids map[string]int) {
	w.t.Helper()
	states, ids = map[string][]string{}, map[string]int{}
	var all []events.Record
	for p := range int32(2) {
		all = append(all, w.read(topic, p)...)
	}
	slices.SortStableFunc(all, func(a, b events.Record) int {
		return cmp.Compare(a.Header(events.HeaderSequence), b.Header(events.HeaderSequence))
	})
	for _, r := range all {
		if id := r.Header(events.HeaderID); ids[id] == 0 {
			state := strings.TrimPrefix(r.Header(events.HeaderType), events.TypeReplyPrefix)
			task := r.Header(events.HeaderSubject)
			states[task] = append(states[task], state)
		}
		ids[r.Header(events.HeaderID)]++
	}
	return states, ids
}

func (w *world) topic(name string) {
	w.t.Helper()
	require.NoError(w.t, kafka.EnsureTopics(kafkatest.Within(w.t), w.cluster, kafka.TopicSpec{Name: name, Partitions: 2, MaxMessageBytes: kafka.MaxMessageBytes}))
}

// One reply topic does not exist. Tasks that are answered there end like the others, and those of the other topic are answered. The node is
// killed; once the topic exists, its replies come too, each ID at least once and in the order of its task.
func TestAReplyTopicThatDoesNotExistHoldsBackOnlyItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		dir := t.TempDir()
		n := w.node(dir, allowing)
		w.apply(n, order)
		w.hire(nil)
		w.topic("shop.replies")
		list := ids("t", 12)
		for i, id := range list {
			topic := "shop.replies"
			if i%2 == 1 {
				topic = "shop.later"
			}
			r := asking(id, topic, "")
			w.produce(w.topics.Submissions(), -1, r, r) // the second one is a duplicate
		}
		w.produce(w.topics.Submissions(), -1, asking("forbidden", "other", ""))
		w.watch.ended(list...)
		<-time.After(30 * time.Second)
		states, ids := w.replies("shop.replies")
		require.Len(t, states, 6)
		require.Len(t, ids, 18)
		for id, s := range states {
			require.Equal(t, []string{"received", "processing", "processed"}, s, id)
		}
		n.kill()
		n = w.node(dir, allowing)
		<-time.After(30 * time.Second)
		w.topic("shop.later")
		<-time.After(time.Minute)
		states, ids = w.replies("shop.later")
		require.Len(t, states, 6)
		require.Len(t, ids, 18)
		for id, s := range states {
			require.Equal(t, []string{"received", "processing", "processed"}, s, id)
		}
		_, again := w.replies("shop.replies")
		require.Len(t, again, 18, "what was sent again has the same IDs")
		dead := 0
		for p := range w.parts {
			for _, r := range w.read(w.topics.DeadSubmissions(), p) {
				require.Contains(t, string(r.Key), "forbidden")
				dead++
			}
		}
		require.Equal(t, 1, dead)
		w.watch.verify()
		require.NoError(t, n.stop())
	})
}

// All replies to a customer are in the partition that any Kafka producer chooses by that key.
func TestRepliesHaveTheKeyOfTheirSubmission(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := setup(t, 2)
		n := w.node(t.TempDir(), allowing)
		w.apply(n, order)
		w.hire(nil)
		w.topic("shop.replies")
		list := ids("t", 6)
		for _, id := range list {
			w.produce(w.topics.Submissions(), -1, asking(id, "shop.replies", "customer-1"))
		}
		w.watch.ended(list...)
		<-time.After(10 * time.Second)
		a, b := w.read("shop.replies", 0), w.read("shop.replies", 1)
		require.Len(t, append(a, b...), 18)
		require.True(t, len(a) == 0 || len(b) == 0)
		for _, r := range append(a, b...) {
			require.Equal(t, "customer-1", string(r.Key))
			var v events.Reply
			require.NoError(t, json.Unmarshal(r.Value, &v))
			require.Equal(t, r.Header(events.HeaderType), events.TypeReplyPrefix+string(v.State))
		}
		require.NoError(t, n.stop())
	})
}
