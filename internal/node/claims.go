package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/kafka"
	"golang.org/x/sync/errgroup"
)

const (
	// claimsEvery is how soon after a heartbeat that names a new owner the log is asked whether that is true.
	claimsEvery = 100 * time.Millisecond
	// claimAgainAfter is how long the log is not asked again about a partition while heartbeats contradict it.
	claimAgainAfter = time.Second
	// claimTail is how many records at the end of a partition are read. They are the owner's, unless a deposed owner has written more
	// after its successor's last ones.
	claimTail = 100
	// claimReads is how many partitions are read at once, and claimWithin bounds each.
	claimReads  = 16
	claimWithin = 2 * time.Second
)

// claims knows which nodes own the partitions that this node's store does not have, by their logs. Only nodes may write there, whereas
// everything that announces itself writes to the topic of the heartbeats: without the log's word, a request goes to nobody.
type claims struct {
	cluster   *kafka.Cluster
	topic     string
	readiness *readiness
	log       *slog.Logger
	denied    toldOnce
	// asked is when the log was last asked about a partition. Owned by look.
	asked map[int32]time.Time

	// mu guards owner, the owner of a partition by its log.
	mu    sync.Mutex
	owner map[int32]string
}

// of returns the owner of a partition by its log, or "" if that is not known.
func (c *claims) of(partition int32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner[partition]
}

// look asks the logs of the partitions that nodes claim in their heartbeats and that by their logs are not theirs.
func (c *claims) look(ctx context.Context) {
	var g errgroup.Group // a partition whose leader is away does not hold up the others
	g.SetLimit(claimReads)
	for p := range c.readiness.ns.partitions {
		if time.Since(c.asked[p]) < claimAgainAfter || c.readiness.here(p) || !c.readiness.liveness.claimedByOther(p, c.of(p)) {
			continue
		}
		c.asked[p] = time.Now()
		g.Go(func() error {
			owner, err := c.read(ctx, p)
			c.denied.tell(c.log, "this node cannot find out who owns the partitions, so it passes no requests on", err)
			if err == nil { // otherwise a later look asks again
				c.mu.Lock()
				c.owner[p] = owner
				c.mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait()
}

// read returns the owner that the end of a partition names.
func (c *claims) read(ctx context.Context, partition int32) (owner string, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	start, err := c.cluster.StartOffset(ctx, c.topic, partition)
	if err != nil {
		return "", err
	}
	end, err := c.cluster.EndOffset(ctx, c.topic, partition)
	if err != nil {
		return "", err
	}
	var epoch events.Epoch
	err = c.cluster.ReadRange(ctx, c.topic, partition, max(start, end-claimTail), end, func(r events.Record) error {
		f, err := events.DecodeFact(&r)
		switch {
		case err != nil:
			return nil // it is not an owner's
		case f.Epoch.N > epoch.N: // a claim that was not valid has no later fact
			epoch, owner = f.Epoch, ownerOf(&r)
		default:
			if b, ok := f.Body.(*events.PartitionClaimed); ok && (epoch.ID == "" || b.Prev == epoch.ID) {
				epoch, owner = events.Epoch{N: epoch.N + 1, ID: b.ID}, b.Owner
			}
		}
		return nil
	})
	return owner, err
}
