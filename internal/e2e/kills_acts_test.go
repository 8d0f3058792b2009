package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

// The acts, and how often each is in the deck. In an act named after a point of the crash table, one process kills
// itself at that point.
var acts = map[string]int{
	"owner": 8, "owner, dead for a while": 2, "owner while it starts": 2, "both owners": 1, "owner without its store": 3,
	"owner behind an acknowledgement": 2, "old owner that wakes up": 2,
	"submission-acknowledged": 2, "input-read": 2, "facts-decided": 2, "append-sent": 3, "facts-durable": 3, "committed": 3, "work-sent": 2,
	"misplaced-found": 2, "timeout-decided": 2, "claim-durable": 2,
	"agent": 3, "agent, dead for a while": 1, pointBeforeWork: 3, pointWorked: 3,
	"broker": 5, "broker while it starts": 1, "broker, dead for a while": 1, "broker and owner": 2, "everything": 1,
}

// passes is the maximum number of times that a process passes a point before it dies there. It is 1 for points that are
// rarely reached.
var passes = map[string]int{
	"submission-acknowledged": 4, "input-read": 10, "facts-decided": 20, "append-sent": 20, "facts-durable": 20, "committed": 20, "work-sent": 10,
	pointBeforeWork: 10, pointWorked: 10,
}

// fall is one or more kills from which the system has to recover.
type fall struct {
	what string
	at   time.Time
	// epochs are the epochs that must be over.
	epochs map[int32]string
	// holds says whether the system has recovered in all other respects.
	holds []func() bool
	// disturbed says that something else died during the recovery.
	disturbed bool
}

// act kills, restarts and usually waits until the system has recovered.
func (k *trial) act(name string) {
	k.t.Helper()
	before := k.killed
	for _, f := range k.falls {
		f.disturbed = true
	}
	k.living()
	_ = k.look()
	switch name {
	case "agent", "agent, dead for a while":
		k.agentDies(name, k.agents[k.r.IntN(2)])
	case pointBeforeWork, pointWorked:
		k.agentDiesAt(name, k.agents[k.r.IntN(2)])
	case "broker", "broker while it starts", "broker, dead for a while", "broker and owner", "everything":
		k.brokerDies(name)
	case "both owners":
		k.die(name, k.owners...)
		k.restart(0, k.owners...)
	case "old owner that wakes up":
		k.wakesUp(name, k.owner())
	case "claim-durable":
		k.claimDies(name, k.owner())
	case "owner", "owner, dead for a while", "owner while it starts", "owner without its store", "owner behind an acknowledgement":
		k.ownerDies(name, k.owner())
	default:
		k.ownerDiesAt(name, k.owner())
	}
	k.sums.Kinds[name]++
	k.t.Logf("%4d kills: %s", k.killed, name)
	if k.killed > before && k.r.IntN(4) == 0 && len(k.falls) < 3 {
		after(k.t, time.Duration(k.r.Int64N(int64(500*time.Millisecond)))) // the next act begins while the system recovers
		return
	}
	k.recover()
	k.sums.write(k.t, k.dir)
}

// owner picks a random node that owns partitions.
func (k *trial) owner() *member {
	k.t.Helper()
	var busy []*member
	eventually(k.t, recoverWithin, "a node owns partitions", func() bool {
		busy = nil
		k.living()
		_ = k.look()
		for _, m := range k.owners {
			if m.running() && len(k.log.epochs(m.name)) > 0 {
				busy = append(busy, m)
			}
		}
		return len(busy) > 0
	})
	return busy[k.r.IntN(len(busy))]
}

// pause waits for a random time.
func (k *trial) wait(least, most time.Duration) {
	after(k.t, least+time.Duration(k.r.Int64N(int64(most-least))))
}

// died counts a kill.
func (k *trial) died(of string) {
	k.killed++
	k.sums.Kills++
	k.sums.Of[of]++
}

// fell records that some owners have died, so each of their partitions needs a new epoch.
func (k *trial) fell(what string, owners ...*member) *fall {
	f := &fall{what: what, at: time.Now(), epochs: map[int32]string{}, disturbed: len(k.falls) > 0}
	for _, m := range owners {
		for p, epoch := range k.log.epochs(m.name) {
			f.epochs[p] = epoch
		}
	}
	k.falls = append(k.falls, f)
	return f
}

// die kills owners.
func (k *trial) die(what string, owners ...*member) {
	k.t.Helper()
	k.fell(what, owners...)
	for _, m := range owners {
		m.kill()
		k.died("owner")
		k.t.Logf("      %s died at %s with partitions %v", m.name, time.Now().UTC().Format(clock), slices.Sorted(maps.Keys(k.log.epochs(m.name))))
	}
}

// restart starts nodes again without waiting until they are ready.
func (k *trial) restart(dead time.Duration, nodes ...*member) {
	k.t.Helper()
	after(k.t, dead)
	for _, m := range nodes {
		require.NoError(k.t, removed(m.doom()))
		k.boot(m)
	}
}

// boot starts the process without waiting.
func (k *trial) boot(m *member) {
	k.t.Helper()
	k.booted[m.name] = time.Now()
	m.process = start(k.t, command{name: m.name, dir: m.work, program: m.program, args: m.args, env: m.env, silent: true})
}

func (k *trial) ownerDies(what string, m *member) {
	k.t.Helper()
	dead := time.Duration(0)
	switch what {
	case "owner":
		k.wait(0, 300*time.Millisecond)
		_ = k.look()
	case "owner, dead for a while":
		dead = 3*time.Second + time.Duration(k.r.Int64N(int64(2*time.Second)))
	case "owner behind an acknowledgement":
		_ = k.look()
		<-k.desk.submit(byKafka, 0)
	}
	k.die(what, m)
	if what == "owner without its store" {
		require.NoError(k.t, os.RemoveAll(filepath.Join(m.data, "state")))
	}
	k.restart(dead, m)
	if what == "owner while it starts" {
		k.wait(0, 800*time.Millisecond)
		k.falls[len(k.falls)-1].disturbed = true
		_ = k.look()
		k.die(what, m)
		k.restart(0, m)
	}
}

// aim arranges that a process dies at a point.
func (k *trial) aim(m *member, point string) {
	k.t.Helper()
	n := 1 + k.r.IntN(max(1, passes[point]))
	require.NoError(k.t, os.WriteFile(m.doom()+".new", fmt.Appendf(nil, "%s:%d", point, n), 0o600))
	require.NoError(k.t, os.Rename(m.doom()+".new", m.doom()))
}

// waitDeath says whether the process died in time, from kill -9 and not by a normal exit.
func (k *trial) waitDeath(m *member) bool {
	k.t.Helper()
	select {
	case <-m.ended:
		if m.cmd.ProcessState.ExitCode() >= 0 {
			k.living() // it ended on its own, which is only allowed at a start without a broker
			return false
		}
		return true
	case <-time.After(pointWithin):
		return false
	}
}

// ownerDiesAt makes an owner kill itself at a point of the crash table.
func (k *trial) ownerDiesAt(point string, m *member) {
	k.t.Helper()
	k.aim(m, point)
	if point == "misplaced-found" {
		for p := range k.log.epochs(m.name) {
			k.desk.submit(misplaced, p)
		}
	}
	reached := k.waitDeath(m)
	k.sums.aim(point, reached)
	_ = k.look() // nobody can have taken over in the moment since it died
	k.die(point, m)
	k.restart(0, m)
}

// claimDies kills an owner, and makes it die again as soon as its first claim is durable.
func (k *trial) claimDies(point string, m *member) {
	k.t.Helper()
	k.die(point, m)
	require.NoError(k.t, os.WriteFile(m.doom(), fmt.Appendf(nil, "%s:%d", point, 1+k.r.IntN(3)), 0o600))
	k.boot(m)
	reached := k.waitDeath(m)
	k.sums.aim(point, reached)
	k.falls[len(k.falls)-1].disturbed = true
	_ = k.look()
	k.die(point, m)
	k.restart(0, m)
}

// wakesUp stops an owner in the middle of its appends until the other node has its partitions. Then it resumes the
// owner, and kills it while it discovers that it was deposed.
func (k *trial) wakesUp(what string, m *member) {
	k.t.Helper()
	late := k.log.late()
	k.holdBack(m)
	had := k.log.epochs(m.name)
	require.NoError(k.t, m.cmd.Process.Signal(syscall.SIGSTOP))
	eventually(k.t, recoverWithin, "another node has the stopped owner's partitions", func() bool {
		_ = k.look()
		for p, epoch := range had {
			if k.log.parts[p].epoch() == epoch {
				return false
			}
		}
		return true
	})
	require.NoError(k.t, removed(m.hold()))
	require.NoError(k.t, m.cmd.Process.Signal(syscall.SIGCONT))
	if k.sums.Kinds[what]%2 == 0 {
		eventually(k.t, recoverWithin, "a void fact of the stopped owner lands", func() bool { return k.look() == nil && k.log.late() > late })
	}
	k.wait(0, 300*time.Millisecond)
	_ = k.look()
	k.die(what, m)
	k.sums.aim(what, k.log.late() > late) // whether its facts landed after the claim of the next owner
	k.restart(0, m)
}

// holdBack makes appends of a node wait. A node that has just started may be about to claim, and then the append that
// waits is the claim. In that case the claim is released, and the next appends are held back.
func (k *trial) holdBack(m *member) {
	k.t.Helper()
	var since time.Time
	eventually(k.t, recoverWithin, m.name+" has appends that are held back", func() bool {
		switch {
		case k.look() == nil && m.holdsBack() && !since.IsZero():
			return true
		case since.IsZero():
			require.NoError(k.t, os.WriteFile(m.hold(), nil, 0o600))
			since = time.Now()
		case time.Since(since) > 3*time.Second:
			require.NoError(k.t, removed(m.hold()))
			since = time.Time{}
			after(k.t, time.Second)
		}
		return false
	})
}

// holdsBack says whether appends are waiting for their answer in any partition that the node owns.
func (m *member) holdsBack() bool {
	for _, n := range m.gauges("owner_appends_in_flight") {
		if n > 0 {
			return true
		}
	}
	return false
}

func (k *trial) agentDies(what string, a *crew) {
	k.t.Helper()
	k.wait(0, 300*time.Millisecond)
	a.kill()
	k.agentBack(what, a)
}

// agentDiesAt kills a process of agents when it is about to call a service, or when the service has answered.
func (k *trial) agentDiesAt(point string, a *crew) {
	k.t.Helper()
	victim := a.process
	a.gate.arm(point, 1+k.r.IntN(passes[point]), victim.kill)
	reached := k.waitDeath(a.member)
	a.gate.disarm()
	k.sums.aim(point, reached)
	victim.kill()
	k.agentBack(point, a)
}

func (k *trial) agentBack(what string, a *crew) {
	k.t.Helper()
	k.died("agent")
	f := k.fell(what)
	dead := time.Duration(0)
	if what == "agent, dead for a while" {
		dead = time.Second + time.Duration(k.r.Int64N(int64(4*time.Second)))
	}
	k.restart(dead, a.member)
	began := time.Now()
	f.holds = append(f.holds, func() bool { return a.gate.calledSince(began) })
}

// brokerDies kills the broker, alone or with others.
func (k *trial) brokerDies(what string) {
	k.t.Helper()
	k.wait(0, 300*time.Millisecond)
	m := k.owner()
	f := k.fell(what)
	down := time.Now()
	k.broker.kill()
	k.died("broker")
	switch what {
	case "broker and owner":
		k.die(what, m)
		k.restart(0, m)
	case "everything":
		k.die(what, k.owners...)
		for _, a := range k.agents {
			a.kill()
			k.died("agent")
			k.restart(0, a.member)
		}
		k.restart(0, k.owners...)
	case "broker, dead for a while":
		k.wait(time.Second, 4*time.Second)
	}
	k.broker.launch()
	if what == "broker while it starts" {
		k.wait(0, 200*time.Millisecond)
		k.broker.kill()
		k.died("broker")
		k.broker.launch()
	}
	k.broker.ready()
	began := time.Now()
	k.outages = append(k.outages, outage{down, began})
	f.holds = append(f.holds, func() bool { return k.factSince(began) }, k.ready)
}

// factSince says whether the log has a fact after the given time.
func (k *trial) factSince(t time.Time) bool {
	for _, p := range k.log.parts {
		if at, err := time.Parse(time.RFC3339, p.at); err == nil && at.After(t) {
			return true
		}
	}
	return false
}

// ready says whether each owner reports that it is ready.
func (k *trial) ready() bool {
	for _, m := range k.owners {
		if status, _, err := m.try("GET", "/readyz", nil); err != nil || status != 200 {
			return false
		}
	}
	return true
}

// recover waits until the system has recovered from all falls.
func (k *trial) recover() {
	k.t.Helper()
	deadline := time.Now().Add(recoverWithin)
	for len(k.falls) > 0 {
		_ = k.look()
		k.living()
		var left []*fall
		for _, f := range k.falls {
			if !k.hasRecovered(f) {
				left = append(left, f)
				continue
			}
			what := f.what
			if f.disturbed {
				what = disturbed
			}
			k.sums.recovered(what, time.Since(f.at))
		}
		k.falls = left
		if len(left) > 0 && time.Now().After(deadline) {
			require.FailNow(k.t, fmt.Sprintf("no recovery within %s from: %s", recoverWithin, left[0].what), "killed at %s; owners %v", left[0].at.Format(clock), k.log.owners())
		}
		after(k.t, look)
	}
}

func (k *trial) hasRecovered(f *fall) bool {
	for p, epoch := range f.epochs {
		if k.log.parts[p].epoch() == epoch {
			return false
		}
		delete(f.epochs, p)
	}
	for len(f.holds) > 0 {
		if !f.holds[0]() {
			return false
		}
		f.holds = f.holds[1:]
	}
	return true
}
