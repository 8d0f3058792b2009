package kafkatest

import (
	"context"
	"fmt"
	"testing"
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
	// Literal says that they are whole names.
	Literal bool
	// Cluster is for operations on the cluster itself.
	Cluster bool
	// Operations have Kafka's names, such as READ, WRITE, DESCRIBE, CREATE, DESCRIBE_CONFIGS, ALL.
	Operations []string
}

// acl is the grant as the admin client takes it, for a user and from everywhere.
func (g Grant) acl(t testing.TB) *kadm.ACLBuilder {
	t.Helper()
	var operations []kadm.ACLOperation
	for _, name := range g.Operations {
		op, err := kmsg.ParseACLOperation(name)
		require.NoError(t, err)
		operations = append(operations, op)
	}
	pattern := kadm.ACLPatternPrefixed
	if g.Literal || g.Cluster {
		pattern = kadm.ACLPatternLiteral
	}
	acl := kadm.NewACLs().ResourcePatternType(pattern).Operations(operations...)
	acl.MaybeTopics(given(g.Topic)...).MaybeGroups(given(g.Group)...).MaybeTransactionalIDs(given(g.Transaction)...)
	if g.Cluster {
		acl.Clusters() // it has one name
	}
	return acl
}

// Allow grants permissions to a user, on a cluster with ACLs, and returns when the broker that answers knows them.
func (r *Real) Allow(user string, grants ...Grant) {
	r.t.Helper()
	admin := r.admin()
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	for _, g := range grants {
		results, err := admin.CreateACLs(ctx, g.acl(r.t).Allow("User:"+user))
		require.NoError(r.t, err)
		for _, result := range results {
			require.NoError(r.t, result.Err, result.ErrMessage)
		}
		r.awaitACLs(ctx, admin, g.of(r.t, user), func(n int) bool { return n >= len(results) })
	}
}

// Forbid takes grants away again, and returns when the broker knows that. For clusters with one broker.
func (r *Real) Forbid(user string, grants ...Grant) {
	r.t.Helper()
	admin := r.admin()
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	for _, g := range grants {
		_, err := admin.DeleteACLs(ctx, g.of(r.t, user))
		require.NoError(r.t, err)
		r.awaitACLs(ctx, admin, g.of(r.t, user), func(n int) bool { return n == 0 })
	}
}

// of is the filter that finds a user's grant.
func (g Grant) of(t testing.TB, user string) *kadm.ACLBuilder {
	return g.acl(t).Allow("User:" + user).AllowHosts() // from anywhere
}

// awaitACLs waits until the number of lines that a filter finds is as wanted.
func (r *Real) awaitACLs(ctx context.Context, admin *kadm.Client, filter *kadm.ACLBuilder, wanted func(int) bool) {
	r.t.Helper()
	for {
		found, err := admin.DescribeACLs(ctx, filter)
		require.NoError(r.t, err)
		n := 0
		for _, f := range found {
			require.NoError(r.t, f.Err)
			n += len(f.Described)
		}
		if wanted(n) {
			return
		}
		pause.For(ctx, time.Millisecond)
	}
}

// AddUser makes a user who authenticates by SCRAM-SHA-512, on a cluster with SASL.
func (r *Real) AddUser(name string) {
	r.t.Helper()
	admin := r.admin()
	defer admin.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	r.passwords[name] = name + "-secret"
	made, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: name, Mechanism: kadm.ScramSha512, Iterations: scramIterations, Password: r.passwords[name]}})
	require.NoError(r.t, err)
	require.NoError(r.t, made.Error())
}

// scramIterations is the least that brokers accept.
const scramIterations = 4096

func given(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}
