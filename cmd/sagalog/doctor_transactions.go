package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/pause"
)

// openFor is how old a transaction must be before doctor reports it. Most producers let the brokers abort theirs after a minute.
const openFor = time.Minute

// openAgain is how much later doctor looks again. Producers may copy the time of a record from an event, so it alone does not show that a transaction is old.
const openAgain = 3 * time.Second

// transactions finds transactions that producers have left open in the topics of the namespace. It finds nothing if the brokers do not answer; other checks
// report that.
func (l *localCheck) transactions(ctx context.Context, cluster *kafka.Cluster) (list []doctor.Finding) {
	if l.made == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tailWait+openAgain)
	defer cancel()
	topics, of := kafka.Topics{Namespace: l.namespace}, kafka.Partitions{}
	for p := range l.made {
		for _, topic := range []string{topics.Submissions(), topics.Reports(), topics.Events()} {
			of[topic] = append(of[topic], p)
		}
	}
	of[topics.Definitions()] = []int32{0}
	open, _, _ := kafka.OpenTransactions(ctx, cluster, of)
	if len(open) == 0 || !pause.For(ctx, openAgain) {
		return nil
	}
	still, _, _ := kafka.OpenTransactions(ctx, cluster, of)
	for _, x := range open {
		if !slices.Contains(still, x) {
			continue
		}
		begun := kafka.TransactionBegun(ctx, cluster, x)
		if begun == 0 || l.now().Sub(begun.Time()) < openFor {
			continue
		}
		list = append(list, doctor.Finding{Check: checkLog, Status: doctor.StatusFail,
			What:   fmt.Sprintf("a producer left a transaction open in %s/%d at offset %d, at %s: nothing behind it is read", x.Topic, x.Partition, x.Offset, begun),
			Remedy: "abort it: " + x.AbortCommand(cluster.Brokers()) + " (with --command-config FILE on a cluster with authentication)"})
		if len(list) == mostBegins {
			break
		}
	}
	return list
}
