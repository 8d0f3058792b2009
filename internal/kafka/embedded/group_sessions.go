package embedded

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sagalog/sagalog/internal/pause"
)

// sessionsEvery is how often a rebalancing group is examined. This adds to the time until a dead member is noticed.
const sessionsEvery = time.Second

// sessions starts the sessions that kfake forgets to start. Apache Kafka counts a member's session from the end of the rebalance in which it
// joined. kfake counts it from its answer to the member. If the connection is gone by then, the
// session never starts: a member that is killed while it joins is assigned its share, and no one reads that share until the group
// rebalances for another reason, perhaps never. So in each new generation one heartbeat is sent for each member. It does not harm
// a live member, and a dead one is removed after a session.
//
// Such a member also delays the next rebalance, perhaps forever: each request to join restarts kfake's time limit for the rebalance, and
// two members whose requests time out in turn never let it end. So in a long rebalance a heartbeat is also sent for each member that has
// not yet asked to join. If all have asked and the rebalance still does not end, kfake has miscounted (it counts a member that is
// removed while it waits for its share as one that waits to join). Then all members are removed; kfake counts again, and they join
// again.
type sessions struct {
	broker *kfake.Cluster
	as     *kafka.Cluster
	// joins wakes run.
	joins chan struct{}

	// mu guards groups, which holds the groups that somebody has joined and that have not been found stable since.
	mu     sync.Mutex
	groups map[string]*joining
}

// joining is our knowledge of a rebalancing group.
type joining struct {
	// asked holds the members that asked to join in this generation, by instance name or member ID.
	asked map[string]bool
	// generation is the generation at the last look, and looks how often it was seen.
	generation int32
	looks      int
	// begun holds the IDs of members for which a heartbeat was sent in this rebalance.
	begun map[string]bool
}

// patientLooks is the number of looks at a rebalance before anything is done: live members join within a heartbeat or two.
const patientLooks = 5

// KeepSessions starts forgotten sessions at a broker that cfg reaches, until stop is called. Call stop before the broker is closed.
func KeepSessions(broker *kfake.Cluster, cfg kafka.ClusterConfig) (stop func(), err error) {
	cfg.Logger = nil // if the broker cannot be reached, its other clients log it
	as, err := kafka.Connect(cfg)
	if err != nil {
		return nil, err
	}
	s := &sessions{broker: broker, as: as, joins: make(chan struct{}, 1), groups: map[string]*joining{}}
	broker.ControlKey(kmsg.JoinGroup.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r := req.(*kmsg.JoinGroupRequest)
		s.joined(r.Group, knownAs(r.MemberID, r.InstanceID))
		return nil, nil, false
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	return func() {
		cancel()
		<-ended
		as.Close()
	}, nil
}

// knownAs is the name of a static member, because the name outlives the ID, or the ID of any other member.
func knownAs(member string, instance *string) string {
	if instance != nil {
		return *instance
	}
	return member
}

func (s *sessions) joined(group, member string) {
	s.mu.Lock()
	g := s.groups[group]
	if g == nil {
		g = &joining{asked: map[string]bool{}, begun: map[string]bool{}}
		s.groups[group] = g
	}
	g.asked[member] = true
	s.mu.Unlock()
	s.look()
}

func (s *sessions) look() {
	select {
	case s.joins <- struct{}{}:
	default:
	}
}

func (s *sessions) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.joins:
		}
		if !pause.For(ctx, sessionsEvery) {
			return
		}
		s.mu.Lock()
		groups := slices.Collect(maps.Keys(s.groups))
		s.mu.Unlock()
		for _, g := range groups {
			s.lookAt(ctx, g)
		}
	}
}

// lookAt begins the sessions that are due, and schedules another look while the group rebalances.
func (s *sessions) lookAt(ctx context.Context, group string) {
	s.mu.Lock()
	g := s.groups[group]
	delete(s.groups, group) // before looking, so that a join from now on causes another look
	s.mu.Unlock()
	info := s.broker.GroupInfo(group)
	if info == nil || len(info.Members) == 0 {
		return
	}
	if info.State == "Stable" {
		if s.begin(ctx, info, func(kfake.GroupMember) bool { return true }) {
			return
		}
	} else if g.rebalances(info.Epoch) {
		s.begin(ctx, info, func(m kfake.GroupMember) bool {
			late := !g.asked[knownAs(m.MemberID, m.InstanceID)] && !g.begun[m.MemberID]
			g.begun[m.MemberID] = g.begun[m.MemberID] || late // once: a second one would restart the session
			return late
		})
		if g.miscounted(info) {
			s.putOut(ctx, info)
			g.looks = 0
		}
	}
	s.mu.Lock()
	if more := s.groups[group]; more != nil {
		maps.Copy(g.asked, more.asked)
	}
	s.groups[group] = g
	s.mu.Unlock()
	s.look()
}

// rebalances records that a group is rebalancing, and returns whether that has lasted long.
func (g *joining) rebalances(generation int32) bool {
	if g.looks == 0 || g.generation != generation {
		if g.looks > 0 {
			clear(g.asked)
		}
		clear(g.begun)
		g.generation, g.looks = generation, 0
	}
	g.looks++
	return g.looks > patientLooks
}

// miscounted reports whether a rebalance goes on although every member has asked to join.
func (g *joining) miscounted(info *kfake.GroupInfo) bool {
	return g.looks > 2*patientLooks && info.State == "PreparingRebalance" &&
		!slices.ContainsFunc(info.Members, func(m kfake.GroupMember) bool { return !g.asked[knownAs(m.MemberID, m.InstanceID)] })
}

// putOut removes all members of a group. The live ones learn of it from the answer to their next request, and join again.
func (s *sessions) putOut(ctx context.Context, info *kfake.GroupInfo) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = info.Group
	for _, m := range info.Members {
		x := kmsg.NewLeaveGroupRequestMember()
		x.MemberID, x.InstanceID = m.MemberID, m.InstanceID
		req.Members = append(req.Members, x)
	}
	_, _ = req.RequestWith(ctx, s.as) // if this fails, the next look tries again
}

// begin begins the sessions of some members, and reports whether all of them have begun.
func (s *sessions) begin(ctx context.Context, info *kfake.GroupInfo, which func(kfake.GroupMember) bool) bool {
	done := true
	for _, m := range info.Members {
		if !which(m) {
			continue
		}
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation, req.InstanceID = info.Group, m.MemberID, info.Epoch, m.InstanceID
		resp, err := req.RequestWith(ctx, s.as)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		done = done && (err == nil || errors.Is(err, kerr.UnknownMemberID))
	}
	return done
}
