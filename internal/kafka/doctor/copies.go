package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
)

// Inspect is Audit that also returns a warning, with StatusWarn, about topics with fewer copies than new ones would get. Brokers were added
// after these topics had been created. They are no less safe than before, so they do not stop a start. Without such topics the
// finding is the zero value.
func Inspect(ctx context.Context, c *kafka.Cluster, specs ...kafka.TopicSpec) (Finding, error) {
	a, err := audit(ctx, c, specs)
	if err != nil {
		return Finding{}, err
	}
	if len(a.problems) > 0 {
		return a.fewCopies(), &AuditError{Problems: a.problems}
	}
	return a.fewCopies(), nil
}

// reassignment is the file that Kafka's command for reassignments reads.
type reassignment struct {
	Version    int         `json:"version"`
	Partitions []placement `json:"partitions"`
}

type placement struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
}

// fewCopies returns the warning about the topics in few, with the commands that make the copies.
func (a *auditor) fewCopies() Finding {
	if len(a.few) == 0 {
		return Finding{}
	}
	var topics, names []string
	file := reassignment{Version: 1}
	for _, t := range a.few {
		topics = append(topics, fmt.Sprintf("%s (%d)", t.Topic, kafka.LeastReplicas(t)))
		names = append(names, t.Topic)
		for _, p := range t.Partitions.Sorted() {
			if len(p.Replicas) < a.replication {
				file.Partitions = append(file.Partitions, placement{t.Topic, p.Partition, a.place(p)})
			}
		}
	}
	text, _ := json.Marshal(file) // strings and numbers can always be encoded
	cfg := a.cluster.Config()
	return Finding{
		Check: CheckReplicas, Status: StatusWarn, audited: true,
		What: fmt.Sprintf("there are %d brokers, but these topics have fewer than %d copies, and a record whose only copy is on a lost disk is lost: %s",
			len(a.brokers), a.replication, strings.Join(topics, ", ")),
		Remedy: fmt.Sprintf("run: echo '%s' > copies.json && %s --execute --reassignment-json-file copies.json; repeat the command with --verify instead of --execute until it reports completion, then run: "+
			"for topic in %s; do %s --alter --entity-type topics --entity-name $topic --add-config min.insync.replicas=%d; done",
			text, cfg.Script("kafka-reassign-partitions.sh"), strings.Join(names, " "), cfg.Script("kafka-configs.sh"), kafka.SafeInSync),
	}
}

// place adds brokers to the replicas of a partition. The first replica stays the first, so it keeps the lead. Neighboring partitions get
// different brokers.
func (a *auditor) place(p kadm.PartitionDetail) []int32 {
	replicas, others := slices.Clone(p.Replicas), without(a.brokers, p.Replicas)
	for i := range others {
		if len(replicas) == a.replication {
			break
		}
		replicas = append(replicas, others[(int(p.Partition)+i)%len(others)])
	}
	return replicas
}
