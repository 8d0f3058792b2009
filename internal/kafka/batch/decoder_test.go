package batch

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

// FuzzADecoderShowsWhatTheClientReads: for any bytes, a Decoder shows the records that the client reads, and fails if the client fails. sums
// first puts the right checksums into the batches. If a record is unreadable although its batch has the right checksum, the two may differ,
// because a Decoder does not read records that nobody asked for.
func FuzzADecoderShowsWhatTheClientReads(f *testing.F) {
	for _, records := range []int{0, 1, 3, 40} {
		f.Add(batchOf(7, records), int64(0), int64(1000), true)
		f.Add(append(batchOf(0, 5), batchOf(5, records)...), int64(2), int64(6), true)
		f.Add(append(batchOf(0, 5), batchOf(9, records)[:50]...), int64(0), int64(-1), true)
	}
	f.Add(batchOf(7, 2), int64(0), int64(1000), false)
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.MaxDecompressBatchBytes(1<<20)) // dials nobody
	require.NoError(f, err)
	defer client.Close()
	unpack, err := UnpackerOf(client)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, in []byte, from, to int64, sums bool) {
		if sums {
			in = summed(in)
		}
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.RecordBatches = 3, in
		at := Position{Topic: "x", Partition: 3, Offset: from}
		want, next, wantErr := readAll(unpack, at, to, &p)
		whole := readable(&p, unpack)
		for _, reuse := range []bool{false, true} {
			var got []events.Record
			d := Decoder{Topic: "x", Partition: 3, Next: from, End: to, ReuseHeaders: reuse, Unpacker: unpack, Show: func(r *events.Record) error {
				kept := *r
				kept.Headers = slices.Clone(r.Headers)
				got = append(got, kept)
				return nil
			}}
			err := d.Decode(&p)
			if len(got) > 0 && wantErr != nil && len(got) == len(want) {
				err = wantErr // the client would report it at the next fetch
			}
			if !whole {
				continue // only checks that it does not fail
			}
			require.Equal(t, wantErr != nil, err != nil, "the Decoder says %v, the client says %v", err, wantErr)
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, tidy(want[i]), tidy(got[i]))
			}
			if err == nil && !d.Ended() {
				require.Equal(t, next, d.Next)
			}
		}
	})
}

// readAll reads as if the client had decoded everything. An error counts only if no record precedes it.
func readAll(unpack Unpacker, at Position, to int64, p *kmsg.FetchResponseTopicPartition) (list []events.Record, next int64, err error) {
	for {
		got, next, err := unpack.ByClient(p, at)
		if err != nil {
			return list, at.Offset, err
		}
		for _, r := range Records(got) {
			if r.Offset >= to {
				return list, r.Offset, nil
			}
			list = append(list, r)
		}
		if next <= at.Offset {
			return list, next, nil
		}
		at.Offset = next
	}
}

// readable says whether the client can read all records of all whole batches, and each record ends within its batch.
func readable(p *kmsg.FetchResponseTopicPartition, unpack Unpacker) bool {
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: math.MinInt64}, p, unpack.bounded, nil)
	records := got.Records
	for in := p.RecordBatches; ; {
		b, rest, ok := cut(in)
		if !ok {
			return got.Err == nil && len(records) == 0
		}
		n := int(b.Count())
		if n < 0 || n > len(records) || n > 0 && records[n-1].Offset > b.First()+int64(b.LastDelta()) {
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

// summed puts the right checksums into all bytes that can be cut into batches.
func summed(in []byte) []byte {
	out := slices.Clone(in)
	for rest := out; ; {
		_, after, ok := cut(rest)
		if !ok {
			return out
		}
		b := rest[:len(rest)-len(after)]
		binary.BigEndian.PutUint32(b[crcAt:], crc32.Checksum(b[checkedFrom:], castagnoli))
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
	b.Length = int32(headerSize - prefix + len(b.Records))
	return summed(b.AppendTo(nil))
}

var errStop = errors.New("stop")

// Decode returns an error of Show unchanged.
func TestDecodeReturnsTheErrorOfShow(t *testing.T) {
	t.Parallel()
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = batchOf(0, 5)
	d := Decoder{Topic: "x", End: 5, Show: func(r *events.Record) error {
		if r.Offset == 2 {
			return errStop
		}
		return nil
	}}
	require.Equal(t, errStop, d.Decode(&p))
}

// If any byte under the checksum has changed, Decode returns an error and shows no record of the batch.
func TestADecoderRejectsADamagedBatch(t *testing.T) {
	t.Parallel()
	good := append(batchOf(0, 3), batchOf(3, 4)...)
	for i := len(batchOf(0, 3)) + crcAt; i < len(good); i++ {
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = slices.Clone(good)
		p.RecordBatches[i] ^= 4
		seen := 0
		d := Decoder{Topic: "x", Unpacker: Unpacker{kgo.DefaultDecompressor()}, End: 7, Show: func(*events.Record) error { seen++; return nil }}
		require.Error(t, d.Decode(&p), "byte %d", i)
		require.Equal(t, 3, seen)
	}
}

// A batch that cannot be read, behind one that the client has to read, is not skipped: it is an error when it is read again.
func TestNothingUnreadableIsSkipped(t *testing.T) {
	t.Parallel()
	unusual, last := batchOf(0, 3), len(batchOf(0, 3))
	unusual[attributesAt+1] |= attributeAppendTime
	for name, damage := range map[string]func(batch []byte){
		"format": func(batch []byte) { batch[magicAt] = 9 },
		"sum":    func(batch []byte) { batch[crcAt]++ },
	} {
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = append(summed(unusual), batchOf(3, 1)...)
		damage(p.RecordBatches[last:])
		d := Decoder{Topic: "x", Unpacker: Unpacker{kgo.DefaultDecompressor()}, End: 4, Show: func(*events.Record) error { return nil }}
		require.NoError(t, d.Decode(&p), name)
		require.EqualValues(t, 3, d.Next, name)
		require.Error(t, d.Decode(&p), name)
		require.EqualValues(t, 3, d.Next, name)
	}
}

func BenchmarkDecoder(b *testing.B) {
	p := kmsg.NewFetchResponseTopicPartition()
	for i := range 20 {
		p.RecordBatches = append(p.RecordBatches, batchOf(int64(i)*50, 50)...)
	}
	decoder := func(reuse bool) *Decoder {
		show := func(*events.Record) error { return nil }
		return &Decoder{Topic: "x", End: 1000, Show: show, ReuseHeaders: reuse, Unpacker: Unpacker{kgo.DefaultDecompressor()}}
	}
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			d := decoder(false)
			if d.decodeByClient(&p) != nil || d.Next != 1000 {
				b.Fatal("not read")
			}
		}
	})
	for name, reuse := range map[string]bool{"kept": false, "reused": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				d := decoder(reuse)
				if d.Decode(&p) != nil || d.Next != 1000 {
					b.Fatal("not read")
				}
			}
		})
	}
}
