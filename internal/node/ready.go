package node

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// settleWait bounds how long a node that starts is unready for a partition that nobody owns. One that stopped with an
// error must not keep every node that is restarted out of service.
const settleWait = 30 * time.Second

// reachWithin is how long this node's own beats may fail to come back before it counts as cut off from the brokers: a
// leader that moves takes less, and a load balancer should not wait much longer.
const reachWithin = 5 * time.Second

// unreached says that the brokers do not answer, nil if they do.
func (n *Node) unreached() error {
	last := n.presence.ownBeat()
	if started := n.startedAt.Time(); last.Before(started) {
		last = started
	}
	if since := time.Since(last); since > reachWithin {
		return fmt.Errorf("the brokers have not answered for %s: nothing is decided here until they do", since.Round(time.Second))
	}
	return nil
}

// Ready returns nil when every partition assigned here is owned and every followed one has caught up, else what is
// missing. A node is not ready before every partition has had an owner somewhere once, or settleWait is over.
func (n *Node) Ready() error {
	var missing []error
	if err := n.unreached(); err != nil {
		missing = append(missing, err)
	}
	everywhere := true
	for p := range n.partitions {
		if err := n.ready(p); err != nil {
			missing = append(missing, err)
		}
		if !n.settled.Load() && !n.owns(p) {
			_, elsewhere := n.presence.ownerOf(p)
			everywhere = everywhere && elsewhere
		}
	}
	switch {
	case n.settled.Load():
	case everywhere, time.Since(n.startedAt.Time()) > settleWait:
		n.settled.Store(true)
	default:
		missing = append(missing, errors.New("not every partition has an owner yet"))
	}
	if found := n.auditFound.Load(); found != nil {
		missing = append(missing, found)
	}
	return errors.Join(missing...)
}

func (n *Node) ready(p int32) error {
	if n.cfg.Alone || n.ownership != nil && n.ownership.isAssigned(p) {
		status, _, err := n.shells[p].Status()
		if err != nil {
			return err
		}
		if status.Phase != phaseOwning {
			return fmt.Errorf("partition %d is %s", p, status.Phase)
		}
		return nil
	}
	switch {
	case n.standby == nil:
	case !n.standby.follows[p].Load():
		return fmt.Errorf("partition %d is not followed: its log cannot be folded here", p)
	case !n.local(p):
		return fmt.Errorf("partition %d is not folded to the end that it had at the start", p)
	}
	return nil
}

// stopped says why this node does not go on with a partition that it is to own, "" where it does or is not to.
func (n *Node) stopped(p int32) string {
	if int(p) >= len(n.shells) || n.ownership == nil || !n.ownership.isAssigned(p) {
		return ""
	}
	_, _, err := n.shells[p].Status()
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("partition %d: ", p)) // who asks knows which
}

// phaseOwning is the phase of an owner that decides in an epoch of its own.
const phaseOwning = "owning"

func (n *Node) owns(p int32) bool {
	if int(p) >= len(n.shells) || n.leaving.Load() {
		return false
	}
	status, _, _ := n.shells[p].Status()
	return status.Phase == phaseOwning
}

// takesOver says that the partition's shell is folding it, about to own it.
func (n *Node) takesOver(p int32) bool {
	if int(p) >= len(n.shells) {
		return false
	}
	switch status, _, _ := n.shells[p].Status(); status.Phase {
	case "loading", "claiming", "resuming":
		return true
	}
	return false
}

func (n *Node) owned() []int32 {
	var list []int32
	for p := range n.partitions {
		if n.owns(p) {
			list = append(list, p)
		}
	}
	return list
}

// local says whether a partition can be read from this node's store: it is owned here, or followed and caught up.
func (n *Node) local(p int32) bool {
	if n.cfg.Alone || n.owns(p) {
		return true
	}
	if n.standby == nil || !n.standby.follows[p].Load() && !n.takesOver(p) {
		return false
	}
	info, err := n.store.PartitionInfo(p)
	return err == nil && info.Next >= n.goals[p]
}
