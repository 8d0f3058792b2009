package kafkatest

import (
	"context"
	"fmt"
	"time"

	"github.com/sagalog/sagalog/internal/pause"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// syncPoll is how often AwaitInSync asks. A replica catches up within seconds.
const syncPoll = 100 * time.Millisecond

// admin is AdminUser's client.
func (r *Real) admin() *kadm.Client {
	r.t.Helper()
	return kadm.NewClient(Client(r.t, r, kgo.MetadataMinAge(syncPoll)))
}

// AwaitInSync returns when all replicas of all partitions are in sync, so that the next broker may stop. It may be called from any goroutine.
func (r *Real) AwaitInSync() {
	r.t.Helper()
	admin := r.admin()
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), realWait)
	defer cancel()
	for {
		behind := "nothing is known"
		// With authorized operations requested, the client asks a broker instead of its cache.
		topics, err := admin.ListTopicsWithInternal(kadm.WithAuthorizedOps(ctx))
		if err == nil {
			behind = ""
		}
		topics.EachPartition(func(p kadm.PartitionDetail) {
			if len(p.ISR) < len(p.Replicas) || p.Leader < 0 {
				behind = fmt.Sprintf("%s/%d is led by %d and has %v of %v", p.Topic, p.Partition, p.Leader, p.ISR, p.Replicas)
			}
		})
		if behind == "" {
			return
		}
		if !pause.For(ctx, syncPoll) {
			r.t.Errorf("the copies do not catch up: %s %v", behind, err)
			return
		}
	}
}

// Grant is a set of permissions. Topic, Group and Transaction are prefixes of names; an empty one grants nothing.
type Grant struct {
	Topic, Group, Transaction string
	// Cluster is for operations on the cluster itself.
	Cluster bool
	// Operations have Kafka's names, such as READ, WRITE, DESCRIBE, CREATE, DESCRIBE_CONFIGS, ALL.
	Operations []string
}

// Allow grants permissions to a user, on a cluster with ACLs. They take effect within moments.
func (r *Real) Allow(user string, grants ...Grant) {
	r.t.Helper()
	admin := r.admin()
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	for _, g := range grants {
		var operations []kadm.ACLOperation
		for _, name := range g.Operations {
			op, err := kmsg.ParseACLOperation(name)
			require.NoError(r.t, err)
			operations = append(operations, op)
		}
		acl := kadm.NewACLs().Allow("User:" + user).ResourcePatternType(kadm.ACLPatternPrefixed).Operations(operations...)
		acl.MaybeTopics(given(g.Topic)...).MaybeGroups(given(g.Group)...).MaybeTransactionalIDs(given(g.Transaction)...)
		if g.Cluster {
			acl.ResourcePatternType(kadm.ACLPatternLiteral).Clusters() // it has one name
		}
		results, err := admin.CreateACLs(ctx, acl)
		require.NoError(r.t, err)
		for _, result := range results {
			require.NoError(r.t, result.Err, result.ErrMessage)
		}
	}
}

func given(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}
