package batch

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrUnpacksTooLarge is the error that an Unpacker returns instead of kgo.ErrMaxDecompress. At that error the client stops the
// partition until its offset is set. If the fetches are restarted before the error is polled, the error is lost and the partition
// stops forever. An error that the client does not know is returned again by each fetch.
var ErrUnpacksTooLarge = errors.New("a batch unpacks to more than the limit")

// MaxRecords bounds the records of a compressed batch. A decoded record takes 400 bytes in addition to its contents, and the client
// decodes the whole batch at once. It is not smaller, because a batch of 2 MiB holds 84,000 of the smallest submissions.
const MaxRecords = 1 << 17

// Unpacker decompresses batches up to a limit of bytes and of records. It implements kgo.Decompressor.
type Unpacker struct{ bounded kgo.Decompressor }

// UnpackerOf takes the bounded decompressor of a client (kgo.MaxDecompressBatchBytes). The library offers no other way to get one.
func UnpackerOf(client *kgo.Client) (Unpacker, error) {
	d, ok := client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return Unpacker{}, errors.New("the kafka client has no decompressor")
	}
	return Unpacker{counting{d}}, nil
}

// counting refuses batches with too many records. The batch header holds the number, but a decompressor does not see the header, so
// this counts the records.
type counting struct{ kgo.Decompressor }

func (c counting) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := c.Decompressor.Decompress(src, codec)
	if err == nil && tooMany(out) {
		return nil, fmt.Errorf("%w: it holds more than %d records", kgo.ErrMaxDecompress, MaxRecords)
	}
	return out, err
}

// tooMany looks only at the lengths of the records. It leaves it to the client to report a wrong length.
func tooMany(records []byte) bool {
	for range MaxRecords {
		length, rest, ok := cutInt32(records)
		if !ok || length < 0 || length > int64(len(rest)) {
			return false
		}
		records = rest[length:]
	}
	return len(records) > 0
}

// Decompress implements kgo.Decompressor.
func (u Unpacker) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := u.bounded.Decompress(src, codec)
	if errors.Is(err, kgo.ErrMaxDecompress) {
		return nil, fmt.Errorf("%w: %s", ErrUnpacksTooLarge, err.Error())
	}
	return out, err
}
