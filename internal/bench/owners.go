package bench

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// owners follows who writes each partition of events, and what is due there. The watcher shows it every record. Times are
// those of the watcher and of the load: since the begin of the run.
type owners struct {
	mu sync.Mutex
	of []owner
}

// owner is one partition.
type owner struct {
	// name is the node that wrote last, at last; before since it was another one.
	name        string
	last, since int64
	// due is when the last task was due.
	due int64
	handover
}

// handover is how a partition goes to a successor. dead is when its owner victim was killed, 0 if that was another
// partition's; claim and fact are when another node claimed it, and when it wrote the first fact behind that; firstDue is
// when the first task was due behind dead.
type handover struct {
	victim                      string
	dead, claim, fact, firstDue int64
}

// worked tells whether a task waited when the successor claimed the partition. Where none did, the first fact tells when
// the next task was due, and nothing of the successor.
func (h *handover) worked() bool { return h.firstDue != 0 && h.firstDue <= h.claim }

func (o *owners) see(r *events.Record, now int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if int(r.Partition) >= len(o.of) {
		return
	}
	p := &o.of[r.Partition]
	source := header(r, events.HeaderSource)
	node := source[bytes.LastIndexByte(source, '/')+1:]
	claims := string(header(r, events.HeaderType)) == "sagalog.PartitionClaimed"
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

// submitted is told when a task was due, and where. It is told in the order of the dues.
func (o *owners) submitted(partition int32, due int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &o.of[partition]
	p.due = due
	if p.dead != 0 && p.firstDue == 0 && due >= p.dead {
		p.firstDue = due
	}
}

// freshWithin is how new the last fact of a partition must be for it to count as at work, if there was work.
const freshWithin = 2 * time.Second

// shared says that all partitions work, each of the nodes has some, and none has moved since then.
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

// await begins to wait for a successor in the partitions of a node that dies now, and returns them.
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

// taken says that all of them have a successor, which works where there is work.
func (o *owners) taken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(o.of, func(p owner) bool {
		return p.dead != 0 && (p.claim == 0 || p.fact == 0 && p.worked())
	})
}

// times returns how long nobody had claimed each of them, and how long those stood still where a task waited.
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
