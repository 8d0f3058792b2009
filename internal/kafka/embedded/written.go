package embedded

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// written says which files a sync must cover.
type written struct {
	// everything stands for all files of the data directory. The other fields do not matter then.
	everything bool
	// groups stands for the offsets of groups.
	groups bool
	logs   []partition
}

// writtenLogs are the logs that the broker has changed since the last sync began.
//
// The broker carries out one request to produce after another, each at once. So when the next one begins, the one before it is complete, and
// a sync that begins from then on covers it. Of the latest request nothing is known: a reader may already see its records, although its answer is still
// on its way, or it may be about to write them. So its logs stay for the next sync too.
type writtenLogs struct {
	complete map[partition]struct{}
	latest   []partition
}

// add is called before the broker carries out a request to produce to these logs.
func (w *writtenLogs) add(logs []partition) {
	if w.complete == nil {
		w.complete = make(map[partition]struct{})
	}
	for _, at := range w.latest {
		w.complete[at] = struct{}{}
	}
	w.latest = append(w.latest[:0], logs...)
}

// take returns the logs that a sync which begins now must cover. complete says that the latest request is known to be complete too.
func (w *writtenLogs) take(complete bool) []partition {
	for _, at := range w.latest {
		delete(w.complete, at)
	}
	all := slices.AppendSeq(slices.Clone(w.latest), maps.Keys(w.complete))
	clear(w.complete)
	if complete {
		w.latest = w.latest[:0]
	}
	return all
}

// watchRecords observes each request to produce, before the broker carries it out.
func (b *Broker) watchRecords(req kmsg.Request) (kmsg.Response, error, bool) {
	var logs []partition
	for _, t := range req.(*kmsg.ProduceRequest).Topics {
		name := t.Topic
		if name == "" {
			name = b.topicNames.of(b.cfg.Dir, t.TopicID)
		}
		for _, p := range t.Partitions {
			logs = append(logs, partition{name, p.Partition})
		}
	}
	b.commits.produces(logs)
	return nil, nil, false
}

// topicNames are the names of topics by their IDs. A topic that is created again gets another ID. Only the broker's loop uses them.
type topicNames map[[topicIDSize]byte]string

// of returns the name of a topic, or "" if it is not known, for instance because a client refers to a topic that was deleted. Such a request writes
// nothing, but a sync of a log without a name covers everything.
func (n topicNames) of(dir string, id [topicIDSize]byte) string {
	if name, ok := n[id]; ok {
		return name
	}
	topics, err := readTopics(dir)
	if err != nil {
		return ""
	}
	for _, t := range topics {
		n[[topicIDSize]byte(t.ID)] = t.Name
	}
	return n[id]
}
