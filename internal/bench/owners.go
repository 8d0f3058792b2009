package bench

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// owners tracks the writer of each partition of events, and the tasks that are due there. The watcher passes it every
// record. Times count from the start of the run, as in watcher and load.
type owners struct {
	mu sync.Mutex
	of []owner
}

// owner is one partition.
type owner struct {
	// name is the node that wrote last, at the time last. It has been the writer since the time since.
	name        string
	last, since int64
	// due is the time when the latest task was due.
	due int64
	handover
}

// handover is the move of a partition to a successor. dead is the time when its owner, victim, was killed, or 0 if the
// killed node did not own it. claim and fact are the times of the successor's claim and of the first fact after it.
// firstDue is the time when the first task after dead was due.
type handover struct {
	victim                      string
	dead, claim, fact, firstDue int64
}

// worked says whether a task was waiting when the successor claimed the partition. If not, the first fact shows when the next task was
// due, and nothing about the successor.
func (h *handover) worked() bool { return h.firstDue != 0 && h.firstDue <= h.claim }

func (o *owners) see(r *events.Record, now int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if int(r.Partition) >= len(o.of) {
		return
	}
	p := &o.of[r.Partition]
	source := r.HeaderBytes(events.HeaderSource)
	node := source[bytes.LastIndexByte(source, '/')+1:]
	claims := string(r.HeaderBytes(events.HeaderType)) == "sagalog.PartitionClaimed" // without a copy
	if p.dead != 0 && string(node) != p.victim {
		if claims && p.claim == 0 {
			p.claim = now
		} else if !claims && p.claim != 0 && p.fact == 0 {
			p.fact = now
		}
	}
	if p.name != string(node) {
		p.name, p.since = string(node), now
	}
	p.last = now
}

// submitted notes a task that was due in a partition. Calls come in the order of the due times.
func (o *owners) submitted(partition int32, due int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &o.of[partition]
	p.due = due
	if p.dead != 0 && p.firstDue == 0 && due >= p.dead {
		p.firstDue = due
	}
}

// freshWithin is the maximum age of the last fact of a working partition, if there is work.
const freshWithin = 2 * time.Second

// shared says that all partitions work, each node owns some, and none has moved since the given time.
func (o *owners) shared(nodes []string, now, then int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	had := map[string]int{}
	for i := range o.of {
		p := &o.of[i]
		stands := p.due > p.last && now-p.last > int64(freshWithin)
		if p.name == "" || stands || p.since > then {
			return false
		}
		had[p.name]++
	}
	return !slices.ContainsFunc(nodes, func(n string) bool { return had[n] == 0 })
}

// await marks the partitions of a node that is killed now, and returns them.
func (o *owners) await(victim string, now int64) (list []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.of {
		p := &o.of[i]
		p.handover = handover{victim: victim}
		if p.name == victim {
			p.dead = now
			list = append(list, int32(i))
		}
	}
	return list
}

// taken says that each partition has a successor, which works if there is work.
func (o *owners) taken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(o.of, func(p owner) bool {
		return p.dead != 0 && (p.claim == 0 || p.fact == 0 && p.worked())
	})
}

// times returns the time to the claim of each partition, and the time to the first fact of those in which a task was waiting.
func (o *owners) times() (toClaim, toFact []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.of {
		p := &o.of[i]
		if p.dead == 0 {
			continue
		}
		toClaim = append(toClaim, time.Duration(p.claim-p.dead))
		if p.worked() {
			toFact = append(toFact, time.Duration(p.fact-p.dead))
		}
	}
	return toClaim, toFact
}
