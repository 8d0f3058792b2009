package batch

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A few kilobytes can unpack to a million records, and each takes 400 bytes once decoded.
func TestABatchOfTooManyRecordsIsNotUnpacked(t *testing.T) {
	t.Parallel()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.MaxDecompressBatchBytes(16<<20)) // dials nobody
	require.NoError(t, err)
	defer client.Close()
	unpack, err := UnpackerOf(client)
	require.NoError(t, err)
	zip, err := kgo.DefaultCompressor(kgo.GzipCompression())
	require.NoError(t, err)
	smallest := []byte{12, 0, 0, 0, 1, 1, 0} // length (6, as a varint), attributes, time, offset, no key, no value, no headers
	for records, refused := range map[int]bool{1: false, MaxRecords: false, MaxRecords + 1: true, 2_000_000: true} {
		raw := bytes.Repeat(smallest, records)
		packed, codec := zip.Compress(new(bytes.Buffer), raw)
		require.Less(t, len(packed), 100<<10)
		out, err := unpack.Decompress(packed, codec)
		_, clients := unpack.bounded.Decompress(packed, codec)
		if refused {
			require.ErrorIs(t, err, ErrUnpacksTooLarge, records)
			require.ErrorIs(t, clients, kgo.ErrMaxDecompress, "the client names the batch after this error")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, raw, out)
	}
}

func TestTheNumberOfRecordsIsCountedWhateverTheBytesAre(t *testing.T) {
	t.Parallel()
	for _, in := range [][]byte{nil, {1}, {0x80}, {255, 255, 255, 255, 255, 255}, {4, 0}, {2, 0, 200}} {
		require.False(t, tooMany(in), in)
	}
	require.True(t, tooMany(make([]byte, MaxRecords+1)), "records without a byte")
}
