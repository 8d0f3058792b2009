package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// denials do not mend by themselves: somebody has to change a permission or a password.
var denials = []error{
	kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
}

// lostForGood gives the errors that end a membership our names, and returns nil for all others: the client overcomes
// those by joining again.
func lostForGood(err error) error {
	if errors.Is(err, kerr.FencedInstanceID) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	for _, denial := range denials {
		if errors.Is(err, denial) {
			return fmt.Errorf("%w: %w", ErrDenied, err)
		}
	}
	return nil
}

// groupHook hears why a session with the group ended. Callbacks tell only that the partitions are lost.
type groupHook struct{ g *Group }

// OnGroupManageError implements kgo.HookGroupManageError. The client calls it after OnRevoked.
func (h groupHook) OnGroupManageError(err error) { _ = h.g.lose(err) }

// lose notes the first error that ends the membership for good, and returns the one that is noted. It is for errors of the
// client's own session, in which a name that is another's cannot be our own of a moment later. The client goes on
// asking to be let in, in vain or not: who is told here closes the group.
func (g *Group) lose(err error) error { return g.end(lostForGood(err)) }

func (g *Group) end(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.lost == nil {
		g.lost = fmt.Errorf("member %q of group %s: %w", g.cfg.InstanceID, g.cfg.Group, err)
		close(g.over)
	}
	return g.lost
}

// newTopicWait is how long brokers may know the ID of a topic that was just made from each other's word alone. The client
// meets the error again and again, so whoever was quicker hears of it later.
const newTopicWait = 10 * time.Second

// lostFor looks for such an error among what a poll brought, where those of the topics stand.
func (g *Group) lostFor(polled kgo.Fetches) error {
	polled.EachError(func(topic string, _ int32, err error) {
		if errors.Is(err, kerr.UnknownTopicID) {
			if time.Since(g.opened) > newTopicWait {
				_ = g.end(fmt.Errorf("%w (%s)", ErrRecreated, topic))
			}
			return
		}
		_ = g.lose(err)
	})
	return g.lose(nil)
}

// Watch waits until the membership is lost for good, and returns why: ErrFenced, ErrDenied, or ErrClosed. It returns nil
// when ctx ends. A session that ends for another reason is not the end: the client joins again, and OnRevoked and
// OnAssigned tell of it. For a group that is polled Poll returns the same errors; one with MembershipOnly is not polled,
// and this is how it learns. A wrong password is not noticed here, as nobody gets as far as the group: Ping tells.
func (g *Group) Watch(ctx context.Context) error {
	if !g.cfg.MembershipOnly {
		select {
		case <-g.over:
			return g.lose(nil)
		case <-g.client.Context().Done():
			return fmt.Errorf("watch group %s: %w", g.cfg.Group, ErrClosed)
		case <-ctx.Done():
			return nil
		}
	}
	// Its topics are paused, so that a poll brings errors and nothing else.
	for {
		polled := g.client.PollRecords(ctx, 1)
		if err := g.lostFor(polled); err != nil {
			return err
		}
		if err := pollError(ctx, polled); errors.Is(err, ErrClosed) {
			return fmt.Errorf("watch group %s: %w", g.cfg.Group, ErrClosed)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// RemoveMember takes a static member out of its group, so that the coordinator moves its partitions at once. A wrong
// suspicion costs a hand-over. A member that is not there is no error.
func (c *Cluster) RemoveMember(ctx context.Context, group, instanceID string) error {
	err := again(ctx, func() error {
		resp, err := c.admin.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs(instanceID))
		if err == nil {
			err = resp.Error()
		}
		return err
	})
	if err != nil && !errors.Is(err, kerr.UnknownMemberID) {
		return fmt.Errorf("remove member %s of group %s: %w", instanceID, group, err)
	}
	return nil
}

// Rejoin makes the member ask for its share now, and not at its next heartbeat, after it has taken another out of the group.
func (g *Group) Rejoin() { g.client.ForceRebalance() }

// leave is RemoveMember for a member itself. Apache Kafka refuses it if the name is another's by now; the embedded broker
// looks at the name alone.
func (c *Cluster) leave(ctx context.Context, cfg GroupConfig, memberID string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = cfg.Group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = memberID, &cfg.InstanceID
	req.Members = append(req.Members, m)
	resp, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	for _, m := range resp.Members {
		err = errors.Join(err, kerr.ErrorForCode(m.ErrorCode))
	}
	err = errors.Join(err, kerr.ErrorForCode(resp.ErrorCode))
	if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.FencedInstanceID) {
		return nil // it is gone already
	}
	return err
}

// StaticMembers returns the names of the static members that a group has now, sorted; nil if there is no such group. A
// member that died is among them until its session ends or it is removed.
func (c *Cluster) StaticMembers(ctx context.Context, group string) ([]string, error) {
	var resp kadm.DescribedGroups
	err := again(ctx, func() (err error) {
		if resp, err = c.admin.DescribeGroups(ctx, group); err == nil {
			err = resp[group].Err
		}
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the members of group %s: %w", group, fromClient(err))
	}
	var names []string
	for _, m := range resp[group].Members {
		if m.InstanceID != nil {
			names = append(names, *m.InstanceID)
		}
	}
	slices.Sort(names)
	return names, nil
}
