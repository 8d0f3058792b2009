package node

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/proxy"
	"github.com/sagalog/sagalog/internal/sealing"
)

// ownersWithin bounds how long a starting node is unready because no node owns some partition. A partition that stopped
// with an error must not keep every restarted node out of service.
const ownersWithin = 30 * time.Second

// readiness knows whether this node is ready, and which partitions can be read from its store.
type readiness struct {
	alone      bool
	ns         *namespace
	store      *stateStore
	owners     *owners
	liveness   *liveness
	membership *membership // nil for a node that is alone, or owns nothing
	replica    *replica    // nil for a node that follows nothing
	stalls     *stalls
	claims     *claims
	keys       *sealing.Keys // nil for a node that opens nothing
	// everOwned says that every partition had an owner once.
	everOwned atomic.Bool
}

// Ready returns nil if every partition assigned here is owned and decides about its inputs, and every followed one has caught up, otherwise an error
// that says what is missing. A node is not ready until every partition has had an owner somewhere, or ownersWithin is over.
func (r *readiness) Ready() error {
	var missing []error
	if err := r.liveness.unreached(); err != nil {
		missing = append(missing, err)
	}
	if !r.alone {
		if err := r.liveness.clock(); err != nil {
			missing = append(missing, err)
		}
	}
	if err := r.ns.tooOld(); err != nil {
		missing = append(missing, err)
	}
	if r.membership != nil {
		if err := r.membership.steppedAside(); err != nil {
			missing = append(missing, err)
		}
	}
	if r.keys != nil {
		if err := r.keys.Stale(); err != nil {
			missing = append(missing, err)
		}
	}
	everywhere := true
	for p := range r.ns.partitions {
		if err := r.ready(p); err != nil {
			missing = append(missing, err)
		}
		if !r.everOwned.Load() && !r.owners.owns(p) {
			_, elsewhere := r.liveness.ownerOf(p)
			everywhere = everywhere && elsewhere
		}
	}
	switch {
	case r.everOwned.Load():
	case everywhere, time.Since(r.liveness.started) > ownersWithin:
		r.everOwned.Store(true)
	default:
		missing = append(missing, errors.New("some partition has no owner yet"))
	}
	if found := r.ns.problems.Load(); found != nil {
		missing = append(missing, found)
	}
	return errors.Join(missing...)
}

func (r *readiness) assigned(p int32) bool {
	return r.alone || r.membership != nil && r.membership.isAssigned(p)
}

func (r *readiness) ready(p int32) error {
	if r.assigned(p) {
		status, err := r.owners.shells[p].Status()
		if err != nil {
			return err
		}
		if status.Refused != nil {
			return fmt.Errorf("partition %d decides nothing until max.message.bytes of topic %s is at least %d: %w", p, r.ns.topics.Events(), kafka.MaxMessageBytes, status.Refused)
		}
		if !status.Owning {
			return fmt.Errorf("partition %d is %s", p, status.Phase)
		}
		return r.stalls.of(p)
	}
	switch {
	case r.replica == nil:
	case !r.replica.follows[p].Load():
		return fmt.Errorf("partition %d is not followed: its log cannot be folded here", p)
	case !r.here(p):
		return fmt.Errorf("partition %d is still catching up with its log", p)
	}
	return nil
}

// stopped says why the node to which a partition is assigned has stopped working on it; "" otherwise. Of another node, its heartbeats say so.
func (r *readiness) stopped(p int32) string {
	if r.membership != nil && r.membership.isAssigned(p) {
		if _, err := r.owners.shells[p].Status(); err != nil {
			return withoutPartition(err, p)
		}
		return ""
	}
	node, x := r.liveness.stopped(p)
	if node == "" {
		return ""
	}
	return fmt.Sprintf("%s: %s (node %s)", x.Reason, x.Detail, node)
}

// here says whether a partition can be read from this node's store: it is owned here, or followed and caught up.
func (r *readiness) here(p int32) bool {
	if r.alone || r.owners.owns(p) {
		return true
	}
	if r.replica == nil || !r.replica.follows[p].Load() && !r.owners.takesOver(p) {
		return false
	}
	return r.caughtUp(p)
}

func (r *readiness) caughtUp(p int32) bool { return r.store.Partition(p).Next() >= r.replica.goals[p] }

// stale says whether this node's store has a partition that it does not fold at the moment: the node is about to take the
// partition over, or is giving it up, which takes until the brokers answer the owner's last appends.
func (r *readiness) stale(p int32) bool {
	if r.replica == nil || r.replica.lost[p].Load() {
		return false
	}
	if int(p) < len(r.owners.shells) {
		if _, err := r.owners.shells[p].Status(); err != nil {
			return false
		}
	}
	return r.caughtUp(p)
}

// Route implements proxy.Router. Requests go to the node that owns the partition by its log, at the address in that node's heartbeat, for
// as long as the node is heard and claims the partition.
func (r *readiness) Route(partition int32) proxy.Route {
	if r.here(partition) {
		return proxy.Route{Here: true}
	}
	owner, ok := r.liveness.nodeOf(partition, r.claims.of(partition))
	if !ok || owner.Instance == r.liveness.self { // our own heartbeat may be older than our state
		return proxy.Route{Stopped: r.stopped(partition), Stale: r.stale(partition)}
	}
	return proxy.Route{Node: owner.Instance, Addr: owner.HTTP}
}
