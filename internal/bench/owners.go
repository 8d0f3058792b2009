package bench

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
)

// owners follows who writes each partition of events. The watcher shows it every record.
type owners struct {
	mu sync.Mutex
	of []owner
}

// owner is one partition.
type owner struct {
	// name is the node that wrote last, at that time.
	name string
	last int64
	// dead is when the node victim was killed, if a successor is awaited; claim and fact are when another node claimed
	// the partition, and when it wrote the first fact behind that.
	victim            string
	dead, claim, fact int64
}

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
		p.name = string(node)
	}
	p.last = now
}

// freshWithin is how new the last fact of a partition must be for it to count as at work.
const freshWithin = 2 * time.Second

// shared says that all partitions work, and each of the nodes has some.
func (o *owners) shared(w *watcher, nodes []string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := int64(time.Since(w.base))
	had := map[string]int{}
	for i := range o.of {
		if o.of[i].name == "" || now-o.of[i].last > int64(freshWithin) {
			return false
		}
		had[o.of[i].name]++
	}
	return !slices.ContainsFunc(nodes, func(n string) bool { return had[n] == 0 })
}

// await begins to wait for a successor in the partitions of a node that dies now, and returns them.
func (o *owners) await(victim string, now int64) (list []int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.of {
		p := &o.of[i]
		p.dead, p.claim, p.fact, p.victim = 0, 0, 0, victim
		if p.name == victim {
			p.dead = now
			list = append(list, int32(i))
		}
	}
	return list
}

// taken says that all of them work again.
func (o *owners) taken() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !slices.ContainsFunc(o.of, func(p owner) bool { return p.dead != 0 && p.fact == 0 })
}

// times returns how long each of them stood still, and how long nobody had claimed it.
func (o *owners) times() (toFact, toClaim []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.of {
		if p := &o.of[i]; p.dead != 0 {
			toFact = append(toFact, time.Duration(p.fact-p.dead))
			toClaim = append(toClaim, time.Duration(p.claim-p.dead))
		}
	}
	return toFact, toClaim
}
