package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// denials are errors that persist until somebody changes a permission or a password.
var denials = []error{
	kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
}

// lostForGood maps the errors that end a membership to our names. It returns nil for all others, which the client overcomes by joining
// again.
func lostForGood(err error) error {
	if errors.Is(err, kerr.FencedInstanceID) {
		return fmt.Errorf("%w: %w", ErrFenced, err)
	}
	if isOneOf(err, denials) {
		return fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return nil
}

// groupHook records why a session with the group ended. The callbacks only say that the partitions are lost.
type groupHook struct{ g *Group }

// OnGroupManageError implements kgo.HookGroupManageError. The client calls it after OnRevoked.
func (h groupHook) OnGroupManageError(err error) { _ = h.g.lose(err) }

// lose records the first error that ends the membership for good, and returns the recorded one. Pass it only errors of the
// client's own session, when we have no later session. The client keeps trying to join, so the caller closes the group.
func (g *Group) lose(err error) error {
	return g.end(lostForGood(g.denied(err, strings.Join(g.cfg.Topics, ", "))))
}

// denied is the function denied for what a member does.
func (g *Group) denied(err error, topic string) error {
	return denied(g.cluster, err, opRead, topic, g.cfg.Group)
}

func (g *Group) end(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.lost == nil {
		g.lost = fmt.Errorf("member %q of group %s: %w", g.cfg.InstanceID, g.cfg.Group, err)
		close(g.over)
	}
	return g.lost
}

// newTopicWait is how long a broker may not yet know the ID of a topic that another one has just created. If the topic
// was really recreated, the client keeps reporting the error, and after this time it is taken seriously.
const newTopicWait = 10 * time.Second

// lostFor looks for such an error in the result of a poll, where the client reports errors of topics.
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

// Watch waits until the membership is lost for good, and returns why: ErrFenced, ErrDenied, ErrRecreated or ErrClosed. It returns nil when
// ctx ends. A session may end for another reason; then the client joins again, and OnRevoked and OnAssigned are called. Poll returns the
// same errors. A group with MembershipOnly is not polled, so it needs Watch. A wrong password is not noticed here, because the client fails
// before it reaches the group; Ping reports it.
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
	// The topics are paused, so a poll returns only errors.
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

// RemoveMember removes a static member from its group, so that the coordinator moves its partitions at once. If the member was
// alive, that costs a hand-over. Removing a member that does not exist is not an error.
func (c *Cluster) RemoveMember(ctx context.Context, group, instanceID string) error {
	if err := retry(ctx, func() error { return c.leave(ctx, group, instanceID, "") }); err != nil {
		return fmt.Errorf("remove member %s of group %s: %w", instanceID, group, denied(c, err, opRead, "", group))
	}
	return nil
}

// Rejoin makes the member ask for its share now instead of at its next heartbeat. Use it after RemoveMember.
func (g *Group) Rejoin() { g.client.ForceRebalance() }

// leave sends a leave request for a static member. With a member ID, Apache Kafka refuses it if the name belongs to another process by now;
// the embedded broker compares only the name.
func (c *Cluster) leave(ctx context.Context, group, instanceID, memberID string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = memberID, &instanceID
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
		return nil // it is already gone
	}
	return err
}

// StaticMembers returns the names of the static members of a group, sorted, or nil if there is no such group. A member that died is
// listed until its session ends or it is removed.
func (c *Cluster) StaticMembers(ctx context.Context, group string) ([]string, error) {
	var resp kadm.DescribedGroups
	err := retry(ctx, func() (err error) {
		if resp, err = c.admin.DescribeGroups(ctx, group); err == nil {
			err = resp[group].Err
		}
		return err
	})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the members of group %s: %w", group, denied(c, fromClient(err), opDescribe, "", group))
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
