package batch

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A batch that is cut off has the first records, unchanged, and a header that fits.
func TestTheHeadOfABatch(t *testing.T) {
	t.Parallel()
	client, err := kgo.NewClient(kgo.MaxDecompressBatchBytes(1 << 20))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	unpack, err := UnpackerOf(client)
	require.NoError(t, err)
	read := func(b Batch) (list []events.Record) {
		d := &Decoder{Topic: "x", End: 1 << 40, Unpacker: unpack, Show: func(r *events.Record) error { list = append(list, *r); return nil }}
		require.NoError(t, d.Decode(&kmsg.FetchResponseTopicPartition{RecordBatches: b.Bytes()}))
		return list
	}
	for _, whole := range [][]byte{batchOf(7, 5), packed(t, batchOf(7, 5))} {
		b, err := Parse(whole)
		require.NoError(t, err)
		all := read(b)
		require.Len(t, all, 5)
		for end := b.First() + 1; end <= b.Next(); end++ {
			head, err := unpack.Head(b, end)
			require.NoError(t, err)
			again, err := Parse(head.Bytes())
			require.NoError(t, err, "the checksum holds")
			require.Equal(t, end, again.Next())
			require.Equal(t, all[:end-b.First()], read(again), end)
			require.Equal(t, int64(all[end-b.First()-1].Timestamp), again.MaxTime())
		}
		_, err = unpack.Head(b, b.First())
		require.Error(t, err)
	}
}

func TestEachBatchOfAnAnswer(t *testing.T) {
	t.Parallel()
	one := batchOf(7, 3)
	var got []int64
	require.NoError(t, Each(append(append([]byte{}, one...), one[:len(one)-1]...), 0, func(b Batch) bool { got = append(got, b.First()); return true }))
	require.Equal(t, []int64{7}, got, "what is cut off is not shown")
	require.NoError(t, Each(one, 10, func(Batch) bool { t.Error("it ends before 10"); return true }))
	damaged := append([]byte{}, one...)
	damaged[len(damaged)-1]++
	require.Error(t, Each(damaged, 0, func(Batch) bool { return true }))
}

// packed is a batch, compressed with gzip.
func packed(t *testing.T, in []byte) []byte {
	t.Helper()
	zip, err := kgo.DefaultCompressor(kgo.GzipCompression())
	require.NoError(t, err)
	records, codec := zip.Compress(new(bytes.Buffer), in[headerSize:])
	raw := append(append([]byte{}, in[:headerSize]...), records...)
	binary.BigEndian.PutUint32(raw[lengthAt:], uint32(len(raw)-prefix))
	binary.BigEndian.PutUint16(raw[attributesAt:], uint16(codec))
	return summed(raw)
}
