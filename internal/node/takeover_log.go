package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sagalog/sagalog/events"
	"github.com/sagalog/sagalog/internal/api"
)

// takeoverLog keeps the latest take-overs of each partition, whichever nodes they concern: each node folds every claim. A claim gives owner, epoch
// and instant, even if it was made while this node was down. Why the earlier owner lost the partition, and for how long nobody owned it, is known
// only if this node was receiving heartbeats at the time.
//
// The take-overs of each partition are kept in a small file. An error of a file is logged and stops nothing.
type takeoverLog struct {
	dir string
	// topic is the ID of events: a file that was written for another log is ignored.
	topic string
	log   *slog.Logger
	// sign says why a node does not own a partition any more, and when it was last heard.
	sign func(node string, partition int32) (cause string, at time.Time)
	// ownVoids counts the void records that this node's shell of a partition has folded.
	ownVoids func(partition int32) uint64
	self     string
	// failed makes a file that could not be written appear in the log only once.
	failed sync.Once

	mu sync.Mutex // guards the fields below
	of map[int32]*takeovers
}

// takeovers are those of one partition.
type takeovers struct {
	Topic string `json:"topic"`
	// List is in the order of the log, with at most api.TakeOversKept entries.
	List []api.PastTakeOver `json:"takeovers"`
	// owner and epoch are those of the last claim.
	owner string
	epoch events.Epoch
	// last is N of the epoch of the last entry.
	last uint64
	// counts says that all void records since the last entry have been counted. voids is the number of those that this node folded as a
	// follower since then, and before is what ownVoids returned then.
	counts        bool
	voids, before uint64
	// said is what this node's shell knows of a take-over whose claim is not committed yet.
	said *api.TakeOver
}

// takeoverRecent bounds the age of a claim that the present heartbeats can explain. Older claims are read while the node catches up.
const takeoverRecent = 10 * time.Second

// openTakeovers connects the take-over log to the store.
func (n *Node) openTakeovers() error {
	l := &takeoverLog{
		dir: filepath.Join(n.cfg.Dir, "takeovers"), topic: fmt.Sprintf("%x", n.store.topic), log: n.cfg.Logger, sign: n.liveness.lastSign, self: n.cfg.Name,
		ownVoids: func(partition int32) uint64 { return n.owners.status(partition).Stats.Void }, of: map[int32]*takeovers{},
	}
	for p := range n.ns.partitions {
		owner, epoch, _, err := n.store.Partition(p).Claim()
		if err != nil {
			return err
		}
		l.begin(p, owner, epoch)
	}
	n.store.takeovers = l
	return nil
}

func (l *takeoverLog) path(partition int32) string {
	return filepath.Join(l.dir, strconv.Itoa(int(partition))+".json")
}

// begin reads the files that the previous process left. owner and epoch are those of the stored state.
func (l *takeoverLog) begin(partition int32, owner string, epoch events.Epoch) {
	t := &takeovers{}
	b, err := os.ReadFile(l.path(partition))
	if err == nil {
		err = json.Unmarshal(b, t)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.log.Warn("the file of the partition's take-overs cannot be read; starting a new one", "partition", partition, "error", err)
	}
	if err != nil || t.Topic != l.topic {
		t = &takeovers{Topic: l.topic}
	}
	if n := len(t.List); n > 0 {
		if last, err := events.ParseEpoch(t.List[n-1].Epoch); err == nil {
			t.last = last.N
		}
	}
	t.owner, t.epoch = owner, epoch
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[partition] = t
}

// mayClaim says whether a delta may contain a claim. Decoding every state of a partition would cost more than everything else here.
func (l *takeoverLog) mayClaim(d *events.Delta) bool {
	i := slices.IndexFunc(d.Parts, func(r events.PartRow) bool { return r.Kind == events.KindPartition })
	if i < 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[d.Partition]
	return t == nil || !bytes.Contains(d.Parts[i].Encoding, []byte(`"epoch":"`+t.epoch.String()+`"`))
}

// folded notes a claim, if the last one is not that of the state before.
func (l *takeoverLog) folded(partition int32, owner string, epoch events.Epoch, since events.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[partition]
	if t == nil || epoch == t.epoch {
		return
	}
	from := t.owner
	t.owner, t.epoch = owner, epoch
	if from == "" || from == owner || epoch.N <= t.last { // an older one is folded again after a reset
		return
	}
	l.count(partition, t, t.List)
	now := time.Now()
	entry := api.PastTakeOver{Owner: owner, From: from, Epoch: epoch.String(), At: since}
	t.counts, t.voids, t.before = true, 0, l.ownVoids(partition)
	switch {
	case t.said != nil && owner == l.self && t.said.From == from:
		entry.Cause, entry.Gap = t.said.Cause, &t.said.Gap
	case now.Sub(since.Time()) < takeoverRecent:
		entry.Cause, entry.Gap = l.judge(from, partition, now)
	}
	t.said, t.last = nil, epoch.N
	t.List = append(t.List, entry)
	t.List = slices.Clone(t.List[max(0, len(t.List)-api.TakeOversKept):])
	l.write(partition, t)
}

// judge explains a take-over by another node from the heartbeats, if possible. Nothing is known about an owner that was never heard. If the earlier
// owner lives, only its successor knows for how long nobody owned the partition.
func (l *takeoverLog) judge(from string, partition int32, now time.Time) (cause string, gap *events.Duration) {
	cause, at := l.sign(from, partition)
	if at.IsZero() {
		if cause == causeSilent {
			return "", nil
		}
		return cause, nil
	}
	d := events.Duration(max(0, now.Sub(at)).Round(time.Millisecond))
	return cause, &d
}

// tell completes the entry of a take-over by this node, which knows more than the heartbeats say.
func (l *takeoverLog) tell(partition int32, over api.TakeOver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[partition]
	if t == nil {
		return
	}
	if n := len(t.List); n > 0 && t.owner == l.self && t.List[n-1].Owner == l.self && t.List[n-1].From == over.From &&
		over.At.Sub(t.List[n-1].At) < takeoverRecent {
		t.List[n-1].Cause, t.List[n-1].Gap = over.Cause, &over.Gap
		l.write(partition, t)
		return
	}
	t.said = &over
}

// void counts void records.
func (l *takeoverLog) void(partition int32, n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.of[partition]; t != nil {
		t.voids += n
	}
}

// count sets the number of void records of the last entry, if it is known.
func (l *takeoverLog) count(partition int32, t *takeovers, list []api.PastTakeOver) {
	if n := len(list); n > 0 && t.counts {
		voids := t.voids + l.ownVoids(partition) - t.before
		list[n-1].Void = &voids
	}
}

// list returns the take-overs of a partition, the latest first.
func (l *takeoverLog) list(partition int32) []api.PastTakeOver {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[partition]
	if t == nil {
		return nil
	}
	list := slices.Clone(t.List)
	l.count(partition, t, list)
	slices.Reverse(list)
	return list
}

// write replaces the file of a partition.
func (l *takeoverLog) write(partition int32, t *takeovers) {
	b, err := json.Marshal(t)
	if err == nil {
		err = os.MkdirAll(l.dir, 0o700)
	}
	next := l.path(partition) + ".next"
	if err == nil {
		err = os.WriteFile(next, b, 0o600)
	}
	if err == nil {
		err = os.Rename(next, l.path(partition))
	}
	if err != nil {
		l.failed.Do(func() {
			l.log.Warn("the file of the partition's take-overs cannot be written; after a restart the latest ones will be missing", "partition", partition, "error", err)
		})
	}
}
