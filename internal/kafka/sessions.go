package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionsEvery is how often a group is looked at while it rebalances: it adds to the session of a member that died.
const sessionsEvery = time.Second

// sessions begins the sessions that kfake forgets. Apache Kafka counts a member's session from the end of the rebalance
// that it joined in; kfake from its answer, and if the connection is gone by then, from nothing: one that is killed while it
// joins gets its share and keeps it until the group rebalances for another reason, perhaps for ever, and nobody reads
// that share. So in each new generation one heartbeat is sent for each member. Who lives is not harmed by it, and who
// does not is missed after a session.
//
// Such a member also holds up the next rebalance, and may do so for ever: kfake gives the rebalance its whole time anew with
// each request to join, and two members whose requests time out in turn never let it end. So where a rebalance takes
// long, a heartbeat is sent for those too that have not asked to join in it. And where all have asked and it does not end,
// kfake has miscounted them (it takes a member that is removed while it waits for its share for one that waits to join); then
// all are put out, upon which it counts anew, and they join again.
type sessions struct {
	broker *kfake.Cluster
	as     *Cluster
	// joins wakes run.
	joins chan struct{}

	// mu guards groups, those that were joined and not found stable since.
	mu     sync.Mutex
	groups map[string]*joining
}

// joining is what is known of a group that rebalances.
type joining struct {
	// asked are the members that have asked to join since its generation was another, by instance or member ID.
	asked map[string]bool
	// generation is what it was found in last, so many times.
	generation int32
	looks      int
	// begun are the members, by their IDs, for which a heartbeat was sent in this rebalance.
	begun map[string]bool
}

// patientLooks is for how many looks at a rebalance nothing is done about it: living members join within a heartbeat or two.
const patientLooks = 5

// KeepSessions does so for a broker that cfg reaches, until stop is called, which must be before the broker is closed.
func KeepSessions(broker *kfake.Cluster, cfg ClusterConfig) (stop func(), err error) {
	cfg.Logger = nil // what it cannot reach is the broker's own failure, which others tell of
	as, err := Connect(cfg)
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

// knownAs is by what a member is known: the name of a static one stays when its ID changes.
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
		select {
		case <-ctx.Done():
			return
		case <-time.After(sessionsEvery):
		}
		s.mu.Lock()
		groups := slices.Collect(maps.Keys(s.groups))
		s.mu.Unlock()
		for _, g := range groups {
			s.lookAt(ctx, g)
		}
	}
}

// lookAt begins what sessions of a group are to begin, and sees to it that it is looked at again while it rebalances.
func (s *sessions) lookAt(ctx context.Context, group string) {
	s.mu.Lock()
	g := s.groups[group]
	delete(s.groups, group) // before it is looked at: who joins from now on is looked at again
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
			g.begun[m.MemberID] = g.begun[m.MemberID] || late // once: each more would begin the session anew
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

// rebalances notes that a group does, and tells whether it has for long.
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

// miscounted tells whether a rebalance goes on although every member has asked to join in it.
func (g *joining) miscounted(info *kfake.GroupInfo) bool {
	return g.looks > 2*patientLooks && info.State == "PreparingRebalance" &&
		!slices.ContainsFunc(info.Members, func(m kfake.GroupMember) bool { return !g.asked[knownAs(m.MemberID, m.InstanceID)] })
}

// putOut removes all members of a group. Whoever lives is told when it asks again, and joins anew.
func (s *sessions) putOut(ctx context.Context, info *kfake.GroupInfo) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = info.Group
	for _, m := range info.Members {
		x := kmsg.NewLeaveGroupRequestMember()
		x.MemberID, x.InstanceID = m.MemberID, m.InstanceID
		req.Members = append(req.Members, x)
	}
	_, _ = req.RequestWith(ctx, s.as.client) // if it fails, the next look finds the group as it is
}

// begin begins the sessions of some of a group's members, and tells whether nothing is left to be done.
func (s *sessions) begin(ctx context.Context, info *kfake.GroupInfo, which func(kfake.GroupMember) bool) bool {
	done := true
	for _, m := range info.Members {
		if !which(m) {
			continue
		}
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation, req.InstanceID = info.Group, m.MemberID, info.Epoch, m.InstanceID
		resp, err := req.RequestWith(ctx, s.as.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		done = done && (err == nil || errors.Is(err, kerr.UnknownMemberID))
	}
	return done
}
