package kafka

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzAWalkShowsWhatTheClientReads: of any bytes, the walk shows the records that the client makes of them, and errs
// where the client does. sums puts the right checksum into the batches first. Where a record cannot be read although its
// batch has the right checksum, the two may differ: the walk looks into no record that nobody asked for.
func FuzzAWalkShowsWhatTheClientReads(f *testing.F) {
	for _, records := range []int{0, 1, 3, 40} {
		f.Add(batchOf(7, records), int64(0), int64(1000), true)
		f.Add(append(batchOf(0, 5), batchOf(5, records)...), int64(2), int64(6), true)
		f.Add(append(batchOf(0, 5), batchOf(9, records)[:50]...), int64(0), int64(-1), true)
	}
	f.Add(batchOf(7, 2), int64(0), int64(1000), false)
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.MaxDecompressBatchBytes(1<<20)) // dials nobody
	require.NoError(f, err)
	defer client.Close()
	unpack, err := unpackerOf(client)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, in []byte, from, to int64, sums bool) {
		if sums {
			in = summed(in)
		}
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.RecordBatches = 3, in
		at := fetchAt{topic: "x", partition: 3, offset: from, unpack: unpack}
		want, next, wantErr := readAll(at, to, &p)
		whole := readable(&p, at.unpack)
		for _, lent := range []bool{false, true} {
			var got []events.Record
			w := rangeWalk{at: at, next: from, to: to, lent: lent, show: func(r events.Record) error {
				r.Headers = slices.Clone(r.Headers)
				got = append(got, r)
				return nil
			}}
			err := w.answer(&p)
			if len(got) > 0 && wantErr != nil && len(got) == len(want) {
				err = wantErr // the client says it at the next fetch
			}
			if !whole {
				continue // nothing but that it ends well
			}
			require.Equal(t, wantErr != nil, err != nil, "%v, and the client %v", err, wantErr)
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, tidy(want[i]), tidy(got[i]))
			}
			if err == nil && !w.ended {
				require.Equal(t, next, w.next)
			}
		}
	})
}

// readAll reads as ReadRange did when the client read it all: an error is told where no record precedes it.
func readAll(at fetchAt, to int64, p *kmsg.FetchResponseTopicPartition) (list []events.Record, next int64, err error) {
	for {
		got, err := at.decode(p)
		if err != nil {
			return list, at.offset, err
		}
		for _, r := range fromKgo(got.records) {
			if r.Offset >= to {
				return list, r.Offset, nil
			}
			list = append(list, r)
		}
		if got.next <= at.offset {
			return list, got.next, nil
		}
		at.offset = got.next
	}
}

// readable says whether the client can read all records of all whole batches, and each lies where its batch says.
func readable(p *kmsg.FetchResponseTopicPartition, unpack unpacker) bool {
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: math.MinInt64}, p, unpack.bounded, nil)
	records := got.Records
	for in := p.RecordBatches; ; {
		b, rest, ok := cutBatch(in)
		if !ok {
			return got.Err == nil && len(records) == 0
		}
		n := int(b.count)
		if n < 0 || n > len(records) || n > 0 && records[n-1].Offset > b.base+int64(b.lastDelta) {
			return false
		}
		records, in = records[n:], rest
	}
}

func tidy(r events.Record) events.Record {
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	return r
}

// summed puts the right checksums into what can be cut into batches.
func summed(in []byte) []byte {
	out := slices.Clone(in)
	for rest := out; ; {
		_, after, ok := cutBatch(rest)
		if !ok {
			return out
		}
		b := rest[:len(rest)-len(after)]
		binary.BigEndian.PutUint32(b[batchCRCAt:], crc32.Checksum(b[batchChecked:], castagnoli))
		rest = after
	}
}

// batchOf returns a batch as a producer writes it.
func batchOf(first int64, records int) []byte {
	b := kmsg.RecordBatch{FirstOffset: first, PartitionLeaderEpoch: 4, Magic: 2, LastOffsetDelta: int32(max(records-1, 0)), NumRecords: int32(records), FirstTimestamp: 1_700_000_000_000}
	for i := range records {
		var body []byte
		body = append(body, 0)
		body = kbin.AppendVarlong(body, int64(i))
		body = kbin.AppendVarint(body, int32(i))
		body = kbin.AppendVarintBytes(body, []byte("key"))
		body = kbin.AppendVarintBytes(body, make([]byte, i*7))
		body = kbin.AppendVarint(body, int32(i%4))
		for range i % 4 {
			body = kbin.AppendVarintString(body, "name")
			body = kbin.AppendVarintBytes(body, []byte("value"))
		}
		b.Records = append(kbin.AppendVarint(b.Records, int32(len(body))), body...)
	}
	b.Length = int32(batchHead - batchLength + len(b.Records))
	return summed(b.AppendTo(nil))
}

var errStop = errors.New("stop")

// A walk that ends by an error of who looks returns that error as it is.
func TestAWalkReturnsTheErrorOfWhoLooks(t *testing.T) {
	t.Parallel()
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = batchOf(0, 5)
	w := rangeWalk{at: fetchAt{topic: "x"}, to: 5, show: func(r events.Record) error {
		if r.Offset == 2 {
			return errStop
		}
		return nil
	}}
	require.Equal(t, errStop, w.answer(&p))
}

// A byte that changed anywhere in what the checksum covers is an error, and no record of its batch is shown.
func TestAWalkRefusesADamagedBatch(t *testing.T) {
	t.Parallel()
	good := append(batchOf(0, 3), batchOf(3, 4)...)
	for i := len(batchOf(0, 3)) + batchCRCAt; i < len(good); i++ {
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = slices.Clone(good)
		p.RecordBatches[i] ^= 4
		seen := 0
		w := rangeWalk{at: fetchAt{topic: "x", unpack: unpacker{kgo.DefaultDecompressor()}}, to: 7, show: func(events.Record) error { seen++; return nil }}
		require.Error(t, w.answer(&p), "byte %d", i)
		require.Equal(t, 3, seen)
	}
}

func BenchmarkRange(b *testing.B) {
	p := kmsg.NewFetchResponseTopicPartition()
	for i := range 20 {
		p.RecordBatches = append(p.RecordBatches, batchOf(int64(i)*50, 50)...)
	}
	at := fetchAt{topic: "x", unpack: unpacker{kgo.DefaultDecompressor()}}
	show := func(events.Record) error { return nil }
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			w := rangeWalk{at: at, to: 1000, show: show}
			if w.byClient(&p) != nil || w.next != 1000 {
				b.Fatal("not read")
			}
		}
	})
	for name, lent := range map[string]bool{"kept": false, "lent": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				w := rangeWalk{at: at, to: 1000, show: show, lent: lent}
				if w.answer(&p) != nil || w.next != 1000 {
					b.Fatal("not read")
				}
			}
		})
	}
}
