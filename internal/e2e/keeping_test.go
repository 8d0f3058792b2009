package e2e

import (
	"context"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// keeping is a system that keeps its log for a short time while tasks come and processes are killed. What it keeps must not grow with the time that it
// runs.
type keeping struct {
	t     *testing.T
	conn  *kafka.Cluster
	fleet *fleet
	// disk is the broker's directory, and stores are those of the nodes.
	disk   string
	stores []string
	// kill kills a process with kill -9, and starts it again.
	kill func()
	// api is any node.
	api *engine
	r   *rand.Rand

	kills int
	// begins are the first offsets of the log, and moved counts for each partition how often somebody saw another one.
	begins []int64
	moved  []int
	disks  []int64
}

// pace is how much comes, for how long, and for how long it is kept. In a short run the processes delete sooner than by themselves.
type pace struct {
	span, keepLog, remember, each, kill time.Duration
	rate                                float64
	// segment is how large the segments of topics are. A broker deletes whole ones.
	segment int64
	short   bool
}

// paced returns the pace of a run, which is short unless its time is given.
func paced(short time.Duration, segment int64) pace {
	p := pace{span: short, keepLog: 4 * time.Second, remember: 6 * time.Second, each: 5 * time.Second, kill: 6 * time.Second, rate: sized(*rateFlag, 20, 20), segment: segment, short: true}
	if *keepingFlag > 0 { // a node first looks for what it can delete a minute after its start, so most of them live for longer
		p = pace{span: *keepingFlag, keepLog: *keepLogFlag, remember: *keepLogFlag / 2, each: min(time.Minute, *keepingFlag/12), kill: 90 * time.Second, rate: sized(*rateFlag, 100, 100), segment: kafkaSegment}
	}
	return p
}

// prepare makes the program of a short run delete soon.
func (p pace) prepare(t *testing.T, e *engine) {
	t.Helper()
	if p.short {
		e.program = hooked(t)
		e.env = append(e.env, "SAGALOG_TEST_TRIM_EVERY=1s")
	}
}

// kafkaSegment is the least size of a segment that Apache Kafka takes, and partitions are those of the log.
const (
	kafkaSegment = 1 << 20
	partitions   = 2
)

// settle sets for how long the namespace keeps facts and tasks, and the size of the segments.
func (k *keeping) settle(p pace, brokers ...string) {
	k.t.Helper()
	code, out, errs := output(k.t, program("sagalog"), "namespace", "set", "--api", k.api.HTTP, "keep_log="+p.keepLog.String(), "remember_for="+p.remember.String())
	require.Zero(k.t, code, out+errs)
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	require.NoError(k.t, err)
	defer c.Close()
	size := strconv.FormatInt(p.segment, 10)
	names, err := k.conn.ListTopics(k.t.Context(), topics.Namespace+".")
	require.NoError(k.t, err)
	done, err := kadm.NewClient(c).AlterTopicConfigs(k.t.Context(), []kadm.AlterConfig{{Name: "segment.bytes", Value: &size}}, names...)
	require.NoError(k.t, err)
	for _, d := range done {
		require.NoError(k.t, d.Err, d.Name)
	}
}

// run kills processes until the time is over and each partition of the log was cut some times.
func (k *keeping) run(s *stream, p pace) {
	k.t.Helper()
	begun := time.Now()
	killAt, lookAt := begun.Add(p.kill), begun.Add(p.each)
	for time.Since(begun) < p.span || !k.cutOften() {
		require.Less(k.t, time.Since(begun), p.span+5*patience, "the log is not cut: its partitions begin at %v", k.begins)
		after(k.t, min(time.Until(killAt), time.Until(lookAt)))
		if now := time.Now(); now.After(killAt) {
			k.kill()
			k.kills++
			killAt = time.Now().Add(time.Duration((0.3 + 1.4*k.r.Float64()) * float64(p.kill)))
		}
		if time.Now().After(lookAt) {
			k.look(time.Since(begun), s)
			lookAt = lookAt.Add(p.each)
		}
	}
	k.t.Logf("%d kills in %s", k.kills, time.Since(begun).Round(time.Second))
}

// cutOften says whether somebody saw that each partition of the log began somewhere else, some times.
func (k *keeping) cutOften() bool { return k.moved != nil && slices.Min(k.moved) >= 3 }

// look prints how much is kept.
func (k *keeping) look(at time.Duration, s *stream) {
	k.t.Helper()
	begins, err := k.offsets(k.conn.StartOffset)
	if err != nil { // the broker was killed, and may not be back
		k.t.Logf("%6s: %v", at.Round(time.Second), err)
		return
	}
	ends, err := k.offsets(k.conn.EndOffset)
	if err != nil {
		k.t.Logf("%6s: %v", at.Round(time.Second), err)
		return
	}
	k.sees(begins)
	var kept, stores, live int64
	for p := range begins {
		kept += ends[p] - begins[p]
	}
	for _, dir := range k.stores {
		stores += onDisk(k.t, dir, "")
	}
	k.disks = append(k.disks, onDisk(k.t, k.disk, ""))
	if _, b, err := k.api.try("GET", "/v1/partitions", nil); err == nil {
		var list []partition
		_ = json.Unmarshal(b, &list)
		for _, p := range list {
			live += int64(p.Live)
		}
	}
	k.t.Logf("%6s: broker %6.1f MB, of which events %6.1f MB, stores %5.2f MB; %6d of %8d records of events, which begin at %v; %d submitted, %d of them live, %d kills", at.Round(time.Second),
		float64(k.disks[len(k.disks)-1])/1e6, float64(onDisk(k.t, k.disk, topics.Events()))/1e6, float64(stores)/1e6, kept, sum(ends), begins, s.submitted(), live, k.kills)
}

func sum(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}

// offsets asks for an offset of each partition of events.
func (k *keeping) offsets(ask func(ctx context.Context, topic string, p int32) (int64, error)) ([]int64, error) {
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	n, err := k.conn.Partitions(ctx, topics.Events())
	var list []int64
	for p := int32(0); p < n && err == nil; p++ {
		var at int64
		at, err = ask(ctx, topics.Events(), p)
		list = append(list, at)
	}
	return list, err
}

// sees takes note of where the log begins. It never begins earlier than before, whatever was killed.
func (k *keeping) sees(begins []int64) {
	k.t.Helper()
	if k.begins == nil {
		k.begins, k.moved = make([]int64, len(begins)), make([]int, len(begins))
	}
	for p, at := range begins {
		require.GreaterOrEqual(k.t, at, k.begins[p], "partition %d begins earlier than before", p)
		if at > k.begins[p] {
			k.moved[p]++
		}
	}
	k.begins = begins
}

// drained waits until everything is deleted that was decided before some offsets, and the segments that held it are gone from the disk. They must
// be of a time when tasks were still remembered: the facts that forget them come behind, and a log without new facts keeps its last carry. In a
// long run, the disk must not have grown either.
func (k *keeping) drained(p pace, decided []int64) {
	k.t.Helper()
	eventually(k.t, 3*patience, "the log is cut behind everything that was decided", func() bool {
		begins, err := k.offsets(k.conn.StartOffset)
		if err != nil {
			return false
		}
		k.sees(begins)
		for i := range begins {
			if begins[i] < decided[i] {
				return false
			}
		}
		return true
	})
	most := 2*partitions*p.segment + 1<<20 // of each partition the segment that is written to, and the one before until the broker looks
	eventually(k.t, 3*patience, "the broker deletes the segments", func() bool { return onDisk(k.t, k.disk, topics.Events()) <= most })
	k.t.Logf("at the end: broker %.1f MB, events %.1f MB; the log begins at %v, behind %d records", float64(onDisk(k.t, k.disk, ""))/1e6, float64(onDisk(k.t, k.disk, topics.Events()))/1e6, k.begins, sum(k.begins))
	if p.short {
		return
	}
	third := len(k.disks) / 3
	middle, last := k.disks[third:2*third], k.disks[2*third:]
	mean := sum(middle) / int64(len(middle))
	require.Less(k.t, slices.Max(last), mean*3/2, "the broker's disk grows: %v", k.disks)
	k.t.Logf("the broker's disk: %.1f MB on average in the middle third, at most %.1f MB in the last", float64(mean)/1e6, float64(slices.Max(last))/1e6)
}

// onDisk adds up what the files in a directory take of the disk, of those whose path contains a text.
func onDisk(t *testing.T, dir, part string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, part) {
			return nil // deleted meanwhile
		}
		if info, err := d.Info(); err == nil {
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	require.NoError(t, err)
	return n
}
