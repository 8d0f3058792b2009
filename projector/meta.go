package projector

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// meta is the data of a partition besides its rows. It holds counts so that nobody has to count rows.
type meta struct {
	Next int64
	Sum  events.Hash
	Runs []events.Run
	// Carries are where carries begin.
	Carries []events.CarryOffset
	Anchor  Anchor
	// Due and Wake count the tasks with such a row.
	Due, Wake int64
	Unplanned int64
	States    counts
	// Ready counts the rows of the queues by queue, and by do and undo.
	Ready counts
	// Waits counts what the steps wait for that are not in the queue.
	Waits counts
	// Live counts the tasks that have not ended, by workflow and state.
	Live counts
}

// clone returns a copy whose counts can be changed independently.
func (m *meta) clone() meta {
	c := *m
	c.States, c.Ready, c.Waits, c.Live = slices.Clone(m.States), slices.Clone(m.Ready), slices.Clone(m.Waits), slices.Clone(m.Live)
	return c
}

// count adds a task's keys to the counts n times; nil keys add nothing.
func (m *meta) count(k *events.Keys, n int64) {
	if k == nil {
		return
	}
	m.States.add(string(k.State), "", n)
	if !k.State.Ended() {
		m.Live.add(k.Workflow, string(k.State), n)
	}
	if k.Due != 0 {
		m.Due += n
	}
	if k.Wake != 0 {
		m.Wake += n
	}
	if k.Unplanned {
		m.Unplanned += n
	}
	for i := range k.Ready {
		m.Ready.add(k.Ready[i].Queue(), string(k.Ready[i].Operation), n)
	}
	for i := range k.Waits {
		m.Waits.add(string(k.Waits[i].Kind), "", n*int64(k.Waits[i].N))
	}
}

// sameCounts reports whether two sets of keys certainly add the same to the counts.
func sameCounts(a, b *events.Keys) bool {
	return a.State == b.State && a.Workflow == b.Workflow && (a.Due == 0) == (b.Due == 0) && (a.Wake == 0) == (b.Wake == 0) && a.Unplanned == b.Unplanned && slices.Equal(a.Ready, b.Ready) && slices.Equal(a.Waits, b.Waits)
}

func (m *meta) live() int64 {
	var n int64
	for _, c := range m.States {
		if !events.TaskState(c.name).Ended() {
			n += c.n
		}
	}
	return n
}

// counts are numbers by name and, of queues, do or undo, or, of workflows, the state of their tasks. They are sorted and without zeros, so
// that equal counts are equal slices. There are few of them, and each commit copies them.
type counts []count

type count struct {
	name string
	of   string
	n    int64
}

func (c *counts) add(name, of string, n int64) {
	i, found := slices.BinarySearchFunc(*c, count{name: name, of: of}, func(a, b count) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.of, b.of))
	})
	if !found {
		*c = slices.Insert(*c, i, count{name: name, of: of})
	}
	if (*c)[i].n += n; (*c)[i].n == 0 {
		*c = slices.Delete(*c, i, i+1)
	}
}

// countsOf adds the counts up by name.
func countsOf[K ~string](c counts) map[K]int64 {
	m := make(map[K]int64, len(c))
	for _, x := range c {
		m[K(x.name)] += x.n
	}
	return m
}

func (m *meta) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(m.Next))
	dst = binary.BigEndian.AppendUint64(dst, m.Sum.Hi)
	dst = binary.BigEndian.AppendUint64(dst, m.Sum.Lo)
	dst = binary.AppendUvarint(dst, uint64(len(m.Runs)))
	for i := range m.Runs {
		r := &m.Runs[i]
		dst = binary.AppendUvarint(dst, r.Epoch.N)
		dst = appendSized(dst, r.Epoch.ID)
		dst = binary.AppendUvarint(dst, r.Sequence)
		dst = binary.AppendUvarint(dst, uint64(r.Offset))
		dst = binary.AppendUvarint(dst, uint64(r.Count))
	}
	dst = binary.AppendUvarint(dst, uint64(len(m.Carries)))
	for i := range m.Carries {
		c := &m.Carries[i]
		dst = appendSized(binary.AppendUvarint(dst, c.Begun.Epoch.N), c.Begun.Epoch.ID)
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.Begun.Sequence), uint64(c.Offset))
	}
	dst = append(dst, m.Anchor.TopicID[:]...)
	dst = binary.AppendVarint(dst, m.Anchor.Offset)
	dst = binary.AppendVarint(dst, int64(m.Anchor.LeaderEpoch))
	dst = appendSized(dst, m.Anchor.Hash)
	dst = binary.AppendVarint(binary.AppendVarint(dst, m.Due), m.Wake)
	dst = binary.AppendVarint(dst, m.Unplanned)
	dst = m.States.append(dst)
	return m.Live.append(m.Waits.append(m.Ready.append(dst)))
}

func (c counts) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c)))
	for _, x := range c {
		dst = binary.AppendVarint(appendSized(appendSized(dst, x.name), x.of), x.n)
	}
	return dst
}

func appendSized(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// decodeMeta reads what append wrote.
func decodeMeta(b []byte) (m meta, err error) {
	r := metaReader{rest: b}
	m.Next = int64(r.unsigned())
	m.Sum = events.Hash{Hi: r.fixed(), Lo: r.fixed()}
	if n := r.count(); n > 0 {
		m.Runs = make([]events.Run, n)
	}
	for i := range m.Runs {
		m.Runs[i] = events.Run{Epoch: events.Epoch{N: r.unsigned(), ID: r.text()}, Sequence: r.unsigned(), Offset: int64(r.unsigned()), Count: int64(r.unsigned())}
	}
	if n := r.count(); n > 0 {
		m.Carries = make([]events.CarryOffset, n)
	}
	for i := range m.Carries {
		at := events.Position{Epoch: events.Epoch{N: r.unsigned(), ID: r.text()}, Sequence: r.unsigned()}
		m.Carries[i] = events.CarryOffset{Begun: at, Offset: int64(r.unsigned())}
	}
	copy(m.Anchor.TopicID[:], r.cut(len(m.Anchor.TopicID)))
	m.Anchor.Offset, m.Anchor.LeaderEpoch, m.Anchor.Hash = r.signed(), int32(r.signed()), r.text()
	m.Due, m.Wake, m.Unplanned = r.signed(), r.signed(), r.signed()
	m.States, m.Ready, m.Waits, m.Live = r.counts(), r.counts(), r.counts(), r.counts()
	if r.bad || len(r.rest) > 0 {
		return meta{}, fmt.Errorf("%w: the meta row of %d bytes cannot be decoded", ErrDamaged, len(b))
	}
	return m, nil
}

// metaReader cuts values from the front of a meta row. After the first value that it cannot read it returns zeros.
type metaReader struct {
	rest []byte
	bad  bool
}

func (r *metaReader) cut(n int) []byte {
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *metaReader) unsigned() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *metaReader) signed() int64 {
	v := r.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *metaReader) fixed() uint64 {
	if b := r.cut(intSize); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// count reads how many items follow. Each takes at least two bytes, so a damaged count cannot cause a larger allocation than the
// row could fill.
func (r *metaReader) count() int {
	n := r.unsigned()
	if n > uint64(len(r.rest)/2) {
		r.bad, r.rest = true, nil
		return 0
	}
	return int(n)
}

func (r *metaReader) text() string {
	n := r.unsigned()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return ""
	}
	return string(r.cut(int(n)))
}

// counts reads counts as they were written: sorted, without zeros.
func (r *metaReader) counts() counts {
	var c counts
	for range r.count() {
		name, of := r.text(), r.text()
		if n := r.signed(); n != 0 {
			c.add(name, of, n)
		}
	}
	if len(c) == 0 {
		return nil
	}
	return c
}
